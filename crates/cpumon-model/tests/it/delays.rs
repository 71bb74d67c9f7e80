//! Run-delay histograms through the differ: the delays charged to an interval, and the cost of a lost frame.

use std::sync::Arc;

use cpumon_model::{
    ColumnId, Counters, DelayHistogram, DelayOf, Delays, Fields, Interval, IntervalView, Moment, ProcessKey,
    SchedTimes, Snapshot, ThreadKey, ThreadSample, Value, delay_bucket,
};
use proptest::prelude::*;

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

proptest! {
    /// The longest delay is reported beside the histogram: rounded to whole µs on the wire, and lost with a thread's exit.
    #[test]
    fn no_percentile_is_above_the_longest_delay(
        delays in prop::collection::vec(0_u64..1 << 34, 1..40),
        reported in prop::option::of(0_u64..1 << 34),
    ) {
        let key = ThreadKey { tid: 8, start_ns: 2_000 };
        let mut counts: Vec<(u8, u64)> = delays.iter().map(|&ns| (delay_bucket(ns), 1)).collect();
        counts.sort_unstable();
        let whole_us = delays.iter().max().map_or(0, |ns| ns / 1_000 * 1_000);
        let longest_delay_ns = reported.unwrap_or(whole_us);
        let thread = |run_ns, sched| ThreadSample {
            key,
            process: OLD,
            counters: Counters { run_ns, ..Counters::default() },
            sched,
            ..ThreadSample::default()
        };
        let owners = [DelayOf::Process(OLD), DelayOf::Thread(OLD, key)];
        let mut before = at(50, true, &[]);
        before.threads.push(thread(1, SchedTimes::default()));
        let mut after = at(61, true, &owners.map(|of| (of, &*counts)));
        after.threads.push(thread(2, SchedTimes { longest_delay_ns, ..SchedTimes::default() }));
        let interval = Interval::between(&before, &after);
        let view = IntervalView::new("h", &interval);
        let (process, thread) = (interval.process(OLD).unwrap(), &interval.threads[0]);
        let number = |value: Value<'_>| match value {
            Value::Int(number) => number,
            other => panic!("{other:?}"),
        };
        let longest = [
            number(view.process(process, ColumnId::LongestRunDelayNs)),
            number(view.thread(thread, ColumnId::LongestRunDelayNs)),
        ];
        for id in
            [ColumnId::RunDelayP50Ns, ColumnId::RunDelayP90Ns, ColumnId::RunDelayP99Ns, ColumnId::RunDelayMaxNs]
        {
            let shown = [number(view.process(process, id)), number(view.thread(thread, id))];
            prop_assert!(shown[0] <= longest[0] && shown[1] <= longest[1], "{id:?} {shown:?}, longest {longest:?}");
        }
        let longest_ns = i64::try_from(longest_delay_ns).unwrap();
        prop_assert!(longest.iter().all(|&shown| shown >= longest_ns), "what was reported stays");
    }
}
