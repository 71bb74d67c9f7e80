//! Traces as files of other programs: as rows of slices, one for each time that a thread was in one state, and in the format of Perfetto.
//!
//! A trace is read twice: names may come after the events of a task, and both formats have them in front.

mod perfetto;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use cpumon_query::fields::Field;
use cpumon_trace::{
    Ending, ReadError, RecentWakers, SchedEventKind, SpanSink, TaskNames, Tasks, ThreadSpan, ThreadState,
    TraceRange, TraceSource, TraceTask, Wakeup,
};

use crate::rows::{RowSink, columns};
use crate::{ExportError, Format};
pub use perfetto::trace_perfetto;

/// Ids of threads without a name in the trace: above the kernel's largest (2^22).
const UNNAMED: u32 = 1 << 23;

/// Threads that began in the trace and are known to have. Further ones count as from before it.
const MAX_BORN: usize = (1 << 22) / 8 * 7;

/// Facts about a trace that has been read once.
pub struct TraceSurvey {
    tasks: Tasks,
    born: HashSet<TraceTask>,
    pub ending: Ending,
    pub events: u64,
}

impl TraceSurvey {
    /// Reads a trace; only this survey stays in memory.
    pub fn new(mut trace: impl TraceSource) -> Result<Self, ReadError> {
        let (mut born, mut left_out, began_ns) = (HashSet::new(), 0, trace.header().began.mono_ns);
        let mut events = 0;
        let mut ending = trace.read(&mut |event| {
            events += 1;
            let SchedEventKind::Born { task, .. } = event.kind else { return };
            // Tasks born before the trace existed when it began.
            if event.at_ns <= began_ns {
                return;
            }
            if born.len() < MAX_BORN {
                born.insert(task);
            } else {
                left_out += u64::from(!born.contains(&task));
            }
        })?;
        ending.unfollowed = left_out;
        Ok(Self { tasks: std::mem::take(trace.tasks_mut()), born, ending, events })
    }

    /// How a second reading, which has no names, ended: names that the first one lacked are missing in it too.
    fn ending_of(&self, again: Ending, unfollowed: u64) -> Ending {
        let unfollowed = self.ending.unfollowed.saturating_add(unfollowed);
        Ending { unnamed: self.ending.unnamed, unfollowed, ..again }
    }

    fn is_born(&self, task: TraceTask) -> bool {
        self.born.contains(&task)
    }

    fn names(&self, task: TraceTask) -> Option<TaskNames<'_>> {
        self.tasks.find(task)
    }

    /// The thread's id; of a task without a name one that the kernel does not use.
    fn tid(&self, task: TraceTask) -> u32 {
        if task == TraceTask::IDLE {
            return 0;
        }
        self.names(task)
            .map_or(UNNAMED.saturating_add(task.0).min(i32::MAX.unsigned_abs()), |names| names.thread.tid)
    }
}

/// A time that a thread was in one state.
struct SliceRow<'s> {
    span: ThreadSpan,
    /// When the trace began, ns.
    began_ns: u64,
    survey: &'s TraceSurvey,
    names: Option<TaskNames<'s>>,
    waker: Option<TraceTask>,
}

impl SliceRow<'_> {
    fn since_begin(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.began_ns)
    }

    fn waker_name(&self) -> Option<Cow<'_, str>> {
        let waker = self.waker?;
        Some(match self.survey.names(waker) {
            Some(names) => names.comm,
            None if waker == TraceTask::IDLE => "idle".into(),
            None => format!("task {}", waker.0).into(),
        })
    }
}

/// Columns of a slice. Times are ns since the start of the trace.
fn fields<'s>() -> [Field<'s, SliceRow<'s>>; 13] {
    type Row<'s> = SliceRow<'s>;
    [
        Field::count("start_ns", |row: &Row<'s>| row.since_begin(row.span.from_ns)),
        Field::count("end_ns", |row: &Row<'s>| row.since_begin(row.span.until_ns)),
        Field::count("cpu", |row: &Row<'s>| u64::from(row.span.cpu)),
        Field::count("tid", |row: &Row<'s>| u64::from(row.survey.tid(row.span.task))),
        Field::count("thread_start_ns", |row: &Row<'s>| Some(row.names.as_ref()?.thread.start_ns)),
        Field::count("pid", |row: &Row<'s>| Some(u64::from(row.names.as_ref()?.process.pid))),
        Field::text("name", |row: &Row<'s>| Some((&*row.names.as_ref()?.comm).into())),
        Field::text("program", |row: &Row<'s>| Some((&*row.names.as_ref()?.program).into())),
        Field::text("state", |row: &Row<'s>| Some(row.span.state.name().into())),
        Field::text("reason", |row: &Row<'s>| Some(row.span.state.reason()?.name())),
        Field::count("woken_by_tid", |row: &Row<'s>| Some(u64::from(row.survey.tid(row.waker?)))),
        Field::text("woken_by", SliceRow::waker_name),
        Field::int("is_over", |row: &Row<'s>| i64::from(row.span.is_over)),
    ]
}

/// Writes a trace's slices, in the order of their ends: those that overlap the range, uncut. A range without any is an
/// error. `survey` is of the same trace.
pub fn trace_slices(
    format: Format,
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    range: TraceRange,
    out: &mut dyn Write,
) -> Result<Ending, ExportError> {
    let mut rows = format.rows(out);
    let fields = fields();
    rows.columns(&columns(&fields).collect::<Vec<_>>(), None)?;
    trace.tasks_mut().limit(0);
    let began_ns = trace.header().began.mono_ns;
    let wakers = RecentWakers::default();
    let sink = Slices { survey, fields, rows, began_ns, range, wakers, has_rows: false, result: Ok(()) };
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
    fields: [Field<'s, SliceRow<'s>>; 13],
    rows: Box<dyn RowSink + 's>,
    began_ns: u64,
    range: TraceRange,
    wakers: RecentWakers,
    has_rows: bool,
    /// After an error nothing more is written.
    result: io::Result<()>,
}

impl Slices<'_> {
    fn write(&mut self, span: &ThreadSpan) -> io::Result<()> {
        if span.state == ThreadState::Dead {
            return Ok(());
        }
        let (survey, names) = (self.survey, self.survey.names(span.task));
        let waker = self.wakers.of(span);
        let row = SliceRow { span: *span, began_ns: self.began_ns, survey, names, waker };
        self.has_rows = true;
        self.rows.row(&self.fields.each_ref().map(|field| field.value(&row)))
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
