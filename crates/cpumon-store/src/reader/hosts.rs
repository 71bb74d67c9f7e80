//! Hosts of a store, by name or id, with the time range of their data; their boots, with the time line of each.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{BootId, ClockLine, ClockPiece, HostId, HostInfo, HostRef, Trust};
use rusqlite::{Connection, Row, params};

use super::Reader;
use super::build::key_of;
use super::chunks::{MAX_TRIED, first_readable};
use super::damage::ReadError;
use super::query::{BootSpan, HostRecord};
use crate::codec::meta::END_BOOT;
use crate::error::{At, Result, StoreError};
use crate::rows::{BootKey, BootRow, HostRow, all_rows, find_row, first, unsigned, value};

impl Reader {
    /// All hosts, by name. Their number is the receiver's to bound.
    pub fn hosts(&self) -> Result<Vec<HostRecord>> {
        self.read_hosts().at("list hosts", self.path())
    }

    /// The container or unit of each control group that a process was in, by its path.
    pub fn cgroup_containers(&self) -> Result<HashMap<Box<str>, Box<str>>> {
        let text =
            "SELECT DISTINCT cgroup, container FROM process_info WHERE cgroup <> '' AND container <> ''";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let pairs = all_rows(self.question(), text, [], read).at("read the containers of", self.path())?;
        Ok(pairs.into_iter().collect())
    }

    fn read_hosts(&self) -> rusqlite::Result<Vec<HostRecord>> {
        let text = "SELECT host.key, host.name, host.trust, boot.key, change.kernel, change.arch, change.agent,
                    change.source_reason, coalesce(change.cpu_count, 0), coalesce(change.interval_ns, 0), host.id
             FROM host
             LEFT JOIN host_change AS change ON change.rowid =
                 (SELECT max(rowid) FROM host_change WHERE host_id = host.id)
             LEFT JOIN boot ON boot.id = change.boot_id
             ORDER BY host.id";
        let mut hosts = all_rows(self.question(), text, [], |row| {
            let text = |at: usize| row.get::<_, Option<Box<str>>>(at).map(Option::unwrap_or_default);
            let bytes = |at: usize| row.get::<_, Option<Vec<u8>>>(at).map(Option::unwrap_or_default);
            let info = HostInfo {
                host: HostId(key_of(&bytes(0)?)),
                boot: BootId(key_of(&bytes(3)?)),
                hostname: text(1)?,
                kernel: text(4)?,
                arch: text(5)?,
                agent: text(6)?,
                source_reason: text(7)?,
                cpu_count: row.get(8)?,
                interval_ns: unsigned(row, 9)?,
            };
            let (first_wall_ns, last_wall_ns) = self.host_span(row.get(10)?)?;
            Ok(HostRecord { info, trust: Trust::from_name(&text(2)?), first_wall_ns, last_wall_ns })
        })?;
        // Not by SQLite, whose sorter has no limit.
        hosts.sort_by(|one, other| one.info.hostname.cmp(&other.info.hostname));
        Ok(hosts)
    }

