//! Makes the answer of facts and causes: its sentences, where the time went, how sure it is, and what shows more.

use std::collections::BTreeMap;

use cpumon_model::{Fields, HostStatus, Trust, WaitedOn};

use super::answer::{
    Cause, CauseKind, Culprit, SureLevel, Sureness, TimeShare, TimeSplit, TimeState, WhyTarget,
};
use super::draft::{MIN_SHARE, matters, of_time};
use super::facts::{Facts, program_of};
use super::part::WhyPart;
use super::query::MAX_NS;
use super::states::{StateTimes, SubjectWait, WaitClass};
use super::threads::ThreadSums;
use super::words::{length, percent, rate, shell_word};
use crate::error::to_the_second;
use crate::fields::name_text;
use crate::spans::up;
use crate::time::{SECOND_NS, TimeRange};

/// Waits of a split at most, the longest ones.
const MAX_SHOWN_WAITS: usize = 6;
/// Sentences of the first cause at most, its own included.
const MAX_SENTENCES: usize = 4;
/// Share of the measured time above which the subject was there for the whole of it.
const MIN_WHOLE: f64 = 0.95;
/// Share of time without a known wait from which on it may be in one that has not ended.
const MIN_LASTING: f64 = 0.5;
/// Share below which a state is left out.
const MIN_STATE: f64 = 0.005;

/// The answer in two to four sentences.
pub(super) fn summary(facts: &Facts<'_>, causes: &[Cause]) -> Vec<String> {
    let Some((first, others)) = causes.split_first() else { return healthy(facts) };
    let mut all = vec![first.sentence.clone()];
    let more = MAX_SENTENCES - 1 - usize::from(!others.is_empty());
    all.extend(first.evidence.iter().take(more).cloned());
    all.extend(others.first().map(|next| format!("Then: {}", next.sentence)));
    all
}

fn healthy(facts: &Facts<'_>) -> Vec<String> {
    let times = &facts.times;
    if facts.rows.is_machine() {
        let idle =
            facts.idle_share().map(|idle| format!("the CPUs were idle {} of the time, and ", percent(idle)));
        let ready = percent(of_time(facts, times.ready_ns()));
        return vec![
            format!("Nothing is short: {}programs waited for a CPU {ready}.", idle.unwrap_or_default()),
            "No CPU limit, no steal and no interrupts took a tenth of the time, and waits for disks took less than half of it."
                .to_owned(),
        ];
    }
    let (ran, ready) = (percent(times.share(times.ran_ns())), percent(times.share(times.ready_ns())));
    let asleep = times.share_of(WaitClass::Asleep, times.of_class(WaitClass::Asleep));
    let longest = facts.longest_of(WaitClass::Asleep).filter(|_| asleep >= MIN_STATE);
    let first = longest.map_or_else(
        || format!("Nothing delays it: it ran {ran} of the time and was ready {ready}."),
        |wait| {
            let share = percent(asleep);
            let how = sleeps(facts, &wait);
            format!(
                "Nothing delays it: {share} of the time it slept by its own timer or for work ({how}), {ran} it ran, {ready} it was ready."
            )
        },
    );
    let locks_ns = times.of_class(WaitClass::Lock);
    let has_locks = matters(facts, locks_ns);
    let lock = if has_locks { "" } else { "no lock, " };
    let mut all = vec![
        first,
        format!("No limit, {lock}no disk, no other process and no priority took a tenth of its time."),
    ];
    if has_locks {
        all.push(format!(
            "{} of the time its threads waited for each other: for threads that worked meanwhile, or while no CPU was free.",
            percent(times.share(locks_ns))
        ));
    }
    if matters(facts, times.ready_ns()) {
        let idle = percent(facts.idle_share().unwrap_or_default());
        all.push(format!(
            "It was ready in waits shorter than 1 ms, and the CPUs were idle {idle} of the time: Linux 6.12 and later count more than it waited."
        ));
    }
    let rest = times.share(times.rest_ns());
    let has_waits_that_last = facts.has(Fields::WAITS) || !facts.has(Fields::WAITS_FOR);
    if rest >= MIN_LASTING && !has_waits_that_last {
        all.push(format!(
            "For {} of the time no wait ended: one that lasts, as of a program that hangs, is not measured.",
            percent(rest)
        ));
    }
    let network = times.share_of(WaitClass::Network, times.of_class(WaitClass::Network));
    if network >= MIN_SHARE {
        all.push(format!(
            "{} of the time it waited for data from the network or a device: a slow answer, or no request.",
            percent(network)
        ));
    }
    all
}

