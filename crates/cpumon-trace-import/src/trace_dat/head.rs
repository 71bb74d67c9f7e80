//! The head of a `trace.dat`: descriptions of tracepoints, names of threads, and options, which say where its buffers and, in version 7,
//! its sections are. Sections of version 7 may be compressed: two sizes, then the data.

use std::io::{Read, Seek, SeekFrom};

use cpumon_sched::{Bytes, Order, name};
use cpumon_trace::ReadError;
use cpumon_trace::limits::Credit;

use super::pages::PageLayout;
use crate::decoder::{NamedThread, RawEvent, RawKind, host_name, read_up_to};
use crate::tracepoints::{Tracepoints, skip_own, take_intro, take_page_layout, take_systems};

/// Version 7: up to the place of its options.
const BEGIN_BYTES: u64 = 4096;
/// Version 6: bytes in which the places of a buffer's data are.
const MAX_PLACES_BYTES: u64 = 4 << 20;
/// Most sections of options.
const MAX_OPTIONS: usize = 64;
/// Names of threads that are read. The kernel has the last 128, or as many as `saved_cmdlines_size` says.
const MAX_NAMES: usize = 1 << 18;
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 64..=4 << 20;
/// Clocks of ftrace that count ns.
const CLOCKS: [&str; 8] = ["", "local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

pub(super) const NO_SWITCHES: &str = "it has no sched_switch events; record with `trace-cmd record -e sched`";

pub(super) struct TraceDatHead {
    pub(super) tracepoints: Tracepoints,
    pub(super) order: Order,
    pub(super) pages: PageLayout,
    pub(super) packing: Packing,
    pub(super) host: Box<str>,
    pub(super) cpus: u16,
    pub(super) tsc: Option<Tsc>,
    pub(super) names: ThreadNames,
    pub(super) buffers: Vec<Buffer>,
}

#[derive(Default)]
pub(super) struct ThreadNames {
    pub(super) events: Vec<RawEvent>,
    /// Names that are left out, because there are too many.
    pub(super) left_out: u64,
}

pub(super) fn read<R: Read + Seek>(from: &mut R) -> Result<TraceDatHead, ReadError> {
    let raw = read_up_to(from, BEGIN_BYTES, BEGIN_BYTES)?.unwrap_or_default();
    let mut bytes = Bytes::new(&raw, Order::Little);
    let intro = take_intro(&mut bytes).ok_or(ReadError::Header)?;
    let head = match intro.version {
        b"6" => {
            from.seek(SeekFrom::Start(0))?;
            // Version 6 does not say how long its head is; with the kernel's symbols it has some MB.
            let raw = read_up_to(from, MAX_SECTION_BYTES, MAX_SECTION_BYTES)?.unwrap_or_default();
            sequential(from, &raw)?
        }
        b"7" => sections(from, &mut bytes)?,
        _ => return Err(ReadError::Unusable("of trace.dat the versions 6 and 7 can be read")),
    };
    check(head)
}

/// Version 6: the parts of the file follow one another.
fn sequential<R: Read + Seek>(from: &mut R, raw: &[u8]) -> Result<TraceDatHead, ReadError> {
    let mut bytes = Bytes::new(raw, Order::Little);
    let intro = take_intro(&mut bytes).ok_or(ReadError::Header)?;
    let order = intro.order;
    let mut tracepoints = Tracepoints::new(order);
    let mut take = || {
        let pages = PageLayout::parse(take_page_layout(&mut bytes)?, order)?;
        skip_own(&mut bytes)?;
        take_systems(&mut bytes, &mut tracepoints)?;
        // Symbols, formats of printk.
        bytes.sized(4)?;
        bytes.sized(4)?;
        let names = names(bytes.sized(8)?);
        let cpus = bytes.u32().filter(|cpus| *cpus <= MAX_CPUS)?;
        Some((pages, names, cpus))
    };
    let (pages, names, mut cpus) = take().ok_or(ReadError::Header)?;
    let mut options = TraceDatOptions::default();
    let mut buffers = vec![places(&mut bytes, &mut options, &mut cpus)?];
    for place in std::mem::take(&mut options.buffers) {
        let at = i64::try_from(place.at).map_err(|_| ReadError::Header)?.unsigned_abs();
        from.seek(SeekFrom::Start(at))?;
        let raw = read_up_to(from, MAX_PLACES_BYTES, MAX_PLACES_BYTES)?.unwrap_or_default();
        buffers.push(places(&mut Bytes::new(&raw, order), &mut options, &mut cpus)?);
    }
    for buffer in &mut buffers {
        buffer.page_bytes = intro.page_bytes;
        buffer.clock.clone_from(&options.clock);
    }
    let TraceDatOptions { host, tsc, .. } = options;
    let cpus = u16::try_from(cpus).unwrap_or(u16::MAX);
    Ok(TraceDatHead { tracepoints, order, pages, packing: Packing::None, host, cpus, tsc, names, buffers })
}

/// Options, then where the data of each CPU are.
fn places(bytes: &mut Bytes<'_>, options: &mut TraceDatOptions, cpus: &mut u32) -> Result<Buffer, ReadError> {
    let mut kind = bytes.take(10).ok_or(ReadError::Header)?;
    if kind.starts_with(b"options") {
        options.take(bytes, false).ok_or(ReadError::Header)?;
        *cpus = options.cpus.unwrap_or(*cpus);
        kind = bytes.take(10).ok_or(ReadError::Header)?;
    }
    if kind.starts_with(b"latency") {
        return Err(ReadError::Unusable("it has the text of a latency tracer and no events"));
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(ReadError::Header);
    }
    let mut buffer = Buffer::default();
    for cpu in 0..*cpus {
        let (Some(at), Some(length)) = (bytes.u64(), bytes.u64()) else { return Err(ReadError::Header) };
        let data = CpuData { cpu: u16::try_from(cpu).unwrap_or(u16::MAX), at, bytes: length };
        buffer.list(data, &mut options.listed).ok_or(ReadError::Header)?;
    }
    Ok(buffer)
}

/// Version 7: options have the offsets of the sections.
fn sections<R: Read + Seek>(from: &mut R, bytes: &mut Bytes<'_>) -> Result<TraceDatHead, ReadError> {
    let order = bytes.order;
    let mut begin = || {
        let (name, _version) = (bytes.text()?, bytes.text()?);
        Some((name, bytes.u64()?))
    };
    let (packing, first) = begin().ok_or(ReadError::Header)?;
    let packing = Packing::of(packing)?;
    let mut sections = Sections::new(order, packing);
    let mut options = TraceDatOptions { next: Some(first), ..TraceDatOptions::default() };
    let mut left_bytes = MAX_SECTION_BYTES;
    for _ in 0..MAX_OPTIONS {
        let Some(at) = options.next else { break };
        let raw = sections.load(from, at, 0)?;
        left_bytes = left_bytes.checked_sub(raw.len() as u64).ok_or(ReadError::Header)?;
        options.take(&mut Bytes::new(&raw, order), true).ok_or(ReadError::Header)?;
    }
    let mut load = |from: &mut R, at: Option<u64>, id| {
        let at = at.ok_or(ReadError::Unusable("it does not say what its events have"))?;
        sections.load(from, at, id)
    };
    let raw = load(from, options.header_info, HEADER_INFO)?;
    let layout = take_page_layout(&mut Bytes::new(&raw, order)).ok_or(ReadError::Header)?;
    let pages = PageLayout::parse(layout, order).ok_or(ReadError::Header)?;
    let raw = load(from, options.event_formats, EVENT_FORMATS)?;
    let mut tracepoints = Tracepoints::new(order);
    take_systems(&mut Bytes::new(&raw, order), &mut tracepoints).ok_or(ReadError::Header)?;
    let names = match options.command_lines {
        Some(at) => {
            let raw = load(from, Some(at), COMMAND_LINES)?;
            names(Bytes::new(&raw, order).sized(8).ok_or(ReadError::Header)?)
        }
        None => ThreadNames::default(),
    };
    let TraceDatOptions { host, tsc, buffers, cpus, .. } = options;
    let cpus = u16::try_from(cpus.unwrap_or(0)).unwrap_or(u16::MAX);
    Ok(TraceDatHead { tracepoints, order, pages, packing, host, cpus, tsc, names, buffers })
}

/// Parses lines such as `12 name`: thread id and name.
fn names(text: &[u8]) -> ThreadNames {
    let line = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let tid = std::str::from_utf8(&line[..at]).ok()?.parse().ok()?;
        let kind = RawKind::Called(NamedThread { tid, name: name(&line[at + 1..]) });
        Some(RawEvent { at_ns: 0, cpu: 0, kind })
    };
    let mut lines = text.split(|byte| *byte == b'\n').filter_map(line);
    let events = lines.by_ref().take(MAX_NAMES).collect();
    ThreadNames { events, left_out: lines.count() as u64 }
}

