//! Traces of other recorders: how tests read them, and the records of the kernel's tracepoints for events of ours.

use std::io::Cursor;

use cpumon_model::WaitReason;
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{Ending, GroupRow, ReadError, Report, ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;

use crate::made_tracepoints::{switch, waking};

// States of a task that leaves its CPU.
pub const SLEEPS: u64 = 1;
pub const DEAD: u64 = 0x10;
pub const PREEMPTED: u64 = 0x100;

pub fn open(bytes: &[u8]) -> Result<AnyTrace<'_>, ReadError> {
    AnyTrace::open(Cursor::new(bytes))
}

/// Events by the threads' names.
pub fn read(bytes: &[u8]) -> Result<(Vec<String>, Ending), ReadError> {
    let mut events = Vec::new();
    let mut trace = open(bytes)?;
    let ending = trace.read(&mut |event| events.push(event))?;
    let name = |task: TraceTask| match trace.tasks().find(task) {
        Some(names) => names.comm.into_owned(),
        None => format!("{task:?}"),
    };
    Ok((events.iter().map(|event| show(event, &name)).collect(), ending))
}

pub fn show(event: &SchedEvent, name: &dyn Fn(TraceTask) -> String) -> String {
    let what = match event.kind {
        SchedEventKind::Switch { prev, next, leaves } => {
            // perf has no reasons.
            let leaves =
                if let Leaves::Asleep(_) = leaves { Leaves::Asleep(WaitReason::OTHER) } else { leaves };
            format!("{} {leaves:?} {}", name(prev), name(next))
        }
        SchedEventKind::Waking { task, waker, cpu } => {
            format!("{} wakes {} on {cpu}", name(waker), name(task))
        }
        other => format!("{other:?}"),
    };
    format!("{} {} {what}", event.at_ns, event.cpu)
}

pub fn named(task: TraceTask) -> (u32, String) {
    match task {
        TraceTask::IDLE => (0, "swapper".to_owned()),
        TraceTask(number) => (number + 100, format!("task-{number}")),
    }
}

pub fn report_of(bytes: &[u8], by: ReportBy) -> (Report, Vec<GroupRow>, Ending) {
    let mut trace = open(bytes).unwrap();
    let (report, ending) = analyse(&mut trace, TraceRange::default()).unwrap();
    let rows = report.rows(by, trace.tasks());
    (report, rows, ending)
}

/// The record of a switch or wakeup.
pub fn tracepoint_of(event: &SchedEvent) -> Vec<u8> {
    match event.kind {
        SchedEventKind::Switch { prev, next, leaves } => {
            let state = if leaves == Leaves::Ready { PREEMPTED } else { SLEEPS };
            let (prev, next) = (named(prev), named(next));
            switch((prev.0, &prev.1), state, (next.0, &next.1))
        }
        SchedEventKind::Waking { task, waker, cpu } => {
            let task = named(task);
            waking((task.0, &task.1), named(waker).0, cpu.into())
        }
        other => panic!("{other:?}"),
    }
}
