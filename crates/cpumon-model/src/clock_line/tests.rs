use super::*;

const SECOND: i64 = 1_000_000_000;
/// When the device booted, on the receiver's clock.
const BOOT: i64 = 1_790_000_000 * SECOND;
const IN_2003: i64 = -700_000_000 * SECOND;

/// The interval of one second that ends `second` s after boot, on a clock that is off by so much at its start and its end.
fn interval(second: i64, (begin_off_ns, end_off_ns): (i64, i64)) -> Interval {
    let at = |second: i64, off_ns| Moment {
        mono_ns: 0,
        boot_ns: (second * SECOND).cast_unsigned(),
        wall_ns: BOOT + second * SECOND + off_ns,
    };
    Interval { begin: at(second - 1, begin_off_ns), end: at(second, end_off_ns), ..Interval::default() }
}

fn measured(error_ns: i64) -> ClockEstimate {
    let boot = HostClock { offset_ns: -(BOOT + error_ns), round_trip_ns: 400_000, ..HostClock::default() };
    ClockEstimate::measured(&boot)
}

/// Start and end, less the boot.
fn place(line: &mut ClockLine, mut interval: Interval, estimate: Option<ClockEstimate>) -> (i64, i64) {
    let raw_ns = interval.end.wall_ns;
    line.place(&mut interval, estimate);
    assert_eq!(interval.device_end_wall_ns(), raw_ns, "the raw time is kept");
    (interval.begin.wall_ns - BOOT, interval.end.wall_ns - BOOT)
}

#[test]
fn a_right_clock_sees_no_change() {
    let mut line = ClockLine::default();
    for second in 1..2_000 {
        // Off by 0.3 s, with estimates that jitter and one small step: all within the limit of 1 s.
        let jitter = second * 7_919 % 13 * 1_000_000;
        let off = 300_000_000 + if second > 900 { 90_000_000 } else { 0 };
        let mut one = interval(second, (off, off));
        let raw = one.clone();
        line.place(&mut one, Some(measured(jitter)));
        assert_eq!(one, raw, "not even a note of it");
    }
}

#[test]
fn a_clock_in_2003_is_moved_to_the_receivers_line() {
    let mut line = ClockLine::default();
    for second in 1..50 {
        let placed = place(&mut line, interval(second, (IN_2003, IN_2003)), Some(measured(100_000)));
        assert_eq!(placed, ((second - 1) * SECOND + 100_000, second * SECOND + 100_000));
    }
}

#[test]
fn a_clock_that_is_set_in_the_middle_folds_nothing() {
    let (mut line, mut last) = (ClockLine::default(), i64::MIN);
    for second in 1..40 {
        let off = |second: i64| match second {
            ..10 => -BOOT,
            10..20 => 2_000_000,
            20..30 => 3_600 * SECOND,
            _ => IN_2003,
        };
        let (begin, end) =
            place(&mut line, interval(second, (off(second - 1), off(second))), Some(measured(0)));
        assert!(begin >= last && end > begin, "second {second}: {begin} to {end} after {last}");
        assert!((end - second * SECOND).abs() <= 2_000_000, "second {second}: {end}");
        last = end;
    }
}

#[test]
fn the_past_of_a_boot_is_placed_by_what_is_known_now_and_always_there() {
    let mut line = ClockLine::default();
    assert_eq!(place(&mut line, interval(500, (0, 0)), Some(measured(0))), (499 * SECOND, 500 * SECOND));
    // Recorded before the clock was set.
    let early = |second| interval(second, (-BOOT, -BOOT));
    assert_eq!(place(&mut line, early(20), Some(measured(0))), (19 * SECOND, 20 * SECOND));
    let mut one = early(21);
    line.place(&mut one, Some(measured(0)));
    let mut again = ClockLine::recall(one.clock_piece.into_iter().collect(), Some(500 * SECOND));
    for second in [20, 21, 499] {
        let (first, then) =
            (place(&mut line, early(second), None), place(&mut again, early(second), Some(measured(9))));
        assert_eq!(first, then, "as before the restart");
    }
}

#[test]
fn a_line_that_was_late_goes_back_without_folding() {
    let (mut line, mut last) = (ClockLine::default(), 0);
    for second in 1..200 {
        let error = if second < 10 { 30 * SECOND } else { 0 };
        let (begin, end) = place(&mut line, interval(second, (IN_2003, IN_2003)), Some(measured(error)));
        assert!(begin >= last && end > begin, "second {second}");
        last = end;
    }
    assert_eq!(last, 199 * SECOND);
}

#[test]
fn arrivals_reveal_a_wrong_clock_and_delays_do_not_make_a_right_one_wrong() {
    for (off, is_moved) in [(0, false), (-3 * SECOND, false), (IN_2003, true), (8 * SECOND, true)] {
        let (mut line, mut arrivals) = (ClockLine::default(), Arrivals::default());
        for second in 1..2_000 {
            // A busy receiver: up to two seconds late.
            let late = second * 7_919 % 2_000 * 1_000_000;
            let mut one = interval(second, (off, off));
            let estimate = arrivals.take(BOOT + second * SECOND + late, SECOND.unsigned_abs(), &one.end);
            line.place(&mut one, Some(estimate));
            assert_eq!(one.wall_shift_ns != 0, is_moved, "off by {off}, second {second}");
            if is_moved {
                assert!((one.end.wall_ns - BOOT - second * SECOND) <= 2 * SECOND);
            }
        }
    }
}

#[test]
fn a_boot_that_is_over_was_off_as_now_and_a_clock_that_is_right_now_says_nothing() {
    let off = HostClock { offset_ns: IN_2003, round_trip_ns: 400_000, ..HostClock::default() };
    let mut line = ClockLine::default();
    for second in 1..20 {
        let one = interval(second, (IN_2003, IN_2003));
        let estimate = ClockEstimate::as_off_now(&off, &one.end);
        assert_eq!(place(&mut line, one, estimate), ((second - 1) * SECOND, second * SECOND));
    }
    // It is set: order stays.
    let one = interval(20, (IN_2003, 0));
    let estimate = ClockEstimate::as_off_now(&off, &one.end);
    assert_eq!(place(&mut line, one, estimate), (19 * SECOND, 20 * SECOND));
    let right = HostClock { offset_ns: 900_000_000, ..off };
    assert_eq!(ClockEstimate::as_off_now(&right, &Moment::default()), None);
}

#[test]
fn numbers_at_the_ends_of_their_range_do_no_harm() {
    let mut line = ClockLine::default();
    let walls = [i64::MIN, i64::MAX, 0, -1];
    for (at, wall_ns) in walls.into_iter().cycle().take(400).enumerate() {
        let boot_ns = if at % 3 == 0 { u64::MAX } else { at as u64 };
        let moment = Moment { mono_ns: 0, boot_ns, wall_ns };
        let mut one = Interval { begin: Moment::default(), end: moment, ..Interval::default() };
        let arrived = Arrivals::default().take(walls[at / 7 % 4], u64::MAX, &moment);
        let clock =
            HostClock { offset_ns: walls[at / 5 % 4], round_trip_ns: u64::MAX, ..HostClock::default() };
        line.place(&mut one, Some(arrived));
        line.place(&mut one, Some(ClockEstimate::measured(&clock)));
        line.place(&mut one, ClockEstimate::as_off_now(&clock, &moment));
    }
    assert!(line.pieces.len() <= MAX_CLOCK_PIECES);
}
