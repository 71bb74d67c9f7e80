//! What three clocks say of each thread. In: readings of all threads, again and again. Out: [`ThreadAccuracy`]s over the same
//! span of each thread, and their [`Summary`]. Why pure: the arithmetic is tested without a kernel.
//!
//! A reading is exact when the thread was off its CPU and both the kernel and the switch events count the same switches: then
//! all clocks cover the same slices. Between the first and the last exact reading of a thread nothing blurs the comparison.
//! Threads that never pause have none; theirs is as exact as a clock tick is long, and says so.

use std::collections::HashMap;

use cpumon_model::{ClockReading, Comm, ThreadKey};

/// A thread's CPU time over one span by each clock, ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadAccuracy {
    /// Id and start of the thread.
    pub key: ThreadKey,
    /// Pid of the thread's process.
    pub pid: u32,
    /// Name of the thread at the end of the span.
    pub comm: Comm,
    /// What the tick sampler says: raw user and system time.
    pub tick_ns: i64,
    /// CPU time by the scheduler's clock (`se.sum_exec_runtime`).
    pub clock_ns: i64,
    /// CPU time by context-switch events.
    pub switch_ns: i64,
    /// Number of slices in the span.
    pub slices: u64,
    /// By how much the reading may be off, ns; 0 if it is exact.
    pub blur_ns: i64,
}

impl ThreadAccuracy {
    /// Error of the tick sampler against the switches, ns.
    pub fn tick_error_ns(&self) -> i64 {
        self.tick_ns - self.switch_ns
    }

    /// Error of the scheduler's clock against the switches, ns.
    pub fn clock_error_ns(&self) -> i64 {
        self.clock_ns - self.switch_ns
    }
}

/// An error in percent of what the switches say; `None` if there is nothing to compare with.
pub fn percent(error_ns: i64, switch_ns: i64) -> Option<f64> {
    (switch_ns > 0).then(|| error_ns as f64 * 100.0 / switch_ns as f64)
}

/// Sums over all threads.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Threads that ran.
    pub threads: usize,
    /// Threads whose comparison is exact.
    pub exact: usize,
    /// CPU time by the tick sampler, ns.
    pub tick_ns: i64,
    /// CPU time by the scheduler's clock, ns.
    pub clock_ns: i64,
    /// CPU time by context-switch events, ns.
    pub switch_ns: i64,
    /// CPU time that the tick sampler gave to the wrong thread or to none, ns. What one thread has too much another one lacks, so it
    /// is the sum of the errors of one sign, the larger one.
    pub tick_misplaced_ns: i64,
    /// CPU time that the scheduler's clock gave to the wrong thread or to none, ns.
    pub clock_misplaced_ns: i64,
}

#[derive(Copy, Clone, Debug)]
struct Readings {
    first: ClockReading,
    last: ClockReading,
    first_exact: Option<ClockReading>,
    last_exact: Option<ClockReading>,
}

/// Compares the clocks of threads over a series of readings.
#[derive(Debug, Default)]
pub struct AccuracyMeter {
    threads: HashMap<ThreadKey, Readings>,
}

impl AccuracyMeter {
    /// Takes in one reading of a thread; later ones come later. A thread that began in between starts from zero.
    pub fn add(&mut self, reading: &ClockReading, is_first_pass: bool) {
        let begin = if is_first_pass {
            *reading
        } else {
            ClockReading { tick_ns: 0, clock_ns: 0, switch_ns: 0, slices: 0, is_exact: true, ..*reading }
        };
        let exact = |reading: ClockReading| reading.is_exact.then_some(reading);
        let span = self.threads.entry(reading.key).or_insert_with(|| Readings {
            first: begin,
            last: begin,
            first_exact: exact(begin),
            last_exact: exact(begin),
        });
        span.last = *reading;
        if reading.is_exact {
            span.first_exact.get_or_insert(*reading);
            span.last_exact = Some(*reading);
        }
    }

    /// The comparisons of all threads that ran, the largest error of the tick sampler first. `tick_ns`: length of a clock tick.
    pub fn finish(&self, tick_ns: i64, wanted: impl Fn(&ThreadAccuracy) -> bool) -> Vec<ThreadAccuracy> {
        let all = self.threads.values().map(|span| span.compare(tick_ns));
        let mut found: Vec<ThreadAccuracy> = all
            .filter(|row| row.switch_ns != 0 || row.tick_ns != 0 || row.clock_ns != 0)
            .filter(wanted)
            .collect();
        found.sort_by_key(|row| (std::cmp::Reverse(row.tick_error_ns().abs()), row.key));
        found
    }
}

impl Readings {
    /// Over the exact readings, if most of what the thread ran lies between them; else over all, with their blur.
    fn compare(&self, tick_ns: i64) -> ThreadAccuracy {
        let all = between(&self.first, &self.last);
        if let (Some(first), Some(last)) = (self.first_exact, self.last_exact) {
            let exact = between(&first, &last);
            if exact.switch_ns * 2 >= all.switch_ns {
                return exact;
            }
        }
        let open_ends = [self.first, self.last].iter().filter(|reading| !reading.is_exact).count();
        ThreadAccuracy { blur_ns: tick_ns * i64::try_from(open_ends).unwrap_or(2), ..all }
    }
}

