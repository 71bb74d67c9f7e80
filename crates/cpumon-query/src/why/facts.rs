//! [`Facts`]: what the parts of a range and the threads of those who matter say of a subject: times by state, and who had what it waited
//! for. Pure: nothing is read here.

use std::collections::{BTreeMap, BTreeSet};

use cpumon_model::{
    CpuTimes, Delta, Fields, ProcessKey, SOFTIRQ_KINDS, Throttle, WaitFor, WaitReason, WaitedOn,
};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::answer::{Culprit, WhyTarget};
use super::part::{WhyPart, scaled};
use super::peers::{busy_peers, idle_threads, is_idle_pool};
use super::states::{StateTimes, SubjectRows, SubjectWait, WaitClass, at_least_zero, cgroups_of};
use super::threads::{SeenThread, ThreadSums};

/// Pids of a culprit at most.
const MAX_PIDS: usize = 8;
/// Major page faults a second from which on a wait for a disk is one for memory.
const MIN_FAULTS: f64 = 10.0;
/// Intervals at whose end a thread waited for a disk from which on that is no chance.
const MIN_SAMPLES: u64 = 3;
/// Started processes a second from which on they are a cause.
pub(super) const MIN_STARTS: f64 = 20.0;
/// Intervals from which on a single CPU is no chance.
pub(super) const MIN_INTERVALS: u64 = 5;
/// Programs of a list at most.
const MAX_PROGRAMS: usize = 64;

/// A time of a process.
#[derive(Copy, Clone, Debug)]
pub(super) struct KeyTime {
    pub(super) key: ProcessKey,
    pub(super) ns: u64,
}

/// A time by program.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramTime {
    pub(super) name: Box<str>,
    pub(super) ns: u64,
    pub(super) is_estimated: bool,
    /// Its processes, the longest time first.
    pub(super) keys: Vec<KeyTime>,
}

/// What all processes of a program ran.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ProgramRun {
    pub(super) run_ns: u64,
    pub(super) system_ns: u64,
}

/// A CPU limit of the subject.
#[derive(Clone, Debug)]
pub(super) struct QuotaFacts {
    /// Path of the control group that has it; hostile.
    pub(super) group: Box<str>,
    pub(super) cpus: f64,
    pub(super) throttle: Throttle,
}

/// Processes that the subject started.
#[derive(Clone, Debug, Default)]
pub(super) struct StartFacts {
    pub(super) count: u64,
    pub(super) run_ns: u64,
    pub(super) delay_ns: u64,
    /// What the processes ran that each parent started.
    pub(super) parents: Vec<KeyTime>,
}

/// What is known of a subject.
#[derive(Debug)]
pub(super) struct Facts<'p> {
    pub(super) target: &'p WhyTarget,
    pub(super) rows: &'p SubjectRows,
    pub(super) now: &'p WhyPart,
    pub(super) before: Option<&'p WhyPart>,
    pub(super) threads: &'p ThreadSums,
    pub(super) times: StateTimes,
    pub(super) times_before: Option<StateTimes>,
    pub(super) runs: HashMap<Box<str>, ProgramRun>,
    pub(super) runs_before: HashMap<Box<str>, ProgramRun>,
    /// See [`Facts::only_cpu`].
    only_cpu: Option<u16>,
    /// The pids of threads of the kernel.
    kernel_pids: HashSet<u32>,
    /// Options by which a command asks about the same host and time, with a space in front; empty: not known.
    pub(super) same_question: String,
}

/// The program of a process; `None`: its name is not known.
pub(super) fn program_of(part: &WhyPart, key: ProcessKey) -> Option<&str> {
    part.processes.get(&key).map(|seen| seen.info.program()).filter(|name| !name.is_empty())
}

/// Adds times up by program, the longest first.
pub(super) fn by_program(part: &WhyPart, times: impl IntoIterator<Item = KeyTime>) -> Vec<ProgramTime> {
    let mut programs: BTreeMap<&str, BTreeMap<ProcessKey, u64>> = BTreeMap::new();
    for KeyTime { key, ns } in times {
        if let Some(name) = program_of(part, key) {
            let sum = programs.entry(name).or_default().entry(key).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
    let program = |(name, keys): (&str, BTreeMap<ProcessKey, u64>)| {
        let mut keys: Vec<KeyTime> = keys.into_iter().map(|(key, ns)| KeyTime { key, ns }).collect();
        keys.sort_by_key(|one| std::cmp::Reverse(one.ns));
        let ns = keys.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        ProgramTime { name: name.into(), ns, is_estimated: false, keys }
    };
    let mut all: Vec<ProgramTime> = programs.into_iter().map(program).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.ns));
    all
}

