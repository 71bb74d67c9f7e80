use std::ops::Add;

use cpumon_model::{Interval, ProcessKey};
use proptest::prelude::*;

use super::*;

const BOOT_NS: i64 = 1_000_000;

fn interval(begin_ns: i64, end_ns: i64) -> Interval {
    let at =
        |ns: i64| Moment { wall_ns: ns, mono_ns: ns.cast_unsigned(), boot_ns: (ns - BOOT_NS).unsigned_abs() };
    Interval { begin: at(begin_ns), end: at(end_ns), ..Interval::default() }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_doubled(
        begin in 0_i64..2_000, length in 1_i64..700, width in 1_i64..900, points in 1_usize..50,
    ) {
        let range = PlotRange { since_ns: 0, until_ns: width * i64::try_from(points).unwrap(), points };
        let plan = Plan { since_ns: 0, until_ns: range.until_ns, resolution: None, width_ns: width };
        let mut buckets = Buckets::new(range, &plan);
        prop_assert_eq!(buckets.count(), points);
        let (one, mut shares) = (interval(begin, begin + length), Vec::new());
        buckets.cover(&Segment::of(&one), &mut shares);
        let inside = (range.until_ns.min(begin + length) - begin).max(0);
        let covered: f64 = buckets.covered_ns.iter().sum();
        prop_assert!((covered - inside as f64).abs() < 1e-6 * length as f64, "{} {}", covered, inside);
    }
}

#[test]
fn a_gap_is_null_and_idle_is_zero() {
    let range = PlotRange { since_ns: 0, until_ns: 40, points: 4 };
    let plan = Plan { since_ns: 0, until_ns: 40, resolution: None, width_ns: 10 };
    let mut buckets = Buckets::new(range, &plan);
    let mut shares = Vec::new();
    for (begin, end) in [(0, 10), (20, 40)] {
        buckets.cover(&Segment::of(&interval(begin, end)), &mut shares);
    }
    let values = || [(2, 5.0), (2, 1.0)];
    assert_eq!(buckets.where_there(values(), |_| true, f64::add), [Some(0), None, Some(6), Some(0)]);
    assert_eq!(buckets.where_there(values(), |_| true, f64::max), [Some(0), None, Some(5), Some(0)]);
    assert_eq!(buckets.where_there(values(), |at| at > 1, f64::add), [None, None, Some(6), Some(0)]);
    assert_eq!(buckets.points_of(TimeRange { since_ns: i64::MIN, until_ns: 11 }), 0..2);
    assert_eq!(buckets.points_of(TimeRange { since_ns: 35, until_ns: i64::MAX }), 3..4);
    assert_eq!(buckets.points_of(TimeRange { since_ns: 50, until_ns: 60 }), 4..4);
    assert_eq!(buckets.times().covered_ns, [10, 0, 10, 10]);
}

/// Ten points of 10 ns from the boot on.
fn buckets() -> Buckets {
    let range = PlotRange { since_ns: BOOT_NS, until_ns: BOOT_NS + 100, points: 10 };
    let plan = Plan { since_ns: range.since_ns, until_ns: range.until_ns, resolution: None, width_ns: 10 };
    Buckets::new(range, &plan)
}

fn see(presence: &mut Presence, start_ns: u64, second: i64, life: Life) {
    let one = interval(BOOT_NS + second * 10, BOOT_NS + second * 10 + 10);
    let task = TaskKey::Process(ProcessKey { pid: 7, start_ns });
    presence.see(&buckets(), task, &Segment::of(&one), life);
}

fn points(presence: Presence) -> String {
    points_with(presence, &Breaks::default())
}

fn points_with(mut presence: Presence, breaks: &Breaks) -> String {
    presence.close(&buckets(), breaks);
    (0..10).map(|at| if presence.is_there(at) { '#' } else { '.' }).collect()
}

