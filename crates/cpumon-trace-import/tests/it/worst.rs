//! Traces that were made to cost: for each reader the worst that is known, in any size.

use cpumon_trace::FileHeader;

use crate::made_etl::{self, BufferOptions, SESSION, SessionOptions, XPRESS};
use crate::made_trace::{
    Chunk, EVENTS, IDENTITIES, LATER, chunk, end, identity, idle, interrupt, packed, switch, sync,
};
use crate::seeded_rng::SeededRng;
use crate::{made_perf, made_perfetto, made_trace_dat, made_tracepoints};

/// Unpacked bytes of a full chunk.
const FULL: usize = 1 << 20;
/// Most unpacked bytes of a chunk or a buffer for each packed byte.
const UNPACKED_TIMES: usize = 64;
/// Unpacked bytes beyond that, used up here: a part of the 16 MiB that any file may unpack to.
const FREE: usize = 1 << 20;

/// A file, its reader, and the name of its contents.
pub struct Case {
    pub reader: &'static str,
    pub name: &'static str,
    pub file: Vec<u8>,
}

/// Makes a file of about this many bytes.
type Make = fn(usize) -> Vec<u8>;

const OWN: [(&str, Make); 12] = [
    ("large buffers, then small chunks", large_buffers),
    ("chunks of two bytes that wait", small_chunks),
    ("damaged places behind full chunks", damaged_places),
    ("damaged places of 65,535 CPUs", damaged_cpus),
    ("an event on each of 65,535 CPUs", one_event_a_cpu),
    ("what seems to be chunks", seeming_chunks),
    ("interrupts at one time", |bytes| interrupts(bytes, 0, 0)),
    ("interrupts one inside the other", |bytes| interrupts(bytes, 1, 8_000)),
    ("ever new threads", new_threads),
    ("500 threads that wait for each other", long_queue),
    ("names of ever new threads", new_names),
    ("events of two bytes", shortest_events),
];
const PERF: [(&str, Make); 5] = [
    ("rounds behind names", rounds_behind_names),
    ("rounds in front of what is later", rounds_in_front),
    ("packed names of ever new threads", |bytes| packed_records(bytes, &comms)),
    ("packed switches of ever new threads", |bytes| packed_records(bytes, &switches)),
    ("packed records of eight bytes", |bytes| packed_records(bytes, &|_| made_perf::record(99, &[]))),
];
const TRACE_DAT: [(&str, Make); 2] =
    [("packed pages of interrupts", packed_interrupts), ("packed sections", packed_sections)];
const PERFETTO: [(&str, Make); 4] = [
    ("packed columns", packed_columns),
    ("packed empty events", |bytes| packed_fields(bytes, &made_perfetto::bytes(2, &[]))),
    ("packed names", |bytes| packed_fields(bytes, &made_perfetto::bytes(4, &made_perfetto::bytes(5, b"x")))),
    ("packed threads", packed_threads),
];
const ETL: [(&str, Make); 3] = [
    ("small buffers in front of what is later", small_buffers),
    ("buffers of one match", buffers_of_a_match),
    ("names of ever new threads", names_of_threads),
];

/// All cases, each with a file of about `bytes` bytes.
pub fn cases(bytes: usize) -> impl Iterator<Item = Case> {
    let readers: [(&str, &[(&str, Make)]); 5] = [
        ("cpumon", &OWN),
        ("perf.data", &PERF),
        ("trace.dat", &TRACE_DAT),
        ("Perfetto", &PERFETTO),
        (".etl", &ETL),
    ];
    let all = readers.into_iter().flat_map(|(reader, cases)| cases.iter().map(move |case| (reader, case)));
    all.map(move |(reader, (name, make))| Case { reader, name, file: make(bytes) })
}

fn header(cpus: u16) -> Vec<u8> {
    FileHeader { cpus, ..FileHeader::default() }.to_bytes()
}

/// Bytes that are passed, so that the others may become more.
fn padding(bytes: usize) -> Vec<u8> {
    let lengths = (0..bytes).step_by(FULL).map(|at| FULL.min(bytes - at));
    lengths.flat_map(|length| chunk(LATER, Chunk::default(), &vec![0; length])).collect()
}

/// Unpacked bytes of a case of `bytes` bytes, within the limits of the readers.
fn unpacked(bytes: usize) -> usize {
    FREE + bytes * UNPACKED_TIMES
}

fn full_chunks(bytes: usize) -> usize {
    unpacked(bytes) / FULL
}

/// A full chunk: `event` repeated to `FULL` bytes.
fn full(event: &[u8], of: Chunk) -> Vec<u8> {
    let count = FULL / event.len();
    packed(EVENTS, Chunk { count: u32::try_from(count).unwrap(), ..of }, &event.repeat(count))
}