fn check(head: TraceDatHead) -> Result<TraceDatHead, ReadError> {
    if !head.tracepoints.has_switches() {
        return Err(ReadError::Unusable(NO_SWITCHES));
    }
    let mut all = Vec::new();
    for buffer in &head.buffers {
        if !buffer.cpus.is_empty() && !PAGE_BYTES.contains(&buffer.page_bytes) {
            return Err(ReadError::Header);
        }
        all.extend(buffer.cpus.iter().copied());
    }
    // Else a small file could have the same data a million times.
    all.sort_by_key(|data| data.at);
    let overlap = |pair: &[CpuData]| pair[0].at.checked_add(pair[0].bytes).is_none_or(|end| end > pair[1].at);
    if all.windows(2).any(overlap) {
        return Err(ReadError::Header);
    }
    Ok(head)
}

impl TraceDatHead {
    /// Whether times of the buffer are ns, or can be made ns.
    pub(super) fn has_time(&self, buffer: &Buffer) -> bool {
        self.tsc.is_some() || CLOCKS.contains(&buffer.clock.as_deref().unwrap_or_default())
    }

    pub(super) fn is_packed<R: Read + Seek>(&self, from: &mut R, buffer: &Buffer) -> Result<bool, ReadError> {
        if self.packing == Packing::None {
            return Ok(false);
        }
        let sections = Sections::new(self.order, self.packing);
        sections.open(from, buffer.at).map(|header| header.is_packed)
    }
}

