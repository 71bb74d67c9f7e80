//! `.etl`: what the Windows kernel's tracing (ETW) writes, as `xperf`, `wpr` and `logman` start it.
//!
//! A file is a sequence of buffers, each of one CPU and packed or not ([`mod@unpack`]). They hold events ([`buffer`]); only events of the
//! scheduler are read ([`cpumon_sched::windows`]). The file's [`Index`] has the order of the buffers and the gaps between them; here they
//! are read in this order.

mod buffer;
mod unpack;

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use cpumon_sched::windows::{Change, KernelEvent, PACKED_SWITCH, TickClock};
use cpumon_sched::{Leaves, Name};
use cpumon_trace::limits::Credit;
use cpumon_trace::{Ending, FileHeader, ReadError};

use crate::decoder::{
    Decoder, DecoderStep, NamedThread, RawEvent, RawKind, RawTrace, UNKNOWN, lost, read_up_to,
};
use buffer::{
    BufferEntry, BufferHeader, BufferRead, Event, EventRead, HEADER_BYTES, Index, LogHeader, Shape,
    note_damage, take_event,
};
use unpack::unpack;

/// Bytes that say what a file is: the first buffer's header and that of its first event.
pub(crate) const MAGIC_BYTES: usize = HEADER_BYTES + 32;
/// Type of the buffer with the header of the file.
const HEADER_BUFFER: u16 = 4;
/// What the header and the names in it take at most.
const MAX_HEADER_BUFFER_BYTES: u32 = 64 << 10;
/// Pid of the process that the kernel's own threads belong to.
const SYSTEM_PID: u32 = 4;
/// Events that are read before they are handed on.
const EVENTS_A_STEP: u32 = 1 << 14;
/// An event in a buffer may be so much older than the first one: an interrupt came while that was written.
const SLACK_NS: u64 = 1_000_000;

/// Whether a file that begins so is an `.etl`.
pub(crate) fn is_etl(first: &[u8]) -> bool {
    let Some((header, event)) = first.split_first_chunk::<HEADER_BYTES>() else { return false };
    let is_header_buffer = u16::from_le_bytes([header[54], header[55]]) == HEADER_BUFFER;
    // An event of the kind 0 with a header for 32 or 64 bits.
    let is_log_header = matches!(event, [_, _, 1 | 2, 0xc0, _, _, 0, 0, ..]);
    is_header_buffer && is_log_header && matches!(BufferHeader::read(header), BufferRead::Buffer(_))
}

pub(crate) struct Etl<R> {
    from: R,
    clock: TickClock,
    shape: Shape,
    entries: Vec<BufferEntry>,
    /// Index of the next entry.
    at: usize,
    has_begun: bool,
    /// Damage found in the headers of buffers.
    found: Ending,
    /// By CPU.
    translators: Vec<Translator>,
    /// The buffer that is being read; its events are in `body`.
    open: Option<OpenBuffer>,
    body: Vec<u8>,
    unpacked: Vec<u8>,
    credit: Credit,
}

struct OpenBuffer {
    entry: BufferEntry,
    /// How far its events were read.
    at: usize,
    /// Nothing that was read so far is damaged.
    is_whole: bool,
}

impl OpenBuffer {
    /// Hands the next of its events, which are in `body`, to `take`, and says whether these are all that can be read.
    fn read(&mut self, body: &[u8], take: &mut dyn FnMut(&Event<'_>), ending: &mut Ending) -> bool {
        let mut events = body.get(self.at..).unwrap_or_default();
        for _ in 0..EVENTS_A_STEP {
            let left = events.len();
            match take_event(&mut events) {
                EventRead::Event(event) => take(&event),
                EventRead::Other => {}
                EventRead::End if self.is_whole => return true,
                EventRead::End | EventRead::Damaged => {
                    self.is_whole = false;
                    note_damage(ending, self.entry.at, left.max(1));
                    return true;
                }
            }
        }
        self.at = body.len() - events.len();
        false
    }
}

impl<R: Read + Seek> Etl<R> {
    /// Reads the header of the file and those of all buffers.
    pub(crate) fn open(mut from: R) -> Result<(Self, FileHeader), ReadError> {
        let most = u64::from(MAX_HEADER_BUFFER_BYTES);
        let raw = read_up_to(&mut from, most, most)?.unwrap_or_default();
        let (buffer, log) = log_header(&raw)?;
        let mut found = Ending { lost: log.events_lost, ..Ending::default() };
        // Where the first one has another size, the file is merged and packed too.
        let is_sized = log.buffer_bytes == buffer.bytes && !log.is_packed;
        let buffer_bytes = if is_sized { buffer.bytes } else { 0 };
        let shape = Shape { packing: buffer.packing, buffer_bytes };
        let index = Index::read(&mut from, buffer.bytes.into(), shape, &mut found)?;
        let file_header = FileHeader { cpus: log.cpus, began: log.began, ..FileHeader::default() };
        let etl = Self {
            from,
            clock: log.clock,
            shape,
            entries: index.entries,
            at: 0,
            has_begun: false,
            found,
            translators: Vec::new(),
            open: None,
            body: Vec::new(),
            unpacked: Vec::new(),
            credit: Credit::default(),
        };
        Ok((etl, file_header))
    }

