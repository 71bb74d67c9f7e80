//! `cpumon-agent accuracy`: each process's CPU time by ticks, as Windows counts it, beside that by CPU cycles, so that users see the errors of
//! ticks on their machine.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use cpumon_collect::nt::{CycleComparison, CycleRow, CycleSnapshot, NoComparison};
use cpumon_collect::{CollectError, parse_interval, read_cycles};
use cpumon_model::escape;

use crate::{Chain, Signals};

/// Rows unless the user asks for all.
const ROWS: usize = 20;
/// For shorter lengths, a tick is as long as the measurement.
const MIN_LENGTH: Duration = Duration::from_secs(1);
const HEADING: [&str; 6] = ["PID", "CYCLES ms", "TICK ms", "ERROR ms", "%", "NAME"];
/// Exit codes of the program: data is missing; interrupted.
const DATA_MISSING: u8 = 3;
const INTERRUPTED: u8 = 130;

/// `cpumon-agent accuracy`.
#[derive(Args, Clone, Debug)]
pub struct AccuracyArgs {
    /// Length of the comparison, 1s to 1h; a plain number is in seconds
    #[arg(long, alias = "seconds", value_name = "TIME", default_value = "10s", value_parser = length)]
    duration: Duration,
    /// Show all processes that ran, not only the 20 with the largest errors
    #[arg(long)]
    all: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_interval(text).map_err(|error| error.to_string())?;
    if length < MIN_LENGTH {
        return Err("a comparison takes 1s to 1h".to_owned());
    }
    Ok(length)
}

/// Exit code 3 if there is nothing to compare.
pub fn accuracy(args: &AccuracyArgs, program: &str) -> ExitCode {
    let failed = |error: &(dyn std::error::Error + 'static), code: u8| {
        // Standard error may be closed; the exit code says it.
        let _ = writeln!(std::io::stderr(), "{program}: {}", Chain(error));
        ExitCode::from(code)
    };
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return failed(&error, 1),
    };
    let found = match compare(args.duration, signals.stop()) {
        Ok(Ok(found)) => found,
        Ok(Err(none)) => return failed(&none, DATA_MISSING),
        Err(error) => return failed(&error, 1),
    };
    let rows = if args.all { usize::MAX } else { ROWS };
    match write_table(&found, rows, &mut std::io::stdout().lock()) {
        // The reader of the output has closed it.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return failed(&error, 1),
        _ => {}
    }
    ExitCode::from(if signals.stop().load(Ordering::Relaxed) { INTERRUPTED } else { 0 })
}

/// Two passes, apart by this length or until the user stops it.
fn compare(
    length: Duration,
    stop: &AtomicBool,
) -> Result<Result<CycleComparison, NoComparison>, CollectError> {
    let [mut first, mut last] = [const { CycleSnapshot::new() }; 2];
    read_cycles(&mut first)?;
    // Known without waiting.
    if let Err(none) = first.check() {
        return Ok(Err(none));
    }
    let end = Instant::now() + length;
    while !stop.load(Ordering::Relaxed) {
        let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            break;
        };
        std::thread::park_timeout(left);
    }
    read_cycles(&mut last)?;
    Ok(CycleComparison::between(&first, &last))
}

fn ms(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn signed_percent(part_ns: i64, of_ns: i64) -> String {
    if of_ns > 0 { format!("{:+.2}", part_ns as f64 * 100.0 / of_ns as f64) } else { "–".to_owned() }
}

fn line(row: &CycleRow) -> [String; 6] {
    [
        row.key.pid.to_string(),
        ms(row.cycle_ns),
        ms(row.tick_ns),
        format!("{:+.3}", row.error_ns() as f64 / 1e6),
        signed_percent(row.error_ns(), row.cycle_ns),
        escape(&row.name).to_string(),
    ]
}

/// Writes the table and its summary in sentences; `rows` processes at most.
fn write_table(found: &CycleComparison, rows: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let mut lines = vec![HEADING.map(str::to_owned)];
    lines.extend(found.rows.iter().take(rows).map(line));
    let widths: [usize; 5] =
        std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            write!(out, "{cell:>width$}  ")?;
        }
        writeln!(out, "{}", line[5])?;
    }
    let left = found.rows.len().saturating_sub(rows);
    if left > 0 {
        writeln!(out, "… {left} more with smaller errors (--all shows them)")?;
    }
    let (ticks_ns, cycles_ns) = found.sums_ns();
    let misplaced_ns = i64::try_from(found.misplaced_ns()).unwrap_or(i64::MAX);
    let seconds = |ns: i64| format!("{:.3} s", ns as f64 / 1e9);
    writeln!(
        out,
        "\n{} processes ran {} in {:.3} s, by their cycles.\n\
         Ticks charged {} to the wrong process or to none: {} %. Their sum is off by {} %.\n\
         Cycles count at {:.1} MHz, the rate of the time stamp counter: all of them and the time of interrupts are {:.1} % of the CPUs' time.\n\
         Note: for each thread that runs where the comparison begins or ends, up to a tick (mostly 15.6 ms) is no error.",
        found.rows.len(),
        seconds(cycles_ns),
        found.span_ns as f64 / 1e9,
        seconds(misplaced_ns),
        signed_percent(misplaced_ns, cycles_ns).trim_start_matches('+'),
        signed_percent(ticks_ns - cycles_ns, cycles_ns),
        found.rate_hz / 1e6,
        found.sum_pct,
    )
}

#[cfg(test)]
mod tests {
    use cpumon_model::ProcessKey;

    use super::*;

    fn row(pid: u32, name: &str, [tick_ns, cycle_ns]: [i64; 2]) -> CycleRow {
        CycleRow { key: ProcessKey { pid, start_ns: 1 }, name: name.into(), tick_ns, cycle_ns }
    }

    #[test]
    fn the_table_reads_like_this_and_is_safe_to_print() {
        let rows = vec![
            row(4_242, "dodger.exe", [0, 1_000_000_000]),
            row(8, "größe\u{1b}[2J.exe", [2_015_625_000, 2_000_000_000]),
            row(12, "rest.exe", [15_625_000, 0]),
        ];
        let found = CycleComparison { span_ns: 10_000_000_000, rate_hz: 2.5e9, sum_pct: 99.87, rows };
        let mut out = Vec::new();
        write_table(&found, 2, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn the_length_has_limits() {
        assert_eq!(length("10"), Ok(Duration::from_secs(10)));
        assert_eq!(length("500ms"), Err("a comparison takes 1s to 1h".to_owned()));
        assert!(length("2h").is_err());
    }

    /// Under Wine there are no cycles, which is no table of zeros; on Windows they must add up where the time stamp counter has one rate.
    #[test]
    fn this_machine_has_a_comparison_or_says_why_not() {
        let found = compare(MIN_LENGTH, &AtomicBool::new(false)).unwrap();
        println!("{found:?}");
        let mut one = CycleSnapshot::new();
        read_cycles(&mut one).unwrap();
        assert!(one.mono_ns > 0 && !one.cpus.is_empty());
        let own = one.processes.iter().find(|process| process.key.pid == std::process::id()).unwrap();
        match found {
            Ok(found) => assert!(found.rows.iter().any(|row| row.key == own.key)),
            Err(NoComparison::NoRate) => assert_eq!(one.stamp, 0),
            Err(none) => assert_eq!((none, own.cycles), (NoComparison::NoCycles, 0)),
        }
    }
}
