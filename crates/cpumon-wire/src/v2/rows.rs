//! Samples as table rows: which field goes into which column. The way back is in `frame.rs`.

use cpumon_model::{
    Counters, CpuSample, ExitSample, HostInfo, ProcessInfo, ProcessKey, ProcessSample, Snapshot, TaskState,
    ThreadKey, ThreadSample, Waits,
};

use super::bits::zigzag;
use super::columns::{
    AGENT, ARCH, BASE_PRIORITY, BLOCKED_REST, CGROUP, CGROUP_KNOWN, CGROUPS_LEFT_OUT, CMDLINE, COMM,
    CONTAINER, CPU, CPU_COUNT, CPU_SWITCHES, DELAY_AFTER_WAKEUP, END, ENDS_PROCESS, HEALTH_0, HEALTH_1,
    HEALTH_2, HEALTH_3, HEALTH_4, HEALTH_5, HEALTH_6, HEALTH_7, HEALTH_8, HEALTH_9, HEALTH_10, HEALTH_11,
    HEALTH_12, HEALTH_13, HEALTH_14, HEALTH_15, HEALTH_16, HEALTH_17, HOSTNAME, INTERPRETER, INTERVAL,
    INVOLUNTARY, IRQ, IRQ_COUNT, IRQ_NAME, IRQ_TIME, IS_KERNEL, KERNEL, LAST_CPU, LONGEST_DELAY, MIGRATIONS,
    MODE_0, MODE_1, MODE_2, MODE_3, MODE_4, MODE_5, MODE_6, MODE_7, MODE_8, MODE_9, NAME, NICE, OPEN_WAIT,
    PARENT_PID, PASS_BOOT, PASS_MONO, PASS_WALL, PID, PRESSURE_FULL, PRESSURE_SOME, PRIORITY, PROBES,
    PROCESS_COMM, PROCESS_COUNT, PROCESS_START, PRODUCT, RUN, RUN_DELAY, RUN_QUEUE, RUN_QUEUE_MAX, SESSION,
    SOFTIRQ_0, SOFTIRQ_1, SOFTIRQ_2, SOFTIRQ_3, SOFTIRQ_4, SOFTIRQ_5, SOFTIRQ_6, SOFTIRQ_7, SOFTIRQ_8,
    SOFTIRQ_9, SOURCE_REASON, START, STATE, SYSTEM, SYSTEM_REST, THREAD_COUNT, TID, UID, UNKNOWN_TIME, USER,
    USER_NAME, VOLUNTARY, WAIT_0, WAIT_1, WAIT_2, WAIT_3, WAIT_4, WAIT_5, WAIT_6, WAIT_7, WAIT_8, WAIT_9,
    WAIT_10, WAIT_11, WAKEUPS, section,
};
use super::format::{MAX_REASON_BYTES, MAX_TEXT_BYTES};
use super::table::{Spec, Table};
use super::text_budget::TextBudget;
use super::{cgroups, sched};

/// Counters in the order of every table that has them.
macro_rules! with_counters {
    ([$($before:ident),*], [$($after:ident),*]) => {
        &[$($before,)* RUN, USER, SYSTEM, SYSTEM_REST, RUN_DELAY, VOLUNTARY, INVOLUNTARY, $($after),*]
    };
}

/// Columns of every table of threads, in the order of [`thread_values`].
macro_rules! thread_columns {
    ($($after:ident),*) => {
        with_counters!(
            [TID, START],
            [
                STATE, NICE, PRIORITY, LAST_CPU, BLOCKED_REST, DELAY_AFTER_WAKEUP, WAKEUPS, MIGRATIONS, LONGEST_DELAY,
                OPEN_WAIT, WAIT_0, WAIT_1, WAIT_2, WAIT_3, WAIT_4, WAIT_5, WAIT_6, WAIT_7, WAIT_8, WAIT_9, WAIT_10,
                WAIT_11 $(, $after)*
            ]
        )
    };
}

pub(crate) const HOST: Spec = Spec {
    section: section::HOST,
    group: &[],
    row: &[INTERVAL, CPU_COUNT, HOSTNAME, KERNEL, ARCH, AGENT, SOURCE_REASON],
};

