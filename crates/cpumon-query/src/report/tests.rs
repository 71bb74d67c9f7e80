//! Reports of a store of 26 hours, mostly compacted into sums, against sums made from its intervals.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use cpumon_model::{
    BootId, Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, SchedDelta, SourceKind, ThreadInterval, ThreadKey, Trust, Value, WaitReason,
};
use cpumon_store::sql::Sql;
use cpumon_store::{StoreOptions, Writer};

use super::*;
use crate::fields::Screen;
use crate::json::Nanos;
use crate::tally::{GroupOf, Grouping, SpanProcessRow, SpanThreadRow};
use crate::time::Page;
use crate::{Answers, GroupBy};

const SECOND: i64 = 1_000_000_000;
/// An hour begins 100 s later.
const BEGIN: i64 = 1_800_000_000 * SECOND - 100 * SECOND;
/// Length of an interval: a divisor of neither a minute nor an hour.
const LENGTH: i64 = 37 * SECOND;
const COUNT: i64 = 2530;

fn mixed(seed: i64) -> i64 {
    let mut z = seed.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 2).cast_signed()
}

fn info(name: &str, uid: u32, container: &str) -> Arc<ProcessInfo> {
    let cgroup = format!("/x/{container}");
    Arc::new(ProcessInfo {
        name: name.into(),
        uid,
        container: container.into(),
        cgroup: cgroup.into(),
        ..ProcessInfo::default()
    })
}

fn process(at: i64, pid: u32, info: &Arc<ProcessInfo>, run_ns: i64, life: Life) -> ProcessInterval {
    // The store has times of the scheduler's events in µs.
    let blocked_ns = run_ns / 1000 * 1000;
    let waits = [(WaitReason::DISK, 5_000), (WaitReason::syscall(202), blocked_ns.unsigned_abs())];
    ProcessInterval {
        key: ProcessKey { pid, start_ns: if life == Life::BornEnded { at.unsigned_abs() } else { 7 } },
        info: Arc::clone(info),
        thread_rows: 1,
        life,
        delta: Delta {
            user_ns: run_ns / 2,
            system_ns: run_ns / 3,
            run_ns,
            run_delay_ns: run_ns / 7,
            voluntary_switches: run_ns % 13,
            involuntary_switches: run_ns % 5,
            minor_faults: run_ns % 11,
            major_faults: run_ns % 3,
        },
        sched: SchedDelta {
            blocked_ns: blocked_ns + 5_000,
            waits: waits.into_iter().collect(),
            ..SchedDelta::default()
        },
        ..ProcessInterval::default()
    }
}

fn interval(at: i64, infos: &[Arc<ProcessInfo>]) -> Interval {
    let moment = |at: i64| Moment {
        mono_ns: (at * LENGTH).unsigned_abs(),
        boot_ns: (at * LENGTH).unsigned_abs(),
        wall_ns: BEGIN + at * LENGTH,
    };
    let mut processes = Vec::new();
    for (pid, info) in (10_u32..).zip(infos) {
        // The last one is there for a part of the time.
        if mixed(at * 31 + i64::from(pid)) % 4 > 0 && (pid < 14 || (700..900).contains(&at)) {
            processes.push(process(at, pid, info, mixed(at * 77 + i64::from(pid)) % SECOND, Life::Alive));
        }
    }
    for pid in 50..50 + u32::try_from(mixed(at) % 3).unwrap() {
        processes.push(process(at, pid, &infos[0], mixed(at + i64::from(pid)) % 1_000_000, Life::BornEnded));
    }
    let thread = |row: &ProcessInterval| ThreadInterval {
        key: ThreadKey { tid: row.key.pid, start_ns: row.key.start_ns },
        process: row.key,
        comm: "worker".into(),
        life: row.life,
        // The rest, up to 2 ns, ran in threads that ended and have no row.
        delta: Delta { run_ns: row.delta.run_ns - row.delta.run_ns % 3, ..row.delta },
        sched: row.sched,
        ..ThreadInterval::default()
    };
    let run_ns: i64 = processes.iter().map(|row| row.delta.run_ns).sum();
    Interval {
        host: HostId([3; 16]),
        boot: BootId([4; 16]),
        sequence: at.unsigned_abs(),
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(at - 1),
        end: moment(at),
        threads: processes.iter().map(thread).collect(),
        // Now and then the ledger has run time that no row has.
        ledger: Ledger {
            capacity_ns: 4 * LENGTH,
            threads_ns: run_ns - run_ns / 5,
            exited_ns: run_ns / 5 + if at % 100 == 0 { 11 } else { 0 },
            ..Ledger::default()
        },
        processes,
        ..Interval::default()
    }
}

