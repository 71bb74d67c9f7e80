//! Loads and attaches the programs of sched.bpf.c that the wanted probes need. They are one object, because the iterator reads the
//! task storage that the switches write.

use std::num::NonZeroUsize;

use cpumon_model::Probes;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Func, MemberAttr, Struct, Typedef, Union, Var};
use libbpf_rs::{Link, Object, OpenObject};

#[cfg(test)]
pub(crate) use self::refusal::{refuse_loading, watch_wakeups};
use super::super::load::{self, Embedded};
use super::super::records::{InterpreterEntry, bytes_of};
use crate::{CollectError, script};

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o")));

/// Name of the probe in the kernel.
pub(crate) const PROBE: &str = "sched";

/// More CPUs than that are not watched (`NR_CPUS` of the largest distribution kernels).
const MAX_CPUS: u32 = 8192;

/// Programs of sched.bpf.c, and the probes that need them. Unneeded ones are not loaded.
const PROGRAMS: [(&str, Probes); 11] = [
    ("on_switch_4", Probes::EXITS),
    ("on_ending", Probes::EXITS),
    ("on_exec", Probes::EXITS),
    ("on_rename", Probes::EXITS),
    ("each_task", Probes::EXITS),
    ("on_birth", Probes::SCHED),
    ("on_waking", Probes::WAKERS),
    ("on_irq_entry", Probes::IRQ),
    ("on_irq_exit", Probes::IRQ),
    ("on_softirq_entry", Probes::IRQ),
    ("on_softirq_exit", Probes::IRQ),
];

/// Wakeup events say when a thread became runnable, where the run queues cannot be read; cut.h: `OWN_WAKEUPS`.
const WAKEUPS: [&str; 2] = ["on_wakeup", "on_wakeup_new"];
const OWN_WAKEUPS: u32 = 0x1_0000;

/// The kernel's function that gives an address a type without a call, and the check whether this kernel has it; reasons.h: `regs_of`.
const CAST: &str = "bpf_rdonly_cast";
const CAN_CAST: u32 = 0x2_0000;

/// Where threads can stay in a queue after they fell asleep, a move to another queue makes their time of wakeup unknown; threads.h: `woken_at`.
const MIGRATE: &str = "on_migrate";

/// Of the switches only what they say of waits is sent; cut.h: `SENDS_TIMES`.
const ONLY_WAITS: u32 = 0x8_0000;

/// Sizes of the maps of `wait_for.h`; of `waits_for` there are two tables.
const WAKER_SLOTS: u32 = 1 << 14;
const HOLDER_SLOTS: u32 = 1 << 12;
pub(crate) const WAIT_FOR_SLOTS: u32 = 1 << 10;

/// Execs of interpreters bring the beginning of their arguments along; execs.h.
const NAMES_SCRIPTS: u32 = 0x4_0000;

/// Interrupts with tracepoints of their own, which not every kernel has: `on_NAME_entry` and `on_NAME_exit`.
const VECTORS: [&str; 6] =
    ["local_timer", "reschedule", "call_function", "call_function_single", "irq_work", "ipi"];

#[derive(Copy, Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) probes: Probes,
    pub(crate) ring_bytes: u32,
    /// Whether the arguments of interpreters are read.
    pub(crate) script_names: bool,
}

pub(crate) struct Programs {
    pub(crate) object: Object,
    pub(crate) probes: Probes,
    /// How far a CPU's count of interrupts lies from its run queue; 0: not known, or not needed.
    pub(crate) preempt_count_at: i64,
    iterator: Option<Link>,
    /// Detaches when dropped.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not read"))]
    links: Vec<Link>,
}

impl Programs {
    /// Loads and attaches the programs for the probes of `setup`.
    ///
    /// Errors: [`CollectError::BpfUnavailable`] says which step was refused and what to grant.
    pub(crate) fn open(setup: Setup) -> Result<Self, CollectError> {
        let probes = wanted(setup.probes);
        let setup = Setup { probes, ..setup };
        #[cfg(test)]
        refusal::check(probes)?;
        let running = running(probes);
        let btf = running.contains(Probes::SCHED).then(Btf::from_vmlinux).transpose();
        let btf = btf.map_err(|error| load::refused(PROBE, "read the kernel's types for", &error))?;
        let object = load::with_switch(|on_switch| load_with(setup, running, btf.as_ref(), on_switch))?;
        let mut links = Vec::new();
        let mut iterator = None;
        for program in object.progs_mut().filter(|program| program.autoload()) {
            let link = program.attach().map_err(|error| load::refused(PROBE, "attach the probe", &error))?;
            if program.name() == "each_task" {
                iterator = Some(link);
            } else {
                links.push(link);
            }
        }
        let counted = btf.as_ref().filter(|_| probes.contains(Probes::WAKERS));
        let preempt_count_at = counted.and_then(preempt_count_at).unwrap_or(0);
        Ok(Self { object, probes, preempt_count_at, iterator, links })
    }

