//! Descriptions of the kernel's tracepoints as Linux 6.18 has them, and records of these.

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
pub const NEW_TASK: u16 = 140;
pub const SOFTIRQ_ENTRY: u16 = 151;
pub const SOFTIRQ_EXIT: u16 = 150;

/// Name, number, fields (declaration, offset, size), and print format.
type Event = (&'static str, u16, &'static [(&'static str, u16, u16)], &'static str);

const EVENTS: [Event; 7] = [
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
    (
        "task_newtask",
        NEW_TASK,
        &[("pid_t pid", 8, 4), ("char comm[16]", 12, 16), ("u64 clone_flags", 32, 8)],
        "",
    ),
    ("softirq_entry", SOFTIRQ_ENTRY, &[("unsigned int vec", 8, 4)], ""),
    ("softirq_exit", SOFTIRQ_EXIT, &[("unsigned int vec", 8, 4)], ""),
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
    out.extend(page_layouts(""));
    out.extend(systems());
    // The kernel's symbols and formats: none.
    out.extend([0; 8]);
    out
}

pub fn intro(version: &str) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing".to_vec();
    out.extend(version.as_bytes());
    out.extend([0, 0, 8]);
    out.extend(4096_u32.to_le_bytes());
    out
}

/// Layouts of pages and events.
pub fn page_layouts(page: &str) -> Vec<u8> {
    let mut out = b"header_page\0".to_vec();
    out.extend((page.len() as u64).to_le_bytes());
    out.extend(page.as_bytes());
    out.extend(b"header_event\0");
    out.extend(0_u64.to_le_bytes());
    out
}

/// No event of ftrace itself, and the systems.
pub fn systems() -> Vec<u8> {
    let mut out = 0_u32.to_le_bytes().to_vec();
    out.extend(events());
    out
}

pub fn events() -> Vec<u8> {
    let mut out = 1_u32.to_le_bytes().to_vec();
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

pub fn new_task(parent: u32, child: (u32, &str), flags: u64) -> Vec<u8> {
    let mut raw = tracepoint(NEW_TASK, parent);
    raw.extend(child.0.to_le_bytes());
    raw.extend(name(child.1));
    raw.extend([0; 4]);
    raw.extend(flags.to_le_bytes());
    raw
}

pub fn softirq(begins: bool, current: u32, kind: u32) -> Vec<u8> {
    let mut raw = tracepoint(if begins { SOFTIRQ_ENTRY } else { SOFTIRQ_EXIT }, current);
    raw.extend(kind.to_le_bytes());
    raw
}
