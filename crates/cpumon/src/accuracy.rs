//! `cpumon accuracy`: compares each thread's CPU time by the tick sampler, by the scheduler's clock and by context switches, so that
//! users see the errors of sampling on their machine: a table with a summary in sentences, or rows for programs.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_agent::give_up_rights;
use cpumon_collect::{Check, ClockReader, DoctorOptions, RetainedCapabilities, diagnose};
use cpumon_model::{SourceKind, escape};
use cpumon_query::accuracy::{AccuracyMeter, Summary, ThreadAccuracy, percent, summary};
use cpumon_query::fields::{Field, Object, decimal, signed};
use cpumon_query::json::Named;
use serde::Serialize;

use crate::cli::{AccuracyArgs, OutputFormat};
use crate::exit::{Outcome, Signals, say};
use crate::output::{paragraph, terminal_columns, write_columns, write_json, write_rows};
use crate::past::or_missing;

/// Time between two readings: short enough to read each thread off its CPU near the start and near the end.
const PAUSE: Duration = Duration::from_millis(100);

pub fn accuracy(args: &AccuracyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let notes = notes();
    let mut reader = ClockReader::open().context("cannot read the clocks of this machine's threads")?;
    // After the programs are loaded: reading their maps needs fewer capabilities.
    give_up_rights(SourceKind::Bpf, RetainedCapabilities::FILES);
    let findings = compare(args, &mut reader, &signals, notes)?;
    let limit = if args.all { usize::MAX } else { ROWS };
    match args.format.get() {
        OutputFormat::Table => text(&findings, limit, terminal_columns(), out),
        OutputFormat::Json => json(&findings, out),
        format => write_rows(format, &fields(), &findings.rows, out),
    }
    .context("cannot write the comparison")?;
    if !findings.rows.is_empty() {
        return Ok(signals.outcome());
    }
    say("no thread that was asked for ran in this time");
    Ok(or_missing(signals.outcome()))
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

#[derive(Debug)]
struct Findings {
    span_ns: i64,
    /// Length of a clock tick, ns.
    tick_ns: i64,
    /// CPU time that the hypervisor took in the span, ns.
    steal_ns: i64,
    /// Each thread, largest error of the tick sampler first.
    rows: Vec<ThreadAccuracy>,
    summary: Summary,
    /// Effects of this machine on each figure.
    notes: Vec<String>,
}

/// Rows of the text form unless the user asks for all.
const ROWS: usize = 20;

/// Sentences are no longer and no shorter than this.
const SENTENCE: std::ops::RangeInclusive<usize> = 40..=100;

/// Text for people; at most `limit` rows, no wider than `columns` if the names allow.
fn text(findings: &Findings, limit: usize, columns: usize, out: &mut dyn Write) -> anyhow::Result<()> {
    let shown = &findings.rows[..findings.rows.len().min(limit)];
    write_columns(&fields(), shown, columns, out)?;
    let left = findings.rows.len() - shown.len();
    if left > 0 {
        writeln!(out, "… {left} more with smaller errors (--all shows them)")?;
    }
    writeln!(out)?;
    for sentence in sentences(findings) {
        paragraph(&sentence, columns.clamp(*SENTENCE.start(), *SENTENCE.end()), out)?;
    }
    Ok(())
}

fn ms(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn signed_ms(ns: i64) -> String {
    signed(Some(ns as f64 / 1e6), 3)
}

/// Columns of a thread. A name that ends in `±` was compared while the thread ran.
fn fields() -> [Field<'static, ThreadAccuracy>; 13] {
    type Row = ThreadAccuracy;
    let name = |row: &Row| {
        let blur =
            if row.blur_ns == 0 { String::new() } else { format!("  ±{} ms", row.blur_ns / 1_000_000) };
        format!("{}{blur}", escape(&row.comm.to_str_lossy()))
    };
    [
        Field::int("pid", |row: &Row| i64::from(row.pid)).titled("PID", 5),
        Field::int("tid", |row: &Row| i64::from(row.key.tid)).titled("TID", 0),
        Field::count("start_ns", |row: &Row| row.key.start_ns),
        Field::text("name", |row: &Row| Some(row.comm.to_str_lossy())).titled("NAME", 0).shows(name),
        Field::int("switch_ns", |row: &Row| row.switch_ns)
            .titled("SWITCHES ms", 0)
            .shows(|row| ms(row.switch_ns)),
        Field::int("tick_ns", |row: &Row| row.tick_ns).titled("TICK ms", 0).shows(|row| ms(row.tick_ns)),
        Field::int("tick_error_ns", Row::tick_error_ns)
            .titled("ERROR ms", 1)
            .shows(|row| signed_ms(row.tick_error_ns())),
        Field::real("tick_error_pct", |row: &Row| percent(row.tick_error_ns(), row.switch_ns))
            .titled("%", 0)
            .shows(|row| signed(percent(row.tick_error_ns(), row.switch_ns), 2)),
        Field::int("clock_ns", |row: &Row| row.clock_ns).titled("CLOCK ms", 2).shows(|row| ms(row.clock_ns)),
        Field::int("clock_error_ns", Row::clock_error_ns)
            .titled("ERROR ms", 3)
            .shows(|row| signed_ms(row.clock_error_ns())),
        Field::real("clock_error_pct", |row: &Row| percent(row.clock_error_ns(), row.switch_ns))
            .titled("%", 4)
            .shows(|row| signed(percent(row.clock_error_ns(), row.switch_ns), 2)),
        Field::count("slices", |row: &Row| row.slices).titled("SLICES", 6),
        Field::int("blur_ns", |row: &Row| row.blur_ns),
    ]
}

fn sentences(findings: &Findings) -> Vec<String> {
    let all = &findings.summary;
    let seconds = |ns: i64| format!("{:.3} s", ns as f64 / 1e9);
    let share = |ns| decimal(percent(ns, all.switch_ns), 2);
    let mut sentences = vec![
        format!(
            "{} threads ran {} in {}, by their switches; {} of them were compared exactly, the others while running (±).",
            all.threads,
            seconds(all.switch_ns),
            seconds(findings.span_ns),
            all.exact,
        ),
        format!(
            "The tick sampler (every {} ms) charged {} to the wrong thread or to none: {} %. Its sum is off by {} %.",
            findings.tick_ns as f64 / 1e6,
            seconds(all.tick_misplaced_ns),
            share(all.tick_misplaced_ns),
            signed(percent(all.tick_ns - all.switch_ns, all.switch_ns), 2),
        ),
        format!(
            "The scheduler's clock differs by {}: {} %.",
            seconds(all.clock_misplaced_ns),
            share(all.clock_misplaced_ns)
        ),
        format!("The hypervisor took {} (steal).", seconds(findings.steal_ns)),
    ];
    sentences.extend(findings.notes.iter().map(|note| format!("Note: {note}")));
    sentences
}

fn json(findings: &Findings, out: &mut dyn Write) -> anyhow::Result<()> {
    let (all, fields) = (&findings.summary, fields());
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let figures = [
        ("span_ns", findings.span_ns),
        ("tick_length_ns", findings.tick_ns),
        ("steal_ns", findings.steal_ns),
        ("threads", count(all.threads)),
        ("threads_exact", count(all.exact)),
        ("tick_ns", all.tick_ns),
        ("clock_ns", all.clock_ns),
        ("switch_ns", all.switch_ns),
        ("tick_misplaced_ns", all.tick_misplaced_ns),
        ("clock_misplaced_ns", all.clock_misplaced_ns),
    ];
    let document = Document {
        figures: figures.into_iter().collect(),
        notes: &findings.notes,
        rows: findings.rows.iter().map(|row| Object { fields: &fields, row }).collect(),
    };
    write_json(&document, out)
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    figures: Named<i64>,
    notes: &'a [String],
    rows: Vec<Object<'a, 'static, ThreadAccuracy>>,
}

#[cfg(test)]
mod tests {
    use cpumon_model::ThreadKey;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn findings() -> Findings {
        let row = |tid, name: &str, clocks: [i64; 3], blur_ns| ThreadAccuracy {
            key: ThreadKey { tid, start_ns: 5 },
            pid: tid,
            comm: name.into(),
            tick_ns: clocks[0],
            clock_ns: clocks[1],
            switch_ns: clocks[2],
            slices: 1234,
            blur_ns,
        };
        let rows = vec![
            row(4242, "=dodger", [1_000_000, 1_000_100_000, 1_001_000_000], 0),
            row(7, "spin\u{1b}[2J", [2_004_000_000, 2_000_000_000, 2_000_000_000], 8_000_000),
            row(9, "rest", [4_000_000, 0, 0], 0),
        ];
        Findings {
            span_ns: 10_000_000_000,
            tick_ns: 4_000_000,
            steal_ns: 1_500_000,
            summary: summary(&rows),
            rows,
            notes: vec!["a hypervisor shares the CPUs out".to_owned()],
        }
    }

    #[test]
    fn the_text_reads_like_this_and_is_safe_to_print() {
        let mut out = Vec::new();
        text(&findings(), 2, 100, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn a_narrow_terminal_sees_the_thread_both_figures_and_the_error() {
        let mut out = Vec::new();
        text(&findings(), 3, 60, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("NAME") && out.contains("TID  SWITCHES ms   TICK ms       %\n"), "{out}");
        assert!(out.lines().all(|line| line.width() <= 60), "{out}");
    }

    #[test]
    fn the_csv_defuses_formulas_and_keeps_numbers() {
        let mut out = Vec::new();
        cpumon_export::rows(cpumon_export::Format::Csv, &fields(), &findings().rows, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("pid,tid,start_ns,name,switch_ns,tick_ns,tick_error_ns,"), "{out}");
        assert!(out.contains("4242,4242,5,\"'=dodger\",1001000000,1000000,-1000000000,-99.9"), "{out}");
        assert!(
            out.lines().nth(3).unwrap().contains(",0,4000000,4000000,,0,0,,"),
            "nothing to compare with: {out}"
        );
    }

    #[test]
    fn the_json_holds_all_rows() {
        let mut out = Vec::new();
        json(&findings(), &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["rows"].as_array().unwrap().len(), 3);
        assert_eq!(value["rows"][0]["tick_error_ns"], -1_000_000_000);
        assert_eq!((&value["threads"], &value["threads_exact"]), (&3.into(), &2.into()));
    }
}
