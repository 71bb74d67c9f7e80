//! [`SingleCpu`]: processes of a subject that ran on one CPU each, and waited there for others while more CPUs were free.

use std::collections::BTreeSet;

use cpumon_model::{Fields, ProcessKey};
use foldhash::{HashMap, HashMapExt};

use super::answer::{Cause, CauseKind, SureLevel};
use super::draft::{behind, culprits, draft, matters, sum, used, was_ready};
use super::facts::{Facts, KeyTime, MIN_INTERVALS, ProgramTime};
use super::states::at_least_zero;
use super::words::percent;

/// Share of the time that the subject was ready from which on these processes are what matters of it.
const MIN_READY: f64 = 0.5;
/// Share of idle time from which on other CPUs would have been free.
pub(super) const FREE_CPUS: f64 = 0.15;

/// Where a process ran.
#[derive(Debug, Default)]
struct ProcessCpus {
    cpus: BTreeSet<u16>,
    /// Most intervals in which a thread of it did something.
    intervals: u64,
    /// Threads of it that could use more than one CPU, or of which that is not known.
    free_threads: u64,
}

impl ProcessCpus {
    /// Its only CPU.
    fn only(&self) -> Option<u16> {
        self.cpus.first().copied().filter(|_| self.cpus.len() == 1)
    }

    /// Whether it could not use another one. Where affinities are not measured, that is concluded from where it ran.
    fn is_bound(&self, facts: &Facts<'_>) -> bool {
        if facts.has(Fields::AFFINITY) { self.free_threads == 0 } else { self.intervals >= MIN_INTERVALS }
    }
}

/// Where each process ran whose threads were read.
fn cpus_by_process(facts: &Facts<'_>) -> HashMap<ProcessKey, ProcessCpus> {
    let mut all: HashMap<ProcessKey, ProcessCpus> = HashMap::new();
    for row in facts.threads_of(|_| true) {
        let one = all.entry(row.seen.process).or_default();
        one.cpus.extend(row.seen.cpus.iter().copied());
        one.intervals = one.intervals.max(row.seen.intervals);
        one.free_threads += u64::from(!row.seen.has_one_cpu());
    }
    all
}

/// Processes of the subject that ran on one CPU only, each by itself: workers that are bound to one CPU each are such, too.
#[derive(Debug)]
pub(super) struct SingleCpu {
    /// The CPU of the one that waited longest.
    cpu: u16,
    /// All their CPUs.
    cpus: BTreeSet<u16>,
    /// Their pids, the one that waited longest first.
    pids: Vec<u32>,
    /// Share of the time that the subject was ready.
    pub(super) share: f64,
    /// Which ones they are, and how often that was seen.
    pub(super) sentence: String,
    by_process: HashMap<ProcessKey, ProcessCpus>,
}

impl SingleCpu {
    /// `None`: the subject is the machine, or processes that ran on several CPUs, or of which that is not known, waited longer.
    pub(super) fn of(facts: &Facts<'_>) -> Option<Self> {
        if facts.rows.is_machine() {
            return None;
        }
        let by_process = cpus_by_process(facts);
        let own = facts.now.processes.iter().filter(|(key, _)| facts.rows.has(**key));
        let ready = own.map(|(key, seen)| KeyTime { key: *key, ns: at_least_zero(seen.delta.run_delay_ns) });
        let mut ready: Vec<KeyTime> = ready.collect();
        ready.sort_by_key(|one| (std::cmp::Reverse(one.ns), one.key));
        let count = ready.len();
        let ready_ns = ready.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        let seen_on = |one: &KeyTime| by_process.get(&one.key).filter(|on| on.is_bound(facts));
        ready.retain(|one| seen_on(one).is_some_and(|on| on.only().is_some()));
        let first = seen_on(ready.first()?)?;
        let (cpu, intervals) = (first.only()?, first.intervals);
        let single_ns = ready.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        let share = single_ns as f64 / ready_ns.max(1) as f64;
        let cpus: BTreeSet<u16> = ready.iter().filter_map(|one| seen_on(one)?.only()).collect();
        let pids: Vec<u32> = ready.iter().map(|one| one.key.pid).collect();
        let (verb, often) = if facts.has(Fields::AFFINITY) {
            ("may run", "by its affinity".to_owned())
        } else {
            ("ran", format!("in {intervals} of {intervals} intervals"))
        };
        let sentence = match pids.as_slice() {
            [_, ..] if pids.len() == count && cpus.len() == 1 => {
                format!("It {verb} on CPU {cpu} only, {often}.")
            }
            [first, ..] => format!(
                "{} of its {count} processes {verb} on one CPU only, pid {first} on CPU {cpu} {often}.",
                pids.len()
            ),
            [] => return None,
        };
        (share >= MIN_READY).then_some(Self { cpu, cpus, pids, share, sentence, by_process })
    }

