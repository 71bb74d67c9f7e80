//! Cells of stored columns: no data is not zero, and each table of columns is complete.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::{
    BootId, CpuLimit, CpuSample, CpuSched, DelayHistogram, DelayOf, Delays, Flags, Interval, Moment,
    Pressure, ProcessInfo, ProcessKey, Snapshot, SourceKind, Throttle, Trust, WaitKind, WaitedOn,
    delay_range_ns,
};

#[test]
fn no_data_is_not_zero() {
    let interval = Interval { fields: Fields::USER, ..Interval::default() };
    let view = IntervalView::new("h", &interval);
    let row = ProcessInterval::default();
    assert_eq!(view.process(&row, ColumnId::UserNs), Value::Int(0));
    assert_eq!(view.process(&row, ColumnId::SystemNs), Value::Null);
    assert_eq!(view.host(ColumnId::CpuUserNs), Value::Null);
    assert_eq!(view.host(ColumnId::CapacityNs), Value::Null);
}

#[test]
fn windows_has_no_nice_values_and_no_last_cpu() {
    let cells = |source| {
        let interval = Interval { source, ..Interval::default() };
        let row = ThreadInterval { priority: 8, ..ThreadInterval::default() };
        let view = IntervalView::new("h", &interval);
        [ColumnId::Nice, ColumnId::LastCpu, ColumnId::Priority].map(|id| view.thread(&row, id) == Value::Null)
    };
    assert_eq!(cells(SourceKind::Nt), [true, true, false]);
    assert_eq!(cells(SourceKind::Procfs), [false; 3]);
}

#[test]
fn without_its_probe_a_column_has_no_data() {
    let mut row = ThreadInterval::default();
    row.sched.blocked_ns = 5;
    row.sched.waits.add(WaitReason::DISK, 5);
    let ids = [ColumnId::BlockedNs, ColumnId::WaitReason, ColumnId::WaitNs];
    let cells = |fields| {
        let interval = Interval { fields, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        ids.map(|id| match view.thread(&row, id) {
            Value::Null => "-".to_string(),
            Value::Int(number) => number.to_string(),
            other => format!("{other:?}"),
        })
    };
    assert_eq!(cells(Fields::RUN), ["-", "-", "-"]);
    assert_eq!(cells(Fields::SCHED), ["5", "-", "-"]);
    assert_eq!(cells(Fields::SCHED | Fields::WAITS), ["5", "Text(\"disk\")", "5"]);
}

#[test]
fn every_column_of_an_interval_table_gives_a_value() {
    let mut interval = Interval {
        fields: Fields::all(),
        source: SourceKind::Bpf,
        boot: BootId([1; 16]),
        v1_ticks: Some(1),
        cpus: vec![CpuInterval::default(); 2],
        ledger: Ledger { capacity_ns: 1, ..Ledger::default() },
        trust: Some(Trust::Local),
        pressure: Some(Pressure::default()),
        ..Interval::default()
    };
    interval.end.mono_ns = 1;
    let text = || "x".into();
    let info = ProcessInfo {
        name: text(),
        cgroup: "/kubepods/pod3cac3187-5e77-11ea-9c85-2c600c7b896a/x.service".into(),
        container: text(),
        cmdline: text(),
        interpreter: text(),
        session: Some(1),
        base_priority: Some(8),
        product: text(),
        ..ProcessInfo::default()
    };
    let process = ProcessInterval { info: info.into(), ..ProcessInterval::default() };
    let mut sched = SchedDelta { open_wait: WaitReason::DISK, ..SchedDelta::default() };
    sched.waits.add(WaitReason::DISK, 1);
    let thread = ThreadInterval { comm: "x".into(), sched, ..ThreadInterval::default() };
    let process = ProcessInterval { sched, ..process };
    interval.processes.push(process.clone());
    let histogram = Arc::new(DelayHistogram::from_iter([(9, 1)]));
    let owners = [DelayOf::Cpu(0), DelayOf::Process(process.key), DelayOf::Thread(process.key, thread.key)];
    interval.delays = owners.map(|of| Delays { of, histogram: histogram.clone() }).into();
    let view = IntervalView::new("h", &interval);
    for column in columns(Tables::PROCESS_INTERVAL) {
        assert_ne!(view.process(&process, column.id), Value::Null, "{}", column.name);
    }
    for column in columns(Tables::THREAD_INTERVAL) {
        assert_ne!(view.thread(&thread, column.id), Value::Null, "{}", column.name);
    }
    for column in columns(Tables::WAIT_INTERVAL) {
        let cell = view.wait(&thread, WaitReason::DISK, 1, column.id);
        assert_ne!(cell, Value::Null, "{}", column.name);
    }
    for column in columns(Tables::IRQ_INTERVAL) {
        assert_ne!(view.irq(&IrqInterval::default(), column.id), Value::Null, "{}", column.name);
    }
    let on = WaitedOn::Thread(thread.key);
    let waits = WaitFor { kind: WaitKind::Blocked(WaitReason::DISK), on, ..WaitFor::default() };
    for column in columns(Tables::WAIT_FOR_INTERVAL) {
        assert_ne!(view.wait_for(&waits, column.id), Value::Null, "{}", column.name);
    }
    for column in columns(Tables::CPU_INTERVAL) {
        assert_ne!(view.cpu(&CpuInterval::default(), column.id), Value::Null, "{}", column.name);
    }
    for column in columns(Tables::HOST_INTERVAL) {
        assert_ne!(view.host(column.id), Value::Null, "{}", column.name);
    }
}

fn cells<'v>(view: &'v IntervalView<'_>, row: &'v CgroupInterval) -> [Value<'v>; 4] {
    let ids = [ColumnId::CpuLimit, ColumnId::LimitedBy, ColumnId::ThrottledNs, ColumnId::PressureSomeNs];
    ids.map(|id| view.cgroup(row, id))
}

