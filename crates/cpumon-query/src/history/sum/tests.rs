use cpumon_model::{CpuLimit, Pressure, ProcessKey, ThreadKey, Throttle, WaitFor};

use super::*;

fn group(path: &str, parts: u64, throttled_ns: Option<u64>) -> CgroupInterval {
    let throttle = |throttled_ns| Throttle { periods: 10, throttled_periods: 2, throttled_ns };
    CgroupInterval {
        path: path.into(),
        limit: CpuLimit::Millionths(parts),
        throttle: throttled_ns.map(throttle),
        ..CgroupInterval::default()
    }
}

fn interval(cgroups: Vec<CgroupInterval>, some_ns: u64) -> Interval {
    let pressure = Some(Pressure { some_ns, full_ns: 0 });
    Interval { fields: Fields::all(), cgroups, pressure, ..Interval::default() }
}

#[test]
fn control_groups_add_up_by_path_and_have_the_last_limit() {
    let first = interval(vec![group("/b", 500_000, None), group("/a", 100_000, Some(7))], 4);
    let mut sum = IntervalSum::new(&first);
    let second = Interval { cgroups_left_out: 3, ..interval(vec![group("/b", 200_000, Some(30))], 5) };
    sum.add(&second).unwrap();
    sum.add(&interval(vec![group("/b", 200_000, Some(12)), group("/c", 300_000, Some(1))], 0)).unwrap();
    let total = sum.finish();
    let paths: Vec<&str> = total.cgroups.iter().map(|row| &*row.path).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
    let row = total.cgroup("/b").unwrap();
    assert_eq!((row.limit.cpus(), row.throttle.unwrap().throttled_ns), (Some(0.2), 42));
    assert_eq!(row.throttle.unwrap().periods, 20, "of the intervals that know them");
    assert_eq!((total.pressure.unwrap().some_ns, total.cgroups_left_out), (9, 3));
}

#[test]
fn cpus_and_lines_add_up_by_number_wherever_new_ones_are() {
    let cpu = |cpu, user_ns| {
        let times = CpuTimes { user_ns, ..CpuTimes::default() };
        CpuInterval { cpu, times, ..CpuInterval::default() }
    };
    let irq = |irq, count| IrqInterval { irq, count, ..IrqInterval::default() };
    let made = |cpus, irqs| Interval { cpus, irqs, ..interval(Vec::new(), 0) };
    let mut sum = IntervalSum::new(&made(vec![cpu(2, 1), cpu(5, 2)], vec![irq(7, 1)]));
    sum.add(&made(vec![cpu(0, 4), cpu(2, 8), cpu(3, 16)], vec![irq(3, 2), irq(7, 4), irq(9, 8)])).unwrap();
    let total = sum.finish();
    let cpus: Vec<_> = total.cpus.iter().map(|row| (row.cpu, row.times.user_ns)).collect();
    assert_eq!(cpus, [(0, 4), (2, 9), (3, 16), (5, 2)]);
    let irqs: Vec<_> = total.irqs.iter().map(|row| (row.irq, row.count)).collect();
    assert_eq!(irqs, [(3, 2), (7, 5), (9, 8)]);
}

/// Tasks, CPUs, groups and histograms of a range were any number.
#[test]
fn a_sum_of_ever_new_rows_is_refused() {
    type Make = fn(u32) -> Interval;
    let with_groups: Make = |nth| interval(vec![group(&format!("/{nth}"), 1, None)], 0);
    let with_cpus: Make =
        |cpu| Interval { cpus: vec![CpuInterval { cpu, ..CpuInterval::default() }], ..Interval::default() };
    let with_lines: Make =
        |irq| Interval { irqs: vec![IrqInterval { irq, ..IrqInterval::default() }], ..Interval::default() };
    let with_processes: Make = |pid| {
        let key = ProcessKey { pid, start_ns: 1 };
        Interval {
            processes: vec![ProcessInterval { key, ..ProcessInterval::default() }],
            ..Interval::default()
        }
    };
    let with_threads: Make = |tid| {
        let key = ThreadKey { tid, start_ns: 1 };
        Interval { threads: vec![ThreadInterval { key, ..ThreadInterval::default() }], ..Interval::default() }
    };
    let with_delays: Make = |cpu| Interval {
        delays: vec![Delays { of: DelayOf::Cpu(cpu), histogram: Arc::default() }],
        ..Interval::default()
    };
    for make in [with_groups, with_cpus, with_lines, with_processes, with_threads, with_delays] {
        let nearly_full = MAX_BYTES - 20_000;
        let mut sum = IntervalSum { bytes: nearly_full, ..IntervalSum::new(&Interval::default()) };
        let added = (1..1_000).take_while(|nth| sum.add(&make(*nth)).is_ok()).count();
        assert!((2..400).contains(&added), "{added}");
        assert!(matches!(sum.add(&make(1)), Err(QueryError::SumTooLarge)), "it stays so");
    }
    // Known rows take no more memory.
    let mut sum = IntervalSum { bytes: MAX_BYTES - 20_000, ..IntervalSum::new(&with_processes(1)) };
    (0..1_000).for_each(|_| sum.add(&with_processes(1)).unwrap());
}

/// A sum had those of its first interval, as if no other wait had ended.
#[test]
fn a_sum_has_no_waits_by_who_ended_them_and_says_so() {
    let fields = Fields::WAITS_FOR | Fields::SCHED;
    let one = Interval { fields, waits_for: vec![WaitFor::default()], ..Interval::default() };
    let mut sum = IntervalSum::new(&one);
    sum.add(&one).unwrap();
    let total = sum.finish();
    assert_eq!((total.waits_for, total.fields), (Vec::new(), Fields::SCHED));
}
