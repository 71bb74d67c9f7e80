//! The documented way, which the original used: a list of processes and one of threads, then the times of each thread by
//! a handle. It needs the right to open each thread, and three calls a thread.

use cpumon_model::{ProcessInfo, Snapshot};

use super::about::{About, IDLE_PID};
use super::sys::{self, ListedProcess, ListedThread, Miss};
use crate::nt::{self, Passes, ReportedProcess, ReportedThread, ThreadNames};

/// Lists that are used again in each pass, and the processes that could not be read so far.
#[derive(Default)]
pub(super) struct Toolhelp {
    processes: Vec<ListedProcess>,
    /// Processes whose times could be read, with their place in the list.
    rows: Vec<(usize, ReportedProcess)>,
    threads: Vec<ListedThread>,
    is_wine: bool,
    vanished: u64,
    denied: u64,
}

impl Toolhelp {
    pub(super) fn new(is_wine: bool) -> Self {
        Self { is_wine, ..Self::default() }
    }

    pub(super) fn read(
        &mut self,
        passes: &mut Passes,
        about: &mut About,
        names: &mut ThreadNames,
        into: &mut Snapshot,
    ) -> std::io::Result<()> {
        let Self { processes, rows, threads, is_wine, vanished, denied } = self;
        let mut count = |miss: Miss| match miss {
            Miss::Gone => *vanished += 1,
            Miss::Denied => *denied += 1,
        };
        sys::list_processes(processes)?;
        rows.clear();
        for (at, process) in processes.iter().enumerate().filter(|(_, process)| process.pid != IDLE_PID) {
            let times = match sys::process_times(process.pid) {
                Ok(times) => times,
                Err(miss) => {
                    count(miss);
                    continue;
                }
            };
            let row = ReportedProcess {
                pid: process.pid,
                parent_pid: process.parent_pid,
                created: times.created,
                user: times.user,
                kernel: times.kernel,
                session: None,
                base_priority: nt::priority(process.base_priority),
            };
            rows.push((at, row));
        }
        // Only now: run time of a thread that is in its process's times but not in the list would count as that of an
        // ended one, and again as its own in the next pass.
        sys::list_threads(threads)?;
        threads.sort_unstable_by_key(|thread| (thread.pid, thread.tid));
        for (at, row) in rows.iter() {
            let process = &processes[*at];
            let first = threads.partition_point(|thread| thread.pid < process.pid);
            let own = threads[first..].iter().take_while(|thread| thread.pid == process.pid);
            let threads = own.filter_map(|thread| match sys::thread_times(thread.tid) {
                Ok(times) => {
                    let row = ReportedThread {
                        tid: thread.tid,
                        created: times.created,
                        user: times.user,
                        kernel: times.kernel,
                        priority: thread.priority,
                        state: None,
                        name: names.of(thread.tid, times.created, sys::thread_name),
                    };
                    Some(if *is_wine { row.if_possible(sys::coarse_time()) } else { row })
                }
                Err(miss) => {
                    count(miss);
                    None
                }
            });
            let describe = || ProcessInfo {
                session: sys::session_of(process.pid),
                ..about.describe(process.pid, &process.name())
            };
            passes.add(row, threads, describe, into);
        }
        (into.health.tasks_vanished, into.health.permission_denied) = (*vanished, *denied);
        Ok(())
    }
}