struct Stored {
    _dir: tempfile::TempDir,
    path: PathBuf,
    intervals: Vec<Interval>,
}

impl Stored {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let infos = [
            info("web", 33, "web.service"),
            info("db", 70, "0123456789ab"),
            info("sh", 0, ""),
            info("web", 33, "web.service"),
            info("rare\u{1b}[2J", 0, "session-3.scope"),
        ];
        let intervals: Vec<Interval> = (1..=COUNT).map(|at| interval(at, &infos)).collect();
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        let host =
            HostInfo { host: HostId([3; 16]), hostname: "dev".into(), cpu_count: 4, ..HostInfo::default() };
        for (at, one) in intervals.iter().enumerate() {
            writer.put(&host, Trust::Local, None, one).unwrap();
            // What comes later stays fresh.
            if at == 2400 {
                writer.commit().unwrap();
                writer.compact_host(host.host).unwrap();
            }
        }
        writer.commit().unwrap();
        Self { _dir: dir, path, intervals }
    }

    fn history(&self) -> History {
        History::of_store(&self.path).unwrap()
    }

    fn report(&self, query: &ReportQuery) -> Report {
        self.history().report(&[], query).unwrap()
    }

    fn inside(&self, range: TimeRange) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |one| range.contains(one.end.wall_ns))
    }
}

/// What the intervals of a range add up to for a group.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    run_ns: i64,
    run_delay_ns: i64,
    switches: i64,
    blocked_ns: i64,
    /// Blocked time in system call 202.
    futex_ns: u64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    peak: i64,
}

fn expected(
    stored: &Stored,
    range: TimeRange,
    by: ReportBy,
    is_group: &dyn Fn(GroupOf<'_>) -> bool,
) -> Expected {
    let mut sum = Expected::default();
    for one in stored.inside(range) {
        let (segment, mut run_ns, mut is_there) = (cpumon_store::Segment::of(one), 0, false);
        let mut add = |of: GroupOf<'_>, delta: &Delta, sched: &SchedDelta| {
            if is_group(of) {
                run_ns += delta.run_ns;
                sum.run_delay_ns += delta.run_delay_ns;
                sum.switches += delta.voluntary_switches + delta.involuntary_switches;
                sum.blocked_ns += sched.blocked_ns;
                let times = sched.waits.iter().find(|(reason, _)| *reason == WaitReason::syscall(202));
                sum.futex_ns += times.map_or(0, |(_, ns)| ns);
                is_there = true;
            }
        };
        if by == ReportBy::Thread {
            for thread in SpanThreadRow::of(&segment) {
                add(thread.group(&thread.row.comm.to_str_lossy()), &thread.row.delta, &thread.row.sched);
            }
        } else {
            for process in SpanProcessRow::of(&segment) {
                let row = process.row;
                Grouping::By(by).each(process, "dev", &mut |of| add(of, &row.delta, &row.sched));
            }
        }
        if is_there {
            sum.first_ns.get_or_insert(one.begin.wall_ns);
            sum.last_ns = Some(one.end.wall_ns);
            sum.run_ns += run_ns;
            sum.peak = sum.peak.max(run_ns * SECOND / LENGTH);
        }
    }
    sum
}

fn run_ns(row: &ReportRow) -> i64 {
    row.run_ns.unwrap()
}

/// Id, and when it began.
fn key(row: &ReportRow) -> Option<(u32, Option<Nanos>)> {
    Some((row.tid.or(row.pid)?, row.start_ns))
}

fn of_row(row: &ReportRow) -> Expected {
    assert!(row.peak.is_some_and(|peak| peak.is_exact), "{row:?}");
    Expected {
        run_ns: run_ns(row),
        run_delay_ns: row.run_delay_ns.unwrap(),
        switches: row.voluntary_switches.unwrap() + row.involuntary_switches.unwrap(),
        blocked_ns: row.blocked_ns.unwrap_or(0),
        futex_ns: row.waits.iter().find(|wait| wait.0 == WaitReason::syscall(202)).map_or(0, |wait| wait.1),
        first_ns: row.first_ns.map(|ns| ns.0),
        last_ns: row.last_ns.map(|ns| ns.0),
        peak: row.peak.map_or(0, |peak| peak.ns_per_s),
    }
}

