//! Gives up capabilities. They are needed to load the probes; a thread that measures afterwards, for weeks, should be able to do
//! nothing else.
//!
//! Capabilities belong to threads. The thread that opens a source drops them right after, before it starts other threads,
//! which inherit the rest; threads that run already drop their own ([`drop_all`]).

use cpumon_model::SourceKind;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};

use super::host::{self, Version};
use crate::RetainedCapabilities;

/// Names of the capabilities that may be kept, and their purpose.
const KEPT: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE (names of other users' programs)"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE (files in other users' directories)"),
    (CapabilitySet::BPF, "CAP_BPF (the probes)"),
    (CapabilitySet::PERFMON, "CAP_PERFMON (the probes)"),
];

/// First version in which loaded programs work on without `CAP_BPF` where unprivileged BPF is disabled (bpf(2);
/// before, every command was refused).
const BPF_OBJECTS_ARE_ENOUGH_SINCE: Version = Version::new(5, 19);

/// Gives up every capability of the calling thread, and of those it starts later, that is not needed once a source of this
/// kind is open, and the way to get one back by running another program. Says in words which are left.
///
/// Errors: the kernel refuses (a seccomp filter).
pub fn drop_capabilities(kind: SourceKind, keep: RetainedCapabilities) -> Result<String, std::io::Error> {
    let mut wanted = CapabilitySet::empty();
    if keep.names {
        wanted |= CapabilitySet::SYS_PTRACE;
    }
    if keep.files {
        wanted |= CapabilitySet::DAC_OVERRIDE;
    }
    if keep.probes {
        wanted |= CapabilitySet::BPF | CapabilitySet::PERFMON;
    }
    if kind == SourceKind::Bpf && host::running().is_none_or(|version| version < BPF_OBJECTS_ARE_ENOUGH_SINCE)
    {
        wanted |= CapabilitySet::BPF;
    }
    let left = reduce_to(wanted)?;
    let named: Vec<&str> =
        KEPT.iter().filter(|(set, _)| left.contains(*set)).map(|(_, name)| *name).collect();
    Ok(if named.is_empty() { "none".to_owned() } else { named.join(", ") })
}

/// Gives up all capabilities of the calling thread, which needs none. A kernel that refuses is no reason to end.
pub(crate) fn drop_all() {
    if let Err(error) = reduce_to(CapabilitySet::empty()) {
        log::debug!("a thread keeps its capabilities: {error}");
    }
}

fn reduce_to(wanted: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let left = capabilities(None)?.permitted & wanted;
    // Otherwise a program with file capabilities could regain the dropped ones.
    set_no_new_privs(true)?;
    clear_ambient_capability_set()
        // Kernels before 4.3 have no ambient set, so there is nothing to clear.
        .or_else(|error| if error == Errno::INVAL { Ok(()) } else { Err(error) })?;
    set_capabilities(
        None,
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() },
    )?;
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, because dropped capabilities do not come back.
    #[test]
    fn what_is_given_up_is_gone_and_inherited_so() {
        let (before, left, inherited) = std::thread::spawn(|| {
            let before = capabilities(None).unwrap().permitted;
            let message = drop_capabilities(SourceKind::Procfs, RetainedCapabilities::NAMES).unwrap();
            let left = capabilities(None).unwrap();
            assert_eq!(message == "none", left.permitted.is_empty(), "{message}: {left:?}");
            let inherited = std::thread::spawn(|| {
                let inherited = capabilities(None).unwrap();
                drop_all();
                assert_eq!(capabilities(None).unwrap().permitted, CapabilitySet::empty());
                inherited
            });
            (before, left, inherited.join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(left.permitted, before & CapabilitySet::SYS_PTRACE);
        assert_eq!((left.effective, left.inheritable), (left.permitted, CapabilitySet::empty()));
        assert_eq!(inherited.permitted, left.permitted);
        assert_eq!(capabilities(None).unwrap().permitted, before, "another thread keeps its own");
    }
}
