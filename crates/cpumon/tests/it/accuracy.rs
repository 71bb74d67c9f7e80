//! `cpumon accuracy` beside a thread that dodges the clock tick: the sampler misses it, the switches do not.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_getres, clock_gettime};
use serde_json::Value;

use crate::skip::say_skipped;
use crate::support::{cpumon, is_root, run, text, wait};

/// How far the thread keeps from a tick: time to wake up late, and to fall asleep.
const BEFORE: Duration = Duration::from_micros(500);
const AFTER: Duration = Duration::from_micros(200);
/// A crowded machine may push the thread across a tick.
const ATTEMPTS: u32 = 5;

/// The coarse clock moves once a tick.
fn tick() -> Duration {
    Duration::try_from(clock_getres(ClockId::MonotonicCoarse)).unwrap()
}

/// Runs between ticks, which come at whole multiples of their length on the monotonic clock.
fn dodge(tick: Duration, stop: &AtomicBool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let since = Duration::from_nanos(u64::try_from(now.as_nanos() % tick.as_nanos()).unwrap());
        if since < AFTER || since > tick.checked_sub(BEFORE).unwrap() {
            thread::sleep(tick.checked_sub(since).unwrap() + AFTER);
        }
    }
}

/// Ends the dodger, also when the test fails: a thread waits for its end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn compared() -> Value {
    let output = run(&["accuracy", "--seconds", "2", "--name", "tick-dodger", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_tick_sampler_misses_a_thread_that_dodges_the_tick() {
    if !is_root() {
        return;
    }
    let tick = tick();
    if tick < (BEFORE + AFTER) * 2 {
        return say_skipped(format!("a tick of {tick:?} is too short to dodge"));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        thread::Builder::new().name("tick-dodger".into()).spawn_scoped(scope, || dodge(tick, &stop)).unwrap();
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let found = compared();
            let rows = found["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{found}");
            let row = &rows[0];
            assert_eq!(row["pid"], std::process::id(), "{found}");
            let value = |name: &str| row[name].as_f64().unwrap();
            // The scheduler's clock covers the same slices, each within the time between its reading and the event.
            let slack_ns = value("switch_ns") * 0.02 + value("slices") * 30_000.0 + value("blur_ns");
            assert!(value("switch_ns") > 1e8, "it runs most of the time: {found}");
            assert!(value("clock_error_ns").abs() < slack_ns, "{found}");
            assert!(
                (found["tick_misplaced_ns"].as_f64().unwrap() - value("tick_error_ns").abs()).abs() < 1.0
            );
            seen.push(value("tick_error_pct"));
            if value("tick_error_pct") < -30.0 {
                return;
            }
        }
        panic!("the sampler saw it every time: {seen:?}");
    });
}

#[test]
fn a_name_that_no_thread_has_is_missing_data_and_csv_has_its_heading() {
    if !is_root() {
        return;
    }
    let none = run(&["accuracy", "--seconds", "1", "--name", "no such thread", "--format", "csv"]);
    assert!(none.status.code() == Some(3) && text(&none.stderr).contains("no thread"), "{none:?}");
    let all = run(&["accuracy", "--seconds", "1", "--format", "csv"]);
    assert!(text(&all.stdout).starts_with("pid,tid,"), "{all:?}");
    let table = run(&["accuracy", "--seconds", "1"]);
    for part in ["SWITCHES ms", "tick sampler", "hypervisor", "steal"] {
        assert!(text(&table.stdout).contains(part), "{part}: {table:?}");
    }
}

#[test]
fn ctrl_c_ends_it_with_a_table_of_what_was_seen_and_its_own_code() {
    if !is_root() {
        return;
    }
    let mut child = cpumon().args(["accuracy", "--seconds", "60"]).stdout(Stdio::piped()).spawn().unwrap();
    // Before its signal handlers are there, SIGINT ends it without a table: it has two passes by then.
    thread::sleep(Duration::from_secs(5));
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = wait(&mut child, "accuracy");
    assert_eq!(status.code(), Some(130));
    let mut table = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut table).unwrap();
    assert!(table.contains("SWITCHES ms"), "{table}");
}
