//! Row ids of hosts, boots, processes and threads: found by key, or inserted where something is new. Samples name a task by one small
//! number instead of its key and names.

use std::cmp::Reverse;

use cpumon_model::{BootId, HostId, HostInfo, Interval, Recent, Trust};
use rusqlite::{Connection, Row, params};

use super::naming::{Gone, Infos, KnownTasks, Naming, Seeded, TaskIds, cut};
use crate::names::{self, Block, ProcessName};
use crate::rows::{BootKey, BootRow, ByRange, HostRow, IdRange, execute, find_row, first, next_id, value};

type Sql<T> = rusqlite::Result<T>;

/// Hosts in memory, as many as send at a time: one that is forgotten is found again, but its tasks get new rows.
const MAX_HOSTS: usize = 16_384;
/// Memory of the names of tasks of all hosts, bytes, where data is trusted: about 2 million tasks. Beyond it the hosts with most tasks
/// forget those that were not used lately, then all; they get new rows.
const TRUSTED_BYTES: usize = 256 << 20;
/// The same for data of others, who choose what tasks there are: about 400,000 tasks, such as of 2,000 hosts with 200 threads each.
const STRANGERS_BYTES: usize = 32 << 20;
/// The part of this that hosts with more than [`SMALL_HOST_BYTES`] may take: few machines have thousands of tasks, and a sender that
/// invents tasks needs few hosts.
const LARGE_STRANGERS_BYTES: usize = 8 << 20;
/// About 900 tasks.
const SMALL_HOST_BYTES: usize = 64 << 10;
/// New names between two counts of the memory: a count walks over all hosts.
const COUNT_AFTER: u64 = 16_384;
/// Tasks unused for this many seconds are forgotten first.
const UNUSED_S: u32 = 60;
/// Resolution of the recorded time of use, seconds.
const USED_STEP_S: u32 = 16;

#[derive(Debug)]
pub(super) struct KnownHost {
    /// Its row, and that of the boot that reports now.
    pub(super) key: BootKey,
    boot: BootId,
    /// How its sender describes it; `None`: not known, because only a lesser sender ([`may_describe`]) sent this boot yet.
    described: Option<HostInfo>,
    /// The best trust that data of this host ever came in with.
    trust: Trust,
    /// The newest end of an interval of this boot; `None` if there is none yet.
    pub(super) newest_end_wall_ns: Option<i64>,
    tasks: ByRange<KnownTasks>,
}

#[derive(Debug)]
pub(super) struct Dims {
    hosts: Recent<HostId, KnownHost, Seeded>,
    infos: ByRange<Infos>,
    last: ByRange<TaskIds>,
    /// The names that were given out when memory was last counted.
    counted: ByRange<u64>,
    /// The block in which a process was looked up last.
    block: Option<Block<ProcessName>>,
}

