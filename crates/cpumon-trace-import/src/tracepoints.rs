//! The scheduler's tracepoints: what their records say, whichever recorder wrote them. Where each field lies differs between kernels, so
//! every recording has their descriptions (`events/sched/sched_switch/format`): perf and trace-cmd store them one after the other, behind
//! a magic. Perfetto stores each record as a message with numbers for the fields.

use std::collections::HashMap;

use cpumon_model::WaitReason;
use cpumon_sched::{Bytes, Interrupt, Leaves, Order, name};
use foldhash::fast::RandomState;

use crate::decoder::{NamedThread, RawKind, UNKNOWN};

#[derive(Copy, Clone, Debug)]
pub(super) enum TracepointKind {
    Switch,
    Waking,
    /// What follows a waking; needed only where a recording has no wakings.
    Wakeup,
    /// The first one of a thread, which has no waking.
    WakeupNew,
    Migrate,
    Fork,
    NewTask,
    Exit,
    Rename,
    Enter(fn(u16) -> Interrupt),
    Return(fn(u16) -> Interrupt),
}

/// Name of a tracepoint, its number in Perfetto's `FtraceEvent`, and its fields, each with its number in Perfetto's message. The name of
/// a thread follows its id.
pub(super) type KnownTracepoint = (&'static str, u64, TracepointKind, &'static [(&'static str, usize)]);

const SWITCH: &[(&str, usize)] =
    &[("prev_pid", 2), ("prev_comm", 1), ("next_pid", 6), ("next_comm", 5), ("prev_state", 4)];
const WAKING: &[(&str, usize)] = &[("pid", 2), ("comm", 1), ("target_cpu", 5)];
const FORK: &[(&str, usize)] = &[("child_pid", 4), ("child_comm", 3), ("parent_pid", 2)];
const NEW_TASK: &[(&str, usize)] = &[("pid", 1), ("comm", 2), ("clone_flags", 3)];

/// The tracepoints that are read, the most frequent ones first.
pub(super) static TRACEPOINTS: [KnownTracepoint; 13] = [
    ("sched_switch", 4, TracepointKind::Switch, SWITCH),
    ("sched_waking", 20, TracepointKind::Waking, WAKING),
    ("sched_wakeup", 17, TracepointKind::Wakeup, WAKING),
    ("sched_wakeup_new", 114, TracepointKind::WakeupNew, WAKING),
    ("irq_handler_entry", 36, TracepointKind::Enter(Interrupt::Hard), &[("irq", 1)]),
    ("irq_handler_exit", 37, TracepointKind::Return(Interrupt::Hard), &[("irq", 1)]),
    ("softirq_entry", 24, TracepointKind::Enter(Interrupt::Soft), &[("vec", 1)]),
    ("softirq_exit", 25, TracepointKind::Return(Interrupt::Soft), &[("vec", 1)]),
    ("sched_migrate_task", 491, TracepointKind::Migrate, &[("pid", 2), ("dest_cpu", 5)]),
    ("sched_process_fork", 239, TracepointKind::Fork, FORK),
    ("task_newtask", 235, TracepointKind::NewTask, NEW_TASK),
    ("sched_process_exit", 238, TracepointKind::Exit, &[("pid", 2)]),
    ("task_rename", 236, TracepointKind::Rename, &[("pid", 1), ("newcomm", 3)]),
];

/// `CLONE_THREAD` in the flags of `task_newtask`.
const CLONE_THREAD: u64 = 0x10000;

/// A record is shorter than its description, or has an impossible CPU.
pub(super) struct DamagedTracepoint;

impl TracepointKind {
    /// Whether a record says anything new. `has_wakings`: any waking was read.
    pub(super) fn is_new(self, has_wakings: &mut bool) -> bool {
        *has_wakings |= matches!(self, Self::Waking);
        !(*has_wakings && matches!(self, Self::Wakeup))
    }

    /// What a record says. `number`, `tid` and `text`: its fields by their place in the table; `current`: the thread on the CPU.
    pub(super) fn read<'r>(
        self,
        number: impl Fn(usize) -> Option<u64>,
        tid: impl Fn(usize) -> Option<u32>,
        text: impl Fn(usize) -> &'r [u8],
        current: impl Fn() -> u32,
        states: &[(u64, char)],
    ) -> Option<RawKind> {
        let thread = |at| Some(NamedThread { tid: tid(at)?, name: name(text(at + 1)) });
        let small = |at| u16::try_from(number(at)?).ok();
        Some(match self {
            Self::Switch => {
                RawKind::Switch { prev: thread(0)?, next: thread(2)?, leaves: leaves(number(4)?, states) }
            }
            Self::Waking | Self::Wakeup | Self::WakeupNew => {
                RawKind::Waking { task: thread(0)?, waker: current(), cpu: small(2)? }
            }
            Self::Migrate => RawKind::Migrate { tid: tid(0)?, to_cpu: small(1)? },
            Self::Fork => RawKind::Born { task: thread(0)?, parent: tid(2)?, is_thread: false },
            Self::NewTask => RawKind::Born {
                task: thread(0)?,
                parent: current(),
                is_thread: number(2)? & CLONE_THREAD != 0,
            },
            Self::Exit => RawKind::Exit { tid: tid(0)? },
            Self::Rename => RawKind::Called(thread(0)?),
            Self::Enter(interrupt) => RawKind::Enter(interrupt(small(0)?)),
            Self::Return(interrupt) => RawKind::Return(interrupt(small(0)?)),
        })
    }
}

/// A tracepoint of one recording: where its fields lie, and the bits and letters of task states.
#[derive(Clone, Debug)]
struct DescribedTracepoint {
    kind: TracepointKind,
    fields: Vec<Option<TracepointField>>,
    states: Vec<(u64, char)>,
}

#[derive(Clone, Debug)]
pub(super) struct Tracepoints {
    pub(super) order: Order,
    by_id: HashMap<u32, DescribedTracepoint, RandomState>,
    common_type: Option<TracepointField>,
    common_pid: Option<TracepointField>,
    /// Any was read.
    pub(super) has_wakings: bool,
}

impl Tracepoints {
    pub(super) fn new(order: Order) -> Self {
        let by_id = HashMap::default();
        Self { order, by_id, common_type: None, common_pid: None, has_wakings: false }
    }

    /// Takes the description of a tracepoint; those that say nothing of the scheduler are left out.
    pub(super) fn add(&mut self, format: TracepointFormat) {
        let Some((.., kind, names)) = TRACEPOINTS.iter().find(|known| *known.0 == *format.name) else {
            return;
        };
        if self.by_id.len() >= MAX_TRACEPOINTS {
            return;
        }
        let fields: Vec<_> = names.iter().map(|(name, _)| format.field(name)).collect();
        // Only the names of threads may be missing.
        if fields.iter().zip(*names).any(|(field, (name, _))| field.is_none() && !name.ends_with("comm")) {
            return;
        }
        self.common_type = self.common_type.or(format.field("common_type"));
        self.common_pid = self.common_pid.or(format.field("common_pid"));
        self.by_id.insert(format.id, DescribedTracepoint { kind: *kind, fields, states: format.states });
    }

    pub(super) fn has_switches(&self) -> bool {
        let is_switch = |known: &DescribedTracepoint| matches!(known.kind, TracepointKind::Switch);
        self.common_type.is_some() && self.by_id.values().any(is_switch)
    }

    /// What a record says; `None` if it is of another tracepoint, or says nothing new.
    pub(super) fn read(&mut self, record: &[u8]) -> Result<Option<RawKind>, DamagedTracepoint> {
        let Self { order, common_pid, .. } = *self;
        let tid_in = |field: TracepointField| u32::try_from(field.number(record, order)?).ok();
        let id = self.common_type.and_then(tid_in).ok_or(DamagedTracepoint)?;
        let described = self.by_id.get(&id).filter(|known| known.kind.is_new(&mut self.has_wakings));
        let Some(DescribedTracepoint { kind, fields, states }) = described else { return Ok(None) };
        let field = |at: usize| fields.get(at).copied().flatten();
        let read = kind.read(
            |at| field(at)?.number(record, order),
            |at| tid_in(field(at)?),
            |at| field(at).and_then(|field| field.text(record, order)).unwrap_or_default(),
            || common_pid.and_then(tid_in).unwrap_or(UNKNOWN),
            states,
        );
        read.map(Some).ok_or(DamagedTracepoint)
    }
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
            // A second bit says how the thread may be woken, not why it waits.
            _ if leaves == Leaves::Ready => Leaves::Asleep(WaitReason::OTHER),
            _ => continue,
        };
    }
    leaves
}

