//! The doctor makes a [`Diagnosis`] from /proc, /sys and, where it may try, the kernel itself: whether each probe, right,
//! kernel feature and tracepoint is there, why not, and the data that it provides. "It does not work here" must come with
//! a reason and a remedy, also for a user who is not root.
//!
//! The features of a kernel are read from its type information (BTF), which every user may read: each tracepoint is a
//! type `btf_trace_NAME`, each kind of map an enumerator, each relevant option of the configuration a member of a struct.

mod probes;
mod rights;

use crate::{Diagnosis, DoctorOptions};

/// Determines what cpumon can measure on this machine, why, and how to get the rest. Needs no privileges; without
/// [`DoctorOptions::load`] it only reads files.
pub fn diagnose(options: &DoctorOptions) -> Diagnosis {
    let rights = rights::Rights::read(options);
    let release = rights::Release::read(options);
    let mut checks = probes::checks(options, &rights);
    checks.extend(rights::checks(options, &rights, release.as_ref()));
    checks.extend(rights::kernel_checks(options, release.as_ref()));
    checks.extend(probes::feature_checks(options));
    checks.extend(rights::surroundings_checks(options));
    // Each part adds to more than one topic; people read them one after the other.
    checks.sort_by_key(|check| check.topic as u8);
    Diagnosis { checks }
}
