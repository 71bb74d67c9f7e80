//! Why is it slow, and who did it? The time of a program, a service or the machine is divided into ran, ready, throttled, blocked on others,
//! and asleep by itself. Time that is not its own choice has a cause, a culprit and a remedy (docs/why.md).
//!
//! The time that is asked for and as much before it are read in parts. Where one step explains how the share of waiting changed, the time
//! from there on is explained, and the time before it is the comparison. `facts` then says what was measured, `rules` what it means; both
//! read nothing. Only threads of processes that matter are read. A long range is read from sums of minutes, and threads, single CPUs and
//! short-lived processes from the minutes of it in which the subject waited most.

mod affinity;
mod answer;
mod change;
mod compose;
mod cpu;
mod draft;
mod facts;
mod front;
mod part;
mod peers;
mod query;
mod rules;
mod states;
mod subject;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod waits;
mod words;

use cpumon_model::{HostStatus, ProcessKey, WaitedOn};
use cpumon_store::{ProcessFilter, Query, Resolution, What};
use foldhash::{HashMap, HashMapExt};

pub use answer::{
    Cause, CauseKind, Culprit, SureLevel, Sureness, TimeShare, TimeSplit, TimeState, Why, WhyTarget,
};
pub use query::{WhyQuery, WhySubject};
pub use text::WhyBlock;
pub use words::shell_word;

use self::facts::{Facts, ProgramTime};
use self::part::{SeenProcess, WhyPart};
use self::peers::{busy_peers, let_long_pool_waits_sleep};
use self::query::MAX_NS;
use self::states::{StateTimes, SubjectRows, WaitClass, at_least_zero};
use self::subject::FoundSubject;
use self::threads::ThreadSums;
use crate::QueryError;
use crate::history::History;
use crate::hosts::asked_range;
use crate::json::Nanos;
use crate::spans::{Span, up};
use crate::time::{SECOND_NS, TimeRange, now_ns};

/// The time that is explained if no start is given.
const USUAL_NS: i64 = 300 * SECOND_NS;
/// Time on each side of a moment.
const AROUND_NS: i64 = 30 * SECOND_NS;
/// Up to this, intervals are read: only they have CPUs, threads and single short-lived processes.
const INTERVALS_NS: i64 = 900 * SECOND_NS;
/// Of a longer range the intervals of so much of it are read, where the subject waited most; the rest from sums.
const DETAIL_NS: i64 = 180 * SECOND_NS;
/// Parts of the time that is asked for, and of the time before.
const PARTS: i64 = 20;
/// Processes of the subject whose threads are read at most.
const MAX_OWN: usize = 16;
/// Programs beside it, and processes of each, whose threads are read at most.
const MAX_READ_PROGRAMS: usize = 5;
const MAX_READ_PROCESSES: usize = 4;
/// Processes without activity of their own whose names are found out at most, and the share of the time that one must have been waited for:
/// all names of the store are read for them.
const MAX_NAMES: usize = 64;
const MIN_NAMED: f64 = 0.01;

/// Why something on a host is slow.
pub(crate) fn why(history: &History, host: &HostStatus, query: &WhyQuery) -> Result<Why, QueryError> {
    let asked = range_of(history, host, query)?;
    let spans = WhySpans::new(history, host, asked)?;
    let parts = history.of_each(&spans.all, |history, span| read_part(history, host, *span))?;
    let (earlier, asked_parts) = parts.split_at(spans.before);
    if asked_parts.iter().all(|part| part.length_ns == 0) {
        let TimeRange { since_ns, until_ns } = asked;
        let available = history.available(host.info.host)?;
        return Err(QueryError::NoData { since_ns, until_ns, available });
    }
    let FoundSubject { rows, mut target } = subject::find(&parts, &host.info.hostname, &query.subject)?;
    let shares = delayed_shares(&parts, &rows);
    let slow_from = change::slow_from(&shares);
    let first = slow_from.map_or(spans.before, |at| at.max(spans.before));
    let slowest = slowest(&parts[first..], &shares[first..]);
    let none = || QueryError::NoData { since_ns: asked.since_ns, until_ns: asked.until_ns, available: None };
    let mut now = WhyPart::sum(parts.iter().skip(first)).ok_or_else(none)?;
    let before = match slow_from {
        Some(at) => WhyPart::sum(parts.iter().take(at)),
        None => WhyPart::sum(earlier),
    };
    let slow_since_ns = slow_from.and_then(|at| parts.get(at)).map(|part| part.range.since_ns);
    // Their sums are all that is needed: threads take memory, too.
    drop(parts);
    name_peers(history, host, &rows, &mut now)?;
    let keys = {
        let unread = ThreadSums::default();
        keys_that_matter(&Facts::new(&target, &rows, &now, before.as_ref(), &unread))
    };
    let threads = if now.has_sums {
        read_detail(history, host, slowest, keys, &mut now)?
    } else {
        read_threads(history, host, now.range, keys)?
    };
    // Threads of more processes are not read.
    if !now.has_sums && !rows.is_machine() && target.processes <= MAX_OWN as u64 {
        let own = threads.each.values().filter(|seen| seen.intervals > 0 && rows.has(seen.process));
        target.threads = Some(own.count() as u64);
    }
    let facts = Facts::new(&target, &rows, &now, before.as_ref(), &threads);
    Ok(answer_of(host, facts, slow_since_ns))
}

