//! Linux: opens a source over BPF where it is permitted, else over /proc, and explains the choice. Both sources share the files beside this
//! one: clocks, /proc/stat, control groups, process names and users.

mod bpf;
mod cgroups;
mod cpustat;
mod doctor;
mod file;
mod host;
mod proc_ids;
mod procfs;
mod procinfo;
mod sandbox;

use cpumon_model::{PROCESSES_ARE_HIDDEN, Probes, SourceKind};

pub use self::bpf::{ClockReader, TraceRecorder};
pub use self::doctor::diagnose;
pub use self::host::{host_info, now};
pub use self::sandbox::{confine_calls, confine_files, drop_capabilities};
use crate::{CollectError, Opened, SourceChoice, SourceOptions};

/// The names of sources that can be asked for.
pub(crate) const SOURCES: &[(&str, SourceChoice)] =
    &[("auto", SourceChoice::Auto), ("procfs", SourceChoice::Procfs), ("bpf", SourceChoice::Bpf)];

/// Data that /proc lacks. It precedes the reason on the same line, which terminals cut.
const LOST: &str = "not measured: short-lived processes, wait reasons, interrupts";

/// Opens the source that `options` ask for; with [`SourceChoice::Auto`] BPF where it is permitted, else /proc.
///
/// Errors: a forced source that cannot run ([`CollectError::BpfUnavailable`]), or a /proc that cannot be read.
pub fn open(options: &SourceOptions) -> Result<Opened, CollectError> {
    match options.choice {
        SourceChoice::Bpf => open_bpf(options, "bpf: asked for").or_else(|refused| {
            // These were not asked for, so that they must not cost the rest.
            if options.probes == USUAL_PROBES.1 { open_less(options, refused) } else { Err(refused) }
        }),
        SourceChoice::Procfs => open_procfs(options, "procfs: asked for", &[]),
        // `nt` and `toolhelp` have no name here, so they cannot be asked for.
        SourceChoice::Auto | SourceChoice::Nt | SourceChoice::Toolhelp => open_bpf(options, "bpf: permitted")
            .or_else(|refused| open_less(options, refused))
            .or_else(|refused| open_procfs(options, what_helps(), &[LOST, &why_not(&refused)])),
    }
}

/// The probes of a program that measures for others, who will ask it for causes, and their list: as cheap as these questions allow.
pub const USUAL_PROBES: (&str, Probes) = ("wakers", Probes::WAKERS);

/// Remedy for a refusal, in the first columns of a line that terminals cut.
fn what_helps() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "procfs: no BPF, see `cpumon doctor`"
    } else {
        "procfs: no BPF; run as root or see `cpumon doctor`"
    }
}

/// With the probes that do load, if those are some and not all.
fn open_less(options: &SourceOptions, refused: CollectError) -> Result<Opened, CollectError> {
    // Nothing can be left out: every snapshot needs the refused feature.
    if options.probes.is_empty() || bpf::check_namespaces(&options.proc_root).is_err() {
        return Err(refused);
    }
    let loads = find_loads(options.probes, bpf::try_loading)?;
    // Everything loads, so the refusal has another cause.
    if loads.without.is_empty() {
        return Err(refused);
    }
    let less = SourceOptions { probes: loads.probes, ..options.clone() };
    open_bpf(&less, &format!("bpf: permitted; {}", loads.without))
}

/// Replaces `into` by a pass over the processes of Windows, with their CPU time by ticks and by cycles. Linux counts no cycles of
/// processes; [`ClockReader`] compares its clocks.
///
/// Errors: [`CollectError::NotHere`] on other systems; else the system refuses.
pub fn read_cycles(_into: &mut crate::nt::CycleSnapshot) -> Result<(), CollectError> {
    Err(CollectError::NotHere { what: "cycles of processes" })
}

