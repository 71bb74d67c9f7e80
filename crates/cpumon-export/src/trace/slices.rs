//! A trace as rows: one for each time that a thread was in one state.

use std::io::{self, Write};

use cpumon_model::{Kind as ValueKind, TraceTask, Value};
use cpumon_trace::{
    Ending, RecentWakers, SpanSink, ThreadSpan, ThreadState, TraceRange, TraceSource, Wakeup,
};

use super::TraceSurvey;
use crate::rows::{RowSink, SinkColumn};
use crate::{ExportError, Format};

/// Columns of a slice. Times are ns since the start of the trace.
pub const SLICE_COLUMNS: [(&str, ValueKind); 13] = {
    use ValueKind::{Integer, Text};
    [
        ("start_ns", Integer),
        ("end_ns", Integer),
        ("cpu", Integer),
        ("tid", Integer),
        ("thread_start_ns", Integer),
        ("pid", Integer),
        ("name", Text),
        ("program", Text),
        ("state", Text),
        ("reason", Text),
        ("woken_by_tid", Integer),
        ("woken_by", Text),
        ("is_over", Integer),
    ]
};

/// Writes a trace's slices, in the order of their ends: those that overlap the range, uncut. A range without any is an
/// error. `survey` is of the same trace.
pub fn trace_slices(
    format: Format,
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, ExportError> {
    let mut rows = format.rows(out).ok_or(ExportError::NoLegacyLayout { kind: "traces" })?;
    let columns = SLICE_COLUMNS.map(|(name, kind)| SinkColumn { name, kind: Some(kind) });
    rows.columns(&columns, None)?;
    trace.limit_names(0);
    let began_ns = trace.header().began.mono_ns;
    let wakers = RecentWakers::default();
    let sink = Slices { survey, rows, began_ns, range, wakers, has_rows: false, result: Ok(()) };
    let mut tracker = trace.tracker(sink);
    let ending = trace.read(&mut |event| tracker.event(&event))?;
    let ending = survey.ending_of(ending, tracker.unfollowed());
    let mut sink = trace.finish(tracker, ending.known_until_ns);
    sink.result?;
    if !sink.has_rows {
        return Err(ExportError::NoThread);
    }
    sink.rows.finish()?;
    Ok(ending)
}

struct Slices<'s> {
    survey: &'s TraceSurvey,
    rows: Box<dyn RowSink + 's>,
    began_ns: u64,
    range: TraceRange,
    wakers: RecentWakers,
    has_rows: bool,
    /// Nothing is written behind an error.
    result: io::Result<()>,
}

impl Slices<'_> {
    fn write(&mut self, span: &ThreadSpan) -> io::Result<()> {
        if span.state == ThreadState::Dead {
            return Ok(());
        }
        let survey = self.survey;
        let names = survey.names(span.task);
        let waker = self.wakers.of(span);
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
            text(span.state.name().into()),
            span.state.reason().map_or(Value::Null, |reason| text(reason.name())),
            waker.map_or(Value::Null, |waker| Value::count(survey.tid(waker).into())),
            waker_name.map_or(Value::Null, text),
            Value::count(span.is_over.into()),
        ];
        self.has_rows = true;
        self.rows.row(&row)
    }
}

impl SpanSink for Slices<'_> {
    fn thread(&mut self, span: &ThreadSpan) {
        let is_inside = span.until_ns.saturating_sub(self.began_ns) > self.range.from_ns
            && span.from_ns.saturating_sub(self.began_ns) < self.range.until_ns;
        if is_inside && self.result.is_ok() && span.until_ns > span.from_ns {
            self.result = self.write(span);
        }
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        self.wakers.add(wakeup);
    }

    fn bytes(&self, threads: usize) -> usize {
        self.wakers.bytes(threads)
    }
}
