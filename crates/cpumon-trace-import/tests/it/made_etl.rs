//! Makes an `.etl` event by event and buffer by buffer, as a session of Windows 10 on a machine of 64 bits writes it.

pub const HEADER_BYTES: usize = 72;
/// Bytes of a buffer that is not packed.
pub const BUFFER_BYTES: usize = 2048;
/// When the sessions of these files begin: ns since boot, and since 1970.
pub const BEGAN_NS: u64 = 1_000_000;
pub const BEGAN_WALL_NS: i64 = 1_700_000_000_000_000_000;

pub const SWITCH: u16 = 0x0524;
pub const READY: u16 = 0x0532;
pub const DPC: u16 = 0x0f44;
pub const ISR: u16 = 0x0f43;
pub const THREAD_START: u16 = 0x0501;
pub const THREAD_END: u16 = 0x0502;
pub const THREAD_DC_START: u16 = 0x0503;
pub const THREAD_DC_END: u16 = 0x0504;
pub const PROCESS_START: u16 = 0x0301;
pub const PROCESS_DC_START: u16 = 0x0303;
pub const PROCESS_DC_END: u16 = 0x0304;
pub const SET_NAME: u16 = 0x0548;

// States of a thread that leaves its CPU, and why it waits.
pub const IS_READY: u8 = 1;
pub const IS_DEAD: u8 = 4;
pub const WAITS: u8 = 5;
pub const USER_REQUEST: u8 = 6;
pub const WR_QUEUE: u8 = 15;

pub const EVENTS_LOST: u16 = 2;
const IS_PACKED: u16 = 0x40;

/// How the buffers are packed: `COMPRESSION_FORMAT_…`.
pub const PLAIN: u16 = 0;
pub const LZNT1: u16 = 2;
pub const XPRESS: u16 = 3;
pub const XPRESS_HUFFMAN: u16 = 4;

/// The layouts of an event's header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    System,
    Compact,
    PerfInfo,
    /// With two counters and an index behind it.
    PerfInfoWithCounters,
    Manifest,
    Full,
}

pub const LAYOUTS: [Layout; 6] = [
    Layout::System,
    Layout::Compact,
    Layout::PerfInfo,
    Layout::PerfInfoWithCounters,
    Layout::Manifest,
    Layout::Full,
];