/// Tracepoints of one recording that are read; further ones are left out. A kernel describes each of ours once.
const MAX_TRACEPOINTS: usize = 256;
/// Fields of a tracepoint that are read; further ones are left out.
const MAX_FIELDS: usize = 64;
/// States of a task that a kernel may name.
const MAX_STATES: usize = 64;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum FieldLocation {
    /// In the record itself.
    Here,
    /// The field says where in the record: offset and length.
    Located,
    /// The same, counted from the end of the field.
    LocatedFromHere,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct TracepointField {
    pub(super) offset: usize,
    pub(super) size: usize,
    place: FieldLocation,
}

impl TracepointField {
    /// Value of the field as an unsigned number.
    pub(super) fn number(self, record: &[u8], order: Order) -> Option<u64> {
        if self.size > 8 {
            return None;
        }
        Some(order.number(record.get(self.offset..self.offset.checked_add(self.size)?)?))
    }

    fn text(self, record: &[u8], order: Order) -> Option<&[u8]> {
        let end = self.offset.checked_add(self.size)?;
        if self.place == FieldLocation::Here {
            return record.get(self.offset..end);
        }
        let located = self.number(record, order)?;
        let (low, length) = (usize::try_from(located & 0xffff).ok()?, usize::try_from(located >> 16).ok()?);
        let begin = if self.place == FieldLocation::Located { low } else { end.checked_add(low)? };
        record.get(begin..begin.checked_add(length)?)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct TracepointFormat {
    name: Box<str>,
    id: u32,
    fields: Vec<(Box<str>, TracepointField)>,
    /// The letters of task states, as `print fmt` has them: their bits differ between kernels.
    states: Vec<(u64, char)>,
}

impl TracepointFormat {
    /// Of the text that the kernel gives. `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut format = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().into();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
            } else if let Some(field) = line.strip_prefix("field:") {
                if format.fields.len() < MAX_FIELDS {
                    format.fields.push(parse_field(field)?);
                }
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.states = parse_states(print);
            }
        }
        (!format.name.is_empty() && !format.fields.is_empty()).then_some(format)
    }

    pub(super) fn field(&self, name: &str) -> Option<TracepointField> {
        self.fields.iter().find(|field| &*field.0 == name).map(|field| field.1)
    }
}

