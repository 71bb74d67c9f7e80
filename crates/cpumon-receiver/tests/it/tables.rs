//! Frames written by hand: any table, as short as a frame may have it. An encoder writes none like these.

use cpumon_wire::v2::{HEADER_BYTES, MAGIC, VERSION};

pub(crate) mod section {
    pub(crate) const HOST: u8 = 1;
    pub(crate) const TOTALS: u8 = 2;
    pub(crate) const CPUS: u8 = 3;
    pub(crate) const PROCESSES: u8 = 4;
    pub(crate) const THREADS: u8 = 5;
    pub(crate) const EXITS: u8 = 6;
    pub(crate) const GONE: u8 = 7;
    pub(crate) const DELAYS: u8 = 9;
}

const PID: u8 = 1;
const TID: u8 = 3;
const CPU: u8 = 5;
const RUN: u8 = 6;
const NAME: u8 = 21;
const ENDS_PROCESS: u8 = 27;
const THREAD_COUNT: u8 = 28;
const HOSTNAME: u8 = 40;
const DELAY_WHOLE: u8 = 120;
const DELAY_COUNT: u8 = 122;

/// Longest datagram over IPv4, bytes.
pub(crate) const MAX_DATAGRAM: usize = 65_507;

/// What a header says.
#[derive(Copy, Clone)]
pub(crate) struct Head {
    pub(crate) host: u64,
    pub(crate) agent_start: u32,
    pub(crate) sequence: u64,
    pub(crate) fragment: u16,
    pub(crate) fragments: u16,
}

impl Head {
    pub(crate) fn of(host: u64, sequence: u64) -> Self {
        Self { host, agent_start: 1, sequence, fragment: 0, fragments: 1 }
    }

    /// A frame with these sections.
    pub(crate) fn frame(&self, sections: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_DATAGRAM);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, u8::try_from(HEADER_BYTES).unwrap(), 0, 0]);
        bytes.extend_from_slice(&self.host.to_be_bytes());
        bytes.extend_from_slice(&[7; 8]);
        bytes.extend_from_slice(&[9; 16]);
        bytes.extend_from_slice(&self.agent_start.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.fragment.to_le_bytes());
        bytes.extend_from_slice(&self.fragments.to_le_bytes());
        let end_ns = (self.sequence + 1) * 1_000_000_000;
        for _ in 0..3 {
            bytes.extend_from_slice(&end_ns.to_le_bytes());
        }
        // Every counter is known, histograms included.
        bytes.extend_from_slice(&0x7ff_u32.to_le_bytes());
        bytes.extend_from_slice(&[2, 5, 0]);
        bytes.extend(sections.concat());
        bytes
    }
}

/// One column: its number, the width of its values, the first one, and all others.
struct Fixed(u8, u16, u64, u64);

/// Bits of a process id that may be any.
const ID_BITS: u16 = 20;

/// A table of `rows` rows.
fn table(kind: u8, rows: usize, columns: &[Fixed]) -> Vec<u8> {
    let mut body = vec![u8::try_from(columns.len()).unwrap(), 0];
    for Fixed(id, width, ..) in columns {
        let [low, high] = (width << 5).to_le_bytes();
        body.extend_from_slice(&[*id, low, high]);
    }
    body.extend_from_slice(&u16::try_from(rows).unwrap().to_le_bytes());
    let (mut pending, mut count) = (0_u128, 0);
    for row in 0..rows {
        for &Fixed(_, width, first, others) in columns {
            let value = if row == 0 { first } else { others };
            pending |= u128::from(value) << count;
            count += width;
            while count >= 8 {
                body.push(pending.to_le_bytes()[0]);
                pending >>= 8;
                count -= 8;
            }
        }
    }
    if count > 0 {
        body.push(pending.to_le_bytes()[0]);
    }
    section_of(kind, &body)
}

/// A table of one row with one text.
fn text(kind: u8, id: u8, text: &str) -> Vec<u8> {
    // A text of 17 bits of length: prefix 0, at least 17 significant bits.
    let length = text.len() + 1;
    let bits = usize::try_from(length.ilog2()).unwrap() + 1;
    let [low, high] = (2 | u16::try_from(bits).unwrap() << 5).to_le_bytes();
    let mut body = vec![1, 0, id, low, high, 1, 0];
    let (mut pending, mut count) = (length & !(1 << (bits - 1)), bits - 1);
    for &byte in text.as_bytes() {
        pending |= usize::from(byte) << count;
        count += 8;
        while count >= 8 {
            body.push(pending.to_le_bytes()[0]);
            pending >>= 8;
            count -= 8;
        }
    }
    body.push(pending.to_le_bytes()[0]);
    section_of(kind, &body)
}

