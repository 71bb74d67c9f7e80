//! A trace as rows: one for each time that a thread was in one state.

use std::io::{self, Write};

use cpumon_model::{Leaves, TraceTask, Value};
use cpumon_trace::{
    CpuSpan, Ending, Slots, SpanSink, ThreadSpan, ThreadState, TraceRange, TraceSource, Tracker, Wakeup,
};

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
pub fn trace_slices(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    trace_slices_of(survey, trace, TraceRange::default(), out)
}

/// Writes those slices that a range has a part of, as they are: not cut at its ends. A range without any is an error.
pub fn trace_slices_of(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    let (mut csv, ending) = slices(survey, trace, range, Csv::new(out))?;
    csv.flush().map_err(ExportError::from)?;
    Ok(ending)
}

/// Writes the same as Parquet, compressed with zstd.
pub fn trace_slices_parquet(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    let (parquet, ending) = slices(survey, trace, range, Parquet::new(out, &SLICE_KINDS))?;
    parquet.finish().map_err(ExportError::from)?;
    Ok(ending)
}

/// Writes rows to a sink, which it returns.
fn slices<K: RowSink>(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    range: TraceRange,
    mut rows: K,
) -> Result<(K, Ending), TraceExportError> {
    rows.header(&SLICE_COLUMNS).map_err(ExportError::from)?;
    trace.limit_names(0);
    let began_ns = trace.header().began.mono_ns;
    let sink =
        Slices { survey, rows, began_ns, range, wakeups: Slots::default(), has_rows: false, result: Ok(()) };
    let mut tracker = Tracker::new(began_ns, sink);
    if !trace.is_watched_from_begin() {
        tracker = tracker.with_unknown_begin();
    }
    let ending = trace.read(&mut |event| tracker.event(&event))?;
    let ending = survey.ending_of(ending, tracker.unfollowed());
    let sink = tracker.finish(ending.known_until_ns);
    sink.result.map_err(ExportError::from)?;
    if sink.has_rows { Ok((sink.rows, ending)) } else { Err(ExportError::NoThread.into()) }
}

/// The latest wakeups of a thread, the newest first.
struct Wakeups([(u64, TraceTask); WAKEUPS]);

impl Default for Wakeups {
    fn default() -> Self {
        Self([(u64::MAX, TraceTask::UNKNOWN); WAKEUPS])
    }
}

struct Slices<'s, K> {
    survey: &'s TraceSurvey,
    rows: K,
    began_ns: u64,
    range: TraceRange,
    wakeups: Slots<Wakeups>,
    has_rows: bool,
    /// Nothing is written behind an error.
    result: io::Result<()>,
}

impl<K: RowSink> Slices<'_, K> {
    /// Who woke the thread that has been ready since then. A wakeup on the way to sleep comes before.
    fn waker(&self, span: &ThreadSpan) -> Option<TraceTask> {
        if span.state != ThreadState::ReadyWoken {
            return None;
        }
        let wakeups = self.wakeups.get(span.slot)?;
        wakeups.0.iter().find(|(at_ns, _)| *at_ns <= span.since_ns).map(|(_, waker)| *waker)
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
        self.has_rows = true;
        self.rows.row(&row)
    }
}

impl<K: RowSink> SpanSink for Slices<'_, K> {
    fn thread(&mut self, span: &ThreadSpan) {
        let is_inside = span.until_ns.saturating_sub(self.began_ns) > self.range.from_ns
            && span.from_ns.saturating_sub(self.began_ns) < self.range.until_ns;
        if is_inside && self.result.is_ok() && span.until_ns > span.from_ns {
            self.result = self.write(span);
        }
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        let Wakeups(wakeups) = self.wakeups.at(wakeup.slot);
        wakeups.rotate_right(1);
        wakeups[0] = (wakeup.at_ns, wakeup.waker);
    }

    fn bytes(&self, threads: usize) -> usize {
        self.wakeups.bytes(threads)
    }

    fn cpu(&mut self, _: &CpuSpan) {}

    fn left(&mut self, _: usize, _: Leaves, _: u64) {}

    fn moved(&mut self, _: usize, _: u64) {}

    fn hole(&mut self, _: u16, _: u64) {}

    fn unknown_wakeup(&mut self, _: usize, _: u64) {}

    fn lost(&mut self, _: u16, _: u64, _: u64) {}
}
