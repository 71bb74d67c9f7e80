//! Makes a `perf.data` record by record, with descriptions of tracepoints as Linux 6.18 has them.

use std::fmt::Write;

const COMMON: &str = "format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";
const STATES: &str = "{ 0x00000001, \"S\" }, { 0x00000002, \"D\" }, { 0x00000004, \"T\" }, { 0x00000008, \"t\" }, \
    { 0x00000010, \"X\" }, { 0x00000020, \"Z\" }, { 0x00000040, \"P\" }, { 0x00000080, \"I\" }";

pub const SWITCH: u16 = 372;
pub const WAKING: u16 = 375;
pub const MIGRATE: u16 = 371;
pub const FORK: u16 = 366;

/// Name, number, fields (declaration, offset, size), and what is printed.
type Event = (&'static str, u16, &'static [(&'static str, u16, u16)], &'static str);

const EVENTS: [Event; 4] = [
    (
        "sched_switch",
        SWITCH,
        &[
            ("char prev_comm[16]", 8, 16),
            ("pid_t prev_pid", 24, 4),
            ("int prev_prio", 28, 4),
            ("long prev_state", 32, 8),
            ("char next_comm[16]", 40, 16),
            ("pid_t next_pid", 56, 4),
            ("int next_prio", 60, 4),
        ],
        STATES,
    ),
    (
        "sched_waking",
        WAKING,
        &[("char comm[16]", 8, 16), ("pid_t pid", 24, 4), ("int prio", 28, 4), ("int target_cpu", 32, 4)],
        "",
    ),
    (
        "sched_migrate_task",
        MIGRATE,
        &[
            ("__data_loc char[] comm", 8, 4),
            ("pid_t pid", 12, 4),
            ("int orig_cpu", 20, 4),
            ("int dest_cpu", 24, 4),
        ],
        "",
    ),
    (
        "sched_process_fork",
        FORK,
        &[
            ("__data_loc char[] parent_comm", 8, 4),
            ("pid_t parent_pid", 12, 4),
            ("__data_loc char[] child_comm", 16, 4),
            ("pid_t child_pid", 20, 4),
        ],
        "",
    ),
];

fn format((name, id, fields, print): &Event) -> String {
    let mut text = format!("name: {name}\nID: {id}\n{COMMON}");
    for (declaration, offset, size) in *fields {
        let _ = writeln!(text, "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;");
    }
    format!("{text}\nprint fmt: \"%s\", __print_flags(REC->prev_state, \"|\", {print})\n")
}

/// The descriptions of all tracepoints, behind the magic and the version.
pub fn tracing_data(version: &str) -> Vec<u8> {
    let mut out = intro(version);
    out.extend(systems());
    // The kernel's symbols and formats: none.
    out.extend([0; 8]);
    out
}

fn intro(version: &str) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing".to_vec();
    out.extend(version.as_bytes());
    out.extend([0, 0, 8]);
    out.extend(4096_u32.to_le_bytes());
    out
}

/// Layouts of pages and events, no event of ftrace itself, and the systems.
fn systems() -> Vec<u8> {
    let mut out = Vec::new();
    for title in ["header_page", "header_event"] {
        out.extend(title.as_bytes());
        out.push(0);
        out.extend(0_u64.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    out.extend(b"sched\0");
    out.extend(u32::try_from(EVENTS.len()).unwrap().to_le_bytes());
    for event in &EVENTS {
        let text = format(event);
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    out
}

pub fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let length = text.len().min(15);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    name
}

/// The record of a tracepoint, behind its number and the thread that was there.
fn tracepoint(id: u16, current: u32) -> Vec<u8> {
    let mut raw = id.to_le_bytes().to_vec();
    raw.extend([0; 2]);
    raw.extend(current.to_le_bytes());
    raw
}

pub fn switch(prev: (u32, &str), state: u64, next: (u32, &str)) -> Vec<u8> {
    let mut raw = tracepoint(SWITCH, prev.0);
    raw.extend(name(prev.1));
    raw.extend(prev.0.to_le_bytes());
    raw.extend(120_u32.to_le_bytes());
    raw.extend(state.to_le_bytes());
    raw.extend(name(next.1));
    raw.extend(next.0.to_le_bytes());
    raw.extend(120_u32.to_le_bytes());
    raw
}

pub fn waking(task: (u32, &str), waker: u32, cpu: u32) -> Vec<u8> {
    let mut raw = tracepoint(WAKING, waker);
    raw.extend(name(task.1));
    for word in [task.0, 120, cpu] {
        raw.extend(word.to_le_bytes());
    }
    raw
}

pub fn migrate(tid: u32, to_cpu: u32) -> Vec<u8> {
    let mut raw = tracepoint(MIGRATE, 1);
    for word in [0, tid, 120, 0, to_cpu] {
        raw.extend(word.to_le_bytes());
    }
    raw
}

pub fn fork(parent: u32, child: (u32, &str)) -> Vec<u8> {
    let mut raw = tracepoint(FORK, parent);
    let located = 0x18 | u32::try_from(child.1.len()).unwrap() << 16;
    for word in [located, parent, located, child.0] {
        raw.extend(word.to_le_bytes());
    }
    raw.extend(child.1.as_bytes());
    raw
}

/// Time, CPU: what every record ends with.
fn stamp(at_ns: u64, cpu: u32) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend(at_ns.to_le_bytes());
    out.extend(cpu.to_le_bytes());
    out.extend([0; 4]);
    // The identifier.
    out.extend(1_u64.to_le_bytes());
    out
}

/// A record of `perf.data`.
pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0; 2]);
    out.extend(u16::try_from(body.len() + 8).unwrap().to_le_bytes());
    out.extend(body);
    out
}

