//! Records every context switch, wakeup and migration: loads trace.bpf.c, gives it ring buffers, and empties them.

mod records;

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

use libbpf_rs::btf::Btf;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject, RingBuffer, RingBufferBuilder,
    libbpf_sys,
};

use cpumon_model::{SchedEvent, SchedEventKind};

use self::records::{LossEntry, Record, parse};
use super::load::{self, Embedded};
use super::records::read_plain;
use super::sched::{casts_of, possible_cpus, vectors_in};
use crate::{CollectError, TraceRecorderOptions, TraceSink};

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o")));

const PROBE: &str = "trace";

/// One for each CPU up to this. Beyond it CPUs share one, so that a large machine does not take gigabytes.
const MAX_RINGS: u32 = 64;
/// All ring buffers together, bytes.
const MAX_ALL_BYTES: u32 = 1 << 29;
/// The kernel's smallest, a page of the largest kind.
const MIN_RING_BYTES: u32 = 1 << 16;

/// Programs for interrupts, besides those of vectors.h.
const INTERRUPTS: [&str; 4] = ["on_irq_entry", "on_irq_exit", "on_softirq_entry", "on_softirq_exit"];

/// What the ring buffers are emptied into.
struct Target {
    sink: Rc<RefCell<dyn TraceSink>>,
    /// Read from each ring buffer by the pass under way.
    bytes: Vec<u64>,
    malformed: u64,
}

/// A recording under way.
pub(crate) struct Recorder {
    buffer: RingBuffer<'static>,
    target: Rc<RefCell<Target>>,
    ring_bytes: u32,
    cpus: u32,
    links: Vec<Link>,
    object: Object,
}