/// The programs with the longest times, at most [`MAX_PROGRAMS`], and the sum of the rest without a name.
pub(super) fn longest_programs(mut all: Vec<ProgramTime>) -> Vec<ProgramTime> {
    let rest = all.split_off(MAX_PROGRAMS.min(all.len()));
    if let Some(first) = rest.first() {
        let ns = rest.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        all.push(ProgramTime { ns, is_estimated: first.is_estimated, ..ProgramTime::default() });
    }
    all
}

fn runs(part: &WhyPart) -> HashMap<Box<str>, ProgramRun> {
    let mut all: HashMap<Box<str>, ProgramRun> = HashMap::new();
    let of_processes = part.processes.values().map(|seen| (&seen.info, &seen.delta));
    for (info, delta) in of_processes.chain(part.short.values().map(|runs| (&runs.info, &runs.delta))) {
        let sum = all.entry(info.program().into()).or_default();
        sum.run_ns = sum.run_ns.saturating_add(at_least_zero(delta.run_ns));
        sum.system_ns = sum.system_ns.saturating_add(at_least_zero(delta.system_ns));
    }
    all
}

/// The pids that the kernel's threads have, by the last process of each pid.
fn kernel_pids(part: &WhyPart) -> HashSet<u32> {
    let mut last: HashMap<u32, (u64, bool)> = HashMap::new();
    for (key, seen) in &part.processes {
        let one = last.entry(key.pid).or_default();
        *one = (*one).max((key.start_ns, seen.info.is_kernel));
    }
    last.into_iter().filter(|(_, (_, is_kernel))| *is_kernel).map(|(pid, _)| pid).collect()
}

fn only_cpu(rows: &SubjectRows, threads: &ThreadSums) -> Option<u16> {
    if rows.is_machine() {
        return None;
    }
    let is_own = |seen: &&SeenThread| seen.intervals > 0 && rows.has(seen.process);
    let own: Vec<&SeenThread> = threads.each.values().filter(is_own).collect();
    let intervals = own.iter().map(|seen| seen.intervals).max()?;
    let mut cpus = own.iter().flat_map(|seen| seen.cpus.iter().copied());
    let first = cpus.next()?;
    (intervals >= MIN_INTERVALS && cpus.all(|cpu| cpu == first)).then_some(first)
}

impl<'p> Facts<'p> {
    pub(super) fn new(
        target: &'p WhyTarget,
        rows: &'p SubjectRows,
        now: &'p WhyPart,
        before: Option<&'p WhyPart>,
        threads: &'p ThreadSums,
    ) -> Self {
        let busy = busy_peers(now, rows);
        // Children of the time before are others.
        let mut busy_before = before.map(|part| busy_peers(part, rows)).unwrap_or_default();
        busy_before.extend(&busy);
        let mut facts = Self {
            target,
            rows,
            now,
            before,
            threads,
            times: StateTimes::of(now, rows, &|key| !busy.contains(&key)),
            times_before: before.map(|part| StateTimes::of(part, rows, &|key| !busy_before.contains(&key))),
            runs: runs(now),
            runs_before: before.map(runs).unwrap_or_default(),
            only_cpu: only_cpu(rows, threads),
            kernel_pids: kernel_pids(now),
            same_question: String::new(),
        };
        facts.let_pools_sleep();
        facts.estimate_disk();
        facts
    }

    /// Waits of a pool for work are no delay. Sums without the threads of a part have none that could show it.
    fn let_pools_sleep(&mut self) {
        let idle = idle_threads(self.now, &self.times, self.threads);
        let has_threads = !self.threads.each.is_empty();
        let parts = std::iter::once(self.now).chain(self.before);
        for (part, times) in parts.zip(std::iter::once(&mut self.times).chain(&mut self.times_before)) {
            if part.has_sums && !has_threads {
                let is_idle = is_idle_pool(times);
                times.set_locks(if is_idle { WaitClass::Asleep } else { WaitClass::Unknown });
            } else {
                times.let_pools_sleep(|key| idle.contains(&key));
            }
        }
    }

    pub(super) fn has(&self, fields: Fields) -> bool {
        self.now.fields.contains(fields)
    }

    /// Measured seconds in which the subject was there.
    pub(super) fn seconds(&self) -> f64 {
        self.times.present_ns.max(1) as f64 / 1e9
    }

