//! Lists processes and threads that were ever stored without reading a sample, finds when a process began on the wall clock, and which
//! processes were idle at a moment. Idle processes have no samples: they are found by the list of processes before the moment and the rows
//! between the two.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, Flags, HostId, IdleProcess, Interval, ProcessInfo, ProcessKey, Tables, ThreadKey,
};
use rusqlite::{Connection, Result as Sql, Row, params};

use super::Reader;
use super::build::{ProcessThen, key_of};
use super::chunks::{MAX_TRIED, first_readable};
use super::damage::ReadError;
use super::query::{Query, What};
use crate::codec::lists::{LONGEST_LIST_NS, ListedProcess, unpack};
use crate::codec::meta::{END_BOOT, END_WALL, StoredInterval};
use crate::error::{At, Result};
use crate::names::{ProcessName, ThreadName, each_name};
use crate::rows::{BootKey, BootRow, HostRow, all_rows, find_row, first};

#[derive(Copy, Clone, Debug)]
pub struct StoredProcess<'a> {
    /// The boot in which its key counts; all zero of v1 devices.
    pub boot: BootId,
    pub key: ProcessKey,
    pub info: &'a ProcessInfo,
}

/// What a process was at last, and the pid of its parent.
pub type InfoAndParent = (Arc<ProcessInfo>, u32);

/// A process as it was, or a thread with its process.
pub(crate) struct Task<'a> {
    /// Row id in table `process`, or of a thread in `thread`.
    pub(crate) id: i64,
    pub(crate) boot: BootId,
    pub(crate) process: &'a ProcessThen,
    pub(crate) thread: Option<(ThreadKey, Comm)>,
}

impl Reader {
    /// What processes were at last, and the pids of their parents, if they were ever stored. Reads all names once, not samples.
    pub fn processes(&self, host: HostId, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, InfoAndParent>> {
        let mut found = HashMap::new();
        let mut visit = |task: &Task<'_>| {
            let ProcessThen { key, parent_pid, info, .. } = task.process;
            if keys.contains(key) {
                found.insert(*key, (Arc::clone(info), *parent_pid));
            }
        };
        let is_meant = |pid: u32| keys.iter().any(|key| key.pid == pid);
        self.for_each_task(host, Tables::PROCESSES, &is_meant, 0, usize::MAX, &mut visit)?;
        Ok(found)
    }

    /// Visits every process of a host that has a stored name, once for each description. Reads names, not samples.
    pub fn each_process(&self, host: HostId, visit: &mut dyn FnMut(&StoredProcess<'_>)) -> Result<()> {
        let mut visit = |task: &Task<'_>| {
            visit(&StoredProcess { boot: task.boot, key: task.process.key, info: &task.process.info });
        };
        self.for_each_task(host, Tables::PROCESSES, &|_| true, 0, usize::MAX, &mut visit)
    }

    /// Up to `limit` tasks of a host with a row id above `after_id`: those in a table whose pid is meant.
    pub(crate) fn for_each_task(
        &self,
        host: HostId,
        table: Tables,
        is_meant: &dyn Fn(u32) -> bool,
        after_id: i64,
        limit: usize,
        visit: &mut dyn FnMut(&Task<'_>),
    ) -> Result<()> {
        let Some(host) = self.host_row(host)? else { return Ok(()) };
        let done = self.with_cursor(|cursor| -> Sql<()> {
            let (connection, names) = (self.question(), &mut cursor.names);
            // The tables of names hold the tasks of all hosts: a boot of another host is not in this map.
            let boots = boots_of(connection, host)?;
            let mut visited = 0;
            let mut visit = |task: &Task<'_>| {
                visit(task);
                visited += 1;
                visited < limit
            };
            let after_id = after_id.cast_unsigned();
            let lost = if table == Tables::THREADS {
                each_name(connection, after_id, &mut |name: &ThreadName| {
                    let process = names.process(connection, name.process_id)?;
                    let boot = boots.get(&process.boot).filter(|_| is_meant(process.key.pid));
                    let Some(&boot) = boot else { return Ok(true) };
                    let thread = Some((ThreadKey { tid: name.tid, start_ns: name.start_ns }, name.comm));
                    Ok(visit(&Task { id: name.id.cast_signed(), boot, process, thread }))
                })
            } else {
                each_name(connection, after_id, &mut |name: &ProcessName| {
                    let boot = boots.get(&BootRow(name.boot_id)).filter(|_| is_meant(name.pid));
                    let Some(&boot) = boot else { return Ok(true) };
                    let process = &names.process_then(connection, name)?;
                    Ok(visit(&Task { id: name.id.cast_signed(), boot, process, thread: None }))
                })
            };
            let lost = lost?;
            // The next question meets the same ones.
            names.nameless.set(names.nameless.get().max(lost));
            Ok(())
        });
        done.at("read tasks", self.path())
    }

