//! The sweep: deletes hosts, boots and descriptions that nothing refers to any more, and names that nothing uses, a range of ids at a time.
//! Senders who change their id, boot or name all the time would otherwise fill the file with them. And the names of boots that are gone:
//! when a user removes a host, nothing shall stay that names its processes.

use std::collections::HashSet;

use rusqlite::{Connection, Result as Sql, Row, params};

use super::age::AgeTimes;
use super::delete::delete_host;
use super::merge_names::rewrite_block;
use super::naming::{Gone, GoneIds, TaskIds};
use crate::names::{self, Block, NameRow, ProcessName, ThreadName, block_around, row_of};
use crate::rows::{
    BootRow, ByRange, HostRow, IdRange, all_rows, count, execute, first, keep_last_id, signed, value,
};
use crate::sums::Resolution;

/// Ids of names checked in one transaction, and of names of boots that are gone, which are read one by one.
const NAMES_AT_ONCE: i64 = 20_000;
const PURGED_AT_ONCE: i64 = 5_000;
/// Ids of hosts or boots checked in one transaction.
const IDS_AT_ONCE: i64 = 1_000;
/// Boots of a host without samples, and changes of its description, that stay at most: the newest ones.
const MOST_OF_A_HOST: i64 = 100;
/// Time from the end of one sweep to the start of the next.
const SWEEP_EVERY_NS: i64 = 600_000_000_000;
/// A name's `last_s` may be this much older than its last use: it is moved on once an hour, at compaction, and intervals may
/// wait an hour for that.
const LAST_SEEN_SLACK_S: i64 = 2 * 3600;

/// Rules for the names that go, of rows and of blocks. Threads are named by samples only (`?3`: the oldest sample).
const THREAD_RULES: [&str; 2] = ["last_s < ?3 OR last_s < ?4"; 2];
/// Processes are named by sums too (`?4`: the oldest of both), unless they were short-lived: these are taken out of blocks on their own.
/// Rows of boot 0 represent the short-lived processes in sums, and have no `last_s`.
const PROCESS_RULES: [&str; 2] =
    ["boot_id <> 0 AND ((is_short AND last_s < ?3) OR last_s < ?4)", "last_s < min(?3, ?4)"];

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Resting,
    /// Hosts with an id above this one.
    Hosts(i64),
    /// Boots with an id above this one.
    Boots(i64),
    /// Names of a range with an id above this one.
    Names(IdRange, i64, Oldest),
}

#[derive(Debug, Default)]
pub(super) struct Sweep {
    next_ns: i64,
    phase: Phase,
    pruned_processes: i64,
}

#[derive(Copy, Clone)]
pub(super) struct SweepLimits<'a> {
    pub(super) times: AgeTimes,
    /// Samples and gaps from before may go; `None`: never by age.
    pub(super) samples_ns: Option<i64>,
    pub(super) zstd_level: i32,
    /// Receipt of the oldest interval that waits for compaction.
    pub(super) oldest_fresh_ns: &'a dyn Fn() -> Option<i64>,
}

#[derive(Debug)]
pub(super) struct SweepStep {
    pub(super) is_done: bool,
    /// Rows that the caller must forget once it is committed.
    pub(super) gone: Gone,
}

impl From<Gone> for SweepStep {
    fn from(gone: Gone) -> Self {
        Self { is_done: false, gone }
    }
}

impl Sweep {
    /// Whether a sweep is due or under way.
    pub(super) fn is_due(&self, running_ns: i64) -> bool {
        !self.is_resting() || running_ns >= self.next_ns
    }

    /// Whether the next step is the first one of a sweep.
    pub(super) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    pub(super) fn step(
        &mut self,
        connection: &Connection,
        last: &ByRange<TaskIds>,
        limits: &SweepLimits<'_>,
    ) -> Sql<SweepStep> {
        let mut gone = Gone::default();
        self.phase = match self.phase {
            Phase::Resting => Phase::Hosts(0),
            Phase::Hosts(from) => {
                gone.hosts = prune_hosts(connection, from, limits.samples_ns.unwrap_or(i64::MIN))?;
                next_ids(connection, "host", from)?.map_or(Phase::Boots(0), Phase::Hosts)
            }
            Phase::Boots(from) => {
                gone.boots = prune_boots(connection, from)?;
                if let Some(next) = next_ids(connection, "boot", from)? {
                    Phase::Boots(next)
                } else {
                    gone.boots.extend(prune_excess(connection)?);
                    names_of(connection, IdRange::Trusted, limits)?
                }
            }
            Phase::Names(range, from, oldest) => {
                self.pruned_processes += prune_names(connection, from, oldest, limits.zstd_level, &mut gone)?;
                let to = from + NAMES_AT_ONCE;
                let is_last = to.cast_unsigned() >= last[range].thread.max(last[range].process);
                match range {
                    _ if !is_last => Phase::Names(range, to, oldest),
                    IdRange::Trusted => names_of(connection, IdRange::Unauthenticated, limits)?,
                    IdRange::Unauthenticated => Phase::Resting,
                }
            }
        };
        let is_done = self.is_resting();
        if is_done {
            self.next_ns = limits.times.running_ns.saturating_add(SWEEP_EVERY_NS);
            if std::mem::take(&mut self.pruned_processes) > 0 {
                prune_infos(connection)?;
                gone.infos = true;
            }
        }
        Ok(SweepStep { is_done, gone })
    }
}