/// `clock_nanosleep, 46 times a second for 18 ms each`.
fn sleeps(facts: &Facts<'_>, wait: &SubjectWait) -> String {
    let name = wait.reason.name();
    if wait.count == 0 {
        return name.into_owned();
    }
    let (times, mean) = (rate(wait.count, facts.seconds()), length(wait.ns / wait.count));
    format!("{name}, {times} times a second for {mean} each")
}

/// What to do where nothing delays the subject.
pub(super) fn healthy_action(facts: &Facts<'_>) -> String {
    format!(
        "Nothing here. If it feels slow from outside, ask those that wait for it: cpumon why CALLER{}",
        facts.same_question
    )
}

/// The option by which a command asks about this host: its name, or its id where a shell would not take the name as a word. Empty for this
/// machine, which is asked about without it.
fn of_host(host: &HostStatus) -> String {
    match (host.trust, shell_word(&host.info.hostname)) {
        (Trust::Local, _) => String::new(),
        (_, Some(name)) => format!(" --host {name}"),
        (_, None) => format!(" --host {}", host.info.host),
    }
}

/// The options by which a command asks about the same host and time, to the second.
pub(super) fn same_question(host: &HostStatus, range: TimeRange) -> String {
    let until_ns = up(range.until_ns, SECOND_NS);
    // Whole minutes of sums can be more than may be asked for.
    let since_ns = range.since_ns.max(until_ns.saturating_sub(MAX_NS));
    format!("{} --since {} --until {}", of_host(host), to_the_second(since_ns), to_the_second(until_ns))
}

/// A wait as a split names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitKey {
    is_asleep: bool,
    wait: String,
    on: Option<Box<str>>,
}

/// Waits that a split names as one.
#[derive(Copy, Clone, Debug, Default)]
struct WaitSum {
    ns: u64,
    count: u64,
    share: f64,
}

/// Where the time went. `behind`: the program behind which it was ready most.
pub(super) fn split(
    times: &StateTimes,
    part: &WhyPart,
    threads: &ThreadSums,
    behind: Option<Box<str>>,
    is_machine: bool,
) -> TimeSplit {
    let shares = times.shares();
    let state = |state: TimeState, ns: u64| {
        let share = shares.of(ns);
        let (label, note) = (String::new(), String::new());
        TimeShare { state, wait: None, on: None, ns, share, count: None, label, note, before: None }
    };
    let mut states = vec![
        state(TimeState::Ran, times.ran_ns()),
        TimeShare { on: behind, ..state(TimeState::Ready, times.ready_ns()) },
        state(TimeState::Throttled, times.throttled_ns),
    ];
    let mut waits: BTreeMap<WaitKey, WaitSum> = BTreeMap::new();
    for wait in &times.waits {
        let key = WaitKey {
            is_asleep: !wait.class.is_delay(),
            wait: wait.words().into_owned(),
            on: on(wait, part, threads),
        };
        let sum = waits.entry(key).or_default();
        sum.ns = sum.ns.saturating_add(wait.ns);
        sum.count = sum.count.saturating_add(wait.count);
        sum.share += shares.of_waits(wait.class, wait.ns);
    }
    let mut waits: Vec<(WaitKey, WaitSum)> = waits.into_iter().collect();
    waits.sort_by_key(|(key, sum)| (key.is_asleep, std::cmp::Reverse(sum.ns)));
    let shown = waits.into_iter().map(|(key, sum)| TimeShare {
        wait: Some(key.wait),
        on: key.on,
        count: (sum.count > 0).then_some(sum.count),
        share: sum.share,
        ..state(if key.is_asleep { TimeState::Asleep } else { TimeState::Blocked }, sum.ns)
    });
    states.extend(shown.filter(|one| one.share >= MIN_STATE).take(MAX_SHOWN_WAITS));
    states.push(state(TimeState::Rest, times.rest_ns()));
    states.retain(|one| one.ns > 0 || matches!(one.state, TimeState::Ran | TimeState::Ready));
    for one in &mut states {
        (one.label, one.note) = (label(one, is_machine), note(one));
    }
    TimeSplit { range: part.range, measured_ns: part.length_ns, total_ns: times.base_ns(), states }
}