/// A sample of a tracepoint.
pub fn sample(at_ns: u64, cpu: u32, raw: &[u8]) -> Vec<u8> {
    // Identifier, address, process and thread, time, CPU, period.
    let mut body = 1_u64.to_le_bytes().to_vec();
    body.extend([0; 16]);
    body.extend(at_ns.to_le_bytes());
    body.extend(u64::from(cpu).to_le_bytes());
    body.extend(1_u64.to_le_bytes());
    body.extend(u32::try_from(raw.len()).unwrap().to_le_bytes());
    body.extend(raw);
    body.resize(body.len().next_multiple_of(8), 0);
    record(9, &body)
}

pub fn comm(at_ns: u64, pid: u32, tid: u32, text: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
    body.extend(name(text));
    body.extend(stamp(at_ns, 0));
    record(3, &body)
}

/// A thread of this process begins.
pub fn begun(at_ns: u64, (pid, parent): (u32, u32), tid: u32) -> Vec<u8> {
    let words = [pid, parent, tid, parent].map(u32::to_le_bytes).concat();
    record(7, &[words, at_ns.to_le_bytes().to_vec(), stamp(at_ns, 0)].concat())
}

pub fn lost(at_ns: u64, cpu: u32, count: u64) -> Vec<u8> {
    record(2, &[1_u64.to_le_bytes().to_vec(), count.to_le_bytes().to_vec(), stamp(at_ns, cpu)].concat())
}

/// Every CPU's buffer has been read.
pub fn round() -> Vec<u8> {
    record(68, &[])
}

/// `perf_event_attr` of 64 bytes: samples have identifier, address, thread, time, CPU, period and the tracepoint's record.
fn attr() -> Vec<u8> {
    let mut attr = [2_u32.to_le_bytes(), 64_u32.to_le_bytes()].concat();
    let sample_type = 1_u64 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 16;
    for word in [u64::from(SWITCH), 1, sample_type, 0, 1 << 18, 0, 0] {
        attr.extend(word.to_le_bytes());
    }
    attr
}

/// Between the records and the descriptions behind them there is nothing.
pub fn file(records: &[u8]) -> Vec<u8> {
    const ATTRS_AT: u64 = 104;
    const DATA_AT: u64 = ATTRS_AT + 80 + 8;
    let mut out = b"PERFILE2".to_vec();
    let data_bytes = records.len() as u64;
    // Features 1 (descriptions), 3 (host), 7 (CPUs).
    for word in [104, 80, ATTRS_AT, 80, DATA_AT, data_bytes, 0, 0, 1 << 1 | 1 << 3 | 1 << 7, 0, 0, 0] {
        out.extend(u64::to_le_bytes(word));
    }
    out.extend(attr());
    out.extend((ATTRS_AT + 80).to_le_bytes());
    out.extend(8_u64.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend(records);
    let mut host = 16_u32.to_le_bytes().to_vec();
    host.extend(name("device1"));
    let sections = [tracing_data("0.6"), host, [2_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat()];
    let mut at = out.len() as u64 + 16 * sections.len() as u64;
    for section in &sections {
        out.extend(at.to_le_bytes());
        out.extend((section.len() as u64).to_le_bytes());
        at += section.len() as u64;
    }
    out.extend(sections.concat());
    out
}

/// As perf writes to a pipe.
pub fn piped(records: &[u8]) -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16_u64.to_le_bytes());
    out.extend(record(64, &[attr(), 1_u64.to_le_bytes().to_vec()].concat()));
    let mut descriptions = tracing_data("0.6");
    let length = u32::try_from(descriptions.len()).unwrap();
    descriptions.resize(descriptions.len().next_multiple_of(8), 0);
    out.extend(record(66, &length.to_le_bytes()));
    out.extend(descriptions);
    out.extend(records);
    out
}
