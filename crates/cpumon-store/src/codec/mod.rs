//! The layouts of the store's blobs: packed samples of one interval ([`blob`]), chunks ([`chunk`]), a host's data ([`host`]) with its waits
//! ([`waits_for`]), scheduler events of tasks ([`sched`]), lists of tasks ([`lists`]). Rows have integer ids here; keys and names are in tables. Layouts:
//! docs/store.md.
//!
//! This file has what they share: the rows, the limits of a decoded blob, and zstd around a section.

pub(crate) mod blob;
pub(crate) mod chunk;
#[cfg(all(test, feature = "bundled"))]
mod costs;
pub(crate) mod exercise;
pub(crate) mod host;
pub(crate) mod lists;
pub(crate) mod meta;
pub(crate) mod sched;
mod values;
pub(crate) mod varint;
pub(crate) mod waits_for;

use std::cell::RefCell;
use std::ops::AddAssign;

use cpumon_model::{Delta, Flags, Life, TaskState};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

pub(crate) use self::values::{Coding, TICK_NS, difference, sum};
use self::varint::{Malformed, VarintCursor};

// A few bytes of zstd can be any number of rows, and a file may come from anywhere: each number of rows or bytes is compared with the most
// that a writer here makes, before memory is reserved for it.

/// Rows of processes and threads, of a chunk or of an interval: those of the largest host that a receiver takes (466,000 threads). Compaction
/// begins another chunk before it has more; one of an older version may have as many as its packed bytes.
pub(crate) const MAX_ROWS: usize = 1 << 19;
/// Intervals of a chunk; a full one has 100 (`StoreOptions::compact_intervals`, which this limits). Each can have a megabyte of control
/// groups, in a few packed bytes.
pub(crate) const MAX_INTERVALS: usize = 1 << 7;
/// Plain bytes of a section of a chunk: [`MAX_ROWS`] rows of the longest numbers take 54 MB. Beside rows, compaction puts at most half as
/// much into a section.
pub(crate) const MAX_SECTION_BYTES: usize = 64 << 20;
/// CPUs of an interval; Linux knows 8,192.
pub(crate) const MAX_CPUS: usize = 1 << 16;
/// Interrupt lines of an interval; a receiver takes 1,024.
pub(crate) const MAX_IRQS: usize = 1 << 14;
/// Run-delay histograms of an interval; the agent's map in the kernel has 16,384 places at most.
pub(crate) const MAX_HISTOGRAMS: usize = 1 << 17;
/// Buckets of all histograms of an interval, 16 bytes each.
pub(crate) const MAX_BUCKETS: usize = 1 << 21;
/// Decoded bytes of a sum's control groups for each byte of their blob, in which a path lacks what it shares with the path before. Older
/// versions made sums without a limit.
pub(crate) const GROUP_TIMES: usize = 64;
/// Decoded bytes of a sum's control groups beyond those: the most that a sum is given.
pub(crate) const FREE_GROUP_BYTES: usize = 4 << 20;
/// Most bytes that the groups of a sum take, whatever the length of their blob.
pub(crate) const MAX_GROUP_BYTES: usize = 64 << 20;
/// Control groups that a sum takes, of [`FREE_GROUP_BYTES`] bytes at most: a bucket is read, added to and written for each chunk.
pub(crate) const MAX_SUM_GROUPS: usize = 1 << 12;

/// One thread row; `id` is a row of table `thread`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedThread {
    pub(crate) id: u64,
    pub(crate) state: TaskState,
    pub(crate) last_cpu: u16,
    pub(crate) life: Life,
    pub(crate) flags: Flags,
    pub(crate) delta: Delta,
}

/// One process row; `id` is a row of table `process`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedProcess {
    pub(crate) id: u64,
    /// Threads in the interval as it was put, idle ones included.
    pub(crate) thread_rows: u32,
    pub(crate) life: Life,
    pub(crate) flags: Flags,
    /// The interval had threads of this process, but no row for the process itself.
    pub(crate) is_absent: bool,
    /// Sum over its stored threads and over those that ended without a row.
    pub(crate) delta: Delta,
    /// How many rows of [`PackedInterval::threads`] are its own.
    pub(crate) stored_rows: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedInterval {
    /// In any order, each id once.
    pub(crate) processes: Vec<PackedProcess>,
    /// Grouped by process in the order of `processes`, within a process in any order.
    pub(crate) threads: Vec<PackedThread>,
}

/// Memory that a list has reserved, bytes.
pub(crate) fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Each process with its threads, of a [`PackedInterval`]'s lists.
pub(crate) fn groups<'p>(
    processes: &'p [PackedProcess],
    threads: &'p [PackedThread],
) -> impl Iterator<Item = (&'p PackedProcess, &'p [PackedThread])> {
    let mut rest = threads;
    processes.iter().map(move |process| {
        let (own, later) = rest.split_at(rest.len().min(process.stored_rows as usize));
        rest = later;
        (process, own)
    })
}

impl PackedInterval {
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&PackedProcess, &[PackedThread])> {
        groups(&self.processes, &self.threads)
    }

    /// Empties both lists but not their memory.
    pub(crate) fn clear(&mut self) {
        self.processes.clear();
        self.threads.clear();
    }
}

/// What a column of a sum has in packed form.
pub(crate) trait Packed: Default + for<'a> AddAssign<&'a Self> {
    const COLUMN: &'static str;
    /// Its name for people.
    const WORDS: &'static str;

    fn pack(&self) -> Vec<u8>;