/// Parses `pid_t prev_pid; offset:24; size:4; signed:1;`.
fn parse_field(text: &str) -> Option<(Box<str>, TracepointField)> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.trim().parse().ok(),
            Some(("size", number)) => size = number.trim().parse().ok(),
            _ => {}
        }
    }
    let place = match declaration.split_whitespace().next()? {
        "__data_loc" => FieldLocation::Located,
        "__rel_loc" => FieldLocation::LocatedFromHere,
        _ => FieldLocation::Here,
    };
    let name = declaration.rsplit(' ').next()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    Some((name.into(), TracepointField { offset: offset?, size: size?, place }))
}

/// The pairs of `{ 0x0001, "S" }` in a `print fmt`.
fn parse_states(print: &str) -> Vec<(u64, char)> {
    let mut states = Vec::new();
    for part in print.split('{').skip(1).take(MAX_STATES) {
        let Some((pair, _)) = part.split_once('}') else { continue };
        let Some((bits, letter)) = pair.split_once(',') else { continue };
        let bits = bits.trim();
        let bits = match bits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => bits.parse().ok(),
        };
        let letter = letter.trim().trim_matches('"').chars().next();
        if let (Some(bits), Some(letter)) = (bits, letter) {
            states.push((bits, letter));
        }
    }
    states
}

