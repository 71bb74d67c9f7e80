//! Counters of the scheduler's and the interrupts' events as columns, in both directions. They came after the
//! first release, whose decoders skip them; where they are missing, all is 0.
//!
//! Times are cut to whole µs. A thread's waits are sent in slots, the longest first; a row without the thread's name has
//! only those that grew since the snapshot before, so a receiver keeps the others.

use cpumon_model::{
    CpuSample, CpuSched, IrqSample, Probes, SchedTimes, SourceHealth, ThreadSample, WAIT_SLOTS, WaitReason,
    Waits,
};

use super::columns::{
    BLOCKED_REST, CPU_SWITCHES, DELAY_AFTER_WAKEUP, HEALTH_8, HEALTH_9, HEALTH_10, HEALTH_11, HEALTH_12,
    HEALTH_13, HEALTH_14, HEALTH_15, HEALTH_16, HEALTH_17, IRQ, IRQ_COUNT, IRQ_NAME, IRQ_TIME, LONGEST_DELAY,
    MIGRATIONS, OPEN_WAIT, PROBES, RUN_QUEUE, RUN_QUEUE_MAX, SOFTIRQ_0, UNKNOWN_TIME, WAIT_0, WAIT_11,
    WAKEUPS,
};
use super::read::{Span, TableReader};
use super::table::Table;
use super::text_budget::TextBudget;
use crate::DecodeError;

/// Columns of a thread.
pub(crate) const THREAD_COLUMNS: usize = 6 + 2 * WAIT_SLOTS;
/// Longest name of an interrupt line, bytes.
const MAX_IRQ_NAME_BYTES: usize = 63;
/// In place of a slot's number: what is waited for is in no slot, its code follows.
const IN_NO_SLOT: u64 = WAIT_SLOTS as u64 + 1;

fn whole_us(ns: u64) -> u64 {
    // Whole µs share the unit 1,000, which saves 10 bits of each value.
    ns - ns % 1_000
}

/// The columns of a thread's row. `grown`: by how much its waits grew, to send only those that did.
pub(crate) fn thread_values(thread: &ThreadSample, grown: Option<&Waits>) -> [u64; THREAD_COLUMNS] {
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
pub(crate) fn thread(table: &TableReader<'_>) -> SchedTimes {
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

/// The columns of a CPU's row.
pub(crate) fn push_cpu(table: &mut Table, cpu: &CpuSample) {
    let sched = &cpu.sched;
    let [unknown, queue] = [sched.unknown_ns, sched.run_queue_ns].map(whole_us);
    table.push(&[unknown, queue, u64::from(sched.run_queue_max), sched.switches]);
    table.push(&sched.softirq_ns.map(whole_us));
}

/// A CPU's times from its row.
pub(crate) fn cpu(table: &TableReader<'_>) -> Result<CpuSched, DecodeError> {
    Ok(CpuSched {
        unknown_ns: table.value(UNKNOWN_TIME),
        run_queue_ns: table.value(RUN_QUEUE),
        run_queue_max: table.narrow(RUN_QUEUE_MAX)?,
        switches: table.value(CPU_SWITCHES),
        softirq_ns: std::array::from_fn(|kind| table.value(SOFTIRQ_0 + u8::try_from(kind).unwrap_or(0))),
    })
}

/// The columns of an interrupt line's row.
pub(crate) fn push_irq(table: &mut Table, irq: &IrqSample) {
    table.push(&[u64::from(irq.irq), whole_us(irq.time_ns), irq.count]);
}

/// Likewise with its name.
pub(crate) fn push_named_irq(table: &mut Table, irq: &IrqSample, texts: &mut TextBudget) {
    push_irq(table, irq);
    let name = texts.put([(&irq.name, MAX_IRQ_NAME_BYTES)], table);
    table.push(&name);
}

/// An interrupt line as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IrqRow {
    /// Number of the line.
    pub irq: u32,
    /// Time in its handlers, ns.
    pub time_ns: u64,
    /// Times it was handled.
    pub count: u64,
    /// Its name, if sent; in the frame's text buffer.
    pub(crate) name: Option<Span>,
}

/// An interrupt line from its row.
pub(crate) fn irq(table: &TableReader<'_>) -> Result<IrqRow, DecodeError> {
    Ok(IrqRow {
        irq: table.narrow(IRQ)?,
        time_ns: table.value(IRQ_TIME),
        count: table.value(IRQ_COUNT),
        name: table.has(IRQ_NAME).then(|| table.span(IRQ_NAME)),
    })
}

/// The columns of the totals' row.
pub(crate) fn push_health(table: &mut Table, health: &SourceHealth) {
    let probes = u64::from(health.probes.bits());
    table.push(&[health.sched_untracked, health.sched_missed_switches, probes]);
    table.push(&[health.histogram_drops, health.ring_drops]);
    table.push(&[health.execs_lost, health.endings_lost, health.cuts_lost, health.hidden_left_out]);
    table.push(&[health.wakeups_unknown, health.run_queue_unknown]);
}

/// Completes the health of the totals' row.
pub(crate) fn read_health(table: &TableReader<'_>, health: &mut SourceHealth) {
    health.sched_untracked = table.value(HEALTH_8);
    health.sched_missed_switches = table.value(HEALTH_9);
    health.histogram_drops = table.value(HEALTH_10);
    health.ring_drops = table.value(HEALTH_11);
    health.execs_lost = table.value(HEALTH_12);
    health.endings_lost = table.value(HEALTH_13);
    health.cuts_lost = table.value(HEALTH_14);
    health.hidden_left_out = table.value(HEALTH_15);
    health.wakeups_unknown = table.value(HEALTH_16);
    health.run_queue_unknown = table.value(HEALTH_17);
    health.probes = Probes::from_bits_truncate(u16::try_from(table.value(PROBES)).unwrap_or(0));
}
