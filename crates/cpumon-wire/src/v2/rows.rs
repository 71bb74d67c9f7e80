//! Samples as table rows: which field goes into which column. The way back is in `frame.rs`.
//!
//! For counters of the scheduler's and the interrupts' events both ways are here: they came after the first release, whose decoders skip
//! them; where they are missing, all is 0. Times are cut to whole µs. A thread's waits are sent in slots, the longest first; a row without
//! the thread's name has only those that grew since the snapshot before, so a receiver keeps the others.

use cpumon_model::varint::zigzag;
use cpumon_model::{
    CpuSample, CpuSched, ExitSample, HostInfo, IrqSample, Probes, ProcessInfo, ProcessKey, ProcessSample,
    SchedTimes, Snapshot, SourceHealth, TaskState, ThreadKey, ThreadSample, WAIT_SLOTS, WaitReason, Waits,
};

#[allow(clippy::wildcard_imports)] // One name for each column.
use super::columns::*;
use super::read::{TableReader, TextSpan};
use super::sections::push_pressure;
use super::table::{Spec, TableWriter, TextBudget};
use super::{MAX_REASON_BYTES, MAX_TEXT_BYTES};
use crate::DecodeError;

/// Number of columns for the scheduler's events of a thread.
const THREAD_COLUMNS: usize = 6 + 2 * WAIT_SLOTS;
/// Longest name of an interrupt line, bytes.
const MAX_IRQ_NAME_BYTES: usize = 63;
/// An open wait whose reason has no slot is this number plus the reason's code.
const IN_NO_SLOT: u64 = WAIT_SLOTS as u64 + 1;

/// What a row of a thread has behind its counters.
#[rustfmt::skip]
const THREAD: &[u8] = &[
    STATE, NICE, PRIORITY, LAST_CPU, ONE_CPU, BLOCKED_REST, DELAY_AFTER_WAKEUP, WAKEUPS, MIGRATIONS,
    LONGEST_DELAY, OPEN_WAIT, WAIT_0, WAIT_1, WAIT_2, WAIT_3, WAIT_4, WAIT_5, WAIT_6, WAIT_7, WAIT_8, WAIT_9, WAIT_10, WAIT_11,
];

/// What a process is.
#[rustfmt::skip]
const INFO: &[u8] = &[
    UID, IS_KERNEL, SESSION, BASE_PRIORITY, NAME, PROCESS_COMM, USER_NAME, INTERPRETER, CONTAINER, CGROUP, PRODUCT,
    CMDLINE,
];

const THREAD_KEY: &[u8] = &[TID, START];
const PROCESS: &[u8] = &[PID, PROCESS_START, PARENT_PID];
const EXIT: &[u8] = &[COMM, END, ENDS_PROCESS, PARENT_PID];
const IRQ_COUNTS: &[u8] = &[IRQ, IRQ_TIME, IRQ_COUNT];

pub(crate) const HOST: Spec =
    Spec::alone(section::HOST, &[&[INTERVAL, CPU_COUNT, HOSTNAME, KERNEL, ARCH, AGENT, SOURCE_REASON]]);

pub(crate) const TOTALS: Spec = Spec::alone(
    section::TOTALS,
    &[
        &[THREAD_COUNT, PROCESS_COUNT, PASS_MONO, PASS_BOOT, PASS_WALL],
        COUNTERS,
        HEALTH.split_at(HEALTH_BEFORE_PROBES).0,
        &[PROBES],
        HEALTH.split_at(HEALTH_BEFORE_PROBES).1,
        &[CGROUP_KNOWN, PRESSURE_SOME, PRESSURE_FULL, CGROUPS_LEFT_OUT],
    ],
);

#[rustfmt::skip]
pub(crate) const CPUS: Spec = Spec::alone(
    section::CPUS,
    &[&[
        CPU, MODE_0, MODE_1, MODE_2, MODE_3, MODE_4, MODE_5, MODE_6, MODE_7, MODE_8, MODE_9, UNKNOWN_TIME,
        RUN_QUEUE, RUN_QUEUE_MAX, CPU_SWITCHES, SOFTIRQ_0, SOFTIRQ_1, SOFTIRQ_2, SOFTIRQ_3, SOFTIRQ_4,
        SOFTIRQ_5, SOFTIRQ_6, SOFTIRQ_7, SOFTIRQ_8, SOFTIRQ_9,
    ]],
);

