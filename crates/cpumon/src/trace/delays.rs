//! `cpumon trace delays`: the longest single waits for a CPU.

use std::io::Write;

use anyhow::Context;
use cpumon_query::fields::Field;
use cpumon_trace::{LongWait, Waker, longest_waits};

use super::trace_file::{TraceFile, Who, behind, found, millis, missing, range, seconds, who_fields};
use crate::cli::TraceDelaysArgs;
use crate::columns::write_rows;
use crate::exit::Outcome;

/// Culprits of a wait in a table.
const SHOWN_CULPRITS: usize = 3;

/// `cpumon trace delays`.
pub(crate) fn delays(args: &TraceDelaysArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let range = range(args.from, args.to)?;
    let mut file = TraceFile::open(&args.file)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (waits, ending) = file.read(|trace| longest_waits(trace, range, limit))?;
    write_rows(args.format.get(), &fields(&file), &waits, out).context("cannot write the waits")?;
    out.flush()?;
    Ok(found(waits.len(), "thread that waited for a CPU", missing(&ending, ending.lost)))
}

/// Columns of a wait. Times are ns; `at` counts from the start of the trace.
fn fields<'f>(file: &'f TraceFile<'_>) -> Vec<Field<'f, LongWait>> {
    let thread = |wait: &LongWait| file.thread(wait.task);
    let waker = |wait: &LongWait| Some(Who::of_waker(Waker::Task(wait.waker?), file));
    let after = move |wait: &LongWait| match waker(wait) {
        Some(waker) => format!("woken by {}", waker.shown()),
        None if wait.is_preempted => "preempted".to_owned(),
        None => "woken".to_owned(),
    };
    let waited = |wait: &LongWait| format!("{}{}", millis(wait.ns), if wait.is_over { "" } else { "+" });
    let mut fields = vec![
        Field::count("at_ns", |wait: &LongWait| file.since_begin(wait.from_ns))
            .titled("AT s", 1)
            .shows(|wait| seconds(file.since_begin(wait.from_ns))),
        Field::count("delay_ns", |wait: &LongWait| wait.ns),
        Field::count("cpu", |wait: &LongWait| u64::from(wait.cpu)).titled("CPU", 4),
        Field::shown("WAITED ms", 0, waited),
    ];
    fields.extend(who_fields(["kind", "name", "pid", "tid"], thread));
    fields.extend([
        Field::shown("THREAD", 0, move |wait: &LongWait| thread(wait).shown()).left(),
        Field::shown("PID/TID", 2, move |wait: &LongWait| thread(wait).ids()).whole(),
        Field::text("after", |wait: &LongWait| {
            Some(if wait.is_preempted { "preempted" } else { "woken" }.into())
        })
        .titled("AFTER", 3)
        .shows(after),
        Field::text("woken_by", move |wait: &LongWait| Some(waker(wait)?.name.into())),
        Field::int("woken_by_tid", move |wait: &LongWait| waker(wait)?.tid.map(i64::from)),
        Field::int("is_over", |wait: &LongWait| i64::from(wait.is_over)),
        Field::shown("BEHIND ms", 0, |wait: &LongWait| behind(&wait.behind, file, SHOWN_CULPRITS)).left(),
    ]);
    for (at, [name, tid, ns]) in
        [["behind", "behind_tid", "behind_ns"], ["behind_2", "behind_2_tid", "behind_2_ns"]]
            .into_iter()
            .enumerate()
    {
        let culprit = move |wait: &LongWait| wait.behind.get(at).map(|(task, ns)| (file.thread(*task), *ns));
        fields.push(Field::text(name, move |wait| Some(culprit(wait)?.0.name.into())));
        fields.push(Field::int(tid, move |wait| culprit(wait)?.0.tid.map(i64::from)));
        fields.push(Field::count(ns, move |wait| culprit(wait).map(|(_, ns)| ns)));
    }
    fields.push(Field::count("behind_all_ns", |wait: &LongWait| {
        wait.behind.iter().map(|(_, ns)| ns).sum::<u64>()
    }));
    fields
}