fn between(first: &ClockReading, last: &ClockReading) -> ThreadAccuracy {
    // A counter that went back gives a negative difference, and that of two u64 needs more than 64 bits.
    let grown = |now: u64, then: u64| i64::try_from(i128::from(now) - i128::from(then)).unwrap_or(i64::MAX);
    ThreadAccuracy {
        key: last.key,
        pid: last.pid,
        comm: last.comm,
        tick_ns: grown(last.tick_ns, first.tick_ns),
        clock_ns: grown(last.clock_ns, first.clock_ns),
        switch_ns: grown(last.switch_ns, first.switch_ns),
        slices: last.slices.saturating_sub(first.slices),
        blur_ns: 0,
    }
}

/// Sums over all rows.
pub fn summary(rows: &[ThreadAccuracy]) -> Summary {
    let sums = rows.iter().fold(Summary::default(), |sum, row| Summary {
        threads: sum.threads + 1,
        exact: sum.exact + usize::from(row.blur_ns == 0),
        tick_ns: sum.tick_ns + row.tick_ns,
        clock_ns: sum.clock_ns + row.clock_ns,
        switch_ns: sum.switch_ns + row.switch_ns,
        ..sum
    });
    Summary {
        tick_misplaced_ns: misplaced_ns(rows.iter().map(ThreadAccuracy::tick_error_ns)),
        clock_misplaced_ns: misplaced_ns(rows.iter().map(ThreadAccuracy::clock_error_ns)),
        ..sums
    }
}

/// The sum of the errors of one sign, the larger one: a moved millisecond is one thread's too much and another one's too little.
fn misplaced_ns(errors: impl Iterator<Item = i64>) -> i64 {
    let (more, less) =
        errors.fold((0, 0), |(more, less), error| (more + error.max(0), less + error.min(0).abs()));
    more.max(less)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(tid: u32, clocks: [u64; 3], is_exact: bool) -> ClockReading {
        let [tick_ns, clock_ns, switch_ns] = clocks;
        let key = ThreadKey { tid, start_ns: 1 };
        ClockReading {
            key,
            pid: tid,
            tick_ns,
            clock_ns,
            switch_ns,
            slices: switch_ns / 10,
            is_exact,
            ..ClockReading::default()
        }
    }

    fn run(readings: &[(ClockReading, bool)]) -> Vec<ThreadAccuracy> {
        let mut comparer = AccuracyMeter::default();
        for (reading, is_first) in readings {
            comparer.add(reading, *is_first);
        }
        comparer.finish(4_000, |_| true)
    }

    #[test]
    fn exact_readings_are_compared_and_the_blurred_ends_left_out() {
        let rows = run(&[
            (reading(1, [100, 100, 100], false), true),
            (reading(1, [150, 200, 200], true), false),
            (reading(1, [600, 1_000, 1_000], true), false),
            (reading(1, [700, 1_050, 1_060], false), false),
        ]);
        assert_eq!(rows.len(), 1);
        let row = rows[0];
        assert_eq!((row.tick_ns, row.clock_ns, row.switch_ns, row.blur_ns), (450, 800, 800, 0));
        assert_eq!((row.tick_error_ns(), row.clock_error_ns()), (-350, 0));
        assert_eq!(percent(row.tick_error_ns(), row.switch_ns), Some(-43.75));
    }

    #[test]
    fn a_thread_that_never_pauses_is_compared_with_its_blur() {
        let rows =
            run(&[(reading(1, [0, 0, 0], false), true), (reading(1, [1_010, 990, 1_000], false), false)]);
        assert_eq!((rows[0].switch_ns, rows[0].blur_ns), (1_000, 8_000));
        // One exact moment long ago does not hide what came after.
        let rows = run(&[
            (reading(1, [0, 0, 0], true), true),
            (reading(1, [10, 10, 10], true), false),
            (reading(1, [1_010, 990, 1_000], false), false),
        ]);
        assert_eq!((rows[0].switch_ns, rows[0].blur_ns), (1_000, 4_000));
    }

    #[test]
    fn who_begins_in_between_starts_from_zero_and_who_rests_is_left_out() {
        let rows = run(&[
            (reading(1, [7, 7, 7], true), true),
            (reading(2, [90, 100, 100], true), false),
            (reading(1, [7, 7, 7], true), false),
        ]);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].key.tid, rows[0].switch_ns, rows[0].tick_ns), (2, 100, 90));
    }

    #[test]
    fn the_largest_error_comes_first_and_errors_do_not_cancel_out() {
        let rows = run(&[
            (reading(1, [90, 100, 100], true), false),
            (reading(2, [0, 100, 100], true), false),
            (reading(3, [210, 101, 100], true), false),
        ]);
        let order: Vec<u32> = rows.iter().map(|row| row.key.tid).collect();
        assert_eq!(order, [3, 2, 1]);
        let all = summary(&rows);
        // What 3 has too much is what 1 and 2 lack: it is misplaced once.
        assert_eq!((all.threads, all.exact, all.tick_ns, all.switch_ns), (3, 3, 300, 300));
        assert_eq!((all.tick_misplaced_ns, all.clock_misplaced_ns), (110, 1));
    }

    #[test]
    fn a_counter_that_falls_is_shown_and_nothing_divides_by_zero() {
        let rows =
            run(&[(reading(1, [100, 100, 100], true), true), (reading(1, [90, 100, 100], true), false)]);
        assert_eq!((rows[0].tick_ns, rows[0].switch_ns), (-10, 0));
        assert_eq!(percent(rows[0].tick_error_ns(), rows[0].switch_ns), None);
    }
}