    /// When processes began, ns since the epoch on the host's time line: a key has the time since boot, and the interval of
    /// that boot that ends nearest to it has both clocks. Left out are those that were never stored, whose source has no start
    /// times, or of whose boot no interval is stored. Kernel threads have the same keys in each boot: without a boot the newest counts.
    pub fn began(
        &self,
        host: HostId,
        wanted: &BTreeMap<ProcessKey, Option<BootId>>,
    ) -> Result<HashMap<ProcessKey, i64>> {
        let mut began = HashMap::new();
        let Some(host_row) = self.host_row(host)? else { return Ok(began) };
        let mut found: HashMap<ProcessKey, Option<BootRow>> =
            wanted.keys().filter(|key| key.start_ns > 0).map(|key| (*key, None)).collect();
        let mut visit = |task: &Task<'_>| {
            let key = task.process.key;
            let Some(boot) = found.get_mut(&key) else { return };
            if wanted.get(&key).is_some_and(|of| of.is_none_or(|of| of == task.boot)) {
                // Rows come in order of id, so of several boots with this key the newest remains.
                *boot = Some(task.process.boot);
            }
        };
        let pids: HashSet<u32> = wanted.keys().map(|key| key.pid).collect();
        let is_meant = |pid: u32| pids.contains(&pid);
        self.for_each_task(host, Tables::PROCESSES, &is_meant, 0, usize::MAX, &mut visit)?;
        for (key, boot) in found {
            let Some(boot) = boot else { continue };
            let start_ns = key.start_ns.cast_signed();
            let nearest = nearest(self.question(), BootKey { host: host_row, boot }, start_ns);
            if let Some(pair) = nearest.map_err(|error| self.read_error(error))? {
                began.insert(key, pair.wall_of(start_ns));
            }
        }
        Ok(began)
    }

    /// Adds the rows of processes that were there and did nothing, all zero. `false`: these processes are not known, because no list of
    /// processes was stored since the last hole and shortly before, or because activity of some was lost.
    pub fn add_idle(&self, interval: &mut Interval) -> Result<bool> {
        if !interval.is_idle_without_row() {
            return Ok(false);
        }
        let Some(host) = self.host_row(interval.host)? else { return Ok(false) };
        let Some(list) = self.last_list(host, interval)? else { return Ok(false) };
        let mut there = self.listed(&list)?;
        // With threads: one that ended counts in the row of its process, and no longer after it.
        let range = Query::new(interval.host).range(list.end_wall_ns.saturating_sub(1), interval.end.wall_ns);
        let mut intervals = self.intervals(&range.what(What::Threads).without_sched())?;
        let mut end_mono_ns: Option<u64> = None;
        while let Some(StoredInterval { interval: one, .. }) = intervals.read()? {
            if one.boot != interval.boot {
                continue;
            }
            // Less than half an interval is no missing one: those of v1 end when they come, and are as long as they say.
            let slack_ns = one.duration_ns() / 2;
            let is_next = end_mono_ns.is_some_and(|end_ns| one.begin.mono_ns.abs_diff(end_ns) <= slack_ns);
            let goes_on = is_next && !one.flags.contains(Flags::RESTART);
            // Who began or ended in a hole has no row there.
            if !goes_on && one.end.wall_ns != list.end_wall_ns {
                return Ok(false);
            }
            end_mono_ns = Some(one.end.mono_ns);
            // Who began, changed or ended in it.
            for (key, after) in one.processes_after() {
                if let Some(process) = after {
                    there.insert(key, process);
                } else {
                    there.remove(&key);
                }
            }
        }
        let mut there: Vec<IdleProcess> = there.into_values().collect();
        there.sort_unstable_by_key(|process| process.key);
        interval.add_idle(&there);
        Ok(true)
    }

    /// The newest list of the interval's boot that is not after its end, nor too old to be followed up to it.
    fn last_list(&self, host: HostRow, interval: &Interval) -> Result<Option<ProcessList>> {
        let (BootId(boot), end_ns) = (interval.boot, interval.end.wall_ns);
        let text = "SELECT end_wall_ns, processes FROM process_list
             WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3
                 AND boot_id = (SELECT id FROM boot WHERE host_id = ?1 AND key = ?4)
             ORDER BY end_wall_ns DESC LIMIT 1";
        let values = params![host, end_ns.saturating_sub(2 * LONGEST_LIST_NS), end_ns, boot];
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?));
        let found =
            find_row(self.question(), text, values, read).at("read a list of processes", self.path())?;
        Ok(found.and_then(|(end_wall_ns, bytes)| match unpack(&bytes) {
            Ok(processes) => Some(ProcessList { end_wall_ns, processes }),
            Err(malformed) => {
                // Not known who was there, as without a list.
                log::warn!("the list of processes of {end_wall_ns} is damaged: {malformed}");
                None
            }
        }))
    }

    fn listed(&self, list: &ProcessList) -> Result<HashMap<ProcessKey, IdleProcess>> {
        let connection = self.question();
        let rows: Sql<_> = self.with_cursor(|cursor| {
            let rows = list.processes.iter().map(|listed| {
                let idle = cursor.names.process(connection, listed.id)?.idle(listed.thread_rows);
                Ok((idle.key, idle))
            });
            rows.collect()
        });
        rows.at("read names", self.path())
    }
}

