//! Run time without a row: processes that began and ended between two passes, and the time of others between the last
//! pass that saw them and their end. Windows keeps no record of it, but the CPUs' own times include it: they and the
//! threads' times are counted by the same ticks.

use std::sync::Arc;

use cpumon_model::{Counters, ProcessInfo, ProcessKey, ProcessSample, Snapshot, TaskState};

/// User id of processes whose user is unknown.
const UNKNOWN_UID: u32 = 65_534;

/// CPU time that no process accounts for, as a row without a process, which [`cpumon_model::Flags::SUMMED`] marks in intervals.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// User and system time of the CPUs less that of the processes at the first pass.
    first: Option<[i128; 2]>,
    highest: Counters,
    /// Key and name of the row, from when it is needed.
    row: Option<(ProcessKey, Arc<ProcessInfo>)>,
}

impl Unseen {
    /// Adds the run time that no pass saw since the first one to `into`, which has its CPUs. `total` is the run time of
    /// all processes ever seen.
    pub(super) fn fill(&mut self, total: &Counters, into: &mut Snapshot) {
        self.raise(total, into);
        if self.highest.run_ns == 0 {
            return;
        }
        let start_ns = into.begin.boot_ns / 1_000 * 1_000;
        let (key, info) = self
            .row
            .get_or_insert_with(|| (ProcessKey { pid: 0, start_ns: start_ns.max(1) }, Arc::new(info())));
        let info = Arc::clone(info);
        into.processes.push(ProcessSample { key: *key, parent_pid: 0, info, ended_threads: self.highest });
        into.exited_total += &self.highest;
    }

    /// CPUs and processes are read one after the other, so their difference goes up and down by a tick for each CPU. A
    /// counter may not fall; the ledger shows a smaller difference as unattributed.
    fn raise(&mut self, total: &Counters, from: &Snapshot) {
        let cpus = from.cpus.iter().map(|cpu| [cpu.times.user_ns, cpu.times.system_ns].map(i128::from));
        let ran = cpus.fold([0; 2], |sum, cpu| [sum[0] + cpu[0], sum[1] + cpu[1]]);
        let rest = [ran[0] - i128::from(total.user_ns), ran[1] - i128::from(total.system_ns)];
        let first = self.first.get_or_insert(rest);
        let [user, system] =
            [rest[0] - first[0], rest[1] - first[1]].map(|ns| u64::try_from(ns).unwrap_or(0));
        let highest = &mut self.highest;
        (highest.user_ns, highest.system_ns) = (highest.user_ns.max(user), highest.system_ns.max(system));
        highest.run_ns = highest.user_ns.saturating_add(highest.system_ns);
    }
}

fn info() -> ProcessInfo {
    let name = "ended between passes (summed)";
    ProcessInfo { name: name.into(), comm: name.into(), uid: UNKNOWN_UID, ..ProcessInfo::default() }
}

/// `KWAIT_REASON`: `Suspended` and `WrSuspended`.
const SUSPENDED: [u32; 2] = [5, 12];
/// Waits of the kernel's own for memory and disk: `FreePage`, `PageIn`, `WrFreePage`, `WrPageIn`, `WrPageOut`.
const UNINTERRUPTIBLE: [u32; 5] = [1, 2, 8, 9, 19];

/// The letter of a `KTHREAD_STATE`. Ready, standby and on its way to a CPU are R, as a ready thread is on Linux.
pub(super) fn letter(state: u32, wait_reason: u32) -> TaskState {
    TaskState(match state {
        1 | 2 | 3 | 7 => b'R',
        4 => b'X',
        5 | 8 if SUSPENDED.contains(&wait_reason) => b'T',
        5 | 8 if UNINTERRUPTIBLE.contains(&wait_reason) => b'D',
        5 | 8 => b'S',
        // The thread's kernel stack is being read from the disk.
        6 => b'D',
        // 0: initialized, not started. Wine reports it for every thread.
        _ => b'?',
    })
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuSample, CpuTimes};

    use super::*;

    /// Two CPUs that share the times, and processes with this run time.
    fn raise(unseen: &mut Unseen, cpus: [u64; 2], processes: [u64; 2]) -> (u64, u64, u64) {
        let times = CpuTimes { user_ns: cpus[0] / 2, system_ns: cpus[1] / 2, ..CpuTimes::default() };
        let cpus = [0, 1].map(|cpu| CpuSample { cpu, times, ..CpuSample::default() }).to_vec();
        let [user_ns, system_ns] = processes;
        let mut into = Snapshot { cpus, ..Snapshot::default() };
        unseen.fill(&Counters { user_ns, system_ns, ..Counters::default() }, &mut into);
        let ran = into.processes.first().map_or(Counters::default(), |row| row.ended_threads);
        assert_eq!(into.exited_total, ran);
        (ran.user_ns, ran.system_ns, ran.run_ns)
    }

    #[test]
    fn what_no_process_ran_is_counted_from_the_first_pass_and_never_falls() {
        let mut unseen = Unseen::default();
        assert_eq!(raise(&mut unseen, [1_000, 500], [400, 500]), (0, 0, 0), "older than the first pass");
        assert_eq!(raise(&mut unseen, [1_100, 600], [500, 600]), (0, 0, 0), "all of it is known");
        assert_eq!(raise(&mut unseen, [1_400, 700], [600, 650]), (200, 50, 250));
        // A tick that the processes have and the CPUs do not have yet; then both have it.
        assert_eq!(raise(&mut unseen, [1_400, 700], [610, 650]), (200, 50, 250));
        assert_eq!(raise(&mut unseen, [1_410, 700], [610, 650]), (200, 50, 250), "not counted twice");
    }

    #[test]
    fn states_are_letters() {
        let letters = |states: &[(u32, u32)]| -> String {
            states.iter().map(|(state, reason)| letter(*state, *reason).letter()).collect()
        };
        assert_eq!(letters(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (7, 0), (9, 0)]), "?RRRXDR?");
        // UserRequest, WrQueue, Suspended, WrSuspended, PageIn, WrPageOut; the reason of a running thread is an old one.
        assert_eq!(letters(&[(5, 6), (5, 15), (5, 5), (8, 12), (5, 2), (5, 19), (2, 5)]), "SSTTDDR");
    }
}
