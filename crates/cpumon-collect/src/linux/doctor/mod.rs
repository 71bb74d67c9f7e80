//! The doctor makes a [`Diagnosis`] from /proc, /sys and, where it may try, the kernel itself: whether each probe, right,
//! kernel feature and tracepoint is there, why not, and the data that it provides. "It does not work here" must come with
//! a reason and a remedy, also for a user who is not root.
//!
//! The features of a kernel are read from its type information (BTF), which every user may read: each tracepoint is a
//! type `btf_trace_NAME`, each kind of map an enumerator, each relevant option of the configuration a member of a struct. Whether
//! a probe loads, files only hint at: the kernel's verifier decides.

mod rights;

use libbpf_rs::btf::types::Enum;
use libbpf_rs::btf::{Btf, BtfType};

use self::rights::Rights;
use super::bpf::{self, has_member};
use super::why_not;
use crate::{Check, CheckState, CollectError, Diagnosis, DoctorOptions, SourceOptions, Topic};

/// Determines what cpumon can measure on this machine, why, and how to get the rest. Needs no privileges; without
/// [`DoctorOptions::load`] it only reads files.
pub fn diagnose(options: &DoctorOptions) -> Diagnosis {
    let rights = Rights::read(options);
    let release = rights::Release::read(options);
    let mut checks = probe_checks(options, &rights);
    checks.extend(rights::checks(options, &rights, release.as_ref()));
    checks.extend(rights::kernel_checks(options, release.as_ref()));
    checks.extend(feature_checks(options));
    checks.extend(rights::surroundings_checks(options));
    // Each part adds to more than one topic; people read them one after the other.
    checks.sort_by_key(|check| check.topic as u8);
    Diagnosis { checks }
}

fn probe_checks(options: &DoctorOptions, rights: &Rights) -> Vec<Check> {
    let mut checks: Vec<Check> = bpf::PROBES.iter().map(|probe| bpf_probe(probe, options, rights)).collect();
    checks.push(hidden(options, rights));
    checks.push(procfs(options));
    checks
}

fn bpf_probe(probe: &bpf::Probe, options: &DoctorOptions, rights: &Rights) -> Check {
    let check = Check::new(Topic::Probes, probe.name, probe.gives);
    if !options.load {
        return if rights.may_trace() {
            check.note("not tried; the privileges for it are there")
        } else {
            check.missing("not tried: the privileges for it are missing", HELP)
        };
    }
    match (probe.try_loading)() {
        Ok(()) if probe.name == "exits" => check.available(format!(
            "loads and attaches; events wait in {} KiB, those that do not fit are counted (ring_drops)",
            bpf::ring_bytes() >> 10
        )),
        Ok(()) => check.available("loads and attaches"),
        Err(error) => {
            let help = if rights.may_trace() { String::new() } else { HELP.to_owned() };
            check.missing(reason(&error), help)
        }
    }
}

/// Some virtual machines hide process 1 from BPF. Only a pass over all threads finds out.
fn hidden(options: &DoctorOptions, rights: &Rights) -> Check {
    let gives = "threads that BPF does not see are rows as well: run time, run delay and switches; no waits, no blocked time";
    let check = Check::new(Topic::Probes, "hidden threads", gives);
    if !options.load || !rights.may_trace() {
        return check.note("not tried: only a pass over all threads finds out whether there are any");
    }
    match bpf::hidden_threads(&options.proc_root) {
        Ok(Some(who)) if who.is_empty() => check.note("none: BPF sees all that /proc shows"),
        Ok(Some(who)) => {
            let caveat = format!("Hidden from BPF, so read from /proc without blocked time: {who}.");
            Check { caveat, ..check.note(format!("{who}: BPF does not see them, /proc is read")) }
        }
        Ok(None) => check.note("cannot be determined: /proc shows another pid namespace than BPF's"),
        Err(error) => check.note(format!("cannot be determined: {}", reason(&error))),
    }
}