/// The answer of the facts.
fn answer_of(host: &HostStatus, mut facts: Facts<'_>, slow_since_ns: Option<i64>) -> Why {
    facts.same_question = compose::same_question(host, facts.now.range);
    let facts = &facts;
    let causes = rules::causes(facts);
    let behind = facts.in_front().into_iter().next().map(|first| first.name);
    let is_machine = facts.rows.is_machine();
    // Where it was not there, there is nothing to compare with.
    let was_there = |times: &&StateTimes| is_machine || times.present_ns > 0;
    let before = facts.before.zip(facts.times_before.as_ref().filter(was_there));
    let before = before.map(|(part, times)| compose::split(times, part, facts.threads, None, is_machine));
    let mut time = compose::split(&facts.times, facts.now, facts.threads, behind, is_machine);
    if let Some(before) = &before {
        compose::compare(&mut time, before);
    }
    let range = facts.now.range;
    Why {
        host: host.info.host,
        host_name: host.info.hostname.clone(),
        subject: facts.target.clone(),
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        slow_since_ns: slow_since_ns.filter(|_| !causes.is_empty()).map(Nanos),
        summary: compose::summary(facts, &causes),
        action: causes.first().map_or_else(|| compose::healthy_action(facts), |first| first.action.clone()),
        time,
        before,
        sure: compose::sureness(facts, &causes),
        more: compose::more(facts, host, facts.target, &causes),
        causes,
    }
}

/// The range that is asked for.
fn range_of(history: &History, host: &HostStatus, query: &WhyQuery) -> Result<TimeRange, QueryError> {
    let last_ns = history.available(host.info.host)?.map_or_else(now_ns, |known| known.last_ns);
    let is_moment = query.since_ns.is_none() && query.until_ns.is_none();
    let around = query.at_ns.filter(|_| is_moment).map(|at_ns| TimeRange {
        since_ns: at_ns.saturating_sub(AROUND_NS),
        until_ns: at_ns.saturating_add(AROUND_NS).min(last_ns),
    });
    let until_ns = around.map(|around| around.until_ns).or(query.until_ns).unwrap_or(last_ns);
    let usual_ns = || until_ns.saturating_sub(USUAL_NS);
    let since_ns = around.map(|around| around.since_ns).or(query.since_ns).unwrap_or_else(usual_ns);
    if since_ns >= until_ns && query.until_ns.is_none() {
        // Its start is behind all data.
        let available = history.available(host.info.host)?;
        return Err(QueryError::NoData { since_ns, until_ns: now_ns().max(since_ns), available });
    }
    let range = asked_range(history, std::slice::from_ref(host), Some(since_ns), Some(until_ns))?;
    if range.length_ns() > MAX_NS { Err(QueryError::WhyRangeTooLong) } else { Ok(range) }
}

/// The parts that are read, in order of time.
#[derive(Debug)]
struct WhySpans {
    all: Vec<Span>,
    /// Number of those before the time that is asked for.
    before: usize,
}