#[test]
fn no_limit_no_data_and_zero_have_different_cells() {
    let interval = Interval { fields: Fields::CGROUPS, cgroups_left_out: 2, ..Interval::default() };
    let view = IntervalView::new("h", &interval);
    let known = CgroupInterval {
        path: "/a/b".into(),
        limit: CpuLimit::Millionths(500_000),
        limiter_bytes: 2,
        throttle: Some(Throttle::default()),
        pressure: Some(Pressure { some_ns: 7, full_ns: 0 }),
        ..CgroupInterval::default()
    };
    let expected = [Value::Real(0.5), Value::Text("/a".into()), Value::Int(0), Value::Int(7)];
    assert_eq!(cells(&view, &known), expected);
    let unlimited = CgroupInterval { limit: CpuLimit::Unlimited, ..CgroupInterval::default() };
    assert!(cells(&view, &unlimited).iter().all(|cell| *cell == Value::Null));
    assert_eq!(view.host(ColumnId::CgroupsLeftOut), Value::Int(2));
    assert_eq!(view.host(ColumnId::PressureSomeNs), Value::Null);
}

#[test]
fn where_events_were_lost_the_run_queue_is_no_data_and_not_zero() {
    let snapshot = |mono_ns, run_queue_ns, run_queue_unknown| {
        let sched = CpuSched { run_queue_ns, ..CpuSched::default() };
        let end = Moment { mono_ns, ..Moment::default() };
        let mut snapshot = Snapshot { fields: Fields::all(), begin: end, end, ..Snapshot::default() };
        snapshot.cpus = vec![CpuSample { sched, ..CpuSample::default() }];
        snapshot.health.run_queue_unknown = run_queue_unknown;
        snapshot
    };
    let (first, second, third) = (snapshot(10, 0, 3), snapshot(20, 25, 4), snapshot(30, 40, 4));
    let unknown = Interval::between(&first, &second);
    let view = IntervalView::new("h", &unknown);
    assert_eq!(view.host(ColumnId::Flags), Value::Text("run_queue_unknown".into()));
    assert_eq!(view.host(ColumnId::RunQueueMean), Value::Null);
    assert_eq!(view.cpu(&unknown.cpus[0], ColumnId::RunQueueMean), Value::Null);
    assert_eq!(unknown.run_queue_mean(), None);
    let known = Interval::between(&second, &third);
    assert_eq!((known.flags, known.run_queue_mean()), (Flags::empty(), Some(1.5)));
    assert_eq!(IntervalView::new("h", &known).host(ColumnId::RunQueueMean), Value::Real(1.5));
}

