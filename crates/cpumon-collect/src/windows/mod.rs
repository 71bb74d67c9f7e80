//! Windows: one call of the kernel lists all processes and threads (source `nt`), or the documented lists do, with one call for each thread
//! (source `toolhelp`). Both make the same rows; counters that neither measures are no data.

use cpumon_model::{HostInfo, Probes, SourceKind};

pub use self::host::now;
use self::measure::Method;
pub use self::measure::read_cycles;
pub use super::absent::{
    ClockReader, TraceRecorder, USUAL_PROBES, confine_calls, confine_files, drop_capabilities,
    give_large_lists_back, give_memory_back,
};
use crate::{Check, CollectError, Diagnosis, DoctorOptions, Opened, SourceChoice, SourceOptions, Topic};

mod about;
mod etw;
mod host;
mod measure;
mod sys;
#[cfg(test)]
mod tests;

/// The names of sources that can be asked for.
pub(crate) const SOURCES: &[(&str, SourceChoice)] =
    &[("auto", SourceChoice::Auto), ("nt", SourceChoice::Nt), ("toolhelp", SourceChoice::Toolhelp)];

pub fn open(options: &SourceOptions) -> Result<Opened, CollectError> {
    refuse(options)?;
    match options.choice {
        SourceChoice::Nt => open_method(Method::Nt, options, "nt: asked for".to_owned()),
        SourceChoice::Toolhelp => open_method(Method::Toolhelp, options, "toolhelp: asked for".to_owned()),
        _ => open_method(Method::Nt, options, "nt: one call for all threads".to_owned()).or_else(|refused| {
            // Probes were asked for: they must not be missed in silence.
            let is_last = !etw::with_needed(options.probes).is_empty();
            if is_last {
                Err(refused)
            } else {
                open_method(Method::Toolhelp, options, format!("toolhelp: {refused}"))
            }
        }),
    }
}

fn open_method(method: Method, options: &SourceOptions, reason: String) -> Result<Opened, CollectError> {
    let probes = etw::with_needed(options.probes);
    let source = Box::new(measure::WindowsSource::open(method, probes, options)?);
    let kind = match method {
        Method::Nt => SourceKind::Nt,
        Method::Toolhelp => SourceKind::Toolhelp,
    };
    let reason = if probes.is_empty() { reason } else { format!("{reason}; switches by events (ETW)") };
    Ok(Opened { source, kind, reason, probes })
}

/// An option that does not exist on Windows is an error, so that its lack is noticed.
fn refuse(options: &SourceOptions) -> Result<(), CollectError> {
    let refused = |what| Err(CollectError::NotHere { what });
    if options.probes.contains(Probes::HISTOGRAMS) {
        return refused("histograms of run delay");
    }
    if options.probes.contains(Probes::WAKERS) {
        return refused("who ends waits (--probes wakers)");
    }
    if options.choice == SourceChoice::Toolhelp && !etw::with_needed(options.probes).is_empty() {
        let reason = "it needs --source nt, whose list has all threads".to_owned();
        return Err(CollectError::EtwUnavailable { reason });
    }
    if options.proc_root != SourceOptions::default().proc_root {
        return refused("another /proc");
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "on Linux the boot id is read from a file")]
pub fn host_info(options: &SourceOptions) -> Result<HostInfo, CollectError> {
    Ok(host::host_info(options))
}

/// Whether the kernel answers. Everything else in the checks of Linux does not exist here.
pub fn diagnose(options: &DoctorOptions) -> Diagnosis {
    let check = Check::new(Topic::Probes, "nt", "all processes and threads with one call");
    let check = match measure::WindowsSource::open(Method::Nt, Probes::empty(), &SourceOptions::default()) {
        Ok(_) => check.available("NtQuerySystemInformation answers"),
        Err(error) => check.missing(error.to_string(), "--source toolhelp reads them one by one"),
    };
    let ticks = Check::new(Topic::Surroundings, "ticks", "user and system time of threads");
    let note = match sys::tick_ns() {
        Some(ns) => format!("counted in ticks of {}.{:01} ms", ns / 1_000_000, ns / 100_000 % 10),
        None => "counted in ticks whose length is not known".to_owned(),
    };
    let events = Check::new(
        Topic::Probes,
        "sched,waits,irq",
        "switches, waits and interrupts by events of the kernel (ETW)",
    );
    let events = match options.load.then(etw::EtwSession::try_starting) {
        None => events.note("not tried"),
        Some(Ok(())) => events.available("a session starts"),
        Some(Err(error)) => events
            .missing(error.to_string(), "the agent needs --probes sched,waits,irq, and administrator rights"),
    };
    Diagnosis { checks: vec![check, events, ticks.note(note)] }
}
