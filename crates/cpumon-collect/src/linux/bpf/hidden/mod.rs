//! Threads that BPF does not see. Some virtual machines hide process 1 from BPF, its switches as well; without this its run time
//! would be charged to no thread. Processes that /proc shows and the iterator does not are read from /proc.
//!
//! Hidden processes are searched when the source is opened, and again when CPU time has passed that neither an event nor
//! a known hidden thread explains. The scan lists /proc, at most once in [`FIRST_WAIT`] passes, and more rarely after
//! each scan that finds none. A pass in which the hidden threads are idle costs one system call for each hidden process.
//!
//! This needs both to name processes by the same ids: those of the first pid namespace, whose /proc is mounted here. In a container
//! it is left alone.

use std::fmt::Write as _;
use std::path::Path;

use cpumon_model::{Fields, Snapshot, ThreadSample, escape};

use super::super::proc_ids::ProcIds;
use super::super::procfs::{Chosen, Leader, shows_own_pids};
use super::records::task::state_of;
use super::records::{HIDDEN, KERNEL_THREAD, TaskRecord};
use crate::CollectError;
use crate::source::UNKNOWN_UID;

/// Passes between two scans for hidden processes, at least.
const FIRST_WAIT: u32 = 8;
/// Longest such wait, after scans that found none.
const LONGEST_WAIT: u32 = 512;
/// Processes that one scan reads; the next one reads others.
const MAX_TRIES: usize = 512;
/// Unexplained CPU time since the last scan for which another scan is worth its cost.
const WORTH_A_RESCAN_NS: u64 = 20_000_000;
/// Start times in /proc are rounded down to this.
const START_RESOLUTION_NS: u64 = 10_000_000;

pub(crate) struct Hidden {
    /// `None` where /proc and BPF need not speak of the same processes.
    chosen: Option<Chosen>,
    /// Ascending by id.
    threads: Vec<TaskRecord>,
    rescan: Rescan,
    listing: Vec<u32>,
    /// The pid at which the next scan begins.
    next_pid: u32,
}

/// Totals since the source was opened.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct HiddenTotals {
    /// CPU time that no event explains; `None` where the switches are not watched.
    unknown_ns: Option<u64>,
    /// Run time of the hidden threads.
    ran_ns: u64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Rescan {
    left: u32,
    /// Passes between the last two scans.
    wait: u32,
    /// At the last scan; `None`: that was before the first pass.
    then: Option<HiddenTotals>,
}

impl Rescan {
    const NEW: Self = Self { left: FIRST_WAIT, wait: FIRST_WAIT, then: None };

    /// Counts a pass; returns whether the next scan is due.
    fn is_due(&mut self, now: HiddenTotals) -> bool {
        self.left = self.left.saturating_sub(1);
        // The first pass is the baseline: CPU time before it is not compared.
        let then = *self.then.get_or_insert(now);
        let is_worth = match (now.unknown_ns, then.unknown_ns) {
            (Some(now_ns), Some(then_ns)) => {
                let ran_ns = now.ran_ns.saturating_sub(then.ran_ns);
                now_ns.saturating_sub(then_ns).saturating_sub(ran_ns) >= WORTH_A_RESCAN_NS
            }
            // Without the switches no time is known to be unexplained: only the wait limits the scans.
            _ => true,
        };
        self.left == 0 && is_worth
    }

    fn finish(&mut self, has_found: bool, now: HiddenTotals) {
        // Listing /proc costs microseconds for each process. Time that stays unexplained for another reason must not make every
        // pass pay for it.
        let wait = if has_found { FIRST_WAIT } else { LONGEST_WAIT.min(self.wait.saturating_mul(2)) };
        *self = Self { left: wait, wait, then: Some(now) };
    }
}

impl Hidden {
    pub(crate) fn open(proc_root: &Path) -> Result<Self, CollectError> {
        let chosen = if ProcIds::of(proc_root) == ProcIds::Hosts && shows_own_pids(proc_root) {
            Some(Chosen::open(proc_root, true)?)
        } else {
            log::debug!(
                "process ids of another pid namespace than BPF's: which processes are hidden cannot be determined"
            );
            None
        };
        Ok(Self::with(chosen))
    }

    fn with(chosen: Option<Chosen>) -> Self {
        Self { chosen, threads: Vec::new(), rescan: Rescan::NEW, listing: Vec::new(), next_pid: 0 }
    }

    /// Whether hidden processes can be determined here.
    pub(crate) fn is_known(&self) -> bool {
        self.chosen.is_some()
    }

    /// The hidden threads, ascending by id.
    pub(crate) fn threads(&self) -> &[TaskRecord] {
        &self.threads
    }

    pub(crate) fn read(&mut self) {
        let Some(chosen) = &mut self.chosen else { return };
        chosen.read_all();
        self.threads.clear();
        self.threads.extend(chosen.threads().map(|(thread, leader)| record(thread, leader)));
        // Ids of threads that began after another process did lie behind that one's.
        if !self.threads.is_sorted_by_key(TaskRecord::id) {
            self.threads.sort_unstable_by_key(TaskRecord::id);
        }
    }