/// Full chunks, then as many of two bytes, which wait for a later mark.
pub fn large_buffers(bytes: usize) -> Vec<u8> {
    let mut file = header(2);
    let rounds = (full_chunks(bytes) / 8).max(1);
    file.extend(padding(bytes));
    // Announces one event, so that the others are not decoded.
    let large = packed(EVENTS, Chunk { cpu: 1, count: 1, base_ns: 10 }, &idle(0).repeat(FULL / 2));
    for round in 0..rounds as u64 {
        file.extend(large.repeat(8));
        file.extend(sync(20 + round));
        for _ in 0..8 {
            file.extend(chunk(EVENTS, Chunk { cpu: 0, count: 1, base_ns: 1 << 40 }, &idle(0)));
        }
    }
    [file, end(1 << 41)].concat()
}

fn small_chunks(bytes: usize) -> Vec<u8> {
    let one = chunk(EVENTS, Chunk { cpu: 0, count: 1, base_ns: 1 << 40 }, &idle(0));
    [header(1), one.repeat(bytes / one.len()), end(1 << 41)].concat()
}

fn damaged_places(bytes: usize) -> Vec<u8> {
    let cpus = u16::try_from(full_chunks(bytes / 2).min(240)).unwrap();
    let mut file = [header(cpus), padding(bytes / 2)].concat();
    for cpu in 0..cpus {
        file.extend(full(&idle(0), Chunk { cpu, base_ns: 10, ..Chunk::default() }));
    }
    let damaged = [b"X".to_vec(), chunk(LATER, Chunk::default(), &[])].concat();
    file.extend(damaged.repeat(1_000));
    [file, end(20)].concat()
}

fn damaged_cpus(bytes: usize) -> Vec<u8> {
    let place = [b"X".to_vec(), sync(10), sync(10)].concat();
    [header(u16::MAX), place.repeat(bytes / place.len()), end(20)].concat()
}

fn one_event_a_cpu(bytes: usize) -> Vec<u8> {
    let one = |cpu| chunk(EVENTS, Chunk { cpu, count: 1, base_ns: 10 }, &switch(1, 0, 5));
    let cpus = u16::try_from(bytes / one(0).len()).unwrap_or(u16::MAX);
    let chunks = (0..cpus).rev().flat_map(one);
    [header(1), chunks.collect(), end(20)].concat()
}

/// Heads of chunks that would have a megabyte each, and now and then a whole one.
fn seeming_chunks(bytes: usize) -> Vec<u8> {
    let mut seeming = chunk(EVENTS, Chunk::default(), &[]);
    seeming[8..12].copy_from_slice(&0xf_ffff_u32.to_le_bytes());
    seeming[12..16].copy_from_slice(&0xf_ffff_u32.to_le_bytes());
    let group = [seeming.repeat(60), chunk(LATER, Chunk::default(), &[])].concat();
    [header(1), group.repeat(bytes / group.len() / 2), padding(bytes / 2 + FULL)].concat()
}

fn interrupts(bytes: usize, passed_ns: u64, ran_ns: u64) -> Vec<u8> {
    let (event, mut file, mut at_ns) =
        (interrupt(passed_ns, ran_ns), [header(1), padding(bytes)].concat(), 10);
    file.extend(chunk(EVENTS, Chunk { cpu: 0, count: 1, base_ns: at_ns }, &switch(1, 0, 5)));
    for _ in 0..full_chunks(bytes) {
        file.extend(full(&event, Chunk { cpu: 0, base_ns: at_ns, ..Chunk::default() }));
        at_ns += (FULL as u64 / 3) * passed_ns + 10;
        file.extend(sync(at_ns));
    }
    [file, end(at_ns)].concat()
}

fn new_threads(bytes: usize) -> Vec<u8> {
    let (mut file, mut next) = ([header(1), padding(bytes / 2)].concat(), 1_u64);
    for round in 0.. {
        let mut events = Vec::new();
        let mut count = 0;
        while events.len() < (FULL - 32).min(6 * bytes) {
            events.extend(switch(1, next, next + 1));
            (next, count) = (next + 1, count + 1);
        }
        file.extend(packed(EVENTS, Chunk { cpu: 0, count, base_ns: round << 30 }, &events));
        file.extend(sync((round + 1) << 30));
        if file.len() >= bytes {
            return [file, end((round + 1) << 30)].concat();
        }
    }
    unreachable!("each round adds a chunk")
}

