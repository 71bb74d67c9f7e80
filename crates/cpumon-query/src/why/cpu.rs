//! Causes on the CPUs: others in front, a CPU limit, priorities, one busy thread, steal, interrupts.

use cpumon_model::{CpuTimes, Fields, ProcessKey, is_unit};
use foldhash::HashSet;

use super::affinity::{FREE_CPUS, SingleCpu};
use super::answer::{Cause, CauseKind, Culprit, SureLevel};
use super::draft::{
    MIN_SHARE, behind, culprits, draft, find_user_of, go_last, matters, stoppable, sum, used, was_ready,
};
use super::facts::{Facts, KeyTime, ProgramTime, by_program, interrupts_pct, share_of};
use super::part::scaled;
use super::states::at_least_zero;
use super::threads::SeenThread;
use super::words::{cgroup_word, named, named_all, percent, pids, renice, shell_word};
use crate::fields::{decimal, name_text};

/// Share of the time from which on a thread has a whole CPU.
const WHOLE_CPU: f64 = 0.8;
/// By how much time in interrupts grew at least, percent of one CPU.
const MIN_GROWTH_PCT: f64 = 5.0;

/// Families of threads of the kernel that do the work of interrupts.
const INTERRUPT_THREADS: [&str; 2] = ["ksoftirqd", "irq"];

/// Why it waited for a CPU, each part of that time under one cause.
pub(super) fn ready(facts: &Facts<'_>) -> Vec<Cause> {
    let ready_ns = facts.delayed_at_cpus_ns();
    if !matters(facts, ready_ns) {
        return Vec::new();
    }
    let own = own_thread(facts);
    let is_of_kernel = |one: &ProgramTime| one.keys.iter().all(|one| facts.is_of_kernel(one.key.pid));
    let is_serving = |one: &ProgramTime| INTERRUPT_THREADS.contains(&&*one.name) && is_of_kernel(one);
    let mut front = facts.in_front();
    let serving = take(facts, &mut front, is_serving);
    let mut all: Vec<Cause> =
        (!serving.is_empty()).then(|| serving_interrupts(facts, &serving)).into_iter().collect();
    // The priority of threads of the kernel is right.
    let goes_first = |one: &ProgramTime| {
        let front = thread_of(facts, one);
        !own.is_urgent() && front.is_some_and(SeenThread::is_urgent) && !is_of_kernel(one)
    };
    let urgent = take(facts, &mut front, goes_first);
    all.extend((!urgent.is_empty()).then(|| real_time(facts, &urgent)));
    let is_nicer = |one: &ProgramTime| {
        let front = thread_of(facts, one);
        let is_before = front.is_some_and(|front| !front.is_urgent() && front.nice < own.nice);
        is_before && !facts.rows.is_machine() && (own.nice > 0 || !is_of_kernel(one))
    };
    let nicer = take(facts, &mut front, is_nicer);
    all.extend((!nicer.is_empty()).then(|| nice(facts, &own, &nicer)));
    let taken_ns = [&serving, &urgent, &nicer].map(|one| sum(one)).into_iter().fold(0, u64::saturating_add);
    let left_ns = ready_ns.saturating_sub(taken_ns);
    // Who has less weight waits on any CPU: only for the rest it matters on which ones it may run.
    let single = SingleCpu::of(facts);
    let single_ns = single.as_ref().map_or(0, |single| scaled(left_ns, single.share));
    let affinity = single.and_then(|single| single.cause(facts, &front, single_ns));
    let left_ns = left_ns.saturating_sub(if affinity.is_some() { single_ns } else { 0 });
    all.extend(affinity);
    all.extend(matters(facts, left_ns).then(|| saturated(facts, &front, left_ns)));
    all
}

/// Takes those that are meant from `front`, if they are a cause; else they stay among the others.
fn take(
    facts: &Facts<'_>,
    front: &mut Vec<ProgramTime>,
    is_meant: impl Fn(&ProgramTime) -> bool,
) -> Vec<ProgramTime> {
    let (taken, rest): (Vec<_>, Vec<_>) = front.iter().cloned().partition(is_meant);
    if !matters(facts, sum(&taken)) {
        return Vec::new();
    }
    *front = rest;
    taken
}

