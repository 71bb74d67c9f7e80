//! Records every context switch, wakeup and migration: loads trace.bpf.c, gives it ring buffers, and empties them.

mod records;

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::rc::Rc;

use cpumon_sched::{SchedEvent, SchedEventKind};
use libbpf_rs::btf::Btf;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject, RingBuffer, RingBufferBuilder,
    libbpf_sys,
};

use self::records::{CpuState, RingSlots, entry};
use super::super::file;
use super::super::proc_ids::ProcIds;
use super::load::{self, Embedded};
use super::records::read_plain;
use super::sched::{casts_of, possible_cpus, vectors_in};
use crate::{CollectError, TraceItem, TraceRecorderOptions, now};

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o")));

const PROBE: &str = "trace";

/// One for each CPU up to this. Beyond it CPUs share one, so that a large machine does not take gigabytes.
const MAX_RINGS: u32 = 64;
/// All ring buffers together, bytes.
const MAX_ALL_BYTES: u32 = 1 << 29;
/// Minimum of each ring: slots.h leaves 1,024 slots free, and the kernel's smallest ring buffer is a page of the largest kind.
const MIN_RING_BYTES: u32 = 1 << 18;
const SLOT_BYTES: u32 = 24;

/// Programs for interrupts, besides those of vectors.h.
const INTERRUPTS: [&str; 4] = ["on_irq_entry", "on_irq_exit", "on_softirq_entry", "on_softirq_exit"];

#[derive(Default)]
struct RingTarget {
    /// Who the tasks are.
    entries: Vec<TraceItem>,
    /// Read from each ring buffer by the pass under way.
    bytes: Vec<u64>,
    malformed: u64,
}

/// Memory of each ring: three quarters for events, a quarter for the identities of tasks.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct RingSizes {
    count: u32,
    slots: u32,
    entry_bytes: u32,
}

/// A recording of every context switch, wakeup and migration under way. It needs the rights of the BPF source.
pub struct TraceRecorder {
    slots: RingSlots,
    online: OnlineCpus,
    buffer: RingBuffer<'static>,
    target: Rc<RefCell<RingTarget>>,
    sizes: RingSizes,
    cpus: u32,
    links: Vec<Link>,
    object: Object,
}

