//! What all rules share: when a time is a cause, the words for a subject, and a cause without its details.

use foldhash::HashSet;

use super::answer::{Cause, CauseKind, Culprit, SureLevel};
use super::facts::{Facts, ProgramTime};
use super::words::{named_all, percent, pids, renice};
use crate::fields::{decimal, name_text};

/// A cause explains at least this share of the time that shares are of ([`StateTimes::base_ns`](super::states::StateTimes::base_ns)).
pub(super) const MIN_SHARE: f64 = 0.1;
/// Waits of all threads of a machine, as a share of the time, from which on they are a cause.
const MIN_WAITED: f64 = 0.5;
/// Culprits of a cause at most.
const MAX_CULPRITS: usize = 5;
/// Share of a cause's time below which a program is no culprit of it.
const MIN_CULPRIT: f64 = 0.05;

/// A time as a share of that of the subject, at most 1; of a machine of its CPUs' time, more than 1 where programs waited longer.
pub(super) fn of_time(facts: &Facts<'_>, ns: u64) -> f64 {
    let all_ns = facts.times.length_ns;
    if facts.rows.is_machine() && all_ns > 0 { ns as f64 / all_ns as f64 } else { facts.times.share(ns) }
}

/// Whether a time is long enough for a cause.
pub(super) fn matters(facts: &Facts<'_>, ns: u64) -> bool {
    of_time(facts, ns) >= MIN_SHARE
}

/// Whether waits off the CPUs are long enough for a cause. Those of a machine do not depend on the number of its CPUs.
pub(super) fn has_long_waits(facts: &Facts<'_>, ns: u64) -> bool {
    if facts.rows.is_machine() { of_span(facts, ns) >= MIN_WAITED } else { matters(facts, ns) }
}

/// A time as a share of the measured time: more than 1 where several threads had it at once.
fn of_span(facts: &Facts<'_>, ns: u64) -> f64 {
    ns as f64 / facts.now.length_ns.max(1) as f64
}

/// A cause that explains this time, without its details.
pub(super) fn draft(facts: &Facts<'_>, cause: CauseKind, ns: u64, sentence: String) -> Cause {
    Cause {
        cause,
        share: facts.of_wanted(ns),
        sentence,
        evidence: Vec::new(),
        action: String::new(),
        command: None,
        culprits: Vec::new(),
        sure: SureLevel::High,
    }
}

/// `It was ready 88 % of the time`; of a machine `Programs waited for a CPU, together 120 % of the CPUs' time`.
pub(super) fn was_ready(facts: &Facts<'_>, ns: u64) -> String {
    let share = percent(of_time(facts, ns));
    if facts.rows.is_machine() {
        format!("Programs waited for a CPU, together {share} of the CPUs' time")
    } else {
        format!("It was ready {share} of the time and waited for a CPU")
    }
}

/// `It waited 94 % of the time`; of a machine `Programs waited, together 180 % of the time,`.
pub(super) fn waited(facts: &Facts<'_>, ns: u64) -> String {
    if facts.rows.is_machine() {
        format!("Programs waited, together {} of the time,", percent(of_span(facts, ns)))
    } else {
        format!("It waited {} of the time", percent(facts.times.share(ns)))
    }
}

/// The time of these programs together.
pub(super) fn sum(programs: &[ProgramTime]) -> u64 {
    programs.iter().fold(0, |sum, one| sum.saturating_add(one.ns))
}

/// ` behind audiod (pid 23227)`; empty without culprits.
pub(super) fn behind(all: &[Culprit]) -> String {
    if all.is_empty() { String::new() } else { format!(" behind {}", named_all(all, 2)) }
}

/// The culprits among these programs.
pub(super) fn culprits(facts: &Facts<'_>, programs: &[ProgramTime]) -> Vec<Culprit> {
    let all_ns = sum(programs);
    let is_long = |ns: u64| ns > 0 && ns as f64 >= all_ns as f64 * MIN_CULPRIT;
    let is_culprit = |one: &&ProgramTime| !one.name.is_empty() && is_long(one.ns);
    programs.iter().filter(is_culprit).take(MAX_CULPRITS).map(|one| facts.culprit(one)).collect()
}

/// Those that can be stopped or scheduled in another way: threads of the kernel cannot, they work for others.
pub(super) fn stoppable(facts: &Facts<'_>, all: &[Culprit]) -> Vec<Culprit> {
    let can_stop = |one: &&Culprit| one.pid.is_none_or(|pid| !facts.is_of_kernel(pid));
    all.iter().filter(can_stop).cloned().collect()
}

/// The command that lets these programs go last, if they do not already.
pub(super) fn go_last(facts: &Facts<'_>, all: &[Culprit], most: usize) -> Option<String> {
    let pids = pids(all, most);
    let meant: HashSet<u32> = all.iter().take(most).flat_map(|one| &one.pids).copied().collect();
    let nice = facts.threads_of(|key| meant.contains(&key.pid)).iter().map(|row| row.seen.nice).max();
    let lower = [10, 19].into_iter().find(|last| nice.is_none_or(|nice| nice < *last))?;
    Some(renice(lower, &pids))
}

/// What to do about threads of the kernel.
pub(super) fn find_user_of(name: &str) -> String {
    format!("Find which program gives {name} its work: a thread of the kernel works for others.")
}

/// `indexer used 180 % of a CPU (before: 0 %) and began in this time.`
pub(super) fn used(culprit: &Culprit) -> String {
    let before = culprit
        .before_cpu_pct
        .map_or_else(String::new, |before| format!(" (before: {} %)", decimal(before, 0)));
    let began = if culprit.began { " and began in this time" } else { "" };
    let scheduling = culprit.scheduling.as_ref().map_or_else(String::new, |text| format!(", with {text}"));
    format!(
        "{} used {} % of a CPU{before}{began}{scheduling}.",
        name_text(&culprit.name),
        decimal(culprit.cpu_pct, 0)
    )
}