/// The thread of the subject that waited longest for a CPU; of a machine one with the usual priority.
fn own_thread(facts: &Facts<'_>) -> SeenThread {
    if facts.rows.is_machine() {
        return SeenThread::default();
    }
    let threads = facts.threads_of(|key| facts.rows.has(key));
    let longest = threads.into_iter().max_by_key(|row| row.seen.delta.run_delay_ns);
    longest.map(|row| row.seen.clone()).unwrap_or_default()
}

/// The thread of a program that ran most.
fn thread_of<'f>(facts: &'f Facts<'_>, program: &ProgramTime) -> Option<&'f SeenThread> {
    let keys: HashSet<ProcessKey> = program.keys.iter().map(|one| one.key).collect();
    facts.threads_of(|key| keys.contains(&key)).first().map(|row| row.seen)
}

/// How much the time behind others can be relied on.
fn sure_of(programs: &[ProgramTime]) -> SureLevel {
    match programs {
        [] => SureLevel::Low,
        [first, ..] if first.is_estimated => SureLevel::Medium,
        _ => SureLevel::High,
    }
}

fn real_time(facts: &Facts<'_>, urgent: &[ProgramTime]) -> Cause {
    let (ns, all) = (sum(urgent), culprits(facts, urgent));
    let scheduling = all.first().and_then(|one| one.scheduling.clone()).unwrap_or_default();
    let priority = scheduling.replace("real-time", "real-time priority");
    let (text, who) = if all.is_empty() {
        let text = format!("{} behind many programs that have real-time priority.", was_ready(facts, ns));
        (text, "the programs in front of it".to_owned())
    } else {
        let text = format!("{}{}, which has {priority}.", was_ready(facts, ns), behind(&all));
        (text, named_all(&all, 1))
    };
    let mut evidence: Vec<String> = all.iter().take(2).map(used).collect();
    evidence.push("While it runs on a CPU, no normal program runs there.".to_owned());
    evidence.extend(SingleCpu::of(facts).map(|single| single.sentence));
    let command =
        all.first().and_then(|one| one.pid).map(|pid| format!("chrt --all-tasks --other --pid 0 {pid}"));
    Cause {
        evidence,
        action: format!("Take the real-time priority from {who}."),
        command,
        sure: sure_of(urgent),
        culprits: all,
        ..draft(facts, CauseKind::Priority, ns, text)
    }
}

fn nice(facts: &Facts<'_>, own: &SeenThread, nicer: &[ProgramTime]) -> Cause {
    let (ns, all) = (sum(nicer), culprits(facts, nicer));
    let front = nicer.first().and_then(|one| thread_of(facts, one)).map_or(0, |thread| thread.nice);
    let text = format!(
        "{}{}: it has nice {}, and they have nice {front}, so they go first.",
        was_ready(facts, ns),
        behind(&all),
        own.nice
    );
    // The one that is not at the usual value is changed.
    let (action, command) = if own.nice > 0 {
        ("Give it the usual priority.".to_owned(), Some(renice(0, &own.process.pid.to_string())))
    } else if all.is_empty() {
        ("Give the programs in front of it the usual priority.".to_owned(), None)
    } else {
        (format!("Give {} the usual priority.", named_all(&all, 2)), Some(renice(0, &pids(&all, 2))))
    };
    Cause {
        evidence: all.iter().take(2).map(used).collect(),
        action,
        command,
        sure: sure_of(nicer),
        culprits: all,
        ..draft(facts, CauseKind::Priority, ns, text)
    }
}

