//! Run-delay histograms through the differ: what is charged to an interval, and what a lost frame costs.

use std::sync::Arc;

use cpumon_model::{
    DelayHistogram, DelayOf, Delays, Fields, Interval, Moment, ProcessKey, Snapshot, ThreadKey,
};

const OLD: ProcessKey = ProcessKey { pid: 5, start_ns: 1_000 };
const NEW: ProcessKey = ProcessKey { pid: 6, start_ns: 60_000_000_000 };

fn at(seconds: u64, is_complete: bool, delays: &[(DelayOf, &[(u8, u64)])]) -> Snapshot {
    let ns = seconds * 1_000_000_000;
    let moment = Moment { mono_ns: ns, boot_ns: ns, wall_ns: 0 };
    let mut snapshot = Snapshot {
        fields: Fields::all(),
        is_complete,
        begin: moment,
        end: moment,
        delays: delays
            .iter()
            .map(|&(of, counts)| Delays {
                of,
                histogram: Arc::new(counts.iter().copied().collect::<DelayHistogram>()),
            })
            .collect(),
        ..Snapshot::default()
    };
    snapshot.sort();
    snapshot
}

fn counts(interval: &Interval, of: DelayOf) -> Vec<(u8, u64)> {
    interval.delays_of(of).map(|histogram| histogram.iter().collect()).unwrap_or_default()
}

#[test]
fn an_interval_has_what_was_added() {
    let thread = DelayOf::Thread(OLD, ThreadKey { tid: 8, start_ns: 2_000 });
    let before = at(
        50,
        true,
        &[(DelayOf::Cpu(0), &[(9, 5)]), (DelayOf::Process(OLD), &[(9, 5)]), (thread, &[(3, 1)])],
    );
    let after = at(
        61,
        true,
        &[
            (DelayOf::Cpu(0), &[(9, 7), (40, 1)]),
            (DelayOf::Process(OLD), &[(9, 5)]),
            (DelayOf::Process(NEW), &[(9, 2), (40, 1)]),
            (thread, &[(3, 2)]),
        ],
    );
    let interval = Interval::between(&before, &after);
    assert_eq!(counts(&interval, DelayOf::Cpu(0)), [(9, 2), (40, 1)]);
    assert_eq!(counts(&interval, DelayOf::Process(NEW)), [(9, 2), (40, 1)], "from its start");
    assert_eq!(counts(&interval, thread), [(3, 1)]);
    assert_eq!(interval.delays.len(), 3, "whose delays did not change is left out");
    assert_eq!(interval.cpu_delays().total(), 3);
}

#[test]
fn a_lost_frame_costs_resolution_and_no_delay() {
    let of = DelayOf::Process(OLD);
    let [first, second, third] = [5, 7, 12].map(|count| at(50 + count, false, &[(of, &[(9, count)])]));
    let reported = [Interval::between(&first, &second), Interval::between(&second, &third)];
    let merged: u64 = reported.iter().map(|interval| interval.delays_of(of).unwrap().total()).sum();
    assert_eq!(merged, Interval::between(&first, &third).delays_of(of).unwrap().total());
}

#[test]
fn a_thread_first_seen_in_a_partial_snapshot_is_charged_only_what_is_known() {
    let before = at(50, false, &[]);
    let after = at(
        61,
        false,
        &[
            (DelayOf::Cpu(1), &[(9, 7)]),
            (DelayOf::Process(OLD), &[(9, 5)]),
            (DelayOf::Process(NEW), &[(9, 1)]),
        ],
    );
    let interval = Interval::between(&before, &after);
    assert_eq!(interval.delays.iter().map(|row| row.of).collect::<Vec<_>>(), [DelayOf::Process(NEW)]);
    let unmeasured = Snapshot { fields: Fields::SCHED, ..at(50, true, &[]) };
    assert!(Interval::between(&unmeasured, &after).delays.is_empty(), "the probe was not on before");
}
