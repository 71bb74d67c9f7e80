//! Reports on the waits of a trace. `cpumon trace delays` lists the longest single waits for a CPU, `histogram` shows how long waits and
//! slices are, `wakers` which threads wake which, and `path` the waits of a thread before a moment, with the threads that it waited for.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use anyhow::Context;
use cpumon_model::delay_range_ns;
use cpumon_query::fields::{Field, spark};
use cpumon_trace::{
    DurationOf, DurationRow, GroupRow, HeldThread, LongWait, PathStep, PathSums, ReportBy, ThreadState,
    ThreadTotals, TraceHistory, TraceRange, Waker, WakerKey, WakerRow, durations, group_of, history,
    longest_waits,
};

use super::{
    TABLE_ROWS, TraceFile, Who, behind, behind_fields, cut, end, found, limit, limit_of, longest_fields,
    longest_wait_fields, micros, millis, missing, named_fields, nothing, ns, or_dash, say_left_out, seconds,
    share, time_field, title, who_fields,
};
use crate::cli::{OutputFormat, TraceDelaysArgs, TraceHistogramArgs, TracePathArgs, TraceWakersArgs};
use crate::exit::{Outcome, Usage, say};
use crate::output::{paragraph, terminal_columns, write_columns, write_rows};

/// Culprits of a wait or a step in a table.
const SHOWN_CULPRITS: usize = 3;
/// Threads of a program in a table of sums.
const SHOWN_THREADS: usize = 5;

pub(crate) fn delays(args: &TraceDelaysArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (waits, ending) = file.read(|trace| longest_waits(trace, range, limit(&args.input)))?;
    write_rows(args.input.format.get(), &wait_fields(&file), &waits, out)
        .context("cannot write the waits")?;
    end(out, waits.len(), "thread that waited for a CPU", &ending, ending.lost)
}