impl WhySpans {
    fn new(history: &History, host: &HostStatus, asked: TimeRange) -> Result<Self, QueryError> {
        let resolution = resolution(history, host, asked)?;
        let unit_ns = resolution.map_or(1, Resolution::length_ns);
        let since_ns = asked.since_ns.div_euclid(unit_ns).saturating_mul(unit_ns);
        let now = TimeRange { since_ns, until_ns: up(asked.until_ns, unit_ns) };
        let before = TimeRange { since_ns: since_ns.saturating_sub(now.length_ns()), until_ns: since_ns };
        // Where only sums are left of it, its parts would overlap those of the time that is asked for.
        let is_alike = self::resolution(history, host, before)? == resolution;
        let mut all = if is_alike { parts_of(before, resolution) } else { Vec::new() };
        let count = all.len();
        all.extend(parts_of(now, resolution));
        Ok(Self { all, before: count })
    }
}

/// The resolution at which a range is read: intervals, if there are any and the range is not too long.
fn resolution(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
) -> Result<Option<Resolution>, QueryError> {
    let finest = history.finest(host.info.host, range)?;
    let minutes = (range.length_ns() > INTERVALS_NS).then_some(Resolution::Minute);
    let all = [finest.since, finest.until, minutes].into_iter().flatten();
    Ok(all.max_by_key(|resolution| resolution.length_ns()))
}

fn parts_of(range: TimeRange, resolution: Option<Resolution>) -> Vec<Span> {
    let unit_ns = resolution.map_or(1, Resolution::length_ns);
    let width_ns = up(up(range.length_ns(), PARTS) / PARTS, unit_ns).max(unit_ns);
    let mut spans = Vec::new();
    let mut since_ns = range.since_ns;
    while since_ns < range.until_ns {
        let until_ns = since_ns.saturating_add(width_ns).min(range.until_ns);
        spans.push(Span { range: TimeRange { since_ns, until_ns }, resolution });
        since_ns = until_ns;
    }
    spans
}

fn read_part(history: &History, host: &HostStatus, span: Span) -> Result<WhyPart, QueryError> {
    let query = Query::new(host.info.host).what(What::Processes).without_resting().with_sum_details();
    let query = query.range(span.range.since_ns, span.range.until_ns);
    let mut part = WhyPart::new(span.range);
    let mut segments = history.segments(&query, span.resolution)?;
    while let Some(segment) = segments.read()? {
        part.add(&segment);
    }
    part.end();
    Ok(part)
}

/// Threads of these processes, from the intervals of a range.
fn read_threads(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
    keys: Vec<ProcessKey>,
) -> Result<ThreadSums, QueryError> {
    let mut sums = ThreadSums::default();
    if keys.is_empty() {
        return Ok(sums);
    }
    let query = Query::new(host.info.host).what(What::Threads).without_resting();
    let query = query.filter(ProcessFilter::AnyOf(keys.into()));
    let parts = history.in_parts(range, history.parts(range), |history, range| {
        let mut sums = ThreadSums::default();
        let mut segments = history.segments(&query.clone().range(range.since_ns, range.until_ns), None)?;
        while let Some(segment) = segments.read()? {
            sums.add(segment.interval);
        }
        Ok(sums)
    })?;
    for part in &parts {
        sums.append(part);
    }
    Ok(sums)
}

/// The part of which most was spent in waiting; `None`: nothing was measured.
fn slowest(parts: &[WhyPart], shares: &[Option<f64>]) -> Option<TimeRange> {
    let measured = parts.iter().zip(shares).filter(|(part, _)| part.length_ns > 0);
    let share = |share: &Option<f64>| share.unwrap_or_default();
    let (part, _) = measured.max_by(|(_, one), (_, other)| share(one).total_cmp(&share(other)))?;
    Some(part.range)
}