    /// The iterator's link; fails if it was taken before.
    pub(crate) fn take_iterator(&mut self) -> Result<Link, CollectError> {
        self.iterator.take().ok_or_else(|| CollectError::BpfUnavailable {
            reason: format!("the probe `{PROBE}` holds no iterator"),
        })
    }

    /// The link of a program that is no iterator: reading it fails.
    #[cfg(test)]
    pub(crate) fn take_other_link(&mut self) -> Link {
        self.links.pop().expect("a program besides the iterator")
    }

    pub(crate) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, CollectError> {
        load::find_map(&self.object, PROBE, name)
    }
}

/// Wait reasons, interrupts and histograms are derived from the switch events, so they need them.
pub(crate) fn wanted(probes: Probes) -> Probes {
    let derived = Probes::WAITS | Probes::IRQ | Probes::HISTOGRAMS;
    let switches = if probes.intersects(derived) { Probes::SCHED } else { Probes::empty() };
    Probes::EXITS | switches | (probes & (derived | Probes::SCHED | Probes::WAKERS))
}

/// The probes whose programs run for these. Who ended a wait is found at the switches, and noted with the wait's reason; where no other
/// probe needs the switches, nothing else of them is sent (`ONLY_WAITS`).
pub(crate) fn running(probes: Probes) -> Probes {
    let needed = Probes::SCHED | Probes::WAITS;
    if probes.contains(Probes::WAKERS) { probes | needed } else { probes }
}

/// `probes`: those that run, more than those of `setup` where one needs another. `btf`: the kernel's types, where switches are watched.
fn load_with(
    setup: Setup,
    probes: Probes,
    btf: Option<&Btf<'_>>,
    on_switch: &str,
) -> Result<Object, CollectError> {
    let mut object = load::open(PROBE, &OBJECT.0)?;
    let refused = |step| move |error: libbpf_rs::Error| load::refused(PROBE, step, &error);
    let (mut vectors, mut constant, mut leaves_late) = (Vec::new(), u32::from(probes.bits()), false);
    if !setup.probes.contains(Probes::SCHED) {
        constant |= ONLY_WAITS;
    }
    if setup.script_names {
        constant |= NAMES_SCRIPTS;
    }
    if let Some(btf) = btf {
        if probes.contains(Probes::IRQ) {
            vectors = vectors_in(btf);
        }
        leaves_late = has_member(btf, "sched_entity", "sched_delayed");
        if !has_reachable_queues(btf) {
            constant |= OWN_WAKEUPS;
        }
        constant |= casts_of(btf);
    }
    for mut program in object.progs_mut() {
        let Some(name) = program.name().to_str() else { continue };
        let is_wanted = match name.strip_prefix("on_switch_") {
            Some(_) => name == on_switch,
            None if name == MIGRATE => leaves_late,
            None if WAKEUPS.contains(&name) => constant & OWN_WAKEUPS != 0,
            None => PROGRAMS.iter().find(|(known, _)| *known == name).map_or_else(
                || vectors.iter().any(|vector| vector == name),
                |(_, needs)| probes.contains(*needs),
            ),
        };
        program.set_autoload(is_wanted);
    }
    set_up(&mut object, setup, constant).map_err(refused("size the maps of"))?;
    load::load(PROBE, object)
}

