//! Linux. In: /proc and, where permitted, BPF. Out: an opened source and a description of the host.
//! The parts that both sources share: clocks, /proc/stat, process names, the user/system split, own usage.

use cpumon_model::{HostInfo, Probes, SourceKind};

pub(crate) use self::bpf::ClockReader;
pub(crate) use self::cage::{confine_calls, confine_files};
pub(crate) use self::clock::now;
use crate::{CollectError, Diagnosis, DoctorOptions, Keep, Opened, SourceChoice, SourceOptions};

mod bpf;
mod cage;
mod clock;
mod cpustat;
mod doctor;
mod file;
mod host;
mod own;
pub(crate) mod privileges;
mod procfs;
mod procinfo;
mod release;
mod split;
mod steps;

/// What /proc does not show. It stands before the reason, on the same line, which is cut after 255 bytes on its way.
const LOST: &str = "short-lived processes, wait reasons and interrupts are lost without BPF";

/// Opens the source that `options` ask for.
pub(crate) fn open(options: &SourceOptions) -> Result<Opened, CollectError> {
    match options.choice {
        SourceChoice::Bpf => open_bpf(options, "bpf: asked for"),
        SourceChoice::Procfs => open_procfs(options, "procfs: asked for".to_owned()),
        SourceChoice::Auto => open_bpf(options, "bpf: permitted")
            .or_else(|refused| open_less(options, refused))
            .or_else(|refused| open_procfs(options, format!("procfs: {LOST}; {}", steps::why(&refused)))),
    }
}

/// With the probes that do load, if those are some and not all.
fn open_less(options: &SourceOptions, refused: CollectError) -> Result<Opened, CollectError> {
    if options.probes.is_empty() {
        return Err(refused);
    }
    let loads = steps::find(options.probes, bpf::try_loading)?;
    if loads.without.is_empty() {
        return Err(refused);
    }
    let less = SourceOptions { probes: loads.probes, ..options.clone() };
    open_bpf(&less, &format!("bpf: permitted; {}", loads.without))
}

/// Describes this machine.
pub(crate) fn host_info(options: &SourceOptions) -> Result<HostInfo, CollectError> {
    host::host_info(options)
}

/// Gives up the capabilities that nobody needs once a source of this kind is open; says which are left.
pub(crate) fn drop_capabilities(kind: SourceKind, keep: Keep) -> std::io::Result<String> {
    privileges::drop_capabilities(kind, keep)
}

/// Tells what works here.
pub(crate) fn diagnose(options: &DoctorOptions) -> Diagnosis {
    doctor::diagnose(options)
}

fn open_bpf(options: &SourceOptions, reason: &str) -> Result<Opened, CollectError> {
    let source = Box::new(bpf::BpfSource::open(options)?);
    let probes = source.probes();
    Ok(Opened { source, kind: SourceKind::Bpf, reason: reason.to_owned(), probes })
}

fn open_procfs(options: &SourceOptions, reason: String) -> Result<Opened, CollectError> {
    let source = Box::new(procfs::ProcfsSource::open(options)?);
    Ok(Opened { source, kind: SourceKind::Procfs, reason, probes: Probes::empty() })
}

#[cfg(test)]
mod tests {
    use cpumon_model::Snapshot;

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
                assert!(std::env::var_os("CI").is_none(), "in CI BPF must open: {}", opened.reason);
                return eprintln!("skipped: needs root: {}", opened.reason);
            }
            let is_told = opened.reason.contains("interrupts are not watched");
            assert_eq!((opened.probes, is_told), (expected, !missing.is_empty()), "{}", opened.reason);
            assert!(opened.reason.len() < 256 && !opened.reason.contains('\n'), "{}", opened.reason);
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
        assert!(opened.reason.starts_with("procfs: short-lived processes"), "{}", opened.reason);
        let forced = SourceOptions { choice: SourceChoice::Bpf, ..SourceOptions::default() };
        assert!(open(&forced).is_err(), "who asks for BPF is told");
    }
}