fn saturated(facts: &Facts<'_>, front: &[ProgramTime], ns: u64) -> Cause {
    let all = culprits(facts, front);
    let has_own = |one: &ProgramTime| one.keys.iter().all(|one| facts.rows.has(one.key));
    let is_own = |one: &ProgramTime| !facts.rows.is_machine() && !one.keys.is_empty() && has_own(one);
    let by_itself = front.first().is_some_and(is_own);
    let unknown_ns = ns.saturating_sub(sum(front));
    let who = if by_itself {
        " behind its own threads".to_owned()
    } else if sum(front) == 0 {
        "; which programs were in front is not known".to_owned()
    } else if all.is_empty() {
        " behind many programs".to_owned()
    } else {
        behind(&all)
    };
    let mut evidence: Vec<String> = all.iter().take(3).map(used).collect();
    let mut sure = sure_of(front);
    if sum(front) > 0 && matters(facts, unknown_ns) {
        let share = percent(unknown_ns as f64 / ns.max(1) as f64);
        evidence
            .push(format!("For {share} of that time it is not known which programs were in front of it."));
        sure = sure.min(SureLevel::Medium);
    }
    let cpus = facts.only_cpu().map_or_else(|| "The CPUs were".to_owned(), |cpu| format!("CPU {cpu} was"));
    match facts.idle_share() {
        Some(idle) if idle > 2.0 * FREE_CPUS && !facts.rows.is_machine() => {
            evidence.push(format!(
                "{cpus} idle {} of the time: it waits in short bursts, or may use only some CPUs.",
                percent(idle)
            ));
            sure = sure.min(SureLevel::Medium);
        }
        Some(idle) => evidence.insert(0, format!("{cpus} busy {} of the time.", percent(1.0 - idle))),
        None => {}
    }
    let others: Vec<ProgramTime> = front.iter().filter(|one| !is_own(one)).cloned().collect();
    let others = stoppable(facts, &culprits(facts, &others));
    let (action, command) = if by_itself {
        ("Give it fewer threads, or the machine more CPUs.".to_owned(), None)
    } else if others.is_empty() {
        let kernel = all.first().map(|_| find_user_of(&named_all(&all, 1)));
        let action = kernel.unwrap_or_else(|| "Find who runs on the CPUs.".to_owned());
        (action, Some(format!("cpumon report{}", facts.same_question)))
    } else {
        let is_one = others.len() == 1 && others.iter().all(|one| one.processes == 1);
        let it = if is_one { "it" } else { "them" };
        let (names, command) = (named_all(&others, 2), go_last(facts, &others, 2));
        let last = if command.is_some() { format!(", or let {it} go last") } else { String::new() };
        (format!("Stop {names} or move {it}{last}."), command)
    };
    let text = format!("{}{who}.", was_ready(facts, ns));
    Cause { evidence, action, command, sure, culprits: all, ..draft(facts, CauseKind::Saturated, ns, text) }
}

/// The CPU limit of its control group.
pub(super) fn quota(facts: &Facts<'_>) -> Option<Cause> {
    let ns = facts.times.throttled_ns;
    if !matters(facts, ns) {
        return None;
    }
    let Some(quota) = facts.quota() else { return Some(unknown_quota(facts, ns)) };
    let used_up = quota.throttle.percent().unwrap_or_default() / 100.0;
    let group = name_text(&quota.group);
    let share = percent(facts.times.share(ns));
    let (cpus, periods) = (decimal(quota.cpus, 2), quota.throttle.periods);
    let who = if facts.rows.is_machine() { "Programs" } else { "It" };
    let text = format!(
        "The CPU limit of {group} ({cpus} CPU) was used up in {} of the periods. {who} waited for the next period {share} of the time.",
        percent(used_up)
    );
    let of_group = facts.now.processes.iter().filter(|(_, seen)| is_below(&seen.info.cgroup, &quota.group));
    let times = of_group.map(|(key, seen)| KeyTime { key: *key, ns: at_least_zero(seen.delta.run_ns) });
    let all = culprits(facts, &by_program(facts.now, times));
    let unit = quota.group.rsplit('/').next().filter(|unit| is_unit(unit));
    // `CPUQuota=0%` lifts the limit or is refused.
    let more = decimal((quota.cpus * 200.0).max(1.0), 0);
    let command = match (unit.and_then(shell_word), cgroup_word(&quota.group)) {
        (Some(unit), _) => Some(format!("systemctl set-property --runtime {unit} CPUQuota={more}%")),
        (None, Some(path)) => Some(format!("echo max > /sys/fs/cgroup{path}/cpu.max")),
        (None, None) => None,
    };
    let mut evidence =
        vec![format!("It was used up in {} of {periods} periods.", quota.throttle.throttled_periods)];
    if !all.is_empty() {
        evidence.push(format!("The limit counts what {} ran.", named_all(&all, 3)));
    }
    Some(Cause {
        evidence,
        action: format!("Raise the CPU limit of {group}, or let it do less."),
        command,
        culprits: all,
        ..draft(facts, CauseKind::Quota, ns, text)
    })
}

