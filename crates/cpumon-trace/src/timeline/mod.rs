//! A trace as an index for pictures: any window, at any width, without reading the file again.
//!
//! [`Timeline::read`] reads a [`TraceSource`](crate::TraceSource) once. A thread is a list of states and a CPU a list of slices, each with
//! its begin only; sums in front of every 32nd entry make the time of any bucket a matter of two searches. So a picture costs
//! its pixels, not the events behind them: [`Timeline::cpu_track`], [`Timeline::thread_track`]. Exact sums of a window
//! ([`Timeline::sums`], [`Timeline::thread_rows`]) read its entries, and equal the [`Report`](crate::Report) of that range.
//!
//! Memory is counted while reading. Where it reaches the limit, the index ends there and says so ([`Timeline::is_cut`]).

mod behind;
mod build;
mod cpus;
mod details;
mod lines;
mod sums;
mod tracks;

use std::sync::OnceLock;

use cpumon_sched::TraceTask;

use crate::file::format::FileHeader;
use crate::source::Ending;
use crate::tasks::Tasks;
pub use behind::{Behind, Delay, Delays, TraceBehind, TraceShare};
use cpus::CpuTimeline;
pub use cpus::CpuWho;
pub use details::{TraceSlice, TraceWait, TraceWoken};
use lines::ThreadParts;
pub use sums::{ThreadRow, TraceReason, WindowSums};
pub use tracks::{Buckets, TraceCpuTrack, TraceOverview, TraceThreadTrack, TraceTracks};

/// How much of a trace an index may hold.
#[derive(Copy, Clone, Debug)]
pub struct TimelineLimits {
    /// Memory, bytes: the index ends where it is used up.
    pub bytes: usize,
    /// The index begins here, ns since the begin of the trace.
    pub from_ns: u64,
}

/// A trace in memory. Times are ns since its begin.
#[derive(Debug, Default)]
pub struct Timeline {
    pub header: FileHeader,
    pub ending: Ending,
    /// Events of the whole trace.
    pub events: u64,
    from_ns: u64,
    until_ns: u64,
    /// Length of the whole trace, ns.
    pub length_ns: u64,
    pub has_interrupts: bool,
    /// By number; `None`: no events.
    cpus: Vec<Option<CpuTimeline>>,
    /// By place.
    threads: Vec<ThreadParts>,
    tasks_of: Vec<TraceTask>,
    tasks: Tasks,
    /// Moves to another CPU, by time: the thread's place.
    moves: Vec<(u64, u32)>,
    overload: OnceLock<OverloadSums>,
    /// Memory of the index, bytes.
    pub bytes: usize,
}

impl Timeline {
    /// The part that the index has.
    pub fn covers(&self) -> (u64, u64) {
        (self.from_ns, self.until_ns)
    }

    /// Whether the index ends before the trace, because its memory was used up.
    pub fn is_cut(&self) -> bool {
        self.until_ns < self.length_ns
    }

    /// CPUs with events, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u16> {
        let numbers = self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_some());
        numbers.map(|(number, _)| u16::try_from(number).unwrap_or(u16::MAX))
    }

    fn cpu(&self, number: u16) -> Option<&CpuTimeline> {
        self.cpus.get(usize::from(number))?.as_ref()
    }

    fn thread(&self, place: u32) -> Option<&ThreadParts> {
        self.threads.get(usize::try_from(place).ok()?)
    }

    /// A window within the index, from its begin on; empty ones begin and end there.
    fn clip(&self, from_ns: u64, until_ns: u64) -> (u64, u64) {
        let from_ns = from_ns.clamp(self.from_ns, self.until_ns);
        (from_ns, until_ns.clamp(from_ns, self.until_ns))
    }

    /// All threads, by place.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = TraceTask> {
        self.tasks_of.iter().copied()
    }

    /// Who has a CPU, by name.
    pub fn named(&self, who: CpuWho) -> TraceThread {
        let (task, otherwise) = match who {
            CpuWho::Thread(place) => (self.tasks_of.get(place as usize), "unknown"),
            CpuWho::Unknown => (None, "unknown"),
            CpuWho::Other => (None, "not followed"),
            CpuWho::Idle => (None, "idle"),
        };
        let names = task.and_then(|task| self.tasks.find(*task));
        let other_name = || task.map_or_else(|| otherwise.into(), |task| unnamed(*task));
        TraceThread {
            thread: who.number(),
            tid: names.as_ref().map(|names| names.thread.tid),
            pid: names.as_ref().map(|names| names.process.pid),
            name: names.as_ref().map_or_else(other_name, |names| (&*names.comm).into()),
            program: names.as_ref().map_or("", |names| &names.program).into(),
            is_kernel: names.is_some_and(|names| names.is_kernel),
        }
    }
}

/// Name of a task without a name in the trace.
fn unnamed(task: TraceTask) -> Box<str> {
    format!("task {}", task.0).into()
}

/// Time of idle CPUs while threads waited behind others, ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema), schema(as = TraceOverload))]
pub struct Overload {
    /// Time in which any CPU was idle while any thread waited behind another.
    pub wall_ns: u64,
    /// The same, by idle CPU.
    pub cpu_ns: u64,
    /// Work that could have run: the smaller of idle CPUs and waiting threads, times time.
    pub thread_ns: u64,
}

/// Sums up to some times.
#[derive(Debug, Default)]
struct OverloadSums(Vec<(u64, Overload)>);

/// Who a thread is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceThread {
    /// Its number; −1: unknown, −2: a thread that is not followed, −3: none, the CPU was idle.
    pub thread: i64,
    /// Thread id; null: the trace does not say.
    pub tid: Option<u32>,
    /// Process id.
    pub pid: Option<u32>,
    /// Name. Hostile.
    pub name: Box<str>,
    /// Name of its program. Hostile.
    pub program: Box<str>,
    /// It works for the kernel only.
    pub is_kernel: bool,
}
