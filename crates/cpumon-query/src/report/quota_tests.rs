//! CPU limits of programs, processes and threads: those of the control groups in which they ran.

use std::sync::Arc;

use cpumon_model::{
    BootId, CgroupInterval, CpuLimit, Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo,
    ProcessInterval, ProcessKey, ThreadInterval, ThreadKey, Throttle, Trust,
};
use cpumon_store::{StoreOptions, Writer};

use super::*;
use crate::Answers;
use crate::fields::Screen;

const SECOND: i64 = 1_000_000_000;
const LENGTH: i64 = 30 * SECOND;
/// An hour begins.
const BEGIN: i64 = 1_800_000_000 * SECOND;
/// Intervals of three hours.
const COUNT: i64 = 360;
/// Programs and their control groups.
const TASKS: [(&str, &str); 4] = [("shop", "/job"), ("worker", "/job/a"), ("worker", "/two"), ("sh", "/")];

fn limited(path: &str, limiter: &str, millionths: u64, throttled_periods: u64) -> CgroupInterval {
    let throttled_ns = throttled_periods * 1_000_000;
    CgroupInterval {
        path: path.into(),
        limit: CpuLimit::Millionths(millionths),
        limiter_bytes: u16::try_from(limiter.len()).unwrap(),
        throttle: Some(Throttle { periods: 10, throttled_periods, throttled_ns }),
        ..CgroupInterval::default()
    }
}

fn interval(at: i64, cgroups: &[CgroupInterval]) -> Interval {
    let moment = |at_ns: i64| {
        let (mono_ns, boot_ns) = (at_ns.unsigned_abs(), at_ns.unsigned_abs());
        Moment { mono_ns, boot_ns, wall_ns: BEGIN + at_ns - LENGTH }
    };
    let delta = Delta { run_ns: SECOND, ..Delta::default() };
    let process = |(pid, (name, cgroup)): (u32, (&str, &str))| {
        let info = ProcessInfo { name: name.into(), cgroup: cgroup.into(), ..ProcessInfo::default() };
        let key = ProcessKey { pid, start_ns: 7 };
        let info = Arc::new(info);
        ProcessInterval { key, info, thread_rows: 1, delta, ..ProcessInterval::default() }
    };
    let processes: Vec<_> = (1..).zip(TASKS).map(process).collect();
    let thread = |row: &ProcessInterval| ThreadInterval {
        key: ThreadKey { tid: row.key.pid, start_ns: 7 },
        process: row.key,
        comm: "task".into(),
        delta,
        ..ThreadInterval::default()
    };
    Interval {
        host: HostId([3; 16]),
        boot: BootId([4; 16]),
        sequence: at.unsigned_abs(),
        fields: Fields::RUN | Fields::CGROUPS,
        begin: moment(at * LENGTH - LENGTH / 2),
        end: moment(at * LENGTH + LENGTH / 2),
        ledger: Ledger { capacity_ns: 4 * LENGTH, threads_ns: 4 * SECOND, ..Ledger::default() },
        threads: processes.iter().map(thread).collect(),
        processes,
        cgroups: cgroups.to_vec(),
        ..Interval::default()
    }
}

/// Reports of three hours of these control groups: of their intervals, and of sums.
fn reports(cgroups: &[CgroupInterval], query: &ReportQuery) -> [Report; 2] {
    [false, true].map(|is_compacted| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        let host = HostId([3; 16]);
        let info = HostInfo { host, hostname: "dev".into(), cpu_count: 4, ..HostInfo::default() };
        for at in 1..=COUNT {
            writer.put(&info, Trust::Local, None, &interval(at, cgroups)).unwrap();
        }
        writer.commit().unwrap();
        if is_compacted {
            writer.compact_host(host).unwrap();
        }
        let (since_ns, until_ns) = (Some(BEGIN), Some(BEGIN + COUNT * LENGTH));
        let query = ReportQuery { since_ns, until_ns, ..query.clone() };
        History::of_store(&path).unwrap().report(&[], &query).unwrap()
    })
}

/// Name, pid, limit, and periods in which it was used up, of all periods.
type Row<'r> = (&'r str, Option<u32>, Option<f64>, [u64; 2]);

fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for row in &report.rows {
        let limits = row.limits.unwrap();
        let Throttle { periods, throttled_periods, .. } = limits.throttle.unwrap();
        rows.push((&*row.name, row.pid, limits.limit.cpus(), [throttled_periods, periods]));
    }
    rows.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    rows
}

fn columns(report: &Report) -> Vec<&'static str> {
    report.fields(Screen::default()).iter().filter_map(|field| Some(field.column()?.0)).collect()
}

#[test]
fn a_program_has_the_limits_of_the_groups_in_which_it_ran() {
    // `/job/a` has the limit of `/job`, which counts once.
    let cgroups = [
        limited("/job", "/job", 200_000, 4),
        limited("/job/a", "/job", 200_000, 4),
        limited("/two", "/two", 500_000, 1),
    ];
    let (job, two, none) = ([1440, 3600], [360, 3600], [0, 0]);
    let (tight, wide) = (Some(0.2), Some(0.5));
    let programs: [Row<'_>; 3] =
        [("sh", None, None, none), ("shop", None, tight, job), ("worker", None, tight, [1800, 7200])];
    let processes: [Row<'_>; 4] = [
        ("sh", Some(4), None, none),
        ("shop", Some(1), tight, job),
        ("worker", Some(2), tight, job),
        ("worker", Some(3), wide, two),
    ];
    let threads = [(1, tight, job), (2, tight, job), (3, wide, two), (4, None, none)];
    let threads: [Row<'_>; 4] = threads.map(|(pid, limit, periods)| ("task", Some(pid), limit, periods));
    for (by, expected) in [
        (ReportBy::Program, &programs[..]),
        (ReportBy::Name, &programs[..]),
        (ReportBy::Process, &processes[..]),
        (ReportBy::Thread, &threads[..]),
    ] {
        for report in reports(&cgroups, &ReportQuery { by, ..ReportQuery::default() }) {
            assert_eq!(rows(&report), expected, "{by:?}");
            let columns = columns(&report);
            assert!(columns.contains(&"cpu_limit") && columns.contains(&"throttled_periods"), "{columns:?}");
        }
    }
}

#[test]
fn without_a_limited_row_a_report_has_no_columns_of_limits() {
    for cgroups in [Vec::new(), vec![limited("/elsewhere", "/elsewhere", 200_000, 4)]] {
        for report in reports(&cgroups, &ReportQuery::default()) {
            assert!(!columns(&report).contains(&"cpu_limit"), "{cgroups:?}");
            assert_eq!(report.rows.iter().all(|row| row.limits.is_none()), cgroups.is_empty());
        }
        for report in reports(&cgroups, &ReportQuery { by: ReportBy::Cgroup, ..ReportQuery::default() }) {
            assert!(columns(&report).contains(&"cpu_limit"), "rows of control groups have them always");
        }
    }
}
