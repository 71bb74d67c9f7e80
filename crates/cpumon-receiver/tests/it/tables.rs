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
    pub(crate) const IRQS: u8 = 8;
    pub(crate) const DELAYS: u8 = 9;
    pub(crate) const WAITS_FOR: u8 = 11;
}

const PID: u8 = 1;
const TID: u8 = 3;
const CPU: u8 = 5;
const RUN: u8 = 6;
const NAME: u8 = 21;
const CMDLINE: u8 = 23;
const ENDS_PROCESS: u8 = 27;
const THREAD_COUNT: u8 = 28;
const HOSTNAME: u8 = 40;
const IRQ: u8 = 112;
const IRQ_NAME: u8 = 115;
const DELAY_WHOLE: u8 = 120;
const DELAY_COUNT: u8 = 122;
const WAITED_ON: u8 = 149;
const WAITED_TIME: u8 = 150;

/// Longest datagram over IPv4, bytes.
pub(crate) const MAX_DATAGRAM: usize = 65_507;

/// What a header says.
#[derive(Copy, Clone)]
pub(crate) struct Head {
    pub(crate) host: u64,
    pub(crate) boot: u64,
    pub(crate) agent_start: u32,
    pub(crate) sequence: u64,
    pub(crate) fragment: u16,
    pub(crate) fragments: u16,
}

impl Head {
    pub(crate) fn of(host: u64, sequence: u64) -> Self {
        Self { host, boot: 0x0909_0909_0909_0909, agent_start: 1, sequence, fragment: 0, fragments: 1 }
    }

    /// A frame with these sections.
    pub(crate) fn frame(&self, sections: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_DATAGRAM);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, u8::try_from(HEADER_BYTES).unwrap(), 0, 0]);
        bytes.extend_from_slice(&self.host.to_be_bytes());
        bytes.extend_from_slice(&[7; 8]);
        bytes.extend_from_slice(&self.boot.to_be_bytes());
        bytes.extend_from_slice(&[9; 8]);
        bytes.extend_from_slice(&self.agent_start.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.fragment.to_le_bytes());
        bytes.extend_from_slice(&self.fragments.to_le_bytes());
        let end_ns = (self.sequence + 1) * 1_000_000_000;
        for _ in 0..3 {
            bytes.extend_from_slice(&end_ns.to_le_bytes());
        }
        // Every counter is known, histograms and waits by who ended them included.
        bytes.extend_from_slice(&0x3fff_u32.to_le_bytes());
        bytes.extend_from_slice(&[2, 5, 0]);
        bytes.extend(sections.concat());
        bytes
    }
}

/// One column: its number, the width of its values, the first one, and all others.
#[derive(Copy, Clone)]
struct Fixed(u8, u16, u64, u64);

/// Bits of a process id that may be any.
const ID_BITS: u16 = 32;

/// Writes values of any number of bits, the lowest bits first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u128,
    count: u16,
}

impl Bits {
    fn push(&mut self, value: u64, width: u16) {
        self.pending |= u128::from(value) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.bytes.push(self.pending.to_le_bytes()[0]);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.push(0, 8 - self.count);
        }
        self.bytes
    }
}

/// A text in each row: its column, its bytes, and whether rows behind the first one only say that it is the same.
struct Text<'a>(u8, &'a [u8], bool);

impl Text<'_> {
    /// Length as it is coded, and its significant bits: each text has that many, or none if it is the same as before.
    fn length(&self) -> (u64, u16) {
        let length = self.1.len() as u64 + 1;
        (length, u16::try_from(length.ilog2()).unwrap() + 1)
    }

    fn column(&self) -> [u8; 3] {
        // A text, with one bit before the length: 0 means no length, and so the text of the row before.
        let [low, high] = (2 | 1 << 2 | self.length().1 << 5 | 1 << 12).to_le_bytes();
        [self.0, low, high]
    }

    fn push(&self, row: usize, bits: &mut Bits) {
        let (length, significant) = self.length();
        if row > 0 && self.2 {
            return bits.push(0, 1);
        }
        bits.push(1, 1);
        bits.push(length & !(1 << (significant - 1)), significant - 1);
        for &byte in self.1 {
            bits.push(byte.into(), 8);
        }
    }
}

