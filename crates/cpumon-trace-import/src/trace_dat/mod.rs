//! `trace.dat`, as trace-cmd writes it: version 6, where all follows one another, and 7, where options say where each section is.
//!
//! The data of a CPU are the pages of the kernel's ring buffer as they are; version 7 may compress them in chunks.

mod head;
mod pages;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Seek, SeekFrom};

use cpumon_sched::Bytes;
use cpumon_trace::limits::Credit;
use cpumon_trace::{Ending, FileHeader, ReadError};

use crate::decoder::{Decoder, DecoderStep, NO_SWITCH_LEFT, RawEvent, RawKind, RawTrace, read_up_to};
use head::{Buffer, CpuData, NO_SWITCHES, TraceDatHead};

/// Bytes of pages that are read at once, and the most that a chunk unpacks to. trace-cmd makes chunks of ten pages.
const MAX_PART_BYTES: usize = 4 << 20;
const PART_BYTES: usize = 64 << 10;
/// trace-cmd 3.1 leaves the number of chunks out of the length of a CPU's data.
const UNCOUNTED_BYTES: u64 = 4;
/// Events that are read before they are handed on.
const EVENTS_A_STEP: usize = 1 << 16;

/// Unread data of one CPU.
#[derive(Clone, Debug)]
struct CpuDataCursor {
    cpu: u16,
    at: u64,
    end: u64,
    /// Compressed chunks that are left; `None`: not known yet.
    chunks: Option<u32>,
    known_ns: u64,
    has_events: bool,
    /// Number of events that are missing after `known_ns`; 0: it is not known, and at least one.
    missed: Option<u64>,
}

impl CpuDataCursor {
    fn new(data: &CpuData) -> Self {
        let CpuData { cpu, at, bytes } = *data;
        let end = at.saturating_add(bytes);
        Self { cpu, at, end, chunks: None, known_ns: 0, has_events: false, missed: None }
    }
}