    fn load(&mut self, entry: BufferEntry) -> Result<OpenBuffer, ReadError> {
        self.from.seek(SeekFrom::Start(entry.at))?;
        let mut header = [0; HEADER_BYTES];
        self.from.read_exact(&mut header)?;
        // The file was changed since the index was made.
        let BufferRead::Buffer(header) = BufferHeader::read(&header) else { return Err(ReadError::Header) };
        self.body.clear();
        self.from.by_ref().take(header.body_bytes()).read_to_end(&mut self.body)?;
        let mut is_whole = self.body.len() as u64 == header.body_bytes();
        let used = header.event_bytes();
        if header.is_packed {
            self.unpacked.clear();
            self.credit.add(HEADER_BYTES + self.body.len());
            is_whole &=
                self.credit.take(used) && unpack(self.shape.packing, &self.body, used, &mut self.unpacked);
            std::mem::swap(&mut self.body, &mut self.unpacked);
        } else {
            self.body.truncate(used);
        }
        Ok(OpenBuffer { entry, at: 0, is_whole })
    }

    fn begin(&mut self, entry: BufferEntry, out: &mut Vec<RawEvent>) -> Result<OpenBuffer, ReadError> {
        let (clock, cpu) = (self.clock, usize::from(entry.cpu));
        let first_ns = clock.ns(entry.first);
        if entry.is_gap_before {
            let since_ns = self.entries.first().map_or(first_ns, |first| clock.ns(first.first));
            // How many the session lost is not known: at least one.
            out.push(lost(entry.cpu, 1, since_ns, first_ns));
        }
        if cpu >= self.translators.len() {
            self.translators.resize(cpu + 1, Translator::new(clock));
        }
        self.translators[cpu].latest_ns = first_ns;
        self.load(entry)
    }

    fn end(&mut self, open: &OpenBuffer, out: &mut RawTrace<'_>) {
        let OpenBuffer { entry, is_whole, .. } = open;
        let translator = &mut self.translators[usize::from(entry.cpu)];
        out.ending.malformed += std::mem::take(&mut translator.malformed);
        if !is_whole || entry.is_gap_behind {
            translator.current = UNKNOWN;
            let until = entry.next.or(self.entries.last().map(|last| last.first));
            let until_ns = until.map_or(0, |until| self.clock.ns(until));
            // What the file lost is counted as damage.
            let count = u64::from(entry.is_gap_behind);
            out.events.push(lost(entry.cpu, count, translator.latest_ns, until_ns));
        }
    }
}

/// The first buffer's header and its first event.
fn log_header(raw: &[u8]) -> Result<(BufferHeader, LogHeader), ReadError> {
    let (header, mut events) = raw.split_first_chunk::<HEADER_BYTES>().ok_or(ReadError::Header)?;
    let BufferRead::Buffer(buffer) = BufferHeader::read(header) else { return Err(ReadError::Header) };
    let EventRead::Event(first) = take_event(&mut events) else { return Err(ReadError::Header) };
    Ok((buffer, LogHeader::read(&first)?))
}

/// Translates the kernel's events of one CPU.
#[derive(Clone)]
struct Translator {
    clock: TickClock,
    /// Thread on the CPU; [`UNKNOWN`] if it is not known.
    current: u32,
    latest_ns: u64,
    has_switches: bool,
    has_packed_switches: bool,
    malformed: u64,
}

impl Translator {
    fn new(clock: TickClock) -> Self {
        let (has_switches, has_packed_switches) = (false, false);
        Self { clock, current: UNKNOWN, latest_ns: 0, has_switches, has_packed_switches, malformed: 0 }
    }

    fn take(&mut self, event: &Event<'_>, cpu: u16, out: &mut Vec<RawEvent>) {
        let at_ns = self.clock.ns(event.ticks);
        self.latest_ns = self.latest_ns.max(at_ns);
        self.has_packed_switches |= event.payload.hook == PACKED_SWITCH;
        let Ok(read) = event.payload.read() else {
            self.malformed += 1;
            return;
        };
        let Some(kernel_event) = read else { return };
        let here = event.tid.unwrap_or(self.current);
        self.translate(kernel_event, at_ns, here, &mut |kind| out.push(RawEvent { at_ns, cpu, kind }));
    }

