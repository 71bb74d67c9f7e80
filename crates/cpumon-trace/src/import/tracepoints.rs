//! The scheduler's tracepoints: what their records say, whichever recorder wrote them.

use std::collections::HashMap;

use cpumon_model::{Interrupt, Leaves, WaitReason};
use foldhash::fast::FixedState;

use super::bytes::{Name, Order, name};
use super::decoder::{Named, RawKind, UNKNOWN};
use super::formats::{Field, Format};

/// The fields of a thread: its name and its id.
#[derive(Copy, Clone, Debug)]
struct Who {
    tid: Field,
    name: Option<Field>,
}

#[derive(Clone, Debug)]
enum Tracepoint {
    Switch {
        prev: Who,
        next: Who,
        state: Field,
        states: Vec<(u64, char)>,
    },
    Waking {
        who: Who,
        cpu: Field,
    },
    /// What follows a waking; needed only where a recording has no wakings.
    Wakeup {
        who: Who,
        cpu: Field,
    },
    /// The first one of a thread, which has no waking.
    WakeupNew {
        who: Who,
        cpu: Field,
    },
    Migrate {
        tid: Field,
        to_cpu: Field,
    },
    Fork {
        child: Who,
        parent: Field,
    },
    Exit {
        tid: Field,
    },
    Rename {
        who: Who,
    },
    NewTask {
        who: Who,
        flags: Field,
    },
    Irq {
        number: Field,
        is_soft: bool,
        begins: bool,
    },
}

/// `CLONE_THREAD` of `task_newtask`.
pub(super) const CLONE_THREAD: u64 = 0x10000;

/// A record is shorter than its description, or has an impossible CPU.
pub(super) struct Damaged;

/// The tracepoints of one recording.
#[derive(Clone, Debug)]
pub(super) struct Tracepoints {
    pub(super) order: Order,
    by_id: HashMap<u32, Tracepoint, FixedState>,
    common_type: Option<Field>,
    common_pid: Option<Field>,
    has_wakings: bool,
}

impl Tracepoints {
    pub(super) fn new(order: Order) -> Self {
        let by_id = HashMap::default();
        Self { order, by_id, common_type: None, common_pid: None, has_wakings: false }
    }

    /// Takes the description of a tracepoint; those that say nothing of the scheduler are left out.
    pub(super) fn add(&mut self, format: &Format) {
        if let Some(tracepoint) = tracepoint(format) {
            self.by_id.insert(format.id, tracepoint);
            self.common_type = self.common_type.or(format.field("common_type"));
            self.common_pid = self.common_pid.or(format.field("common_pid"));
        }
    }

    /// Whether switches can be read.
    pub(super) fn has_switches(&self) -> bool {
        self.common_type.is_some()
            && self.by_id.values().any(|known| matches!(known, Tracepoint::Switch { .. }))
    }

    /// What a record says; `None` if it is of another tracepoint, or says nothing new.
    pub(super) fn read(&mut self, record: &[u8]) -> Result<Option<RawKind>, Damaged> {
        let id = self.common_type.and_then(|field| field.number(record, self.order));
        let id = id.and_then(|id| u32::try_from(id).ok()).ok_or(Damaged)?;
        match self.by_id.get(&id) {
            Some(Tracepoint::Waking { .. }) => self.has_wakings = true,
            Some(Tracepoint::Wakeup { .. }) if self.has_wakings => return Ok(None),
            Some(_) => {}
            None => return Ok(None),
        }
        let tracepoint = self.by_id.get(&id).ok_or(Damaged)?;
        self.kind(tracepoint, record).map(Some).ok_or(Damaged)
    }

