//! [`IntervalView`]: what the table of columns reads of an interval and its rows, and where that is no data.

use std::borrow::Cow;

use crate::counters::signed;
use crate::{
    BootId, CgroupInterval, CpuInterval, CpuSched, CpuTimes, DelayHistogram, DelayOf, Delta, Flags, Interval,
    IrqInterval, Ledger, Life, Pressure, Probes, ProcessInfo, ProcessInterval, ProcessKey, SchedDelta,
    SourceKind, ThreadInterval, ThreadKey, Utc, WaitFor, WaitKind, WaitReason, WaitedOn, flag_names,
};

/// One cell of an export or SQL table.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "json", derive(serde::Serialize), serde(untagged))]
pub enum Value<'a> {
    /// No data, which is not zero.
    Null,
    /// A whole number, signed, 64 bits.
    Int(i64),
    /// A fraction, as a 64-bit float.
    Real(f64),
    /// A text; hostile where it is a name.
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// The value with its text copied, so that it borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        }
    }

    /// A count; beyond `i64` it sticks at the top.
    pub fn count(value: u64) -> Self {
        Self::Int(signed(value))
    }
}

macro_rules! value_from {
    ($($from:ty: $value:expr;)+) => {
        $(impl<'a> From<$from> for Value<'a> {
            fn from(from: $from) -> Self {
                let value: fn($from) -> Self = $value;
                value(from)
            }
        })+
    };
}

value_from! {
    i64: Self::Int;
    u64: Self::count;
    u32: |number| Self::Int(number.into());
    u16: |number| Self::Int(number.into());
    i16: |number| Self::Int(number.into());
    i8: |number| Self::Int(number.into());
    bool: |is| Self::Int(is.into());
    f64: Self::Real;
    &'a str: |text| Self::Text(text.into());
    String: |text| Self::Text(text.into());
    Cow<'a, str>: Self::Text;
}

/// A text; an empty one is no data.
pub(super) fn filled<T: AsRef<str>>(text: T) -> Option<T> {
    (!text.as_ref().is_empty()).then_some(text)
}

pub(super) fn names_of(probes: Probes) -> String {
    let names = probes.iter_names().map(|(name, _)| name.to_ascii_lowercase());
    names.collect::<Vec<_>>().join("|")
}

pub(super) fn wait_kind(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Ready => "ready",
        WaitKind::Throttled => "throttled",
        WaitKind::Blocked(_) => "blocked",
    }
}

pub(super) fn waited_on(on: WaitedOn) -> &'static str {
    match on {
        WaitedOn::Others => "others",
        WaitedOn::Interrupt => "interrupt",
        WaitedOn::Process(_) => "process",
        WaitedOn::Thread(_) => "thread",
    }
}

