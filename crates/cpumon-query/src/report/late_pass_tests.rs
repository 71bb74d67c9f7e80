//! Passes of procfs that take nearly as long as their interval, as on a machine with a load of 300: threads that such a pass read first
//! ran on while it read the others, and the short interval behind it has that run time too.

use std::sync::Arc;

use cpumon_model::{
    BootId, Counters, CpuSample, CpuTimes, Fields, HostId, HostInfo, Interval, Moment, ProcessInfo,
    ProcessKey, ProcessSample, Snapshot, SourceKind, ThreadKey, ThreadSample, Trust,
};
use cpumon_store::{StoreOptions, Writer};

use super::*;
use crate::history::{MatrixSort, ShownRows, landscape};
use crate::time::PlotRange;
use crate::{Answers, GroupBy};

const SECOND: u64 = 1_000_000_000;
const BEGIN_NS: i64 = 1_800_000_000_000_000_000;
const CPUS: u32 = 2;
const THREADS: u32 = 20;
/// Time between two passes.
const LENGTH: u64 = 10 * SECOND;
/// Three hours: a report reads most of this range from sums.
const COUNT: u64 = 1080;

fn moment(ns: u64) -> Moment {
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: BEGIN_NS + i64::try_from(ns).unwrap() }
}

/// All CPUs are busy with these threads. Each thread is a process of its own; all are in one container.
fn snapshot(number: u64, info: &Arc<ProcessInfo>) -> Snapshot {
    let begin_ns = number * LENGTH;
    let pass_ns = if number % 100 == 50 { LENGTH - SECOND / 10 } else { SECOND / 50 };
    let run_ns = |ns: u64| ns * u64::from(CPUS) / u64::from(THREADS);
    let key = |pid: u32| ProcessKey { pid, start_ns: 1 };
    let thread = |pid: u32| ThreadSample {
        key: ThreadKey { tid: pid, start_ns: 1 },
        process: key(pid),
        counters: Counters {
            run_ns: run_ns(begin_ns + pass_ns * u64::from(pid) / u64::from(THREADS)),
            ..Counters::default()
        },
        ..ThreadSample::default()
    };
    let process = |pid| ProcessSample { key: key(pid), info: Arc::clone(info), ..ProcessSample::default() };
    let cpu = |cpu| CpuSample {
        cpu,
        times: CpuTimes { user_ns: begin_ns + pass_ns, ..CpuTimes::default() },
        ..CpuSample::default()
    };
    Snapshot {
        host: HostId([7; 16]),
        boot: BootId([8; 16]),
        sequence: number,
        source: SourceKind::Procfs,
        fields: Fields::RUN,
        is_complete: true,
        begin: moment(begin_ns),
        end: moment(begin_ns + pass_ns),
        cpus: (0..CPUS).map(cpu).collect(),
        processes: (1..=THREADS).map(process).collect(),
        threads: (1..=THREADS).map(thread).collect(),
        ..Snapshot::default()
    }
}

fn intervals() -> Vec<Interval> {
    let name = |text: &str| text.into();
    let info =
        Arc::new(ProcessInfo { name: name("storm"), container: name("storm"), ..ProcessInfo::default() });
    let snapshots: Vec<Snapshot> = (1..=COUNT).map(|number| snapshot(number, &info)).collect();
    snapshots.windows(2).map(|two| Interval::between(&two[0], &two[1])).collect()
}

#[test]
fn the_interval_behind_a_late_pass_has_no_peak_above_all_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let host = HostInfo { host: HostId([7; 16]), cpu_count: CPUS, ..HostInfo::default() };
    let all = intervals();
    let rate = |one: &Interval| one.ledger.threads_ns as f64 / one.duration_ns() as f64;
    let most = all.iter().map(rate).fold(0.0, f64::max);
    assert!(most > 10.0 * f64::from(CPUS), "{most} CPUs are too few for this test");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for one in &all {
        writer.put(&host, Trust::Local, None, one).unwrap();
    }
    writer.commit().unwrap();
    for is_compacted in [false, true] {
        if is_compacted {
            writer.compact_host(host.host).unwrap();
        }
        let history = History::of_store(&path).unwrap();
        let host = history.host(&host.host.to_string()).unwrap();
        let capacity = i64::from(CPUS) * 1_000_000_000;
        for (by, hours) in [
            (ReportBy::Container, 1),
            (ReportBy::Container, 3),
            (ReportBy::Process, 3),
            (ReportBy::Thread, 3),
        ] {
            let since_ns = Some(BEGIN_NS + (3 - hours) * 3_600_000_000_000);
            let query = ReportQuery { since_ns, by, ..ReportQuery::default() };
            let report = history.report(&[], &query).unwrap();
            let peak = report.rows[0].peak.unwrap();
            assert!(peak.ns_per_s <= capacity, "{by:?} {hours} h, compacted: {is_compacted}: {peak:?}");
            if by == ReportBy::Container {
                assert!(peak.ns_per_s > capacity * 9 / 10, "{by:?} {hours} h: {peak:?}");
            }
        }
        for points in [1000, 20] {
            let range = PlotRange { since_ns: BEGIN_NS, until_ns: BEGIN_NS + 3 * 3_600_000_000_000, points };
            let shown = ShownRows { sort: MatrixSort::Run, offset: 0, limit: 5, search: "" };
            let matrix = landscape(&history, &host, range, GroupBy::Container, shown).unwrap();
            let most = matrix.rows[0].max.iter().flatten().max().unwrap();
            assert!((capacity * 9 / 10..=capacity).contains(most), "{points} points: {most}");
        }
    }
}
