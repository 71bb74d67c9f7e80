//! The accounts of each CPU, from `struct cpu` of the probe as of the cut. [`CpuAccounts`] makes [`CpuSample`]s, whose modes add up to the
//! time between two cuts, to the ns. The kernel's own modes are sampled at the tick and do not add up; only the split of run time into
//! user, nice and system is taken from there.
//!
//! The run queue of a CPU ([`QueueTotals`]) is read with its modes. [`IrqTimes`] has the interrupts by line: times from the probe's table,
//! names from /proc/interrupts.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpumon_model::{CpuSample, CpuSched, CpuTimes, IrqSample, LOCAL_IRQ_FROM, Probes};

use super::super::records::{CpuAccount, CpuEntry, IrqEntry};
use super::{MappedArray, Programs};
use crate::CollectError;
use crate::parse::irq_name;
use crate::split::Split;

/// Modes of [`CpuAccount`]; cpus.h: `MODE_*`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuMode {
    Run,
    Idle,
    Iowait,
    Irq,
    Softirq,
    Unknown,
    Steal,
}

/// Data of a CPU that user space keeps from pass to pass.
#[derive(Copy, Clone, Debug, Default)]
struct CpuTotals {
    /// Times in /proc/stat when the CPU was first seen.
    base: CpuTimes,
    first_cut_ns: u64,
    first: CpuAccount,
    last: CpuAccount,
    /// Since it was first seen; each mode only grows.
    modes: [u64; 7],
    user_system: Split,
    user_nice: Split,
    /// /proc/stat now: of guests, and of interrupts where they have no events.
    sampled: CpuTimes,
    queue: QueueTotals,
    /// Whether the thread of the open slice is known.
    is_claimed: bool,
}

pub(crate) struct CpuAccounts {
    entries: MappedArray<CpuEntry>,
    kept: BTreeMap<u32, CpuTotals>,
    probes: Probes,
    /// Threads that run at the cut though no event reported their switch-in, with their CPU. Nearly always empty.
    unseen: Vec<(u32, u32)>,
    /// Threads that run at the cut and whose switch-in was reported, with their run time at the cut by the kernel's count.
    running: Vec<(u32, u64)>,
    previous_cut_ns: u64,
    missed: u64,
    unknown_wakeups: u64,
    /// A CPU could not be read whole at this cut.
    is_torn: bool,
}