/// Where the next range of ids begins; `None`: there are none above this one.
fn next_ids(connection: &Connection, table: &str, from: i64) -> Sql<Option<i64>> {
    let last: Option<i64> = value(connection, &format!("SELECT max(id) FROM {table}"), [])?;
    let next = from + IDS_AT_ONCE;
    Ok(last.filter(|last| *last > next).map(|_| next))
}

/// The phase that begins with the first name of a range.
fn names_of(connection: &Connection, range: IdRange, limits: &SweepLimits<'_>) -> Sql<Phase> {
    // Intervals wait longer than usual for compaction while a disk is full or too slow. Their names are as old as they are.
    let newest_ns =
        (limits.oldest_fresh_ns)().map_or(limits.times.age_ns, |fresh| fresh.min(limits.times.age_ns));
    let samples_s = oldest_sample_s(connection, range, newest_ns)? - LAST_SEEN_SLACK_S;
    let sums_s = oldest_sum_s(connection)?.map_or(samples_s, |sums| sums.min(samples_s));
    Ok(Phase::Names(range, range.after(), Oldest { samples_s, sums_s }))
}

/// Deletes descriptions that no process has. Reads whole tables, so it runs only after processes went.
pub(super) fn prune_infos(connection: &Connection) -> Sql<()> {
    for text in [
        "DELETE FROM process_block_info WHERE first_id NOT IN (SELECT first_id FROM process_block)",
        "DELETE FROM process_info WHERE id NOT IN
             (SELECT info_id FROM process UNION ALL SELECT info_id FROM process_block_info)",
    ] {
        connection.execute(text, [])?;
    }
    Ok(())
}

/// Receipt of the oldest compacted sample whose tasks have ids of a range, s since the epoch; `newest_ns` if there is no older one.
fn oldest_sample_s(connection: &Connection, range: IdRange, newest_ns: i64) -> Sql<i64> {
    // A chunk's last receipt can be this much after its first: the time it took to fill, bounded by the age of partial ones.
    const CHUNK_SLACK_NS: i64 = 24 * 3_600_000_000_000;
    // Before version 10 (0), all names were of the first range.
    let text = "SELECT min(last_received_wall_ns) FROM chunk INDEXED BY chunk_host WHERE (trust = 1) = ?1";
    let oldest: Option<i64> = value(connection, text, [range == IdRange::Unauthenticated])?;
    Ok(oldest.map_or(newest_ns, |oldest| oldest.min(newest_ns)).saturating_sub(CHUNK_SLACK_NS)
        / 1_000_000_000)
}

/// Start of the oldest stored sum, s since the epoch on its host's clock; `None` if there is none.
fn oldest_sum_s(connection: &Connection) -> Sql<Option<i64>> {
    let mut begins = Vec::new();
    for resolution in Resolution::ALL {
        let name = resolution.name();
        let oldest: Option<i64> = value(connection, &format!("SELECT min({name}) FROM host_{name}"), [])?;
        begins.extend(oldest.map(|bucket| bucket.saturating_mul(resolution.length_ns() / 1_000_000_000)));
    }
    Ok(begins.into_iter().min())
}

/// Age of the data that names can be used by, s since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Oldest {
    /// When the oldest sample was received.
    samples_s: i64,
    /// Start of the oldest sum, or that receipt if it is older.
    sums_s: i64,
}

/// Deletes unused names among the ids after `from`. Returns how many of processes.
fn prune_names(connection: &Connection, from: i64, oldest: Oldest, level: i32, gone: &mut Gone) -> Sql<i64> {
    prune::<ThreadName>(connection, from, THREAD_RULES, oldest, &mut gone.threads)?;
    let pruned = prune::<ProcessName>(connection, from, PROCESS_RULES, oldest, &mut gone.processes)?;
    // Of blocks that no sample needs any more, only sums.
    let which = format!("has_short AND last_s < {}", oldest.samples_s);
    let ids = [from, from + NAMES_AT_ONCE];
    let short = rewrite_blocks(connection, ids, &which, level, &mut |name: &ProcessName| Ok(!name.is_short))?;
    Ok(pruned + count_names(connection, "process", short)?)
}