pub(crate) const TOTALS: Spec = Spec {
    section: section::TOTALS,
    group: &[],
    row: with_counters!(
        [THREAD_COUNT, PROCESS_COUNT, PASS_MONO, PASS_BOOT, PASS_WALL],
        [
            HEALTH_0,
            HEALTH_1,
            HEALTH_2,
            HEALTH_3,
            HEALTH_4,
            HEALTH_5,
            HEALTH_6,
            HEALTH_7,
            HEALTH_8,
            HEALTH_9,
            PROBES,
            HEALTH_10,
            HEALTH_11,
            HEALTH_12,
            HEALTH_13,
            HEALTH_14,
            HEALTH_15,
            HEALTH_16,
            HEALTH_17,
            CGROUP_KNOWN,
            PRESSURE_SOME,
            PRESSURE_FULL,
            CGROUPS_LEFT_OUT
        ]
    ),
};

pub(crate) const CPUS: Spec = Spec {
    section: section::CPUS,
    group: &[],
    row: &[
        CPU,
        MODE_0,
        MODE_1,
        MODE_2,
        MODE_3,
        MODE_4,
        MODE_5,
        MODE_6,
        MODE_7,
        MODE_8,
        MODE_9,
        UNKNOWN_TIME,
        RUN_QUEUE,
        RUN_QUEUE_MAX,
        CPU_SWITCHES,
        SOFTIRQ_0,
        SOFTIRQ_1,
        SOFTIRQ_2,
        SOFTIRQ_3,
        SOFTIRQ_4,
        SOFTIRQ_5,
        SOFTIRQ_6,
        SOFTIRQ_7,
        SOFTIRQ_8,
        SOFTIRQ_9,
    ],
};

/// Processes whose identity or info is sent.
pub(crate) const PROCESSES: Spec = Spec {
    section: section::PROCESSES,
    group: &[],
    row: with_counters!(
        [PID, PROCESS_START, PARENT_PID],
        [
            UID,
            IS_KERNEL,
            SESSION,
            BASE_PRIORITY,
            NAME,
            PROCESS_COMM,
            USER_NAME,
            INTERPRETER,
            CONTAINER,
            CGROUP,
            PRODUCT,
            CMDLINE
        ]
    ),
};

/// Processes whose info the receiver has.
pub(crate) const PLAIN_PROCESSES: Spec = Spec {
    section: section::PROCESSES,
    group: &[],
    row: with_counters!([PID, PROCESS_START, PARENT_PID], []),
};

/// Threads whose name is sent.
pub(crate) const THREADS: Spec =
    Spec { section: section::THREADS, group: &[PID, PROCESS_START], row: thread_columns!(COMM) };

/// Threads whose name the receiver has.
pub(crate) const PLAIN_THREADS: Spec =
    Spec { section: section::THREADS, group: &[PID, PROCESS_START], row: thread_columns!() };

/// Threads that ended and whose process's info is sent.
pub(crate) const EXITS: Spec = Spec {
    section: section::EXITS,
    group: &[PID, PROCESS_START],
    row: thread_columns!(
        COMM,
        END,
        ENDS_PROCESS,
        PARENT_PID,
        UID,
        IS_KERNEL,
        SESSION,
        BASE_PRIORITY,
        NAME,
        PROCESS_COMM,
        USER_NAME,
        INTERPRETER,
        CONTAINER,
        CGROUP,
        PRODUCT,
        CMDLINE
    ),
};

/// Threads that ended in a process that the receiver has.
pub(crate) const PLAIN_EXITS: Spec = Spec {
    section: section::EXITS,
    group: &[PID, PROCESS_START],
    row: thread_columns!(COMM, END, ENDS_PROCESS, PARENT_PID),
};

/// Threads that ended without final counters.
pub(crate) const GONE: Spec =
    Spec { section: section::GONE, group: &[PID, PROCESS_START], row: &[TID, START] };

/// Interrupt lines whose name is sent.
pub(crate) const IRQS: Spec =
    Spec { section: section::IRQS, group: &[], row: &[IRQ, IRQ_TIME, IRQ_COUNT, IRQ_NAME] };

/// Interrupt lines whose name the receiver has.
pub(crate) const PLAIN_IRQS: Spec =
    Spec { section: section::IRQS, group: &[], row: &[IRQ, IRQ_TIME, IRQ_COUNT] };

/// State letters by how often they occur; others follow as 10 + the byte.
pub(crate) const STATES: [u8; 10] = *b"SRDIZTtXP?";

fn counters(counters: &Counters) -> [u64; 7] {
    // 0 where system time is exactly run less user; a column of zeros is not written at all.
    let rest = counters.system_ns.wrapping_sub(counters.run_ns.wrapping_sub(counters.user_ns));
    [
        counters.run_ns,
        counters.user_ns,
        counters.system_ns,
        zigzag(rest.cast_signed()),
        counters.run_delay_ns,
        counters.voluntary_switches,
        counters.involuntary_switches,
    ]
}

