//! `CompactSched`: switches and wakeups of a CPU as columns of packed numbers, with names by their place in a table.

use cpumon_model::Leaves;

use super::super::bytes::name;
use super::super::decoder::{Named, RawKind, UNKNOWN};
use super::super::tracepoints::leaves;
use super::wire::{Value, fields};
use crate::file::varint::take;

/// Names of one bundle. Each event could have its own.
const MAX_NAMES: usize = 1 << 17;

/// Numbers of the fields: time, thread, name, and the state or the CPU.
const SWITCH: [u64; 4] = [1, 3, 6, 2];
const WAKING: [u64; 4] = [7, 8, 11, 9];
const NAMES: u64 = 5;

/// The columns of one kind of event. Times are since the event before.
#[derive(Copy, Clone, Debug, Default)]
struct Columns<'b> {
    at_ns: u64,
    columns: [&'b [u8]; 4],
}

#[derive(Copy, Clone, Debug)]
struct Row {
    at_ns: u64,
    tid: u32,
    name: u64,
    last: u64,
}

impl Columns<'_> {
    /// The next event; `None` if there is no more, or it is not whole.
    fn next(&mut self) -> Option<Row> {
        let [time, tid, name, last] = &mut self.columns;
        self.at_ns = self.at_ns.checked_add(take(time)?)?;
        Some(Row { at_ns: self.at_ns, tid: tid_of(take(tid)?), name: take(name)?, last: take(last)? })
    }

    fn is_empty(&self) -> bool {
        self.columns[0].is_empty()
    }
}

/// A thread id. Negative ones and those that cpumon itself writes for unknown time are no thread.
pub(super) fn tid_of(number: u64) -> u32 {
    u32::try_from(number).ok().filter(|tid| *tid != crate::UNKNOWN_TID).unwrap_or(UNKNOWN)
}

/// Visits the events in the order of their time. `current` is who the CPU was given last. `None`: the message is damaged.
pub(super) fn visit(
    bytes: &[u8],
    states: &[(u64, char)],
    current: &mut Named,
    add: &mut dyn FnMut(u64, RawKind) -> Option<()>,
) -> Option<()> {
    let (mut switches, mut wakings, mut names) = (Columns::default(), Columns::default(), Vec::new());
    fields(bytes, |number, value| {
        let Value::Bytes(bytes) = value else { return None };
        if number == NAMES {
            names.push(name(bytes));
            return (names.len() <= MAX_NAMES).then_some(());
        }
        for (columns, numbers) in [(&mut switches, SWITCH), (&mut wakings, WAKING)] {
            if let Some(at) = numbers.iter().position(|known| *known == number) {
                columns.columns[at] = bytes;
            }
        }
        Some(())
    })?;
    let named = |row: &Row| {
        let name = usize::try_from(row.name).ok().and_then(|at| names.get(at)).copied()?;
        Some(Named { tid: row.tid, name })
    };
    let mut waking = wakings.next();
    let mut switch = switches.next();
    loop {
        match (switch, waking) {
            (Some(row), other) if other.is_none_or(|other| row.at_ns < other.at_ns) => {
                let next = named(&row)?;
                let prev = std::mem::replace(current, next);
                // Not a switch if they are the same: the first event of a trace only says who is there, and the last one up to when.
                if prev.tid == next.tid {
                    add(row.at_ns, RawKind::Same)?;
                } else {
                    let is_known = prev.tid != UNKNOWN;
                    let leaves = if is_known { leaves(row.last, states) } else { Leaves::Ready };
                    add(row.at_ns, RawKind::Switch { prev, next, leaves })?;
                }
                switch = switches.next();
            }
            (_, Some(row)) => {
                let cpu = u16::try_from(row.last).ok()?;
                add(row.at_ns, RawKind::Waking { task: named(&row)?, waker: current.tid, cpu })?;
                waking = wakings.next();
            }
            _ => break,
        }
    }
    (switches.is_empty() && wakings.is_empty()).then_some(())
}
