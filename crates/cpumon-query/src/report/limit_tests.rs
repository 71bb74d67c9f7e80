//! More groups than a report keeps.

use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    Trust,
};
use cpumon_store::{StoreOptions, Writer};

use super::*;
use crate::Answers;
use crate::tally::MAX_GROUPS;

const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_800_000_000 * SECOND;
/// Processes beyond the limit.
const MORE: usize = 7;

fn process(at: usize) -> ProcessInterval {
    let info = ProcessInfo { name: format!("program-{at}").into(), ..ProcessInfo::default() };
    ProcessInterval {
        key: ProcessKey { pid: u32::try_from(at).unwrap() + 1, start_ns: 7 },
        info: Arc::new(info),
        // Of the first ones most, and of each one its own.
        delta: Delta { run_ns: i64::try_from(MAX_GROUPS + MORE - at).unwrap(), ..Delta::default() },
        ..ProcessInterval::default()
    }
}

#[test]
fn rows_beyond_the_limit_are_among_all_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let processes: Vec<_> = (0..MAX_GROUPS + MORE).map(process).collect();
    let used_ns: i64 = processes.iter().map(|row| row.delta.run_ns).sum();
    let moment = |at_ns: i64| {
        let (mono_ns, boot_ns) = (at_ns.unsigned_abs(), at_ns.unsigned_abs());
        Moment { mono_ns, boot_ns, wall_ns: BEGIN + at_ns }
    };
    let interval = Interval {
        host: HostId([3; 16]),
        sequence: 1,
        fields: Fields::RUN,
        begin: moment(0),
        end: moment(SECOND),
        ledger: Ledger { capacity_ns: 4 * SECOND, threads_ns: used_ns, ..Ledger::default() },
        processes,
        ..Interval::default()
    };
    let host = HostInfo { host: interval.host, hostname: "dev".into(), cpu_count: 4, ..HostInfo::default() };
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer.put(&host, Trust::Local, None, &interval).unwrap();
    writer.commit().unwrap();
    let history = History::of_store(&path).unwrap();
    let range = (Some(BEGIN), Some(BEGIN + SECOND + 1));
    for by in [ReportBy::Program, ReportBy::Process] {
        let query =
            ReportQuery { by, since_ns: range.0, until_ns: range.1, limit: 3, ..ReportQuery::default() };
        let found = history.report(&[], &query).unwrap();
        let kinds: Vec<RowKind> = found.rows.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, [RowKind::Group, RowKind::Group, RowKind::Group, RowKind::Rest], "{by:?}");
        let run_ns: i64 = found.rows.iter().filter_map(|row| row.run_ns).sum();
        assert_eq!((run_ns, found.used_ns), (used_ns, used_ns), "{by:?}");
    }
    let found = history.find(&[], "program", crate::time::Page { offset: 0, limit: 3 }).unwrap();
    assert_eq!((found.total, found.rows.len()), (MAX_GROUPS, 3));
}
