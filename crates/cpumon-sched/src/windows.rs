//! What the Windows kernel (ETW) says in the payload of an event, and ticks of its clock as ns: bytes in, no file and no session needed.
//! Files (`.etl`) and live sessions have the same. Layouts are those of its MOF classes (`Thread_V2` and so on, in the documentation of the
//! Windows SDK); versions that are older than Windows 7 are not read.

use cpumon_model::WaitReason;

use crate::bytes::{Bytes, Name, Order, ProgramName, name};
use crate::event::{Interrupt, Leaves};

/// Which kind an event is: the upper byte is the group, the lower one the type in it.
pub type Hook = u16;

const PROCESS_START: Hook = 0x0301;
const PROCESS_END: Hook = 0x0302;
const PROCESS_DC_END: Hook = 0x0304;
/// A process that has ended and is still referred to.
const PROCESS_DEFUNCT: Hook = 0x0327;
const THREAD_START: Hook = 0x0501;
const THREAD_END: Hook = 0x0502;
const THREAD_DC_END: Hook = 0x0504;
const SWITCH: Hook = 0x0524;
/// Switches in a form without a public layout.
pub const PACKED_SWITCH: Hook = 0x0525;
const READY_THREAD: Hook = 0x0532;
const SET_NAME: Hook = 0x0548;
const ISR_MSI: Hook = 0x0f32;
const THREADED_DPC: Hook = 0x0f42;
const ISR: Hook = 0x0f43;
const DPC: Hook = 0x0f44;
const TIMER_DPC: Hook = 0x0f45;

// The state of a thread that leaves its CPU.
const READY: u8 = 1;
const RUNNING: u8 = 2;
const STANDBY: u8 = 3;
const TERMINATED: u8 = 4;
const DEFERRED_READY: u8 = 7;

/// The id of a provider of events, as a GUID lies in memory.
pub type Provider = [u8; 16];

// The providers of the kernel: 3d6fa8d0, 3d6fa8d1 and ce1dbfb4.
const PROCESS: Provider =
    [0xd0, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];
const THREAD: Provider =
    [0xd1, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];
const PERF_INFO: Provider =
    [0xb4, 0xdf, 0x1d, 0xce, 0x7e, 0x13, 0xa6, 0x4d, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc];

/// The kind of an event that names its provider and opcode, as the events of programs do, and all of a live session. 0, which is no kind
/// that is read, for providers that are not the kernel's.
pub fn hook_of(provider: &Provider, opcode: u8) -> Hook {
    let group = match *provider {
        PROCESS => 0x03,
        THREAD => 0x05,
        PERF_INFO => 0x0f,
        _ => return 0,
    };
    u16::from_be_bytes([group, opcode])
}

/// The payload of an event, with the fields that reading it needs.
#[derive(Copy, Clone, Debug)]
pub struct Payload<'b> {
    pub hook: Hook,
    pub version: u8,
    /// Size of a pointer in the payload: 4 or 8.
    pub pointer_bytes: usize,
    /// Bytes that follow the event's header.
    pub bytes: &'b [u8],
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Begins,
    Ends,
    /// It was there before the recording, or after it.
    Lives,
}

/// An event of the scheduler, or one that says who is who.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A CPU goes from one thread to another; 0 is the idle thread.
    Switch { old_tid: u32, new_tid: u32, leaves: Leaves },
    /// A thread becomes runnable; the event does not name its CPU.
    Ready { tid: u32 },
    /// An interrupt ends at the time of the event.
    Interrupt {
        /// Which: hard ones by their vector, soft ones by the kind of the event.
        interrupt: Interrupt,
        /// Start of the interrupt, in ticks of the session's clock.
        began: u64,
    },
    /// A thread begins or ends, or existed before or after the recording.
    Thread {
        change: Change,
        tid: u32,
        pid: u32,
        /// Empty if the thread has no name.
        name: Name,
    },
    /// A thread gets a new name.
    Called { tid: u32, name: Name },
    /// A process begins or ends, or existed before or after the recording.
    Process {
        change: Change,
        pid: u32,
        /// The creating process, which may have ended.
        parent_pid: u32,
        program: ProgramName,
    },
}

/// The payload is shorter than its kind and version say.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DamagedPayload;