impl CpuAccounts {
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        Ok(Self {
            entries: MappedArray::map(programs, "cpus", false)?,
            kept: BTreeMap::new(),
            probes: programs.probes,
            unseen: Vec::with_capacity(8),
            running: Vec::with_capacity(8),
            previous_cut_ns: 0,
            missed: 0,
            unknown_wakeups: 0,
            is_torn: false,
        })
    }

    /// Account of the CPU at the cut; if it is torn, at the last cut.
    pub(crate) fn account(&self, cpu: u32) -> Option<CpuAccount> {
        let entry = self.entries.read(cpu as usize)?;
        // The CPU changed its account at every attempt to copy it: the last cut's values do not move, and the next cut makes up for it.
        if entry.is_torn != 0 {
            return self.kept.get(&cpu).map(|kept| kept.last);
        }
        Some(entry.shown)
    }

    /// Run time of the thread in the open slice, if it was running at the cut.
    pub(crate) fn open_slice_ns(&mut self, cpu: u16, tid: u32) -> Option<u64> {
        let account = self.account(cpu.into())?;
        if account.tid != tid {
            return None;
        }
        if let Some(kept) = self.kept.get_mut(&cpu.into()) {
            // A live thread takes the open slice, so its run time stays in the CPU's mode *run*.
            kept.is_claimed = true;
        }
        Some(account.slice_run_ns)
    }

    /// Adds a delay that is open at the cut to the queue it is spent in.
    pub(crate) fn add_open_delay(&mut self, cpu: u16, delay_ns: u64) {
        if let Some(kept) = self.kept.get_mut(&cpu.into()) {
            kept.queue.open(delay_ns);
        }
    }

    /// Begins a cut; call it before the threads are visited.
    pub(crate) fn begin(&mut self) {
        self.unseen.clear();
        self.running.clear();
        for (&cpu, kept) in &mut self.kept {
            kept.queue.begin();
            kept.is_claimed = false;
            let entry = self.entries.read(cpu as usize).filter(|entry| entry.is_torn == 0);
            let Some(CpuEntry { shown, .. }) = entry.filter(|entry| entry.shown.tid != 0) else { continue };
            if shown.came_unseen != 0 {
                self.unseen.push((shown.tid, cpu));
            } else {
                self.running.push((shown.tid, shown.slice_exec_ns.saturating_add(shown.slice_run_ns)));
            }
        }
    }

    /// Run time at the cut, by the kernel's count, of a thread that is hidden from the iterator, if it was running then.
    /// Its switch-in is reported: the thread that left for it is not hidden.
    pub(crate) fn hidden_run_ns(&self, tid: u32) -> Option<u64> {
        self.running.iter().find(|(running, _)| *running == tid).map(|(_, run_ns)| *run_ns)
    }

    /// Run time of the thread in the open slice, if it was running at the cut and no event reported its switch-in.
    pub(crate) fn came_unseen_ns(&mut self, tid: u32) -> Option<u64> {
        let cpu = self.unseen.iter().find(|(unseen, _)| *unseen == tid)?.1;
        self.open_slice_ns(cpu.try_into().ok()?, tid)
    }

    /// Turns the samples of /proc/stat into those of the accounts.
    pub(crate) fn fill(&mut self, cut_ns: u64, cpus: &mut [CpuSample]) {
        let (mut breaks, mut unknown_wakeups) = (0_u64, 0_u64);
        self.is_torn = false;
        for sample in cpus {
            let Some(entry) = self.entries.read(sample.cpu as usize) else { continue };
            let account = self.account(sample.cpu).unwrap_or(entry.shown);
            breaks = breaks.saturating_add(account.breaks);
            unknown_wakeups = unknown_wakeups.saturating_add(entry.unknown_wakeups);
            self.is_torn |= entry.is_torn != 0;
            let kept = self.kept.entry(sample.cpu).or_insert_with(|| CpuTotals {
                base: sample.times,
                first_cut_ns: cut_ns,
                first: account,
                last: account,
                ..CpuTotals::default()
            });
            kept.last = account;
            if account.tid != 0 && !kept.is_claimed {
                // A thread that is hidden from the iterator: no event will report when it leaves.
                let run = &mut kept.last.mode_ns[CpuMode::Run as usize];
                *run = run.saturating_sub(account.slice_run_ns);
            }
            // After the unclaimed slice was taken out, or the mode would have to fall at the next cut.
            kept.grow(cut_ns, &sample.times, self.probes.contains(Probes::IRQ));
            kept.queue.close(account.busy_ns, entry.waited_ns.saturating_add(entry.pulled_ns));
            sample.times = kept.times();
            sample.sched = CpuSched {
                unknown_ns: kept.modes[CpuMode::Unknown as usize],
                // `share_ready` adds the time that threads were ready.
                run_queue_ns: 0,
                // The probe resets the maximum at the first switch after a cut: without one it is of an
                // earlier interval.
                run_queue_max: if account.queue_cut_ns == self.previous_cut_ns {
                    account.queue_max
                } else {
                    0
                },
                switches: account.switches,
                softirq_ns: std::array::from_fn(|kind| account.softirq_ns[kind]),
            };
            // A CPU that ran one thread all the time made no switch at which the queue would have been counted.
            let at_cut = kept.queue.length() + u32::from(account.tid != 0);
            sample.sched.run_queue_max = sample.sched.run_queue_max.max(at_cut);
        }
        self.previous_cut_ns = cut_ns;
        // A CPU that went offline is not in the sum: it must not fall.
        self.missed = self.missed.max(breaks);
        self.unknown_wakeups = self.unknown_wakeups.max(unknown_wakeups);
    }

    /// Adds the time that all threads together were ready since the last cut to the queues.
    pub(crate) fn share_ready(&mut self, ready_ns: u64, cpus: &mut [CpuSample]) {
        let weight = |sample: &CpuSample| self.kept.get(&sample.cpu).map_or(0, |kept| kept.queue.weight());
        let mut shares = Shares::new(ready_ns, cpus.iter().map(weight));
        for sample in cpus {
            let Some(kept) = self.kept.get_mut(&sample.cpu) else { continue };
            sample.sched.run_queue_ns = kept.queue.add(shares.next(kept.queue.weight()));
        }
    }

    /// Whether every CPU could be read whole at the last cut.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_torn
    }

    /// Switches to a thread whose wakeup time is unknown, since the probe was loaded.
    pub(crate) fn unknown_wakeups(&self) -> u64 {
        self.unknown_wakeups
    }

    /// Switches that were missed, since the probe was loaded.
    pub(crate) fn missed_switches(&self) -> u64 {
        self.missed
    }

    pub(crate) fn previous_cut_ns(&self) -> u64 {
        self.previous_cut_ns
    }
}

