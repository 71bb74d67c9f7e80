//! Kinds of valid datagrams that cost a receiver as much as they can: each table at its limit, in the shortest rows, and
//! many objects that a receiver stores one by one: hosts, boots, texts, sources.

use cpumon_wire::v1::{Datagram, ProcessDatagram, ThreadEntry, encode};

use crate::tables::{
    Head, cpus, delays, exits, gone, gone_in_many_columns, irqs, irqs_with_long_name, named_process,
    named_processes, processes, processes_from, processes_with_long_texts, threads, totals, waits_for,
};

/// Hosts of each kind that does not say otherwise.
const HOSTS: u64 = 24;
/// Rows of 32 bits that fill a datagram.
const ROWS: usize = 16_000;

/// Makes the datagram with this number, from 0 on.
type Make = Box<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// A kind of datagrams.
pub struct Kind {
    pub name: &'static str,
    pub make: Make,
    /// Addresses that send them in turn.
    pub sources: u64,
}

impl Kind {
    fn new(name: &'static str, make: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self { name, make: Box::new(make), sources: 1 }
    }

    /// Whole snapshots of [`HOSTS`] hosts with these tables in turn.
    fn snapshots(name: &'static str, first_host: u64, tables: Vec<Vec<u8>>) -> Self {
        let kinds = tables.len() as u64;
        Self::new(name, move |number| {
            let sequence = number / HOSTS;
            let table = tables[usize::try_from(sequence % kinds).unwrap()].clone();
            Head::of(first_host + number % HOSTS, sequence).frame(&[totals(60_000), table])
        })
    }
}

fn v1(process: ProcessDatagram) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Datagram::Process(process), &mut bytes).unwrap();
    bytes
}

/// All kinds.
pub fn kinds() -> Vec<Kind> {
    let no_text = vec![0xff; 60_000];
    let snapshots = [
        ("threads", vec![threads(ROWS, 32)]),
        ("processes", vec![processes(ROWS, 32)]),
        ("exits of what is known", vec![processes(ROWS, 32), exits(15_000, 33)]),
        ("threads, processes, exits", vec![threads(ROWS, 32), processes(ROWS, 32), exits(15_000, 33)]),
        ("gone", vec![threads(ROWS, 32), gone(ROWS, 32)]),
        ("in empty columns", vec![threads(ROWS, 32), gone_in_many_columns(ROWS, 32, 9)]),
        ("whole delays", vec![delays(60_000, 8, true)]),
        ("delays in part", vec![delays(60_000, 8, true), delays(60_000, 8, false)]),
        ("CPUs", vec![cpus(ROWS, 32)]),
        ("interrupts", vec![irqs(ROWS, 32)]),
        ("waits by who ended them", vec![waits_for(ROWS, 32)]),
        ("repeated texts", vec![processes_with_long_texts(6_000, 16, &no_text[..24_000])]),
        ("repeated interrupt names", vec![irqs_with_long_name(1_024, &no_text)]),
    ];
    let mut kinds: Vec<Kind> = (1..)
        .zip(snapshots)
        .map(|(number, (name, tables))| Kind::snapshots(name, number * 1_000, tables))
        .collect();
    kinds.extend(texts());
    kinds.extend(hosts());
    kinds.extend(v1_sets());
    kinds
}

fn texts() -> Vec<Kind> {
    let letter = |number: u64| char::from(b'a' + u8::try_from(number % 26).unwrap());
    let of = |first_host: u64, number: u64, table: Vec<u8>| {
        Head::of(first_host + number % HOSTS, number / HOSTS).frame(&[table])
    };
    vec![
        Kind::new("one long name", move |number| {
            of(20_000, number, named_process(&letter(number).to_string().repeat(60_000)))
        }),
        Kind::new("new names and command lines", move |number| {
            let text = letter(number / HOSTS).to_string();
            of(21_000, number, named_processes(120, &text.repeat(255), &text.repeat(270)))
        }),
        Kind::new("new command lines", move |number| {
            of(22_000, number, named_processes(1, "a", &format!("{number:08}").repeat(7_000)))
        }),
        Kind::new("new processes", move |number| {
            of(23_000, number, processes_from(1 + number / HOSTS * 15_000, 15_000))
        }),
    ]
}

fn hosts() -> Vec<Kind> {
    let table = threads(ROWS, 32);
    let from_many = table.clone();
    vec![
        Kind::new("never whole", move |number| {
            let head = Head { fragments: 2, ..Head::of(30_000 + number % HOSTS, number / HOSTS) };
            head.frame(&[totals(60_000), table.clone()])
        }),
        // The second snapshot of each ends an interval.
        Kind::new("new hosts", |number| Head::of(1_000_000 + number / 2, number % 2).frame(&[totals(1)])),
        Kind::new("new boots", |number| {
            let agent_start = u32::try_from(1 + number).unwrap();
            Head { boot: number, agent_start, ..Head::of(31_000, 0) }.frame(&[totals(1)])
        }),
        Kind {
            sources: 4_000,
            ..Kind::new("forged sources", move |number| {
                Head::of(40_000 + number / 2, number % 2).frame(&[totals(60_000), from_many.clone()])
            })
        },
        // A short datagram costs a walk over all that is known.
        Kind::new("few exits of many threads", {
            let many = threads(ROWS, 32);
            move |number| {
                let table = if number < 4 { many.clone() } else { exits(1, 17) };
                Head::of(32_000, number).frame(&[totals(60_000), table])
            }
        }),
    ]
}

fn v1_sets() -> Vec<Kind> {
    // A set ends with the next time stamp.
    let ticks = |number: u64, of_set: u64| i64::try_from(1 + number / of_set).unwrap();
    vec![
        Kind::new("v1 threads", move |number| {
            let process_id = u32::try_from(number).unwrap();
            let thread =
                |thread_id| ThreadEntry { owner_process_id: process_id, thread_id, ..ThreadEntry::default() };
            v1(ProcessDatagram {
                process_id,
                timestamp_ticks: ticks(number, 36),
                duration_ms: 1_000,
                threads: (0..1_800).map(thread).collect(),
                ..ProcessDatagram::default()
            })
        }),
        Kind::new("v1 processes", move |number| {
            v1(ProcessDatagram {
                process_id: u32::try_from(number).unwrap(),
                timestamp_ticks: ticks(number, 4_096),
                duration_ms: 1_000,
                ..ProcessDatagram::default()
            })
        }),
    ]
}