fn label(state: &TimeShare, is_machine: bool) -> String {
    let wait = state.wait.as_deref().unwrap_or_default();
    match state.state {
        TimeState::Blocked => wait.to_owned(),
        TimeState::Asleep => format!("asleep: {wait}"),
        TimeState::Rest if is_machine => "no program ran".to_owned(),
        TimeState::Rest => "off the CPUs, not known why".to_owned(),
        other => other.name().to_owned(),
    }
}

fn note(state: &TimeShare) -> String {
    let on = state.on.as_deref().map(name_text);
    match (state.state, on) {
        (TimeState::Ready, Some(on)) => format!("mostly behind {on}"),
        (TimeState::Asleep, Some(on)) if on == "interrupt" => "by itself".to_owned(),
        (TimeState::Blocked | TimeState::Asleep, Some(on)) => format!("until {on}"),
        _ => String::new(),
    }
}

/// Adds the shares of the time before.
pub(super) fn compare(time: &mut TimeSplit, before: &TimeSplit) {
    for state in &mut time.states {
        state.before = Some(share_before(before, state));
    }
}

/// The share of the same state in the time before. What it waits for by name is compared with all of that wait.
fn share_before(before: &TimeSplit, state: &TimeShare) -> f64 {
    let same = before.states.iter().filter(|one| (one.state, &one.wait) == (state.state, &state.wait));
    let of_same_on = |one: &&TimeShare| state.wait.is_none() || one.on == state.on;
    same.filter(of_same_on).map(|one| one.share).sum()
}

fn on(wait: &SubjectWait, part: &WhyPart, threads: &ThreadSums) -> Option<Box<str>> {
    match wait.on {
        WaitedOn::Others => None,
        WaitedOn::Interrupt => Some("interrupt".into()),
        WaitedOn::Process(key) => program_of(part, key).map(Into::into),
        WaitedOn::Thread(key) => threads.each.get(&key).map(|seen| (&*seen.comm.to_str_lossy()).into()),
    }
}

