//! Checks of the probes: whether each loads here, and why not. Files say what should work; only the kernel's verifier decides.

use super::super::bpf;
use super::rights::Rights;
use crate::{Check, CheckState, CollectError, DoctorOptions, SourceOptions, Topic};

pub(super) fn checks(options: &DoctorOptions, rights: &Rights) -> Vec<Check> {
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
    let text = match error {
        CollectError::BpfUnavailable { reason } => reason.clone(),
        other => other.to_string(),
    };
    text.split(';').next().unwrap_or_default().to_owned()
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