// Of each kind of row that has names two tables: with them, and *plain*, where the receiver has them.
pub(crate) const PROCESSES: Spec = Spec::alone(section::PROCESSES, &[PROCESS, COUNTERS, INFO]);
pub(crate) const PLAIN_PROCESSES: Spec = Spec::alone(section::PROCESSES, &[PROCESS, COUNTERS]);
pub(crate) const THREADS: Spec = Spec::by_process(section::THREADS, &[THREAD_KEY, COUNTERS, THREAD, &[COMM]]);
pub(crate) const PLAIN_THREADS: Spec = Spec::by_process(section::THREADS, &[THREAD_KEY, COUNTERS, THREAD]);
pub(crate) const EXITS: Spec = Spec::by_process(section::EXITS, &[THREAD_KEY, COUNTERS, THREAD, EXIT, INFO]);
pub(crate) const PLAIN_EXITS: Spec = Spec::by_process(section::EXITS, &[THREAD_KEY, COUNTERS, THREAD, EXIT]);
/// Threads that ended without final counters.
pub(crate) const GONE: Spec = Spec::by_process(section::GONE, &[THREAD_KEY]);
pub(crate) const IRQS: Spec = Spec::alone(section::IRQS, &[IRQ_COUNTS, &[IRQ_NAME]]);
pub(crate) const PLAIN_IRQS: Spec = Spec::alone(section::IRQS, &[IRQ_COUNTS]);

/// State letters by how often they occur; others follow as 10 + the byte.
pub(crate) const STATES: [u8; 10] = *b"SRDIZTtXP?";

fn state_code(state: TaskState) -> u64 {
    STATES.iter().position(|&letter| letter == state.0).map_or(10 + u64::from(state.0), |code| code as u64)
}

/// A row without its name. `grown`: by how much its waits grew since the snapshot before, to send only those that did.
pub(crate) fn push_plain_thread(table: &mut TableWriter, thread: &ThreadSample, grown: Option<&Waits>) {
    push_thread_key(table, thread.process, thread.key);
    table.push(&counter_values(&thread.counters));
    table.push(&[
        state_code(thread.state),
        zigzag(i64::from(thread.nice)),
        // The kernel shows a normal thread's priority as 20 + nice, so this is 0 except for real-time
        // threads.
        zigzag(i64::from(thread.priority) - 20 - i64::from(thread.nice)),
        u64::from(thread.last_cpu),
        u64::from(thread.has_one_cpu),
    ]);
    table.push(&sched_values(thread, grown));
}

pub(crate) fn push_thread(table: &mut TableWriter, thread: &ThreadSample) {
    push_plain_thread(table, thread, None);
    let comm = table.text(thread.comm.as_bytes());
    table.push(&[comm]);
}

pub(crate) fn push_thread_key(table: &mut TableWriter, process: ProcessKey, thread: ThreadKey) {
    table.push(&[u64::from(process.pid), process.start_ns, u64::from(thread.tid), thread.start_ns]);
}

fn push_info(table: &mut TableWriter, info: &ProcessInfo, texts: &mut TextBudget) {
    let values = texts.put(
        [
            (&info.name, MAX_TEXT_BYTES),
            (&info.comm, MAX_TEXT_BYTES),
            (&info.user, MAX_TEXT_BYTES),
            (&info.interpreter, MAX_TEXT_BYTES),
            (&info.container, MAX_TEXT_BYTES),
            (&info.cgroup, MAX_TEXT_BYTES),
            (&info.product, MAX_TEXT_BYTES),
            // Last, because it is the longest: it gets what the other texts leave of the datagram.
            (&info.cmdline, usize::MAX),
        ],
        table,
    );
    // 0 is none, so that a host that has neither sends no column.
    let session = info.session.map_or(0, |number| u64::from(number) + 1);
    let base_priority = info.base_priority.map_or(0, |number| u64::from(number) + 1);
    table.push(&[u64::from(info.uid), u64::from(info.is_kernel), session, base_priority]);
    table.push(&values);
}

pub(crate) fn push_plain_process(table: &mut TableWriter, process: &ProcessSample) {
    table.push(&[u64::from(process.key.pid), process.key.start_ns, u64::from(process.parent_pid)]);
    table.push(&counter_values(&process.ended_threads));
}

pub(crate) fn push_process(table: &mut TableWriter, process: &ProcessSample, texts: &mut TextBudget) {
    push_plain_process(table, process);
    push_info(table, &process.info, texts);
}