pub(super) const TRACING_DATA_MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Systems of tracepoints, and tracepoints of one system: no kernel has that many.
const MAX_COUNT: u32 = 100_000;

/// First fields of the tracing data.
pub(super) struct Intro<'b> {
    pub(super) version: &'b [u8],
    pub(super) order: Order,
    pub(super) page_bytes: u32,
}

/// Takes the begin. From then on `bytes` has the order that it says.
pub(super) fn take_intro<'b>(bytes: &mut Bytes<'b>) -> Option<Intro<'b>> {
    bytes.rest = bytes.rest.strip_prefix(TRACING_DATA_MAGIC)?;
    let version = bytes.text()?;
    let order = if *bytes.take(1)?.first()? == 0 { Order::Little } else { Order::Big };
    bytes.order = order;
    // Bytes of a long.
    bytes.skip(1)?;
    Some(Intro { version, order, page_bytes: bytes.u32()? })
}

/// Takes the layouts of a page and of an event, each behind its title and length.
pub(super) fn take_page_layout<'b>(bytes: &mut Bytes<'b>) -> Option<&'b [u8]> {
    bytes.rest = bytes.rest.strip_prefix(b"header_page\0")?;
    let page = bytes.sized(8)?;
    bytes.rest = bytes.rest.strip_prefix(b"header_event\0")?;
    bytes.sized(8)?;
    Some(page)
}

/// Takes the descriptions of ftrace's own events, which say nothing of the scheduler.
pub(super) fn skip_own(bytes: &mut Bytes<'_>) -> Option<()> {
    for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
        bytes.sized(8)?;
    }
    Some(())
}

pub(super) fn take_systems(bytes: &mut Bytes<'_>, tracepoints: &mut Tracepoints) -> Option<()> {
    for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
        let system = bytes.text()?;
        let is_ours = matches!(system, b"sched" | b"task" | b"irq");
        for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
            let text = bytes.sized(8)?;
            if let Some(format) =
                is_ours.then(|| TracepointFormat::parse(&String::from_utf8_lossy(text))).flatten()
            {
                tracepoints.add(format);
            }
        }
    }
    Some(())
}

/// Reads what perf stores as its feature *tracing data*.
pub(super) fn read_tracing_data(raw: &[u8]) -> Option<Tracepoints> {
    let mut bytes = Bytes::new(raw, Order::Little);
    let mut tracepoints = Tracepoints::new(take_intro(&mut bytes)?.order);
    take_page_layout(&mut bytes)?;
    skip_own(&mut bytes)?;
    take_systems(&mut bytes, &mut tracepoints)?;
    Some(tracepoints)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch
    ID: 314
    format:
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
    \tfield:__data_loc char[] note;\toffset:28;\tsize:4;\tsigned:0;

    print fmt: \"prev_state=%s%s\", (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }, { 16, \"X\" }) : \"R\"";

    #[test]
    fn fields_and_states_are_where_the_kernel_says() {
        let format = TracepointFormat::parse(SWITCH).unwrap();
        assert_eq!((&*format.name, format.id), ("sched_switch", 314));
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(b"abcd");
        record[24..28].copy_from_slice(&77_u32.to_le_bytes());
        record.extend((32_u32 | 3 << 16).to_le_bytes());
        record.extend(b"xyz");
        let order = Order::Little;
        assert_eq!(format.field("prev_pid").unwrap().number(&record, order), Some(77));
        assert_eq!(&format.field("prev_comm").unwrap().text(&record, order).unwrap()[..5], b"abcd\0");
        assert_eq!(format.field("note").unwrap().text(&record, order), Some(&b"xyz"[..]));
        assert_eq!(format.field("note").unwrap().text(&record[..34], order), None);
        assert_eq!(format.states, [(1, 'S'), (2, 'D'), (16, 'X')]);
    }

    #[test]
    fn what_is_no_format_is_none() {
        for text in
            ["", "name: a", "ID: x\nname: a", "name: a\nfield:int a", "field:int a;\toffset:0;\tsize:4;"]
        {
            assert!(TracepointFormat::parse(text).is_none(), "{text}");
        }
    }
}
