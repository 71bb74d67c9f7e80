//! [`StoreHandle`]: the store of a running receiver. Putting an interval never waits for the disk.
//!
//! [`Earlier`]: what tasks were called before this receiver started. An agent that sends datagrams repeats names by turns, so a receiver
//! that starts again would know none for half a minute, and would store rows without. Read at the start: a datagram may be made up
//! and causes no read of the disk.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cpumon_model::{
    BootId, ClockLine, Comm, HostId, HostInfo, IdleProcess, Interval, ProcessInfo, ProcessKey, ThreadKey,
    Trust,
};
use cpumon_query::history::ReaderPool;
use cpumon_query::{HostRecord, Seek, seek, status};
use cpumon_store::{QueueOptions, Reader, StoreOptions, StoreState, WriterHandle, WriterThread};

use crate::hub::Past;
use crate::{ReceiverError, lock, mono_ns};

/// The store's writer thread, and readers for what was stored before this start and for moments that are out of memory.
#[derive(Debug)]
pub struct StoreHandle {
    pub(crate) path: PathBuf,
    queue_capacity: u64,
    pub(crate) handle: WriterHandle,
    thread: Mutex<Option<WriterThread>>,
    readers: ReaderPool,
}

impl StoreHandle {
    /// Opens the store, making its directory if need be, and starts its writer thread.
    pub fn start(path: &Path, options: &StoreOptions) -> Result<Self, ReceiverError> {
        let dir = cpumon_files::directory_of(path);
        cpumon_files::create_dir(dir)
            .map_err(|source| ReceiverError::Directory { path: dir.to_owned(), source })?;
        let queue = QueueOptions::default();
        let thread = WriterThread::spawn(path, options, &queue).map_err(ReceiverError::Store)?;
        Ok(Self {
            path: path.to_owned(),
            queue_capacity: queue.max_intervals as u64,
            handle: thread.handle(),
            thread: Mutex::new(Some(thread)),
            readers: ReaderPool::new(Some(path.to_owned())),
        })
    }

    /// How the intervals of a boot were placed before this start. A store that cannot be read is logged, and counts as empty.
    pub fn clock_line(&self, host: HostId, boot: BootId) -> ClockLine {
        let line = self.readers.ask(|reader| reader.clock_line(host, boot));
        line.inspect_err(|error| log::warn!("{}", error.with_causes())).ok().flatten().unwrap_or_default()
    }

    pub fn status(&self) -> status::Store {
        let status = self.handle.status();
        let (state, error) = match status.state {
            StoreState::Ok => (status::StoreState::Ok, String::new()),
            StoreState::Full { reason, .. } | StoreState::Failed { reason } => {
                (status::StoreState::Failing, reason)
            }
        };
        status::Store {
            path: self.path.display().to_string(),
            state,
            error,
            queue: status.queued_intervals,
            queue_capacity: self.queue_capacity,
            dropped: status.dropped_intervals,
            refused: status.refused_intervals,
            written: status.stored_intervals,
            size_bytes: size_on_disk(&self.path),
            clock: status.clock_doubt.map(|doubt| doubt.to_string()).unwrap_or_default(),
            // Who answers other questions than the hub's adds its own.
            damage: self.readers.damage(),
        }
    }

    /// Writes what waits and closes the store.
    pub fn finish(&self) -> Result<(), ReceiverError> {
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else { return Ok(()) };
        match thread.stop().state {
            StoreState::Ok => Ok(()),
            StoreState::Full { reason, .. } | StoreState::Failed { reason } => {
                Err(ReceiverError::NotStored(reason))
            }
        }
    }
}

fn size_on_disk(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    size(path) + size(Path::new(&log))
}

/// The hosts of the store. None, where it cannot be read: the writer says why.
pub fn hosts_of_store(path: Option<&Path>) -> Vec<HostRecord> {
    let reader = path.and_then(|path| Reader::open(path).ok());
    reader.and_then(|reader| reader.hosts().ok()).unwrap_or_default()
}

/// Answers for what the hub has no longer in memory. The store is opened at the first question.
pub fn past_of_store(store: Option<Arc<StoreHandle>>) -> Past {
    Box::new(move |host, to| {
        let Some(store) = &store else { return Ok(None) };
        let found = store.readers.ask(|reader| seek(reader, host, to));
        found.map(Option::flatten).map_err(|error| error.with_causes())
    })
}

/// Tasks are read of hosts whose newest interval is at most this old, ns: of others they are gone.
const NEWEST_NS: i64 = 600_000_000_000;
/// Time for reading tasks, of the hosts that sent last first.
const READING: Duration = Duration::from_secs(1);
const MAX_TASKS: usize = 500_000;
/// How long names of tasks are needed, ns: an agent repeats all names in half a minute.
const NEEDED_NS: u64 = 180_000_000_000;

/// Names of before this start. Empty without a store.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    tasks: Mutex<HashMap<HostId, Tasks>>,
    needed_until_mono_ns: u64,
}

/// Tasks of the newest stored interval of one host.
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
        let now = cpumon_agent::now();
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
        let mut all = lock(&self.tasks);
        if all.is_empty() {
            return;
        }
        if mono_ns() > self.needed_until_mono_ns {
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
    use cpumon_store::Writer;

    use super::*;

    const HOST: HostId = HostId([7; 16]);
    const BOOT: BootId = BootId([8; 16]);

    fn interval(boot: BootId, name: &str, comm: &str) -> Interval {
        let now = cpumon_agent::now();
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
