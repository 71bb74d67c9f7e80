//! `cpumon trace wakers`: who wakes whom.

use std::io::{self, Write};

use anyhow::Context;
use cpumon_query::fields::Field;
use cpumon_trace::{ReportBy, WakeCounts, WakerKey, WakerRow};

use super::trace_file::{
    TraceFile, Who, found, ids_title, limit, micros, missing, range, say_left_out, seconds, share, who_fields,
};
use crate::cli::{Format, TraceWakersArgs};
use crate::columns::write_rows;
use crate::exit::Outcome;
use crate::table::{paragraph, terminal_columns};

/// `cpumon trace wakers`.
pub(crate) fn wakers(args: &TraceWakersArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let range = range(args.input.from, args.input.to)?;
    let mut file = TraceFile::open(&args.input.file)?;
    let (wakers, ending) = file.read(|trace| cpumon_trace::wakers(trace, range))?;
    let by = ReportBy::from(args.by);
    let mut rows = wakers.rows(by, file.tasks());
    let count = rows.len();
    let left_out = count.saturating_sub(limit(&args.input));
    rows.truncate(limit(&args.input));
    let format = args.input.format.get();
    write_rows(format, &fields(by, &file), &rows, out).context("cannot write the rows")?;
    if format == Format::Table {
        say_left_out(left_out, out)?;
        if !wakers.has_interrupts() {
            let note = "Without --irq in the recording, who was only interrupted counts as waker.";
            paragraph(note, terminal_columns(), out)?;
        }
    }
    out.flush()?;
    if wakers.left_out() > 0 {
        let _ = writeln!(
            io::stderr(),
            "cpumon: {} wakeups are in no row, because there are too many pairs; choose a part of the trace with --from and --to",
            wakers.left_out()
        );
        missing(&ending, ending.lost);
        return Ok(Outcome::DataMissing);
    }
    Ok(found(count, "wakeup", missing(&ending, ending.lost)))
}

fn waker(row: &WakerRow) -> Who {
    match &row.waker {
        WakerKey::Group(key) => Who::new(key, &row.waker_name),
        WakerKey::Idle => Who::idle(),
        WakerKey::Hard(line) => Who::irq(*line),
        WakerKey::Soft(kind) => Who::softirq(*kind),
    }
}

fn woken(row: &WakerRow) -> Who {
    Who::new(&row.woken, &row.woken_name)
}

fn mean_ns(counts: &WakeCounts) -> Option<u64> {
    counts.delay_ns.checked_div(counts.runs)
}

/// Columns of a pair. Times are ns; `at` counts from the start of the trace.
fn fields<'f>(by: ReportBy, file: &'f TraceFile<'_>) -> Vec<Field<'f, WakerRow>> {
    let longest = |row: &WakerRow| (row.counts.runs > 0).then_some(row.counts.longest);
    let at_ns = move |row: &WakerRow| longest(row).map(|longest| file.since_begin(longest.from_ns));
    let mut fields: Vec<_> = who_fields(["waker_kind", "waker", "waker_pid", "waker_tid"], waker).into();
    fields.push(Field::shown("WAKER", 0, |row: &WakerRow| waker(row).shown()).left());
    fields
        .extend(ids_title(by).map(|title| Field::shown(title, 1, |row: &WakerRow| waker(row).ids()).whole()));
    fields.extend(who_fields(["woken_kind", "woken", "woken_pid", "woken_tid"], woken));
    fields.push(Field::shown("WOKEN", 0, |row: &WakerRow| woken(row).shown()).left());
    fields
        .extend(ids_title(by).map(|title| Field::shown(title, 1, |row: &WakerRow| woken(row).ids()).whole()));
    fields.extend([
        Field::count("wakeups", |row: &WakerRow| row.counts.wakeups).titled("WAKEUPS", 0),
        Field::count("runs", |row: &WakerRow| row.counts.runs),
        Field::count("runs_on_cpu_of_wakeup", |row: &WakerRow| row.counts.runs_here)
            .titled("SAME CPU %", 4)
            .shows(|row| share(row.counts.runs_here, row.counts.runs)),
        Field::count("delay_ns", |row: &WakerRow| row.counts.delay_ns),
        Field::count("delay_mean_ns", |row: &WakerRow| mean_ns(&row.counts))
            .titled("MEAN us", 2)
            .shows(|row| micros(mean_ns(&row.counts))),
        Field::count("delay_max_ns", move |row: &WakerRow| longest(row).map(|longest| longest.ns))
            .titled("MAX us", 0)
            .shows(move |row| micros(longest(row).map(|longest| longest.ns))),
        Field::count("delay_max_at_ns", at_ns)
            .titled("AT s", 3)
            .shows(move |row| at_ns(row).map_or_else(|| "-".to_owned(), seconds)),
        Field::count("delay_max_cpu", move |row: &WakerRow| {
            longest(row).map(|longest| u64::from(longest.cpu))
        })
        .titled("CPU", 5),
    ]);
    fields
}
