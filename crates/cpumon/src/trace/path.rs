//! `cpumon trace path`: the waits of a thread before a moment, and the threads it waited for.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::Context;
use cpumon_model::TraceTask;
use cpumon_query::fields::Field;
use cpumon_trace::{PathStep, ThreadState, TraceHistory, TraceRange, Waker, history};

use super::{TraceFile, Who, behind, found, limit_of, millis, missing, ns, seconds, time_field, who_fields};
use crate::cli::{OutputFormat, TracePathArgs};
use crate::exit::{Outcome, Usage, say};
use crate::table::{paragraph, terminal_columns, write_rows};

/// Steps of a path that is not shown in a table.
const STEPS: usize = 100_000;
/// Culprits of a step in a table, and threads of its sums.
const SHOWN: usize = 3;
/// Most threads of one name in an error.
const NAMED: usize = 8;

pub(crate) fn path(args: &TracePathArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let from_ns = args.from.map_or(0, ns);
    let until_ns = args.at.map_or(u64::MAX, ns);
    if from_ns >= until_ns {
        return Err(Usage("--at must be after --from".to_owned()).into());
    }
    let mut file = TraceFile::open(&args.file)?;
    let (history, ending) = file.read(|trace| history(trace, TraceRange { from_ns, until_ns }))?;
    let (task, last_ns) = find(&args.thread, &history, &file)?;
    let at_ns = args.at.map_or(last_ns, |at| file.began_ns.saturating_add(ns(at)).min(ending.known_until_ns));
    let format = args.format.get();
    let steps = history.path(task, at_ns, limit_of(args.limit, format, STEPS));
    write_rows(format, &fields(&file), &steps, out).context("cannot write the path")?;
    if format == OutputFormat::Table {
        sums(&steps, &file, out)?;
    }
    out.flush()?;
    let outcome = missing(&ending, ending.lost);
    if history.dropped_until_ns > 0
        && steps.last().is_some_and(|step| step.from_ns <= history.dropped_until_ns)
    {
        say(&format!(
            "the path ends at {} s, because the trace has too many events before that to hold; go back from there with --at",
            seconds(file.since_begin(history.dropped_until_ns))
        ));
        return Ok(Outcome::DataMissing);
    }
    Ok(found(steps.len(), "event of the thread before that moment", outcome))
}

/// Finds the thread and its last moment in the history.
fn find(text: &str, history: &TraceHistory, file: &TraceFile<'_>) -> Result<(TraceTask, u64), Usage> {
    let tid = text.parse::<u32>().ok();
    let is_it = |who: &Who| if tid.is_some() { who.tid == tid } else { who.name == text };
    let mut found: Vec<_> = history
        .threads()
        .map(|(task, end_ns)| (task, end_ns, file.thread(task)))
        .filter(|row| is_it(&row.2))
        .collect();
    found.sort_by_key(|row| row.1);
    let is_one = tid.is_some() || found.iter().all(|row| row.2.tid == found[0].2.tid);
    match found.pop() {
        None => Err(Usage(format!("no thread {text:?} has any event in this part of the trace"))),
        // An id that was reused: the last thread that had it.
        Some((task, end_ns, _)) if is_one => Ok((task, end_ns)),
        Some(last) => {
            let all = found.iter().chain([&last]).filter_map(|row| row.2.tid);
            let tids: Vec<String> = all.take(NAMED).map(|tid| tid.to_string()).collect();
            let more = if found.len() + 1 > NAMED { ", …" } else { "" };
            let count = found.len() + 1;
            Err(Usage(format!(
                "{count} threads are called {text:?}: {}{more}; give one of these ids",
                tids.join(", ")
            )))
        }
    }
}

fn waker(waker: Waker, file: &TraceFile<'_>) -> String {
    match Who::of_waker(waker, file) {
        who if who.kind == "idle" => "an interrupt".to_owned(),
        who => who.shown(),
    }
}