    /// The cause of these processes' part of the time behind others, `ns`.
    pub(super) fn cause(&self, facts: &Facts<'_>, front: &[ProgramTime], ns: u64) -> Option<Cause> {
        let idle = facts.idle_share_without(self.cpu).filter(|_| matters(facts, ns))?;
        // Others that are on one of these CPUs alone share an affinity with it; what runs everywhere would have moved.
        let there: Vec<ProgramTime> = front.iter().filter_map(|one| self.beside(facts, one)).collect();
        let is_shared = sum(&there) > 0 && sum(&there).saturating_mul(2) >= sum(front);
        if idle < FREE_CPUS && !is_shared {
            return None;
        }
        let all = culprits(facts, if is_shared { &there } else { front });
        let where_it_ran = match self.cpus.len() {
            1 => format!("it ran on CPU {} only", self.cpu),
            count => format!("its processes ran on one CPU each, of {count}"),
        };
        let text = format!("{}{}: {where_it_ran}.", was_ready(facts, ns), behind(&all));
        let mut evidence = vec![self.sentence.clone()];
        let others =
            if self.cpus.len() == 1 { "The other CPUs" } else { &format!("All CPUs but CPU {}", self.cpu) };
        evidence.push(format!("{others} were idle {} of the time.", percent(idle)));
        evidence.extend(all.iter().take(2).map(used));
        Some(Cause {
            evidence,
            action: if facts.has(Fields::AFFINITY) {
                "Let it use all CPUs."
            } else {
                "Let it use all CPUs (its affinity was not measured)."
            }
            .to_owned(),
            command: Some(self.command(facts)),
            sure: if idle >= FREE_CPUS { SureLevel::High } else { SureLevel::Medium },
            culprits: all,
            ..draft(facts, CauseKind::Affinity, ns, text)
        })
    }

    /// What of a program's time was by processes that ran on one of these CPUs alone. Threads of the kernel do so because they serve that CPU.
    fn beside(&self, facts: &Facts<'_>, program: &ProgramTime) -> Option<ProgramTime> {
        let is_beside = |key: ProcessKey| {
            let only = self.by_process.get(&key).and_then(ProcessCpus::only);
            let is_there = only.is_some_and(|cpu| self.cpus.contains(&cpu));
            is_there && !facts.rows.has(key) && !facts.is_of_kernel(key.pid)
        };
        let keys: Vec<KeyTime> = program.keys.iter().copied().filter(|one| is_beside(one.key)).collect();
        let ns = keys.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
        (ns > 0).then(|| ProgramTime { ns, keys, ..program.clone() })
    }

    fn command(&self, facts: &Facts<'_>) -> String {
        let last = facts.now.cpus.keys().next_back().copied().unwrap_or_default();
        let taskset = format!("taskset --all-tasks --cpu-list --pid 0-{last}");
        match self.pids.as_slice() {
            [one] => format!("{taskset} {one}"),
            several => {
                let pids = several.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
                format!("for pid in {pids}; do {taskset} $pid; done")
            }
        }
    }
}
