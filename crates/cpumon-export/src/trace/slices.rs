//! A trace as rows: one for each time that a thread was in one state.

use std::collections::HashMap;
use std::io::{self, Write};

use cpumon_model::{Leaves, SchedEventKind, TraceTask, Value};
use cpumon_trace::{CpuSpan, Ending, SpanSink, ThreadSpan, ThreadState, TraceRange, TraceSource, Tracker};

use super::error::TraceExportError;
use super::survey::TraceSurvey;
use crate::ExportError;
use crate::csv::Csv;
use crate::parquet::{ColumnKind, Parquet};
use crate::rows::RowSink;

/// Wakeups of a thread that are remembered: a thread may be woken again before it runs.
const WAKEUPS: usize = 4;

/// Columns of a slice. Times are ns since the start of the trace.
pub const SLICE_COLUMNS: [&str; 13] = [
    "start_ns",
    "end_ns",
    "cpu",
    "tid",
    "thread_start_ns",
    "pid",
    "name",
    "program",
    "state",
    "reason",
    "woken_by_tid",
    "woken_by",
    "is_over",
];

/// What each of them has.
const SLICE_KINDS: [ColumnKind; 13] = {
    use ColumnKind::{Int, Text};
    [Int, Int, Int, Int, Int, Int, Text, Text, Text, Text, Int, Text, Int]
};

/// Writes a trace's slices as CSV, in the order of their ends. `survey` is of the same trace.
pub fn trace_slices<S: TraceSource>(
    survey: &TraceSurvey<S>,
    trace: &mut S,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    trace_slices_of(survey, trace, TraceRange::default(), out)
}

/// Writes those slices that a range has a part of, as they are: not cut at its ends.
pub fn trace_slices_of<S: TraceSource>(
    survey: &TraceSurvey<S>,
    trace: &mut S,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    let (mut csv, ending) = slices(survey, trace, range, Csv::new(out))?;
    csv.flush().map_err(ExportError::from)?;
    Ok(ending)
}

/// Writes the same as Parquet, compressed with zstd.
pub fn trace_slices_parquet<S: TraceSource>(
    survey: &TraceSurvey<S>,
    trace: &mut S,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    let (parquet, ending) = slices(survey, trace, range, Parquet::new(out, &SLICE_KINDS))?;
    parquet.finish().map_err(ExportError::from)?;
    Ok(ending)
}

/// Writes rows to a sink, which it returns.
fn slices<S: TraceSource, K: RowSink>(
    survey: &TraceSurvey<S>,
    trace: &mut S,
    range: TraceRange,
    mut rows: K,
) -> Result<(K, Ending), TraceExportError> {
    rows.header(&SLICE_COLUMNS).map_err(ExportError::from)?;
    let began_ns = trace.header().began.mono_ns;
    let sink = Slices { survey, rows, began_ns, range, wakeups: HashMap::new(), result: Ok(()) };
    let mut tracker = Tracker::new(began_ns, sink);
    if !trace.is_watched_from_begin() {
        tracker = tracker.with_unknown_begin();
    }
    let ending = trace.read(&mut |event| {
        if let SchedEventKind::Waking { task, waker, .. } = event.kind {
            tracker.sink().note(task, waker, event.at_ns);
        }
        tracker.event(&event);
    })?;
    let sink = tracker.finish(ending.known_until_ns);
    sink.result.map_err(ExportError::from)?;
    Ok((sink.rows, ending))
}

struct Slices<'s, S, K> {
    survey: &'s TraceSurvey<S>,
    rows: K,
    began_ns: u64,
    range: TraceRange,
    /// The latest wakeups of each thread, the newest last.
    wakeups: HashMap<TraceTask, Vec<(u64, TraceTask)>>,
    /// Nothing is written behind an error.
    result: io::Result<()>,
}

impl<S: TraceSource, K: RowSink> Slices<'_, S, K> {
    fn note(&mut self, task: TraceTask, waker: TraceTask, at_ns: u64) {
        let wakeups = self.wakeups.entry(task).or_default();
        if wakeups.len() == WAKEUPS {
            wakeups.remove(0);
        }
        wakeups.push((at_ns, waker));
    }

    /// Who woke the thread that has been ready since then. A wakeup on the way to sleep comes before.
    fn waker(&self, span: &ThreadSpan) -> Option<TraceTask> {
        if span.state != ThreadState::ReadyWoken {
            return None;
        }
        let wakeups = self.wakeups.get(&span.task)?;
        wakeups.iter().rev().find(|(at_ns, _)| *at_ns <= span.since_ns).map(|(_, waker)| *waker)
    }

    fn write(&mut self, span: &ThreadSpan) -> io::Result<()> {
        let (state, reason) = match span.state {
            ThreadState::Unknown => ("unknown", None),
            ThreadState::Running => ("running", None),
            ThreadState::ReadyWoken => ("ready", None),
            ThreadState::ReadyPreempted => ("preempted", None),
            ThreadState::Blocked(reason) => ("blocked", Some(reason)),
            ThreadState::Dead => return Ok(()),
        };
        let survey = self.survey;
        let names = survey.names(span.task);
        let waker = self.waker(span);
        let text = |text| Value::Text(text);
        let since_begin = |ns: u64| Value::count(ns.saturating_sub(self.began_ns));
        let waker_name = waker.map(|waker| match survey.names(waker) {
            Some(names) => names.comm,
            None if waker == TraceTask::IDLE => "idle".into(),
            None => format!("task {}", waker.0).into(),
        });
        let row = [
            since_begin(span.from_ns),
            since_begin(span.until_ns),
            Value::count(span.cpu.into()),
            Value::count(survey.tid(span.task).into()),
            names.as_ref().map_or(Value::Null, |names| Value::count(names.thread.start_ns)),
            names.as_ref().map_or(Value::Null, |names| Value::count(names.process.pid.into())),
            names.as_ref().map_or(Value::Null, |names| text(names.comm.clone())),
            names.as_ref().map_or(Value::Null, |names| text(names.program.clone())),
            text(state.into()),
            reason.map_or(Value::Null, |reason| text(reason.name())),
            waker.map_or(Value::Null, |waker| Value::count(survey.tid(waker).into())),
            waker_name.map_or(Value::Null, text),
            Value::count(span.is_over.into()),
        ];
        self.rows.row(&row)
    }
}

impl<S: TraceSource, K: RowSink> SpanSink for Slices<'_, S, K> {
    fn thread(&mut self, span: &ThreadSpan) {
        let is_inside = span.until_ns.saturating_sub(self.began_ns) > self.range.from_ns
            && span.from_ns.saturating_sub(self.began_ns) < self.range.until_ns;
        if is_inside && self.result.is_ok() && span.until_ns > span.from_ns {
            self.result = self.write(span);
        }
    }

    fn cpu(&mut self, _: &CpuSpan) {}

    fn left(&mut self, _: usize, _: Leaves, _: u64) {}

    fn moved(&mut self, _: usize, _: u64) {}

    fn hole(&mut self, _: u16, _: u64) {}

    fn unknown_wakeup(&mut self, _: usize, _: u64) {}

    fn lost(&mut self, _: u16, _: u64, _: u64) {}
}
