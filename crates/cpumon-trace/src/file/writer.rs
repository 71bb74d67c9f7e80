//! Writes a trace file while it is being recorded.

use std::io::Write;

use cpumon_model::varint::push as push_varint;
use cpumon_sched::{SchedEvent, TraceGroup, TraceIdentity};
use zstd::bulk::Compressor;

use super::WriteError;
use super::columns::EventColumns;
use super::events::{Context, push_group, push_identity};
use super::format::{ChunkHeader, ChunkKind, FileHeader, Packing, RecordingId, VERSION, WITHOUT_COLUMNS};

/// A chunk is closed when it has this many bytes.
const FULL_BYTES: usize = 64 << 10;
/// Longest time between two syncs of [`TraceWriter::sync_if_due`].
const LONGEST_SYNC_NS: u64 = 1_000_000_000;
/// More bytes than any event or identity takes.
const SPARE_BYTES: usize = 1 << 10;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// zstd at this level, events by columns.
    Zstd(i32),
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenCounts {
    pub events: u64,
    pub bytes: u64,
}

struct OpenChunk {
    bytes: Vec<u8>,
    context: Context,
    base_ns: u64,
    count: u32,
}

/// Identities or names that have not been written yet.
#[derive(Default)]
struct OpenList {
    bytes: Vec<u8>,
    count: u32,
}

/// A trace file that is being written. Memory: a chunk a CPU. In a steady state it allocates nothing.
pub struct TraceWriter<W: Write> {
    to: W,
    chunks: Vec<Option<OpenChunk>>,
    identities: OpenList,
    groups: OpenList,
    compressor: Option<Compressor<'static>>,
    columns: EventColumns,
    packed: Vec<u8>,
    counts: WrittenCounts,
    synced_ns: u64,
    /// The first error: [`TraceWriter::sync`] returns it, because those who bring events cannot.
    failed: Option<WriteError>,
}

fn failed(operation: &'static str) -> impl FnOnce(std::io::Error) -> WriteError {
    move |error| WriteError { operation, error }
}