impl Dims {
    pub(super) fn load(connection: &Connection) -> Sql<Self> {
        // No id may be given twice, and the highest one may be that of a row or be in a block.
        let last = TaskIds::load(connection, |table| {
            format!(
                "SELECT max(coalesce((SELECT max(id) FROM {table} WHERE id > ?1 AND id <= ?2), ?1),
                    coalesce((SELECT max(last_id) FROM {table}_block WHERE first_id > ?1 AND first_id <= ?2), ?1))"
            )
        })?;
        let infos = ByRange::try_new(|range| Infos::load(connection, range))?;
        let counted = ByRange::default();
        Ok(Self { hosts: Recent::new(MAX_HOSTS), infos, last, counted, block: None })
    }

    pub(super) fn last_ids(&self) -> ByRange<TaskIds> {
        self.last
    }

    /// The highest id of a description in use.
    pub(super) fn last_info(&self, range: IdRange) -> i64 {
        self.infos[range].last_id
    }

    /// Keeps the memory of names within its limit.
    fn limit_names(&mut self, range: IdRange, used_s: u32) {
        let given = self.last[range].process + self.last[range].thread;
        if given - self.counted[range] < COUNT_AFTER {
            return;
        }
        self.counted[range] = given;
        let (limit, limit_of_large) = match range {
            IdRange::Trusted => (TRUSTED_BYTES, TRUSTED_BYTES),
            IdRange::Unauthenticated => (STRANGERS_BYTES, LARGE_STRANGERS_BYTES),
        };
        let large = |size: usize| if size > SMALL_HOST_BYTES { size } else { 0 };
        let fits = |all, of_large| all <= limit && of_large <= limit_of_large;
        let hosts = self.hosts.values_mut().map(|host| &mut host.tasks[range]);
        let mut sizes: Vec<(usize, &mut KnownTasks)> = hosts.map(|tasks| (tasks.bytes(), tasks)).collect();
        let mut all: usize = sizes.iter().map(|one| one.0).sum();
        let mut of_large: usize = sizes.iter().map(|one| large(one.0)).sum();
        // Hosts with few tasks keep theirs.
        sizes.sort_unstable_by_key(|one| Reverse(one.0));
        for (size, tasks) in sizes {
            if fits(all, of_large) {
                return;
            }
            (all, of_large) = (all - size, of_large - large(size));
            tasks.forget_unused(used_s.saturating_sub(UNUSED_S));
            if !fits(all + tasks.bytes(), of_large + large(tasks.bytes())) {
                *tasks = KnownTasks::default();
            }
            (all, of_large) = (all + tasks.bytes(), of_large + large(tasks.bytes()));
        }
    }

    /// Forgets tasks and descriptions: tasks get new rows, descriptions are found again by content.
    fn forget_names(&mut self, range: IdRange) {
        self.infos[range].forget();
        for host in self.hosts.values_mut() {
            host.tasks[range] = KnownTasks::default();
        }
    }

    pub(super) fn forget(&mut self, gone: &Gone) {
        if gone.infos {
            self.infos.iter_mut().for_each(Infos::forget);
        }
        if gone.unauthenticated_names {
            self.forget_names(IdRange::Unauthenticated);
            self.infos[IdRange::Unauthenticated].abandon();
        }
        if !gone.threads.is_empty() || !gone.processes.is_empty() {
            // A task that rested for days may run again: it needs a new row then.
            let tasks = self.hosts.values_mut().flat_map(|host| host.tasks.iter_mut());
            tasks.for_each(|tasks| tasks.forget(gone));
        }
        if !gone.hosts.is_empty() || !gone.boots.is_empty() {
            self.hosts
                .retain(|host| !gone.hosts.contains(&host.key.host) && !gone.boots.contains(&host.key.boot));
        }
        self.block = None;
    }

    /// The process under which a short-lived one is summed: one for all that have its description. A row of sums for each would outgrow
    /// the samples on a machine that runs scripts.
    pub(super) fn summed_process(&mut self, connection: &Connection, process_id: u64) -> Sql<u64> {
        let found: Option<ProcessName> = names::find(connection, process_id, &mut self.block)?;
        // Without a name (its block is damaged) it is summed under its own id.
        let Some(info_id) = found.map(|name| name.info_id) else { return Ok(process_id) };
        let text = "SELECT process_id FROM short_lived WHERE info_id = ?1";
        if let Some(known) = find_row(connection, text, [info_id], first::<i64>)? {
            return Ok(known.cast_unsigned());
        }
        let last = &mut self.last[IdRange::of_id(process_id)].process;
        *last += 1;
        let id = last.cast_signed();
        // Boot 0 marks it: name blocks and lists of processes leave it out.
        execute(connection, "INSERT INTO process VALUES (?1, 0, 0, 0, 0, ?2, 0, 0)", [id, info_id])?;
        execute(connection, "INSERT INTO short_lived VALUES (?1, ?2)", [info_id, id])?;
        Ok(id.cast_unsigned())
    }

    /// After a rollback: forgets all rows, but not which ids were given out. An id that is never used twice cannot name two
    /// tasks.
    pub(super) fn forget_all(&mut self) {
        self.infos.iter_mut().for_each(Infos::forget);
        self.hosts.clear();
        self.block = None;
    }

    /// The host of an interval, written if new or changed.
    pub(super) fn host(
        &mut self,
        connection: &Connection,
        info: &HostInfo,
        trust: Trust,
        interval: &Interval,
    ) -> Sql<&mut KnownHost> {
        let key = interval.host;
        let is_known = self.hosts.peek(&key).is_some_and(|known| {
            let is_described = || {
                let described = known.described.as_ref();
                known.trust == trust && described.is_some_and(|known| is_same_host(known, info))
            };
            known.boot == interval.boot && (!may_describe(trust, known.trust) || is_described())
        });
        if !is_known {
            let host = load_host(connection, info, trust, interval)?;
            // A new name or trust does not change the tasks; another boot does: pids and start times count within it.
            let old = self.hosts.remove(&key).filter(|old| old.boot == interval.boot);
            let host = match old {
                Some(old) => KnownHost { tasks: old.tasks, ..host },
                None => host,
            };
            self.hosts.insert(key, host);
        }
        // It was found or inserted just above.
        self.hosts.get_mut(&key).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Row ids of the tasks of a host that [`Dims::host`] returned before, of data that came in with `trust`.
    pub(super) fn naming<'a>(
        &'a mut self,
        connection: &'a Connection,
        host: HostId,
        trust: Trust,
        now_s: i64,
    ) -> Sql<Naming<'a>> {
        let range = IdRange::of(trust);
        let used_s = u32::try_from(now_s).unwrap_or(0) / USED_STEP_S * USED_STEP_S;
        self.limit_names(range, used_s);
        let Self { hosts, infos, last, .. } = self;
        let host = hosts.get_mut(&host).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Naming {
            connection,
            boot: host.key.boot,
            tasks: &mut host.tasks[range],
            infos: &mut infos[range],
            last: &mut last[range],
            now_s,
            used_s,
        })
    }
}

