//! Linux. In: /proc and, where permitted, BPF. Out: an opened source and a description of the host.
//! The parts that both sources share: clocks, /proc/stat, process names, the user/system split, own usage.

use cpumon_model::{HostInfo, SourceKind};

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

/// What /proc does not show. It stands before the reason, on the same line, which is cut after 255 bytes on its way.
const LOST: &str = "short-lived processes, wait reasons and interrupts are lost without BPF";

/// Opens the source that `options` ask for.
pub(crate) fn open(options: &SourceOptions) -> Result<Opened, CollectError> {
    match options.choice {
        SourceChoice::Bpf => open_bpf(options, "bpf: asked for"),
        SourceChoice::Procfs => open_procfs(options, "procfs: asked for".to_owned()),
        SourceChoice::Auto => open_bpf(options, "bpf: permitted").or_else(|refused| {
            let why = match &refused {
                CollectError::BpfUnavailable { reason } => reason.clone(),
                other => other.to_string(),
            };
            open_procfs(options, format!("procfs: {LOST}; {why}"))
        }),
    }
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
    Ok(Opened { source, kind: SourceKind::Bpf, reason: reason.to_owned() })
}

fn open_procfs(options: &SourceOptions, reason: String) -> Result<Opened, CollectError> {
    let source = Box::new(procfs::ProcfsSource::open(options)?);
    Ok(Opened { source, kind: SourceKind::Procfs, reason })
}