fn what(step: &PathStep, file: &TraceFile<'_>) -> String {
    let cpu = step.cpu;
    let after = match step.behind.as_slice() {
        [] => String::new(),
        culprits => format!(", behind {}", behind(culprits, file, SHOWN)),
    };
    let by = step.waker.map(|by| waker(by, file));
    match (step.state, by) {
        (ThreadState::Running, _) => format!("ran on CPU {cpu}"),
        (ThreadState::ReadyWoken, Some(by)) => format!("ready on CPU {cpu} since {by} woke it{after}"),
        (ThreadState::ReadyWoken, None) => format!("ready on CPU {cpu}{after}"),
        (ThreadState::ReadyPreempted, _) => format!("preempted on CPU {cpu}{after}"),
        (ThreadState::Blocked(reason), Some(by)) if step.is_explained => {
            format!("blocked: {} until {by} woke it, which before that", reason.words_and_name())
        }
        (ThreadState::Blocked(reason), Some(by)) => {
            format!("blocked: {} until {by} woke it", reason.words_and_name())
        }
        (ThreadState::Blocked(reason), None) => format!("blocked: {}", reason.words_and_name()),
        (ThreadState::Unknown | ThreadState::Dead, _) => "unknown".to_owned(),
    }
}

/// Columns of a step. Times are ns; `at` counts from the start of the trace.
fn fields<'f>(file: &'f TraceFile<'_>) -> Vec<Field<'f, PathStep>> {
    let thread = |step: &PathStep| file.thread(step.task);
    let indented =
        move |step: &PathStep| format!("{:depth$}{}", "", thread(step).shown(), depth = step.depth * 2);
    let by = |step: &PathStep| Some(Who::of_waker(step.waker?, file));
    let mut fields = vec![
        time_field("at_ns", "AT s", 0, seconds, |step: &PathStep| file.since_begin(step.from_ns)),
        time_field("length_ns", "FOR ms", 0, millis, PathStep::ns),
        Field::count("depth", |step: &PathStep| step.depth as u64),
        Field::shown("THREAD", 0, indented).left(),
        Field::shown("PID/TID", 0, move |step: &PathStep| thread(step).ids()).whole(),
        Field::shown("DID, the last first", 0, |step: &PathStep| what(step, file)).left(),
    ];
    fields.extend(who_fields(["kind", "name", "pid", "tid"], thread));
    fields.extend([
        Field::text("state", |step: &PathStep| Some(step.state.name().into())),
        Field::count("cpu", |step: &PathStep| u64::from(step.cpu)),
        Field::text("reason", |step: &PathStep| Some(step.state.reason()?.name())),
        Field::int("is_explained", |step: &PathStep| i64::from(step.is_explained)),
        Field::text("woken_by", move |step: &PathStep| Some(by(step)?.name.into())),
        Field::int("woken_by_tid", move |step: &PathStep| by(step)?.tid.map(i64::from)),
        Field::text("behind", |step: &PathStep| Some(file.thread(step.behind.first()?.0).name.into())),
        Field::count("behind_ns", |step: &PathStep| Some(step.behind.first()?.1)),
    ]);
    fields
}

/// Where the time of the steps went, and whose it was.
fn sums(steps: &[PathStep], file: &TraceFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut whose: HashMap<TraceTask, u64> = HashMap::new();
    let (mut run, mut ready, mut blocked, mut unknown) = (0, 0, 0, 0);
    for step in steps.iter().filter(|step| !step.is_explained) {
        *whose.entry(step.task).or_default() += step.ns();
        *match step.state {
            ThreadState::Running => &mut run,
            ThreadState::ReadyWoken | ThreadState::ReadyPreempted => &mut ready,
            ThreadState::Blocked(_) => &mut blocked,
            ThreadState::Unknown | ThreadState::Dead => &mut unknown,
        } += step.ns();
    }
    let mut whose: Vec<_> = whose.into_iter().collect();
    whose.sort_by_key(|(task, ns)| (std::cmp::Reverse(*ns), *task));
    let [all, run, ready, blocked, unknown] =
        [run + ready + blocked + unknown, run, ready, blocked, unknown].map(millis);
    writeln!(out)?;
    let sum =
        format!("{all} ms = ran {run} + waited for a CPU {ready} + blocked {blocked} + unknown {unknown}");
    paragraph(&sum, terminal_columns(), out)?;
    if whose.is_empty() {
        return Ok(());
    }
    paragraph(&format!("of which {}", behind(&whose, file, SHOWN + 2)), terminal_columns(), out)
}