fn put(into: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    into.resize(into.len().max(at + bytes.len()), 0);
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn provider(hook: u16) -> [u8; 16] {
    let (thread, perf) =
        (0x3d6f_a8d1_fe05_11d0_9dda_00c0_4fd7_ba7c, 0xce1d_bfb4_137e_4da6_87b0_3f59_aa10_2cbc);
    let text: u128 = match hook >> 8 {
        3 => thread - (1 << 96),
        5 => thread,
        _ => perf,
    };
    let mut bytes = text.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// An event of the thread `tid`, filled up to a multiple of eight.
pub fn event(layout: Layout, hook: u16, (ticks, tid): (u64, u32), payload: &[u8]) -> Vec<u8> {
    let (kind, header_bytes, time_at, version): (u8, usize, usize, u16) = match layout {
        Layout::System => (2, 32, 16, 3),
        Layout::Compact => (4, 24, 16, 3),
        Layout::PerfInfo => (0x11, 16, 8, 3),
        Layout::PerfInfoWithCounters => (0x11, 40, 8, 0x8203),
        Layout::Manifest => (0x13, 80, 16, 3),
        Layout::Full => (0x14, 48, 16, 3),
    };
    let mut out = vec![0; header_bytes];
    let size = u16::try_from(header_bytes + payload.len()).unwrap().to_le_bytes();
    put(&mut out, 2, &[kind, 0xc0]);
    if header_bytes < 48 {
        put(&mut out, 0, &version.to_le_bytes());
        put(&mut out, 4, &size);
        put(&mut out, 6, &hook.to_le_bytes());
    } else {
        put(&mut out, 0, &size);
        put(&mut out, 24, &provider(hook));
        let (opcode_at, version_at) = if layout == Layout::Full { (4, 6) } else { (45, 42) };
        put(&mut out, opcode_at, &hook.to_le_bytes()[..1]);
        put(&mut out, version_at, &[3]);
    }
    if time_at == 16 {
        put(&mut out, 8, &tid.to_le_bytes());
    }
    put(&mut out, time_at, &ticks.to_le_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// An event of the kernel with its usual header.
pub fn perf(hook: u16, ticks: u64, payload: &[u8]) -> Vec<u8> {
    event(Layout::PerfInfo, hook, (ticks, 0), payload)
}

/// `state` and `reason` are of the old thread.
pub fn switch(old: u32, new: u32, state: u8, reason: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for tid in [new, old] {
        out.extend(tid.to_le_bytes());
    }
    out.extend([9, 8, 0, 0, reason, 0, state, 2]);
    out.extend([0; 8]);
    out
}

pub fn ready(tid: u32) -> Vec<u8> {
    [&tid.to_le_bytes()[..], &[1, 0, 1, 0]].concat()
}

pub fn interrupt(hook: u16, began: u64) -> Vec<u8> {
    let routine = 0xffff_f800_1234_5678_u64;
    let mut out = [began.to_le_bytes(), routine.to_le_bytes()].concat();
    if hook == ISR {
        out.extend([1, 0x91, 0, 0]);
    }
    out
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

pub fn thread(pid: u32, tid: u32, name: &str) -> Vec<u8> {
    let mut out = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
    out.extend([0x11; 7 * 8 + 8]);
    out.extend(utf16(name));
    out
}

pub fn process(pid: u32, image: &str) -> Vec<u8> {
    let mut out = vec![0; 16];
    put(&mut out, 8, &pid.to_le_bytes());
    // Parent, session, exit status, directory table.
    put(&mut out, 12, &[0; 20]);
    // Layouts of version 3, whose user has one authority.
    out.extend([0x40, 0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend([1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]);
    out.extend(image.as_bytes());
    out.push(0);
    out.extend(utf16("image --flag"));
    out
}

/// Two numbers, as `SET_NAME` has them in front of the name.
pub fn renamed(pid: u32, tid: u32, name: &str) -> Vec<u8> {
    [&pid.to_le_bytes()[..], &tid.to_le_bytes(), &utf16(name)].concat()
}

/// What a buffer's header says.
#[derive(Copy, Clone, Debug, Default)]
pub struct BufferOptions {
    pub cpu: u16,
    pub sequence: u64,
    pub flags: u16,
    pub packing: u16,
}

pub fn buffer(options: BufferOptions, events: &[u8]) -> Vec<u8> {
    let body = pack(options.packing, events);
    let is_packed = options.packing != PLAIN;
    let bytes = if is_packed { HEADER_BYTES + body.len() } else { BUFFER_BYTES };
    let flags = 0x20 | options.flags | if is_packed { IS_PACKED } else { 0 };
    let mut out = header(bytes, HEADER_BYTES + events.len(), options, flags);
    put(&mut out, HEADER_BYTES, &body);
    assert!(out.len() <= bytes, "{} bytes of events are too many for a buffer", events.len());
    out.resize(bytes, 0xff);
    out
}

fn header(bytes: usize, used: usize, options: BufferOptions, flags: u16) -> Vec<u8> {
    let word = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let mut out = vec![0; HEADER_BYTES];
    put(&mut out, 0, &word(bytes));
    put(&mut out, 4, &word(used));
    put(&mut out, 24, &options.sequence.to_le_bytes());
    put(&mut out, 40, &options.cpu.to_le_bytes());
    put(&mut out, 44, &u32::from(options.packing).to_le_bytes());
    put(&mut out, 48, &word(used));
    put(&mut out, 52, &flags.to_le_bytes());
    out
}

/// Packs without matches, so packed bytes are more than plain ones.
fn pack(packing: u16, plain: &[u8]) -> Vec<u8> {
    match packing {
        LZNT1 => plain.chunks(4096).flat_map(lznt1_chunk).chain([0, 0]).collect(),
        XPRESS => plain.chunks(32).flat_map(|part| [&[0; 4][..], part].concat()).collect(),
        XPRESS_HUFFMAN => {
            // Each byte has a code of eight bits, which is the byte.
            let words = |block: &[u8]| -> Vec<u8> {
                block.chunks(2).flat_map(|pair| [pair.get(1).copied().unwrap_or(0), pair[0]]).collect()
            };
            let block = |block| [&[0x88; 128][..], &[0; 128], &words(block)].concat();
            plain.chunks(1 << 16).flat_map(block).collect()
        }
        _ => plain.to_vec(),
    }
}

fn lznt1_chunk(part: &[u8]) -> Vec<u8> {
    let size = |bytes: usize| u16::try_from(bytes - 1).unwrap();
    if part.len() > 3600 {
        return [&(0x3000 | size(part.len())).to_le_bytes()[..], part].concat();
    }
    let packed: Vec<u8> = part.chunks(8).flat_map(|eight| [&[0][..], eight].concat()).collect();
    [&(0xb000 | size(packed.len())).to_le_bytes()[..], &packed].concat()
}

/// How the session counts and packs.
#[derive(Copy, Clone, Debug)]
pub struct SessionOptions {
    pub packing: u16,
    pub clock: u32,
    pub ticks_a_second: u64,
    pub mhz: u32,
    /// Ticks at the begin of the session.
    pub ticks: u64,
    pub events_lost: u32,
}

/// A tick is a nanosecond.
pub const SESSION: SessionOptions = SessionOptions {
    packing: PLAIN,
    clock: 1,
    ticks_a_second: 1_000_000_000,
    mhz: 1000,
    ticks: BEGAN_NS,
    events_lost: 0,
};

/// The first buffer.
pub fn log_header(session: SessionOptions) -> Vec<u8> {
    let filetime = |ns: i64| (u64::try_from(ns).unwrap() / 100 + 116_444_736_000_000_000).to_le_bytes();
    let mode: u32 = if session.packing == PLAIN { 1 } else { 0x0400_0001 };
    let mut payload = vec![0; 280];
    put(&mut payload, 0, &u32::try_from(BUFFER_BYTES).unwrap().to_le_bytes());
    put(&mut payload, 12, &2_u32.to_le_bytes());
    put(&mut payload, 32, &mode.to_le_bytes());
    put(&mut payload, 44, &8_u32.to_le_bytes());
    put(&mut payload, 48, &session.events_lost.to_le_bytes());
    put(&mut payload, 52, &session.mhz.to_le_bytes());
    put(&mut payload, 248, &filetime(BEGAN_WALL_NS - i64::try_from(BEGAN_NS).unwrap()));
    put(&mut payload, 256, &session.ticks_a_second.to_le_bytes());
    put(&mut payload, 264, &filetime(BEGAN_WALL_NS));
    put(&mut payload, 272, &session.clock.to_le_bytes());
    payload.extend(utf16("NT Kernel Logger"));
    let event = event(Layout::System, 0, (session.ticks, 4), &payload);
    let options = BufferOptions { packing: session.packing, ..BufferOptions::default() };
    let mut out = header(BUFFER_BYTES, HEADER_BYTES + event.len(), options, 1);
    put(&mut out, 54, &[4, 0]);
    out.extend(event);
    out.resize(BUFFER_BYTES, 0xff);
    out
}

/// Buffers of one CPU with these events, as many as are needed.
pub fn buffers(mut options: BufferOptions, events: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let (mut out, mut open) = (Vec::new(), Vec::new());
    for (at, event) in events.iter().enumerate() {
        open.extend(event);
        let next = events.get(at + 1).map_or(usize::MAX, Vec::len);
        if open.len().saturating_add(next) > BUFFER_BYTES - HEADER_BYTES {
            options.sequence += 1;
            out.push((options.sequence, buffer(options, &std::mem::take(&mut open))));
        }
    }
    out
}

/// A file of plain buffers, one for each CPU.
pub fn file(cpus: &[&[Vec<u8>]]) -> Vec<u8> {
    let mut out = log_header(SESSION);
    for (cpu, events) in (0..).zip(cpus) {
        let options = BufferOptions { cpu, sequence: u64::from(cpu) + 1, ..BufferOptions::default() };
        out.extend(buffer(options, &events.concat()));
    }
    out
}