/// Deletes rows and blocks of unused names. Returns how many names.
fn prune<N: NameRow>(
    connection: &Connection,
    from: i64,
    [of_rows, of_blocks]: [&str; 2],
    oldest: Oldest,
    gone: &mut GoneIds,
) -> Sql<i64> {
    let table = N::TABLE;
    let range = params![from, from + NAMES_AT_ONCE, oldest.samples_s, oldest.sums_s];
    let text = format!("DELETE FROM {table} WHERE id > ?1 AND id <= ?2 AND ({of_rows}) RETURNING id");
    let rows: Vec<i64> = all_rows(connection, &text, range, first)?;
    let row_count = signed(rows.len());
    gone.add_rows(rows);
    let text = format!(
        "DELETE FROM {table}_block WHERE first_id > ?1 AND first_id <= ?2 AND ({of_blocks})
         RETURNING first_id, last_id, count"
    );
    let read = |row: &Row<'_>| Ok(([row.get(0)?, row.get(1)?], row.get::<_, i64>(2)?));
    let (blocks, counts): (Vec<[i64; 2]>, Vec<i64>) =
        all_rows(connection, &text, range, read)?.into_iter().unzip();
    // A task that was seen again after its name went into a block has a row, too.
    let text = format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2");
    let mut stay = Vec::new();
    for block in &blocks {
        stay.extend(all_rows::<i64>(connection, &text, *block, first)?);
    }
    gone.add_blocks(blocks, stay);
    count_names(connection, table, row_count + counts.into_iter().sum::<i64>())
}

/// Adds deleted names to the counter of their table.
fn count_names(connection: &Connection, table: &str, gone: i64) -> Sql<i64> {
    count(connection, &format!("retired_{table}_names"), gone)?;
    Ok(gone)
}

/// Takes the names that do not stay out of the blocks that begin among some ids and meet a condition. Returns how many went.
fn rewrite_blocks<N: NameRow>(
    connection: &Connection,
    ids: [i64; 2],
    which: &str,
    level: i32,
    stays: &mut dyn FnMut(&N) -> Sql<bool>,
) -> Sql<i64> {
    let text =
        format!("SELECT first_id FROM {}_block WHERE first_id > ?1 AND first_id <= ?2 AND {which}", N::TABLE);
    let mut gone = 0;
    for first_id in all_rows::<i64>(connection, &text, ids, first)? {
        let Some(block) = block_around::<N>(connection, first_id.cast_unsigned())? else { continue };
        if block.lost > 0 {
            let Block { first_id, last_id, .. } = block;
            log::warn!(
                "{} names {first_id} to {last_id} are damaged; `cpumon store check` finds all damage",
                N::TABLE
            );
        }
        let mut names = Vec::with_capacity(block.names.len());
        for name in &block.names {
            if stays(name)? {
                names.push(*name);
            }
        }
        let went = block.names.len() - names.len();
        // A damaged block has no names, and stays as it is.
        if went > 0 {
            rewrite_block(connection, &Block { names, ..block }, level)?;
        }
        gone += signed(went);
    }
    Ok(gone)
}

/// How far the names of boots that are gone were deleted.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Purge {
    /// Number in [`Purge::STEPS`].
    at: usize,
    /// Ids of its range up to this are done.
    from: i64,
}

impl Purge {
    /// Whether it is the threads of a range: after the processes, because the owner of a thread follows from its process.
    const STEPS: [(bool, IdRange); 4] = [
        (false, IdRange::Trusted),
        (false, IdRange::Unauthenticated),
        (true, IdRange::Trusted),
        (true, IdRange::Unauthenticated),
    ];

    /// Checks the next ids. Returns the next step; `None`: all are done.
    pub(super) fn step(
        self,
        connection: &Connection,
        last: &ByRange<TaskIds>,
        level: i32,
    ) -> Sql<Option<Self>> {
        let Some((is_at_threads, range)) = Self::STEPS.get(self.at).copied() else { return Ok(None) };
        let from = self.from.max(range.after());
        let ids = [from, from + PURGED_AT_ONCE];
        let last = if is_at_threads {
            let mut block = None;
            purge(connection, ids, level, &mut |name: &ThreadName| {
                Ok(names::find::<ProcessName>(connection, name.process_id, &mut block)?.is_some())
            })?;
            last[range].thread
        } else {
            let boots: Vec<i64> = all_rows(connection, "SELECT id FROM boot", [], first)?;
            // Boot 0 marks rows that represent the short-lived processes of all hosts.
            let boots: HashSet<i64> = boots.into_iter().chain([0]).collect();
            purge(connection, ids, level, &mut |name: &ProcessName| Ok(boots.contains(&name.boot_id)))?;
            last[range].process
        };
        let at = self.at + 1;
        let next =
            if ids[1].cast_unsigned() < last { Self { from: ids[1], ..self } } else { Self { at, from: 0 } };
        Ok((next.at < Self::STEPS.len()).then_some(next))
    }
}

