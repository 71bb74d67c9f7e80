//! `cpumon accuracy`: compares each thread's CPU time by the tick sampler, by the scheduler's clock and by context switches, so that
//! users see the errors of sampling on their machine.

mod show;

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_agent::give_up_rights;
use cpumon_collect::{Check, ClockReader, DoctorOptions, RetainedCapabilities, diagnose};
use cpumon_model::SourceKind;
use cpumon_query::accuracy::{AccuracyMeter, ThreadAccuracy, summary};

use self::show::{Findings, ROWS};
use crate::cli::{AccuracyArgs, Format};
use crate::columns::write_rows;
use crate::exit::Outcome;
use crate::signals::Signals;
use crate::table::terminal_columns;

/// Time between two readings: short enough to read each thread off its CPU near the start and near the end.
const PAUSE: Duration = Duration::from_millis(100);

/// `cpumon accuracy`.
pub fn accuracy(args: &AccuracyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let notes = notes();
    let mut reader = ClockReader::open().context("cannot read the clocks of this machine's threads")?;
    // After the programs are loaded: reading their maps needs fewer capabilities.
    give_up_rights(SourceKind::Bpf, RetainedCapabilities::FILES);
    let findings = compare(args, &mut reader, &signals, notes)?;
    let limit = if args.all { usize::MAX } else { ROWS };
    match args.format.get() {
        Format::Table => show::text(&findings, limit, terminal_columns(), out),
        Format::Json => show::json(&findings, out),
        format => write_rows(format, &show::fields(), &findings.rows, out),
    }
    .context("cannot write the comparison")?;
    Ok(match signals.outcome() {
        Outcome::Done if findings.rows.is_empty() => Outcome::DataMissing,
        outcome => outcome,
    })
}

/// Reads until the time is over or the user stops it.
fn compare(
    args: &AccuracyArgs,
    reader: &mut ClockReader,
    signals: &Signals,
    notes: Vec<String>,
) -> anyhow::Result<Findings> {
    let mut meter = AccuracyMeter::default();
    let (begin, steal_before) = (Instant::now(), reader.steal_ns()?);
    let end = begin + args.duration;
    let mut threads = Vec::new();
    for pass in 0_u64.. {
        reader.read(&mut threads).context("cannot read the clocks of this machine's threads")?;
        for reading in &threads {
            meter.add(reading, pass == 0);
        }
        let now = Instant::now();
        if now >= end || signals.stop().load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(PAUSE.min(end - now));
    }
    let tick_ns = i64::try_from(reader.tick_ns()).unwrap_or(i64::MAX);
    let wanted = |row: &ThreadAccuracy| {
        (args.pid.is_empty() || args.pid.contains(&row.pid))
            && args.name.as_ref().is_none_or(|name| row.comm.to_str_lossy() == name.as_str())
    };
    let rows = meter.finish(tick_ns, wanted);
    Ok(Findings {
        span_ns: i64::try_from(begin.elapsed().as_nanos()).unwrap_or(i64::MAX),
        tick_ns,
        steal_ns: i64::try_from(reader.steal_ns()?.saturating_sub(steal_before)).unwrap_or(i64::MAX),
        summary: summary(&rows),
        rows,
        notes,
    })
}

/// How this machine affects each figure.
fn notes() -> Vec<String> {
    let found = diagnose(&DoctorOptions { load: false, ..DoctorOptions::default() });
    let check = |name: &str| found.checks.iter().find(|check| check.name == name);
    let finding = |check: Option<&Check>| check.map_or("not known".to_owned(), |check| check.finding.clone());
    let hypervisor = finding(check("hypervisor"));
    let effect = if hypervisor.starts_with("yes") {
        "; while it runs others, a tick comes late or not at all, and the tick sampler charges that time to the thread that runs next. \
         The scheduler's clock and the switches leave out what the steal clock counts; without that clock both have it inside"
    } else {
        ""
    };
    vec![
        format!("hypervisor: {hypervisor}{effect}."),
        format!("steal clock {}.", finding(check("steal clock"))),
        "interrupts are inside all three figures here: each is charged to the thread that it interrupted."
            .to_owned(),
    ]
}