    /// Finds the hidden processes: those that /proc shows, that began before `observed_from_ns` (since boot), when the iterator
    /// set out, and that are not among the `shown`, which it came back with, ascending.
    pub(crate) fn find(&mut self, shown: &[TaskRecord], observed_from_ns: u64) -> bool {
        let Some(chosen) = &mut self.chosen else { return false };
        chosen.list(&mut self.listing);
        let (mut has_found, mut tries) = (false, 0);
        // A scan that reached its limit left off here; one that reaches the end starts at the front next
        // time.
        let from = std::mem::take(&mut self.next_pid);
        for &pid in self.listing.iter().filter(|pid| **pid >= from) {
            if chosen.has(pid) || is_shown(shown, pid) {
                continue;
            }
            tries += 1;
            if tries > MAX_TRIES {
                self.next_pid = pid;
                break;
            }
            let Some((start_ns, state)) = chosen.begin_and_state(pid) else { continue };
            // One that has ended and waits for its parent has no thread that could be reported.
            let is_over = matches!(state.0, b'Z' | b'X');
            // A process that began while the iterator ran may be missing from it for that reason alone.
            if start_ns.saturating_add(START_RESOLUTION_NS) < observed_from_ns && !is_over {
                chosen.choose(pid);
                // `choose` leaves out a process with too many threads.
                has_found |= chosen.has(pid);
            }
        }
        has_found
    }

    /// Rescans after a pass, if it is time. `shown`: the records of the pass. `no_longer_hidden`: how many threads the iterator
    /// reported that were thought to be hidden.
    pub(crate) fn find_again(
        &mut self,
        shown: &[TaskRecord],
        observed_from_ns: u64,
        no_longer_hidden: usize,
        into: &Snapshot,
    ) {
        let Some(chosen) = &mut self.chosen else { return };
        if no_longer_hidden > 0 {
            // Both sources would count its threads from now on.
            chosen.keep(|pid| !is_shown(shown, pid));
        }
        let unknown_ns = into.cpus.iter().map(|cpu| cpu.sched.unknown_ns).fold(0, u64::saturating_add);
        let is_watched = into.fields.contains(Fields::SCHED);
        // Ended threads count too: otherwise the sum falls at an end, and explained time seems unexplained.
        let live = self.threads.iter().map(|task| task.counters.run_ns);
        let ran_ns = live.fold(chosen.exited().run_ns, u64::saturating_add);
        let now = HiddenTotals { unknown_ns: is_watched.then_some(unknown_ns), ran_ns };
        if self.rescan.is_due(now) {
            let has_found = self.find(shown, observed_from_ns);
            self.rescan.finish(has_found, now);
        }
    }

    /// Completes a snapshot that has their threads and processes.
    pub(crate) fn complete(&self, into: &mut Snapshot) {
        let Some(chosen) = &self.chosen else { return };
        for (key, ended) in chosen.processes() {
            if let Ok(at) = into.processes.binary_search_by_key(&key, |process| process.key) {
                into.processes[at].ended_threads = *ended;
            }
        }
        // The merger counts exits by their events, and hidden threads send none.
        into.exited_total += &chosen.exited();
        let (denied, malformed) = chosen.refused();
        into.health.permission_denied += denied;
        into.health.malformed += malformed;
        into.health.hidden_left_out = chosen.left_out();
    }

    /// The hidden threads, in words; empty if there are none.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        let mut leaders = self.threads.iter().filter(|task| task.is_leader());
        if let Some(first) = leaders.next() {
            let count = self.threads.len();
            let (name, many) = (first.comm(), if count == 1 { "" } else { "s" });
            let _ = write!(text, "{count} thread{many} of {} ({})", escape(&name.to_str_lossy()), first.pid);
            let others = leaders.count();
            if others > 0 {
                let _ = write!(text, " and {others} more");
            }
        }
        text
    }
}

/// Whether any thread of this process is shown and not hidden.
fn is_shown(shown: &[TaskRecord], pid: u32) -> bool {
    let is_own = |task: &TaskRecord| task.pid == pid && !task.has(HIDDEN);
    let at = shown.partition_point(|task| task.tid < pid);
    let main = shown.get(at..).unwrap_or_default().iter().take_while(|task| task.tid == pid);
    // A main thread may have ended before the others.
    main.copied().any(|task| is_own(&task)) || shown.iter().any(is_own)
}

fn record(thread: &ThreadSample, leader: &Leader) -> TaskRecord {
    let mut comm = [0; 16];
    comm.iter_mut().zip(thread.comm.as_bytes()).for_each(|(to, from)| *to = *from);
    TaskRecord {
        start_ns: thread.key.start_ns,
        process_start_ns: thread.process.start_ns,
        counters: thread.counters,
        tid: thread.key.tid,
        pid: thread.process.pid,
        parent_pid: leader.parent_pid,
        uid: leader.uid.unwrap_or(UNKNOWN_UID),
        comm,
        state: state_of(thread.state),
        cpu: thread.last_cpu,
        priority: thread.priority,
        nice: thread.nice,
        flags: HIDDEN | if leader.is_kernel { KERNEL_THREAD } else { 0 },
        ..TaskRecord::default()
    }
}

#[cfg(test)]
mod tests;