pub(crate) struct TraceDat<R> {
    from: R,
    head: TraceDatHead,
    page_bytes: usize,
    is_packed: bool,
    credit: Credit,
    cursors: Vec<CpuDataCursor>,
    /// The cursors that have more, by the time up to which they were read.
    order_of: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<R: Read + Seek> TraceDat<R> {
    /// Reads the head of the file, and finds the first buffer with switches.
    pub(crate) fn open(mut from: R) -> Result<(Self, FileHeader), ReadError> {
        let head = head::read(&mut from)?;
        let mut data = Self {
            from,
            head,
            page_bytes: 0,
            is_packed: false,
            credit: Credit::default(),
            cursors: Vec::new(),
            order_of: BinaryHeap::new(),
        };
        let (mut why, mut ending) = (NO_SWITCHES, Ending::default());
        for buffer in std::mem::take(&mut data.head.buffers) {
            if buffer.cpus.is_empty() {
                continue;
            }
            if !data.head.has_time(&buffer) {
                why = "its clock does not count ns; record with `trace-cmd record -C mono`";
                continue;
            }
            data.is_packed = data.head.is_packed(&mut data.from, &buffer)?;
            // The search has one credit for all buffers: with one for each, 64 small ones would cost as much as 64 files.
            data.begin(&buffer);
            if data.has_switches(&mut ending)? {
                data.credit = Credit::default();
                data.begin(&buffer);
                let TraceDatHead { cpus, ref host, .. } = data.head;
                let header = FileHeader { cpus, host: host.clone(), ..FileHeader::default() };
                return Ok((data, header));
            }
        }
        let is_damaged = ending.damaged_at.is_some() || ending.malformed > 0;
        Err(ReadError::Unusable(if is_damaged { NO_SWITCH_LEFT } else { why }))
    }

    /// Goes to the begin of a buffer.
    fn begin(&mut self, buffer: &Buffer) {
        self.head.tracepoints.has_wakings = false;
        self.page_bytes = usize::try_from(buffer.page_bytes).unwrap_or(0);
        self.cursors = buffer.cpus.iter().map(CpuDataCursor::new).collect();
        self.order_of = (0..buffer.cpus.len()).map(|at| Reverse((0, at))).collect();
    }

    /// `ending`: what is damaged in front of the first one.
    fn has_switches(&mut self, ending: &mut Ending) -> Result<bool, ReadError> {
        let mut events = Vec::new();
        while self.part(&mut RawTrace { events: &mut events, ending })? {
            if events.iter().any(|event: &RawEvent| matches!(event.kind, RawKind::Switch { .. })) {
                return Ok(true);
            }
            events.clear();
        }
        Ok(false)
    }

    /// Reads a part of the CPU that was read the least far. False: all have been read.
    fn part(&mut self, out: &mut RawTrace<'_>) -> Result<bool, ReadError> {
        let Some(Reverse((_, at))) = self.order_of.pop() else { return Ok(false) };
        let begin = self.cursors[at].at;
        let bytes = self.load(at)?;
        if bytes.is_none() {
            out.ending.damaged_at.get_or_insert(begin);
        }
        let is_last = self.cursors[at].at >= self.cursors[at].end;
        let page_bytes = self.page_bytes;
        for page in bytes.iter().flat_map(|bytes| bytes.chunks(page_bytes)) {
            self.page(at, page, out);
        }
        let cursor = &mut self.cursors[at];
        if bytes.is_none() {
            // What follows cannot be found.
            cursor.missed = Some(cursor.missed.unwrap_or(0));
        }
        if bytes.is_some() && !is_last {
            self.order_of.push(Reverse((cursor.known_ns, at)));
        } else if let Some(count) = cursor.missed.filter(|_| cursor.has_events) {
            out.lose(cursor.cpu, count.max(1), cursor.known_ns, u64::MAX);
        }
        Ok(true)
    }

    /// Some pages of the CPU's data. `None`: they are damaged, or the file ends before.
    fn load(&mut self, at: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let (cursor, from) = (&mut self.cursors[at], &mut self.from);
        let Some(place) = i64::try_from(cursor.at).ok().map(i64::unsigned_abs) else { return Ok(None) };
        from.seek(SeekFrom::Start(place))?;
        let left = cursor.end.saturating_sub(cursor.at);
        if !self.is_packed {
            let most = PART_BYTES.max(self.page_bytes);
            let length = (most - most % self.page_bytes) as u64;
            let length = length.min(left);
            cursor.at += length;
            let bytes = read_up_to(from, length, MAX_PART_BYTES as u64)?;
            return Ok(bytes.filter(|bytes| bytes.len() as u64 == length));
        }
        let mut read = |length: u64| -> Result<Option<Vec<u8>>, ReadError> {
            let end = cursor.end.saturating_add(UNCOUNTED_BYTES);
            let fits = cursor.at.checked_add(length).is_some_and(|behind| behind <= end);
            let bytes = if fits { read_up_to(from, length, MAX_PART_BYTES as u64)? } else { None };
            cursor.at = cursor.at.saturating_add(length);
            Ok(bytes.filter(|bytes| bytes.len() as u64 == length))
        };
        let chunks = match cursor.chunks {
            Some(chunks) => chunks,
            None => match read(4)? {
                Some(count) => u32::try_from(self.head.order.number(&count)).unwrap_or(0),
                None => return Ok(None),
            },
        };
        let Some(left) = chunks.checked_sub(1) else {
            cursor.at = cursor.end;
            return Ok(Some(Vec::new()));
        };
        let Some(sizes) = read(8)? else { return Ok(None) };
        let mut sizes = Bytes::new(&sizes, self.head.order);
        let (Some(packed), Some(unpacked)) = (sizes.u32(), sizes.u32()) else { return Ok(None) };
        if unpacked as usize > MAX_PART_BYTES {
            return Ok(None);
        }
        let Some(packed) = read(packed.into())? else { return Ok(None) };
        let bytes = self.head.packing.unpack(&packed, unpacked, &mut self.credit);
        cursor.chunks = Some(left);
        if left == 0 {
            cursor.at = cursor.end;
        }
        Ok(bytes)
    }

    fn page(&mut self, at: usize, bytes: &[u8], out: &mut RawTrace<'_>) {
        let cursor = &mut self.cursors[at];
        let ns = |time| self.head.tsc.map_or(time, |tsc| tsc.ns(time));
        let Some(mut page) = self.head.pages.open(bytes) else {
            out.ending.malformed += 1;
            cursor.missed = Some(cursor.missed.unwrap_or(0));
            return;
        };
        if let Some(count) = page.missed {
            cursor.missed = Some(cursor.missed.unwrap_or(0).saturating_add(count));
        }
        // What was lost in front of the CPU's first event is no part of the trace.
        if let Some(count) = cursor.missed.take().filter(|_| cursor.has_events) {
            let until_ns = ns(page.at).max(cursor.known_ns);
            out.lose(cursor.cpu, count.max(1), cursor.known_ns, until_ns);
        }
        loop {
            let (time, record) = match page.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(()) => {
                    out.ending.malformed += 1;
                    cursor.missed = Some(0);
                    break;
                }
            };
            let at_ns = ns(time);
            (cursor.known_ns, cursor.has_events) = (cursor.known_ns.max(at_ns), true);
            match self.head.tracepoints.read(record) {
                Ok(kind) => out.events.extend(kind.map(|kind| RawEvent { at_ns, cpu: cursor.cpu, kind })),
                Err(_) => out.ending.malformed += 1,
            }
        }
    }
}

impl<R: Read + Seek + Send> Decoder for TraceDat<R> {
    fn step(&mut self, out: &mut RawTrace<'_>) -> Result<DecoderStep, ReadError> {
        // From before the first event.
        out.events.append(&mut self.head.names.events);
        out.ending.unnamed += std::mem::take(&mut self.head.names.left_out);
        let before = out.events.len();
        while out.events.len() - before < EVENTS_A_STEP {
            if !self.part(out)? {
                return Ok(DecoderStep::End);
            }
        }
        let until = self.order_of.peek();
        Ok(until.map_or(DecoderStep::End, |Reverse((until_ns, _))| DecoderStep::Until(*until_ns)))
    }
}