const DONE: u16 = 0;
const BUFFER: u16 = 3;
const CLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPU_COUNT: u16 = 8;
const TSC: u16 = 14;
const HEADER_INFO: u16 = 16;
const EVENT_FORMATS: u16 = 18;
const COMMAND_LINES: u16 = 21;

/// Most ftrace instances in one file.
const MAX_BUFFERS: usize = 64;
/// Most CPUs of the machine, and of all buffers together those with data.
const MAX_CPUS: u32 = 1 << 16;
/// Bytes of a clock's name that are read, or of the list of all clocks.
const MAX_CLOCK_BYTES: usize = 255;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    pub(super) cpu: u16,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The buffer of the machine, or of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// Offset in the file: in version 6 of the list of its CPUs' data, in version 7 of the section with its data.
    pub(super) at: u64,
    /// Clock of the buffer; `None` if the clock of the whole file applies.
    pub(super) clock: Option<Box<str>>,
    pub(super) page_bytes: u32,
    /// Those with data.
    pub(super) cpus: Vec<CpuData>,
}

impl Buffer {
    /// Adds the data of a CPU, if there is any. `None`: all buffers together have more than a machine. `listed`: how many they have.
    fn list(&mut self, data: CpuData, listed: &mut u32) -> Option<()> {
        if data.bytes > 0 {
            *listed += 1;
            self.cpus.push(data);
        }
        (*listed <= MAX_CPUS).then_some(())
    }
}

/// From the counts of a time stamp counter to ns.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Tsc {
    factor: u32,
    shift: u32,
}

impl Tsc {
    pub(super) fn ns(self, count: u64) -> u64 {
        let ns = (u128::from(count) * u128::from(self.factor)) >> self.shift.min(127);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug, Default)]
struct TraceDatOptions {
    buffers: Vec<Buffer>,
    /// CPUs with data in all buffers.
    listed: u32,
    clock: Option<Box<str>>,
    host: Box<str>,
    cpus: Option<u32>,
    tsc: Option<Tsc>,
    header_info: Option<u64>,
    event_formats: Option<u64>,
    command_lines: Option<u64>,
    /// Version 7: offset of the next options.
    next: Option<u64>,
}

impl TraceDatOptions {
    /// Takes options up to their end. `None`: they are damaged.
    fn take(&mut self, bytes: &mut Bytes<'_>, has_sections: bool) -> Option<()> {
        self.next = None;
        loop {
            let id = bytes.u16()?;
            if id == DONE && !has_sections {
                return Some(());
            }
            let mut data = Bytes::new(bytes.sized(4)?, bytes.order);
            match id {
                DONE => {
                    self.next = Some(data.u64()?).filter(|next| *next != 0);
                    return Some(());
                }
                BUFFER if self.buffers.len() < MAX_BUFFERS => {
                    // Of version 6: the place, behind which is the name.
                    let place = |at| Buffer { at, ..Buffer::default() };
                    let listed = &mut self.listed;
                    let buffer = if has_sections { buffer(&mut data, listed)? } else { place(data.u64()?) };
                    self.buffers.push(buffer);
                }
                CLOCK => self.clock = Some(clock(data.rest)),
                // `Linux name release machine`.
                UNAME => {
                    let name = host_name(data.rest);
                    self.host = name.split_whitespace().nth(1).unwrap_or_default().into();
                }
                CPU_COUNT => self.cpus = Some(data.u32().filter(|cpus| *cpus <= MAX_CPUS)?),
                TSC => {
                    let (factor, shift) = (data.u32()?, data.u32()?);
                    self.tsc = (factor != 0).then_some(Tsc { factor, shift });
                }
                HEADER_INFO => self.header_info = Some(data.u64()?),
                EVENT_FORMATS => self.event_formats = Some(data.u64()?),
                COMMAND_LINES => self.command_lines = Some(data.u64()?),
                _ => {}
            }
        }
    }
}

