//! `cpumon trace`: records context switches, reports where the time went in a recording, shows it in the browser and on the screens,
//! and exports it for other programs. The reports share this file's code: opening the trace, its range, and the format of values.

mod record;
mod report;
mod stored;
mod view;
mod waits;

pub(crate) use record::record;
pub(crate) use report::report;
pub(crate) use stored::{get, list, take};
pub(crate) use view::{export, top, view};
pub(crate) use waits::{delays, histogram, path, wakers};

use std::borrow::Cow;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cpumon_model::{SOFTIRQ_KINDS, WaitReason, escape};
use cpumon_query::fields::{Field, decimal, name_text};
use cpumon_trace::{
    Ending, GroupKey, GroupRow, LongestDelay, ReportBy, Tasks, TraceInput, TraceRange, TraceSource,
    TraceTask, Waker, group_of,
};
use cpumon_trace_import::AnyTrace;

use crate::cli::{OutputFormat, TraceInputArgs};
use crate::exit::{Outcome, Usage, say};

const BUFFER_BYTES: usize = 1 << 20;
/// Rows of a table, if no number is given.
const TABLE_ROWS: usize = 20;

struct TraceFile<'a> {
    name: &'a Path,
    trace: AnyTrace<'static>,
    /// When the trace began on its clock.
    began_ns: u64,
}

impl<'a> TraceFile<'a> {
    fn open(name: &'a Path) -> anyhow::Result<Self> {
        let trace = open(name)?;
        Ok(Self { name, began_ns: trace.header().began.mono_ns, trace })
    }

    /// Opens the trace, and determines the range of interest.
    fn of(args: &'a TraceInputArgs) -> anyhow::Result<(Self, TraceRange)> {
        let range = range(args.from, args.to)?;
        Ok((Self::open(&args.file)?, range))
    }

    fn read<T, E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        analysis: impl FnOnce(&mut AnyTrace<'static>) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        analysis(&mut self.trace).with_context(|| format!("cannot read {}", self.name.display()))
    }

    fn tasks(&self) -> &Tasks {
        self.trace.tasks()
    }

    /// A time of the trace's clock since its start, ns.
    fn since_begin(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.began_ns)
    }

    fn thread(&self, task: TraceTask) -> Who {
        let (key, name) = group_of(task, ReportBy::Thread, self.tasks());
        Who::new(&key, &name)
    }
}

/// Opens a trace, or the newest recording of a flight recorder's directory.
fn open(name: &Path) -> anyhow::Result<AnyTrace<'static>> {
    AnyTrace::open(BufReader::with_capacity(BUFFER_BYTES, input(name)?))
        .with_context(|| format!("cannot read {}", name.display()))
}

/// The bytes of a trace. Names the recordings that are left out.
fn input(name: &Path) -> anyhow::Result<TraceInput> {
    let input = TraceInput::open(name).with_context(|| format!("cannot open {}", name.display()))?;
    if let Some(other) = input.others.last() {
        say(&format!(
            "{} has {} other recordings, which are left out; for the last of them: {}",
            name.display(),
            input.others.len(),
            other.display()
        ));
    }
    Ok(input)
}

