//! What is in front of the events of a `trace.dat`: descriptions of tracepoints, names of threads, and where the buffers are.

use std::io::{Read, Seek, SeekFrom};

use super::super::bytes::{Bytes, Order, name, read_up_to};
use super::super::decoder::{Named, RawEvent, RawKind};
use super::super::tracepoints::Tracepoints;
use super::super::tracing_data::{skip_own, take_intro, take_page_layout, take_systems};
use super::options::{Buffer, COMMAND_LINES, CpuData, EVENT_FORMATS, HEADER_INFO, MAX_CPUS, Options, Tsc};
use super::pages::PageLayout;
use super::unpack::{MAX_SECTION_BYTES, Packing, Sections};
use crate::file::ReadError;

/// Version 7: up to the place of its options.
const BEGIN_BYTES: u64 = 4096;
/// Version 6: bytes in which the places of a buffer's data are.
const MAX_PLACES_BYTES: u64 = 4 << 20;
/// Sections of options.
const MAX_OPTIONS: usize = 64;
/// Names of threads that are read. The kernel has the last 128, or as many as `saved_cmdlines_size` says.
const MAX_NAMES: usize = 1 << 18;
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 64..=4 << 20;
/// Clocks that count ns.
const CLOCKS: [&str; 8] = ["", "local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

/// What a file says about itself.
pub(super) struct Head {
    pub(super) tracepoints: Tracepoints,
    pub(super) order: Order,
    pub(super) pages: PageLayout,
    pub(super) packing: Packing,
    pub(super) host: Box<str>,
    pub(super) cpus: u16,
    pub(super) tsc: Option<Tsc>,
    pub(super) names: Vec<RawEvent>,
    pub(super) buffers: Vec<Buffer>,
}

/// Reads it.
pub(super) fn read<R: Read + Seek>(from: &mut R) -> Result<Head, ReadError> {
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

/// Version 6: all follows one another.
fn sequential<R: Read + Seek>(from: &mut R, raw: &[u8]) -> Result<Head, ReadError> {
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
    let mut options = Options::default();
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
    let Options { host, tsc, .. } = options;
    let cpus = u16::try_from(cpus).unwrap_or(u16::MAX);
    Ok(Head { tracepoints, order, pages, packing: Packing::None, host, cpus, tsc, names, buffers })
}

/// Options, then where the data of each CPU are.
fn places(bytes: &mut Bytes<'_>, options: &mut Options, cpus: &mut u32) -> Result<Buffer, ReadError> {
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
        buffer.cpus.push(CpuData { cpu: u16::try_from(cpu).unwrap_or(u16::MAX), at, bytes: length });
    }
    Ok(buffer)
}

/// Version 7: options say where the sections are.
fn sections<R: Read + Seek>(from: &mut R, bytes: &mut Bytes<'_>) -> Result<Head, ReadError> {
    let order = bytes.order;
    let mut begin = || {
        let (name, _version) = (bytes.text()?, bytes.text()?);
        Some((name, bytes.u64()?))
    };
    let (packing, first) = begin().ok_or(ReadError::Header)?;
    let packing = Packing::of(packing)?;
    let mut sections = Sections::new(order, packing);
    let mut options = Options { next: Some(first), ..Options::default() };
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
        None => Vec::new(),
    };
    let Options { host, tsc, buffers, cpus, .. } = options;
    let cpus = u16::try_from(cpus.unwrap_or(0)).unwrap_or(u16::MAX);
    Ok(Head { tracepoints, order, pages, packing, host, cpus, tsc, names, buffers })
}

/// Lines of `12 name`.
fn names(text: &[u8]) -> Vec<RawEvent> {
    let line = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let tid = std::str::from_utf8(&line[..at]).ok()?.parse().ok()?;
        let kind = RawKind::Called(Named { tid, name: name(&line[at + 1..]) });
        Some(RawEvent { at_ns: 0, cpu: 0, kind })
    };
    text.split(|byte| *byte == b'\n').filter_map(line).take(MAX_NAMES).collect()
}

fn check(mut head: Head) -> Result<Head, ReadError> {
    if !head.tracepoints.has_switches() {
        return Err(ReadError::Unusable(NO_SWITCHES));
    }
    let mut all = Vec::new();
    for buffer in &mut head.buffers {
        buffer.cpus.retain(|data| data.bytes > 0);
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

/// No event of the file says who runs.
pub(super) const NO_SWITCHES: &str = "it has no sched_switch events; record with `trace-cmd record -e sched`";

impl Head {
    /// Whether times of the buffer are ns, or can be made ns.
    pub(super) fn has_time(&self, buffer: &Buffer) -> bool {
        self.tsc.is_some() || CLOCKS.contains(&buffer.clock.as_deref().unwrap_or_default())
    }

    /// Whether the data of a buffer are compressed.
    pub(super) fn is_packed<R: Read + Seek>(&self, from: &mut R, buffer: &Buffer) -> Result<bool, ReadError> {
        if self.packing == Packing::None {
            return Ok(false);
        }
        let sections = Sections::new(self.order, self.packing);
        sections.open(from, buffer.at).map(|header| header.is_packed)
    }
}