/// Version 7: parses the option that describes a buffer.
fn buffer(data: &mut Bytes<'_>, listed: &mut u32) -> Option<Buffer> {
    let at = data.u64()?;
    data.text()?;
    let clock = Some(clock(data.text()?));
    let (page_bytes, count) = (data.u32()?, data.u32()?);
    let mut buffer = Buffer { at, clock, page_bytes, cpus: Vec::new() };
    for _ in 0..count {
        let cpu = u16::try_from(data.u32()?).ok()?;
        buffer.list(CpuData { cpu, at: data.u64()?, bytes: data.u64()? }, listed)?;
    }
    Some(buffer)
}

/// Selected clock: the word in brackets of `local [mono] boot`.
fn clock(text: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_CLOCK_BYTES)]);
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.unwrap_or(&text).trim_matches(['\0', '\n', ' ']).into()
}

/// The largest section that is read. The descriptions of all tracepoints of a kernel have 2 to 4 MB.
const MAX_SECTION_BYTES: u64 = 64 << 20;
const HEADER_BYTES: u64 = 16;
const IS_PACKED: u16 = 1;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zstd,
}

impl Packing {
    fn of(name: &[u8]) -> Result<Self, ReadError> {
        match name {
            b"none" => Ok(Self::None),
            b"zstd" => Ok(Self::Zstd),
            _ => Err(ReadError::Unusable(
                "it is compressed with a method other than zstd; `trace-cmd convert --compression zstd` makes one that can be read",
            )),
        }
    }

    /// `None`: the bytes are damaged, or become more than they may.
    pub(super) fn unpack(self, packed: &[u8], unpacked: u32, credit: &mut Credit) -> Option<Vec<u8>> {
        let unpacked = usize::try_from(unpacked).ok()?;
        // Only bytes in the file count, not the size that the header claims.
        credit.add(packed.len());
        if !credit.take(unpacked) {
            return None;
        }
        let bytes = match self {
            Self::None => packed.to_vec(),
            Self::Zstd => zstd::bulk::decompress(packed, unpacked).ok()?,
        };
        (bytes.len() == unpacked).then_some(bytes)
    }
}

#[derive(Debug)]
struct Sections {
    order: Order,
    packing: Packing,
    credit: Credit,
}

struct SectionHeader {
    id: u16,
    bytes: u64,
    is_packed: bool,
}

impl Sections {
    fn new(order: Order, packing: Packing) -> Self {
        Self { order, packing, credit: Credit::default() }
    }

    /// Reads the header of a section; the content follows.
    fn open<R: Read + Seek>(&self, from: &mut R, at: u64) -> Result<SectionHeader, ReadError> {
        // Beyond the largest possible place of a file a seek fails with a message that says nothing.
        let at = i64::try_from(at).map_err(|_| ReadError::Header)?.unsigned_abs();
        from.seek(SeekFrom::Start(at))?;
        let raw = read_up_to(from, HEADER_BYTES, HEADER_BYTES)?.unwrap_or_default();
        let mut bytes = Bytes::new(&raw, self.order);
        let mut take = || {
            let (id, flags) = (bytes.u16()?, bytes.u16()?);
            bytes.skip(4)?;
            Some(SectionHeader { id, bytes: bytes.u64()?, is_packed: flags & IS_PACKED != 0 })
        };
        take().ok_or(ReadError::Header)
    }

    /// Content of the section at `at`, which must have this id.
    fn load<R: Read + Seek>(&mut self, from: &mut R, at: u64, id: u16) -> Result<Vec<u8>, ReadError> {
        let header = self.open(from, at)?;
        if header.id != id {
            return Err(ReadError::Header);
        }
        let Some(raw) = read_up_to(from, header.bytes, MAX_SECTION_BYTES)? else {
            return Err(ReadError::Unusable("a section of it is larger than any that trace-cmd writes"));
        };
        if raw.len() as u64 != header.bytes {
            return Err(ReadError::Unusable("it ends early: sections that say what is in it are missing"));
        }
        if !header.is_packed {
            return Ok(raw);
        }
        let mut bytes = Bytes::new(&raw, self.order);
        let mut unpack = || {
            let (packed, unpacked) = (bytes.u32()?, bytes.u32()?);
            let packed = bytes.take(usize::try_from(packed).ok()?)?;
            self.packing.unpack(packed, unpacked, &mut self.credit)
        };
        unpack().ok_or(ReadError::Header)
    }
}