#[test]
fn without_a_row_of_any_cpu_their_sum_is_no_data() {
    let ids = [ColumnId::Switches, ColumnId::RunQueueMax, ColumnId::UnknownNs, ColumnId::SoftirqTimerNs];
    let cells = |cpus| {
        let interval = Interval { fields: Fields::all(), cpus, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        ids.map(|id| view.host(id) == Value::Null)
    };
    assert_eq!(cells(Vec::new()), [true; 4]);
    assert_eq!(cells(vec![CpuInterval::default()]), [false; 4]);
}

#[test]
fn no_probe_no_delay_and_some_delays_are_three_things() {
    let key = ProcessKey { pid: 7, start_ns: 1 };
    let row = ProcessInterval { key, ..ProcessInterval::default() };
    let cells = |fields, delays| {
        let interval = Interval { fields, delays, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        let ids = [ColumnId::RunDelays, ColumnId::RunDelayP50Ns, ColumnId::RunDelayMaxNs];
        ids.map(|id| match view.process(&row, id) {
            Value::Int(number) => Some(number),
            _ => None,
        })
    };
    let histogram = Arc::new(DelayHistogram::from_iter([(40, 3), (90, 1)]));
    let some = vec![Delays { of: DelayOf::Process(key), histogram }];
    assert_eq!(cells(Fields::empty(), some.clone()), [None; 3]);
    assert_eq!(cells(Fields::HISTOGRAMS, Vec::new()), [Some(0), None, None]);
    let end = |bucket| i64::try_from(*delay_range_ns(bucket).end()).ok();
    assert_eq!(cells(Fields::HISTOGRAMS, some.clone()), [Some(4), end(40), end(90)]);
    let longest_delay_ns = end(90).unwrap() - 1;
    let sched = SchedDelta { longest_delay_ns, ..SchedDelta::default() };
    let row = ProcessInterval { key, sched, ..ProcessInterval::default() };
    let interval = Interval { fields: Fields::HISTOGRAMS, delays: some, ..Interval::default() };
    for id in [ColumnId::RunDelayP99Ns, ColumnId::RunDelayMaxNs] {
        let view = IntervalView::new("h", &interval);
        assert_eq!(
            view.process(&row, id),
            Value::Int(longest_delay_ns),
            "no percentile is above the longest delay"
        );
    }
    let interval = Interval { fields: Fields::HISTOGRAMS, ..Interval::default() };
    let view = IntervalView::new("h", &interval);
    let thread = ThreadInterval::default();
    assert_eq!(view.thread(&thread, ColumnId::RunDelays), Value::Null, "it was not selected");
}

#[test]
fn names_are_unique_in_each_table() {
    for table in Tables::all().iter() {
        let mut seen = HashSet::new();
        for column in columns(table) {
            assert!(seen.insert(column.name), "{} twice in {table:?}", column.name);
        }
        assert!(seen.len() > 5, "{table:?} has too few columns");
    }
}

#[test]
fn every_column_has_a_table_a_help_and_a_unit_in_its_name() {
    for column in COLUMNS {
        assert!(!column.tables.is_empty() && column.help.ends_with('.'), "{}", column.name);
        assert_eq!(column.name.ends_with("_ns"), column.unit == "ns", "{}", column.name);
    }
}

#[test]
fn the_names_that_other_tools_rely_on_are_there() {
    let names = "host pid tid name process_name start_ns begin_ns end_ns duration_ns user_ns system_ns run_ns \
                 run_delay_ns voluntary_switches involuntary_switches";
    for name in names.split_whitespace() {
        assert!(column(Tables::THREAD_INTERVAL, name).is_some(), "{name}");
        let only_threads = matches!(name, "tid" | "process_name");
        assert_eq!(column(Tables::PROCESS_INTERVAL, name).is_none(), only_threads, "{name}");
    }
}