    fn unpack(bytes: &[u8]) -> Result<Self, Malformed>;
}

/// Two bits for [`Life`].
#[inline]
pub(crate) fn life_code(life: Life) -> u8 {
    u8::from(life.is_born()) | u8::from(life.has_ended()) << 1
}

/// The reverse of [`life_code`]; only the two low bits count.
pub(crate) fn life_of(code: u8) -> Life {
    // Callers pass a whole head byte: the bits above are flags.
    Life::of(code & 1 != 0, code & 2 != 0)
}

/// Life and flags of a thread: mostly 0.
#[inline]
pub(crate) fn odd_code(life: Life, flags: Flags) -> u64 {
    u64::from(flags.bits()) << 2 | u64::from(life_code(life))
}

/// The reverse of [`odd_code`]; `None` for a number that it never gives.
#[inline]
pub(crate) fn odd_of(code: u64) -> Option<(Life, Flags)> {
    let flags = Flags::from_bits_retain(u16::try_from(code >> 2).ok()?);
    Some((life_of((code & 3) as u8), flags))
}

/// Letters of proc(5) by code; any other byte follows above the CPU number.
const STATES: [u8; 10] = *b"?RSDZTtXIP";
/// Code of a state that is not one of [`STATES`].
const OTHER_STATE: u8 = 15;

const STATE_CODES: [u8; 256] = {
    let mut codes = [OTHER_STATE; 256];
    let mut code = 0_u8;
    while (code as usize) < STATES.len() {
        codes[STATES[code as usize] as usize] = code;
        code += 1;
    }
    codes
};

/// Last CPU and state as one number: state in the low 4 bits, CPU in the next 16, another state's byte above them.
#[inline]
pub(crate) fn place_code(last_cpu: u16, state: TaskState) -> u64 {
    let code = STATE_CODES[usize::from(state.0)];
    let other = if code == OTHER_STATE { u64::from(state.0) << 20 } else { 0 };
    // With a letter of STATES and a CPU below 8 the result is below 128: one byte as a varint.
    other | u64::from(last_cpu) << 4 | u64::from(code)
}

/// The reverse of [`place_code`]; `None` for a number that it never gives.
pub(crate) fn place_of(code: u64) -> Option<(u16, TaskState)> {
    let state = match STATES.get((code & 15) as usize) {
        Some(&letter) if code >> 20 == 0 => letter,
        // The encoder writes a byte above the CPU only for states without a letter. Anything else is damage.
        Some(_) => return None,
        None => u8::try_from(code >> 20).ok()?,
    };
    Some(((code >> 4 & 0xffff) as u16, TaskState(state)))
}

/// Compresses `plain`; an error if it is too large to be read back.
pub(crate) fn zip(plain: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    // Checked here too: what `unzip` refuses must not be written.
    if plain.len() > MAX_SECTION_BYTES {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "a section of more than 64 MiB"));
    }
    let mut out = Vec::with_capacity(plain.len() / 2 + 16);
    varint::write(&mut out, plain.len() as u64);
    let mut compressor = Compressor::new(level)?;
    // Four bytes, without which a flipped bit can decode to other numbers.
    compressor.include_checksum(true)?;
    out.extend(compressor.compress(plain)?);
    Ok(out)
}

thread_local! {
    /// What zstd needs to decompress: 160 KB that are made once a thread and not for each section.
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

/// Decompresses at most `most` bytes, and replaces the content of `plain`.
pub(crate) fn unzip(zipped: &[u8], plain: &mut Vec<u8>, most: usize) -> Result<(), Malformed> {
    let mut cursor = VarintCursor::new(zipped);
    let len: usize = cursor.narrow()?;
    if len > most {
        return Err(cursor.malformed("section too large"));
    }
    // A few damaged bytes in front reserve no memory.
    let frame = cursor.bytes(cursor.remaining())?;
    if !matches!(zstd_safe::get_frame_content_size(frame), Ok(Some(size)) if size == len as u64) {
        return Err(cursor.malformed("compressed data damaged"));
    }
    if len > plain.capacity() {
        plain.clear();
        plain.reserve_exact(len);
    }
    // zstd writes into this memory and never adds to it: a frame that holds more cannot take more.
    plain.resize(len, 0);
    let read = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress_to_buffer(frame, plain));
    match read {
        // The memory may be larger than `len`, because of an earlier section: more than `len` can fit.
        Ok(read) if read == len => Ok(()),
        _ => Err(cursor.malformed("compressed data damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_false_length_reserves_no_memory() {
        let mut zipped = Vec::new();
        varint::write(&mut zipped, 60 << 20);
        zipped.extend(zstd::bulk::compress(b"a few bytes", 1).unwrap());
        let mut back = Vec::new();
        assert!(unzip(&zipped, &mut back, MAX_SECTION_BYTES).is_err());
        assert_eq!(back.capacity(), 0);
    }

    #[test]
    fn each_flipped_bit_is_noticed() {
        // Numbers that compress badly are stored as they are: without a checksum any bit could change unnoticed.
        let plain: Vec<u8> =
            (0..200_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let zipped = zip(&plain, 3).unwrap();
        let mut back = Vec::new();
        unzip(&zipped, &mut back, 200).unwrap_err();
        unzip(&zipped, &mut back, plain.len()).unwrap();
        assert_eq!(back, plain);
        for bit in 0..zipped.len() * 8 {
            let mut damaged = zipped.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unzip(&damaged, &mut back, plain.len()).is_err() || back == plain, "bit {bit}");
        }
    }
}
