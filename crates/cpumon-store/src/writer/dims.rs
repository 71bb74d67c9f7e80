//! Ids of hosts, boots, processes, threads and what is known of them. In: keys and names of an interval. Out: integer ids,
//! new rows where something is new. Why: samples name a task by one small number.

use std::collections::HashMap;

use cpumon_model::{BootId, HostId, HostInfo, Interval, Trust};
use rusqlite::{Connection, OptionalExtension, params};

use super::infos::Infos;
use super::naming::{KnownTasks, LastIds, Naming, Seeded};
use crate::codec::names::ProcessName;
use crate::names::{self, Block};

type Sql<T> = rusqlite::Result<T>;

/// What the writer keeps in memory of a host.
#[derive(Debug)]
pub(crate) struct KnownHost {
    /// Row of table `host`.
    pub(crate) id: i64,
    info: HostInfo,
    trust: Trust,
    /// Row of table `boot` of the boot that reports now.
    pub(crate) boot_id: i64,
    /// The newest end of an interval of this boot; `None` if there is none yet.
    pub(crate) newest_end_wall_ns: Option<i64>,
    tasks: KnownTasks,
}

/// All ids that the writer keeps in memory.
#[derive(Debug, Default)]
pub(crate) struct Dims {
    hosts: HashMap<HostId, KnownHost, Seeded>,
    infos: Infos,
    last: LastIds,
    /// The block in which a process was looked up last.
    block: Option<Block<ProcessName>>,
}

impl Dims {
    /// Starts from what a store holds.
    pub(crate) fn load(connection: &Connection) -> Sql<Self> {
        let highest = |table: &str| -> Sql<u64> {
            let text = format!(
                "SELECT max(coalesce((SELECT max(id) FROM {table}), 0), coalesce((SELECT max(last_id) FROM {table}_block), 0))"
            );
            connection.query_row(&text, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
        };
        let last = LastIds { process: highest("process")?, thread: highest("thread")? };
        Ok(Self { infos: Infos::load(connection)?, last, ..Self::default() })
    }

    /// The highest ids in use.
    pub(super) fn last_ids(&self) -> LastIds {
        self.last
    }

    /// Tasks in memory.
    pub(crate) fn task_count(&self) -> usize {
        self.hosts.values().map(|host| host.tasks.count()).sum()
    }

    /// Forgets all tasks and descriptions; the next interval that names them gives them new rows.
    pub(crate) fn forget_tasks(&mut self) {
        self.infos.forget();
        for host in self.hosts.values_mut() {
            host.tasks = KnownTasks::default();
        }
    }

    /// Forgets descriptions; they are looked up again.
    pub(crate) fn forget_infos(&mut self) {
        self.infos.forget();
    }

    /// The process that stands in sums for all short-lived ones described like `process_id`.
    pub(crate) fn short_lived_id(&mut self, connection: &Connection, process_id: u64) -> Sql<u64> {
        let found: Option<ProcessName> = names::find(connection, process_id, &mut self.block)?;
        let Some(info_id) = found.map(|name| name.info_id) else { return Ok(process_id) };
        let known: Option<i64> = connection
            .prepare_cached("SELECT process_id FROM short_lived WHERE info_id = ?1")?
            .query_row([info_id], |row| row.get(0))
            .optional()?;
        if let Some(known) = known {
            return Ok(known.cast_unsigned());
        }
        self.last.process += 1;
        let id = self.last.process.cast_signed();
        connection
            .prepare_cached("INSERT INTO process VALUES (?1, 0, 0, 0, 0, ?2, 0, 0)")?
            .execute(params![id, info_id])?;
        connection
            .prepare_cached("INSERT INTO short_lived VALUES (?1, ?2)")?
            .execute(params![info_id, id])?;
        Ok(self.last.process)
    }

    /// Forgets everything but which ids are used up: some of it may have been rolled back.
    pub(crate) fn forget_all(&mut self) {
        self.infos.forget();
        self.hosts = HashMap::default();
        self.block = None;
    }

    /// The host of an interval, written if new or changed.
    pub(crate) fn host(
        &mut self,
        connection: &Connection,
        info: &HostInfo,
        trust: Trust,
        interval: &Interval,
    ) -> Sql<&mut KnownHost> {
        let key = interval.host;
        let is_known = self.hosts.get(&key).is_some_and(|known| {
            known.info.boot == interval.boot && known.trust == trust && is_same_host(&known.info, info)
        });
        if !is_known {
            let host = load_host(connection, info, trust, interval)?;
            let old = self.hosts.remove(&key).filter(|old| old.info.boot == interval.boot);
            let host = match old {
                Some(old) => KnownHost { tasks: old.tasks, ..host },
                None => host,
            };
            self.hosts.insert(key, host);
        }
        // The entry was found or made just above.
        self.hosts.get_mut(&key).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// What names the tasks of a host that [`Dims::host`] gave before.
    pub(crate) fn naming<'a>(
        &'a mut self,
        connection: &'a Connection,
        host: HostId,
        now_s: i64,
    ) -> Sql<Naming<'a>> {
        let Self { hosts, infos, last, .. } = self;
        let host = hosts.get_mut(&host).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Naming { connection, boot_id: host.boot_id, tasks: &mut host.tasks, infos, last, now_s })
    }
}