/// Threads of a range of which sums were read, as far as there are intervals: those of a part of it, [`DETAIL_NS`] at most, and what else
/// only intervals have.
fn read_detail(
    history: &History,
    host: &HostStatus,
    part: Option<TimeRange>,
    keys: Vec<ProcessKey>,
    now: &mut WhyPart,
) -> Result<ThreadSums, QueryError> {
    let Some(TimeRange { since_ns, until_ns }) = part else { return Ok(ThreadSums::default()) };
    // Recording may have begun in the midst of the part.
    let first_ns = history.end_after(host.info.host, since_ns)?;
    let since_ns = first_ns.map_or(since_ns, |end_ns| end_ns.saturating_sub(1).clamp(since_ns, until_ns));
    if since_ns == until_ns {
        return Ok(ThreadSums::default());
    }
    let range = TimeRange { since_ns, until_ns: until_ns.min(since_ns.saturating_add(DETAIL_NS)) };
    let span = Span { range, resolution: resolution(history, host, range)? };
    if span.resolution.is_some() {
        return Ok(ThreadSums::default());
    }
    let detail = read_part(history, host, span)?;
    if detail.length_ns == 0 {
        return Ok(ThreadSums::default());
    }
    let mut threads = read_threads(history, host, range, keys)?;
    threads.extend_to(now, now.scale_of(&detail));
    now.add_detail(&detail);
    Ok(threads)
}

/// For each part the share of the time that the subject waited for others; `None`: it did nothing, was there for less than half of it (how a
/// program begins is no measure of it), or nothing was measured.
fn delayed_shares(parts: &[WhyPart], rows: &SubjectRows) -> Vec<Option<f64>> {
    let whole = WhyPart::sum(parts);
    let busy = whole.map(|whole| busy_peers(&whole, rows)).unwrap_or_default();
    let share = |part: &WhyPart| {
        let mut times = StateTimes::of(part, rows, &|key| !busy.contains(&key));
        // With more work a pool waits shorter: that is no step.
        let_long_pool_waits_sleep(&mut times);
        let is_there = times.wanted_ns() > 1 && times.present_ns >= part.length_ns.div_ceil(2);
        is_there.then(|| times.delayed_share())
    };
    parts.iter().map(share).collect()
}

/// Adds the names of processes for which the subject waited and that did nothing themselves.
fn name_peers(
    history: &History,
    host: &HostStatus,
    rows: &SubjectRows,
    now: &mut WhyPart,
) -> Result<(), QueryError> {
    let mut nameless: HashMap<ProcessKey, u64> = HashMap::new();
    for row in now.waits.iter().filter(|row| rows.has(row.waiter)) {
        if let WaitedOn::Process(key) = row.on
            && !now.processes.contains_key(&key)
        {
            let sum = nameless.entry(key).or_default();
            *sum = sum.saturating_add(row.ns);
        }
    }
    let mut longest: Vec<(ProcessKey, u64)> = nameless.into_iter().collect();
    longest.retain(|(_, ns)| *ns as f64 >= now.length_ns as f64 * MIN_NAMED);
    longest.sort_by_key(|(key, ns)| (std::cmp::Reverse(*ns), *key));
    let keys: Vec<ProcessKey> = longest.into_iter().take(MAX_NAMES).map(|(key, _)| key).collect();
    for (key, (info, parent_pid)) in history.processes(host.info.host, &keys)? {
        now.processes.insert(key, SeenProcess { info, parent_pid, ..SeenProcess::default() });
    }
    Ok(())
}

/// Processes whose threads decide: those of the subject, and those that may be in its way.
fn keys_that_matter(facts: &Facts<'_>) -> Vec<ProcessKey> {
    let mut own: Vec<(ProcessKey, u64)> = Vec::new();
    if !facts.rows.is_machine() {
        let of_subject = facts.now.processes.iter().filter(|(key, _)| facts.rows.has(**key));
        own.extend(of_subject.map(|(key, seen)| {
            (*key, at_least_zero(seen.delta.run_ns.saturating_add(seen.delta.run_delay_ns)))
        }));
    }
    own.sort_by_key(|(key, ns)| (std::cmp::Reverse(*ns), *key));
    let mut keys: Vec<ProcessKey> = own.into_iter().take(MAX_OWN).map(|(key, _)| key).collect();
    let others = [facts.in_front(), facts.waited_for(WaitClass::Peer), facts.grown(|run| run.run_ns)];
    for programs in others {
        let first = programs.into_iter().take(MAX_READ_PROGRAMS);
        let of_each = |one: ProgramTime| one.keys.into_iter().take(MAX_READ_PROCESSES).map(|one| one.key);
        keys.extend(first.flat_map(of_each));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
