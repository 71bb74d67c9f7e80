//! Probes that begin between two snapshots.

use cpumon_model::{Fields, Interval, Moment, Snapshot, WaitFor};

/// Waits that ended before the probe began were none, so that a process without a row seemed not to have waited.
#[test]
fn what_a_probe_measures_is_not_known_of_the_interval_in_which_it_begins() {
    let probes = Fields::SCHED
        | Fields::WAITS
        | Fields::IRQ
        | Fields::HISTOGRAMS
        | Fields::CGROUPS
        | Fields::WAITS_FOR;
    let at = |seconds: u64, fields: Fields| {
        let ns = seconds * 1_000_000_000;
        let moment = Moment { mono_ns: ns, boot_ns: ns, wall_ns: 0 };
        let waits_for = vec![WaitFor::default()];
        Snapshot { fields, begin: moment, end: moment, waits_for, ..Snapshot::default() }
    };
    let before = at(1, Fields::all() - probes);
    let (first, second) = (at(2, Fields::all()), at(3, Fields::all()));
    let interval = Interval::between(&before, &first);
    assert_eq!((interval.fields, interval.waits_for.len()), (Fields::all() - probes, 0));
    let interval = Interval::between(&first, &second);
    assert_eq!((interval.fields, interval.waits_for.len()), (Fields::all(), 1));
}