const GROUPINGS: [ReportBy; 9] = [
    ReportBy::Program,
    ReportBy::Name,
    ReportBy::Process,
    ReportBy::Thread,
    ReportBy::User,
    ReportBy::Service,
    ReportBy::Container,
    ReportBy::Cgroup,
    ReportBy::Host,
];

/// Some range: of seconds, of minutes, of hours, with ends anywhere.
fn some_range(seed: i64) -> TimeRange {
    let longest = [1_000, 9_000, 30_000, 93_000][usize::try_from(seed % 4).unwrap()] * SECOND;
    let length_ns = mixed(seed) % longest + 2 * LENGTH;
    let since_ns = BEGIN + mixed(seed + 500) % (COUNT * LENGTH - length_ns).max(1);
    TimeRange { since_ns, until_ns: since_ns + length_ns }
}

#[test]
fn any_range_by_any_group_is_what_its_intervals_add_up_to() {
    let stored = Stored::new();
    for seed in 0..36 {
        let (range, by) = (some_range(seed), GROUPINGS[usize::try_from(seed).unwrap() % GROUPINGS.len()]);
        let (since_ns, until_ns) = (Some(range.since_ns), Some(range.until_ns));
        let report =
            stored.report(&ReportQuery { since_ns, until_ns, by, limit: 100, ..ReportQuery::default() });
        let used_ns: i64 = stored.inside(range).map(|one| one.ledger.threads_ns + one.ledger.exited_ns).sum();
        assert_eq!(report.rows.iter().map(run_ns).sum::<i64>(), used_ns, "{by:?} {range:?}");
        let covered_ns: u64 = stored.inside(range).map(Interval::duration_ns).sum();
        assert_eq!(report.hosts[0].covered_ns, covered_ns, "{by:?} {range:?}");
        for row in report.rows.iter().filter(|row| row.kind != RowKind::Unattributed) {
            let is_group = |of: GroupOf<'_>| {
                let task =
                    of.task.map(|(_, task)| (task.number(), Some(Nanos(task.start_ns().cast_signed()))));
                *of.name == *row.name && task == key(row)
            };
            assert_eq!(of_row(row), expected(&stored, range, by, &is_group), "{} {by:?} {range:?}", row.name);
        }
    }
}

#[test]
fn rows_are_in_order_of_peak_first_and_last() {
    let stored = Stored::new();
    // Intervals, and two hours that are read from sums.
    for seconds in [600, 7_200] {
        for (sort, of) in [
            (
                ReportSort::Peak,
                &(|row: &ReportRow| row.peak.map(|peak| peak.ns_per_s)) as &dyn Fn(&ReportRow) -> _,
            ),
            (ReportSort::First, &|row| row.first_ns.map(|ns| ns.0)),
            (ReportSort::Last, &|row| row.last_ns.map(|ns| ns.0)),
        ] {
            let (since_ns, until_ns) = (Some(BEGIN), Some(BEGIN + seconds * SECOND));
            let query = ReportQuery {
                since_ns,
                until_ns,
                by: ReportBy::Process,
                sort,
                limit: 5,
                ..ReportQuery::default()
            };
            let report = stored.report(&query);
            let groups = report.rows.iter().filter(|row| row.kind.is_group());
            let values: Vec<_> = groups.map(of).collect();
            assert!(values.len() == 5 && values.is_sorted_by(|a, b| a >= b), "{sort:?} {values:?}");
            let all = stored.report(&ReportQuery { limit: 1000, ..query });
            assert_eq!(values.first(), all.rows.iter().map(of).max().as_ref(), "{sort:?} {seconds}");
        }
    }
}

