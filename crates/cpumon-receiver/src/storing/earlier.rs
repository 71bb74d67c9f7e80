//! [`Earlier`]: what tasks were called before this receiver started. An agent that sends datagrams repeats names by turns, so a receiver
//! that starts again would know none for half a minute, and would store rows without. Read at the start: a datagram may be made up
//! and causes no read of the disk.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpumon_model::{
    BootId, Comm, HostId, HostInfo, IdleProcess, Interval, ProcessInfo, ProcessKey, ThreadKey, Trust,
};
use cpumon_query::{HostRecord, Seek, seek};
use cpumon_store::Reader;

use crate::clock;

/// Tasks are read of hosts whose newest interval is at most this old, ns: of others they are gone.
const NEWEST_NS: i64 = 600_000_000_000;
/// Time for reading tasks, of the hosts that sent last first.
const READING: Duration = Duration::from_secs(1);
/// Tasks of all hosts, at most.
const MAX_TASKS: usize = 500_000;
/// For how long names of tasks are needed, ns: an agent repeats all of them in half a minute.
const NEEDED_NS: u64 = 180_000_000_000;

/// Names of before this start. Empty without a store.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    tasks: Mutex<HashMap<HostId, Tasks>>,
    needed_until_mono_ns: u64,
}

/// The newest interval's tasks.
#[derive(Debug, Default)]
struct Tasks {
    boot: BootId,
    /// How they came in. What comes in by a way that is trusted less may be another machine's.
    trust: Trust,
    processes: HashMap<ProcessKey, (u32, Arc<ProcessInfo>)>,
    threads: HashMap<ThreadKey, Comm>,
}

impl Tasks {
    fn of(interval: &Interval, trust: Trust) -> Self {
        let named = interval.processes.iter().filter(|row| !row.info.name.is_empty());
        Self {
            boot: interval.boot,
            trust,
            processes: named.map(|row| (row.key, (row.parent_pid, Arc::clone(&row.info)))).collect(),
            threads: interval.threads.iter().map(|row| (row.key, row.comm)).collect(),
        }
    }
}

impl Earlier {
    /// Reads the names of a store and of its hosts.
    pub(super) fn read(path: &Path, hosts: &[HostRecord]) -> Self {
        let now = clock::now();
        let oldest_ns = now.wall_ns.saturating_sub(NEWEST_NS);
        let mut recent: Vec<&HostRecord> =
            hosts.iter().filter(|host| host.last_wall_ns.is_some_and(|last| last >= oldest_ns)).collect();
        recent.sort_unstable_by_key(|host| Reverse(host.last_wall_ns));
        Self {
            tasks: Mutex::new(read_tasks(path, &recent)),
            needed_until_mono_ns: now.mono_ns.saturating_add(NEEDED_NS),
        }
    }

    /// Names the tasks of an interval that have no name yet.
    pub(super) fn name_tasks(&self, trust: Trust, interval: &mut Interval) {
        let mut all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        if clock::mono_ns() > self.needed_until_mono_ns {
            *all = HashMap::new();
            return;
        }
        let is_same = |known: &&Tasks| known.boot == interval.boot && known.trust.rank() <= trust.rank();
        let Some(known) = all.get(&interval.host).filter(is_same) else { return };
        for row in interval.processes.iter_mut().filter(|row| row.info.name.is_empty()) {
            if let Some((parent_pid, info)) = known.processes.get(&row.key) {
                row.info = Arc::clone(info);
                row.parent_pid = *parent_pid;
            }
        }
        let nameless = |idle: &IdleProcess| idle.info.name.is_empty();
        if let Some(listed) = interval.idle_processes.as_mut().filter(|listed| listed.iter().any(nameless)) {
            let named = listed.iter().map(|idle| match known.processes.get(&idle.key) {
                Some((parent_pid, info)) if nameless(idle) => {
                    IdleProcess { parent_pid: *parent_pid, info: Arc::clone(info), ..*idle }
                }
                _ => idle.clone(),
            });
            *listed = named.collect();
        }
        for row in interval.threads.iter_mut().filter(|row| row.comm.is_empty()) {
            if let Some(comm) = known.threads.get(&row.key) {
                row.comm = *comm;
            }
        }
    }
}

