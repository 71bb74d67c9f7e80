//! `perf.data`, as `perf sched record` writes it: to a file or a pipe, plain or compressed.
//!
//! The container is read here and not with a crate: `linux-perf-data` 0.13.0 allocates what a file's sections, AUX records and
//! zstd frames announce, and holds all records of a file whose rounds never end.

mod header;

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use cpumon_sched::{Bytes, Slots, name};
use cpumon_trace::limits::Credit;
use cpumon_trace::{Ending, FileHeader, ReadError};
use zstd::stream::raw::{self, InBuffer, Operation, OutBuffer};

use crate::decoder::{Decoder, DecoderStep, NO_SWITCH_LEFT, NamedThread, RawEvent, RawKind, RawTrace};
pub(crate) use header::MAGICS;
use header::{PerfHeader, SampleLayout, SampleStamp};

const HEADER_BYTES: usize = 8;

// Records that perf itself makes.
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

const IN_OTHER_FILES: &str =
    "its events are in the files beside it, as `perf record --threads` writes them; record without --threads";
const MAX_TRACING_DATA_BYTES: u64 = 64 << 20;
/// Records that are read before the events they gave are handed on.
const RECORDS_A_STEP: u32 = 4096;

pub(crate) struct PerfData<R> {
    from: R,
    header: PerfHeader,
    at: u64,
    end: u64,
    body: Vec<u8>,
    records: Records,
    unpacker: Unpacker,
    record_bytes: u64,
    /// Unread part of the compressed piece in `body`.
    piece: Option<Range<usize>>,
    /// The start of a record whose end is in the next compressed piece.
    carried: Vec<u8>,
}

#[derive(Copy, Clone)]
struct RecordHeader {
    kind: u32,
    body_bytes: usize,
}

impl RecordHeader {
    fn take(bytes: &mut Bytes<'_>) -> Option<Self> {
        let kind = bytes.u32()?;
        bytes.u16()?;
        let body_bytes = usize::from(bytes.u16()?).checked_sub(HEADER_BYTES)?;
        Some(Self { kind, body_bytes })
    }
}

impl<R: Read + Seek> PerfData<R> {
    pub(crate) fn open(mut from: R) -> Result<(Self, FileHeader), ReadError> {
        let header = PerfHeader::read(&mut from)?;
        let file_header =
            FileHeader { cpus: header.cpus, host: header.host.clone(), ..FileHeader::default() };
        let (at, length) = (header.begin, header.length);
        let data = Self {
            from,
            header,
            at,
            end: length.map_or(u64::MAX, |length| at.saturating_add(length)),
            body: Vec::new(),
            records: Records::default(),
            unpacker: Unpacker::new()?,
            record_bytes: 0,
            piece: None,
            carried: Vec::new(),
        };
        Ok((data, file_header))
    }

