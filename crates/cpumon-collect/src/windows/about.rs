//! What a process is: its image's name and its user.

use cpumon_model::ProcessInfo;

use super::users::Users;

/// The process whose threads stand for CPUs with nothing to run.
pub(super) const IDLE_PID: u32 = 0;
/// The kernel's own process.
const SYSTEM_PID: u32 = 4;

pub(super) fn describe(pid: u32, name: &str, users: &mut Users) -> ProcessInfo {
    let user = users.of(pid);
    ProcessInfo {
        name: name.into(),
        comm: name.into(),
        uid: user.id,
        user: user.name,
        is_kernel: pid == SYSTEM_PID,
        ..ProcessInfo::default()
    }
}