fn section_of(kind: u8, body: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[kind, low, high], body].concat()
}

/// Process 1 with this name.
pub(crate) fn named_process(name: &str) -> Vec<u8> {
    text(section::PROCESSES, NAME, name)
}

/// A host with this name.
pub(crate) fn named_host(name: &str) -> Vec<u8> {
    text(section::HOST, HOSTNAME, name)
}

/// So many threads alive.
pub(crate) fn totals(threads: u64) -> Vec<u8> {
    table(section::TOTALS, 1, &[Fixed(THREAD_COUNT, 32, threads, threads)])
}

/// Processes 1, 2, …; `bits` each.
pub(crate) fn processes(rows: usize, bits: u16) -> Vec<u8> {
    table(section::PROCESSES, rows, &[Fixed(PID, bits, 1, 1)])
}

/// Threads 1, 2, … of as many processes; `bits` each.
pub(crate) fn threads(rows: usize, bits: u16) -> Vec<u8> {
    table(section::THREADS, rows, &[Fixed(PID, bits / 2, 1, 1), Fixed(TID, bits / 2, 1, 1)])
}

/// Exits of threads 1, 2, … of as many processes, which end with them.
pub(crate) fn exits(rows: usize, bits: u16) -> Vec<u8> {
    let half = (bits - 1) / 2;
    table(
        section::EXITS,
        rows,
        &[Fixed(PID, half, 1, 1), Fixed(TID, half, 1, 1), Fixed(ENDS_PROCESS, 1, 1, 1)],
    )
}

/// The same without final counters.
pub(crate) fn gone(rows: usize, bits: u16) -> Vec<u8> {
    table(section::GONE, rows, &[Fixed(PID, bits / 2, 1, 1), Fixed(TID, bits / 2, 1, 1)])
}

/// CPUs 1, 2, …
pub(crate) fn cpus(rows: usize, bits: u16) -> Vec<u8> {
    table(section::CPUS, rows, &[Fixed(CPU, bits, 1, 1)])
}

/// A delay of each of processes 1, 2, …
pub(crate) fn delays(rows: usize, bits: u16, is_whole: bool) -> Vec<u8> {
    let whole = Fixed(DELAY_WHOLE, 1, u64::from(is_whole), u64::from(is_whole));
    table(section::DELAYS, rows, &[Fixed(PID, bits - 2, 1, 1), whole, Fixed(DELAY_COUNT, 1, 1, 1)])
}

/// Processes `first`, `first` + 1, …
pub(crate) fn processes_from(first: u64, rows: usize) -> Vec<u8> {
    table(section::PROCESSES, rows, &[Fixed(PID, ID_BITS, first, 1)])
}

/// Threads `first`, `first` + 1, … of as many processes.
pub(crate) fn threads_from(first: u64, rows: usize) -> Vec<u8> {
    table(section::THREADS, rows, &[Fixed(PID, ID_BITS, first, 1), Fixed(TID, 1, 0, 1)])
}

/// Their exits, with which their processes end.
pub(crate) fn exits_from(first: u64, rows: usize) -> Vec<u8> {
    let (pid, tid) = (Fixed(PID, ID_BITS, first, 1), Fixed(TID, 1, 0, 1));
    table(section::EXITS, rows, &[pid, tid, Fixed(ENDS_PROCESS, 1, 1, 1)])
}

/// A delay of each of those processes.
pub(crate) fn delays_from(first: u64, rows: usize) -> Vec<u8> {
    table(section::DELAYS, rows, &[Fixed(PID, ID_BITS, first, 1), Fixed(DELAY_COUNT, 1, 1, 1)])
}

/// Threads that ran, of processes 1, 2, …
pub(crate) fn threads_that_ran(rows: usize) -> Vec<u8> {
    table(section::THREADS, rows, &[Fixed(PID, 4, 1, 1), Fixed(TID, 4, 1, 1), Fixed(RUN, 8, 200, 200)])
}