/// A row of an interval.
#[derive(Copy, Clone, Debug)]
pub(super) enum CellRow<'v> {
    Host,
    Process(&'v ProcessInterval),
    /// A group of processes.
    Group(&'v Delta, &'v SchedDelta),
    Thread(&'v ThreadInterval),
    /// A thread, a reason of its waits, and how long it was blocked by that reason, ns.
    Wait(&'v ThreadInterval, WaitReason, u64),
    Cpu(&'v CpuInterval),
    Irq(&'v IrqInterval),
    Cgroup(&'v CgroupInterval),
    WaitFor(&'v WaitFor),
}

/// What rows of processes and threads have in common.
#[derive(Copy, Clone, Debug)]
pub(super) struct TaskCells<'v> {
    pub(super) process: ProcessKey,
    pub(super) start_ns: u64,
    pub(super) life: Life,
    flags: Flags,
    pub(super) delta: &'v Delta,
    sched: &'v SchedDelta,
}

macro_rules! rows {
    ($($get:ident $row:ident $of:ty;)+) => {
        impl<'v> CellRow<'v> {
            $(pub(super) fn $get(self) -> Option<&'v $of> {
                if let Self::$row(row) = self { Some(row) } else { None }
            })+
        }
    };
}

rows! {
    as_process Process ProcessInterval;
    as_cpu Cpu CpuInterval;
    as_irq Irq IrqInterval;
    as_cgroup Cgroup CgroupInterval;
    as_wait_for WaitFor WaitFor;
}

impl<'v> CellRow<'v> {
    pub(super) fn as_thread(self) -> Option<&'v ThreadInterval> {
        if let Self::Thread(row) | Self::Wait(row, ..) = self { Some(row) } else { None }
    }

    pub(super) fn as_wait(self) -> Option<(WaitReason, u64)> {
        if let Self::Wait(_, reason, ns) = self { Some((reason, ns)) } else { None }
    }

    pub(super) fn wait_for_reason(self) -> Option<WaitReason> {
        if let WaitKind::Blocked(reason) = self.as_wait_for()?.kind { Some(reason) } else { None }
    }

    /// The process that was waited on, or whose thread was.
    pub(super) fn on_process(self) -> Option<ProcessKey> {
        let WaitFor { waiter, on, .. } = *self.as_wait_for()?;
        match on {
            WaitedOn::Others | WaitedOn::Interrupt => None,
            WaitedOn::Process(key) => Some(key),
            WaitedOn::Thread(_) => Some(waiter),
        }
    }

    pub(super) fn on_thread(self) -> Option<ThreadKey> {
        if let WaitedOn::Thread(key) = self.as_wait_for()?.on { Some(key) } else { None }
    }

    pub(super) fn limiter(self) -> Option<&'v str> {
        self.as_cgroup().filter(|row| row.limit.is_limited()).map(CgroupInterval::limiter)
    }

    pub(super) fn task(self) -> Option<TaskCells<'v>> {
        macro_rules! cells {
            ($row:ident, $process:expr) => {
                TaskCells {
                    process: $process,
                    start_ns: $row.key.start_ns,
                    life: $row.life,
                    flags: $row.flags,
                    delta: &$row.delta,
                    sched: &$row.sched,
                }
            };
        }
        match self {
            Self::Process(row) => Some(cells!(row, row.key)),
            Self::Group(delta, sched) => {
                let (process, life, flags) = (ProcessKey::default(), Life::Alive, Flags::empty());
                Some(TaskCells { process, start_ns: 0, life, flags, delta, sched })
            }
            _ => self.as_thread().map(|row| cells!(row, row.process)),
        }
    }

    /// The name of a process or thread. A v1 device names no thread.
    pub(super) fn name(self) -> Option<Cow<'v, str>> {
        match self.as_process() {
            Some(process) => Some(Cow::Borrowed(&process.info.name)),
            None => {
                self.as_thread().filter(|thread| !thread.comm.is_empty()).map(|row| row.comm.to_str_lossy())
            }
        }
    }

    /// What the scheduler's events report. No event reports a thread that is not watched: 0 would read as "never blocked".
    pub(super) fn watched(self) -> Option<&'v SchedDelta> {
        self.task().filter(|task| !task.flags.contains(Flags::UNWATCHED)).map(|task| task.sched)
    }
}

/// The run delays of a row.
pub(super) struct DelayCells<'v> {
    pub(super) histogram: Cow<'v, DelayHistogram>,
    longest_ns: Option<u64>,
}

impl DelayCells<'_> {
    /// `None`: no delay ended.
    pub(super) fn percentile_ns(&self, percent: u32) -> Option<u64> {
        self.histogram.percentile_ns(percent, self.longest_ns)
    }
}

/// One interval of one host, ready to give cells.
#[derive(Clone, Debug)]
pub struct IntervalView<'a> {
    pub(super) host: &'a str,
    pub(super) interval: &'a Interval,
    pub(super) begin_utc: String,
    pub(super) end_utc: String,
    flags: String,
    pub(super) boot: String,
}

impl<'a> IntervalView<'a> {
    /// View of an interval of the host with the name `host`.
    pub fn new(host: &'a str, interval: &'a Interval) -> Self {
        let boot = if interval.boot == BootId::default() { String::new() } else { interval.boot.to_string() };
        Self {
            host,
            interval,
            begin_utc: Utc(interval.begin.wall_ns).to_string(),
            end_utc: Utc(interval.end.wall_ns).to_string(),
            flags: flag_names(interval.flags),
            boot,
        }
    }

