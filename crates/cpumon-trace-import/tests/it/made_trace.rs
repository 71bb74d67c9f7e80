//! Makes a trace file of our own chunk by chunk, with sound checksums and any content.

use cpumon_model::varint::push as push_varint;

pub const EVENTS: u8 = 1;
pub const IDENTITIES: u8 = 2;
pub const SYNC: u8 = 3;
pub const END: u8 = 4;
/// A kind that readers pass.
pub const LATER: u8 = 99;

/// What a chunk says of its payload.
#[derive(Copy, Clone, Debug, Default)]
pub struct Chunk {
    pub cpu: u16,
    pub count: u32,
    pub base_ns: u64,
}

fn with_header(kind: u8, is_packed: bool, of: Chunk, raw_bytes: usize, stored: &[u8]) -> Vec<u8> {
    let word = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let mut head = b"chnk".to_vec();
    head.extend([kind, is_packed.into()]);
    head.extend(of.cpu.to_le_bytes());
    head.extend([word(stored.len()), word(raw_bytes), of.count.to_le_bytes()].concat());
    let base = of.base_ns.to_le_bytes();
    let crc =
        [&base[..], stored].iter().fold(crc32c::crc32c(&head), |crc, part| crc32c::crc32c_append(crc, part));
    [&head[..], &crc.to_le_bytes(), &base, stored].concat()
}

pub fn chunk(kind: u8, of: Chunk, payload: &[u8]) -> Vec<u8> {
    with_header(kind, false, of, payload.len(), payload)
}

/// Packed with zstd.
pub fn packed(kind: u8, of: Chunk, payload: &[u8]) -> Vec<u8> {
    with_header(kind, true, of, payload.len(), &zstd::bulk::compress(payload, 1).unwrap())
}

pub fn sync(at_ns: u64) -> Vec<u8> {
    chunk(SYNC, Chunk { base_ns: at_ns, ..Chunk::default() }, &[])
}

pub fn end(at_ns: u64) -> Vec<u8> {
    chunk(END, Chunk { base_ns: at_ns, ..Chunk::default() }, &[0, 0])
}

/// Numbers as events have them.
pub fn numbers(tag: u8, numbers: &[u64]) -> Vec<u8> {
    let mut out = vec![tag];
    for number in numbers {
        push_varint(&mut out, *number);
    }
    out
}

/// From idle to idle, so much later: the shortest event.
pub fn idle(passed_ns: u64) -> Vec<u8> {
    numbers(0xa0, &[passed_ns])
}

/// From thread to thread, which stays runnable.
pub fn switch(passed_ns: u64, prev: u64, next: u64) -> Vec<u8> {
    numbers(0, &[passed_ns, prev, next])
}

pub fn interrupt(passed_ns: u64, ran_ns: u64) -> Vec<u8> {
    numbers(6, &[passed_ns, 1, ran_ns])
}

/// Who a task is, in few bytes.
pub fn identity(task: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [task, 0, 2, task, 1, task, 1, 0, 1] {
        push_varint(&mut out, number);
    }
    out.push(b'c');
    push_varint(&mut out, 1);
    out.push(b'p');
    out
}
