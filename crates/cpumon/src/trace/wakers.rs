//! `cpumon trace wakers`: who wakes whom.

use std::io::{self, Write};

use anyhow::Context;
use cpumon_model::Value;
use cpumon_trace::{ReportBy, WakeCounts, WakerKey, WakerRow};

use super::trace_file::{
    TraceFile, Who, found, limit, maybe, micros, missing, range, say_left_out, seconds, share,
};
use crate::cli::{Format, TraceWakersArgs};
use crate::exit::Outcome;
use crate::report::{Column, Columns, write_rows};
use crate::table::{paragraph, terminal_columns};

/// Times are ns; `at` counts from the start of the trace.
const COLUMNS: [&str; 16] = [
    "waker_kind",
    "waker",
    "waker_pid",
    "waker_tid",
    "woken_kind",
    "woken",
    "woken_pid",
    "woken_tid",
    "wakeups",
    "runs",
    "runs_on_cpu_of_wakeup",
    "delay_ns",
    "delay_mean_ns",
    "delay_max_ns",
    "delay_max_at_ns",
    "delay_max_cpu",
];

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
    match args.input.format.get() {
        Format::Table => {
            table(&rows, by, &file).write(terminal_columns(), out).context("cannot write the rows")?;
            say_left_out(left_out, out)?;
            if !wakers.has_interrupts() {
                let note = "Without --irq in the recording, who was only interrupted counts as waker.";
                paragraph(note, terminal_columns(), out)?;
            }
        }
        format => write_rows(format, &COLUMNS, rows.iter().map(|row| cells(row, &file)), out)?,
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

fn table(rows: &[WakerRow], by: ReportBy, file: &TraceFile<'_>) -> Columns {
    let column =
        |title, rank, cell: &dyn Fn(&WakerRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    let ids = match by {
        ReportBy::Thread => Some("PID/TID"),
        ReportBy::Process => Some("PID"),
        ReportBy::Program | ReportBy::Container => None,
    };
    let mut names = vec![column("WAKER", 0, &|row| waker(row).shown())];
    names.extend(ids.map(|title| column(title, 1, &|row| waker(row).ids()).whole()));
    names.push(column("WOKEN", 0, &|row| woken(row).shown()));
    names.extend(ids.map(|title| column(title, 1, &|row| woken(row).ids()).whole()));
    let longest = |row: &WakerRow| (row.counts.runs > 0).then_some(row.counts.longest);
    let numbers = vec![
        column("WAKEUPS", 0, &|row| row.counts.wakeups.to_string()),
        column("SAME CPU %", 4, &|row| share(row.counts.runs_here, row.counts.runs)),
        column("MEAN us", 2, &|row| micros(mean_ns(&row.counts))),
        column("MAX us", 0, &|row| micros(longest(row).map(|longest| longest.ns))),
        column("AT s", 3, &|row| {
            longest(row).map_or_else(|| "-".to_owned(), |longest| seconds(file.since_begin(longest.from_ns)))
        }),
        column("CPU", 5, &|row| {
            longest(row).map_or_else(|| "-".to_owned(), |longest| longest.cpu.to_string())
        }),
    ];
    Columns::new(names, numbers)
}

fn cells(row: &WakerRow, file: &TraceFile<'_>) -> Vec<Value<'static>> {
    let counts = &row.counts;
    let longest = (counts.runs > 0).then_some(counts.longest);
    let mut cells = waker(row).cells().to_vec();
    cells.extend(woken(row).cells());
    cells.extend([counts.wakeups, counts.runs, counts.runs_here, counts.delay_ns].map(Value::count));
    cells.extend([
        maybe(mean_ns(counts)),
        maybe(longest.map(|longest| longest.ns)),
        maybe(longest.map(|longest| file.since_begin(longest.from_ns))),
        maybe(longest.map(|longest| longest.cpu.into())),
    ]);
    cells
}
