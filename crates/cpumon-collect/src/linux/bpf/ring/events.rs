//! [`Event`]: a record of the ring buffer, parsed; [`GroupEvent`]: a control group as the probes report it.

use super::super::records::{ExecEvent, ExitEvent, GroupHeader, ScriptEvent, TaskRecord, read_plain};
use crate::script::{ExecScript, ScriptCommand};

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

    /// Moves the event's time back to `boot_ns` if it is later.
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

/// Extracts the script from the arguments. The other arguments are dropped here.
fn script_of(event: &ScriptEvent) -> ExecScript {
    let executable = String::from_utf8_lossy(event.exec.name());
    let cmdline = event.arguments.get(..event.bytes as usize).unwrap_or_default();
    let comm = event.exec.task.comm();
    ScriptCommand { executable: &executable, comm, cmdline, is_cut: event.is_cut != 0 }.at_exec()
}

const EVENT_GROUP: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEvent {
    /// Id of the group, with its hierarchy in the highest bits (records.h: `HIERARCHY_SHIFT`).
    pub(crate) number: u64,
    /// From the root of this process's namespace on, as /proc/PID/cgroup shows it.
    pub(crate) path: Box<str>,
}

impl GroupEvent {
    /// Reads a record of the ring buffer; `None` for one of another kind, or that makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header: GroupHeader =
            read_plain(bytes).filter(|header: &GroupHeader| header.kind == EVENT_GROUP)?;
        let names = bytes.get(size_of::<GroupHeader>()..)?.get(..usize::try_from(header.bytes).ok()?)?;
        let mut path = String::with_capacity(names.len() + 1);
        if let Some(names) = names.strip_suffix(&[0]) {
            // The group itself comes first.
            for name in names.rsplit(|&byte| byte == 0) {
                if name.is_empty() || name.contains(&b'/') {
                    return None;
                }
                path.push('/');
                path.push_str(&String::from_utf8_lossy(name));
            }
        } else if names.is_empty() {
            path.push('/');
        } else {
            return None;
        }
        Some(Self { number: header.number, path: path.into() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(kind: u32, length: usize, names: &[u8]) -> Vec<u8> {
        let length = u32::try_from(length).unwrap();
        let mut bytes = [kind.to_ne_bytes(), length.to_ne_bytes()].concat();
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(names);
        bytes
    }

    fn path(names: &[u8]) -> Option<String> {
        // The event is as long as an exit at least.
        let padded = [names, &[b'x'; 300]].concat();
        GroupEvent::parse(&event(EVENT_GROUP, names.len(), &padded)).map(|group| group.path.into())
    }

    #[test]
    fn a_path_is_read_from_its_end() {
        assert_eq!(path(b"").as_deref(), Some("/"));
        assert_eq!(path(b"a\0").as_deref(), Some("/a"));
        assert_eq!(path(b"x.scope\0b c\0a.slice\0").as_deref(), Some("/a.slice/b c/x.scope"));
        assert_eq!(path(b"\x1b[2J\xff\0").as_deref(), Some("/\u{1b}[2J\u{fffd}"));
        assert_eq!(path(b"a\nb\0").as_deref(), Some("/a\nb"));
        let long = "y".repeat(255);
        let deep = format!("{long}\0").repeat(16);
        assert_eq!(path(deep.as_bytes()), Some(format!("/{long}").repeat(16)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for names in [&b"a"[..], b"\0", b"a\0\0", b"\0a\0", b"a/b\0", b"..\0/\0"] {
            assert_eq!(path(names), None, "{names:?}");
        }
        assert_eq!(GroupEvent::parse(&event(1, 2, b"a\0")), None, "another kind");
        assert_eq!(GroupEvent::parse(&event(EVENT_GROUP, 3, b"a\0")), None, "cut");
        assert_eq!(GroupEvent::parse(&event(EVENT_GROUP, usize::from(u16::MAX), b"")), None);
        assert_eq!(GroupEvent::parse(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_path_or_refused(length in 0_usize..40, names in prop::collection::vec(0_u8..4, 0..40)) {
            if let Some(group) = GroupEvent::parse(&event(EVENT_GROUP, length, &names)) {
                prop_assert!(group.path.starts_with('/') && group.path.len() <= length + 1);
                prop_assert!(!group.path.contains('\0'));
            }
        }
    }
}
