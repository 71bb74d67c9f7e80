//! Identity of this machine: ids from the registry's machine id and the time of its start, name and version.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use cpumon_model::{BootId, HostId, HostInfo, Moment};

use super::sys;
use crate::SourceOptions;
use crate::nt::SystemStart;
use crate::source::hashed;

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
    BootId(hashed(b"windows start\0", &base().0.to_le_bytes()))
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

// The clocks of Windows as [`Moment`]s, and the instant that start times count from.

/// `SystemTimeOfDayInformation`.
const TIME_OF_DAY: i32 = 3;

/// When the system started, by the clock as it was set then, so that it stays the same when the clock is set later.
pub(super) fn base() -> SystemStart {
    static BASE: OnceLock<SystemStart> = OnceLock::new();
    *BASE.get_or_init(|| read_base().unwrap_or_default())
}

fn read_base() -> Option<SystemStart> {
    let mut buffer = vec![0; 48];
    let length = sys::query(TIME_OF_DAY, &mut buffer).ok()?;
    let number = |at: usize| {
        let bytes = buffer.get(..length)?.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    // The start moves with the clock; the bias is the sum of these moves.
    Some(SystemStart(number(0)?.wrapping_sub(number(32).unwrap_or(0))))
}

/// Now. Start times are on the clock that people set, in its coarse steps, so the time since the start is taken from the same.
pub fn now() -> Moment {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment {
        mono_ns: sys::counter_ns(),
        boot_ns: base().ns_since(sys::coarse_time()),
        wall_ns: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
    }
}