impl Payload<'_> {
    /// Decodes the event; `None` for kinds and versions that are not read.
    ///
    /// # Errors
    /// The bytes are too few.
    pub fn read(&self) -> Result<Option<KernelEvent>, DamagedPayload> {
        let is_read = match self.hook {
            SWITCH | READY_THREAD | ISR_MSI | ISR | THREADED_DPC | DPC | TIMER_DPC | SET_NAME => {
                self.version >= 2
            }
            THREAD_START..=THREAD_DC_END | PROCESS_START..=PROCESS_DC_END | PROCESS_DEFUNCT => {
                self.version >= 1
            }
            _ => false,
        };
        if is_read { self.event().map(Some).ok_or(DamagedPayload) } else { Ok(None) }
    }

    fn event(&self) -> Option<KernelEvent> {
        let mut bytes = Bytes::new(self.bytes, Order::Little);
        Some(match self.hook {
            SWITCH => switch(&mut bytes)?,
            READY_THREAD => KernelEvent::Ready { tid: bytes.u32()? },
            ISR | ISR_MSI => {
                let began = bytes.u64()?;
                // Routine and return value.
                bytes.skip(self.pointers(1) + 1)?;
                KernelEvent::Interrupt { interrupt: Interrupt::Hard(bytes.u16()?), began }
            }
            DPC | THREADED_DPC | TIMER_DPC => {
                let interrupt = Interrupt::Soft(self.hook & 0xff);
                KernelEvent::Interrupt { interrupt, began: bytes.u64()? }
            }
            SET_NAME => {
                bytes.u32()?;
                KernelEvent::Called { tid: bytes.u32()?, name: utf16(bytes.rest) }
            }
            THREAD_START..=THREAD_DC_END => self.thread(&mut bytes)?,
            _ => self.process(&mut bytes)?,
        })
    }

    fn thread(&self, bytes: &mut Bytes<'_>) -> Option<KernelEvent> {
        let (pid, tid) = (bytes.u32()?, bytes.u32()?);
        // Seven addresses, a service's tag and priorities; before version 3 no name follows.
        let has_name = self.version >= 3 && bytes.skip(self.pointers(7) + 8).is_some();
        let name = if has_name { utf16(bytes.rest) } else { Name::default() };
        Some(KernelEvent::Thread { change: self.change(), tid, pid, name })
    }

    fn process(&self, bytes: &mut Bytes<'_>) -> Option<KernelEvent> {
        // The address of its object, or of its pages in version 1.
        bytes.skip(self.pointers(1))?;
        let (pid, parent_pid) = (bytes.u32()?, bytes.u32()?);
        // Session, exit status.
        bytes.skip(8)?;
        if self.version >= 3 {
            bytes.skip(self.pointers(1))?;
        }
        if self.version >= 4 {
            bytes.skip(4)?;
        }
        self.skip_user(bytes)?;
        let program = name(bytes.text()?);
        Some(KernelEvent::Process { change: self.change(), pid, parent_pid, program })
    }

    /// `TOKEN_USER` and the security identifier that it points to, or four bytes of nothing.
    fn skip_user(&self, bytes: &mut Bytes<'_>) -> Option<()> {
        if bytes.rest.get(..4)? == [0; 4] {
            return bytes.skip(4);
        }
        bytes.skip(self.pointers(2) + 1)?;
        let authorities = *bytes.take(1)?.first()?;
        bytes.skip(6 + 4 * u64::from(authorities))
    }

    fn pointers(&self, count: u64) -> u64 {
        count * self.pointer_bytes as u64
    }

    fn change(&self) -> Change {
        match self.hook {
            THREAD_START | PROCESS_START => Change::Begins,
            THREAD_END | PROCESS_END => Change::Ends,
            _ => Change::Lives,
        }
    }
}

fn switch(bytes: &mut Bytes<'_>) -> Option<KernelEvent> {
    let (new_tid, old_tid) = (bytes.u32()?, bytes.u32()?);
    // Priorities, what the CPU slept in before, and a spare byte.
    bytes.skip(4)?;
    let [reason, _mode, state] = *bytes.take(3)?.first_chunk()?;
    let leaves = match state {
        READY | RUNNING | STANDBY | DEFERRED_READY => Leaves::Ready,
        TERMINATED => Leaves::Dead,
        // It waits, or is on its way to memory.
        _ => Leaves::Asleep(WaitReason::windows(reason)),
    };
    Some(KernelEvent::Switch { old_tid, new_tid, leaves })
}

/// What fits of a text that ends with a zero, or with the payload.
fn utf16<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let mut text = [0; N];
    let mut length = 0;
    for character in char::decode_utf16(units.take_while(|unit| *unit != 0)) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        let end = length + character.len_utf8();
        if end >= N {
            break;
        }
        character.encode_utf8(&mut text[length..end]);
        length = end;
    }
    text
}

const NS_A_SECOND: u64 = 1_000_000_000;

/// Converts ticks of the session's clock to ns.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TickClock {
    ticks_a_second: u64,
    zero: u64,
}

impl TickClock {
    /// A faster clock is none that exists, and could not be converted in 64 bits.
    const MAX_TICKS_A_SECOND: u64 = 18_000_000_000;

    /// `zero`: ticks at 0 ns. `None`: no clock has such a frequency.
    pub fn new(ticks_a_second: u64, zero: u64) -> Option<Self> {
        let is_possible = (1..=Self::MAX_TICKS_A_SECOND).contains(&ticks_a_second);
        is_possible.then_some(Self { ticks_a_second, zero })
    }

    /// Time since `zero`, ns; 0 for earlier ticks.
    pub fn ns(&self, ticks: u64) -> u64 {
        let since = ticks.saturating_sub(self.zero);
        let whole_ns = (since / self.ticks_a_second).saturating_mul(NS_A_SECOND);
        whole_ns.saturating_add(since % self.ticks_a_second * NS_A_SECOND / self.ticks_a_second)
    }
}

#[cfg(test)]
mod tests;