fn range(from: Option<Duration>, to: Option<Duration>) -> Result<TraceRange, Usage> {
    let range = TraceRange { from_ns: from.map_or(0, ns), until_ns: to.map_or(u64::MAX, ns) };
    if range.from_ns >= range.until_ns {
        return Err(Usage("--to must be after --from".to_owned()));
    }
    Ok(range)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn limit(args: &TraceInputArgs) -> usize {
    limit_of(args.limit, args.format.get(), usize::MAX)
}

/// Leaves out the rows behind the limit; how many these are.
fn cut<R>(rows: &mut Vec<R>, args: &TraceInputArgs) -> usize {
    let left_out = rows.len().saturating_sub(limit(args));
    rows.truncate(limit(args));
    left_out
}

/// The limit of rows; `most`: default outside of a table.
fn limit_of(given: Option<u32>, format: OutputFormat, most: usize) -> usize {
    let usual = if format == OutputFormat::Table { TABLE_ROWS } else { most };
    given.map_or(usual, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

fn say_left_out(left_out: usize, out: &mut dyn Write) -> io::Result<()> {
    if left_out > 0 { writeln!(out, "{left_out} more; --limit shows them") } else { Ok(()) }
}

/// Reports on standard error the parts that the trace lacks. `marked`: lost events whose span is known.
fn missing(ending: &Ending, marked: u64) -> Outcome {
    let lacks = ending.problems(marked);
    for lack in &lacks {
        say(lack);
    }
    if lacks.is_empty() { Outcome::Done } else { Outcome::DataMissing }
}

/// The end of a command whose trace has nothing for it: the parts that the trace lacks may be why, and are reported first.
fn nothing(ending: &Ending, why: anyhow::Error) -> anyhow::Result<Outcome> {
    match missing(ending, ending.lost) {
        Outcome::Done => Err(why),
        outcome => {
            say(&why.to_string());
            Ok(outcome)
        }
    }
}

/// The outcome of a result with this many rows. One without any reports why, and is no success.
fn found(rows: usize, what: &str, outcome: Outcome) -> Outcome {
    if rows > 0 {
        return outcome;
    }
    say(&format!("the trace, or the part of it that was asked for, has no {what}"));
    if outcome == Outcome::Done { Outcome::NothingFound } else { outcome }
}

/// Ends a result of that many rows.
fn end(
    out: &mut dyn Write,
    rows: usize,
    what: &str,
    ending: &Ending,
    marked: u64,
) -> anyhow::Result<Outcome> {
    out.flush()?;
    Ok(found(rows, what, missing(ending, marked)))
}

fn title(by: ReportBy) -> &'static str {
    match by {
        ReportBy::Thread => "THREAD",
        ReportBy::Process => "PROCESS",
        ReportBy::Program => "PROGRAM",
        ReportBy::Container => "CONTAINER",
    }
}

/// Task of a cell.
#[derive(Clone, Debug)]
struct Who {
    /// Name; hostile.
    name: String,
    pid: Option<u32>,
    tid: Option<u32>,
    kind: &'static str,
}

impl Who {
    fn new(key: &GroupKey, name: &str) -> Self {
        let (pid, tid, kind) = match key {
            GroupKey::Thread(thread, process) => (Some(process.pid), Some(thread.tid), "thread"),
            GroupKey::Process(process) => (Some(process.pid), None, "process"),
            GroupKey::Program(_) => (None, None, "program"),
            GroupKey::Container(_) => (None, None, "container"),
            GroupKey::Unnamed(_) => (None, None, "unnamed"),
        };
        Self { name: name.to_owned(), pid, tid, kind }
    }

    fn of_waker(waker: Waker, file: &TraceFile<'_>) -> Self {
        match waker {
            Waker::Task(TraceTask::IDLE) => Self::idle(),
            Waker::Task(task) => file.thread(task),
            Waker::Hard(line) => Self::irq(line),
            Waker::Soft(kind) => Self::softirq(kind),
        }
    }

    /// Whatever interrupted an idle CPU.
    fn idle() -> Self {
        Self { name: "(idle)".to_owned(), pid: None, tid: None, kind: "idle" }
    }

    fn irq(line: u16) -> Self {
        Self { name: format!("irq {line}"), pid: None, tid: None, kind: "irq" }
    }

    fn softirq(kind: u16) -> Self {
        let name = SOFTIRQ_KINDS.get(usize::from(kind)).copied().unwrap_or("unknown");
        Self { name: format!("softirq {name}"), pid: None, tid: None, kind: "softirq" }
    }

    /// Name that is safe for a terminal.
    fn shown(&self) -> String {
        name_text(&self.name)
    }

    /// `PID/TID`.
    fn ids(&self) -> String {
        match (self.pid, self.tid) {
            (Some(pid), Some(tid)) => format!("{pid}/{tid}"),
            (Some(pid), None) => pid.to_string(),
            _ => String::new(),
        }
    }
}

/// Columns that identify a row's task: kind, name, pid and tid.
fn who_fields<'f, R: 'f>(names: [&'static str; 4], who: impl Fn(&R) -> Who + Copy + 'f) -> [Field<'f, R>; 4] {
    let [kind, name, pid, tid] = names;
    [
        Field::text(kind, move |row| Some(who(row).kind.into())),
        Field::text(name, move |row| Some(who(row).name.into())),
        Field::int(pid, move |row| who(row).pid.map(i64::from)),
        Field::int(tid, move |row| who(row).tid.map(i64::from)),
    ]
}

/// Title of the column with a row's ids in a table, if it has ids.
fn ids_title(by: ReportBy) -> Option<&'static str> {
    match by {
        ReportBy::Thread => Some("PID/TID"),
        ReportBy::Process => Some("PID"),
        ReportBy::Program | ReportBy::Container => None,
    }
}

/// Columns of a table that name who a row is about; `rank`: of the ids.
fn named_fields<'f, R: 'f>(
    title: &'static str,
    by: ReportBy,
    rank: u8,
    who: impl Fn(&R) -> Who + Copy + 'f,
) -> impl Iterator<Item = Field<'f, R>> {
    let ids = ids_title(by).map(|title| Field::shown(title, rank, move |row| who(row).ids()).whole());
    std::iter::once(Field::shown(title, 0, move |row| who(row).shown()).left()).chain(ids)
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}

fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn micros(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn or_dash(ns: Option<u64>, unit: fn(u64) -> String) -> String {
    ns.map_or_else(|| "-".to_owned(), unit)
}

/// A column of ns, which people see in another unit.
fn time_field<'f, R: 'f, N: Into<Option<u64>> + 'f>(
    name: &'static str,
    title: &'static str,
    rank: u8,
    unit: fn(u64) -> String,
    get: impl Fn(&R) -> N + Copy + 'f,
) -> Field<'f, R> {
    Field::count(name, get).titled(title, rank).shows(move |row| or_dash(get(row).into(), unit))
}

