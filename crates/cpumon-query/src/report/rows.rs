//! Rows of a report: of the groups that are shown, of all others, of what no group has, with what they did before and their points.

use std::cmp::Reverse;
use std::ops::Add;

use cpumon_model::{Delta, Fields, HostStatus};
use cpumon_store::{ProcessFilter, What, add_known};

use super::answer::{Figures, HostPart, Report, ReportRow, RowKind};
use super::query::{ReportQuery, ReportSort};
use super::read::{RangeReading, Whole, Zoomed, of_range, of_threads, points as buckets_of, read};
use super::sums::{RangeTally, ReportGroup};
use crate::QueryError;
use crate::history::{History, Values};
use crate::json::Nanos;
use crate::keys::TaskKey;
use crate::spans::{Cut, cut_for_lines};
use crate::tally::{GroupKind, Grouping};
use crate::time::TimeRange;

/// The start of a report: all but its rows.
pub(super) fn report(query: &ReportQuery, range: TimeRange, tallies: &[HostTally]) -> Report {
    let part = |one: &HostTally| HostPart {
        host: one.host.info.host,
        name: one.host.info.hostname.clone(),
        range: one.cut.range,
        resolution: one.cut.coarsest(),
        covered_ns: one.tally.covered_ns,
        used_ns: one.tally.used_ns,
        times: one.tally.times(),
        used: used(&one.tally),
    };
    Report {
        query: query.clone(),
        range,
        before: query.compare.map(|with| with.range(range)),
        hosts: tallies.iter().map(part).collect(),
        total: in_order(tallies, query.sort).len(),
        used_ns: tallies.iter().map(|one| one.tally.used_ns).fold(0, i64::saturating_add),
        rows: Vec::new(),
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupPlace {
    pub(super) host: usize,
    pub(super) group: usize,
}

/// All groups of all hosts, in order: the most first. Groups that are equal are in order of their names.
pub(super) fn in_order(tallies: &[HostTally], sort: ReportSort) -> Vec<GroupPlace> {
    let mut all: Vec<GroupPlace> = Vec::new();
    for (host, one) in tallies.iter().enumerate() {
        let groups = one.tally.groups().iter().enumerate();
        let shown = groups.filter(|(_, group)| group.kind != GroupKind::Others);
        all.extend(shown.map(|(group, _)| GroupPlace { host, group }));
    }
    let group = |place: &GroupPlace| &tallies[place.host].tally.groups()[place.group];
    all.sort_by_cached_key(|place| {
        let one = group(place);
        let weight = weight(&tallies[place.host], place.group, sort);
        (Reverse(weight), Reverse(one.sums.delta.run_ns), place.host, one.name.clone(), one.task)
    });
    all
}

fn weight(one: &HostTally, at: usize, sort: ReportSort) -> i64 {
    let group = &one.tally.groups()[at];
    match sort {
        ReportSort::Cpu => group.sums.delta.run_ns,
        ReportSort::Ready => group.sums.delta.run_delay_ns,
        ReportSort::Blocked => group.sums.blocked_ns.unwrap_or(-1),
        ReportSort::Switches => {
            group.sums.delta.voluntary_switches.saturating_add(group.sums.delta.involuntary_switches)
        }
        // Sums give only bounds: `settle` orders the rows that are shown.
        ReportSort::Peak => {
            let known = group.sums.times.peak.map_or(-1, |peak| peak.ns_per_s);
            group.sums.times.candidates.iter().map(|one| one.upper).fold(known, i64::max)
        }
        ReportSort::First => group.sums.times.first.map_or(i64::MIN, |mark| mark.range.since_ns),
        ReportSort::Last => group.sums.times.last.map_or(i64::MIN, |mark| mark.range.until_ns),
        ReportSort::Change => {
            let Some(before) = one.before_of(group) else { return group.sums.delta.run_ns };
            let per_s = |run_ns: i64, covered_ns: u64| run_ns as f64 * 1e9 / (covered_ns as f64).max(1.0);
            let change = per_s(group.sums.delta.run_ns, one.tally.covered_ns)
                - per_s(before.delta.run_ns, before.covered_ns);
            #[expect(clippy::cast_possible_truncation, reason = "a float beyond i64 sticks at its end")]
            let weight = change.abs() as i64;
            weight
        }
    }
}

/// Puts rows in order as finer data has them.
pub(super) fn settle(rows: &mut [ReportRow], sort: ReportSort) {
    match sort {
        ReportSort::Peak => rows.sort_by_key(|row| Reverse(row.peak.map(|peak| peak.ns_per_s))),
        ReportSort::First => rows.sort_by_key(|row| Reverse(row.first_ns)),
        ReportSort::Last => rows.sort_by_key(|row| Reverse(row.last_ns)),
        _ => {}
    }
}

pub(super) fn of_group(one: &HostTally, at: usize, zoomed: Zoomed, used_ns: i64) -> ReportRow {
    let (tally, group) = (&one.tally, &one.tally.groups()[at]);
    let wait = group.sums.waits.longest().filter(|_| tally.fields.contains(Fields::WAITS));
    let kind = if group.kind == GroupKind::Short { RowKind::Short } else { RowKind::Group };
    let task = group.task.map(|(_, task)| task);
    let figures = Figures {
        delta: group.sums.delta,
        blocked_ns: group.sums.blocked_ns,
        covered_ns: tally.covered_ns,
        fields: tally.fields,
    };
    let start = |ns: u64| Nanos(ns.cast_signed());
    ReportRow {
        host: Some(one.host.info.hostname.clone()),
        pid: group.process.map(|process| process.pid),
        tid: if let Some(TaskKey::Thread(key)) = task { Some(key.tid) } else { None },
        start_ns: task.map(|task| start(task.start_ns())),
        process_start_ns: group.process.map(|process| start(process.start_ns)),
        waits: wait.into_iter().collect(),
        peak: zoomed.peak,
        first_ns: zoomed.first_ns.map(Nanos),
        last_ns: zoomed.last_ns.map(Nanos),
        points: points(tally, group),
        ..figures.row(kind, group.name.clone(), used_ns, one.before_of(group))
    }
}

/// The group of all others, one place a host that has it.
pub(super) fn others(tallies: &[HostTally]) -> Vec<GroupPlace> {
    let place = |(host, one): (usize, &HostTally)| {
        let group = one.tally.groups().iter().position(|group| group.kind == GroupKind::Others)?;
        Some(GroupPlace { host, group })
    };
    tallies.iter().enumerate().filter_map(place).collect()
}

/// Run time of all threads in each point.
pub(super) fn used(tally: &RangeTally) -> Values {
    let Some(buckets) = &tally.buckets else { return Values::new() };
    buckets.where_there(tally.used_points.iter().copied().enumerate(), |_| true, f64::add)
}

/// Run time of a group in each point.
pub(super) fn points(tally: &RangeTally, group: &ReportGroup) -> Values {
    let Some(buckets) = &tally.buckets else { return Values::new() };
    buckets.where_there(group.sums.points.iter().copied().enumerate(), |_| true, f64::add)
}

/// One row for several groups, with these figures.
fn together(tallies: &[HostTally], used_ns: i64, figures: Figures, kind: RowKind, name: String) -> ReportRow {
    let only = if let [one] = tallies { Some(one) } else { None };
    let figures = Figures { covered_ns: only.map_or(0, |one| one.tally.covered_ns), ..figures };
    let host = only.map(|one| one.host.info.hostname.clone());
    ReportRow { host, ..figures.row(kind, name.into(), used_ns, None) }
}

/// Counters that every interval of every host has.
fn fields(tallies: &[HostTally]) -> Fields {
    tallies.iter().fold(Fields::all(), |fields, one| fields & one.tally.fields)
}

/// The groups that are not shown as one row, if there are any.
pub(super) fn rest(tallies: &[HostTally], hidden: &[GroupPlace], used_ns: i64) -> Option<ReportRow> {
    let is_of_others =
        |place: &GroupPlace| tallies[place.host].tally.groups()[place.group].kind == GroupKind::Others;
    let name = if hidden.iter().any(is_of_others) {
        "(others)".to_owned()
    } else {
        format!("({} other{})", hidden.len(), if hidden.len() == 1 { "" } else { "s" })
    };
    let (mut delta, mut blocked_ns) = (Delta::default(), None);
    for place in hidden {
        let group = &tallies[place.host].tally.groups()[place.group];
        delta += &group.sums.delta;
        add_known(&mut blocked_ns, group.sums.blocked_ns);
    }
    let figures = Figures { delta, blocked_ns, covered_ns: 0, fields: fields(tallies) };
    (!hidden.is_empty()).then(|| together(tallies, used_ns, figures, RowKind::Rest, name))
}

/// Run time of the ledger that no group has, if there is any.
pub(super) fn unattributed(tallies: &[HostTally], used_ns: i64) -> Option<ReportRow> {
    let run_ns = tallies.iter().map(|one| one.tally.unattributed_ns()).fold(0, i64::saturating_add);
    // Of the ledger only its run time is known.
    let figures = Figures {
        delta: Delta { run_ns, ..Delta::default() },
        blocked_ns: None,
        covered_ns: 0,
        fields: fields(tallies) & Fields::RUN,
    };
    let name = "(not attributed)".to_owned();
    (run_ns != 0).then(|| together(tallies, used_ns, figures, RowKind::Unattributed, name))
}

/// What one host did in the range, and in the one to compare with.
pub(super) struct HostTally {
    pub(super) host: HostStatus,
    pub(super) cut: Cut,
    pub(super) tally: RangeTally,
    pub(super) before: Option<RangeTally>,
}

impl HostTally {
    /// What a group did before; `None`: nothing is compared.
    pub(super) fn before_of(&self, group: &ReportGroup) -> Option<Figures> {
        let before = self.before.as_ref()?;
        let found = before.find(&group.id());
        Some(Figures {
            delta: found.map(|group| group.sums.delta).unwrap_or_default(),
            blocked_ns: found.map_or(Some(0), |group| group.sums.blocked_ns),
            covered_ns: before.covered_ns,
            fields: before.fields,
        })
    }
}

/// Adds up the range to compare with, and gives `tally` the groups that were only there before: now they did nothing.
pub(super) fn before(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
    grouping: &Grouping,
    tally: &mut RangeTally,
) -> Result<RangeTally, QueryError> {
    let Whole { tally: before, .. } = of_range(history, host, range, grouping)?;
    for group in before.groups() {
        tally.tally.place(group.of());
    }
    Ok(before)
}

/// Replaces the small lines with lines of `count` points; `shown` are the groups of the report's rows.
pub(super) fn fill(
    report: &mut Report,
    history: &History,
    tallies: &[HostTally],
    shown: &[GroupPlace],
    count: usize,
) -> Result<(), QueryError> {
    let grouping = Grouping::of(report.query.by, &report.query.filter);
    for (host, (one, part)) in tallies.iter().zip(&mut report.hosts).enumerate() {
        let cut = match grouping.what() {
            What::Threads => of_threads(history, &one.host, report.range)?,
            _ => cut_for_lines(report.range, history.finest(one.host.info.host, report.range)?),
        };
        let groups =
            shown.iter().filter(|place| place.host == host).map(|place| &one.tally.groups()[place.group]);
        let mut tally = RangeTally::of_groups(buckets_of(&cut, count), groups);
        let reading = RangeReading {
            host: &one.host,
            grouping: &grouping,
            filter: &ProcessFilter::All,
            with_events: false,
        };
        for span in &cut.spans {
            read(history, reading, *span, &mut tally)?;
        }
        part.times = tally.times();
        part.used = used(&tally);
        for (place, row) in shown.iter().zip(&mut report.rows).filter(|(place, _)| place.host == host) {
            let group = tally.find(&one.tally.groups()[place.group].id());
            row.points = group.map(|group| points(&tally, group)).unwrap_or_default();
        }
    }
    Ok(())
}