    fn kind(&self, tracepoint: &Tracepoint, record: &[u8]) -> Option<RawKind> {
        let number = |field: &Field| field.number(record, self.order);
        let tid = |field: &Field| u32::try_from(number(field)?).ok();
        let cpu = |field: &Field| u16::try_from(number(field)?).ok();
        let who = |who: &Who| {
            let text = who.name.and_then(|field| field.text(record, self.order));
            Some(Named { tid: tid(&who.tid)?, name: text.map_or_else(Name::default, name) })
        };
        let current = || self.common_pid.as_ref().and_then(tid).unwrap_or(UNKNOWN);
        Some(match tracepoint {
            Tracepoint::Switch { prev, next, state, states } => {
                RawKind::Switch { prev: who(prev)?, next: who(next)?, leaves: leaves(number(state)?, states) }
            }
            Tracepoint::Waking { who: task, cpu: at }
            | Tracepoint::Wakeup { who: task, cpu: at }
            | Tracepoint::WakeupNew { who: task, cpu: at } => {
                RawKind::Waking { task: who(task)?, waker: current(), cpu: cpu(at)? }
            }
            Tracepoint::Migrate { tid: task, to_cpu } => {
                RawKind::Migrate { tid: tid(task)?, to_cpu: cpu(to_cpu)? }
            }
            Tracepoint::Fork { child, parent } => {
                RawKind::Born { task: who(child)?, parent: tid(parent)?, is_thread: false }
            }
            Tracepoint::NewTask { who: task, flags } => RawKind::Born {
                task: who(task)?,
                parent: current(),
                is_thread: number(flags)? & CLONE_THREAD != 0,
            },
            Tracepoint::Irq { number: line, is_soft, begins } => {
                let line = u16::try_from(number(line)?).ok()?;
                let interrupt = if *is_soft { Interrupt::Soft(line) } else { Interrupt::Hard(line) };
                if *begins { RawKind::Enter(interrupt) } else { RawKind::Return(interrupt) }
            }
            Tracepoint::Exit { tid: task } => RawKind::Exit { tid: tid(task)? },
            Tracepoint::Rename { who: task } => RawKind::Called(who(task)?),
        })
    }
}

fn tracepoint(format: &Format) -> Option<Tracepoint> {
    let field = |name| format.field(name);
    let who = |tid, name| Some(Who { tid: field(tid)?, name: field(name) });
    Some(match &*format.name {
        "sched_switch" => Tracepoint::Switch {
            prev: who("prev_pid", "prev_comm")?,
            next: who("next_pid", "next_comm")?,
            state: field("prev_state")?,
            states: format.states.clone(),
        },
        "sched_waking" => Tracepoint::Waking { who: who("pid", "comm")?, cpu: field("target_cpu")? },
        "sched_wakeup" => Tracepoint::Wakeup { who: who("pid", "comm")?, cpu: field("target_cpu")? },
        "sched_wakeup_new" => Tracepoint::WakeupNew { who: who("pid", "comm")?, cpu: field("target_cpu")? },
        "sched_migrate_task" => Tracepoint::Migrate { tid: field("pid")?, to_cpu: field("dest_cpu")? },
        "sched_process_fork" => {
            Tracepoint::Fork { child: who("child_pid", "child_comm")?, parent: field("parent_pid")? }
        }
        "sched_process_exit" => Tracepoint::Exit { tid: field("pid")? },
        "task_newtask" => Tracepoint::NewTask { who: who("pid", "comm")?, flags: field("clone_flags")? },
        "irq_handler_entry" | "irq_handler_exit" => {
            Tracepoint::Irq { number: field("irq")?, is_soft: false, begins: format.name.ends_with("entry") }
        }
        "softirq_entry" | "softirq_exit" => {
            let begins = format.name.ends_with("entry");
            Tracepoint::Irq { number: field("vec")?, is_soft: true, begins }
        }
        "task_rename" => Tracepoint::Rename { who: who("pid", "newcomm")? },
        _ => return None,
    })
}

/// How a thread with this state leaves its CPU. No known letter: it is runnable (`R`, `R+`).
pub(super) fn leaves(state: u64, states: &[(u64, char)]) -> Leaves {
    let mut leaves = Leaves::Ready;
    for (bits, letter) in states {
        if *bits == 0 || state & bits == 0 {
            continue;
        }
        leaves = match letter {
            'X' | 'Z' | 'x' => return Leaves::Dead,
            'D' => Leaves::Asleep(WaitReason::DISK),
            'T' => Leaves::Asleep(WaitReason::STOPPED),
            't' => Leaves::Asleep(WaitReason::TRACED),
            'I' => Leaves::Asleep(WaitReason::KERNEL),
            'R' => continue,
            // A second bit says how the thread may be woken, not what it waits for.
            _ if leaves == Leaves::Ready => Leaves::Asleep(WaitReason::OTHER),
            _ => continue,
        };
    }
    leaves
}