impl Recorder {
    /// Loads and attaches the programs: from here on every event goes to `sink` at the next [`Recorder::drain`].
    pub(crate) fn open(
        options: TraceRecorderOptions,
        sink: Rc<RefCell<dyn TraceSink>>,
    ) -> Result<Self, CollectError> {
        load::check_kernel()?;
        let cpus = possible_cpus();
        let rings = cpus.min(MAX_RINGS);
        let ring_bytes = ring_bytes(options.buffer_bytes, rings);
        // Before Linux 5.18 a switch has one argument less, and the verifier refuses to read it.
        let load = |on_switch| load_with(on_switch, options.has_interrupts, cpus, rings);
        let object = load("on_switch_4").or_else(|refused| load("on_switch_3").map_err(|_| refused))?;
        let handles = make_rings(&object, rings, ring_bytes)?;
        let target = Rc::new(RefCell::new(Target { sink, bytes: vec![0; handles.len()], malformed: 0 }));
        let buffer =
            open_rings(&handles, &target).map_err(|error| refused("map the ring buffers of", &error))?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|program| program.autoload()) {
            links.push(program.attach().map_err(|error| refused("attach", &error))?);
        }
        Ok(Self { buffer, target, ring_bytes, cpus, links, object })
    }

    /// Hands everything recorded so far to the sink. Returns how full the fullest ring buffer was, 0 to 1.
    pub(crate) fn drain(&mut self) -> Result<f64, CollectError> {
        self.target.borrow_mut().bytes.fill(0);
        self.buffer.consume().map_err(|error| CollectError::Bpf {
            operation: "read the ring buffers of `trace`",
            error: std::io::Error::other(error),
        })?;
        let most = self.target.borrow().bytes.iter().copied().max().unwrap_or(0);
        Ok(most as f64 / f64::from(self.ring_bytes))
    }

    /// Ends the recording: detaches the programs, empties the ring buffers, and marks what was lost last.
    pub(crate) fn stop(&mut self) -> Result<(), CollectError> {
        self.links.clear();
        self.drain()?;
        for cpu in 0..self.cpus {
            let Some(loss) = self.loss(cpu).filter(|loss| loss.count > 0) else { continue };
            let kind = SchedEventKind::Lost { count: loss.count, until_ns: loss.last_ns };
            let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
            self.target.borrow().sink.borrow_mut().event(SchedEvent { at_ns: loss.first_ns, cpu, kind });
        }
        Ok(())
    }

    /// Records that did not fit, since the recording began.
    pub(crate) fn lost(&self) -> u64 {
        (0..self.cpus).filter_map(|cpu| self.loss(cpu)).map(|loss| loss.total).sum()
    }

    /// Records that could not be read. Always 0, unless loader and program do not belong together.
    pub(crate) fn malformed(&self) -> u64 {
        self.target.borrow().malformed
    }

    fn loss(&self, cpu: u32) -> Option<LossEntry> {
        let map = self.object.maps().find(|map| map.name() == "losses")?;
        read_plain(&map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}

fn refused(step: &str, error: &libbpf_rs::Error) -> CollectError {
    load::refused(PROBE, step, error)
}

fn ring_bytes(wanted: u32, rings: u32) -> u32 {
    let most = (MAX_ALL_BYTES / rings.max(1)).max(MIN_RING_BYTES);
    let bytes = wanted.clamp(MIN_RING_BYTES, most);
    // The kernel takes powers of two only.
    bytes.checked_next_power_of_two().filter(|&bytes| bytes <= most).unwrap_or(1 << most.ilog2())
}

fn load_with(on_switch: &str, has_interrupts: bool, cpus: u32, rings: u32) -> Result<Object, CollectError> {
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
    set_up(&mut object, casts_of(&btf), cpus, rings).map_err(|error| refused("size the maps of", &error))?;
    load::load(PROBE, object)
}

fn set_up(object: &mut OpenObject, constant: u32, cpus: u32, rings: u32) -> Result<(), libbpf_rs::Error> {
    for mut map in object.maps_mut() {
        let value = match map.name().to_str() {
            Some("rings") => {
                map.set_max_entries(rings)?;
                continue;
            }
            Some("losses" | "interrupts") => {
                map.set_max_entries(cpus)?;
                continue;
            }
            Some(".rodata.rings") => rings,
            Some("trace.rodata") => constant,
            _ => continue,
        };
        if let Some(start) = map.initial_value_mut().and_then(|bytes| bytes.first_chunk_mut()) {
            *start = value.to_ne_bytes();
        }
    }
    Ok(())
}

fn make_rings(object: &Object, rings: u32, ring_bytes: u32) -> Result<Vec<MapHandle>, CollectError> {
    let outer = object.maps().find(|map| map.name() == "rings").ok_or_else(|| {
        CollectError::BpfUnavailable { reason: format!("the probe `{PROBE}` holds no map `rings`") }
    })?;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let make = |number: u32| {
        let ring = MapHandle::create(MapType::RingBuf, Some("trace_ring"), 0, 0, ring_bytes, &options)?;
        outer.update(&number.to_ne_bytes(), &ring.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
        Ok(ring)
    };
    (0..rings)
        .map(make)
        .collect::<Result<_, _>>()
        .map_err(|error| refused("make the ring buffers of", &error))
}

fn open_rings(
    handles: &[MapHandle],
    target: &Rc<RefCell<Target>>,
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

/// In front of each record, and records begin at multiples of it.
const RING_HEADER_BYTES: u64 = 8;

impl Target {
    fn take(&mut self, ring: usize, bytes: &[u8]) {
        if let Some(read) = self.bytes.get_mut(ring) {
            *read += RING_HEADER_BYTES + (bytes.len() as u64).next_multiple_of(RING_HEADER_BYTES);
        }
        match parse(bytes) {
            Some(Record::Event(event)) => self.sink.borrow_mut().event(event),
            Some(Record::Group(group)) => self.sink.borrow_mut().group(&group),
            Some(Record::Identity(identity)) => self.sink.borrow_mut().identity(&identity),
            None => self.malformed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_buffers_are_powers_of_two_within_a_bound() {
        assert_eq!(ring_bytes(8 << 20, 2), 8 << 20);
        assert_eq!(ring_bytes(5 << 20, 2), 8 << 20);
        assert_eq!(ring_bytes(0, 2), MIN_RING_BYTES);
        assert_eq!(ring_bytes(u32::MAX, 64), 8 << 20);
        assert_eq!(ring_bytes(u32::MAX, 3), 1 << 27, "a third of the bound is no power of two");
    }
}
