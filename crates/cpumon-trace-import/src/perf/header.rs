//! The start of a `perf.data`, and the sections behind its records. They say what a sample has in front of a tracepoint's record: it depends
//! on how the event was opened.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

use cpumon_sched::{Bytes, Order};
use cpumon_trace::ReadError;
use foldhash::fast::RandomState;

use crate::decoder::{host_name, read_up_to};
use crate::tracepoints::{Tracepoints, read_tracing_data};

/// `PERFILE2`, read in the order of the machine that wrote it.
pub(crate) const MAGICS: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];
/// Bytes of the header of a file, and of one that was written to a pipe.
const FILE_HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;

const FEATURE_TRACING_DATA: u32 = 1;
const FEATURE_HOSTNAME: u32 = 3;
const FEATURE_NRCPUS: u32 = 7;
const FEATURE_DIRECTORY: u32 = 24;
const FEATURES: u32 = 256;

// The largest sections that are read. Descriptions of all tracepoints of a kernel have 2 to 4 MB.
const MAX_ATTRS_BYTES: u64 = 4 << 20;
const MAX_IDS_BYTES: u64 = 1 << 20;
const MAX_IDS: usize = 1 << 20;
const MAX_FEATURE_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Layouts {
    first: Option<SampleLayout>,
    /// By the identifier of the event; empty where all have the same layout.
    by_id: HashMap<u64, SampleLayout, RandomState>,
    is_mixed: bool,
}

impl Layouts {
    pub(super) fn add(&mut self, layout: SampleLayout, ids: &[u8], order: Order) {
        self.is_mixed |= self.first.is_some_and(|first| first != layout);
        self.first = self.first.or(Some(layout));
        for id in ids.chunks_exact(8).take(MAX_IDS.saturating_sub(self.by_id.len())) {
            self.by_id.insert(order.number(id), layout);
        }
    }

    /// Of an event whose identifier is at this end of its record.
    pub(super) fn find(&self, identifier: Option<&[u8]>, order: Order) -> Option<SampleLayout> {
        let first = self.first?;
        if !self.is_mixed {
            return Some(first);
        }
        let identifier = identifier.filter(|_| first.has_identifier())?;
        Some(self.by_id.get(&order.number(identifier)).copied().unwrap_or(first))
    }

    fn check(&self) -> Result<(), ReadError> {
        let Some(first) = self.first else { return Err(ReadError::Unusable("it names no event")) };
        if self.is_mixed && !first.has_identifier() {
            return Err(ReadError::Unusable("its events have different layouts and no identifiers"));
        }
        let is_usable = first.is_usable() || self.by_id.values().any(|layout| layout.is_usable());
        if is_usable {
            return Ok(());
        }
        Err(ReadError::Unusable(
            "its samples lack time, CPU or the tracepoint's data; record with `perf sched record`",
        ))
    }
}

/// What a file says in front of and behind its records.
#[derive(Default)]
pub(super) struct PerfHeader {
    pub(super) order: Order,
    /// Bytes from the start of the file at which records begin, and how many; `None`: up to the end.
    pub(super) begin: u64,
    pub(super) length: Option<u64>,
    pub(super) layouts: Layouts,
    /// `None`: in a pipe they are among the records.
    pub(super) tracepoints: Option<Tracepoints>,
    pub(super) host: Box<str>,
    pub(super) cpus: u16,
    /// The records are in other files.
    pub(super) is_directory: bool,
}

struct Section {
    at: u64,
    bytes: u64,
}

fn section(bytes: &mut Bytes<'_>) -> Option<Section> {
    Some(Section { at: bytes.u64()?, bytes: bytes.u64()? })
}

fn load<R: Read + Seek>(from: &mut R, section: &Section, most: u64) -> Result<Vec<u8>, ReadError> {
    from.seek(SeekFrom::Start(section.at)).map_err(ReadError::Io)?;
    match read_up_to(from, section.bytes, most)? {
        Some(bytes) if bytes.len() as u64 == section.bytes => Ok(bytes),
        Some(_) => Err(ReadError::Unusable(
            "it ends early: the descriptions of its events, which perf writes last, are missing",
        )),
        None => Err(ReadError::Unusable("a section of it is larger than any that perf writes")),
    }
}

