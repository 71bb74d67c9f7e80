//! The agent on Windows: it handles Ctrl-C, reports its state to the service control manager and the event log, keeps its files in
//! `%ProgramData%\cpumon`, and reads the local time that v1 datagrams carry.

mod accuracy;
mod commands;
mod console;
mod event_log;
mod manager;

use std::io;
use std::mem::zeroed;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use windows_sys::Win32::Foundation::{FILETIME, SYSTEMTIME};
use windows_sys::Win32::System::Time::{
    FileTimeToSystemTime, SystemTimeToFileTime, SystemTimeToTzSpecificLocalTime,
};

pub use self::commands::ServiceCommand;
pub(crate) use self::console::catch_stop;
pub use self::manager::{Manager, WatchdogThread};

/// Stubs for the signals of Unix, which Windows does not have.
pub mod signals {
    use std::io;

    /// Files have no such limit here.
    ///
    /// # Errors
    /// None.
    pub fn survive_file_limit() -> io::Result<()> {
        Ok(())
    }
}

pub(crate) const HAS_BPF: bool = false;
pub(crate) const PROBES_HELP: &str = "\
Events of the kernel (ETW) to watch, separated by commas: sched (context switches), waits (wait reasons), irq (interrupts and deferred \
procedure calls), or none; needs administrator rights or the service";
/// The conclusion of `doctor` where nothing is missing.
pub(crate) const EVERYTHING_WORKS: &str = "\
Everything that cpumon measures on Windows works. Without --probes, CPU time is counted in ticks, and run delay, wait reasons and \
context switches are not measured.";
pub(crate) const STATE_HELP: &str = "\
Directory of this machine's keys, which `enroll` stores [default: %ProgramData%\\cpumon\\identities for administrators and services, else \
%LOCALAPPDATA%\\cpumon\\identities]";
pub(crate) const SOURCE_NAMES: &str = "auto|nt|toolhelp";
pub(crate) const SOURCE_HELP: &str = "\
What to measure with: nt (one call for all threads), toolhelp (a call for each thread, as in 2012), or auto (nt where it works)";
pub const EXAMPLES: &str = "\
EXAMPLES:
  Broadcast on the subnet, where `cpumon serve` receives it:
    cpumon-agent
  Send to one receiver:
    cpumon-agent --to 10.77.0.1
  Also measure switches, waits and interrupts, from an administrator prompt:
    cpumon-agent --to 10.77.0.1 --probes sched,waits,irq
  Send over TLS after `cpumon-agent enroll`; queue on disk while the receiver is away:
    cpumon-agent --to enrolled --spool C:\\ProgramData\\cpumon\\spool
  The same as a service of Windows, from an administrator prompt:
    cpumon-agent service install --to enrolled --spool C:\\ProgramData\\cpumon\\spool
    cpumon-agent service start

NOT ON WINDOWS (refused):
  --flight-recorder, --probes hist, --histogram-threads, --no-script-names, --proc-root.
  There is no sandbox.";

/// Nothing asks for a window here.
///
/// # Errors
/// Always: there is no such signal.
pub(crate) fn on_window_signal(_flag: &Arc<AtomicBool>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Threads keep their priority: nothing here reads events.
pub(crate) fn hurry() {}

/// The directory of identities if the user names none: `%ProgramData%\cpumon\identities` for administrators and services,
/// `%LOCALAPPDATA%\cpumon\identities` for others.
pub fn default_state_dir() -> PathBuf {
    let variable = if cpumon_files::is_privileged() { "ProgramData" } else { "LOCALAPPDATA" };
    let base = std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    base.map_or_else(|| PathBuf::from("identities"), |dir| dir.join("cpumon").join("identities"))
}

/// From 1601, where Windows begins to count, to 1970, in units of 100 ns.
const EPOCH: i64 = 116_444_736_000_000_000;

/// Local time less UTC at a moment (ns since the UNIX epoch), seconds, by the system's time zone and its rules of that year;
/// 0 if the system does not know it. Only v1 datagrams need it, they carry local time without a zone.
pub(crate) fn utc_offset_s(wall_ns: i64) -> i32 {
    let ticks = (wall_ns / 100).saturating_add(EPOCH);
    local(ticks)
        .and_then(|local| i32::try_from((local - ticks + 5_000_000).div_euclid(10_000_000)).ok())
        .unwrap_or(0)
}

/// A moment as if local time were UTC, to the ms.
#[expect(unsafe_code, reason = "the standard library has no local time")]
fn local(ticks: i64) -> Option<i64> {
    let [low, high] = [ticks & 0xffff_ffff, ticks >> 32].map(|half| u32::try_from(half).ok());
    let utc = FILETIME { dwLowDateTime: low?, dwHighDateTime: high? };
    let mut local = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    // SAFETY: all-zero bytes are valid for this plain struct; all pointers are to values on this stack, and a null zone is the
    // system's own.
    let is_done = unsafe {
        let (mut from, mut to): (SYSTEMTIME, SYSTEMTIME) = zeroed();
        FileTimeToSystemTime(&raw const utc, &raw mut from) != 0
            && SystemTimeToTzSpecificLocalTime(std::ptr::null(), &raw const from, &raw mut to) != 0
            && SystemTimeToFileTime(&raw const to, &raw mut local) != 0
    };
    is_done.then(|| i64::from(local.dwHighDateTime) << 32 | i64::from(local.dwLowDateTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_one_that_exists() {
        for wall_ns in [0, 1_792_000_000_000_000_000, i64::MIN, i64::MAX] {
            let offset = utc_offset_s(wall_ns);
            assert!((-15 * 3600..=15 * 3600).contains(&offset) && offset % 60 == 0, "{offset}");
        }
    }
}