    /// Fills `body`; false if the file ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool, ReadError> {
        self.body.clear();
        self.from.by_ref().take(bytes as u64).read_to_end(&mut self.body)?;
        Ok(self.body.len() == bytes)
    }

    /// `None`: the file ends here, or `ending` says where it is damaged.
    fn next(&mut self, ending: &mut Ending) -> Result<Option<u32>, ReadError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let is_whole = self.fill(HEADER_BYTES)?;
        if self.body.is_empty() && self.header.length.is_none() {
            return Ok(None);
        }
        let header = RecordHeader::take(&mut Bytes::new(&self.body, self.header.order)).filter(|_| is_whole);
        let Some(header) = header else {
            ending.damaged_at = Some(self.at);
            return Ok(None);
        };
        if !self.fill(header.body_bytes)? {
            ending.damaged_at = Some(self.at);
            return Ok(None);
        }
        self.record_bytes = (HEADER_BYTES + header.body_bytes) as u64;
        Ok(Some(header.kind))
    }

    /// Takes the record in `body`. `Some`: a round ended. False: it is damaged.
    fn take(&mut self, kind: u32, out: &mut RawTrace<'_>) -> Result<Result<Option<u64>, ()>, ReadError> {
        let order = self.header.order;
        let mut bytes = Bytes::new(&self.body, order);
        match kind {
            FINISHED_ROUND => return Ok(Ok(Some(self.records.end_round()))),
            HEADER_ATTR => {
                let size = self.body.get(4..8).map_or(0, |size| order.number(size));
                let split = usize::try_from(size).ok().and_then(|size| self.body.split_at_checked(size));
                let Some((attr, ids)) = split else { return Ok(Err(())) };
                let Some(layout) = SampleLayout::of(attr, order) else { return Ok(Err(())) };
                self.header.layouts.add(layout, ids, order);
            }
            HEADER_TRACING_DATA => {
                let Some(size) = bytes.u32() else { return Ok(Err(())) };
                // Behind the record, up to a multiple of eight.
                let padded = u64::from(size).next_multiple_of(8);
                if padded > MAX_TRACING_DATA_BYTES || !self.fill(usize::try_from(padded).unwrap_or(0))? {
                    return Ok(Err(()));
                }
                self.at += padded;
                self.header.set_tracing_data(&self.body)?;
            }
            AUXTRACE => {
                // Its data lies behind it, and says nothing of the scheduler.
                let Some(size) = bytes.u64() else { return Ok(Err(())) };
                let Some(at) = self.at.checked_add(size).filter(|at| i64::try_from(*at).is_ok()) else {
                    return Ok(Err(()));
                };
                self.at = at;
                let behind = at + (HEADER_BYTES + self.body.len()) as u64;
                self.from.seek(SeekFrom::Start(behind))?;
            }
            COMPRESSED => return Ok(self.begin_piece(0, None)),
            COMPRESSED2 => {
                let size = bytes.u64().and_then(|size| usize::try_from(size).ok());
                return Ok(self.begin_piece(8, Some(size.unwrap_or(usize::MAX))));
            }
            _ => self.records.take(&mut self.header, kind, &self.body, out),
        }
        Ok(Ok(None))
    }

    /// No more can be read. Without a switch there is no trace.
    fn end(&self, ending: &Ending) -> Result<DecoderStep, ReadError> {
        if !self.records.has_switches {
            self.header.check()?;
            return Err(ReadError::Unusable(match ending.damaged_at {
                Some(_) => NO_SWITCH_LEFT,
                None if self.header.is_directory => IN_OTHER_FILES,
                None => "it has no context switches; record with `perf sched record`",
            }));
        }
        Ok(DecoderStep::End)
    }

    /// Begins the compressed piece behind the first bytes of the record.
    fn begin_piece(&mut self, from: usize, size: Option<usize>) -> Result<Option<u64>, ()> {
        let length = self.body.len().checked_sub(from).ok_or(())?;
        let length = size.unwrap_or(length);
        let until = from.checked_add(length).filter(|until| *until <= self.body.len()).ok_or(())?;
        self.unpacker.begin(length);
        self.piece = Some(from..until);
        Ok(None)
    }

    /// Takes the records of the next part of a compressed piece. `Some`: a round ended.
    fn take_part(&mut self, out: &mut RawTrace<'_>) -> Result<Option<u64>, ()> {
        let Self { unpacker, carried, records, header, body, piece, .. } = self;
        let Some(left) = piece else { return Ok(None) };
        let part = unpacker.next(body.get(left.clone()).ok_or(())?).ok_or(())?;
        left.start += part.taken;
        carried.extend_from_slice(part.bytes);
        let is_last = part.is_last;
        let (mut bytes, mut taken, mut round) = (Bytes::new(carried, header.order), 0, None);
        while bytes.rest.len() >= HEADER_BYTES {
            let record = RecordHeader::take(&mut bytes).ok_or(())?;
            let Some(body) = bytes.take(record.body_bytes) else { break };
            if record.kind == FINISHED_ROUND {
                round = Some(records.end_round());
            } else {
                records.take(header, record.kind, body, out);
            }
            taken += HEADER_BYTES + record.body_bytes;
        }
        carried.drain(..taken);
        if is_last {
            *piece = None;
        }
        Ok(round)
    }
}

impl<R: Read + Seek + Send> Decoder for PerfData<R> {
    fn step(&mut self, out: &mut RawTrace<'_>) -> Result<DecoderStep, ReadError> {
        for _ in 0..RECORDS_A_STEP {
            let round = if self.piece.is_some() {
                self.take_part(out)
            } else {
                let Some(kind) = self.next(out.ending)? else {
                    // The end of a record that began in a compressed piece is missing.
                    if !self.carried.is_empty() {
                        out.ending.damaged_at.get_or_insert(self.at);
                    }
                    return self.end(out.ending);
                };
                self.take(kind, out)?
            };
            let Ok(round) = round else {
                out.ending.damaged_at = Some(self.at);
                return self.end(out.ending);
            };
            // A compressed record may hold many records: `at` passes it after its last part.
            let is_part = self.piece.is_some();
            if !is_part {
                self.at += self.record_bytes;
            }
            if let Some(until_ns) = round {
                return Ok(DecoderStep::Until(until_ns));
            }
            if is_part {
                return Ok(DecoderStep::More);
            }
        }
        Ok(DecoderStep::More)
    }
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
/// Thread id of kthreadd, the parent of all kernel threads.
const KTHREADD: u32 = 2;

#[derive(Debug, Default)]
struct Records {
    /// The latest event of each CPU: lost ones came after it.
    latest_ns: Slots<u64>,
    /// Latest event of all CPUs.
    newest_ns: u64,
    last_round: u64,
    has_switches: bool,
}

impl Records {
    /// A round ends: perf has read every CPU's buffer once. All is known up to the newest event of the round before.
    fn end_round(&mut self) -> u64 {
        std::mem::replace(&mut self.last_round, self.newest_ns)
    }