impl PerfHeader {
    /// Reads everything but the records, and goes to their start.
    pub(super) fn read<R: Read + Seek>(from: &mut R) -> Result<Self, ReadError> {
        from.seek(SeekFrom::Start(0))?;
        let raw = read_up_to(from, FILE_HEADER_BYTES, FILE_HEADER_BYTES)?.unwrap_or_default();
        let order = if raw.starts_with(MAGICS[0]) { Order::Little } else { Order::Big };
        let mut bytes = Bytes::new(&raw, order);
        bytes.skip(8).ok_or(ReadError::Header)?;
        let size = bytes.u64().ok_or(ReadError::Header)?;
        let header = match size {
            PIPE_HEADER_BYTES => Self { order, begin: PIPE_HEADER_BYTES, ..Self::default() },
            FILE_HEADER_BYTES => Self::of_file(from, &mut bytes)?,
            _ => return Err(ReadError::Foreign),
        };
        from.seek(SeekFrom::Start(header.begin))?;
        Ok(header)
    }

    fn of_file<R: Read + Seek>(from: &mut R, bytes: &mut Bytes<'_>) -> Result<Self, ReadError> {
        let order = bytes.order;
        let attr_bytes = bytes.u64().ok_or(ReadError::Header)?;
        let attrs = section(bytes).ok_or(ReadError::Header)?;
        let data = section(bytes).ok_or(ReadError::Header)?;
        section(bytes).ok_or(ReadError::Header)?;
        let features = bytes.take(32).ok_or(ReadError::Header)?;
        if data.bytes == 0 {
            return Err(ReadError::Unusable("perf was ended before it had finished the file"));
        }
        let layouts = layouts(from, &attrs, attr_bytes, order)?;
        layouts.check()?;
        let (begin, length) = (data.at, Some(data.bytes));
        let mut header = Self { order, begin, length, layouts, ..Self::default() };
        let end = data.at.checked_add(data.bytes).ok_or(ReadError::Header)?;
        header.read_features(from, end, features)?;
        header.check()?;
        Ok(header)
    }