impl CpuTotals {
    /// Brings the modes to the cut. They add up to the time since the first one; a mode that would fall (because a span
    /// that was shown as open turned out to be another's) stays until it has caught up, at the cost of the unknown time.
    fn grow(&mut self, cut_ns: u64, sampled: &CpuTimes, has_irq: bool) {
        let elapsed = cut_ns.saturating_sub(self.first_cut_ns);
        let mut known = 0_u64;
        for mode in
            [CpuMode::Run, CpuMode::Idle, CpuMode::Iowait, CpuMode::Irq, CpuMode::Softirq, CpuMode::Steal]
        {
            let at = mode as usize;
            let grown = self.last.mode_ns[at].saturating_sub(self.first.mode_ns[at]);
            // A mode never falls, so that a rate is never negative: a span shown as open may turn out to be another mode's.
            self.modes[at] = self.modes[at].max(grown);
            known = known.saturating_add(self.modes[at]);
        }
        let unknown = elapsed.saturating_sub(known);
        self.modes[CpuMode::Unknown as usize] = self.modes[CpuMode::Unknown as usize].max(unknown);
        self.sampled = *sampled;
        let run = self.modes[CpuMode::Run as usize];
        // Without events of their own, interrupts are inside the run time: their sampled time is subtracted for display.
        let sampled_irq = if has_irq { 0 } else { self.sampled_irq(sampled) };
        // The sampled time moves in ticks, so the rest may fall short of the split that was shown.
        let run = run.saturating_sub(sampled_irq).max(self.user_system.user_ns + self.user_system.system_ns);
        // Sampled over the same time as the run time: proportions since boot would hide the current load behind hours of another one.
        let plain = sampled.user_ns.saturating_sub(self.base.user_ns);
        let nice = sampled.nice_ns.saturating_sub(self.base.nice_ns);
        let system = sampled.system_ns.saturating_sub(self.base.system_ns);
        self.user_system = self.user_system.advance(plain.saturating_add(nice), system, run);
        // `Split` divides any total in two: here user time into plain and niced time.
        self.user_nice = self.user_nice.advance(plain, nice, self.user_system.user_ns);
    }

    fn sampled_irq(&self, sampled: &CpuTimes) -> u64 {
        let base = self.base.irq_ns.saturating_add(self.base.softirq_ns);
        sampled.irq_ns.saturating_add(sampled.softirq_ns).saturating_sub(base)
    }

    fn times(&self) -> CpuTimes {
        let mode = |mode: CpuMode| self.modes[mode as usize];
        // Time that `grow` moved from run time to interrupts must appear there, or the sum would not add up.
        let aside = mode(CpuMode::Run) - (self.user_system.user_ns + self.user_system.system_ns);
        let irq_aside = aside.min(self.sampled.irq_ns.saturating_sub(self.base.irq_ns));
        CpuTimes {
            // From the values of /proc/stat on: times are since boot, as in every source.
            user_ns: self.base.user_ns.saturating_add(self.user_nice.user_ns),
            nice_ns: self.base.nice_ns.saturating_add(self.user_nice.system_ns),
            system_ns: self.base.system_ns.saturating_add(self.user_system.system_ns),
            idle_ns: self.base.idle_ns.saturating_add(mode(CpuMode::Idle)),
            iowait_ns: self.base.iowait_ns.saturating_add(mode(CpuMode::Iowait)),
            irq_ns: self.base.irq_ns.saturating_add(mode(CpuMode::Irq) + irq_aside),
            softirq_ns: self.base.softirq_ns.saturating_add(mode(CpuMode::Softirq) + aside - irq_aside),
            steal_ns: self.base.steal_ns.saturating_add(mode(CpuMode::Steal)),
            guest_ns: self.sampled.guest_ns,
            guest_nice_ns: self.sampled.guest_nice_ns,
        }
        .clamped()
    }
}

/// The run queue of a CPU, integrated over time: the slices of threads, and the time that threads were ready. The sum over all CPUs
/// is exact, for it is that of the threads. In which queue a thread waited is known only of the end of its wait, so each CPU gets a
/// share of that time in proportion to the waits that ended and are open in its queue.
#[derive(Copy, Clone, Debug, Default)]
struct QueueTotals {
    /// Waits that are open at the cut, and how many.
    open_ns: u64,
    open: u32,
    /// Totals at the last cut.
    busy_ns: u64,
    waited_ns: u64,
    weight: u64,
    shown_ns: u64,
}

impl QueueTotals {
    /// Begins a cut; call it before the threads are visited.
    fn begin(&mut self) {
        (self.open_ns, self.open) = (0, 0);
    }

    /// Counts a wait that is open at the cut.
    fn open(&mut self, delay_ns: u64) {
        self.open_ns = self.open_ns.saturating_add(delay_ns);
        self.open += 1;
    }

    /// Threads that wait at the cut.
    fn length(&self) -> u32 {
        self.open
    }