fn set_up(object: &mut OpenObject, setup: Setup, constant: u32) -> Result<(), libbpf_rs::Error> {
    let has_histograms = setup.probes.contains(Probes::HISTOGRAMS);
    let has_wakers = setup.probes.contains(Probes::WAKERS);
    // Maps of a probe that is off are made all the same, as small as the kernel allows.
    let slots = if has_histograms { slots_for(count_processes()) } else { 1 };
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some("events") => map.set_max_entries(setup.ring_bytes)?,
            Some("rests") => map.set_max_entries(rest_slots())?,
            // A CPU may come online later, and a map cannot grow.
            Some("cpus") => map.set_max_entries(possible_cpus())?,
            Some("cpu_delays") if has_histograms => map.set_max_entries(possible_cpus())?,
            Some("delays" | "delay_owners" | "free_delays") => map.set_max_entries(slots)?,
            Some("wakers") if has_wakers => map.set_max_entries(WAKER_SLOTS)?,
            Some("holders") if has_wakers => map.set_max_entries(HOLDER_SLOTS)?,
            Some("slices_of_cpus") if has_wakers => map.set_max_entries(possible_cpus())?,
            Some("waits_for") if has_wakers => map.set_max_entries(2 * WAIT_FOR_SLOTS)?,
            // `probes` is the first constant: the verifier drops the code of probes that are off.
            Some("sched.rodata") => {
                if let Some(start) = map.initial_value_mut().and_then(|value| value.first_chunk_mut()) {
                    *start = constant.to_ne_bytes();
                }
            }
            Some(".rodata.scripts") if setup.script_names => {
                if let Some(table) = map.initial_value_mut() {
                    fill_interpreters(table);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a task leads to its run queue, whose clock then gives the time at which the task was queued: with group scheduling.
fn has_reachable_queues(btf: &Btf<'_>) -> bool {
    #[cfg(test)]
    if refusal::watches_wakeups() {
        return false;
    }
    has_member(btf, "cfs_rq", "rq")
}

/// `CAN_CAST` if this kernel has `bpf_rdonly_cast`, else 0.
pub(crate) fn casts_of(btf: &Btf<'_>) -> u32 {
    if btf.type_by_name::<Func<'_>>(CAST).is_some() { CAN_CAST } else { 0 }
}

/// Whether a struct of the kernel has this field.
pub(crate) fn has_member(btf: &Btf<'_>, kind: &str, field: &str) -> bool {
    let Some(kind) = btf.type_by_name::<Struct<'_>>(kind) else { return false };
    kind.iter().any(|member| member.name.is_some_and(|name| name == field))
}

/// How far the variable that counts what interrupts a CPU lies from its run queue, on x86.
fn preempt_count_at(btf: &Btf<'_>) -> Option<i64> {
    let section: DataSec<'_> = btf.type_by_name(".data..percpu")?;
    let at = |wanted: &str| {
        let mut variables = section.iter().map(|of| (btf.type_by_id::<Var<'_>>(of.ty), of.offset));
        let is_wanted =
            |variable: &Option<Var<'_>>| variable.as_ref()?.name()?.to_str().map(|name| name == wanted);
        variables.find(|(variable, _)| is_wanted(variable) == Some(true)).map(|(_, offset)| i64::from(offset))
    };
    // Linux 6.1 to 6.14 have it in a struct.
    let in_struct = || {
        let of: Struct<'_> = btf.type_by_name("pcpu_hot")?;
        // The first is an unnamed union of all fields.
        let fields = of.iter().find_map(|member| {
            btf.type_by_id::<Union<'_>>(member.ty)?
                .iter()
                .find_map(|part| btf.type_by_id::<Struct<'_>>(part.ty))
        })?;
        let count = fields.iter().find(|member| member.name.is_some_and(|name| name == "preempt_count"))?;
        let MemberAttr::Normal { offset } = count.attr else { return None };
        Some(at("pcpu_hot")? + i64::from(offset / 8))
    };
    Some(at("__preempt_count").or_else(in_struct)? - at("runqueues")?)
}

/// Programs of vectors.h for the interrupts that this kernel has.
pub(crate) fn vectors_in(btf: &Btf<'_>) -> Vec<String> {
    // Each tracepoint has a type of this name; a program for one that is missing would fail the whole load.
    let has = |event: &str| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{event}")).is_some();
    let events = VECTORS.iter().filter(|name| has(&format!("{name}_entry")) && has(&format!("{name}_exit")));
    events.flat_map(|name| [format!("on_{name}_entry"), format!("on_{name}_exit")]).collect()
}

/// Runs on each CPU for a moment, so that each has switched once and the probe knows who runs there. Where that is not
/// allowed it happens by itself, at the CPU's next switch.
pub(crate) fn visit_cpus() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    for cpu in 0..possible_cpus() as usize {
        let mut one = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            break;
        }
        one.set(cpu);
        // Refused for a CPU that is offline, or not in this process's cpuset.
        if sched_setaffinity(None, &one).is_ok() {
            std::thread::yield_now();
        }
    }
    if let Err(error) = sched_setaffinity(None, &allowed) {
        log::warn!("cannot return to the CPUs this thread may run on: {error}");
    }
}

/// Slots for idle threads: four for each thread there is, so that few share one. They take 88 bytes each in the kernel.
fn rest_slots() -> u32 {
    // proc_loadavg(5): the fourth field is RUNNABLE/ALL threads.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = load.split(' ').nth(3).and_then(|threads| threads.split_once('/'));
    let threads = all.and_then(|(_, all)| all.parse::<u32>().ok()).unwrap_or(0);
    threads.saturating_mul(4).clamp(1 << 14, 1 << 20).next_power_of_two()
}

/// CPUs that may ever come online.
pub(crate) fn possible_cpus() -> u32 {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = listed.trim_end().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    let online = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    last.map_or_else(|| u32::try_from(online()).unwrap_or(MAX_CPUS), |last| last.saturating_add(1))
        .clamp(1, MAX_CPUS)
}

// The table of executables whose arguments may name a script, for the probe (execs.h). It is made from the list of names,
// so that there is one list.

/// Bytes of a name that are compared.
const NAME_BYTES: usize = 8;

impl InterpreterEntry {
    fn new(executable: &str) -> Self {
        let (mut name, mut mask) = ([0; NAME_BYTES], [0; NAME_BYTES]);
        for ((name, mask), byte) in name.iter_mut().zip(&mut mask).zip(executable.bytes()) {
            (*name, *mask) = (byte, 0xff);
        }
        let [name, mask] = [name, mask].map(u64::from_ne_bytes);
        Self { name, mask, length: executable.len() as u64 }
    }
}

/// Fills the table; the probe does not know entries that do not fit.
fn fill_interpreters(table: &mut [u8]) {
    for (place, executable) in
        table.chunks_exact_mut(size_of::<InterpreterEntry>()).zip(script::executables())
    {
        place.copy_from_slice(bytes_of(&InterpreterEntry::new(executable)));
    }
}

/// Slots: twice the processes there are, within these. A slot takes 1 KiB in the kernel.
const MIN_SLOTS: usize = 2_048;
const MAX_SLOTS: usize = 16_384;

/// Size of the arrays for this number of processes.
fn slots_for(processes: usize) -> u32 {
    let slots = processes.saturating_mul(2).next_power_of_two().clamp(MIN_SLOTS, MAX_SLOTS);
    u32::try_from(slots).unwrap_or(u32::MAX)
}

/// Processes there are, roughly: entries of /proc that are numbers.
fn count_processes() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_pid = |name: std::ffi::OsString| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    entries.filter_map(Result::ok).filter(|entry| is_pid(entry.file_name())).count()
}

#[cfg(test)]
mod refusal {
    use std::cell::Cell;

    use cpumon_model::Probes;

    use crate::CollectError;

    thread_local! {
        static REFUSED: Cell<Probes> = const { Cell::new(Probes::empty()) };
        static WAKEUPS: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) struct Refusing;

    impl Drop for Refusing {
        fn drop(&mut self) {
            REFUSED.set(Probes::empty());
            WAKEUPS.set(false);
        }
    }

    /// Until the result is dropped, loading any of these probes fails.
    pub(crate) fn refuse_loading(probes: Probes) -> Refusing {
        REFUSED.set(probes);
        Refusing
    }

    /// From here on the run queues cannot be asked.
    pub(crate) fn watch_wakeups() -> Refusing {
        WAKEUPS.set(true);
        Refusing
    }

    pub(super) fn watches_wakeups() -> bool {
        WAKEUPS.get()
    }

    pub(super) fn check(probes: Probes) -> Result<(), CollectError> {
        if probes.intersects(REFUSED.get()) {
            return Err(CollectError::BpfUnavailable { reason: "a test refuses it".to_owned() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MAX_INTERPRETERS` of execs.h.
    const ENTRIES: usize = 48;

    #[test]
    fn each_interpreter_is_in_the_table() {
        let mut table = vec![0; ENTRIES * size_of::<InterpreterEntry>()];
        fill_interpreters(&mut table);
        let entries: Vec<_> = table.chunks_exact(size_of::<InterpreterEntry>()).collect();
        let named = |name: &str| {
            let begin = &name.as_bytes()[..name.len().min(NAME_BYTES)];
            entries
                .iter()
                .any(|entry| entry.starts_with(begin) && entry[16..] == (name.len() as u64).to_ne_bytes())
        };
        for name in script::executables() {
            assert!(named(name), "{name}");
        }
        assert!(named("python") && named("sh") && named("busybox"));
        assert_eq!(entries.last().unwrap().to_vec(), [0; 24], "the list ends");
        assert_eq!(&entries[0][..16], b"python\0\0\xff\xff\xff\xff\xff\xff\0\0");
    }

    #[test]
    fn there_are_slots_for_twice_the_processes() {
        assert_eq!([10, 1_500, 9_000_000].map(slots_for), [2_048, 4_096, 16_384]);
    }
}
