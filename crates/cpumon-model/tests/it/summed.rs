//! Exits that did not fit a buffer: a row that is marked, in the ledger once.

use std::sync::Arc;

use cpumon_model::{
    Counters, Fields, Flags, Interval, Moment, ProcessInfo, ProcessKey, ProcessSample, Snapshot,
};

fn at(seconds: u64, summed_ms: u64, is_complete: bool) -> Snapshot {
    let ns = seconds * 1_000_000_000;
    let moment = Moment { mono_ns: ns, boot_ns: ns, wall_ns: 0 };
    let run = |ms| Counters { run_ns: ms * 1_000_000, ..Counters::default() };
    let info = Arc::new(ProcessInfo { name: "children of sh (summed)".into(), ..ProcessInfo::default() });
    let key = ProcessKey { pid: 0, start_ns: 11_000_000_000 };
    let row = ProcessSample { key, parent_pid: 9, info, ended_threads: run(summed_ms) };
    let mut snapshot = Snapshot {
        fields: Fields::all(),
        is_complete,
        begin: moment,
        end: moment,
        processes: if summed_ms > 0 { vec![row] } else { Vec::new() },
        exited_total: run(100 + summed_ms),
        ..Snapshot::default()
    };
    snapshot.health.exits_lost = summed_ms;
    snapshot
}

#[test]
fn summed_exits_are_a_marked_row_and_in_the_ledger_once() {
    for is_complete in [true, false] {
        let first = Interval::between(&at(10, 0, true), &at(11, 40, is_complete));
        let row = &first.processes[0];
        assert_eq!((row.delta.run_ns, row.flags), (40_000_000, Flags::SUMMED));
        assert_eq!(first.ledger.exited_ns, 40_000_000);
        let second = Interval::between(&at(11, 40, true), &at(12, 70, is_complete));
        assert_eq!((second.processes[0].delta.run_ns, second.ledger.exited_ns), (30_000_000, 30_000_000));
        assert_eq!(cpumon_model::flag_names(second.processes[0].flags), "summed");
    }
}