    /// The interval whose rows the cells are read from.
    pub fn interval(&self) -> &'a Interval {
        self.interval
    }

    /// v1 devices report neither start times nor anything about a task but name, ids and times.
    pub(super) fn known<T>(&self, value: T) -> Option<T> {
        (!matches!(self.interval.source, SourceKind::V1 | SourceKind::Legacy)).then_some(value)
    }

    /// Windows has no nice values, and does not say where a thread ran.
    pub(super) fn known_but_windows<T>(&self, value: T) -> Option<T> {
        self.known(value).filter(|_| !self.interval.source.is_windows())
    }

    /// A v1 interval is placed by the receiver's clock: the device's own is not in it.
    pub(super) fn device_end_ns(&self) -> Option<i64> {
        (self.interval.source != SourceKind::V1).then(|| self.interval.device_end_wall_ns())
    }

    pub(super) fn info<'v>(&'v self, row: CellRow<'v>) -> Option<&'v ProcessInfo> {
        match row.as_process() {
            Some(process) => Some(&process.info),
            None => Interval::process(self.interval, row.as_thread()?.process).map(|process| &*process.info),
        }
    }

    /// The name of a process that has a row.
    pub(super) fn name_of(&self, process: ProcessKey) -> Option<&str> {
        Interval::process(self.interval, process).and_then(|row| filled(&*row.info.name))
    }

    pub(super) fn flags(&self, row: CellRow<'_>) -> Option<Cow<'_, str>> {
        match row {
            CellRow::Host => Some(Cow::Borrowed(&self.flags)),
            _ => row.task().map(|task| Cow::Owned(flag_names(task.flags))),
        }
    }

    /// A line of the ledger, which without a capacity means nothing, as there is nothing to compare it with.
    pub(super) fn line<T>(&self, of: impl Fn(&Ledger) -> T) -> Option<T> {
        (self.interval.ledger.capacity_ns != 0).then(|| of(&self.interval.ledger))
    }

    /// A mode of a CPU, or of all CPUs together; the sum over no CPU is no data, not 0.
    pub(super) fn mode(&self, row: CellRow<'_>, of: impl Fn(&CpuTimes) -> u64) -> Option<u64> {
        match row {
            CellRow::Cpu(row) => Some(of(&row.times)),
            _ => self.interval.cpus.iter().map(|cpu| of(&cpu.times)).reduce(u64::saturating_add),
        }
    }

    /// Counts from the events of a CPU, or of all CPUs together; no data without a CPU.
    pub(super) fn cpu_sched(&self, row: CellRow<'_>) -> Option<CpuSched> {
        match row {
            CellRow::Cpu(row) => Some(row.sched),
            _ => (!self.interval.cpus.is_empty()).then(|| self.interval.cpu_sched()),
        }
    }

    pub(super) fn run_queue_mean(&self, row: CellRow<'_>) -> Option<f64> {
        let sched = self.cpu_sched(row).filter(|_| !self.interval.flags.contains(Flags::RUN_QUEUE_UNKNOWN));
        sched?.run_queue_mean(self.interval.duration_ns())
    }

    pub(super) fn unknown_ns(&self, row: CellRow<'_>) -> Option<i64> {
        match row {
            CellRow::Cpu(row) => Some(signed(row.sched.unknown_ns)),
            _ => (!self.interval.cpus.is_empty()).then_some(self.interval.ledger.unknown_ns),
        }
    }

    pub(super) fn pressure(&self, row: CellRow<'_>) -> Option<Pressure> {
        row.as_cgroup().map_or(self.interval.pressure, |group| group.pressure)
    }

    /// `None`: a thread that was not selected has no count, not 0.
    pub(super) fn delays<'v>(&'v self, row: CellRow<'v>) -> Option<DelayCells<'v>> {
        let of = match row {
            CellRow::Process(row) => DelayOf::Process(row.key),
            CellRow::Thread(row) => DelayOf::Thread(row.process, row.key),
            CellRow::Cpu(row) => DelayOf::Cpu(row.cpu),
            _ => {
                let (sum, longest_ns) = (self.interval.cpu_delays(), self.interval.longest_delay_ns());
                return Some(DelayCells { histogram: Cow::Owned(sum), longest_ns });
            }
        };
        let histogram = match self.interval.delays_of(of) {
            Some(histogram) => Cow::Borrowed(histogram),
            None if matches!(of, DelayOf::Thread(..)) => return None,
            None => Cow::Owned(DelayHistogram::default()),
        };
        let longest_ns = row.task().and_then(|task| task.sched.longest_ns());
        Some(DelayCells { histogram, longest_ns })
    }
}