/// How sure the causes are, what they rest on, and what was not measured.
pub(super) fn sureness(facts: &Facts<'_>, causes: &[Cause]) -> Sureness {
    let now = facts.now;
    let knows_who = facts.has(Fields::WAITS_FOR);
    let usual = if knows_who || facts.rows.is_machine() { SureLevel::High } else { SureLevel::Medium };
    let level = causes.first().map_or(usual, |first| first.sure);
    let each =
        || format!("{} intervals of {} each", now.intervals, length(now.length_ns / now.intervals.max(1)));
    let mut rests_on = vec![if now.has_sums { "sums of minutes or hours".to_owned() } else { each() }];
    if facts.times.present_ns as f64 <= now.length_ns as f64 * MIN_WHOLE {
        rests_on.push(format!("the {} in which it was there", length(facts.times.present_ns)));
    }
    if knows_who {
        rests_on.push("waits of 1 ms and more, by who ended them".to_owned());
    } else if causes.iter().any(|one| one.culprits.iter().any(|culprit| culprit.is_estimated)) {
        rests_on.push("what others ran meanwhile: who was in front is concluded".to_owned());
    }
    let mut not_measured = Vec::new();
    let mut missing = |is_missing: bool, what: &str| {
        if is_missing {
            not_measured.push(what.to_owned());
        }
    };
    let range_ns = now.range.length_ns().unsigned_abs();
    let unrecorded_ns = range_ns.saturating_sub(now.length_ns);
    // The intervals at its ends may lie half outside.
    let ends_ns = 2 * (now.length_ns / now.intervals.max(1));
    missing(
        unrecorded_ns.saturating_sub(ends_ns) as f64 > range_ns as f64 * (1.0 - MIN_WHOLE),
        &format!("the {} in which nothing was recorded", length(unrecorded_ns)),
    );
    missing(!knows_who, "on whom it waited");
    missing(knows_who && !facts.has(Fields::WAITS), "waits shorter than 1 ms, and those that last");
    missing(!facts.has(Fields::CGROUPS), "CPU limits of control groups");
    missing(!facts.has(Fields::FAULTS), "page faults");
    let but = now.detail.map_or_else(String::new, |detail| {
        let length = length(detail.length_ns().unsigned_abs());
        format!(", but for {length} from {} on", to_the_second(detail.since_ns))
    });
    missing(
        now.has_sums,
        &format!(
            "single CPUs and threads, and short processes one by one: only sums of so long a range are read{but}"
        ),
    );
    let has = |kind: CauseKind| causes.iter().any(|one| one.cause == kind);
    let is_by_cpus = has(CauseKind::Affinity) || has(CauseKind::Saturated);
    let measured = if facts.has(Fields::AFFINITY) {
        "affinities of more CPUs than one"
    } else {
        "which CPUs it may use"
    };
    missing(is_by_cpus, measured);
    missing(has(CauseKind::Lock), "locks themselves: who has one is concluded from who ends waits for it");
    missing(now.is_cut, "some processes, waits, CPUs or control groups: there are too many");
    missing(facts.threads.is_cut, "some threads: there are too many");
    let sentences = sentences(level, &rests_on, &not_measured);
    Sureness { level, rests_on, not_measured, sentences }
}

fn sentences(level: SureLevel, rests_on: &[String], not_measured: &[String]) -> Vec<String> {
    let level = match level {
        SureLevel::High => "High",
        SureLevel::Medium => "Medium",
        SureLevel::Low => "Low",
    };
    let first = format!("{level}. It rests on {}.", rests_on.join("; "));
    let missing = (!not_measured.is_empty()).then(|| format!("Not measured: {}.", not_measured.join("; ")));
    std::iter::once(first).chain(missing).collect()
}

/// Commands that show more.
pub(super) fn more(
    facts: &Facts<'_>,
    host: &HostStatus,
    target: &WhyTarget,
    causes: &[Cause],
) -> Vec<String> {
    let is_local = host.trust == Trust::Local;
    let of_host = of_host(host);
    let range = facts.now.range;
    let at = range.since_ns.midpoint(range.until_ns);
    let mut all = Vec::new();
    let is_able = |one: &Culprit| one.pid.is_none_or(|pid| !facts.is_of_kernel(pid));
    let is_other = |one: &&Culprit| one.tid.is_none() && one.name != target.name && is_able(one);
    let mut culprits = causes.iter().take(1).flat_map(|one| &one.culprits).filter(is_other);
    let next = culprits.find_map(|one| shell_word(&one.name));
    all.extend(next.map(|name| format!("cpumon why {name}{}", facts.same_question)));
    all.push(format!("cpumon top --at {}{of_host}", to_the_second(at)));
    if is_local {
        all.push("cpumon trace record --for 5s -o why.trace".to_owned());
        let is_program = matches!(target.by.as_deref(), Some("name" | "process"));
        let name = shell_word(&target.name).filter(|_| is_program);
        all.extend(name.map(|name| format!("cpumon trace path why.trace --process {name}")));
    } else {
        all.push(format!("cpumon trace take{of_host}"));
    }
    all
}