impl<W: Write> TraceWriter<W> {
    pub fn new(mut to: W, header: &FileHeader, compression: Compression) -> Result<Self, WriteError> {
        let compressor = match compression {
            Compression::None => None,
            Compression::Zstd(level) => Some(Compressor::new(level).map_err(failed("prepare zstd"))?),
        };
        let version = if compressor.is_some() { VERSION } else { WITHOUT_COLUMNS };
        let bytes = header.encode(version);
        to.write_all(&bytes).map_err(failed("write the header"))?;
        let counts = WrittenCounts { events: 0, bytes: bytes.len() as u64 };
        let packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(FULL_BYTES + SPARE_BYTES));
        Ok(Self {
            to,
            chunks: Vec::new(),
            identities: OpenList::default(),
            groups: OpenList::default(),
            compressor,
            columns: EventColumns::default(),
            packed,
            synced_ns: header.began.mono_ns,
            counts,
            failed: None,
        })
    }

    pub fn event(&mut self, event: &SchedEvent) {
        let at = usize::from(event.cpu);
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let fresh = || OpenChunk {
            bytes: Vec::with_capacity(FULL_BYTES + SPARE_BYTES),
            context: Context::new(event.cpu, 0),
            base_ns: 0,
            count: 0,
        };
        let chunk = self.chunks[at].get_or_insert_with(fresh);
        if chunk.count == 0 {
            // Not earlier than the chunk before: times of one CPU never go back.
            chunk.base_ns = event.at_ns.max(chunk.base_ns);
            chunk.context = Context::new(event.cpu, chunk.base_ns);
        }
        chunk.context.push(&mut chunk.bytes, event);
        chunk.count += 1;
        self.counts.events += 1;
        if chunk.bytes.len() >= FULL_BYTES {
            self.close(at);
        }
    }

    pub fn identity(&mut self, identity: &TraceIdentity) {
        push_identity(&mut self.identities.bytes, identity);
        self.identities.count += 1;
        if self.identities.bytes.len() >= FULL_BYTES {
            self.close_identities();
        }
    }

    pub fn group(&mut self, group: &TraceGroup) {
        push_group(&mut self.groups.bytes, group);
        self.groups.count += 1;
        if self.groups.bytes.len() >= FULL_BYTES {
            self.close_groups();
        }
    }

    /// Closes the open chunks and says that all events before `before_ns` are in the file: what was written so far can be read
    /// from here on. An event that comes later with an earlier time is out of order for readers.
    pub fn sync(&mut self, before_ns: u64) -> Result<(), WriteError> {
        self.synced_ns = before_ns;
        self.close_all();
        self.write(ChunkKind::SYNC, 0, before_ns, 0, &[]);
        self.check()
    }

    /// [`TraceWriter::sync`] once there is enough to write, or a second after the last one: small chunks take more space.
    pub fn sync_if_due(&mut self, before_ns: u64) -> Result<(), WriteError> {
        let open = self.chunks.iter().flatten().map(|chunk| chunk.bytes.len()).sum::<usize>();
        if open >= FULL_BYTES / 2 || before_ns.saturating_sub(self.synced_ns) >= LONGEST_SYNC_NS {
            return self.sync(before_ns);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Says that the file is one of several of a recording. Comes first.
    pub(super) fn part(&mut self, of: RecordingId) -> Result<(), WriteError> {
        self.close_all();
        let compressor = self.compressor.take();
        self.write(ChunkKind::PART, 0, of.began_ns, 0, &of.boot.0);
        self.compressor = compressor;
        self.check()
    }

    /// Ends the file: the recording lasted until `end_ns` and lost this many events.
    pub fn finish(mut self, end_ns: u64, lost: u64) -> Result<(W, WrittenCounts), WriteError> {
        self.end(end_ns, lost)?;
        Ok((self.to, self.counts))
    }

    /// As [`TraceWriter::finish`]. Nothing may follow.
    pub fn end(&mut self, end_ns: u64, lost: u64) -> Result<(), WriteError> {
        self.close_all();
        let mut payload = Vec::new();
        push_varint(&mut payload, self.counts.events);
        push_varint(&mut payload, lost);
        self.write(ChunkKind::END, 0, end_ns, 0, &payload);
        self.check()
    }

    /// Adds closed chunks as they are. `events`: the number of events in them.
    pub(super) fn chunks(&mut self, bytes: &[u8], events: u64) -> Result<(), WriteError> {
        self.close_all();
        self.to.write_all(bytes).map_err(failed("write the trace"))?;
        self.counts.bytes += bytes.len() as u64;
        self.counts.events += events;
        self.check()
    }

    pub fn counts(&self) -> WrittenCounts {
        self.counts
    }

    fn check(&mut self) -> Result<(), WriteError> {
        self.failed.take().map_or(Ok(()), Err)?;
        self.to.flush().map_err(failed("write the trace"))
    }

    fn close_all(&mut self) {
        self.close_groups();
        self.close_identities();
        (0..self.chunks.len()).for_each(|at| self.close(at));
    }

    fn close_identities(&mut self) {
        self.close_list(ChunkKind::IDENTITIES, |writer| &mut writer.identities);
    }

    fn close_groups(&mut self) {
        self.close_list(ChunkKind::GROUPS, |writer| &mut writer.groups);
    }

    fn close_list(&mut self, kind: ChunkKind, list_of: fn(&mut Self) -> &mut OpenList) {
        let mut list = std::mem::take(list_of(self));
        if list.count > 0 {
            self.write(kind, 0, 0, list.count, &list.bytes);
            list.bytes.clear();
            list.count = 0;
        }
        *list_of(self) = list;
    }

    fn close(&mut self, at: usize) {
        let Some(chunk) = self.chunks[at].as_mut().filter(|chunk| chunk.count > 0) else { return };
        let (mut payload, count) = (std::mem::take(&mut chunk.bytes), std::mem::take(&mut chunk.count));
        let base_ns = chunk.base_ns;
        chunk.base_ns = chunk.context.at_ns;
        self.write(ChunkKind::EVENTS, u16::try_from(at).unwrap_or(u16::MAX), base_ns, count, &payload);
        payload.clear();
        if let Some(chunk) = &mut self.chunks[at] {
            chunk.bytes = payload;
        }
    }

    /// Packs a payload, if that makes it smaller.
    fn pack(&mut self, kind: ChunkKind, raw: &[u8]) -> Packing {
        let Some(compressor) = self.compressor.as_mut().filter(|_| !raw.is_empty()) else {
            return Packing::None;
        };
        self.packed.clear();
        let (packing, is_packed) = if kind == ChunkKind::EVENTS {
            (Packing::Columns, self.columns.pack(raw, compressor, &mut self.packed))
        } else {
            self.packed.reserve(zstd::zstd_safe::compress_bound(raw.len()));
            (Packing::Zstd, compressor.compress_to_buffer(raw, &mut self.packed).is_ok())
        };
        if is_packed && self.packed.len() < raw.len() { packing } else { Packing::None }
    }

    fn write(&mut self, kind: ChunkKind, cpu: u16, base_ns: u64, count: u32, raw: &[u8]) {
        let packing = self.pack(kind, raw);
        let payload = if packing == Packing::None { raw } else { self.packed.as_slice() };
        let header = ChunkHeader {
            kind,
            packing,
            cpu,
            stored_bytes: payload.len(),
            raw_bytes: raw.len(),
            count,
            base_ns,
        }
        .encode(payload);
        let written = self.to.write_all(&header).and_then(|()| self.to.write_all(payload));
        self.counts.bytes += (header.len() + payload.len()) as u64;
        if let (Err(error), None) = (written, &self.failed) {
            self.failed = Some(WriteError { operation: "write the trace", error });
        }
    }
}

impl TraceWriter<Vec<u8>> {
    /// What has been written and not been taken away.
    pub fn written(&mut self) -> &mut Vec<u8> {
        &mut self.to
    }
}