/// Columns of the longest wait for a CPU: its length, its begin since that of the trace, and the CPU.
fn longest_fields<'f, R: 'f>(
    rank: u8,
    began_ns: u64,
    longest: impl Fn(&R) -> Option<LongestDelay> + Copy + 'f,
) -> [Field<'f, R>; 3] {
    let at_ns = move |row: &R| longest(row).map(|longest| longest.from_ns.saturating_sub(began_ns));
    let ns = move |row: &R| longest(row).map(|longest| longest.ns);
    [
        time_field("delay_max_ns", "MAX us", rank, micros, ns),
        time_field("delay_max_at_ns", "AT s", 3, seconds, at_ns),
        Field::count("delay_max_cpu", move |row| longest(row).map(|longest| u64::from(longest.cpu))),
    ]
}

/// `name 1.500`: with what a row spent most of a time, ms.
fn most(named: Option<(&str, u64)>) -> String {
    named.map_or_else(|| "-".to_owned(), |(name, ns)| format!("{} {}", escape(name), millis(ns)))
}

/// Columns of the program behind which a row was ready for longest.
fn behind_fields<'f>(rank: u8) -> [Field<'f, GroupRow>; 2] {
    [
        Field::text("behind", |row: &GroupRow| Some((&*row.behind.first()?.0).into()))
            .titled("MOSTLY BEHIND ms", rank)
            .right()
            .shows(|row| most(row.behind.first().map(|(name, ns)| (&**name, *ns)))),
        Field::count("behind_ns", |row: &GroupRow| Some(row.behind.first()?.1)),
    ]
}

/// Columns of the reason for which a row was blocked longest.
fn longest_wait_fields<'f>(rank: u8) -> [Field<'f, GroupRow>; 2] {
    let waited = |row: &GroupRow, words: fn(WaitReason) -> Cow<'static, str>| {
        let longest = row.blocked.longest().map(|(reason, ns)| (words(reason), ns));
        most(longest.as_ref().map(|(words, ns)| (&**words, *ns)))
    };
    [
        Field::text("blocked_most_for", |row: &GroupRow| Some(row.blocked.longest()?.0.name()))
            .titled("MOSTLY IN ms", rank)
            .right()
            .shows(move |row| waited(row, WaitReason::words_and_name))
            .or_short(move |row| waited(row, WaitReason::words)),
        Field::count("blocked_most_ns", |row: &GroupRow| Some(row.blocked.longest()?.1)),
    ]
}

fn share(part: u64, whole: u64) -> String {
    decimal(percent(part, whole), 2)
}

/// `a 1.500, b 0.300`: the first tasks behind which a thread waited, ms.
fn behind(culprits: &[(TraceTask, u64)], file: &TraceFile<'_>, most: usize) -> String {
    let one = |(task, ns): &(TraceTask, u64)| format!("{} {}", file.thread(*task).shown(), millis(*ns));
    culprits.iter().take(most).map(one).collect::<Vec<_>>().join(", ")
}
