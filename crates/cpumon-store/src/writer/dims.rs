//! Ids of hosts, boots, processes, threads and what is known of them. In: keys and names of an interval. Out: integer ids,
//! new rows where something is new. Why: samples name a task by one small number.
//! A task whose name or other attribute changes gets a new row, so a sample's id also says what held *then*.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, HostId, HostInfo, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval,
    ThreadKey, Trust,
};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};

/// Tasks of one host whose ids are kept in memory; beyond it they are forgotten and named anew.
const MAX_TASKS_OF_A_HOST: usize = 1 << 18;
/// Descriptions of processes kept in memory.
const MAX_INFOS: usize = 1 << 16;

/// Keys come from other machines: the hash is seeded anew in each process, so that none of them can make keys collide.
type Seeded = foldhash::quality::RandomState;

type Sql<T> = rusqlite::Result<T>;

/// A process's row and what it was made of.
#[derive(Debug)]
struct KnownProcess {
    id: u64,
    parent_pid: u32,
    info: Arc<ProcessInfo>,
}

/// A thread's row and what it was made of.
#[derive(Debug)]
struct KnownThread {
    id: u64,
    comm: Comm,
    nice: i8,
    priority: i16,
}

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
    processes: HashMap<ProcessKey, KnownProcess, Seeded>,
    threads: HashMap<ThreadKey, KnownThread, Seeded>,
}

/// All ids that the writer keeps in memory.
#[derive(Debug, Default)]
pub(crate) struct Dims {
    hosts: HashMap<HostId, KnownHost>,
    infos: HashMap<Arc<ProcessInfo>, i64>,
    last: LastIds,
}

/// The highest ids in use.
#[derive(Debug, Default)]
struct LastIds {
    process: u64,
    thread: u64,
    info: i64,
}

/// A kernel name as SQL: text, or a blob where it is not UTF-8.
struct SqlComm(Comm);

impl ToSql for SqlComm {
    fn to_sql(&self) -> Sql<ToSqlOutput<'_>> {
        let bytes = self.0.as_bytes();
        Ok(ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
            Ok(_) => ValueRef::Text(bytes),
            Err(_) => ValueRef::Blob(bytes),
        }))
    }
}