    /// Share of the wanted time.
    pub(super) fn of_wanted(&self, ns: u64) -> f64 {
        (ns as f64 / self.times.wanted_ns() as f64).min(1.0)
    }

    /// Share of the CPUs' capacity; 0 where it is not known.
    pub(super) fn of_capacity(&self, ns: i64) -> f64 {
        let capacity_ns = self.now.ledger.capacity_ns;
        if capacity_ns > 0 { at_least_zero(ns) as f64 / capacity_ns as f64 } else { 0.0 }
    }

    /// The only CPU on which threads of the subject ran, if that is no chance.
    pub(super) fn only_cpu(&self) -> Option<u16> {
        self.only_cpu
    }

    /// Its times: what counts for the subject then.
    pub(super) fn only_times(&self) -> Option<&CpuTimes> {
        self.now.cpus.get(&u32::from(self.only_cpu()?)).filter(|times| times.total_ns() > 0)
    }

    /// Share of the time in which the CPUs, or the only one of the subject, were idle; `None`: not known.
    pub(super) fn idle_share(&self) -> Option<f64> {
        if let Some(times) = self.only_times() {
            return Some(share_of(times, times.idle_ns.saturating_add(times.iowait_ns)));
        }
        (self.now.ledger.capacity_ns > 0).then(|| self.of_capacity(self.now.ledger.idle_ns))
    }

    /// The same without one CPU; `None`: not known, or there is no other one.
    pub(super) fn idle_share_without(&self, cpu: u16) -> Option<f64> {
        let others = self.now.cpus.iter().filter(|(number, _)| **number != u32::from(cpu));
        let mut sum = CpuTimes::default();
        others.for_each(|(_, times)| sum += times);
        (sum.total_ns() > 0).then(|| share_of(&sum, sum.idle_ns.saturating_add(sum.iowait_ns)))
    }

    /// Whether a process of this pid works for the kernel only.
    pub(super) fn is_of_kernel(&self, pid: u32) -> bool {
        self.kernel_pids.contains(&pid)
    }