    /// End of the first and of the last interval of a host.
    pub(super) fn host_span(&self, host: HostRow) -> rusqlite::Result<(Option<i64>, Option<i64>)> {
        self.connection
            .prepare_cached(
                "SELECT
                   (SELECT min(e) FROM (
                     SELECT min(end_wall_ns) AS e FROM interval WHERE host_id = ?1
                     UNION ALL SELECT * FROM (SELECT first_end_wall_ns FROM chunk WHERE host_id = ?1
                                              ORDER BY last_end_wall_ns LIMIT 1))),
                   (SELECT max(e) FROM (
                     SELECT max(end_wall_ns) AS e FROM interval WHERE host_id = ?1
                     UNION ALL SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1))",
            )?
            .query_row(params![host], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// End of the first and of the last interval of a host; `None` if it has none.
    pub fn time_range(&self, host: HostId) -> Result<Option<(i64, i64)>> {
        let Some(host) = self.host_row(host)? else { return Ok(None) };
        let (first, last) = self.host_span(host).at("find the time range", self.path())?;
        Ok(first.zip(last))
    }

    /// The boots of a host that have intervals, by their first one.
    pub fn boots(&self, host: HostId) -> Result<Vec<BootSpan>> {
        let Some(host) = self.host_row(host)? else { return Ok(Vec::new()) };
        self.read_boots(host).at("list the boots of", self.path())
    }

    fn read_boots(&self, host: HostRow) -> rusqlite::Result<Vec<BootSpan>> {
        let connection = self.question();
        let text = "SELECT boot_id, min(end_wall_ns), max(end_wall_ns)
             FROM interval WHERE host_id = ?1 GROUP BY boot_id
             UNION ALL SELECT boot_id, min(first_end_wall_ns), max(last_end_wall_ns)
             FROM chunk WHERE host_id = ?1 GROUP BY boot_id";
        let spans = all_rows(connection, text, [host], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut by_boot: BTreeMap<BootRow, (i64, i64)> = BTreeMap::new();
        for (boot, first, last) in spans {
            let span = by_boot.entry(boot).or_insert((first, last));
            *span = (span.0.min(first), span.1.max(last));
        }
        let text = "SELECT key, (SELECT name FROM host_change WHERE host_id = ?1 AND boot_id = ?2
                                 ORDER BY rowid DESC LIMIT 1)
             FROM boot WHERE id = ?2";
        let mut boots = Vec::new();
        for (boot, (first_wall_ns, last_wall_ns)) in by_boot {
            boots.extend(find_row(connection, text, params![host, boot], |row| {
                let boot = BootId(key_of(&row.get::<_, Vec<u8>>(0)?));
                let hostname = row.get::<_, Option<Box<str>>>(1)?.unwrap_or_default();
                Ok(BootSpan { boot, hostname, first_wall_ns, last_wall_ns })
            })?);
        }
        boots.sort_by_key(|boot| boot.first_wall_ns);
        Ok(boots)
    }

    /// The host of this id (32 hexadecimal digits, or enough of the first ones to be the only host), or the most trusted one of
    /// this name, or the only one whose name begins so. A text that parses as an id is no name: a host could be named after
    /// another one's id.
    ///
    /// # Errors
    /// [`StoreError::UnknownHost`] and [`StoreError::AmbiguousHost`] list what there is.
    pub fn find_host(&self, wanted: &str) -> Result<HostRecord> {
        match self.find_named_host(wanted) {
            Err(unknown @ StoreError::UnknownHost { .. }) if may_begin_a_name(wanted) => {
                let mut hosts = self.hosts()?;
                hosts.retain(|host| host.info.hostname.starts_with(wanted));
                if hosts.is_empty() { Err(unknown) } else { only_one(hosts, wanted) }
            }
            found => found,
        }
    }

    /// As [`Reader::find_host`], but not by the beginning of a name.
    fn find_named_host(&self, wanted: &str) -> Result<HostRecord> {
        let mut hosts = self.hosts()?;
        let meant = meant_by(wanted, &hosts);
        // A name goes before the first digits of an id: a host may be named like those.
        let is_known = hosts.iter().any(|host| meant.is(&host.info, host.trust));
        let digits: String = wanted.chars().filter(|&c| c != '-').map(|c| c.to_ascii_lowercase()).collect();
        // Before `retain`, because the error lists all hosts there are.
        let listed = names_of(&hosts);
        hosts.retain(|host| {
            let begins_so = || digits.len() >= 4 && host.info.host.to_string().starts_with(&digits);
            if is_known { meant.is(&host.info, host.trust) } else { begins_so() }
        });
        if hosts.is_empty() {
            return Err(StoreError::UnknownHost { wanted: wanted.to_owned(), known: listed });
        }
        only_one(hosts, wanted)
    }

    /// [`Reader::find_host`] by id or whole name, but of several hosts with this name none is meant: for what cannot be undone.
    ///
    /// # Errors
    /// The same.
    pub fn find_only_host(&self, wanted: &str) -> Result<HostRecord> {
        let found = self.find_named_host(wanted)?;
        let mut named = self.hosts()?;
        named.retain(|host| &*host.info.hostname == wanted);
        if named.len() > 1 && wanted.parse::<HostId>().is_err() {
            return only_one(named, wanted);
        }
        Ok(found)
    }
}

/// Whether a text may be the start of a name: an id is no name.
fn may_begin_a_name(wanted: &str) -> bool {
    !wanted.is_empty() && wanted.parse::<HostId>().is_err()
}

pub(crate) fn meant_by<'a>(wanted: &'a str, hosts: &[HostRecord]) -> HostRef<'a> {
    HostRef::new(wanted, hosts.iter().map(|host| (&host.info, host.trust)))
}