/// Whether two descriptions of a machine are equal; the boot is that of the interval, and compared by the caller.
fn is_same_host(a: &HostInfo, b: &HostInfo) -> bool {
    a.hostname == b.hostname
        && a.kernel == b.kernel
        && a.arch == b.arch
        && a.agent == b.agent
        && a.source_reason == b.source_reason
        && a.cpu_count == b.cpu_count
        && a.interval_ns == b.interval_ns
}

/// Whether data that came in with `trust` describes a host (its name, its kernel, its trust) whose best data came in with `best`. A
/// lesser sender of the same id changes none of that, and a file that the user imports does not rename a host that reports.
fn may_describe(trust: Trust, best: Trust) -> bool {
    trust.rank() >= best.rank() && (trust != Trust::Imported || best == Trust::Imported)
}

/// Finds or inserts a host and its boot, and records a change of its description.
fn load_host(connection: &Connection, info: &HostInfo, trust: Trust, interval: &Interval) -> Sql<KnownHost> {
    // A host with only a recorded gap has no description yet.
    let text = "SELECT id, iif(EXISTS (SELECT 1 FROM host_change WHERE host_id = id), trust, NULL) FROM host WHERE key = ?1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?));
    let (host, best) = match find_row(connection, text, [interval.host.0], read)? {
        Some((host, best)) => (host, best.map(|best| Trust::from_name(&best))),
        None => (insert_host(connection, interval.host, cut(&info.hostname), trust)?, None),
    };
    let key = BootKey { host, boot: load_boot(connection, host, interval.boot)? };
    let best = best.filter(|best| !may_describe(trust, *best));
    let describes = best.is_none();
    if describes {
        let text = "UPDATE host SET name = ?2, trust = ?3 WHERE id = ?1 AND (name, trust) IS NOT (?2, ?3)";
        execute(connection, text, params![host, cut(&info.hostname), trust.name()])?;
        record_change(connection, key, info, trust, interval.end.wall_ns)?;
    }
    let newest_end_wall_ns = load_newest(connection, key)?;
    Ok(KnownHost {
        key,
        boot: interval.boot,
        described: describes.then(|| info.clone()),
        trust: best.unwrap_or(trust),
        newest_end_wall_ns,
        tasks: ByRange::default(),
    })
}

pub(super) fn insert_host(connection: &Connection, host: HostId, name: &str, trust: Trust) -> Sql<HostRow> {
    let id = next_id(connection, "host")?;
    let text = "INSERT INTO host (id, key, name, trust) VALUES (?1, ?2, ?3, ?4)";
    execute(connection, text, params![id, host.0, name, trust.name()])?;
    Ok(HostRow(id))
}

fn load_boot(connection: &Connection, host: HostRow, boot: BootId) -> Sql<BootRow> {
    let text = "SELECT id FROM boot WHERE host_id = ?1 AND key = ?2";
    if let Some(known) = find_row(connection, text, params![host, boot.0], first)? {
        return Ok(known);
    }
    let id = next_id(connection, "boot")?;
    execute(
        connection,
        "INSERT INTO boot (id, host_id, key) VALUES (?1, ?2, ?3)",
        params![id, host, boot.0],
    )?;
    Ok(BootRow(id))
}

/// Writes a row of `host_change` unless the newest one says the same.
fn record_change(
    connection: &Connection,
    key: BootKey,
    info: &HostInfo,
    trust: Trust,
    since_wall_ns: i64,
) -> Sql<()> {
    // IS NOT: without an earlier row the right side is NULL, for which `<>` would not be true.
    let text = "INSERT INTO host_change
        SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
        WHERE (?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) IS NOT
            (SELECT host_id, boot_id, name, kernel, arch, agent, source_reason, cpu_count, interval_ns, trust
             FROM host_change WHERE host_id = ?1 ORDER BY rowid DESC LIMIT 1)";
    let texts = [&info.hostname, &info.kernel, &info.arch, &info.agent, &info.source_reason];
    let [name, kernel, arch, agent, reason] = texts.map(|text| cut(text));
    let (cpus, interval_ns) = (info.cpu_count, info.interval_ns.cast_signed());
    let values = params![
        key.host,
        since_wall_ns,
        key.boot,
        name,
        kernel,
        arch,
        agent,
        reason,
        cpus,
        interval_ns,
        trust.name()
    ];
    execute(connection, text, values).map(drop)
}

/// Newest end of an interval of a boot. Of compacted ones that of any boot of the host: an earlier end than this only costs
/// the look-up for duplicates.
fn load_newest(connection: &Connection, key: BootKey) -> Sql<Option<i64>> {
    // The index that has the boot before the time: a sender who goes through boots must not make each of its datagrams walk all intervals
    // of the host.
    let text =
        "SELECT max(end_wall_ns) FROM interval INDEXED BY interval_boot WHERE host_id = ?1 AND boot_id = ?2";
    let fresh: Option<i64> = value(connection, text, params![key.host, key.boot])?;
    let text = "SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1";
    Ok(fresh.max(value(connection, text, [key.host])?))
}
