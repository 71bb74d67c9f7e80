//! The interface of decoders of foreign formats. They give [`RawEvent`]s with thread ids, which the kernel uses again, unlike our task
//! numbers, and read no more of a file than a limit.

use std::io::Read;

use cpumon_sched::{Interrupt, Leaves, Name, ProgramName, reserve_some, up_to_zero};
use cpumon_trace::{Ending, ReadError};

/// The thread of unknown time in our Perfetto traces: above the kernel's largest id.
pub const UNKNOWN_TID: u32 = (1 << 23) - 1;

/// Why a file without a switch cannot be used, if it is damaged.
pub(crate) const NO_SWITCH_LEFT: &str = "it is damaged, or ends, in front of its first context switch";

/// A thread that the file does not name.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// A thread as an event names it. Thread 0 is idle.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedThread {
    pub(crate) tid: u32,
    pub(crate) name: Name,
}

/// What happened, or what became known of a thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawKind {
    Switch {
        prev: NamedThread,
        next: NamedThread,
        leaves: Leaves,
    },
    Waking {
        task: NamedThread,
        waker: u32,
        cpu: u16,
    },
    /// The thread becomes runnable, and the recorder does not say where.
    Readied {
        tid: u32,
        waker: u32,
    },
    Migrate {
        tid: u32,
        to_cpu: u16,
    },
    /// The thread comes to this CPU, of a recorder that does not say when a thread moves.
    Comes {
        tid: u32,
    },
    Born {
        task: NamedThread,
        parent: u32,
        /// It is a thread of its parent's process. False: it is not, or the event does not say.
        is_thread: bool,
    },
    Exit {
        tid: u32,
    },
    /// It ends now, and was recorded as a whole.
    Interrupt {
        interrupt: Interrupt,
        ran_ns: u64,
    },
    Lost {
        count: u64,
        until_ns: u64,
    },
    Enter(Interrupt),
    Return(Interrupt),
    /// Nothing changed on the CPU up to this time.
    Same,
    /// The thread has this name from now on.
    Called(NamedThread),
    /// The thread is one of this process, from before the recording, or as of now if it is new.
    Belongs {
        tid: u32,
        pid: u32,
        is_new: bool,
    },
    /// The process runs this executable, and began now if it is new.
    Runs {
        pid: u32,
        program: ProgramName,
        is_new: bool,
    },
    /// The threads of the process are kernel threads.
    Kernel {
        pid: u32,
    },
}

/// An event of one CPU, with ids of threads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) at_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) kind: RawKind,
}

// The memory of events that wait counts on it.
const _: () = assert!(size_of::<RawEvent>() <= 72);

impl RawKind {
    /// Whether the scheduler did something: else only a name became known.
    pub(crate) fn is_event(&self) -> bool {
        let only_says = matches!(self, Self::Called(_) | Self::Belongs { .. } | Self::Runs { .. });
        !only_says && !matches!(self, Self::Kernel { .. } | Self::Comes { .. } | Self::Same)
    }
}

/// Adds an event of a part that may have many: a list of twice the length would be empty memory.
pub(crate) fn push(events: &mut Vec<RawEvent>, event: RawEvent) {
    reserve_some(events, events.len());
    events.push(event);
}

/// Events of the CPU are missing between these times. The count is 0 where the file's damage counts them.
pub(crate) fn lost(cpu: u16, count: u64, at_ns: u64, until_ns: u64) -> RawEvent {
    RawEvent { at_ns, cpu, kind: RawKind::Lost { count, until_ns: until_ns.max(at_ns) } }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecoderStep {
    More,
    /// All events up to this time were handed out.
    Until(u64),
    End,
}

/// What a decoder gives: events, and what the file lacks.
pub(crate) struct RawTrace<'t> {
    pub(crate) events: &'t mut Vec<RawEvent>,
    pub(crate) ending: &'t mut Ending,
}

impl RawTrace<'_> {
    /// Events of the CPU are missing between these times, and the recorder counted them.
    pub(crate) fn lose(&mut self, cpu: u16, count: u64, at_ns: u64, until_ns: u64) {
        self.ending.lost = self.ending.lost.saturating_add(count);
        self.events.push(lost(cpu, count, at_ns, until_ns));
    }
}

/// A file of another recorder.
pub(crate) trait Decoder: Send {
    /// Reads a part of the file, and adds its events to `out`. Damage ends the file.
    fn step(&mut self, out: &mut RawTrace<'_>) -> Result<DecoderStep, ReadError>;
}

/// Reads `length` bytes, or fewer where the file ends; `None` if `length` is more than `most`.
pub(super) fn read_up_to(from: &mut dyn Read, length: u64, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    if length > most {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The name of a machine, which a file may have at any length.
pub(super) fn host_name(text: &[u8]) -> String {
    let text = up_to_zero(text);
    String::from_utf8_lossy(&text[..text.len().min(255)]).into_owned()
}
