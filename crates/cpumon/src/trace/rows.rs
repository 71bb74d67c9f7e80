//! The rows of a trace's report, as values for CSV and JSON.

use cpumon_model::Value;
use cpumon_trace::{CpuAccount, GroupKey, GroupRow};

use super::trace_file::{maybe, percent};

/// Columns of a thread, a process or a program. Times are ns; `at` counts from the start of the trace.
pub(super) const COLUMNS: [&str; 29] = [
    "name",
    "pid",
    "process_start_ns",
    "tid",
    "thread_start_ns",
    "threads",
    "run_ns",
    "run_pct",
    "irq_ns",
    "softirq_ns",
    "ready_woken_ns",
    "ready_preempted_ns",
    "delays",
    "delay_p50_ns",
    "delay_p99_ns",
    "delay_max_ns",
    "delay_max_at_ns",
    "delay_max_cpu",
    "behind",
    "behind_ns",
    "blocked_ns",
    "blocked_most_for",
    "blocked_most_ns",
    "voluntary_switches",
    "involuntary_switches",
    "migrations",
    "unknown_wakeups",
    "unknown_ns",
    "kind",
];

/// Columns of a CPU.
pub(super) const CPU_COLUMNS: [&str; 11] = [
    "cpu",
    "capacity_ns",
    "run_ns",
    "irq_ns",
    "softirq_ns",
    "idle_ns",
    "unknown_ns",
    "run_pct",
    "switches",
    "holes",
    "lost",
];

/// What the times of rows relate to.
#[derive(Copy, Clone, Debug)]
pub(super) struct Scale {
    /// Of the range; 100 % are one CPU.
    pub(super) length_ns: u64,
    /// Of the trace.
    pub(super) began_ns: u64,
    pub(super) has_interrupts: bool,
}

pub(super) fn cells(row: &GroupRow, scale: Scale) -> Vec<Value<'static>> {
    let (process, thread, kind) = match &row.key {
        GroupKey::Thread(thread, process) => (Some(*process), Some(*thread), "thread"),
        GroupKey::Process(process) => (Some(*process), None, "process"),
        GroupKey::Program(_) => (None, None, "program"),
        GroupKey::Container(_) => (None, None, "container"),
        GroupKey::Unnamed(_) => (None, None, "unnamed"),
    };
    let longest = row.longest_delay();
    let behind = row.behind.first();
    let reason = row.blocked.longest();
    let text = |text: Option<std::borrow::Cow<'static, str>>| text.map_or(Value::Null, Value::Text);
    vec![
        Value::Text(row.name.to_string().into()),
        maybe(process.map(|key| key.pid.into())),
        maybe(process.map(|key| key.start_ns)),
        maybe(thread.map(|key| key.tid.into())),
        maybe(thread.map(|key| key.start_ns)),
        Value::count(row.threads),
        Value::count(row.run_ns),
        percent(row.run_ns, scale.length_ns),
        maybe(scale.has_interrupts.then_some(row.interrupts.irq_ns)),
        maybe(scale.has_interrupts.then_some(row.interrupts.softirq_ns)),
        Value::count(row.ready_woken_ns()),
        Value::count(row.ready_preempted_ns()),
        Value::count(row.delays()),
        maybe(row.delay_percentile_ns(50)),
        maybe(row.delay_percentile_ns(99)),
        maybe(longest.map(|longest| longest.ns)),
        maybe(longest.map(|longest| longest.from_ns.saturating_sub(scale.began_ns))),
        maybe(longest.map(|longest| longest.cpu.into())),
        behind.map_or(Value::Null, |(name, _)| Value::Text(name.to_string().into())),
        maybe(behind.map(|(_, ns)| *ns)),
        Value::count(row.blocked.total_ns()),
        text(reason.map(|(reason, _)| reason.name())),
        maybe(reason.map(|(_, ns)| ns)),
        Value::count(row.voluntary_switches()),
        Value::count(row.involuntary_switches()),
        Value::count(row.migrations()),
        Value::count(row.unknown_wakeups()),
        Value::count(row.unknown_ns),
        Value::Text(kind.into()),
    ]
}

pub(super) fn cpu_cells(cpu: &CpuAccount, has_interrupts: bool) -> Vec<Value<'static>> {
    vec![
        Value::count(cpu.cpu.into()),
        Value::count(cpu.capacity_ns()),
        Value::count(cpu.run_ns),
        maybe(has_interrupts.then_some(cpu.irq_ns)),
        maybe(has_interrupts.then_some(cpu.softirq_ns)),
        Value::count(cpu.idle_ns),
        Value::count(cpu.unknown_ns),
        percent(cpu.run_ns, cpu.capacity_ns()),
        Value::count(cpu.switches),
        Value::count(cpu.holes),
        Value::count(cpu.lost),
    ]
}