/// The host that is found; an error if there are several.
fn only_one(mut hosts: Vec<HostRecord>, wanted: &str) -> Result<HostRecord> {
    match hosts.pop() {
        Some(host) if hosts.is_empty() => Ok(host),
        last => {
            hosts.extend(last);
            Err(StoreError::AmbiguousHost { wanted: wanted.to_owned(), known: names_of(&hosts) })
        }
    }
}

/// Names (escaped: they come from other machines) and ids, at most twenty.
fn names_of(hosts: &[HostRecord]) -> String {
    const SHOWN: usize = 20;
    let name =
        |host: &HostRecord| format!("{} ({})", cpumon_model::escape(&host.info.hostname), host.info.host);
    let mut names: Vec<String> = hosts.iter().take(SHOWN).map(name).collect();
    if hosts.len() > SHOWN {
        names.push(format!("and {} more", hosts.len() - SHOWN));
    }
    names.join(", ")
}

impl Reader {
    /// How a boot's intervals were placed, and up to where. Empty for a boot that is not known.
    pub fn clock_line(&self, host: HostId, boot: BootId) -> Result<ClockLine> {
        let Some(host_row) = self.host_row(host)? else { return Ok(ClockLine::default()) };
        read_line(self.question(), host_row, boot).map_err(|error| self.read_error(error))
    }
}

fn read_line(
    connection: &Connection,
    host: HostRow,
    boot: BootId,
) -> std::result::Result<ClockLine, ReadError> {
    let text = "SELECT id FROM boot WHERE host_id = ?1 AND key = ?2";
    let found: Option<BootRow> = find_row(connection, text, params![host, boot.0], first)?;
    let Some(boot) = found else { return Ok(ClockLine::default()) };
    let text = "SELECT from_boot_ns, before_ns, anchor_ns, tolerance_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns";
    let pieces = all_rows(connection, text, [boot], |row| {
        Ok(ClockPiece {
            from_boot_ns: row.get(0)?,
            before_ns: row.get(1)?,
            anchor_ns: row.get(2)?,
            tolerance_ns: row.get(3)?,
        })
    })?;
    Ok(ClockLine::recall(pieces, newest_boot_ns(connection, BootKey { host, boot })?))
}

/// The latest end of a boot, since boot. The newest chunk is read too: late intervals can be fresh while newer ones are not.
fn newest_boot_ns(connection: &Connection, key: BootKey) -> std::result::Result<Option<i64>, ReadError> {
    let text = "SELECT max(end_boot_ns) FROM interval WHERE host_id = ?1 AND boot_id = ?2";
    let fresh: Option<i64> = value(connection, text, params![key.host, key.boot])?;
    let text =
        "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 ORDER BY last_end_wall_ns DESC LIMIT ?3";
    let ids = all_rows(connection, text, params![key.host, key.boot, MAX_TRIED], first)?;
    let chunk = first_readable(connection, ids)?;
    Ok(chunk.metas.iter().map(|row| row[END_BOOT]).chain(fresh).max())
}
