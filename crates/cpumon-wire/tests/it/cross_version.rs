//! Old and new versions together. Frames are written here by hand, from docs/wire-format.md alone: by an encoder of the
//! future with columns, sections and header fields that this decoder does not know, and by one of the past without some.

use cpumon_model::{Comm, CpuSched, Fields, Interval, ProcessKey, SchedTimes, TaskState, ThreadKey};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, HEADER_BYTES, decode};

use crate::machine::Machine;

/// Bits, the least significant first.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn put(&mut self, value: u64, width: u32) {
        self.0.extend((0..width).map(|bit| value >> bit & 1 == 1));
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0_u8, |byte, &bit| byte << 1 | u8::from(bit));
        self.0.chunks(8).map(byte).collect()
    }
}

/// How a test column is coded.
#[derive(Copy, Clone)]
enum Coding {
    Fixed(u32),
    /// Prefix width, shortest length.
    Prefixed(u32, u32),
    /// Prefix width; a value of n means n letters.
    Text(u32),
    /// Prefix width; zero apart, shortest length 1.
    FoldedZeroApart(u32),
}

impl Coding {
    fn describe(self, id: u8) -> [u8; 3] {
        let bits: u16 = match self {
            Self::Fixed(width) => u16::try_from(width << 5).unwrap(),
            Self::Prefixed(prefix, min) => u16::try_from(1 | prefix << 2 | min << 5).unwrap(),
            Self::Text(prefix) => u16::try_from(2 | prefix << 2).unwrap(),
            Self::FoldedZeroApart(prefix) => u16::try_from(3 | prefix << 2 | 1 << 5 | 1 << 12).unwrap(),
        };
        let [low, high] = bits.to_le_bytes();
        [id, low, high]
    }

    fn put(self, value: u64, bits: &mut Bits) {
        let len = 64 - value.leading_zeros();
        let low = |bits: &mut Bits| bits.put(value, len.saturating_sub(1));
        match self {
            Self::Fixed(width) => bits.put(value, width),
            Self::Prefixed(prefix, min) => {
                bits.put(u64::from(len - min), prefix);
                low(bits);
            }
            Self::FoldedZeroApart(prefix) => {
                bits.put(u64::from(len), prefix);
                low(bits);
            }
            Self::Text(prefix) => {
                Self::Prefixed(prefix, 0).put(value + 1, bits);
                (0..value).for_each(|_| bits.put(u64::from(b'x'), 8));
            }
        }
    }
}

/// A section: columns (the first `groups` per group) and rows; a row that continues its group has no group values.
fn section(kind: u8, groups: usize, columns: &[(u8, Coding)], rows: &[&[u64]]) -> Vec<u8> {
    let mut body = vec![u8::try_from(columns.len()).unwrap(), u8::try_from(groups).unwrap()];
    body.extend(columns.iter().flat_map(|(id, coding)| coding.describe(*id)));
    body.extend(u16::try_from(rows.len()).unwrap().to_le_bytes());
    let mut bits = Bits::default();
    for row in rows {
        let begins_group = row.len() == columns.len();
        if groups > 0 {
            bits.put(u64::from(begins_group), 1);
        }
        let skipped = if begins_group { 0 } else { groups };
        for ((_, coding), &value) in columns[skipped..].iter().zip(*row) {
            coding.put(value, &mut bits);
        }
    }
    body.extend(bits.bytes());
    let length = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[kind, length[0], length[1]][..], &body].concat()
}

fn real_frame() -> Vec<u8> {
    let mut machine = Machine::new(4, 3, 8, 4);
    machine.run();
    machine.churn(1, 2);
    crate::carried::wait_for_cpus(&mut machine, 3);
    let mut out = Datagrams::new();
    Encoder::new(EncoderOptions { max_datagram: 9_000, ..EncoderOptions::default() }).encode(
        &machine.host,
        &machine.snapshot,
        &Interval::default(),
        &mut out,
    );
    assert_eq!(out.len(), 1);
    out.as_slice()[0].clone()
}