#[test]
fn sql_gives_the_same_figures() {
    let stored = Stored::new();
    let sql = Sql::open(&stored.path).unwrap();
    for seed in 100..106 {
        let TimeRange { since_ns, until_ns } = some_range(seed);
        let query = ReportQuery {
            since_ns: Some(since_ns),
            until_ns: Some(until_ns),
            by: ReportBy::Name,
            ..ReportQuery::default()
        };
        let text = format!(
            "SELECT name, sum(run_ns), sum(run_delay_ns) FROM process_interval
             WHERE host = 'dev' AND end_ns > {since_ns} AND end_ns <= {until_ns} GROUP BY name ORDER BY 2 DESC"
        );
        let mut found = Vec::new();
        sql.query(&text, &mut |_| ControlFlow::Continue(()), &mut |row| {
            found.push(format!("{row:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
        let report = stored.report(&query);
        let groups = report.rows.iter().filter(|row| row.kind == RowKind::Group);
        let rows: Vec<String> = groups
            .map(|row| {
                let name = Value::Text((&*row.name).into());
                format!("{:?}", [name, Value::Int(run_ns(row)), Value::Int(row.run_delay_ns.unwrap())])
            })
            .collect();
        assert_eq!(rows, found, "{query:?}");
    }
}

#[test]
fn threads_and_what_has_no_row_make_the_ledger() {
    let stored = Stored::new();
    let query = ReportQuery { by: ReportBy::Thread, limit: 3, ..ReportQuery::default() };
    let report = stored.report(&query);
    assert_eq!(report.rows.len(), 5, "{report:?}");
    assert_eq!(report.rows.iter().map(run_ns).sum::<i64>(), report.used_ns);
    assert_eq!((report.rows[0].pid.is_some(), report.rows[3].kind), (true, RowKind::Rest));
    assert!(report.rows[4].kind == RowKind::Unattributed && run_ns(&report.rows[4]) > 0);
    assert_eq!(report.rows[0].waits.iter().next().unwrap().0, WaitReason::syscall(202));
}

#[test]
fn a_filtered_report_has_its_rows_and_still_adds_up() {
    let stored = Stored::new();
    for (text, within, by, names) in [
        (Some("WEB"), None, ReportBy::Name, &["web"][..]),
        (Some("10"), None, ReportBy::Process, &["web"]),
        (Some("root"), None, ReportBy::Name, &["rare\u{1b}[2J", "sh"]),
        (None, Some((GroupBy::User, "33".into())), ReportBy::Container, &["web.service"]),
        (Some("sh"), Some((GroupBy::User, "33".into())), ReportBy::Name, &[]),
        (None, Some((GroupBy::User, "0".into())), ReportBy::Name, &["rare\u{1b}[2J", "sh"]),
        (None, Some((GroupBy::Name, "db".into())), ReportBy::Thread, &["worker"]),
    ] {
        let filter = ReportFilter { text: text.map(Into::into), within };
        let since_ns = Some(BEGIN + 700 * LENGTH);
        let until_ns = Some(BEGIN + 2500 * LENGTH);
        let query = ReportQuery { since_ns, until_ns, by, limit: 100, filter, ..ReportQuery::default() };
        let report = stored.report(&query);
        let mut found: Vec<&str> = report
            .rows
            .iter()
            .filter(|row| row.start_ns.is_some() || row.kind == RowKind::Group)
            .map(|row| &*row.name)
            .collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, names, "{query:?}");
        let rest = report.rows.iter().find(|row| row.kind == RowKind::Rest).unwrap();
        assert_eq!(&*rest.name, "(others)");
        assert_eq!(report.rows.iter().map(run_ns).sum::<i64>(), report.used_ns, "{query:?}");
        let whole = stored.report(&ReportQuery { filter: ReportFilter::default(), ..query.clone() });
        for row in report.rows.iter().filter(|row| row.kind == RowKind::Group) {
            let same = whole.rows.iter().find(|other| other.name == row.name && key(other) == key(row));
            assert_eq!(same.map(|same| (same.run_ns, same.peak)), Some((row.run_ns, row.peak)), "{query:?}");
        }
    }
}

#[test]
fn lines_over_time_add_up_to_their_rows() {
    let stored = Stored::new();
    for (seconds, by) in [(3_000, ReportBy::Process), (20_000, ReportBy::Program), (92_000, ReportBy::User)] {
        let (since_ns, until_ns) = (Some(BEGIN), Some(BEGIN + seconds * SECOND));
        let query =
            ReportQuery { since_ns, until_ns, by, limit: 2, points: Some(300), ..ReportQuery::default() };
        let report = stored.report(&query);
        let part = &report.hosts[0];
        let few = stored.report(&ReportQuery { points: None, ..query });
        assert!(part.times.covered_ns.len() > 2 * few.hosts[0].times.covered_ns.len(), "{by:?}");
        let sum = |values: &[Option<i64>]| values.iter().flatten().sum::<i64>();
        // Points are rounded.
        let is_about = |one: i64, other: i64| (one - other).abs() <= 300;
        for (row, same) in report.rows.iter().zip(&few.rows).filter(|(row, _)| row.kind == RowKind::Group) {
            assert!(is_about(sum(&row.points), run_ns(row)), "{by:?} {}", row.name);
            assert_eq!((same.run_ns, &same.name), (row.run_ns, &row.name));
        }
        assert!(is_about(sum(&part.used), report.used_ns), "{by:?}");
        assert!(is_about(sum(&few.hosts[0].used), report.used_ns), "{by:?}");
    }
}

#[test]
fn a_comparison_has_the_groups_of_both_ranges() {
    let stored = Stored::new();
    let hour = 3600 * SECOND;
    let end = BEGIN + 905 * LENGTH;
    let query = ReportQuery {
        since_ns: Some(end),
        until_ns: Some(end + hour),
        by: ReportBy::Name,
        sort: ReportSort::Change,
        compare: Some(CompareWith::Before),
        ..ReportQuery::default()
    };
    let report = stored.report(&query);
    assert_eq!(report.before, Some(TimeRange { since_ns: end - hour, until_ns: end }));
    let gone = report.rows.iter().find(|row| row.name.starts_with("rare")).unwrap();
    let before = expected(&stored, report.before.unwrap(), ReportBy::Name, &|of| of.name.starts_with("rare"));
    assert_eq!((run_ns(gone), gone.before.unwrap().run_ns), (0, Some(before.run_ns)));
    assert!(gone.change_cpu_pct.unwrap() < 0.0 && gone.first_ns.is_none() && gone.peak.is_none());
    let change = |row: &ReportRow| row.change_cpu_pct.map_or(0.0, f64::abs);
    let groups: Vec<f64> = report.rows.iter().filter(|row| row.kind == RowKind::Group).map(change).collect();
    assert!(groups.is_sorted_by(|a, b| a + 1e-6 >= *b), "{groups:?}");
    let names: Vec<_> =
        report.fields(Screen::default()).iter().filter_map(|field| Some(field.column()?.0)).collect();
    assert!(
        names.starts_with(&["host", "kind", "name"]) && names.ends_with(&["before_duration_ns"]),
        "{names:?}"
    );
    let day = CompareWith::Yesterday.range(report.range);
    assert_eq!(day.until_ns, report.range.until_ns - 24 * hour);
}

#[test]
fn a_search_goes_over_all_that_is_stored() {
    let stored = Stored::new();
    let history = stored.history();
    let found = history.find(&[], "WEB", Page::ALL).unwrap().rows;
    let kinds: Vec<_> = found.iter().map(|one| (one.kind.name(), &*one.name)).collect();
    assert_eq!(kinds, [("name", "web"), ("service", "web.service")]);
    let range = TimeRange { since_ns: BEGIN, until_ns: BEGIN + COUNT * LENGTH };
    let web = expected(&stored, range, ReportBy::Name, &|of| of.name == "web");
    assert_eq!(
        (found[0].run_ns, found[0].first_ns, found[0].last_ns),
        (web.run_ns, web.first_ns.map(Nanos), web.last_ns.map(Nanos))
    );
    let short: usize = stored
        .intervals
        .iter()
        .map(|one| one.processes.iter().filter(|row| row.life == Life::BornEnded).count())
        .sum();
    assert_eq!(found[0].processes, short as u64 + 2);
    let rare = history.find(&[], "rare", Page::ALL).unwrap().rows;
    let expected = expected(&stored, range, ReportBy::Name, &|of| of.name.starts_with("rare"));
    let ends = (expected.first_ns.map(Nanos), expected.last_ns.map(Nanos));
    assert_eq!((rare[0].first_ns, rare[0].last_ns), ends);
    let first = history.find(&[], "root", Page { offset: 0, limit: 1 }).unwrap();
    assert_eq!((first.rows[0].kind, first.rows.len()), (FoundKind::User, 1));
    assert_eq!(history.find(&[], "nothing", Page::ALL).unwrap().total, 0);
    assert!(matches!(history.find(&[], "", Page::ALL), Err(QueryError::EmptySearch)));
}

#[test]
fn no_data_is_no_empty_report() {
    let stored = Stored::new();
    let history = stored.history();
    let ask = |since_ns, until_ns| {
        let query = ReportQuery { since_ns, until_ns, ..ReportQuery::default() };
        history.report(&[], &query).unwrap_err()
    };
    let text = ask(Some(BEGIN - 20 * SECOND), Some(BEGIN)).to_string();
    assert!(text.starts_with("no data for 2027-01-15T") && text.contains("; available: 2027-"), "{text}");
    assert!(matches!(ask(Some(BEGIN + COUNT * LENGTH), None), QueryError::NoData { .. }));
    assert!(matches!(ask(Some(5), Some(5)), QueryError::InvalidRange { .. }));
}