fn open_bpf(options: &SourceOptions, reason: &str) -> Result<Opened, CollectError> {
    let source = Box::new(bpf::BpfSource::open(options)?);
    let probes = source.probes();
    let reason = match source.hidden() {
        Some(hidden) if !hidden.is_empty() => {
            format!("{reason}; {hidden}: hidden from it, read from /proc")
        }
        _ => reason.to_owned(),
    };
    Ok(Opened { source, kind: SourceKind::Bpf, reason, probes })
}

fn open_procfs(options: &SourceOptions, reason: &str, more: &[&str]) -> Result<Opened, CollectError> {
    let source = Box::new(procfs::ProcfsSource::open(options)?);
    let hidden = source.hides_processes().then_some(PROCESSES_ARE_HIDDEN);
    let reason =
        [reason].into_iter().chain(hidden).chain(more.iter().copied()).collect::<Vec<_>>().join("; ");
    Ok(Opened { source, kind: SourceKind::Procfs, reason, probes: Probes::empty() })
}

// Finds out which of the wanted probes load. A kernel that refuses one (a missing interrupt tracepoint, a stricter
// verifier) must not cost the others.

/// In the order of attempts: first the probe that is missed most; each needs those before it. A probe without
/// requirements is tried first of all.
const STEPS: [(Probes, &str); 5] = [
    (Probes::SCHED, "switches are not watched"),
    (Probes::IRQ, "interrupts are not watched"),
    (Probes::WAITS, "wait reasons are not watched"),
    (Probes::HISTOGRAMS, "run-delay histograms are not kept"),
    (Probes::WAKERS, "who ends waits is not watched"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Loads {
    probes: Probes,
    /// Probes that are left out, with reasons; empty if none.
    without: String,
}

/// Finds out which of the `wanted` probes load, one after the other.
///
/// Errors: even the part that every snapshot needs does not load.
fn find_loads(
    wanted: Probes,
    mut try_loading: impl FnMut(Probes) -> Result<(), CollectError>,
) -> Result<Loads, CollectError> {
    let wanted = bpf::wanted(wanted);
    try_loading(Probes::EXITS)?;
    let mut probes = Probes::EXITS;
    let (mut without, mut reason) = (Vec::new(), None);
    for (step, what) in STEPS.into_iter().filter(|(step, _)| wanted.contains(*step)) {
        // Without the switches no other probe loads: a try would only repeat the refusal.
        let needs_none = step == Probes::SCHED || step == Probes::WAKERS;
        let is_grounded = needs_none || probes.contains(Probes::SCHED);
        match is_grounded.then(|| try_loading(probes | step)) {
            Some(Ok(())) => probes |= step,
            Some(Err(refused)) => {
                without.push(what);
                // The line has space for one reason: the first is that of the probe that is missed most.
                reason = reason.or(Some(refused));
            }
            None => without.push(what),
        }
    }
    let reason = reason.map_or_else(String::new, |error| format!(": {}", why_not(&error)));
    Ok(Loads { probes, without: without.join(", ") + &reason })
}

/// The reason of an error, without the help that its one-line form brings along.
fn why_not(error: &CollectError) -> String {
    match error {
        CollectError::BpfUnavailable { reason } => reason.clone(),
        other => other.to_string(),
    }
}

/// Lists that are longer get memory of their own, bytes.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Gives memory that was freed back to the system, after a crowd of tasks; the C library would keep it for later. It takes some ms.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the C library's own housekeeping")]
        // SAFETY: no arguments that could be wrong; returns unused heap pages to the kernel.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// Lets memory of large lists go back to the system as soon as it is freed, for a process whose lists are now long and now short. By itself the C library keeps lists of up to 32 MiB on its
/// heap, once it saw one of that length end.
pub fn give_large_lists_back() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the C library's own housekeeping")]
        // SAFETY: sets a number of the allocator; a refusal changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use cpumon_model::Snapshot;
    use rustix::thread::{CpuSet, gettid, sched_setaffinity};

    use super::*;

    #[test]
    fn a_probe_that_does_not_load_is_done_without_and_the_data_says_so() {
        for (missing, expected) in [
            (Probes::IRQ, Probes::EXITS | Probes::SCHED | Probes::WAITS),
            (Probes::SCHED, Probes::EXITS),
            (Probes::empty(), Probes::EXITS | Probes::SCHED | Probes::WAITS | Probes::IRQ),
        ] {
            let _refusing = bpf::refuse_loading(missing);
            let options = SourceOptions { probes: Probes::WAITS | Probes::IRQ, ..SourceOptions::default() };
            let mut opened = open(&options).unwrap();
            if opened.kind == SourceKind::Procfs {
                return skip::skip(format!("needs root for BPF: {}", opened.reason));
            }
            let is_reported = opened.reason.contains("interrupts are not watched");
            assert_eq!((opened.probes, is_reported), (expected, !missing.is_empty()), "{}", opened.reason);
            assert!(opened.reason.len() <= 512 && !opened.reason.contains('\n'), "{}", opened.reason);
            let mut snapshot = Snapshot::default();
            opened.source.snapshot(&mut snapshot).unwrap();
            assert_eq!(snapshot.health.probes, expected);
            let has_irq = snapshot.fields.contains(cpumon_model::Fields::IRQ);
            assert_eq!(has_irq, expected.contains(Probes::IRQ), "not measured is no data, not 0");
            assert!(!snapshot.threads.is_empty());
        }
    }

    #[test]
    fn where_no_probe_loads_procfs_measures() {
        let _refusing = bpf::refuse_loading(Probes::all());
        let opened = open(&SourceOptions { probes: Probes::SCHED, ..SourceOptions::default() }).unwrap();
        assert_eq!((opened.kind, opened.probes), (SourceKind::Procfs, Probes::empty()));
        assert!(
            opened.reason.starts_with("procfs: no BPF") && opened.reason.contains(LOST),
            "{}",
            opened.reason
        );
        let forced = SourceOptions { choice: SourceChoice::Bpf, ..SourceOptions::default() };
        assert!(open(&forced).is_err(), "a request for BPF fails with an error");
    }

    #[test]
    fn usual_probes_do_not_cost_the_source() {
        let forced = |probes| SourceOptions { choice: SourceChoice::Bpf, probes, ..SourceOptions::default() };
        if let Err(error) = open(&forced(Probes::EXITS)) {
            return skip::skip(format!("needs root for BPF: {error}"));
        }
        let _refusing = bpf::refuse_loading(Probes::WAKERS);
        let opened = open(&forced(USUAL_PROBES.1)).unwrap();
        assert_eq!((opened.kind, opened.probes), (SourceKind::Bpf, Probes::EXITS), "{}", opened.reason);
        assert!(open(&forced(Probes::WAKERS | Probes::SCHED)).is_err(), "what was asked for must be there");
    }

    /// A thread that naps on a CPU that another one keeps busy, and then waits for its end.
    fn nap_beside_a_spinner(naps: u32, stop: &AtomicBool, tid: &AtomicU32) {
        let pin = || {
            let mut one = CpuSet::new();
            one.set(0);
            sched_setaffinity(None, &one).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                pin();
                (0..naps).for_each(|_| std::thread::sleep(Duration::from_millis(5)));
                tid.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        });
    }

    #[test]
    fn waits_after_a_wakeup_come_from_the_run_queue_and_without_it_from_the_wakeup() {
        const NAPS: u32 = 60;
        for watches_wakeups in [false, true] {
            let _wakeups = watches_wakeups.then(bpf::watch_wakeups);
            let options = SourceOptions { probes: Probes::WAITS, ..SourceOptions::default() };
            let mut opened = open(&options).unwrap();
            if opened.kind == SourceKind::Procfs {
                return skip::skip(format!("needs root for BPF: {}", opened.reason));
            }
            let (stop, tid) = (AtomicBool::new(false), AtomicU32::new(0));
            let mut snapshot = Snapshot::default();
            std::thread::scope(|scope| {
                scope.spawn(|| nap_beside_a_spinner(NAPS, &stop, &tid));
                while tid.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened.source.snapshot(&mut snapshot).unwrap();
                let tid = tid.load(Ordering::Relaxed);
                let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
                stop.store(true, Ordering::Relaxed);
                let kernel_ns: u64 = stat.split(' ').nth(1).unwrap().trim().parse().unwrap();
                let thread = snapshot.threads.iter().find(|thread| thread.key.tid == tid).unwrap();
                let (delay_ns, sched) = (thread.counters.run_delay_ns, &thread.sched);
                assert!(sched.wakeups >= NAPS.into(), "{sched:?}");
                assert!(sched.blocked_ns > u64::from(NAPS) * 4_000_000, "{sched:?}");
                // The kernel's stamps of a wakeup that pushes the spinner off are taken at once and may stand still until then.
                let near_ns = 4_000_000 + kernel_ns / 5;
                // Since Linux 6.12 the kernel counts some naps as waits, because the sleeper stayed in its queue (docs/probes.md).
                let naps_ns = 4 * 5_500_000;
                let is_near = delay_ns < kernel_ns + near_ns && kernel_ns < delay_ns + near_ns + naps_ns;
                assert!(delay_ns > 0 && is_near, "{delay_ns} {kernel_ns}");
            });
        }
    }

    fn refused(reason: &str) -> CollectError {
        CollectError::BpfUnavailable { reason: reason.to_owned() }
    }

    /// Where these do not load, alone or together with others.
    fn where_missing(missing: Probes, wanted: Probes) -> (Loads, Vec<Probes>) {
        let mut tried = Vec::new();
        let loads = find_loads(wanted, |probes| {
            tried.push(probes);
            if probes.intersects(missing) { Err(refused("no such tracepoint")) } else { Ok(()) }
        });
        (loads.unwrap(), tried)
    }

    #[test]
    fn only_what_does_not_load_is_done_without() {
        let all = Probes::all();
        let (loads, tried) = where_missing(Probes::IRQ, all);
        assert_eq!(loads.probes, all - Probes::IRQ);
        assert_eq!(loads.without, "interrupts are not watched: no such tracepoint");
        assert_eq!(tried.len(), 6);
        let (loads, _) = where_missing(Probes::IRQ | Probes::HISTOGRAMS, all);
        assert_eq!(loads.probes, Probes::EXITS | Probes::SCHED | Probes::WAITS | Probes::WAKERS);
        let text = "interrupts are not watched, run-delay histograms are not kept: no such tracepoint";
        assert_eq!(loads.without, text);
    }

    #[test]
    fn what_needs_the_switches_goes_with_them() {
        let (loads, tried) = where_missing(Probes::SCHED, Probes::IRQ | Probes::WAITS);
        assert_eq!((loads.probes, tried.len()), (Probes::EXITS, 2));
        let text = "switches are not watched, interrupts are not watched, wait reasons are not watched: no such tracepoint";
        assert_eq!(loads.without, text);
    }

    #[test]
    fn where_nothing_loads_there_is_an_error_and_where_all_loads_no_text() {
        assert!(find_loads(Probes::IRQ, |_| Err(refused("EPERM"))).is_err());
        let (loads, _) = where_missing(Probes::empty(), Probes::WAITS);
        assert_eq!(
            loads,
            Loads { probes: Probes::EXITS | Probes::SCHED | Probes::WAITS, without: String::new() }
        );
    }
}

#[cfg(test)]
#[path = "../../../../testing/eventually.rs"]
pub(crate) mod eventually;

#[cfg(test)]
#[path = "../../../../testing/skip.rs"]
pub(crate) mod skip;