/// How to grant them is in the topic of rights.
const HELP: &str = "CAP_BPF and CAP_PERFMON, see below";

/// The reason without the help that its one-line form brings along.
fn reason(error: &CollectError) -> String {
    why_not(error).split(';').next().unwrap_or_default().to_owned()
}

fn procfs(options: &DoctorOptions) -> Check {
    let gives = "every thread's run time without any right; blind to what lives and dies between two passes";
    let check = Check::new(Topic::Probes, "procfs", gives);
    let source = SourceOptions {
        choice: crate::SourceChoice::Procfs,
        proc_root: options.proc_root.clone(),
        fs_root: options.fs_root.clone(),
        ..SourceOptions::default()
    };
    match crate::open(&source) {
        Ok(_) => check.available(format!("{} can be read", options.proc_root.display())),
        Err(error) => {
            let check = check.found(CheckState::Missing, error.to_string());
            Check { help: "mount procfs: mount -t proc proc /proc".to_owned(), ..check }
        }
    }
}

/// Tracepoints with the data of their events. Several in a row belong together and are useful only together.
const TRACEPOINTS: [(&str, &[&str], &str); 8] = [
    ("sched_switch", &["sched_switch"], "run time, run delay and blocked time of each thread; who left last"),
    (
        "sched_wakeup, _new",
        &["sched_wakeup", "sched_wakeup_new"],
        "the run delay after a wake-up, where the kernel has no group scheduling (else its run queues give it)",
    ),
    ("sched_process_fork", &["sched_process_fork"], "process creation and parent"),
    (
        "sched_process_exec",
        &["sched_process_exec"],
        "names of processes too short-lived to be read from /proc",
    ),
    ("sched_process_exit", &["sched_process_exit"], "final counters of what ends between two snapshots"),
    (
        "irq_handler_entry, _exit",
        &["irq_handler_entry", "irq_handler_exit"],
        "time in hard interrupts, by name",
    ),
    ("softirq_entry, _exit", &["softirq_entry", "softirq_exit"], "time in soft interrupts, by kind"),
    (
        "irq vectors (x86)",
        &[
            "local_timer_entry",
            "local_timer_exit",
            "reschedule_entry",
            "reschedule_exit",
            "call_function_entry",
            "call_function_exit",
            "call_function_single_entry",
            "call_function_single_exit",
            "irq_work_entry",
            "irq_work_exit",
        ],
        "time in the timer's and other CPUs' interrupts",
    ),
];

fn feature_checks(options: &DoctorOptions) -> Vec<Check> {
    bpf::route_messages();
    let gives = "probes that fit this kernel without being compiled here (CO-RE)";
    let check = Check::new(Topic::Kernel, "BTF", gives);
    let path = match bpf::find_btf(&options.sys_root) {
        Ok(path) => path,
        Err(bpf::NoBtf { finding, help }) => {
            let check = check.missing(finding, help);
            return std::iter::once(check).chain(unknown_without_btf()).collect();
        }
    };
    match Btf::from_path(&path) {
        Ok(btf) => {
            let size = std::fs::metadata(&path).map_or(0, |file| file.len());
            let first = check.available(format!("{}, {} kB", path.display(), size / 1000));
            let rest = bpf_features(&btf).into_iter().chain(accounting(&btf)).chain(tracepoints(&btf));
            std::iter::once(first).chain(rest).collect()
        }
        Err(error) => {
            let help = "type information that fits this libbpf: the file comes from the kernel itself";
            let check = check.missing(format!("{} is unusable: {error}", path.display()), help);
            std::iter::once(check).chain(unknown_without_btf()).collect()
        }
    }
}

/// Lists each tracepoint all the same, with the data that it would provide.
fn unknown_without_btf() -> impl Iterator<Item = Check> {
    TRACEPOINTS.iter().map(|(name, _, gives)| {
        let check = Check::new(Topic::Tracepoints, *name, *gives);
        check.found(CheckState::Unknown, "cannot be determined without BTF, nor traced")
    })
}