impl Dims {
    /// Starts from what a store holds.
    pub(crate) fn load(connection: &Connection) -> Sql<Self> {
        let highest = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0));
        let last = LastIds {
            process: highest("SELECT coalesce(max(id), 0) FROM process")?.cast_unsigned(),
            thread: highest("SELECT coalesce(max(id), 0) FROM thread")?.cast_unsigned(),
            info: highest("SELECT coalesce(max(id), 0) FROM process_info")?,
        };
        Ok(Self { last, ..Self::default() })
    }

    /// Tasks in memory.
    pub(crate) fn task_count(&self) -> usize {
        self.hosts.values().map(|host| host.processes.len() + host.threads.len()).sum()
    }

    /// Forgets all tasks and descriptions; the next interval that names them gives them new rows.
    pub(crate) fn forget_tasks(&mut self) {
        self.infos = HashMap::new();
        for host in self.hosts.values_mut() {
            (host.processes, host.threads) = (HashMap::default(), HashMap::default());
        }
    }

    /// Forgets descriptions; they are looked up again.
    pub(crate) fn forget_infos(&mut self) {
        self.infos = HashMap::new();
    }

    /// The process that stands in sums for all short-lived ones described like `process_id`.
    pub(crate) fn stand_in(&mut self, connection: &Connection, process_id: u64) -> Sql<u64> {
        let info_id: Option<i64> = connection
            .prepare_cached("SELECT info_id FROM process WHERE id = ?1")?
            .query_row([process_id.cast_signed()], |row| row.get(0))
            .optional()?;
        let Some(info_id) = info_id else { return Ok(process_id) };
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
        self.infos = HashMap::new();
        self.hosts = HashMap::new();
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
                Some(old) => KnownHost { processes: old.processes, threads: old.threads, ..host },
                None => host,
            };
            self.hosts.insert(key, host);
        }
        // The entry was found or made just above.
        self.hosts.get_mut(&key).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// The row of a process; `None` for a process of which only threads were told.
    pub(crate) fn process(
        &mut self,
        connection: &Connection,
        host: HostId,
        key: ProcessKey,
        row: Option<&ProcessInterval>,
        now_s: i64,
    ) -> Sql<u64> {
        let Self { hosts, infos, last } = self;
        let host = hosts.get_mut(&host).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let known = host.processes.get(&key);
        match (known, row) {
            (Some(known), None) => return Ok(known.id),
            (Some(known), Some(row))
                if known.parent_pid == row.parent_pid
                    && (Arc::ptr_eq(&known.info, &row.info) || known.info == row.info) =>
            {
                return Ok(known.id);
            }
            _ => {}
        }
        let (parent_pid, info) =
            row.map_or_else(|| (0, Arc::default()), |row| (row.parent_pid, Arc::clone(&row.info)));
        let info_id = info_id(connection, infos, last, &info)?;
        last.process += 1;
        connection
            .prepare_cached(
                "INSERT INTO process (id, boot_id, pid, start_ns, parent_pid, info_id, is_short, last_s)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                last.process.cast_signed(),
                host.boot_id,
                key.pid,
                key.start_ns.cast_signed(),
                parent_pid,
                info_id,
                row.is_some_and(|row| row.life == Life::BornEnded),
                now_s
            ])?;
        if host.processes.len() >= MAX_TASKS_OF_A_HOST {
            host.processes.clear();
        }
        host.processes.insert(key, KnownProcess { id: last.process, parent_pid, info });
        Ok(last.process)
    }

    /// The row of a thread.
    pub(crate) fn thread(
        &mut self,
        connection: &Connection,
        host: HostId,
        process_id: u64,
        row: &ThreadInterval,
        now_s: i64,
    ) -> Sql<u64> {
        let host = self.hosts.get_mut(&host).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        if let Some(known) = host.threads.get(&row.key)
            && known.comm == row.comm
            && known.nice == row.nice
            && known.priority == row.priority
        {
            return Ok(known.id);
        }
        self.last.thread += 1;
        let id = self.last.thread;
        connection
            .prepare_cached(
                "INSERT INTO thread (id, process_id, tid, start_ns, comm, nice, priority, last_s)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                id.cast_signed(),
                process_id.cast_signed(),
                row.key.tid,
                row.key.start_ns.cast_signed(),
                SqlComm(row.comm),
                row.nice,
                row.priority,
                now_s
            ])?;
        if host.threads.len() >= MAX_TASKS_OF_A_HOST {
            host.threads.clear();
        }
        let known = KnownThread { id, comm: row.comm, nice: row.nice, priority: row.priority };
        host.threads.insert(row.key, known);
        Ok(id)
    }

    /// Forgets a process that has ended.
    pub(crate) fn end_process(&mut self, host: HostId, key: ProcessKey) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.processes.remove(&key);
        }
    }

    /// Forgets a thread that has ended.
    pub(crate) fn end_thread(&mut self, host: HostId, key: ThreadKey) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.threads.remove(&key);
        }
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
        processes: HashMap::default(),
        threads: HashMap::default(),
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
    let sealed: Option<i64> = connection
        .prepare_cached("SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1")?
        .query_row(params![host_id], |row| row.get(0))?;
    Ok(fresh.max(sealed))
}

/// The row of a description, found by content.
fn info_id(
    connection: &Connection,
    infos: &mut HashMap<Arc<ProcessInfo>, i64>,
    last: &mut LastIds,
    info: &Arc<ProcessInfo>,
) -> Sql<i64> {
    if let Some(&id) = infos.get(info) {
        return Ok(id);
    }
    let hash = stable_hash(info);
    let found: Option<i64> = connection
        .prepare_cached(
            "SELECT id FROM process_info WHERE hash = ?1 AND name = ?2 AND comm = ?3 AND cmdline = ?4
             AND cgroup = ?5 AND container = ?6 AND uid = ?7 AND is_kernel = ?8",
        )?
        .query_row(
            params![
                hash,
                info.name,
                info.comm,
                info.cmdline,
                info.cgroup,
                info.container,
                info.uid,
                info.is_kernel
            ],
            |row| row.get(0),
        )
        .optional()?;
    let id = if let Some(id) = found { id } else { insert_info(connection, last, hash, info)? };
    if infos.len() >= MAX_INFOS {
        infos.clear();
    }
    infos.insert(Arc::clone(info), id);
    Ok(id)
}

fn insert_info(connection: &Connection, last: &mut LastIds, hash: i64, info: &ProcessInfo) -> Sql<i64> {
    last.info += 1;
    connection
        .prepare_cached(
            "INSERT INTO process_info (id, hash, name, comm, cmdline, cgroup, container, uid, is_kernel)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            last.info,
            hash,
            info.name,
            info.comm,
            info.cmdline,
            info.cgroup,
            info.container,
            info.uid,
            info.is_kernel
        ])?;
    Ok(last.info)
}

/// FNV-1a over the content, the same in every build: it is kept in the file. Only an index into equal rows, which are
/// compared in full.
fn stable_hash(info: &ProcessInfo) -> i64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for text in [&info.name, &info.comm, &info.cmdline, &info.cgroup, &info.container] {
        hasher.write(text.as_bytes());
        hasher.write(&[0]);
    }
    info.uid.to_le().hash(&mut hasher);
    hasher.finish().cast_signed()
}