/// Columns of a wait. Times are ns; `at` counts from the start of the trace.
fn wait_fields<'f>(file: &'f TraceFile<'_>) -> Vec<Field<'f, LongWait>> {
    let thread = |wait: &LongWait| file.thread(wait.task);
    let waker = |wait: &LongWait| Some(Who::of_waker(Waker::Task(wait.waker?), file));
    let after = move |wait: &LongWait| match waker(wait) {
        Some(waker) => format!("woken by {}", waker.shown()),
        None if wait.is_preempted => "preempted".to_owned(),
        None => "woken".to_owned(),
    };
    let waited = |wait: &LongWait| format!("{}{}", millis(wait.ns), if wait.is_over { "" } else { "+" });
    let mut fields = vec![
        time_field("at_ns", "AT s", 1, seconds, |wait: &LongWait| file.since_begin(wait.from_ns)),
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

pub(crate) fn histogram(args: &TraceHistogramArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (mut rows, ending) = file.read(|trace| durations(trace, range, args.of, args.by))?;
    let count = rows.len();
    let left_out = cut(&mut rows, &args.input);
    match args.input.format.get().file() {
        None => {
            histogram_table(&rows, args.by, &file, out).context("cannot write the histograms")?;
            say_left_out(left_out, out)?;
        }
        Some(format) => cpumon_export::rows(format, &bucket_fields(), rows.iter().flat_map(buckets), out)?,
    }
    let what = if args.of == DurationOf::Run { "slice that ended" } else { "wait that ended" };
    end(out, count, what, &ending, ending.lost)
}

/// The power of two below the lengths of a bucket.
fn power(bucket: u8) -> u32 {
    (*delay_range_ns(bucket).start()).max(1).ilog2()
}

/// Lowest and highest power of two with any length.
fn powers(rows: &[DurationRow]) -> RangeInclusive<u32> {
    let all = rows.iter().flat_map(|row| row.durations.histogram.iter()).map(|(bucket, _)| power(bucket));
    let (low, high) = all.fold((u32::MAX, 0), |(low, high), power| (low.min(power), high.max(power)));
    low..=high
}

fn shape(row: &DurationRow, powers: &RangeInclusive<u32>, is_ascii: bool) -> String {
    let (low, high) = (*powers.start(), *powers.end());
    let mut counts = vec![None; (high.saturating_sub(low) + 1) as usize];
    for (bucket, count) in row.durations.histogram.iter() {
        if let Some(sum) = counts.get_mut((power(bucket) - low) as usize) {
            *sum = Some(sum.unwrap_or(0.0) + count as f64);
        }
    }
    spark(&counts, is_ascii)
}

fn histogram_table(
    rows: &[DurationRow],
    by: ReportBy,
    file: &TraceFile<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (powers, is_ascii) = (powers(rows), !cpumon_tui::is_utf8_locale());
    let percentile = |row: &DurationRow, percent| or_dash(row.durations.percentile_ns(percent), micros);
    let who = |row: &DurationRow| Who::new(&row.key, &row.name);
    let mut fields: Vec<_> = named_fields(title(by), by, 0, who).collect();
    fields.extend([
        Field::shown("COUNT", 0, |row: &DurationRow| row.durations.histogram.total().to_string()),
        Field::shown("SUM ms", 1, |row: &DurationRow| millis(row.durations.total_ns)),
        Field::shown("p50 us", 1, move |row: &DurationRow| percentile(row, 50)),
        Field::shown("p90 us", 3, move |row: &DurationRow| percentile(row, 90)),
        Field::shown("p99 us", 1, move |row: &DurationRow| percentile(row, 99)),
        Field::shown("MAX us", 0, |row: &DurationRow| micros(row.durations.longest.ns)),
        Field::shown("AT s", 4, |row: &DurationRow| seconds(file.since_begin(row.durations.longest.from_ns))),
        Field::shown("HISTOGRAM", 2, |row: &DurationRow| shape(row, &powers, is_ascii)),
    ]);
    write_columns(&fields, rows, terminal_columns(), out)?;
    if !rows.is_empty() {
        let (low, high) = (1_u64 << powers.start(), 1_u64 << (powers.end() + 1));
        let [low, high] = [low, high].map(micros);
        let note = format!("HISTOGRAM: a bar for each power of two, {low} to {high} us.");
        paragraph(&note, terminal_columns(), out)?;
    }
    Ok(())
}

/// A bucket of a row, with its count.
type DurationBucket<'r> = (&'r DurationRow, u8, u64);

fn buckets(row: &DurationRow) -> impl Iterator<Item = DurationBucket<'_>> {
    row.durations.histogram.iter().map(move |(bucket, count)| (row, bucket, count))
}