/// `boot_ns`: end of the snapshot's pass, near which threads end.
pub(crate) fn push_plain_exit(table: &mut TableWriter, exit: &ExitSample, boot_ns: u64) {
    push_thread(table, &exit.thread);
    let end = zigzag(boot_ns.wrapping_sub(exit.end_ns).cast_signed());
    table.push(&[end, u64::from(exit.ends_process), u64::from(exit.parent_pid)]);
}

pub(crate) fn push_exit(table: &mut TableWriter, exit: &ExitSample, boot_ns: u64, texts: &mut TextBudget) {
    push_plain_exit(table, exit, boot_ns);
    push_info(table, &exit.info, texts);
}

pub(crate) fn push_cpu(table: &mut TableWriter, cpu: &CpuSample) {
    table.push(&[u64::from(cpu.cpu)]);
    table.push(&cpu.times.to_array());
    let sched = &cpu.sched;
    let [unknown, queue] = [sched.unknown_ns, sched.run_queue_ns].map(whole_us);
    table.push(&[unknown, queue, u64::from(sched.run_queue_max), sched.switches]);
    table.push(&sched.softirq_ns.map(whole_us));
}

pub(crate) fn push_totals(table: &mut TableWriter, snapshot: &Snapshot) {
    let (begin, end) = (snapshot.begin, snapshot.end);
    table.push(&[
        u64::from(snapshot.thread_count),
        u64::from(snapshot.process_count),
        zigzag(end.mono_ns.wrapping_sub(begin.mono_ns).cast_signed()),
        zigzag(end.boot_ns.wrapping_sub(begin.boot_ns).cast_signed()),
        zigzag(end.wall_ns.wrapping_sub(begin.wall_ns)),
    ]);
    table.push(&counter_values(&snapshot.exited_total));
    let counts = health_counts(&snapshot.health);
    let (before, after) = counts.split_at(HEALTH_BEFORE_PROBES);
    table.push(before);
    table.push(&[u64::from(snapshot.health.probes.bits())]);
    table.push(after);
    push_pressure(table, snapshot);
}

pub(crate) fn push_host(table: &mut TableWriter, host: &HostInfo, texts: &mut TextBudget) {
    table.push(&[host.interval_ns, u64::from(host.cpu_count)]);
    let values = texts.put(
        [
            (&host.hostname, MAX_TEXT_BYTES),
            (&host.kernel, MAX_TEXT_BYTES),
            (&host.arch, MAX_TEXT_BYTES),
            (&host.agent, MAX_TEXT_BYTES),
            (&host.source_reason, MAX_REASON_BYTES),
        ],
        table,
    );
    table.push(&values);
}

/// The columns of a thread's row. `grown`: by how much its waits grew, to send only those that did.
fn sched_values(thread: &ThreadSample, grown: Option<&Waits>) -> [u64; THREAD_COLUMNS] {
    let sched = &thread.sched;
    let mut slots = [(WaitReason::NONE, 0); WAIT_SLOTS];
    for (slot, (reason, ns)) in slots.iter_mut().zip(sched.waits.iter()) {
        if grown.is_none_or(|grown| grown.of(reason) > 0) {
            *slot = (reason, whole_us(ns));
        }
    }
    slots.sort_unstable_by_key(|(reason, ns)| (std::cmp::Reverse(*ns), *reason));
    let open = match slots.iter().position(|(reason, ns)| *ns > 0 && *reason == sched.open_wait) {
        _ if !sched.open_wait.is_some() => 0,
        Some(slot) => slot as u64 + 1,
        None => IN_NO_SLOT + sched.open_wait.code(),
    };
    let mut values = [0; THREAD_COLUMNS];
    values[..6].copy_from_slice(&[
        whole_us(sched.blocked_ns.saturating_sub(sched.waits.total_ns())),
        whole_us(sched.delay_after_wakeup_ns),
        sched.wakeups,
        sched.migrations,
        whole_us(sched.longest_delay_ns),
        open,
    ]);
    for (pair, (reason, ns)) in values[6..].chunks_exact_mut(2).zip(slots) {
        pair.copy_from_slice(&[if ns == 0 { 0 } else { reason.code() }, ns]);
    }
    values
}