/// Deletes the names among some ids that do not stay: rows, and those in blocks that begin there.
fn purge<N: NameRow>(
    connection: &Connection,
    ids: [i64; 2],
    level: i32,
    stays: &mut dyn FnMut(&N) -> Sql<bool>,
) -> Sql<()> {
    let table = N::TABLE;
    let text = format!("SELECT id FROM {table} WHERE id > ?1 AND id <= ?2");
    for id in all_rows::<i64>(connection, &text, ids, first)? {
        if let Some(name) = row_of::<N>(connection, id.cast_unsigned())?
            && !stays(&name)?
        {
            execute(connection, &format!("DELETE FROM {table} WHERE id = ?1"), [id])?;
        }
    }
    rewrite_blocks(connection, ids, "TRUE", level, stays).map(drop)
}

/// Deletes hosts with an id after `from` that have no data left; gaps count until they end before `gaps_until_ns`. Enrolled hosts stay
/// known, and so does this machine.
fn prune_hosts(connection: &Connection, from: i64, gaps_until_ns: i64) -> Sql<Vec<HostRow>> {
    let text = "SELECT id FROM host WHERE id > ?1 AND id <= ?2 AND trust NOT IN ('local', 'authenticated')
             AND NOT EXISTS (SELECT 1 FROM interval WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM chunk WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM host_minute WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM host_hour WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM gap WHERE host_id = host.id AND end_wall_ns >= ?3)";
    let hosts: Vec<HostRow> = all_rows(connection, text, [from, from + IDS_AT_ONCE, gaps_until_ns], first)?;
    for host in &hosts {
        while !delete_host(connection, *host)? {}
    }
    Ok(hosts)
}

/// Deletes boots with an id after `from` that have no samples and can have no sums: a later boot began before the host's oldest sum. One
/// that seems to have begun before the boot in question does not count: its clock is behind.
fn prune_boots(connection: &Connection, from: i64) -> Sql<Vec<BootRow>> {
    let text = format!(
        "DELETE FROM boot WHERE id > ?1 AND id <= ?2 AND {WITHOUT_SAMPLES} AND
             coalesce((SELECT min(hour) FROM host_hour WHERE host_id = boot.host_id) * 3600000000000, ?3)
             >= coalesce((SELECT min(later.since_wall_ns) FROM host_change AS later
                          WHERE later.host_id = boot.host_id AND later.boot_id > boot.id AND later.since_wall_ns >=
                              coalesce((SELECT min(since_wall_ns) FROM host_change
                                        WHERE host_id = boot.host_id AND boot_id = boot.id), later.since_wall_ns)), ?4)
         RETURNING id"
    );
    keep_last_id(connection, "boot")?;
    all_rows(connection, &text, [from, from + IDS_AT_ONCE, i64::MAX - 1, i64::MAX], first)
}

/// SQL: that a row of `boot` has no samples.
const WITHOUT_SAMPLES: &str =
    "NOT EXISTS (SELECT 1 FROM interval WHERE host_id = boot.host_id AND boot_id = boot.id)
     AND NOT EXISTS (SELECT 1 FROM chunk WHERE host_id = boot.host_id AND boot_id = boot.id)";

/// Deletes boots without samples and changes of descriptions beyond the newest [`MOST_OF_A_HOST`] of each host, and the remains of deleted
/// boots. Reads both tables.
fn prune_excess(connection: &Connection) -> Sql<Vec<BootRow>> {
    keep_last_id(connection, "boot")?;
    let text = format!(
        "DELETE FROM boot WHERE host_id IN (SELECT host_id FROM boot GROUP BY host_id HAVING count(*) > ?1)
             AND id NOT IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY host_id ORDER BY id DESC) AS nth
                                            FROM boot) WHERE nth <= ?1)
             AND {WITHOUT_SAMPLES}
         RETURNING id"
    );
    let gone = all_rows(connection, &text, [MOST_OF_A_HOST], first)?;
    let text = "DELETE FROM host_change WHERE rowid NOT IN (
             SELECT id FROM (SELECT rowid AS id, row_number() OVER (PARTITION BY host_id ORDER BY rowid DESC) AS nth
                             FROM host_change) WHERE nth <= ?1)";
    connection.execute(text, [MOST_OF_A_HOST])?;
    for text in [
        "DELETE FROM host_change WHERE boot_id NOT IN (SELECT id FROM boot)
             AND rowid NOT IN (SELECT max(rowid) FROM host_change GROUP BY host_id)",
        "DELETE FROM clock_piece WHERE boot_id NOT IN (SELECT id FROM boot)",
    ] {
        connection.execute(text, [])?;
    }
    Ok(gone)
}
