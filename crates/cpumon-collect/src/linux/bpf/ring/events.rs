//! [`Event`]: a record of the ring buffer, parsed.

use super::super::records::{ExecEvent, ExitEvent, ScriptEvent, TaskRecord, read_plain};
use crate::script::{Command, ExecScript};

/// A record of the ring buffer.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Exit(ExitEvent),
    Ending(ExitEvent),
    /// How a thread stood at the cut after which it ended.
    Cut(ExitEvent),
    /// Boxed: it is twice as long as the others, and rarer.
    Exec(Box<ExecEvent>, ExecScript),
}

const EVENT_EXIT: u32 = 1;
const EVENT_EXEC: u32 = 2;
const EVENT_ENDING: u32 = 3;
const EVENT_CUT: u32 = 4;
const EVENT_SCRIPT: u32 = 6;

impl Event {
    /// Reads a record of the ring buffer; `None` for one that makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match u32::from_ne_bytes(*bytes.first_chunk()?) {
            EVENT_EXIT => read_plain(bytes).map(Self::Exit),
            EVENT_EXEC => read_plain(bytes).map(|exec| Self::Exec(Box::new(exec), ExecScript::Unread)),
            EVENT_SCRIPT => read_plain(bytes)
                .map(|event: ScriptEvent| Self::Exec(Box::new(event.exec), script_of(&event))),
            EVENT_ENDING => read_plain(bytes).map(Self::Ending),
            EVENT_CUT => read_plain(bytes).map(Self::Cut),
            _ => None,
        }
    }

    /// The newest cut that was past when it happened.
    pub(crate) fn cut_ns(&self) -> u64 {
        match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => exit.cut_ns,
            Self::Exec(exec, _) => exec.cut_ns,
        }
    }

    /// Holds its instant back to `boot_ns`.
    pub(crate) fn not_after(&mut self, boot_ns: u64) {
        let at_ns = match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => &mut exit.end_ns,
            Self::Exec(exec, _) => &mut exec.at_ns,
        };
        *at_ns = boot_ns.min(*at_ns);
    }

    pub(crate) fn task_mut(&mut self) -> &mut TaskRecord {
        match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => &mut exit.task,
            Self::Exec(exec, _) => &mut exec.task,
        }
    }
}

/// What the arguments say of a script. All else of them ends here.
fn script_of(event: &ScriptEvent) -> ExecScript {
    let executable = String::from_utf8_lossy(event.exec.name());
    let cmdline = event.arguments.get(..event.bytes as usize).unwrap_or_default();
    let comm = event.exec.task.comm();
    Command { executable: &executable, comm, cmdline, is_cut: event.is_cut != 0 }.at_exec()
}