/// Whether two descriptions say the same of the machine; the boot is compared where it is known better.
fn is_same_host(a: &HostInfo, b: &HostInfo) -> bool {
    a.hostname == b.hostname
        && a.kernel == b.kernel
        && a.arch == b.arch
        && a.agent == b.agent
        && a.source_reason == b.source_reason
        && a.cpu_count == b.cpu_count
        && a.interval_ns == b.interval_ns
}

/// Finds or writes a host and its boot, and notes a change of its description.
fn load_host(connection: &Connection, info: &HostInfo, trust: Trust, interval: &Interval) -> Sql<KnownHost> {
    let id: i64 = connection
        .prepare_cached(
            "INSERT INTO host (key, name, trust) VALUES (?1, ?2, ?3)
             ON CONFLICT (key) DO UPDATE SET name = excluded.name, trust = excluded.trust RETURNING id",
        )?
        .query_row(params![interval.host.0, info.hostname, trust.name()], |row| row.get(0))?;
    let boot_id = load_boot(connection, id, interval.boot)?;
    note_change(connection, id, boot_id, info, trust, interval.end.wall_ns)?;
    let newest_end_wall_ns = load_newest(connection, id, boot_id)?;
    Ok(KnownHost {
        id,
        info: HostInfo { host: interval.host, boot: interval.boot, ..info.clone() },
        trust,
        boot_id,
        newest_end_wall_ns,
        tasks: KnownTasks::default(),
    })
}

fn load_boot(connection: &Connection, host_id: i64, boot: BootId) -> Sql<i64> {
    connection
        .prepare_cached(
            "INSERT INTO boot (host_id, key) VALUES (?1, ?2)
             ON CONFLICT (host_id, key) DO UPDATE SET key = excluded.key RETURNING id",
        )?
        .query_row(params![host_id, boot.0], |row| row.get(0))
}

/// Writes a row of `host_change` unless the newest one says the same.
fn note_change(
    connection: &Connection,
    host_id: i64,
    boot_id: i64,
    info: &HostInfo,
    trust: Trust,
    since_wall_ns: i64,
) -> Sql<()> {
    connection
        .prepare_cached(
            "INSERT INTO host_change
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
             WHERE (?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) IS NOT
                 (SELECT host_id, boot_id, name, kernel, arch, agent, source_reason, cpu_count, interval_ns, trust
                  FROM host_change WHERE host_id = ?1 ORDER BY rowid DESC LIMIT 1)",
        )?
        .execute(params![
            host_id,
            since_wall_ns,
            boot_id,
            info.hostname,
            info.kernel,
            info.arch,
            info.agent,
            info.source_reason,
            info.cpu_count,
            info.interval_ns.cast_signed(),
            trust.name()
        ])?;
    Ok(())
}

/// Newest end of an interval of a boot: of its fresh ones, and of all sealed ones of the host.
fn load_newest(connection: &Connection, host_id: i64, boot_id: i64) -> Sql<Option<i64>> {
    let fresh: Option<i64> = connection
        .prepare_cached(
            "SELECT max(end_wall_ns) FROM interval INDEXED BY interval_time WHERE host_id = ?1 AND boot_id = ?2",
        )?
        .query_row(params![host_id, boot_id], |row| row.get(0))?;
    let compacted: Option<i64> = connection
        .prepare_cached("SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1")?
        .query_row(params![host_id], |row| row.get(0))?;
    Ok(fresh.max(compacted))
}