#[test]
fn a_task_is_there_from_its_begin_to_its_end_whatever_rows_it_has() {
    let mut one = Presence::default();
    // It began 25 ns after the boot, was idle at first and has a row only later.
    see(&mut one, 25, 4, Life::Alive);
    assert_eq!(points(one.clone()), "..########");
    see(&mut one, 25, 6, Life::Ended);
    assert_eq!(points(one.clone()), "..#####...");
    // Another one of the same name.
    see(&mut one, 85, 8, Life::BornEnded);
    assert_eq!(points(one), "..#####.#.");
    let mut older = Presence::default();
    see(&mut older, 1, 3, Life::Ended);
    assert_eq!(points(older), "####......");
}

#[test]
fn a_task_that_ends_in_a_later_part_of_the_range_is_not_there_after_it() {
    let (mut first, mut second) = (Presence::default(), Presence::default());
    see(&mut first, 15, 2, Life::Alive);
    see(&mut second, 15, 6, Life::Ended);
    first.append(second);
    assert_eq!(points(first), ".######...");
}

#[test]
fn a_task_without_an_end_is_there_until_the_next_hole_restart_or_boot() {
    let span = |second: i64, boot: u8, flags: Flags| {
        let one = interval(BOOT_NS + second * 10, BOOT_NS + second * 10 + 10);
        Interval { boot: BootId([boot; 16]), flags, ..one }
    };
    let is_restart = |at: i64| if at == 2 { Flags::RESTART } else { Flags::empty() };
    let (mut first, mut second) = (Breaks::default(), Breaks::default());
    (0..4).for_each(|at| first.see(&Segment::of(&span(at, 1, is_restart(at)))));
    for (at, boot) in [(5, 1), (6, 1), (7, 2), (8, 2), (9, 2)] {
        second.see(&Segment::of(&span(at, boot, Flags::empty())));
    }
    first.append(second);
    let drawn = |seconds: &[i64]| {
        let mut one = Presence::default();
        for at in seconds {
            see(&mut one, 5, *at, Life::Alive);
        }
        points_with(one, &first)
    };
    assert_eq!([drawn(&[0]), drawn(&[2])], ["##........", "####......"]);
    assert_eq!([drawn(&[0, 5]), drawn(&[0, 8])], ["#######...", "##########"]);
}

/// An idle hour at the beginning of a part was a boot of its own.
#[test]
fn breaks_of_sums_are_the_same_however_the_range_is_divided() {
    // Sums and the boots that they name: 0 is none. The third one has a hole behind it.
    let read = |parts: &[&[usize]]| {
        let mut all = Breaks::default();
        let mut hours = [0, 10, 20, 60, 70].into_iter();
        for boots in parts {
            let mut part = Breaks::default();
            for boot in *boots {
                let begin_ns = BOOT_NS + hours.next().unwrap();
                let boot = BootId([u8::try_from(*boot).unwrap(); 16]);
                let one = Interval { boot, ..interval(begin_ns, begin_ns + 10) };
                part.see(&Segment { max_busy_ppm: Some(0), ..Segment::of(&one) });
            }
            all.append(part);
        }
        format!("{:?}", all.all)
    };
    for number in 0..3_usize.pow(5) {
        let boots: [usize; 5] =
            std::array::from_fn(|at| number / 3_usize.pow(u32::try_from(at).unwrap()) % 3);
        let whole = read(&[&boots]);
        for at in 0..=5 {
            let (first, second) = boots.split_at(at);
            assert_eq!(read(&[first, second]), whole, "{boots:?} divided at {at}");
            let (middle, last) = second.split_at(second.len() / 2);
            assert_eq!(read(&[first, middle, last]), whole, "{boots:?} in three, at {at}");
        }
    }
    let idle = read(&[&[1, 1, 0], &[0, 1]]);
    assert_eq!((idle.matches("boot: None").count(), idle.contains("Some")), (1, false), "only the hole");
}

#[test]
fn a_task_without_a_start_time_is_there_where_it_has_rows() {
    let mut one = Presence::default();
    see(&mut one, 0, 2, Life::Alive);
    see(&mut one, 0, 5, Life::Alive);
    assert_eq!(points(one), "..#..#....");
}