fn bpf_features(btf: &Btf<'_>) -> Vec<Check> {
    let newer = "a newer kernel";
    let check = |name: &str, gives: &str, is_there: bool, how: &str| {
        let check = Check::new(Topic::Kernel, name, gives);
        if is_there { check.available(how) } else { check.missing(format!("this kernel lacks {how}"), newer) }
    };
    vec![
        check("iter/task", "all threads in one pass", has(btf, "bpf_iter_task"), "bpf_iter_task"),
        check(
            "ring buffer",
            "exits and execs in the order in which they happened",
            enumerates(btf, "bpf_map_type", "BPF_MAP_TYPE_RINGBUF"),
            "BPF_MAP_TYPE_RINGBUF",
        ),
        check(
            "task storage",
            "counters kept in each thread, read in the same pass",
            enumerates(btf, "bpf_map_type", "BPF_MAP_TYPE_TASK_STORAGE"),
            "BPF_MAP_TYPE_TASK_STORAGE",
        ),
        check(
            "tp_btf",
            "programs on tracepoints that read kernel types directly",
            has(btf, "btf_trace_sched_switch"),
            "btf_trace_sched_switch",
        ),
        check(
            "raw_tp",
            "programs on tracepoints where tp_btf is missing",
            enumerates(btf, "bpf_prog_type", "BPF_PROG_TYPE_RAW_TRACEPOINT"),
            "BPF_PROG_TYPE_RAW_TRACEPOINT",
        ),
    ]
}

/// Options of the kernel's configuration that leave a member in a struct.
fn accounting(btf: &Btf<'_>) -> Vec<Check> {
    let delay =
        Check::new(Topic::Kernel, "run delay", "the kernel's own run delay of each thread (BPF source)");
    let irq =
        Check::new(Topic::Kernel, "irq time accounting", "interrupts kept out of threads by the kernel");
    let steal =
        Check::new(Topic::Kernel, "steal clock", "time that the hypervisor gave to others, in /proc/stat");
    vec![
        if has_member(btf, "sched_info", "run_delay") {
            delay.available("sched_info.run_delay")
        } else {
            delay.missing("this kernel lacks sched_info.run_delay", "a kernel with CONFIG_SCHED_INFO")
        },
        if has_member(btf, "rq", "prev_irq_time") {
            irq.note("on: the scheduler's clock leaves interrupts out of run time")
        } else {
            irq.note(
                "off: interrupts are inside the run time of the interrupted thread, unless measured by event",
            )
        },
        if has_member(btf, "rq", "prev_steal_time_rq") {
            steal.note("on: the scheduler's clock and the switch events leave steal out of run time")
        } else {
            steal.note("off: steal, if any, is inside run time")
        },
    ]
}

fn tracepoints(btf: &Btf<'_>) -> Vec<Check> {
    let check = |(name, events, gives): &(&str, &[&str], &str)| {
        let check = Check::new(Topic::Tracepoints, *name, *gives);
        let is_missing = |event: &&&str| !has(btf, &format!("btf_trace_{event}"));
        let missing: Vec<&str> = events.iter().filter(is_missing).copied().collect();
        match missing.len() {
            0 if events.len() == 1 => check.available("there"),
            0 => check.available(format!("all {} there", events.len())),
            count if count == events.len() && name.contains("x86") => {
                check.note("none: another architecture, or CONFIG_X86_LOCAL_APIC is off")
            }
            _ => check.missing(format!("this kernel lacks {}", missing.join(", ")), "another kernel"),
        }
    };
    TRACEPOINTS.iter().map(check).collect()
}

fn has(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<BtfType<'_>>(name).is_some()
}

fn enumerates(btf: &Btf<'_>, kind: &str, name: &str) -> bool {
    let Some(kind) = btf.type_by_name::<Enum<'_>>(kind) else { return false };
    kind.iter().any(|member| member.name.is_some_and(|found| found == name))
}