    /// Whether the records can have switches. A pipe has what says so among the records.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        self.layouts.check()?;
        if self.tracepoints.is_none() {
            return Err(ReadError::Unusable("it has no tracepoints; record with `perf sched record`"));
        }
        Ok(())
    }

    fn read_features<R: Read + Seek>(
        &mut self,
        from: &mut R,
        at: u64,
        features: &[u8],
    ) -> Result<(), ReadError> {
        let order = self.order;
        let has = |feature: u32| {
            // Words of 64 bits, in the order of the machine.
            let at = usize::try_from(feature / 64 * 8).unwrap_or(0);
            features.get(at..at + 8).is_some_and(|word| order.number(word) >> (feature % 64) & 1 == 1)
        };
        let present: Vec<u32> = (0..FEATURES).filter(|feature| has(*feature)).collect();
        let table = load(from, &Section { at, bytes: 16 * present.len() as u64 }, MAX_ATTRS_BYTES)?;
        let mut table = Bytes::new(&table, order);
        for feature in present {
            let section = section(&mut table).ok_or(ReadError::Header)?;
            match feature {
                FEATURE_TRACING_DATA => {
                    let raw = load(from, &section, MAX_FEATURE_BYTES)?;
                    self.set_tracing_data(&raw)?;
                }
                FEATURE_HOSTNAME => {
                    let raw = load(from, &section, MAX_ATTRS_BYTES)?;
                    self.host = host_name(Bytes::new(&raw, order).sized(4).unwrap_or_default()).into();
                }
                FEATURE_NRCPUS => {
                    let raw = load(from, &section, MAX_ATTRS_BYTES)?;
                    // Online, then available.
                    let online = raw.get(..4).map_or(0, |online| order.number(online));
                    self.cpus = u16::try_from(online).unwrap_or(u16::MAX);
                }
                FEATURE_DIRECTORY => self.is_directory = true,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn set_tracing_data(&mut self, raw: &[u8]) -> Result<(), ReadError> {
        let tracepoints = read_tracing_data(raw)
            .ok_or(ReadError::Unusable("the descriptions of its events are damaged"))?;
        if !tracepoints.has_switches() {
            return Err(ReadError::Unusable(
                "it has no sched_switch events; record with `perf sched record`",
            ));
        }
        self.tracepoints = Some(tracepoints);
        Ok(())
    }
}

/// Each event: its attributes, and where its identifiers are.
fn layouts<R: Read + Seek>(
    from: &mut R,
    attrs: &Section,
    attr_bytes: u64,
    order: Order,
) -> Result<Layouts, ReadError> {
    let raw = load(from, attrs, MAX_ATTRS_BYTES)?;
    let size = usize::try_from(attr_bytes).ok().filter(|size| (80..=4096).contains(size));
    let size = size.ok_or(ReadError::Header)?;
    let mut layouts = Layouts::default();
    let mut left_bytes = MAX_IDS_BYTES * 8;
    for entry in raw.chunks_exact(size) {
        let (attr, ids) = entry.split_at(size - 16);
        let ids = section(&mut Bytes::new(ids, order)).ok_or(ReadError::Header)?;
        let layout = SampleLayout::of(attr, order).ok_or(ReadError::Header)?;
        let ids = load(from, &ids, left_bytes)?;
        left_bytes -= ids.len() as u64;
        layouts.add(layout, &ids, order);
    }
    Ok(layouts)
}

// Bits of `perf_event_attr.sample_type`.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

// Bits of `perf_event_attr.read_format`.
const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Flag `sample_id_all`: other records end with time and CPU too.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// Up to `read_format` and the flags: the first version of the structure.
const ATTR_BYTES: usize = 64;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleStamp {
    pub(super) at_ns: u64,
    pub(super) cpu: u32,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleLayout {
    sample: u64,
    read: u64,
    has_stamps: bool,
}

impl SampleLayout {
    /// Layout of the records of a `perf_event_attr`.
    pub(super) fn of(attr: &[u8], order: Order) -> Option<Self> {
        let mut bytes = Bytes::new(attr.get(..ATTR_BYTES)?, order);
        bytes.skip(24)?;
        let (sample, read, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        // A bit field: the first flag is the highest bit there.
        let flags = if order == Order::Big { flags.reverse_bits() } else { flags };
        Some(Self { sample, read, has_stamps: flags & SAMPLE_ID_ALL != 0 })
    }

    /// Whether its records name their event in a fixed place.
    fn has_identifier(self) -> bool {
        self.sample & IDENTIFIER != 0
    }

    /// Whether its samples have a record of a tracepoint, a time and a CPU.
    pub(super) fn is_usable(self) -> bool {
        self.sample & (TIME | CPU | RAW) == TIME | CPU | RAW
    }

    /// Skips the words of these bits that the sample has, and takes time and CPU into `stamp`.
    fn take_words(self, bytes: &mut Bytes<'_>, bits: &[u64], stamp: &mut SampleStamp) -> Option<()> {
        for bit in bits.iter().filter(|bit| self.sample & **bit != 0) {
            match *bit {
                TIME => stamp.at_ns = bytes.u64()?,
                CPU => {
                    stamp.cpu = bytes.u32()?;
                    bytes.skip(4)?;
                }
                _ => bytes.skip(8)?,
            }
        }
        Some(())
    }

    /// Splits a sample into its stamp and its raw data.
    pub(super) fn sample(self, body: &[u8], order: Order) -> Option<(SampleStamp, &[u8])> {
        let (mut bytes, mut stamp) = (Bytes::new(body, order), SampleStamp::default());
        let has = |bit| self.sample & bit != 0;
        let words = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];
        self.take_words(&mut bytes, &words, &mut stamp)?;
        if has(READ) {
            self.skip_read(&mut bytes)?;
        }
        if has(CALLCHAIN) {
            let words = bytes.u64()?;
            bytes.skip(words.checked_mul(8)?)?;
        }
        let raw = if has(RAW) { bytes.sized(4)? } else { &[] };
        Some((stamp, raw))
    }

    fn skip_read(self, bytes: &mut Bytes<'_>) -> Option<()> {
        let has = |bit| u64::from(self.read & bit != 0);
        let (times, more) = (has(READ_ENABLED) + has(READ_RUNNING), has(READ_ID) + has(READ_LOST));
        let words = if has(READ_GROUP) == 1 {
            bytes.u64()?.checked_mul(1 + more)?.checked_add(times)?
        } else {
            1 + times + more
        };
        bytes.skip(words.checked_mul(8)?)
    }

    /// Splits the stamp off the end of another record.
    pub(super) fn stamp(self, body: &[u8], order: Order) -> Option<(SampleStamp, &[u8])> {
        if !self.has_stamps {
            return Some((SampleStamp::default(), body));
        }
        let words = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let count = words.iter().filter(|bit| self.sample & **bit != 0).count();
        let (front, end) = body.split_at_checked(body.len().checked_sub(count * 8)?)?;
        let mut stamp = SampleStamp::default();
        self.take_words(&mut Bytes::new(end, order), &words, &mut stamp)?;
        Some((stamp, front))
    }
}