/// In a ring: each waits for all others.
fn long_queue(bytes: usize) -> Vec<u8> {
    let (mut file, mut at_ns) = ([header(1), padding(bytes)].concat(), 10);
    let ring: Vec<u8> = (0..500).flat_map(|at| switch(1, at + 1, (at + 1) % 500 + 1)).collect();
    let rings = FULL / ring.len();
    let chunk = |base_ns| Chunk { cpu: 0, count: u32::try_from(rings * 500).unwrap(), base_ns };
    for _ in 0..full_chunks(bytes) {
        file.extend(packed(EVENTS, chunk(at_ns), &ring.repeat(rings)));
        at_ns += FULL as u64;
        file.extend(sync(at_ns));
    }
    [file, end(at_ns)].concat()
}

fn new_names(bytes: usize) -> Vec<u8> {
    let (mut file, mut next) = (header(1), 1_u64);
    while file.len() < bytes {
        let mut names = Vec::new();
        while names.len() < (FULL - 64).min(6 * bytes) {
            names.extend(identity(next));
            next += 1;
        }
        file.extend(packed(IDENTITIES, Chunk::default(), &names));
    }
    [file, end(10)].concat()
}

pub fn shortest_events(bytes: usize) -> Vec<u8> {
    let (mut file, mut at_ns) = ([header(1), padding(bytes)].concat(), 10);
    for _ in 0..full_chunks(bytes) {
        file.extend(full(&idle(1), Chunk { cpu: 0, base_ns: at_ns, ..Chunk::default() }));
        at_ns += FULL as u64;
        file.extend(sync(at_ns));
    }
    [file, end(at_ns)].concat()
}

const LATER_NS: u64 = 1 << 50;

fn number(at: usize) -> u32 {
    u32::try_from(at + 10).unwrap()
}

fn rounds_behind_names(bytes: usize) -> Vec<u8> {
    let name = made_perf::comm(0, 5, 5, "x");
    let round = made_perf::round();
    let [names, rounds] = [&name, &round].map(|part| part.repeat(bytes / 2 / part.len()));
    made_perf::file(&[switches(0), names, rounds].concat())
}

fn rounds_in_front(bytes: usize) -> Vec<u8> {
    let mut records = [switches(0), made_perf::comm(LATER_NS, 5, 5, "x").repeat(bytes / 2 / 64)].concat();
    for at in 0..bytes / 2 / 80 {
        records.extend(made_perf::comm(at as u64 * 10 + 1, 5, 5, "x"));
        records.extend(made_perf::round());
    }
    made_perf::file(&records)
}

fn comms(at: usize) -> Vec<u8> {
    made_perf::comm(at as u64, number(at), number(at), "x")
}

fn switches(at: usize) -> Vec<u8> {
    let switch = made_tracepoints::switch((number(at), "a"), 0, (number(at + 1), "b"));
    made_perf::sample(at as u64 * 10 + 1, 0, &switch)
}

/// As many records as there may be, in pieces of perf's length. Half of the file is a record that cannot be packed.
fn packed_records(bytes: usize, one: &dyn Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut rng = SeededRng(3);
    let mut filler = || u8::try_from(rng.below(256)).unwrap();
    let mut records = switches(0);
    while records.len() < bytes / 2 {
        let body: Vec<u8> = std::iter::repeat_with(&mut filler).take((bytes / 2).min(60_000)).collect();
        records.extend(made_perf::record(99, &body));
    }
    for at in 0.. {
        records.extend(one(at));
        if records.len() > unpacked(bytes / 2) {
            break;
        }
    }
    made_perf::file(&made_perf::packed(&records, 1 << 20))
}

fn packed_interrupts(bytes: usize) -> Vec<u8> {
    let pages = unpacked(bytes) / made_trace_dat::PAGE_BYTES;
    let page = |page: usize| {
        let at = |nth: usize| (page * 1_000 + nth) as u64;
        let record = |nth: usize| (at(nth), made_tracepoints::softirq(nth.is_multiple_of(2), 1, 1));
        made_trace_dat::page(&(0..250).map(record).collect::<Vec<_>>(), None)
    };
    let switches = [(1, made_tracepoints::switch((1, "a"), 0, (2, "b")))];
    let mut cpu = made_trace_dat::page(&switches, None);
    (0..pages).for_each(|nth| cpu.extend(page(nth)));
    made_trace_dat::version_7(&[vec![cpu]], "mono", true, &[])
}

/// Options that become much more than they have.
fn packed_sections(bytes: usize) -> Vec<u8> {
    let pages = [vec![made_trace_dat::page(&[(1, made_tracepoints::switch((1, "a"), 0, (2, "b")))], None)]];
    made_trace_dat::version_7(&pages, "mono", true, &vec![0xff; unpacked(bytes)])
}

fn packed_columns(bytes: usize) -> Vec<u8> {
    let rows: Vec<_> = (0..50_000).map(|at| [at * 10, at % 2, 0, 0]).collect();
    let bundle = made_perfetto::bundle(0, false, &made_perfetto::compact(&["x"], &rows, &[]));
    packed_packets(bytes, &bundle)
}