impl TraceRecorder {
    /// Loads and attaches the programs: from here on the next [`TraceRecorder::drain`] has every event.
    ///
    /// Errors: [`CollectError::BpfUnavailable`] says which step was refused and what to grant.
    pub fn open(options: TraceRecorderOptions) -> Result<Self, CollectError> {
        super::namespaces::check_clocks(Path::new("/proc"))?;
        // Names are the kernel's too, so nothing is mixed up; but the numbers are not those of `ps` here.
        if ProcIds::of(Path::new("/proc")) == ProcIds::Others {
            log::warn!(
                "this runs in a pid namespace: the trace has the whole host, by the host's process ids"
            );
        }
        let cpus = possible_cpus();
        let sizes = ring_sizes(options.buffer_bytes, cpus.min(MAX_RINGS));
        let object =
            load::with_switch(|on_switch| load_with(on_switch, options.has_interrupts, cpus, sizes))?;
        let slots =
            RingSlots::map(&map_of(&object, "ring_states")?, &map_of(&object, "events")?, sizes.slots)?;
        let handles = make_rings(&object, sizes)?;
        let target =
            Rc::new(RefCell::new(RingTarget { bytes: vec![0; handles.len()], ..RingTarget::default() }));
        let buffer =
            open_rings(&handles, &target).map_err(|error| refused("map the ring buffers of", &error))?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|program| program.autoload()) {
            links.push(program.attach().map_err(|error| refused("attach", &error))?);
        }
        Ok(Self { slots, online: OnlineCpus::new(), buffer, target, sizes, cpus, links, object })
    }

    /// Hands out everything recorded so far. Returns how full the fullest ring buffer was, 0 to 1: nothing wakes the reader, so it
    /// must come back before that reaches 1.
    pub fn drain(&mut self, out: &mut dyn FnMut(TraceItem)) -> Result<f64, CollectError> {
        // In front of the events: a CPU that came since then is marked before its own.
        let changes = self.online.begin();
        let fullest = self.slots.begin();
        self.target.borrow_mut().bytes.fill(0);
        // Identities of tasks, before their events.
        self.buffer.consume().map_err(|error| CollectError::Bpf {
            operation: "read the ring buffers of `trace`",
            error: std::io::Error::other(error),
        })?;
        let RingTarget { entries, bytes, malformed } = &mut *self.target.borrow_mut();
        entries.drain(..).for_each(&mut *out);
        let mut out = |event| out(TraceItem::Event(event));
        changes.came.iter().for_each(|cpu| out(self.online.mark(*cpu)));
        *malformed += self.slots.take(&mut |event| {
            out(self.online.note(event));
        });
        changes.went.iter().for_each(|cpu| out(self.online.mark(*cpu)));
        self.online.end();
        let most = bytes.iter().copied().max().unwrap_or(0);
        Ok(fullest.max(most as f64 / f64::from(self.sizes.entry_bytes)))
    }

    /// Ends the recording: detaches the programs, empties the ring buffers, and marks what was lost last.
    pub fn stop(&mut self, out: &mut dyn FnMut(TraceItem)) -> Result<(), CollectError> {
        self.links.clear();
        self.drain(out)?;
        for cpu in 0..self.cpus {
            let Some(state) = self.state(cpu).filter(|state| state.lost > 0) else { continue };
            let kind = SchedEventKind::Lost { count: state.lost, until_ns: state.last_lost_ns };
            let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
            out(TraceItem::Event(SchedEvent { at_ns: state.first_lost_ns, cpu, kind }));
        }
        Ok(())
    }

    /// Events that did not fit the buffers, since the recording began. Each is part of a
    /// [`Lost`](cpumon_sched::SchedEventKind::Lost) event, too.
    pub fn lost(&self) -> u64 {
        (0..self.cpus).filter_map(|cpu| self.state(cpu)).map(|state| state.total_lost).sum()
    }

    /// Records that could not be read. Always 0, unless loader and program do not belong together.
    pub fn malformed(&self) -> u64 {
        self.target.borrow().malformed
    }

    fn state(&self, cpu: u32) -> Option<CpuState> {
        let map = self.object.maps().find(|map| map.name() == "cpu_states")?;
        read_plain(&map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}

fn refused(step: &str, error: &libbpf_rs::Error) -> CollectError {
    load::refused(PROBE, step, error)
}

fn map_of(object: &Object, name: &str) -> Result<MapHandle, CollectError> {
    MapHandle::try_from(&load::find_map(object, PROBE, name)?)
        .map_err(|error| refused("open the maps of", &error))
}

fn ring_sizes(wanted_bytes: u32, count: u32) -> RingSizes {
    let most = (MAX_ALL_BYTES / count.max(1)).max(MIN_RING_BYTES);
    let bytes = wanted_bytes.clamp(MIN_RING_BYTES, most);
    // The kernel takes powers of two only.
    let bytes = bytes.checked_next_power_of_two().filter(|&bytes| bytes <= most).unwrap_or(1 << most.ilog2());
    RingSizes { count, slots: bytes / 4 * 3 / SLOT_BYTES, entry_bytes: bytes / 4 }
}

fn load_with(
    on_switch: &str,
    has_interrupts: bool,
    cpus: u32,
    sizes: RingSizes,
) -> Result<Object, CollectError> {
    let mut object = load::open(PROBE, &OBJECT.0)?;
    let btf = Btf::from_vmlinux().map_err(|error| refused("read the kernel's types for", &error))?;
    let vectors = if has_interrupts { vectors_in(&btf) } else { Vec::new() };
    for mut program in object.progs_mut() {
        let Some(name) = program.name().to_str() else { continue };
        let is_optional = !program.autoload();
        let is_wanted = !is_optional
            || name == on_switch
            || (has_interrupts && INTERRUPTS.contains(&name))
            || vectors.iter().any(|vector| vector == name);
        program.set_autoload(is_wanted);
    }
    set_up(&mut object, casts_of(&btf), cpus, sizes).map_err(|error| refused("size the maps of", &error))?;
    load::load(PROBE, object)
}

fn set_up(
    object: &mut OpenObject,
    constant: u32,
    cpus: u32,
    sizes: RingSizes,
) -> Result<(), libbpf_rs::Error> {
    let RingSizes { count, slots, .. } = sizes;
    for mut map in object.maps_mut() {
        let values: &[u32] = match map.name().to_str() {
            Some("rings" | "ring_states") => {
                map.set_max_entries(count)?;
                continue;
            }
            Some("events") => {
                map.set_max_entries(count)?;
                map.set_value_size(slots * SLOT_BYTES)?;
                continue;
            }
            Some("cpu_states" | "interrupts") => {
                map.set_max_entries(cpus)?;
                continue;
            }
            Some(".rodata.rings") => &[count, slots],
            Some("trace.rodata") => &[constant],
            _ => continue,
        };
        let Some(bytes) = map.initial_value_mut() else { continue };
        for (place, value) in bytes.chunks_exact_mut(size_of::<u32>()).zip(values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }
    Ok(())
}

fn make_rings(object: &Object, sizes: RingSizes) -> Result<Vec<MapHandle>, CollectError> {
    let outer = map_of(object, "rings")?;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let make = |number: u32| {
        let ring =
            MapHandle::create(MapType::RingBuf, Some("trace_ring"), 0, 0, sizes.entry_bytes, &options)?;
        outer.update(&number.to_ne_bytes(), &ring.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
        Ok(ring)
    };
    (0..sizes.count)
        .map(make)
        .collect::<Result<_, _>>()
        .map_err(|error| refused("make the ring buffers of", &error))
}

fn open_rings(
    handles: &[MapHandle],
    target: &Rc<RefCell<RingTarget>>,
) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    for (number, handle) in handles.iter().enumerate() {
        let target = Rc::clone(target);
        builder.add(handle, move |bytes: &[u8]| {
            target.borrow_mut().take(number, bytes);
            0
        })?;
    }
    builder.build()
}

/// Header of each record; records begin at multiples of its length.
const RING_HEADER_BYTES: u64 = 8;

impl RingTarget {
    fn take(&mut self, ring: usize, bytes: &[u8]) {
        if let Some(read) = self.bytes.get_mut(ring) {
            *read += RING_HEADER_BYTES + (bytes.len() as u64).next_multiple_of(RING_HEADER_BYTES);
        }
        match entry(bytes) {
            Some(entry) => self.entries.push(entry),
            None => self.malformed += 1,
        }
    }
}

// Which CPUs are online: one that goes offline makes no last switch that a recorder sees, so the trace says from when to when it was away.

/// Longest list of CPUs, such as `0-3,8`: 65,536 numbers one by one are shorter.
const MAX_LIST_BYTES: usize = 1 << 19;

/// The online CPUs of the last pass.
struct OnlineCpus {
    /// Kept open: later on the recorder may have no right to open it. `None`: this kernel has none.
    list: Option<File>,
    text: Vec<u8>,
    online: Vec<bool>,
    /// When the last pass was, and this one began.
    passed_ns: u64,
    now_ns: u64,
    /// Time of the last event, by CPU.
    latest_ns: Vec<u64>,
}

/// CPUs that came and went since the last pass.
#[derive(Debug, Default, PartialEq, Eq)]
struct CpuChanges {
    came: Vec<u16>,
    went: Vec<u16>,
}

impl OnlineCpus {
    fn new() -> Self {
        let list = File::open("/sys/devices/system/cpu/online").ok();
        let now_ns = now().mono_ns;
        let (text, online, latest_ns) = (Vec::new(), Vec::new(), Vec::new());
        let mut cpus = Self { list, text, online, passed_ns: now_ns, now_ns, latest_ns };
        cpus.online = cpus.read().unwrap_or_default();
        cpus
    }

    /// Begins a pass; returns the CPUs that came online or went offline.
    fn begin(&mut self) -> CpuChanges {
        self.now_ns = now().mono_ns;
        let Some(online) = self.read() else { return CpuChanges::default() };
        let changes = changes_between(&self.online, &online);
        self.online = online;
        changes
    }

    /// Ends a pass, after its events were read.
    fn end(&mut self) {
        self.passed_ns = self.now_ns;
    }

    /// Brings an event behind the one before it on its CPU: an interrupt that came between the clock and the ring was first.
    fn note(&mut self, mut event: SchedEvent) -> SchedEvent {
        let cpu = usize::from(event.cpu);
        if cpu >= self.latest_ns.len() {
            self.latest_ns.resize(cpu + 1, 0);
        }
        event.at_ns = event.at_ns.max(self.latest_ns[cpu]);
        if let SchedEventKind::Lost { until_ns, .. } = &mut event.kind {
            *until_ns = event.at_ns.max(*until_ns);
        }
        self.latest_ns[cpu] = event.at_ns;
        event
    }

    /// A mark: the state of the CPU since its last event, or since the last pass, is unknown. No event was lost.
    fn mark(&self, cpu: u16) -> SchedEvent {
        let latest_ns = self.latest_ns.get(usize::from(cpu)).copied().unwrap_or(0);
        let kind = SchedEventKind::Lost { count: 0, until_ns: self.now_ns };
        SchedEvent { at_ns: latest_ns.max(self.passed_ns), cpu, kind }
    }

    /// `None`: it cannot be read, and nothing is known to have changed.
    fn read(&mut self) -> Option<Vec<bool>> {
        let list = self.list.as_ref()?;
        let length = file::read_whole(list, &mut self.text, MAX_LIST_BYTES).ok()?;
        parse_list(std::str::from_utf8(self.text.get(..length)?).ok()?)
    }
}

/// Parses `0-3,8`: whether each CPU is in the list, by number, up to the last one.
fn parse_list(text: &str) -> Option<Vec<bool>> {
    let mut online = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        online.resize(online.len().max(usize::from(last) + 1), false);
        online.get_mut(first.into()..=last.into())?.fill(true);
    }
    Some(online)
}

fn changes_between(before: &[bool], after: &[bool]) -> CpuChanges {
    let mut changes = CpuChanges::default();
    for at in 0..before.len().max(after.len()) {
        let Ok(cpu) = u16::try_from(at) else { break };
        let is_in = |list: &[bool]| list.get(at).copied().unwrap_or(false);
        match (is_in(before), is_in(after)) {
            (false, true) => changes.came.push(cpu),
            (true, false) => changes.went.push(cpu),
            _ => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_within_a_bound() {
        let bytes = |wanted, count| ring_sizes(wanted, count).entry_bytes * 4;
        assert_eq!(ring_sizes(8 << 20, 2), RingSizes { count: 2, slots: 1 << 18, entry_bytes: 2 << 20 });
        assert_eq!(bytes(5 << 20, 2), 8 << 20);
        assert_eq!(bytes(0, 2), MIN_RING_BYTES);
        assert_eq!(bytes(u32::MAX, 64), 8 << 20);
        assert_eq!(bytes(u32::MAX, 3), 1 << 27, "a third of the bound is no power of two");
        assert_eq!(ring_sizes(0, 1).slots, 8192);
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0-2,4\n"), Some(vec![true, true, true, false, true]));
        assert_eq!(parse_list("0\n"), Some(vec![true]));
        for text in ["", "x", "3-1", "0-", "70000", "-1"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
        assert!(OnlineCpus::new().online.iter().any(|online| *online), "this runs somewhere");
    }

    #[test]
    fn cpus_come_and_go() {
        let (two, one) = (parse_list("0-1").unwrap(), parse_list("0").unwrap());
        assert_eq!(changes_between(&two, &two), CpuChanges::default());
        assert_eq!(changes_between(&two, &one), CpuChanges { came: vec![], went: vec![1] });
        assert_eq!(
            changes_between(&one, &parse_list("1-2").unwrap()),
            CpuChanges { came: vec![1, 2], went: vec![0] }
        );
    }

    #[test]
    fn a_mark_is_behind_the_last_event_and_the_last_pass() {
        let mut cpus = OnlineCpus::new();
        (cpus.passed_ns, cpus.now_ns) = (100, 200);
        let mark =
            |at_ns, cpu| SchedEvent { at_ns, cpu, kind: SchedEventKind::Lost { count: 0, until_ns: 200 } };
        assert_eq!(cpus.mark(1), mark(100, 1));
        assert_eq!(cpus.note(mark(150, 1)), mark(150, 1));
        assert_eq!((cpus.mark(1), cpus.mark(0)), (mark(150, 1), mark(100, 0)));
        assert_eq!(cpus.note(mark(140, 1)), mark(150, 1), "an interrupt was between its clock and its place");
    }
}