    /// Brings it to the cut. `busy_ns`: all slices of threads; `ended_ns`: all waits that ended in it.
    fn close(&mut self, busy_ns: u64, ended_ns: u64) {
        let waited_ns = ended_ns.saturating_add(self.open_ns);
        // Less than at the last cut: the thread of an open slice had left its CPU, which was idle since. The shown value stays.
        let busy_ns = busy_ns.max(self.busy_ns);
        self.shown_ns = self.shown_ns.saturating_add(busy_ns - self.busy_ns);
        // Less than at the last cut: a thread was moved to another queue, with all that it had waited.
        self.weight = waited_ns.saturating_sub(self.waited_ns);
        (self.busy_ns, self.waited_ns) = (busy_ns, waited_ns);
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds its share; returns all that is to be shown.
    fn add(&mut self, ready_ns: u64) -> u64 {
        self.shown_ns = self.shown_ns.saturating_add(ready_ns);
        self.shown_ns
    }
}

/// Divides a time among queues; the parts add up to it.
struct Shares {
    /// Rest of the time, of the weights, and of the queues.
    left_ns: u64,
    weight: u128,
    queues: u64,
}

impl Shares {
    fn new(ready_ns: u64, weights: impl Iterator<Item = u64>) -> Self {
        let (mut weight, mut queues) = (0, 0);
        for each in weights {
            weight += u128::from(each);
            queues += 1;
        }
        Self { left_ns: ready_ns, weight, queues }
    }

    /// The part of the next queue, which has this weight.
    fn next(&mut self, weight: u64) -> u64 {
        let part = match (self.weight, self.queues) {
            (_, 0) => 0,
            // No wait is known in any queue: each gets the same.
            (0, queues) => self.left_ns / queues,
            (all, _) => {
                u64::try_from(u128::from(self.left_ns) * u128::from(weight) / all).unwrap_or(self.left_ns)
            }
        };
        self.weight = self.weight.saturating_sub(weight.into());
        self.queues = self.queues.saturating_sub(1);
        self.left_ns -= part.min(self.left_ns);
        part
    }
}

/// Entries for lines; irqs.h: `IRQ_LINES`. The last is for all lines above.
const LINES: usize = 1024;

/// Names of the entries after the lines; irqs.h: `IRQ_TIMER` and on.
const LOCAL: [&str; 6] =
    ["local timer", "reschedule", "function call", "single function call", "irq work", "inter-processor"];

pub(crate) struct IrqTimes {
    entries: MappedArray<IrqEntry>,
    path: PathBuf,
    names: HashMap<u32, Arc<str>>,
}

impl IrqTimes {
    /// Maps it, and learns the names of all lines there are: one that is handled for the first time then costs nothing.
    pub(crate) fn open(programs: &Programs, proc_root: &Path) -> Result<Self, CollectError> {
        let entries = MappedArray::map(programs, "irqs", false)?;
        let mut irqs = Self { entries, path: proc_root.join("interrupts"), names: HashMap::new() };
        irqs.learn_listed();
        for (number, name) in (LOCAL_IRQ_FROM..).zip(LOCAL) {
            irqs.names.insert(number, Arc::from(name));
        }
        Ok(irqs)
    }

    /// Replaces `into` by every line that was ever handled, ascending.
    pub(crate) fn read(&mut self, into: &mut Vec<IrqSample>) {
        into.clear();
        into.reserve(self.names.len());
        let mut has_read_names = false;
        for at in 0..self.entries.len() {
            let Some(entry) = self.entries.read(at).filter(|entry| entry.count > 0) else { continue };
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            let first_local = u32::try_from(LINES).unwrap_or(u32::MAX);
            let irq = if at < LINES { number } else { LOCAL_IRQ_FROM + number - first_local };
            if !self.names.contains_key(&irq) {
                self.learn(irq, at, &mut has_read_names);
            }
            let Some(name) = self.names.get(&irq) else { continue };
            into.push(IrqSample { irq, name: Arc::clone(name), time_ns: entry.time_ns, count: entry.count });
        }
    }

    fn learn_listed(&mut self) {
        let text = std::fs::read(&self.path).unwrap_or_default();
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((number, name)) = irq_name(line) {
                self.names.insert(number, Arc::from(String::from_utf8_lossy(name)));
            }
        }
    }

    fn learn(&mut self, irq: u32, at: usize, has_read_names: &mut bool) {
        // At most once a pass: /proc/interrupts has a column for each CPU.
        if !*has_read_names {
            *has_read_names = true;
            self.learn_listed();
        }
        let name = if at + 1 == LINES { format!("irq {at} and above") } else { format!("irq {at}") };
        self.names.entry(irq).or_insert_with(|| Arc::from(name));
    }
}

#[cfg(test)]
mod tests;
