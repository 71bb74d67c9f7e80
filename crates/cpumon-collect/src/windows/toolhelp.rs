//! The documented way, and the original's: a list of processes and one of threads, then the times of each thread by a handle. It
//! needs the right to open each of them, and three calls a thread.

use cpumon_model::Snapshot;

use super::about::{About, IDLE_PID};
use super::sys::{self, ListedProcess, ListedThread, Miss};
use crate::nt::{Passes, ProcessRow, ThreadNames, ThreadRow};

/// Lists that are used again in each pass, and what could not be read so far.
#[derive(Default)]
pub(super) struct Toolhelp {
    processes: Vec<ListedProcess>,
    threads: Vec<ListedThread>,
    vanished: u64,
    denied: u64,
}

impl Toolhelp {
    pub(super) fn read(
        &mut self,
        passes: &mut Passes,
        about: &mut About,
        names: &mut ThreadNames,
        into: &mut Snapshot,
    ) -> std::io::Result<()> {
        sys::list(&mut self.processes, &mut self.threads)?;
        self.threads.sort_unstable_by_key(|thread| (thread.pid, thread.tid));
        let Self { processes, threads, vanished, denied } = self;
        let mut count = |miss: Miss| match miss {
            Miss::Gone => *vanished += 1,
            Miss::Denied => *denied += 1,
        };
        for process in processes.iter().filter(|process| process.pid != IDLE_PID) {
            let times = match sys::process_times(process.pid) {
                Ok(times) => times,
                Err(miss) => {
                    count(miss);
                    continue;
                }
            };
            let row = ProcessRow {
                pid: process.pid,
                parent_pid: process.parent_pid,
                created: times.created,
                user: times.user,
                kernel: times.kernel,
            };
            let first = threads.partition_point(|thread| thread.pid < process.pid);
            let own = threads[first..].iter().take_while(|thread| thread.pid == process.pid);
            let rows = own.filter_map(|thread| match sys::thread_times(thread.tid) {
                Ok(times) => Some(ThreadRow {
                    tid: thread.tid,
                    created: times.created,
                    user: times.user,
                    kernel: times.kernel,
                    priority: thread.priority,
                    state: None,
                    name: names.of(thread.tid, times.created, sys::thread_name),
                }),
                Err(miss) => {
                    count(miss);
                    None
                }
            });
            passes.add(&row, rows, || about.describe(process.pid, &process.name()), into);
        }
        (into.health.tasks_vanished, into.health.permission_denied) = (*vanished, *denied);
        Ok(())
    }
}