/// Tasks of hosts, the last one first. A store that cannot be read is logged: names come from the agents in time.
fn read_tasks(path: &Path, recent: &[&HostRecord]) -> HashMap<HostId, Tasks> {
    let mut tasks = HashMap::new();
    let begin = Instant::now();
    let opened = if recent.is_empty() { return tasks } else { Reader::open(path) };
    let Ok(reader) = opened.inspect_err(|error| log::warn!("{}", error.with_causes())) else { return tasks };
    let mut count = 0;
    for HostRecord { info: HostInfo { host, .. }, trust, .. } in recent {
        if count > MAX_TASKS || begin.elapsed() > READING {
            log::info!("names of tasks were read of {} hosts of {}", tasks.len(), recent.len());
            break;
        }
        match seek(&reader, *host, Seek::Before(i64::MAX)) {
            Ok(Some(interval)) => {
                let of_host = Tasks::of(&interval, *trust);
                count += of_host.processes.len() + of_host.threads.len();
                tasks.insert(*host, of_host);
            }
            Ok(None) => {}
            Err(error) => log::warn!("{}", error.with_causes()),
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use cpumon_model::{ProcessInterval, ThreadInterval};
    use cpumon_store::{StoreOptions, Writer};

    use super::*;

    const HOST: HostId = HostId([7; 16]);
    const BOOT: BootId = BootId([8; 16]);

    fn interval(boot: BootId, name: &str, comm: &str) -> Interval {
        let now = clock::now();
        let key = ProcessKey { pid: 5, start_ns: 9 };
        let info = Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() });
        let parent_pid = if name.is_empty() { 0 } else { 3 };
        let delta = cpumon_model::Delta { run_ns: 1_000, ..cpumon_model::Delta::default() };
        let thread = ThreadInterval {
            key: ThreadKey { tid: 5, start_ns: 9 },
            process: key,
            comm: comm.into(),
            delta,
            ..ThreadInterval::default()
        };
        let process =
            ProcessInterval { key, info, parent_pid, delta, thread_rows: 1, ..ProcessInterval::default() };
        let fields = cpumon_model::Fields::RUN;
        let mut begin = now;
        begin.wall_ns -= 1_000_000_000;
        begin.mono_ns = now.mono_ns.saturating_sub(1_000_000_000);
        let (processes, threads) = (vec![process], vec![thread]);
        Interval { host: HOST, boot, begin, end: now, fields, processes, threads, ..Interval::default() }
    }

    #[test]
    fn a_receiver_that_starts_again_knows_names_before_agents_repeat_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let info =
            HostInfo { host: HOST, boot: BOOT, hostname: "dev1".into(), cpu_count: 4, ..HostInfo::default() };
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        writer.put(&info, Trust::Encrypted, None, &interval(BOOT, "nightly", "worker")).unwrap();
        writer.commit().unwrap();
        drop(writer);
        let earlier = Earlier::read(&path, &Reader::open(&path).unwrap().hosts().unwrap());
        let named = |trust, boot, name: &str| {
            let mut made = interval(boot, name, name);
            earlier.name_tasks(trust, &mut made);
            let row = &made.processes[0];
            (row.info.name.to_string(), row.parent_pid, made.threads[0].comm.to_str_lossy().into_owned())
        };
        let names = |boot, name: &str| named(Trust::Encrypted, boot, name);
        assert_eq!(names(BOOT, ""), ("nightly".into(), 3, "worker".into()));
        assert_eq!(names(BOOT, "newer").0, "newer", "what the agent sent counts");
        assert_eq!(names(BootId([9; 16]), "").0, "", "a pid of another boot is another process");
        assert_eq!(named(Trust::Unauthenticated, BOOT, "").0, "", "it may be another machine");
    }
}