fn boots_of(connection: &Connection, host: HostRow) -> Sql<HashMap<BootRow, BootId>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, BootId(key_of(row.get_ref(1)?.as_blob()?))));
    let boots = all_rows(connection, "SELECT id, key FROM boot WHERE host_id = ?1", [host], read)?;
    Ok(boots.into_iter().collect())
}

/// The same moment on two clocks, ns.
#[derive(Copy, Clone, Debug)]
struct ClockPair {
    boot_ns: i64,
    wall_ns: i64,
}

impl ClockPair {
    fn wall_of(self, boot_ns: i64) -> i64 {
        self.wall_ns.saturating_add(boot_ns.saturating_sub(self.boot_ns))
    }
}

/// The end of an interval of a boot that is nearest to a time since boot.
fn nearest(
    connection: &Connection,
    key: BootKey,
    boot_ns: i64,
) -> std::result::Result<Option<ClockPair>, ReadError> {
    let text = "SELECT end_boot_ns, end_wall_ns FROM interval WHERE host_id = ?1 AND boot_id = ?2 AND end_boot_ns > 0
                ORDER BY abs(end_boot_ns - ?3) LIMIT 1";
    let read = |row: &Row<'_>| Ok(ClockPair { boot_ns: row.get(0)?, wall_ns: row.get(1)? });
    let fresh = find_row(connection, text, params![key.host, key.boot, boot_ns], read)?;
    // Chunks are found by wall time, the value that is sought here. Any chunk of the boot gives it to within the steps of the clock, and
    // so the chunk that has the begin of the process.
    let first = chunk_after(connection, key, ClockPair { boot_ns, wall_ns: i64::MIN })?;
    let about_ns = first.or(fresh).map_or(i64::MIN, |pair| pair.wall_of(boot_ns));
    let compacted = if about_ns == i64::MIN {
        None
    } else {
        chunk_after(connection, key, ClockPair { boot_ns, wall_ns: about_ns })?
    };
    let distance = |pair: &ClockPair| pair.boot_ns.abs_diff(boot_ns);
    Ok([fresh, first, compacted].into_iter().flatten().min_by_key(distance))
}

/// Of the first readable chunk of a boot that ends at `sought.wall_ns` or later, the interval's end nearest to `sought.boot_ns`.
fn chunk_after(
    connection: &Connection,
    key: BootKey,
    sought: ClockPair,
) -> std::result::Result<Option<ClockPair>, ReadError> {
    let text = "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 AND last_end_wall_ns >= ?3
                ORDER BY last_end_wall_ns LIMIT ?4";
    let ids = all_rows(connection, text, params![key.host, key.boot, sought.wall_ns, MAX_TRIED], first)?;
    let chunk = first_readable(connection, ids)?;
    let pairs = chunk.metas.iter().map(|row| ClockPair { boot_ns: row[END_BOOT], wall_ns: row[END_WALL] });
    Ok(pairs.filter(|pair| pair.boot_ns > 0).min_by_key(|pair| pair.boot_ns.abs_diff(sought.boot_ns)))
}

struct ProcessList {
    end_wall_ns: i64,
    processes: Vec<ListedProcess>,
}