fn state_code(state: TaskState) -> u64 {
    STATES.iter().position(|&letter| letter == state.0).map_or(10 + u64::from(state.0), |code| code as u64)
}

/// The columns of a thread row without its name.
fn thread_values(thread: &ThreadSample) -> [u64; 15] {
    let [run, user, system, rest, delay, voluntary, involuntary] = counters(&thread.counters);
    [
        u64::from(thread.process.pid),
        thread.process.start_ns,
        u64::from(thread.key.tid),
        thread.key.start_ns,
        run,
        user,
        system,
        rest,
        delay,
        voluntary,
        involuntary,
        state_code(thread.state),
        zigzag(i64::from(thread.nice)),
        // The kernel shows a normal thread's priority as 20 + nice, so this is 0 except for real-time
        // threads.
        zigzag(i64::from(thread.priority) - 20 - i64::from(thread.nice)),
        u64::from(thread.last_cpu),
    ]
}

/// `grown`: by how much its waits grew since the snapshot before.
pub(crate) fn push_plain_thread(table: &mut Table, thread: &ThreadSample, grown: &Waits) {
    table.push(&thread_values(thread));
    table.push(&sched::thread_values(thread, Some(grown)));
}

pub(crate) fn push_thread(table: &mut Table, thread: &ThreadSample) {
    table.push(&thread_values(thread));
    table.push(&sched::thread_values(thread, None));
    let comm = table.text(thread.comm.as_bytes());
    table.push(&[comm]);
}

pub(crate) fn push_gone(table: &mut Table, process: ProcessKey, thread: ThreadKey) {
    table.push(&[u64::from(process.pid), process.start_ns, u64::from(thread.tid), thread.start_ns]);
}

fn push_info(table: &mut Table, info: &ProcessInfo, texts: &mut TextBudget) {
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

pub(crate) fn push_plain_process(table: &mut Table, process: &ProcessSample) {
    table.push(&[u64::from(process.key.pid), process.key.start_ns, u64::from(process.parent_pid)]);
    table.push(&counters(&process.ended_threads));
}

pub(crate) fn push_process(table: &mut Table, process: &ProcessSample, texts: &mut TextBudget) {
    push_plain_process(table, process);
    push_info(table, &process.info, texts);
}

/// `boot_ns`: end of the snapshot's pass, near which threads end.
pub(crate) fn push_plain_exit(table: &mut Table, exit: &ExitSample, boot_ns: u64) {
    push_thread(table, &exit.thread);
    let end = zigzag(boot_ns.wrapping_sub(exit.end_ns).cast_signed());
    table.push(&[end, u64::from(exit.ends_process), u64::from(exit.parent_pid)]);
}

pub(crate) fn push_exit(table: &mut Table, exit: &ExitSample, boot_ns: u64, texts: &mut TextBudget) {
    push_plain_exit(table, exit, boot_ns);
    push_info(table, &exit.info, texts);
}

pub(crate) fn push_cpu(table: &mut Table, cpu: &CpuSample) {
    table.push(&[u64::from(cpu.cpu)]);
    table.push(&cpu.times.to_array());
    sched::push_cpu(table, cpu);
}

pub(crate) fn push_totals(table: &mut Table, snapshot: &Snapshot) {
    let (begin, end) = (snapshot.begin, snapshot.end);
    table.push(&[
        u64::from(snapshot.thread_count),
        u64::from(snapshot.process_count),
        zigzag(end.mono_ns.wrapping_sub(begin.mono_ns).cast_signed()),
        zigzag(end.boot_ns.wrapping_sub(begin.boot_ns).cast_signed()),
        zigzag(end.wall_ns.wrapping_sub(begin.wall_ns)),
    ]);
    table.push(&counters(&snapshot.exited_total));
    let health = &snapshot.health;
    table.push(&[
        health.tasks_vanished,
        health.permission_denied,
        health.malformed,
        health.exits_lost,
        health.intervals_late,
        health.intervals_skipped,
        health.own_cpu_ns,
        health.own_rss_bytes,
    ]);
    sched::push_health(table, health);
    cgroups::push_totals(table, snapshot);
}

pub(crate) fn push_host(table: &mut Table, host: &HostInfo, texts: &mut TextBudget) {
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