    /// Threads of these processes that did something, the one that ran most first.
    pub(super) fn threads_of(&self, is_meant: impl Fn(ProcessKey) -> bool) -> Vec<SeenThreadRow<'_>> {
        let active =
            self.threads.each.iter().filter(|(_, seen)| seen.intervals > 0 && is_meant(seen.process));
        let mut all: Vec<SeenThreadRow<'_>> =
            active.map(|(key, seen)| SeenThreadRow { tid: key.tid, seen }).collect();
        all.sort_by_key(|row| (std::cmp::Reverse(row.seen.delta.run_ns), row.tid));
        all
    }

    /// The CPUs on which threads of these processes ran.
    pub(super) fn cpus_of(&self, is_meant: impl Fn(ProcessKey) -> bool) -> BTreeSet<u16> {
        self.threads_of(is_meant).iter().flat_map(|row| row.seen.cpus.iter().copied()).collect()
    }

    /// Programs for which the subject waited in waits of a class.
    pub(super) fn waited_for(&self, class: WaitClass) -> Vec<ProgramTime> {
        let waits = self.times.waits.iter().filter(|wait| wait.class == class);
        let on = waits.filter_map(|wait| match wait.on {
            WaitedOn::Process(key) => Some(KeyTime { key, ns: wait.ns }),
            _ => None,
        });
        longest_programs(by_program(self.now, on))
    }

    /// The reason of most of the waits of a class.
    pub(super) fn longest_of(&self, class: WaitClass) -> Option<SubjectWait> {
        let mut by_reason: BTreeMap<WaitReason, SubjectWait> = BTreeMap::new();
        for wait in self.times.waits.iter().filter(|wait| wait.class == class) {
            let sum = by_reason.entry(wait.reason).or_insert(SubjectWait { ns: 0, count: 0, ..*wait });
            sum.ns = sum.ns.saturating_add(wait.ns);
            sum.count = sum.count.saturating_add(wait.count);
        }
        by_reason.into_values().max_by_key(|wait| wait.ns)
    }

    /// A program as the answer names it.
    pub(super) fn culprit(&self, program: &ProgramTime) -> Culprit {
        let pct = |run: Option<&ProgramRun>, length_ns: u64| {
            run.map_or(0.0, |run| run.run_ns as f64 * 100.0 / length_ns.max(1) as f64)
        };
        let keys: HashSet<ProcessKey> = program.keys.iter().map(|one| one.key).collect();
        let began = |one: &KeyTime| self.now.processes.get(&one.key).is_some_and(|seen| seen.began);
        let threads = self.threads_of(|key| keys.contains(&key));
        Culprit {
            name: program.name.clone(),
            pid: program.keys.first().map(|one| one.key.pid),
            tid: None,
            pids: program.keys.iter().take(MAX_PIDS).map(|one| one.key.pid).collect(),
            processes: program.keys.len() as u64,
            ns: program.ns,
            is_estimated: program.is_estimated,
            cpu_pct: pct(self.runs.get(&program.name), self.now.length_ns),
            before_cpu_pct: self
                .before
                .map(|before| pct(self.runs_before.get(&program.name), before.length_ns)),
            began: !program.keys.is_empty() && program.keys.iter().all(began),
            scheduling: threads.first().and_then(|row| row.seen.scheduling()),
        }
    }

    /// Length of this time by that of the time before; 0 without one.
    fn by_length_before(&self) -> f64 {
        self.before.map_or(0.0, |before| self.now.length_ns as f64 / before.length_ns.max(1) as f64)
    }

    /// Programs whose run time grew most since the time before, with what they ran more; without a time before, those that ran most.
    pub(super) fn grown(&self, ns_of: fn(&ProgramRun) -> u64) -> Vec<ProgramTime> {
        let scale = self.by_length_before();
        let earlier = |name: &str| self.runs_before.get(name).map_or(0, |run| scaled(ns_of(run), scale));
        let ran = self
            .now
            .processes
            .iter()
            .map(|(key, seen)| KeyTime { key: *key, ns: at_least_zero(seen.delta.run_ns) });
        let mut all = by_program(self.now, ran);
        for one in &mut all {
            let now_ns = self.runs.get(&one.name).map_or(0, ns_of);
            one.ns = now_ns.saturating_sub(earlier(&one.name));
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.ns));
        longest_programs(all)
    }

    /// The CPU limit that took most time from the subject; `None`: it has none, or none is known.
    pub(super) fn quota(&self) -> Option<QuotaFacts> {
        let paths = cgroups_of(self.now, self.rows);
        let has_path = |path: &str| self.rows.is_machine() || paths.contains(path);
        let limited = self.now.cgroups.values().filter(|row| row.limit.is_limited() && has_path(&row.path));
        let tightest = limited.max_by_key(|row| row.throttle.map(|one| one.throttled_ns))?;
        Some(QuotaFacts {
            group: tightest.limiter().into(),
            cpus: tightest.limit.cpus()?,
            throttle: tightest.throttle?,
        })
    }

    /// Processes that the subject started in this time; of a machine all that began in it.
    pub(super) fn starts(&self) -> StartFacts {
        let of_subject = self.now.processes.keys().filter(|key| self.rows.has(**key));
        let parents: HashMap<u32, ProcessKey> = of_subject.map(|key| (key.pid, *key)).collect();
        let is_child = |parent_pid: u32| self.rows.is_machine() || parents.contains_key(&parent_pid);
        let mut facts = StartFacts::default();
        let mut add = |parent_pid: u32, count: u64, delta: &Delta| {
            let ns = at_least_zero(delta.run_ns);
            facts.count = facts.count.saturating_add(count);
            facts.run_ns = facts.run_ns.saturating_add(ns);
            facts.delay_ns = facts.delay_ns.saturating_add(at_least_zero(delta.run_delay_ns));
            facts.parents.extend(parents.get(&parent_pid).map(|key| KeyTime { key: *key, ns }));
        };
        for (key, runs) in self.now.short.iter().filter(|(key, _)| is_child(key.parent_pid)) {
            add(key.parent_pid, runs.count, &runs.delta);
        }
        for seen in self.now.processes.values().filter(|seen| seen.began && is_child(seen.parent_pid)) {
            add(seen.parent_pid, 1, &seen.delta);
        }
        facts
    }

    /// Adds the time that threads of the subject waited for a disk by their state at the ends of intervals, where single waits are too
    /// short to be followed.
    fn estimate_disk(&mut self) {
        // Who starts a process waits in the same state until that runs.
        let starts_many = || self.starts().count as f64 / self.seconds() >= MIN_STARTS;
        if self.has(Fields::WAITS) || self.rows.is_machine() || starts_many() {
            return;
        }
        let of_thread = |row: &SeenThreadRow<'_>| {
            let share = row.seen.in_disk as f64 / row.seen.intervals.max(1) as f64;
            scaled(row.seen.length_ns, share)
        };
        let threads = self.threads_of(|key| self.rows.has(key));
        if threads.iter().map(|row| row.seen.in_disk).sum::<u64>() < MIN_SAMPLES {
            return;
        }
        let in_disk_ns = threads.iter().map(of_thread).fold(0, u64::saturating_add);
        let is_of_faults = self.faults_per_s() >= Some(MIN_FAULTS) && self.times.is_of_faults(0);
        let class = if is_of_faults { WaitClass::Faults } else { WaitClass::Disk };
        let reason = if is_of_faults { WaitReason::PAGE_FAULT } else { WaitReason::DISK };
        let is_in_disk = |wait: &&SubjectWait| {
            matches!(wait.class, WaitClass::Disk | WaitClass::Faults) || wait.reason == WaitReason::DISK
        };
        let known = self.times.waits.iter().filter(is_in_disk).map(|wait| wait.ns);
        let known_ns = known.fold(0, u64::saturating_add);
        let switches = at_least_zero(self.times.delta.voluntary_switches);
        // Longer waits are followed.
        let is_bounded = self.has(Fields::WAITS_FOR | Fields::SWITCHES);
        let most_ns = if is_bounded { switches.saturating_mul(WaitFor::MIN_NS) } else { u64::MAX };
        let ns = in_disk_ns.saturating_sub(known_ns).min(self.times.left_ns()).min(most_ns);
        if ns > 0 {
            self.times.waits.push(SubjectWait { class, reason, on: WaitedOn::Others, ns, count: 0 });
        }
    }

    /// Major page faults a second; `None`: not measured.
    pub(super) fn faults_per_s(&self) -> Option<f64> {
        let faults = at_least_zero(self.times.delta.major_faults);
        self.has(Fields::FAULTS).then(|| faults as f64 / self.seconds())
    }

    /// The kind of soft interrupt that grew most, as a name of the kernel; `None`: not measured by kind.
    pub(super) fn softirq_kind(&self) -> Option<&'static str> {
        if !self.has(Fields::IRQ) {
            return None;
        }
        let before = self.before.map_or([0; SOFTIRQ_KINDS.len()], |before| before.softirq_ns);
        // The time before can be much longer.
        let scale = self.by_length_before();
        let earlier = |ns: u64| scaled(ns, scale);
        let grown =
            self.now.softirq_ns.iter().zip(before).map(|(now, before)| now.saturating_sub(earlier(before)));
        SOFTIRQ_KINDS.iter().copied().zip(grown).max_by_key(|(_, ns)| *ns).map(|(kind, _)| kind)
    }
}