#[test]
fn a_longer_header_and_unknown_sections_are_skipped() {
    let frame = real_frame();
    let mut future = frame[..HEADER_BYTES].to_vec();
    future[5] += 9;
    future[7] |= 0x80; // an unknown flag
    future[83] |= 0x40; // an unknown counter in `fields`
    future.extend([0xee; 9]);
    future.extend([200, 4, 0, 1, 2, 3, 4]);
    future.extend(&frame[HEADER_BYTES..]);
    future.extend(section(201, 0, &[(1, Coding::Fixed(8))], &[&[1], &[2]]));
    let (old, new) = (decode(&frame).unwrap(), decode(&future).unwrap());
    assert!(!old.threads.is_empty() && !old.exits.is_empty() && old.host.is_some());
    assert_eq!(new.header, old.header);
    assert_eq!((&new.host, &new.totals, &new.cpus), (&old.host, &old.totals, &old.cpus));
    assert_eq!((&new.threads, &new.exits), (&old.threads, &old.exits));
    let info = |frame: &cpumon_wire::v2::Frame| {
        frame.processes.iter().map(|row| frame.info(&row.info.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(info(&new), info(&old));
}

const PID: u8 = 1;
const PROCESS_START: u8 = 2;
const TID: u8 = 3;
const START: u8 = 4;
const RUN: u8 = 6;
const USER: u8 = 7;
const VOLUNTARY: u8 = 11;
const STATE: u8 = 13;
const COMM: u8 = 17;
const THREADS: u8 = 5;

#[test]
fn unknown_columns_of_every_coding_are_skipped() {
    use Coding::{Fixed, FoldedZeroApart, Prefixed, Text};
    let known = [
        (PID, Fixed(20)),
        (PROCESS_START, Prefixed(6, 0)),
        (TID, FoldedZeroApart(4)),
        (START, Prefixed(5, 0)),
        (RUN, Prefixed(6, 1)),
        (USER, Fixed(40)),
        (COMM, Text(3)),
    ];
    let plain: [&[u64]; 3] =
        [&[700, 9_000, 0, 0, 500, 300, 4], &[2, 30, 70, 60, 2], &[5, 1_000, 1, 7, 9, 8, 3]];
    // The same rows with a column of the future behind each known one.
    let unknown = [Fixed(64), Prefixed(6, 0), Text(4), FoldedZeroApart(6), Fixed(0), Text(2), Prefixed(0, 1)];
    let values = [u64::MAX, 1 << 40, 13, 0, 0, 2, 1];
    let mut columns = Vec::new();
    for (at, (column, coding)) in known.iter().zip(unknown).enumerate() {
        columns.extend([*column, (200 + u8::try_from(at).unwrap(), coding)]);
    }
    let wide: Vec<Vec<u64>> = plain
        .iter()
        .map(|row| {
            let skipped = known.len() - row.len();
            row.iter().zip(&values[skipped..]).flat_map(|(known, unknown)| [*known, *unknown]).collect()
        })
        .collect();
    let wide: Vec<&[u64]> = wide.iter().map(Vec::as_slice).collect();
    let header = &real_frame()[..HEADER_BYTES];
    let now = decode(&[header, &section(THREADS, 2, &known, &plain)].concat()).unwrap();
    let future = decode(&[header, &section(THREADS, 4, &columns, &wide)].concat()).unwrap();
    assert_eq!(now.threads, future.threads);
    let rows: Vec<_> = now.threads.iter().map(|row| (row.sample.process, row.sample.key)).collect();
    let process = |pid, start_ns| ProcessKey { pid, start_ns };
    let thread = |tid, start_ns| ThreadKey { tid, start_ns };
    assert_eq!(
        rows,
        [
            (process(700, 9_000), thread(700, 9_000)),
            (process(700, 9_000), thread(701, 9_030)),
            (process(705, 10_000), thread(704, 10_007))
        ]
    );
    assert_eq!(now.threads[1].sample.counters.run_ns, 70);
    assert_eq!(now.threads[2].sample.comm, Comm::from("xxx"));
    // System time is what run − user leaves where no column has it.
    assert_eq!(now.threads[0].sample.counters.system_ns, 200);
}

#[test]
fn columns_that_an_older_sender_does_not_have_are_no_data() {
    let columns = [(PID, Coding::Fixed(8)), (TID, Coding::Fixed(8)), (VOLUNTARY, Coding::Fixed(8))];
    let frame = [&real_frame()[..HEADER_BYTES], &section(THREADS, 1, &columns, &[&[9, 0, 77]])].concat();
    let frame = decode(&frame).unwrap();
    let row = frame.threads[0];
    assert!(!row.has_name && frame.totals.is_none() && frame.host.is_none());
    assert_eq!((row.sample.key.tid, row.sample.counters.voluntary_switches), (9, 77));
    assert_eq!((row.sample.counters.run_ns, row.sample.counters.system_ns), (0, 0));
    assert_eq!((row.sample.state, row.sample.priority), (TaskState(b'S'), 20));
}

#[test]
fn a_state_of_the_future_keeps_its_letter() {
    let columns = [(TID, Coding::Fixed(8)), (STATE, Coding::Fixed(8))];
    let table = section(THREADS, 0, &columns, &[&[1, 10 + u64::from(b'Q')], &[1, 2], &[1, 9]]);
    let frame = decode(&[&real_frame()[..HEADER_BYTES], &table].concat()).unwrap();
    let states: Vec<char> = frame.threads.iter().map(|row| row.sample.state.letter()).collect();
    assert_eq!(states, ['Q', 'D', '?']);
}

/// A frame from the encoder of the first release, and its content as the decoder of that release read it.
const FIRST_RELEASE: (&[u8], &str) = (
    include_bytes!("../fixtures/frame-without-sched.bin"),
    include_str!("../fixtures/frame-without-sched.txt"),
);

#[test]
fn a_frame_of_the_first_release_is_read_as_it_was() {
    let frame = decode(FIRST_RELEASE.0).unwrap();
    assert_eq!(rendered(&frame), FIRST_RELEASE.1);
    assert!(!frame.header.fields.contains(Fields::SCHED) && frame.irqs.is_empty());
    assert!(frame.threads.iter().all(|row| row.sample.sched == SchedTimes::default()));
    assert!(frame.exits.iter().all(|row| row.thread.sched == SchedTimes::default()));
    assert!(frame.cpus.iter().all(|cpu| cpu.sched == CpuSched::default()));
}

/// Takes sections and columns that the first release did not know out of a frame, as its decoder did, bit by bit.
fn without_what_came_later(frame: &[u8]) -> Vec<u8> {
    let mut out = frame[..HEADER_BYTES].to_vec();
    let fields = u32::from_le_bytes(frame[80..84].try_into().unwrap());
    out[80..84].copy_from_slice(&(Fields::FIRST_RELEASE.bits() & fields).to_le_bytes());
    let mut rest = &frame[HEADER_BYTES..];
    while let [kind, low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if *kind <= 7 {
            out.extend(old_section(*kind, &more[..length]));
        }
        rest = &more[length..];
    }
    out
}

/// A section without its columns from 80 on.
fn old_section(kind: u8, body: &[u8]) -> Vec<u8> {
    let (count, groups) = (usize::from(body[0]), usize::from(body[1]));
    let columns: Vec<&[u8]> = body[2..2 + 3 * count].chunks_exact(3).collect();
    let rows = &body[2 + 3 * count..];
    let bits: Vec<bool> =
        rows[2..].iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect();
    let (mut at, mut kept) = (0, Bits::default());
    for row in 0..u16::from_le_bytes([rows[0], rows[1]]) {
        let mut begins_group = row == 0;
        if groups > 0 {
            begins_group |= bits[at];
            kept.put(u64::from(bits[at]), 1);
            at += 1;
        }
        for column in &columns[if begins_group { 0 } else { groups }..] {
            let length = value_bits(u16::from_le_bytes([column[1], column[2]]), &bits[at..]);
            if column[0] < 80 {
                kept.0.extend(&bits[at..at + length]);
            }
            at += length;
        }
    }
    let known: Vec<&[u8]> = columns.into_iter().filter(|column| column[0] < 80).collect();
    let mut new = vec![u8::try_from(known.len()).unwrap(), body[1]];
    new.extend(known.concat());
    new.extend(&rows[..2]);
    new.extend(kept.bytes());
    let length = u16::try_from(new.len()).unwrap().to_le_bytes();
    [&[kind, length[0], length[1]][..], &new].concat()
}

/// How many bits the value takes that `bits` begin with, by its column's description alone.
fn value_bits(description: u16, bits: &[bool]) -> usize {
    let field = |low: u32, width: u32| usize::from(description >> low & ((1 << width) - 1));
    let number = |from: usize, width: usize| {
        bits[from..from + width].iter().rev().fold(0_usize, |sum, bit| sum << 1 | usize::from(*bit))
    };
    let (kind, prefix, min, apart) = (field(0, 2), field(2, 3), field(5, 7), field(12, 1));
    if kind == 0 {
        return min;
    }
    let more = number(0, prefix);
    let length = if apart == 1 && more == 0 { 0 } else { min + more - apart };
    let low = length.saturating_sub(1);
    let text = if kind == 2 && length > 0 { 8 * ((1 << low | number(prefix, low)) - 1) } else { 0 };
    prefix + low + text
}

#[test]
fn the_first_release_reads_a_frame_of_today_without_what_came_later() {
    let frame = real_frame();
    let now = decode(&frame).unwrap();
    assert!(now.threads.iter().any(|row| row.sample.sched.blocked_ns > 0) && !now.irqs.is_empty());
    assert!(now.delays.len() > 5, "{:?}", now.delays);
    let old = decode(&without_what_came_later(&frame)).unwrap();
    // Their first lines differ: the header says which counters are known.
    let is_same = rendered(&old).lines().skip(1).eq(rendered(&now).lines().skip(1));
    assert!(is_same, "{}\n{}", rendered(&old), rendered(&now));
    assert!(old.threads.iter().all(|row| row.sample.sched == SchedTimes::default()) && old.irqs.is_empty());
    assert!(old.delays.is_empty());
    let infos = |frame: &cpumon_wire::v2::Frame| {
        frame.processes.iter().map(|row| frame.info(&row.info.unwrap())).collect::<Vec<_>>()
    };
    assert!(infos(&now).iter().any(|info| !info.interpreter.is_empty() && !info.user.is_empty()));
    assert!(infos(&old).iter().all(|info| info.interpreter.is_empty() && info.user.is_empty()));
    let is_of_windows = |info: &cpumon_model::ProcessInfo| {
        info.session.is_some() && info.base_priority.is_some() && !info.product.is_empty()
    };
    assert!(infos(&now).iter().any(is_of_windows) && !infos(&old).iter().any(is_of_windows));
    assert!(infos(&old).iter().all(|info| info.product.is_empty()));
}

/// What the first release decoded of a frame.
fn rendered(frame: &cpumon_wire::v2::Frame) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let header = &frame.header;
    writeln!(
        out,
        "{} {} {} {:?} {:?} {:?}",
        header.host, header.boot, header.sequence, header.end, header.fields, header.source
    )
    .unwrap();
    let totals = frame.totals.as_ref().unwrap();
    let exited = rendered_counters(&totals.exited_total);
    writeln!(out, "{exited} {} {}", totals.thread_count, totals.process_count).unwrap();
    for cpu in &frame.cpus {
        writeln!(out, "cpu {} {:?}", cpu.cpu, cpu.times).unwrap();
    }
    for row in &frame.processes {
        let info = row.info.map(|info| rendered_info(&frame.info(&info)));
        writeln!(
            out,
            "{:?} {} {}",
            row.key,
            row.parent_pid,
            info.map_or("None".into(), |info| format!("Some({info})"))
        )
        .unwrap();
    }
    let threads = frame.threads.iter().map(|row| &row.sample);
    for thread in threads.chain(frame.exits.iter().map(|row| &row.thread)) {
        let t = thread;
        writeln!(
            out,
            "{:?} {:?} {:?} {:?} {} {} {} {}",
            t.key,
            t.process,
            t.comm,
            t.state,
            t.nice,
            t.priority,
            t.last_cpu,
            rendered_counters(&t.counters)
        )
        .unwrap();
    }
    out
}

/// Without what came later: page faults.
fn rendered_counters(counters: &cpumon_model::Counters) -> String {
    let cpumon_model::Counters { user_ns, system_ns, run_ns, run_delay_ns, .. } = counters;
    let cpumon_model::Counters { voluntary_switches, involuntary_switches, .. } = counters;
    format!(
        "Counters {{ user_ns: {user_ns}, system_ns: {system_ns}, run_ns: {run_ns}, run_delay_ns: {run_delay_ns}, \
         voluntary_switches: {voluntary_switches}, involuntary_switches: {involuntary_switches} }}"
    )
}

/// Without what came later: interpreter, name of the user, session, base priority and product.
fn rendered_info(info: &cpumon_model::ProcessInfo) -> String {
    let cpumon_model::ProcessInfo { name, comm, cmdline, cgroup, container, uid, is_kernel, .. } = info;
    format!(
        "ProcessInfo {{ name: {name:?}, comm: {comm:?}, cmdline: {cmdline:?}, cgroup: {cgroup:?}, container: {container:?}, \
         uid: {uid}, is_kernel: {is_kernel} }}"
    )
}
