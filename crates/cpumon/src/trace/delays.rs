//! `cpumon trace delays`: the longest single waits for a CPU.

use std::io::Write;

use anyhow::Context;
use cpumon_model::Value;
use cpumon_trace::{LongWait, longest_waits};

use super::trace_file::{TraceFile, Who, behind, found, maybe, millis, missing, range, seconds};
use crate::cli::{Format, TraceDelaysArgs};
use crate::exit::Outcome;
use crate::report::{Column, Columns, write_rows};
use crate::table::terminal_columns;

/// Times are ns; `at` counts from the start of the trace.
const COLUMNS: [&str; 18] = [
    "at_ns",
    "delay_ns",
    "cpu",
    "kind",
    "name",
    "pid",
    "tid",
    "after",
    "woken_by",
    "woken_by_tid",
    "is_over",
    "behind",
    "behind_tid",
    "behind_ns",
    "behind_2",
    "behind_2_tid",
    "behind_2_ns",
    "behind_all_ns",
];
/// Culprits of a wait in a table.
const SHOWN_CULPRITS: usize = 3;

/// `cpumon trace delays`.
pub(crate) fn delays(args: &TraceDelaysArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let range = range(args.from, args.to)?;
    let mut file = TraceFile::open(&args.file)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (waits, ending) = file.read(|trace| longest_waits(trace, range, limit))?;
    match args.format.get() {
        Format::Table => {
            table(&waits, &file).write(terminal_columns(), out).context("cannot write the waits")?;
        }
        format => write_rows(format, &COLUMNS, waits.iter().map(|wait| cells(wait, &file)), out)?,
    }
    out.flush()?;
    Ok(found(waits.len(), "thread that waited for a CPU", missing(&ending, ending.lost)))
}

fn table(waits: &[LongWait], file: &TraceFile<'_>) -> Columns {
    let column =
        |title, rank, cell: &dyn Fn(&LongWait) -> String| Column::new(title, rank, waits.iter().map(cell));
    let after = |wait: &LongWait| match wait.waker {
        Some(waker) => format!("woken by {}", Who::of_waker(cpumon_trace::Waker::Task(waker), file).shown()),
        None if wait.is_preempted => "preempted".to_owned(),
        None => "woken".to_owned(),
    };
    let names = vec![
        column("THREAD", 0, &|wait| file.thread(wait.task).shown()),
        column("PID/TID", 2, &|wait| file.thread(wait.task).ids()).whole(),
        column("AFTER", 3, &after),
        column("BEHIND ms", 0, &|wait| behind(&wait.behind, file, SHOWN_CULPRITS)),
    ];
    let numbers = vec![
        column("AT s", 1, &|wait| seconds(file.since_begin(wait.from_ns))),
        column("CPU", 4, &|wait| wait.cpu.to_string()),
        column("WAITED ms", 0, &|wait| {
            let end = if wait.is_over { "" } else { "+" };
            format!("{}{end}", millis(wait.ns))
        }),
    ];
    Columns::new(names, numbers)
}

fn cells(wait: &LongWait, file: &TraceFile<'_>) -> Vec<Value<'static>> {
    let waker = wait.waker.map(|waker| Who::of_waker(cpumon_trace::Waker::Task(waker), file));
    let text = |text: Option<String>| text.map_or(Value::Null, |text| Value::Text(text.into()));
    let mut cells = vec![
        Value::count(file.since_begin(wait.from_ns)),
        Value::count(wait.ns),
        Value::count(wait.cpu.into()),
    ];
    cells.extend(file.thread(wait.task).cells());
    cells.push(Value::Text(if wait.is_preempted { "preempted" } else { "woken" }.into()));
    cells.push(text(waker.as_ref().map(|waker| waker.name.clone())));
    cells.push(maybe(waker.and_then(|waker| waker.tid).map(u64::from)));
    cells.push(Value::count(wait.is_over.into()));
    for at in 0..2 {
        let culprit = wait.behind.get(at).map(|(task, ns)| (file.thread(*task), *ns));
        cells.push(text(culprit.as_ref().map(|(who, _)| who.name.clone())));
        cells.push(maybe(culprit.as_ref().and_then(|(who, _)| who.tid).map(u64::from)));
        cells.push(maybe(culprit.map(|(_, ns)| ns)));
    }
    cells.push(Value::count(wait.behind.iter().map(|(_, ns)| ns).sum()));
    cells
}