/// A CPU limit of a group that is not known, as where groups were left out.
fn unknown_quota(facts: &Facts<'_>, ns: u64) -> Cause {
    let who = if facts.rows.is_machine() { "programs" } else { "it" };
    let share = percent(facts.times.share(ns));
    let text = format!(
        "A CPU limit kept {who} off the CPUs {share} of the time; which control group has it is not known."
    );
    Cause {
        action: "Find its control group, and raise the CPU limit of it or of one above it.".to_owned(),
        command: facts.target.pid.map(|pid| format!("cat /proc/{pid}/cgroup")),
        sure: SureLevel::Medium,
        ..draft(facts, CauseKind::Quota, ns, text)
    }
}

/// Whether a control group is this one, or below it.
fn is_below(path: &str, group: &str) -> bool {
    group == "/" || path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// One thread that has a whole CPU: it cannot use more.
pub(super) fn one_thread(facts: &Facts<'_>) -> Option<Cause> {
    if facts.rows.is_machine() {
        return None;
    }
    let threads = facts.threads_of(|key| facts.rows.has(key));
    let (first, others) = threads.split_first()?;
    let ran_ns = at_least_zero(first.seen.delta.run_ns);
    // Other processes of it are no reason why this one is not faster.
    let others = others.iter().filter(|row| row.seen.process == first.seen.process);
    let others_ns = others.map(|row| at_least_zero(row.seen.delta.run_ns)).fold(0, u64::saturating_add);
    let process = facts.now.processes.get(&first.seen.process);
    let present_ns = process.map_or(facts.now.length_ns, |seen| facts.now.present_ns([seen]));
    let share = ran_ns as f64 / present_ns.max(1) as f64;
    if share < WHOLE_CPU || others_ns as f64 > ran_ns as f64 * (1.0 - WHOLE_CPU) {
        return None;
    }
    let comm = first.seen.comm.to_str_lossy();
    let culprit = Culprit {
        name: (&*comm).into(),
        pid: Some(first.seen.process.pid),
        tid: Some(first.tid),
        pids: vec![first.seen.process.pid],
        processes: 1,
        ns: ran_ns,
        cpu_pct: share * 100.0,
        scheduling: first.seen.scheduling(),
        ..Culprit::default()
    };
    let text = format!(
        "Its own code: {} used a whole CPU, {} of the time, and a thread cannot use more than one.",
        named(&culprit),
        percent(share)
    );
    let system = first.seen.delta.system_ns as f64 / first.seen.delta.run_ns.max(1) as f64;
    let in_kernel = facts.has(Fields::USER | Fields::SYSTEM) && system >= MIN_SHARE;
    let evidence = in_kernel.then(|| format!("{} of that in the kernel.", percent(system.min(1.0))));
    Some(Cause {
        evidence: evidence.into_iter().collect(),
        action: "Profile it, or divide the work among more threads.".to_owned(),
        command: Some(format!("perf top -p {}", first.seen.process.pid)),
        culprits: vec![culprit],
        ..draft(facts, CauseKind::OneThread, ran_ns, text)
    })
}

/// What the hypervisor took of the time in which the CPUs had work: an idle CPU loses nothing.
pub(super) fn steal(facts: &Facts<'_>) -> Option<Cause> {
    let ledger = &facts.now.ledger;
    let (busy_ns, steal_ns) = match facts.only_times() {
        Some(times) => (times.busy_ns().saturating_add(times.steal_ns), times.steal_ns),
        None => {
            (at_least_zero(ledger.capacity_ns.saturating_sub(ledger.idle_ns)), at_least_zero(ledger.steal_ns))
        }
    };
    let share = (steal_ns as f64 / busy_ns.max(1) as f64).min(1.0);
    let on_cpus_ns = facts.times.ran_ns().saturating_add(facts.times.ready_ns());
    let ns = if facts.rows.is_machine() { steal_ns } else { scaled(on_cpus_ns, share) };
    if !matters(facts, ns) {
        return None;
    }
    let text = format!(
        "The hypervisor took {} of the time in which the CPUs of this machine had work (steal).",
        percent(share)
    );
    let action = "Ask who runs the host of this virtual machine, or move it: nothing inside it helps.";
    Some(Cause { action: action.to_owned(), ..draft(facts, CauseKind::Steal, ns, text) })
}

/// Interrupts that grew, and who began or grew with them.
pub(super) fn interrupts(facts: &Facts<'_>) -> Option<Cause> {
    let pct = interrupts_pct(facts.now)?;
    let before = facts.before.and_then(interrupts_pct);
    let capacity_ns = at_least_zero(facts.now.ledger.capacity_ns);
    let cpus = capacity_ns as f64 / facts.now.length_ns.max(1) as f64;
    let of_all = if cpus > 0.0 { pct / 100.0 / cpus } else { 0.0 };
    let of_only = |times: &CpuTimes| share_of(times, times.irq_ns.saturating_add(times.softirq_ns));
    let share = facts.only_times().map_or(of_all, of_only).min(1.0);
    let of_ns = if facts.rows.is_machine() { capacity_ns } else { facts.times.wanted_ns() };
    let ns = scaled(of_ns, share);
    if !matters(facts, ns) || before.is_some_and(|before| pct - before < MIN_GROWTH_PCT) {
        return None;
    }
    let kind = facts.softirq_kind();
    let what = kind.map_or_else(|| "Interrupts".to_owned(), |kind| format!("Soft interrupts ({kind})"));
    let text = match before {
        Some(before) => {
            format!("{what} rose from {} to {} % of a CPU.", decimal(before, 1), decimal(pct, 0))
        }
        None => format!("{what} took {} % of a CPU.", decimal(pct, 0)),
    };
    let all = makers(facts);
    let who = makers_in_words(&all);
    Some(Cause {
        evidence: all.iter().map(used).collect(),
        action: format!("Stop or limit {who}."),
        sure: SureLevel::Medium,
        culprits: all,
        ..draft(facts, CauseKind::Interrupts, ns, text)
    })
}

/// Who makes interrupts runs in the kernel: it sends, receives or starts requests.
fn makers(facts: &Facts<'_>) -> Vec<Culprit> {
    let before_pct = facts.before.and_then(interrupts_pct).unwrap_or_default();
    let grown_pct = (interrupts_pct(facts.now).unwrap_or_default() - before_pct).max(0.0);
    // Who was less in the kernel makes none of it: packets may come from outside.
    let least_ns = scaled(facts.now.length_ns, grown_pct / 100.0 * MIN_SHARE);
    let mut programs = facts.grown(|run| run.system_ns);
    // Its own work is no cause of its delay.
    let is_own = |one: &ProgramTime| one.keys.iter().all(|one| facts.rows.has(one.key));
    programs.retain(|one| one.ns >= least_ns && (facts.rows.is_machine() || !is_own(one)));
    stoppable(facts, &culprits(facts, &programs)).into_iter().take(2).collect()
}

fn makers_in_words(all: &[Culprit]) -> String {
    if all.is_empty() { "what sends or receives".to_owned() } else { named_all(all, 2) }
}

/// Threads of the kernel that do the work of interrupts, and who makes these.
fn serving_interrupts(facts: &Facts<'_>, serving: &[ProgramTime]) -> Cause {
    let (ns, threads, all) = (sum(serving), culprits(facts, serving), makers(facts));
    let text = format!("{}{}: the work of interrupts.", was_ready(facts, ns), behind(&threads));
    Cause {
        evidence: threads.iter().take(1).chain(&all).map(used).collect(),
        action: format!("Stop or limit {}.", makers_in_words(&all)),
        sure: sure_of(serving).min(SureLevel::Medium),
        culprits: if all.is_empty() { threads } else { all },
        ..draft(facts, CauseKind::Interrupts, ns, text)
    }
}
