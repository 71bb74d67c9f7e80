//! `cpumon accuracy`. In: which threads, how long. Out: for each what the tick sampler, the scheduler's clock and the switches
//! say of its CPU time. Why: so that anyone can see what sampling costs on their machine.

mod compare;
mod show;

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_agent::give_up_rights;
use cpumon_collect::{Check, ClockReader, DoctorOptions, RetainedCapabilities, diagnose};
use cpumon_model::SourceKind;

use self::compare::{Comparer, Comparison, summary};
use self::show::{Findings, ROWS};
use crate::cli::{AccuracyArgs, AccuracyForm};
use crate::exit::Outcome;
use crate::signals::Signals;
use crate::table::terminal_columns;

/// Between two readings: often enough to meet each thread off its CPU at an early and at a late one.
const PAUSE: Duration = Duration::from_millis(100);

/// `cpumon accuracy`.
pub fn accuracy(args: &AccuracyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let notes = notes();
    let mut reader = ClockReader::open().context("cannot read the clocks of this machine's threads")?;
    give_up_rights(SourceKind::Bpf, RetainedCapabilities::FILES);
    let findings = compare(args, &mut reader, &signals, notes)?;
    match args.format {
        AccuracyForm::Text => {
            let rows = if args.all { usize::MAX } else { ROWS };
            show::text(&findings, rows, terminal_columns(), out).context("cannot write")?;
        }
        AccuracyForm::Csv => show::csv(&findings, out).context("cannot write CSV")?,
        AccuracyForm::Json => show::json(&findings, out).context("cannot write JSON")?,
    }
    Ok(if findings.rows.is_empty() { Outcome::DataMissing } else { Outcome::Done })
}

/// Reads until the time is over, or the user has seen enough.
fn compare(
    args: &AccuracyArgs,
    reader: &mut ClockReader,
    signals: &Signals,
    notes: Vec<String>,
) -> anyhow::Result<Findings> {
    let mut comparer = Comparer::default();
    let (begin, steal_before) = (Instant::now(), reader.steal_ns()?);
    let end = begin + Duration::from_secs(args.seconds.into());
    let mut threads = Vec::new();
    for pass in 0_u64.. {
        reader.read(&mut threads).context("cannot read the clocks of this machine's threads")?;
        for reading in &threads {
            comparer.add(reading, pass == 0);
        }
        let now = Instant::now();
        if now >= end || signals.stop().load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(PAUSE.min(end - now));
    }
    let tick_ns = i64::try_from(reader.tick_ns()).unwrap_or(i64::MAX);
    let wanted = |row: &Comparison| {
        (args.pid.is_empty() || args.pid.contains(&row.pid))
            && args.name.as_ref().is_none_or(|name| row.comm.to_str_lossy() == name.as_str())
    };
    let rows = comparer.finish(tick_ns, wanted);
    Ok(Findings {
        span_ns: i64::try_from(begin.elapsed().as_nanos()).unwrap_or(i64::MAX),
        tick_ns,
        steal_ns: i64::try_from(reader.steal_ns()?.saturating_sub(steal_before)).unwrap_or(i64::MAX),
        summary: summary(&rows),
        rows,
        notes,
    })
}

/// What this machine does to each figure.
fn notes() -> Vec<String> {
    let found = diagnose(&DoctorOptions { load: false, ..DoctorOptions::default() });
    let check = |name: &str| found.checks.iter().find(|check| check.name == name);
    let said = |check: Option<&Check>| check.map_or("not known".to_owned(), |check| check.finding.clone());
    let hypervisor = said(check("hypervisor"));
    let effect = if hypervisor.starts_with("yes") {
        "; while it runs others, a tick comes late or not at all, and what the tick sampler books then goes to whoever runs next. \
         The scheduler's clock and the switches leave out what the steal clock counts; without that clock both have it inside"
    } else {
        ""
    };
    vec![
        format!("hypervisor: {hypervisor}{effect}."),
        format!("steal clock {}.", said(check("steal clock"))),
        "interrupts are inside all three figures here: each is charged to whoever it interrupted.".to_owned(),
    ]
}