/// A bundle of the same field again and again.
fn packed_fields(bytes: usize, field: &[u8]) -> Vec<u8> {
    let columns = made_perfetto::compact(&["x"], &[[1, 1, 0, 0], [2, 2, 0, 0]], &[]);
    let bundle = made_perfetto::bundle(0, false, &[field.repeat(FULL / field.len()), columns].concat());
    packed_packets(bytes, &bundle)
}

fn packed_threads(bytes: usize) -> Vec<u8> {
    let threads: Vec<_> = (0..200_000).map(|tid| (tid + 10, 5, "x")).collect();
    let switch = made_perfetto::switch(1, (1, "a"), 0, (2, "b"));
    let packets = [made_perfetto::bundle(0, false, &switch), made_perfetto::processes(1, &[], &threads)];
    packed_packets(bytes, &packets.concat())
}

fn packed_packets(bytes: usize, packets: &[u8]) -> Vec<u8> {
    let packed = made_perfetto::compressed(&packets.repeat((4 << 20) / packets.len() + 1));
    let filler = made_perfetto::packet(&made_perfetto::bytes(99, &[0; 10_000]));
    let mut file = made_perfetto::clocks(1, 2);
    file.extend(packed.repeat((unpacked(bytes) / (4 << 20)).max(1)));
    file.extend(filler.repeat(bytes.saturating_sub(file.len()) / filler.len()));
    file
}

/// Buffers as packed as XPRESS without a match is.
fn etl(buffers: impl Iterator<Item = (u16, Vec<u8>)>) -> Vec<u8> {
    let mut file = made_etl::log_header(SessionOptions { packing: XPRESS, ..SESSION });
    for (sequence, (cpu, events)) in (1..).zip(buffers) {
        file.extend(made_etl::buffer(
            BufferOptions { cpu, sequence, packing: XPRESS, ..BufferOptions::default() },
            &events,
        ));
    }
    file
}

fn ready(at_ns: u64) -> Vec<u8> {
    made_etl::perf(made_etl::READY, at_ns, &made_etl::ready(5))
}

fn small_buffers(bytes: usize) -> Vec<u8> {
    let switch = made_etl::perf(made_etl::SWITCH, made_etl::BEGAN_NS + 1, &made_etl::switch(5, 6, 1, 0));
    let later = [ready(made_etl::BEGAN_NS + 3), ready(LATER_NS).repeat(10_000)].concat();
    let later = (0..bytes / 2 / later.len()).map(|_| (1, later.clone()));
    let small = (0..bytes / 2 / 110).map(|at| (2, ready((at as u64 + 1) * 10_000_000)));
    etl(std::iter::once((0, switch)).chain(later).chain(small))
}

/// Buffers of 15 packed bytes: a literal, and a match that repeats it to 64 KiB.
fn buffers_of_a_match(bytes: usize) -> Vec<u8> {
    const UNPACKED: u32 = 64 << 10;
    let switch = made_etl::perf(made_etl::SWITCH, made_etl::BEGAN_NS + 1, &made_etl::switch(5, 6, 1, 0));
    let mut one = etl(std::iter::once((1, ready(made_etl::BEGAN_NS + 3))));
    one.drain(..made_etl::BUFFER_BYTES);
    // A flag for each of 32 bytes, a byte, and a match with a length of four bytes.
    let packed = [&[0, 0, 0, 0x40, 0x61, 7, 0, 0x0f, 0xff, 0, 0][..], &UNPACKED.to_le_bytes()].concat();
    one.truncate(made_etl::HEADER_BYTES);
    one.extend(&packed);
    let length = u32::try_from(one.len()).unwrap().to_le_bytes();
    one[..4].copy_from_slice(&length);
    one[4..8].copy_from_slice(&UNPACKED.to_le_bytes());
    let mut file = etl(std::iter::once((0, switch)));
    for sequence in 2..bytes as u64 / one.len() as u64 {
        one[24..32].copy_from_slice(&sequence.to_le_bytes());
        file.extend(&one);
    }
    file
}

fn names_of_threads(bytes: usize) -> Vec<u8> {
    let switch = made_etl::perf(made_etl::SWITCH, made_etl::BEGAN_NS + 1, &made_etl::switch(5, 6, 1, 0));
    let thread = |at: usize| {
        let payload = made_etl::thread(4, number(at), "");
        made_etl::perf(made_etl::THREAD_START, made_etl::BEGAN_NS + at as u64, &payload)
    };
    let each = thread(0).len();
    let buffer = |nth: usize| (1, (0..1_000).flat_map(|at| thread(nth * 1_000 + at)).collect());
    etl(std::iter::once((0, switch)).chain((0..(bytes / each / 1_000).max(1)).map(buffer)))
}