    /// `here`: the thread on the CPU.
    fn translate(&mut self, event: KernelEvent, at_ns: u64, here: u32, add: &mut dyn FnMut(RawKind)) {
        match event {
            KernelEvent::Switch { old_tid, new_tid, leaves } => {
                (self.current, self.has_switches) = (new_tid, true);
                add(RawKind::Comes { tid: new_tid });
                // The idle thread waits for nothing.
                let leaves = if old_tid == 0 { Leaves::Ready } else { leaves };
                add(RawKind::Switch { prev: unnamed(old_tid), next: unnamed(new_tid), leaves });
            }
            KernelEvent::Ready { tid } => add(RawKind::Readied { tid, waker: here }),
            KernelEvent::Interrupt { interrupt, began } => {
                let ran_ns = at_ns.saturating_sub(self.clock.ns(began));
                add(RawKind::Interrupt { interrupt, ran_ns });
            }
            KernelEvent::Thread { change, tid, pid, name } => {
                add(RawKind::Belongs { tid, pid, is_new: change == Change::Begins });
                add(RawKind::Called(NamedThread { tid, name }));
                match change {
                    Change::Begins => {
                        add(RawKind::Born { task: unnamed(tid), parent: here, is_thread: false });
                    }
                    Change::Ends => add(RawKind::Exit { tid }),
                    Change::Lives => {}
                }
            }
            KernelEvent::Called { tid, name } => add(RawKind::Called(NamedThread { tid, name })),
            KernelEvent::Process { change, pid, program, .. } => {
                add(RawKind::Runs { pid, program, is_new: change == Change::Begins });
                if pid == SYSTEM_PID {
                    add(RawKind::Kernel { pid });
                }
            }
        }
    }
}

fn unnamed(tid: u32) -> NamedThread {
    NamedThread { tid, name: Name::default() }
}

impl<R: Read + Seek + Send> Decoder for Etl<R> {
    fn step(&mut self, out: &mut RawTrace<'_>) -> Result<DecoderStep, ReadError> {
        let RawTrace { events, ending } = out;
        if !std::mem::replace(&mut self.has_begun, true) {
            **ending = Ending { known_until_ns: ending.known_until_ns, ..self.found };
        }
        let open = match self.open.take() {
            Some(open) => Some(open),
            None => self.entries.get(self.at).copied().map(|entry| self.begin(entry, events)).transpose()?,
        };
        if let Some(mut open) = open {
            let cpu = open.entry.cpu;
            let translator = &mut self.translators[usize::from(cpu)];
            if !open.read(&self.body, &mut |event| translator.take(event, cpu, events), ending) {
                self.open = Some(open);
                return Ok(DecoderStep::More);
            }
            self.end(&open, out);
            self.at += 1;
        }
        let any = |has: fn(&Translator) -> bool| self.translators.iter().any(has);
        match self.entries.get(self.at) {
            Some(next) => Ok(DecoderStep::Until(self.clock.ns(next.first).saturating_sub(SLACK_NS))),
            None if any(|translator| translator.has_switches) => Ok(DecoderStep::End),
            None if any(|translator| translator.has_packed_switches) => {
                Err(ReadError::Unusable("its context switches are in a form whose layout is not public"))
            }
            None if out.ending.gaps > 0 => {
                Err(ReadError::Unusable("its buffers are damaged, or packed in a way that is not known"))
            }
            None => Err(ReadError::Unusable(
                "it has no context switches; record with the kernel flags CSWITCH and DISPATCHER, for example `wpr -start CPU`",
            )),
        }
    }
}

/// Counts events of the kernel by group and type (`0x0503`), and how many of those that cpumon decodes are sound.
pub fn etl_counts<R: Read + Seek>(from: R) -> Result<BTreeMap<u16, (u64, u64)>, ReadError> {
    let (mut etl, _) = Etl::open(from)?;
    let (mut counts, mut ending) = (BTreeMap::new(), Ending::default());
    for entry in etl.entries.clone() {
        let count = &mut |event: &Event<'_>| {
            let (all, decoded) = counts.entry(event.payload.hook).or_insert((0, 0));
            *all += 1;
            *decoded += u64::from(matches!(event.payload.read(), Ok(Some(_))));
        };
        let mut buffer = etl.load(entry)?;
        while !buffer.read(&etl.body, count, &mut ending) {}
    }
    Ok(counts)
}