/// A table of `rows` rows, each with the same texts.
fn table_with(kind: u8, rows: usize, columns: &[Fixed], texts: &[Text<'_>]) -> Vec<u8> {
    let mut body = vec![u8::try_from(columns.len() + texts.len()).unwrap(), 0];
    for Fixed(id, width, ..) in columns {
        let [low, high] = (width << 5).to_le_bytes();
        body.extend_from_slice(&[*id, low, high]);
    }
    body.extend(texts.iter().flat_map(Text::column));
    body.extend_from_slice(&u16::try_from(rows).unwrap().to_le_bytes());
    let mut bits = Bits::default();
    for row in 0..rows {
        for &Fixed(_, width, first, others) in columns {
            bits.push(if row == 0 { first } else { others }, width);
        }
        for text in texts {
            text.push(row, &mut bits);
        }
    }
    body.extend(bits.finish());
    section_of(kind, &body)
}

/// A table of `rows` rows.
fn table(kind: u8, rows: usize, columns: &[Fixed]) -> Vec<u8> {
    table_with(kind, rows, columns, &[])
}

fn section_of(kind: u8, body: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[kind, low, high], body].concat()
}

/// Process 0 with this name.
pub(crate) fn named_process(name: &str) -> Vec<u8> {
    table_with(section::PROCESSES, 1, &[], &[Text(NAME, name.as_bytes(), false)])
}

/// Processes 1, 2, … with this name and command line.
pub(crate) fn named_processes(rows: usize, name: &str, command_line: &str) -> Vec<u8> {
    let texts = [Text(NAME, name.as_bytes(), false), Text(CMDLINE, command_line.as_bytes(), false)];
    table_with(section::PROCESSES, rows, &[Fixed(PID, 2, 1, 1)], &texts)
}

/// Processes 1, 2, … of `bits` bits each; all have the long text as name and command line.
pub(crate) fn processes_with_long_texts(rows: usize, bits: u16, long: &[u8]) -> Vec<u8> {
    let texts = [Text(NAME, long, true), Text(CMDLINE, long, true)];
    table_with(section::PROCESSES, rows, &[Fixed(PID, bits - 2, 1, 1)], &texts)
}

/// Interrupt lines 1, 2, … that all have the same name.
pub(crate) fn irqs_with_long_name(rows: usize, name: &[u8]) -> Vec<u8> {
    table_with(section::IRQS, rows, &[Fixed(IRQ, 8, 1, 1)], &[Text(IRQ_NAME, name, true)])
}

/// Threads without a name that ended, in `columns` columns that take no bits.
pub(crate) fn gone_in_many_columns(rows: usize, bits: u16, columns: u8) -> Vec<u8> {
    // Numbers from 200 on are not known here: a receiver skips such columns.
    let empty = (0..columns).map(|number| Fixed(200 + number % 50, 0, 0, 0));
    let keys = [Fixed(PID, bits / 2, 1, 1), Fixed(TID, bits / 2, 1, 1)];
    table(section::GONE, rows, &keys.into_iter().chain(empty).collect::<Vec<_>>())
}

/// A host with this name.
pub(crate) fn named_host(name: &str) -> Vec<u8> {
    table_with(section::HOST, 1, &[], &[Text(HOSTNAME, name.as_bytes(), false)])
}

/// Totals with this number of live threads.
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

/// Interrupt lines 1, 2, …
pub(crate) fn irqs(rows: usize, bits: u16) -> Vec<u8> {
    table(section::IRQS, rows, &[Fixed(IRQ, bits, 1, 1)])
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

/// Waits of processes 1, 2, … for a CPU, each behind a process of its own.
pub(crate) fn waits_for(rows: usize, bits: u16) -> Vec<u8> {
    let half = (bits - 6) / 2;
    let ids = [Fixed(PID, half, 1, 1), Fixed(TID, half, 2, 2)];
    // 2: a process.
    let on = [Fixed(WAITED_ON, 2, 2, 2), Fixed(WAITED_TIME, 4, 9, 9)];
    table(section::WAITS_FOR, rows, &[ids, on].concat())
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
