//! `ProcessTree`: which thread is of which process, and their names.

use super::super::bytes::name;
use super::super::decoder::{Named, RawEvent, RawKind, push};
use super::compact::tid_of;
use super::wire::{Small, Value, fields};

/// Processes and threads of one tree: the kernel's largest number is 32 times this.
const MAX_ENTRIES: usize = 1 << 17;
/// The process whose children work for the kernel.
const KTHREADD: u64 = 2;

/// Takes what was known at this time. `None`: it is damaged.
pub(super) fn take(bytes: &[u8], at_ns: u64, events: &mut Vec<RawEvent>) -> Option<()> {
    let mut add = |at_ns, kind| push(events, RawEvent { at_ns, cpu: 0, kind });
    let mut entries = 0;
    fields(bytes, |field, value| {
        let Value::Bytes(message) = value else { return Some(()) };
        entries += 1;
        if entries > MAX_ENTRIES {
            return None;
        }
        match field {
            1 => {
                let (process, command) = (Small::parse(message)?, first_text(message)?);
                let pid = tid_of(process.number(1));
                add(at_ns, RawKind::Belongs { tid: pid, pid, is_new: false });
                if process.number(2) == KTHREADD || process.number(8) != 0 || process.number(1) == KTHREADD {
                    add(at_ns, RawKind::Kernel { pid });
                }
                // Any name that an event has is better.
                add(0, RawKind::Called(Named { tid: pid, name: name(base(command)) }));
            }
            2 => {
                let thread = Small::parse(message)?;
                let (tid, pid) = (tid_of(thread.number(1)), tid_of(thread.number(3)));
                if pid != 0 {
                    add(at_ns, RawKind::Belongs { tid, pid, is_new: false });
                }
                add(at_ns, RawKind::Called(Named { tid, name: name(thread.text(2)) }));
            }
            _ => {}
        }
        Some(())
    })
}

/// The first part of the command line: later ones are its arguments.
fn first_text(process: &[u8]) -> Option<&[u8]> {
    let mut first = None;
    fields(process, |field, value| {
        if let (3, Value::Bytes(text)) = (field, value) {
            first = first.or(Some(text));
        }
        Some(())
    })?;
    Some(first.unwrap_or_default())
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}