    fn take(&mut self, header: &mut PerfHeader, kind: u32, body: &[u8], out: &mut RawTrace<'_>) {
        let is_read = match kind {
            SAMPLE => self.sample(header, body, out.events),
            COMM | FORK | LOST | LOST_SAMPLES => self.other(header, kind, body, out),
            _ => Some(()),
        };
        out.ending.malformed += u64::from(is_read.is_none());
    }

    fn sample(&mut self, header: &mut PerfHeader, body: &[u8], events: &mut Vec<RawEvent>) -> Option<()> {
        let layout = header.layouts.find(body.get(..8), header.order)?;
        if !layout.is_usable() {
            return Some(());
        }
        let (stamp, raw) = layout.sample(body, header.order)?;
        let cpu = self.note(stamp)?;
        let kind = header.tracepoints.as_mut()?.read(raw).ok()?;
        self.has_switches |= matches!(kind, Some(RawKind::Switch { .. }));
        events.extend(kind.map(|kind| RawEvent { at_ns: stamp.at_ns, cpu, kind }));
        Some(())
    }

    fn note(&mut self, stamp: SampleStamp) -> Option<u16> {
        let cpu = u16::try_from(stamp.cpu).ok()?;
        let latest_ns = self.latest_ns.at(cpu.into());
        *latest_ns = stamp.at_ns.max(*latest_ns);
        self.newest_ns = self.newest_ns.max(stamp.at_ns);
        Some(cpu)
    }

    fn other(&mut self, header: &PerfHeader, kind: u32, body: &[u8], out: &mut RawTrace<'_>) -> Option<()> {
        let identifier = body.len().checked_sub(8).and_then(|at| body.get(at..));
        let layout: SampleLayout = header.layouts.find(identifier, header.order)?;
        let (stamp, front) = layout.stamp(body, header.order)?;
        let mut bytes = Bytes::new(front, header.order);
        let mut add = |kind| out.events.push(RawEvent { at_ns: stamp.at_ns, cpu: 0, kind });
        match kind {
            COMM => {
                let (pid, tid) = (bytes.u32()?, bytes.u32()?);
                add(RawKind::Belongs { tid, pid, is_new: false });
                add(RawKind::Called(NamedThread { tid, name: name(bytes.rest) }));
            }
            FORK => {
                let (pid, parent, tid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
                // perf writes those that were there before it without a time.
                add(RawKind::Belongs { tid, pid, is_new: stamp.at_ns > 0 });
                if parent == KTHREADD || pid == KTHREADD {
                    add(RawKind::Kernel { pid });
                }
            }
            LOST => {
                bytes.skip(8)?;
                let count = bytes.u64()?;
                let cpu = u16::try_from(stamp.cpu).ok()?;
                let since_ns = self.latest_ns.get(usize::from(cpu)).copied().unwrap_or(0);
                let at_ns = if since_ns == 0 { stamp.at_ns } else { since_ns.min(stamp.at_ns) };
                out.lose(cpu, count, at_ns, stamp.at_ns);
                self.note(stamp);
            }
            // Of the whole recording, without a time.
            _ => out.ending.lost = out.ending.lost.saturating_add(bytes.u64()?),
        }
        Some(())
    }
}

/// Most bytes that are unpacked at a time.
const PART_BYTES: usize = 128 << 10;

/// One zstd stream, cut into pieces: records that perf compressed (`-z`).
struct Unpacker {
    decoder: raw::Decoder<'static>,
    part: Vec<u8>,
    credit: Credit,
}

impl Unpacker {
    fn new() -> std::io::Result<Self> {
        Ok(Self { decoder: raw::Decoder::new()?, part: vec![0; PART_BYTES], credit: Credit::default() })
    }

    fn begin(&mut self, bytes: usize) {
        self.credit.add(bytes);
    }

    /// Unpacks the next part of a piece. `None`: the piece is damaged, or becomes more than it may.
    fn next(&mut self, piece: &[u8]) -> Option<UnpackedPart<'_>> {
        let mut input = InBuffer::around(piece);
        let mut output = OutBuffer::around(self.part.as_mut_slice());
        self.decoder.run(&mut input, &mut output).ok()?;
        let (unpacked, taken) = (output.pos(), input.pos());
        // A part that is not full means that the stream has no more for this piece.
        let is_last = unpacked < PART_BYTES && taken == piece.len();
        let goes_on = is_last || unpacked > 0;
        (goes_on && self.credit.take(unpacked)).then(|| UnpackedPart {
            bytes: &self.part[..unpacked],
            taken,
            is_last,
        })
    }
}

struct UnpackedPart<'p> {
    bytes: &'p [u8],
    /// Bytes of the piece that were consumed.
    taken: usize,
    is_last: bool,
}