/// A thread's times from its row; of its waits those that were sent.
pub(crate) fn thread_sched(table: &TableReader<'_>) -> SchedTimes {
    if !table.has_any(((1 << THREAD_COLUMNS) - 1) << BLOCKED_REST) {
        return SchedTimes::default();
    }
    let slot = |column: u8| (WaitReason::from_code(table.value(column)), table.value(column + 1));
    let waits: Waits = (WAIT_0..=WAIT_11).step_by(2).map(slot).collect();
    let open_wait = match table.value(OPEN_WAIT) {
        0 => WaitReason::NONE,
        open if open < IN_NO_SLOT => slot(WAIT_0 + 2 * u8::try_from(open - 1).unwrap_or(0)).0,
        open => WaitReason::from_code(open - IN_NO_SLOT),
    };
    SchedTimes {
        delay_after_wakeup_ns: table.value(DELAY_AFTER_WAKEUP),
        blocked_ns: table.value(BLOCKED_REST).saturating_add(waits.total_ns()),
        wakeups: table.value(WAKEUPS),
        migrations: table.value(MIGRATIONS),
        longest_delay_ns: table.value(LONGEST_DELAY),
        waits,
        open_wait,
    }
}

pub(crate) fn cpu_sched(table: &TableReader<'_>) -> Result<CpuSched, DecodeError> {
    Ok(CpuSched {
        unknown_ns: table.value(UNKNOWN_TIME),
        run_queue_ns: table.value(RUN_QUEUE),
        run_queue_max: table.narrow(RUN_QUEUE_MAX)?,
        switches: table.value(CPU_SWITCHES),
        softirq_ns: std::array::from_fn(|kind| table.value(SOFTIRQ_0 + u8::try_from(kind).unwrap_or(0))),
    })
}

/// Adds the row of an interrupt line, without its name.
pub(crate) fn push_irq(table: &mut TableWriter, irq: &IrqSample) {
    table.push(&[u64::from(irq.irq), whole_us(irq.time_ns), irq.count]);
}

pub(crate) fn push_named_irq(table: &mut TableWriter, irq: &IrqSample, texts: &mut TextBudget) {
    push_irq(table, irq);
    let name = texts.put([(&irq.name, MAX_IRQ_NAME_BYTES)], table);
    table.push(&name);
}

/// An interrupt line's row in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IrqRow {
    /// Number of the line.
    pub irq: u32,
    /// Time in its handlers, ns.
    pub time_ns: u64,
    /// Number of times that the line was handled.
    pub count: u64,
    /// Its name, if sent; in the frame's text buffer.
    pub(crate) name: Option<TextSpan>,
}

pub(crate) fn irq(table: &TableReader<'_>) -> Result<IrqRow, DecodeError> {
    Ok(IrqRow {
        irq: table.narrow(IRQ)?,
        time_ns: table.value(IRQ_TIME),
        count: table.value(IRQ_COUNT),
        name: table.has(IRQ_NAME).then(|| table.span(IRQ_NAME)),
    })
}

/// Number of counts before the probes in the totals' row.
const HEALTH_BEFORE_PROBES: usize = 10;

/// Counts of the source's health with the columns that have them, in the order of the totals' row.
macro_rules! health {
    ($($column:ident $count:ident)+) => {
        const HEALTH: &[u8] = &[$($column),+];

        fn health_counts(health: &SourceHealth) -> [u64; HEALTH.len()] {
            [$(health.$count),+]
        }

        /// Reads the source's health from the row of totals.
        pub(crate) fn health(table: &TableReader<'_>) -> SourceHealth {
            let probes = Probes::from_bits_truncate(u16::try_from(table.value(PROBES)).unwrap_or(0));
            SourceHealth { $($count: table.value($column),)+ probes }
        }
    };
}

health! {
    HEALTH_0 tasks_vanished
    HEALTH_1 permission_denied
    HEALTH_2 malformed
    HEALTH_3 exits_lost
    HEALTH_4 intervals_late
    HEALTH_5 intervals_skipped
    HEALTH_6 own_cpu_ns
    HEALTH_7 own_rss_bytes
    HEALTH_8 sched_untracked
    HEALTH_9 sched_missed_switches
    HEALTH_10 histogram_drops
    HEALTH_11 ring_drops
    HEALTH_12 execs_lost
    HEALTH_13 endings_lost
    HEALTH_14 cuts_lost
    HEALTH_15 hidden_left_out
    HEALTH_16 wakeups_unknown
    HEALTH_17 run_queue_unknown
    HEALTH_18 wakers_unknown
}
