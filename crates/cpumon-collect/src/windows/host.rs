//! Who this machine is: ids out of the registry's machine id and the time of its start, name and version.

use cpumon_model::{BootId, HostId, HostInfo};

use super::{clock, sys};
use crate::SourceOptions;
use crate::source::identity::hashed;

pub(super) fn host_info(options: &SourceOptions) -> HostInfo {
    let boot = boot_id();
    let (major, minor, build) = sys::version();
    HostInfo {
        host: host_id(boot),
        boot,
        hostname: sys::computer_name().into(),
        kernel: format!("Windows {major}.{minor}.{build}").into(),
        arch: std::env::consts::ARCH.into(),
        agent: options.agent.as_str().into(),
        source_reason: "".into(),
        cpu_count: sys::cpu_count(),
        interval_ns: u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Windows has no id of a boot in every version; the time of its start, to 100 ns, is one.
pub(super) fn boot_id() -> BootId {
    BootId(hashed(b"windows start\0", &clock::base().0.to_le_bytes()))
}

/// A hash of the machine id that Windows' setup made. Without one, of name and boot, which lasts until the next boot only.
pub(super) fn host_id(boot: BootId) -> HostId {
    if let Some(guid) = sys::machine_guid() {
        return HostId(hashed(b"windows machine guid\0", guid.as_bytes()));
    }
    log::warn!("no MachineGuid in the registry: this host gets a new identity at every boot");
    let mut named = sys::computer_name().into_bytes();
    named.push(0);
    named.extend_from_slice(&boot.0);
    HostId(hashed(b"hostname and boot\0", &named))
}