/// Columns of the buckets that have a count.
fn bucket_fields<'r>() -> Vec<Field<'r, DurationBucket<'r>>> {
    let mut fields: Vec<Field<'r, DurationBucket<'r>>> =
        who_fields(["kind", "name", "pid", "tid"], |(row, ..): &DurationBucket<'r>| {
            Who::new(&row.key, &row.name)
        })
        .into();
    fields.extend([
        Field::count("from_ns", |(_, bucket, _): &DurationBucket<'r>| *delay_range_ns(*bucket).start()),
        Field::count("to_ns", |(_, bucket, _): &DurationBucket<'r>| *delay_range_ns(*bucket).end()),
        Field::count("count", |(.., count): &DurationBucket<'r>| *count),
    ]);
    fields
}

pub(crate) fn wakers(args: &TraceWakersArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (wakers, ending) = file.read(|trace| cpumon_trace::wakers(trace, range))?;
    let mut rows = wakers.rows(args.by, file.tasks());
    let count = rows.len();
    let left_out = cut(&mut rows, &args.input);
    let format = args.input.format.get();
    write_rows(format, &pair_fields(args.by, &file), &rows, out).context("cannot write the rows")?;
    if format == OutputFormat::Table {
        say_left_out(left_out, out)?;
        if !wakers.has_interrupts {
            let note = "Without --irq in the recording, who was only interrupted counts as waker.";
            paragraph(note, terminal_columns(), out)?;
        }
    }
    if wakers.left_out > 0 {
        out.flush()?;
        say(&format!(
            "{} wakeups are in no row, because there are too many pairs; choose a part of the trace with --from and --to",
            wakers.left_out
        ));
        missing(&ending, ending.lost);
        return Ok(Outcome::DataMissing);
    }
    end(out, count, "wakeup", &ending, ending.lost)
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

/// Columns of a pair. Times are ns; `at` counts from the start of the trace.
fn pair_fields<'f>(by: ReportBy, file: &'f TraceFile<'_>) -> Vec<Field<'f, WakerRow>> {
    let mut fields: Vec<_> = who_fields(["waker_kind", "waker", "waker_pid", "waker_tid"], waker).into();
    fields.extend(named_fields("WAKER", by, 1, waker));
    fields.extend(who_fields(["woken_kind", "woken", "woken_pid", "woken_tid"], woken));
    fields.extend(named_fields("WOKEN", by, 1, woken));
    fields.extend([
        Field::count("wakeups", |row: &WakerRow| row.counts.wakeups).titled("WAKEUPS", 0),
        Field::count("runs", |row: &WakerRow| row.counts.runs),
        Field::count("runs_on_cpu_of_wakeup", |row: &WakerRow| row.counts.runs_here)
            .titled("SAME CPU %", 4)
            .shows(|row| share(row.counts.runs_here, row.counts.runs)),
        Field::count("delay_ns", |row: &WakerRow| row.counts.delay_ns),
        time_field("delay_mean_ns", "MEAN us", 2, micros, |row: &WakerRow| {
            row.counts.delay_ns.checked_div(row.counts.runs)
        }),
    ]);
    let [max, at, cpu] = longest_fields(0, file.began_ns, |row: &WakerRow| {
        (row.counts.runs > 0).then_some(row.counts.longest)
    });
    fields.extend([max, at, cpu.titled("CPU", 5)]);
    fields
}

/// Steps of a path that is not shown in a table.
const MAX_STEPS: usize = 100_000;
/// Steps that are added up at most, with the slices that they are compared with, of all threads of a process together.
const MAX_SUMMED: usize = 10_000_000;
/// Most threads of one name in an error.
const MAX_NAMED: usize = 8;

pub(crate) fn path(args: &TracePathArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let from_ns = args.from.map_or(0, ns);
    let until_ns = args.at.map_or(u64::MAX, ns);
    if from_ns >= until_ns {
        return Err(Usage("--at must be after --from".to_owned()).into());
    }
    let mut file = TraceFile::open(&args.file)?;
    let (history, ending) = file.read(|trace| history(trace, TraceRange { from_ns, until_ns }))?;
    let threads = match (&args.thread, &args.process) {
        (Some(thread), _) => find_thread(thread, &history, &file).map(|thread| vec![thread]),
        (None, process) => threads_of(process.as_deref().unwrap_or_default(), &history, &file),
    };
    let threads = match threads {
        Err(why) if history.threads().next().is_none() => return nothing(&ending, why.into()),
        threads => threads?,
    };
    let format = args.format.get();
    let most = if args.thread.is_some() { limit_of(args.limit, format, MAX_STEPS) } else { 0 };
    let (mut steps, mut sums, mut left) = (Vec::new(), PathSums::new(file.tasks()), MAX_SUMMED);
    let mut left_out = 0;
    for HeldThread { task, until_ns, .. } in threads {
        let at_ns =
            args.at.map_or(until_ns, |at| file.began_ns.saturating_add(ns(at)).min(ending.known_until_ns));
        for step in history.path(task, at_ns) {
            left = left.saturating_sub(1 + step.slices);
            sums.add(&step);
            if steps.len() < most {
                steps.push(step);
            } else {
                left_out += 1;
            }
            if left == 0 {
                break;
            }
        }
    }
    let mut rows = sums.rows(args.by);
    if format == OutputFormat::Table {
        let most = if args.thread.is_some() { TABLE_ROWS } else { limit_of(args.limit, format, MAX_STEPS) };
        write_sums(&rows, &sums, args.by, most, out)?;
    }
    if args.thread.is_some() {
        if format == OutputFormat::Table {
            writeln!(out)?;
        }
        write_rows(format, &step_fields(&file), &steps, out).context("cannot write the path")?;
        if format == OutputFormat::Table {
            say_left_out(left_out, out)?;
        } else if args.limit.is_none() && left_out > 0 {
            say(&format!("{left_out} more steps; --limit writes them"));
        }
    } else if format != OutputFormat::Table {
        rows.truncate(limit_of(args.limit, format, MAX_STEPS));
        write_rows(format, &sum_fields(args.by, 0), &rows, out).context("cannot write the sums")?;
    }
    out.flush()?;
    let outcome = missing(&ending, ending.lost);
    if left == 0 {
        say(&format!(
            "the sums are not of the whole range, because the paths have more than {MAX_SUMMED} steps and slices; choose a part of the trace with --from and --at"
        ));
        return Ok(Outcome::DataMissing);
    }
    if history.dropped_until_ns > 0 {
        say(&format!(
            "the path ends at {} s, because the trace has too many events before that to hold; go back from there with --at",
            seconds(file.since_begin(history.dropped_until_ns))
        ));
        return Ok(Outcome::DataMissing);
    }
    Ok(found(rows.len(), "event of the thread before that moment", outcome))
}

fn find_thread(text: &str, history: &TraceHistory, file: &TraceFile<'_>) -> Result<HeldThread, Usage> {
    let tid = text.parse::<u32>().ok();
    let is_it = |who: &Who| if tid.is_some() { who.tid == tid } else { who.name == text };
    let mut found: Vec<_> = history
        .threads()
        .map(|thread| (thread, file.thread(thread.task)))
        .filter(|(_, who)| is_it(who))
        .collect();
    found.sort_by_key(|(thread, _)| thread.until_ns);
    let is_one = tid.is_some() || found.iter().all(|(_, who)| who.tid == found[0].1.tid);
    match found.pop() {
        None => Err(Usage(format!("no thread {text:?} has any event in this part of the trace"))),
        // An id that was reused: the last thread that had it.
        Some((thread, _)) if is_one => Ok(thread),
        Some(last) => {
            let all = found.iter().chain([&last]).filter_map(|(_, who)| who.tid);
            let tids: Vec<String> = all.take(MAX_NAMED).map(|tid| tid.to_string()).collect();
            let more = if found.len() + 1 > MAX_NAMED { ", …" } else { "" };
            let count = found.len() + 1;
            Err(Usage(format!(
                "{count} threads are called {text:?}: {}{more}; give one of these ids, or all threads with --process",
                tids.join(", ")
            )))
        }
    }
}

/// The threads of a process, or of all processes with a name, that ran.
fn threads_of(text: &str, history: &TraceHistory, file: &TraceFile<'_>) -> Result<Vec<HeldThread>, Usage> {
    let pid = text.parse::<u32>().ok();
    let is_it = |thread: &HeldThread| {
        let (key, name) = group_of(thread.task, ReportBy::Process, file.tasks());
        let who = Who::new(&key, &name);
        thread.has_run && if pid.is_some() { who.pid == pid } else { who.name == text }
    };
    let found: Vec<_> = history.threads().filter(is_it).collect();
    if found.is_empty() {
        return Err(Usage(format!("no thread of a process {text:?} ran in this part of the trace")));
    }
    Ok(found)
}

fn step_waker(waker: Waker, file: &TraceFile<'_>) -> String {
    match Who::of_waker(waker, file) {
        who if who.kind == "idle" => "an interrupt".to_owned(),
        who => who.shown(),
    }
}

fn what_it_did(step: &PathStep, file: &TraceFile<'_>) -> String {
    let cpu = step.cpu;
    let after = match step.behind.as_slice() {
        [] => String::new(),
        culprits => format!(", behind {}", behind(culprits, file, SHOWN_CULPRITS)),
    };
    let by = step.waker.map(|by| step_waker(by, file));
    match (step.state, by) {
        (ThreadState::Running, _) => format!("ran on CPU {cpu}"),
        (ThreadState::ReadyWoken, Some(by)) => format!("ready on CPU {cpu} since {by} woke it{after}"),
        (ThreadState::ReadyWoken, None) => format!("ready on CPU {cpu}{after}"),
        (ThreadState::ReadyPreempted, _) => format!("preempted on CPU {cpu}{after}"),
        (ThreadState::Blocked(reason), Some(by)) if step.is_explained => {
            format!("blocked: {} until {by} woke it; before that, {by}:", reason.words_and_name())
        }
        (ThreadState::Blocked(reason), Some(by)) => {
            format!("blocked: {} until {by} woke it", reason.words_and_name())
        }
        (ThreadState::Blocked(reason), None) => format!("blocked: {}", reason.words_and_name()),
        (ThreadState::Unknown | ThreadState::Dead, _) => "unknown".to_owned(),
    }
}

/// Columns of a step. Times are ns; `at` counts from the start of the trace.
fn step_fields<'f>(file: &'f TraceFile<'_>) -> Vec<Field<'f, PathStep>> {
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
        Field::shown("WHAT IT DID (latest first)", 0, |step: &PathStep| what_it_did(step, file)).left(),
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

/// Columns of a row of the sums; `all_ns`: the time of all rows, 0 where shares are not shown.
fn sum_fields(by: ReportBy, all_ns: u64) -> Vec<Field<'static, GroupRow>> {
    type Row = GroupRow;
    let who = |row: &Row| Who::new(&row.key, &row.name);
    let mut fields: Vec<_> = named_fields(title(by), ReportBy::Thread, 0, who).collect();
    fields.extend(who_fields(["kind", "name", "pid", "tid"], who));
    fields.extend([
        time_field("time_ns", "TIME ms", 0, millis, |row: &Row| row.totals.all_ns()),
        Field::shown("TIME %", 0, move |row: &Row| share(row.totals.all_ns(), all_ns)),
        time_field("run_ns", "RAN ms", 1, millis, |row: &Row| row.totals.run_ns),
        time_field("ready_ns", "READY ms", 1, millis, |row: &Row| row.totals.ready_ns()),
    ]);
    fields.extend(behind_fields(2));
    fields.push(time_field("blocked_ns", "BLOCKED ms", 1, millis, |row: &Row| row.totals.blocked_ns));
    fields.extend(longest_wait_fields(2));
    fields.push(time_field("unknown_ns", "UNKNOWN ms", 3, millis, |row: &Row| row.totals.unknown_ns));
    fields
}

/// Where the time of a path went, and whose it was.
fn write_sums(
    rows: &[GroupRow],
    sums: &PathSums<'_>,
    by: ReportBy,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut all = ThreadTotals::default();
    for row in rows {
        all.merge(&row.totals);
    }
    let [time, run, ready, blocked, unknown] =
        [all.all_ns(), all.run_ns, all.ready_ns(), all.blocked_ns, all.unknown_ns].map(millis);
    let sum = format!("{time} ms = ran {run} + ready {ready} + blocked {blocked} + unknown {unknown}");
    paragraph(&sum, terminal_columns(), out)?;
    writeln!(out)?;
    let mut lines = Vec::new();
    let tasks = if by == ReportBy::Thread { HashMap::new() } else { sums.tasks_of_rows(by) };
    for row in rows.iter().take(most) {
        lines.push(row.clone());
        if row.threads > 1
            && let Some(tasks) = tasks.get(&row.key)
        {
            for mut thread in sums.threads(tasks).into_iter().take(SHOWN_THREADS) {
                thread.name = format!("  {}", thread.name).into();
                lines.push(thread);
            }
        }
    }
    write_columns(&sum_fields(by, all.all_ns()), &lines, terminal_columns(), out)?;
    if rows.len() > most {
        writeln!(out, "{} more", rows.len() - most)?;
    }
    Ok(())
}