/// Share of the time of one CPU or several.
pub(super) fn share_of(times: &CpuTimes, ns: u64) -> f64 {
    ns as f64 / times.total_ns().max(1) as f64
}

/// Time in interrupts, in percent of one CPU.
pub(super) fn interrupts_pct(part: &WhyPart) -> Option<f64> {
    let times = part.cpus.values().fold(None, |sum: Option<u64>, times| {
        let ns = times.irq_ns.saturating_add(times.softirq_ns);
        Some(sum.unwrap_or(0).saturating_add(ns))
    });
    let ledger = &part.ledger;
    let by_ledger = (!ledger.irq_in_run_time && ledger.capacity_ns > 0)
        .then(|| at_least_zero(ledger.irq_ns.saturating_add(ledger.softirq_ns)));
    let ns = by_ledger.or(times)?;
    (part.length_ns > 0).then(|| ns as f64 * 100.0 / part.length_ns as f64)
}

/// A thread with its id.
#[derive(Copy, Clone, Debug)]
pub(super) struct SeenThreadRow<'p> {
    pub(super) tid: u32,
    pub(super) seen: &'p SeenThread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_programs_ends_with_the_sum_of_the_rest() {
        let program = |ns: u64| ProgramTime { name: format!("p{ns}").into(), ns, ..ProgramTime::default() };
        let all: Vec<ProgramTime> = (1..=1_000).rev().map(program).collect();
        let cut = longest_programs(all);
        assert_eq!((cut.len(), &*cut[63].name), (MAX_PROGRAMS + 1, "p937"));
        let rest = cut.last().unwrap();
        assert_eq!((&*rest.name, rest.ns, rest.keys.len()), ("", (1..=936).sum(), 0));
        assert_eq!(longest_programs(cut).len(), MAX_PROGRAMS + 1);
        assert!(longest_programs(Vec::new()).is_empty());
    }
}
