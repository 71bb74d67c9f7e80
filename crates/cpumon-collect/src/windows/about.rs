//! What a process is: its image's name, its user, its services and, where it is asked for, its command line.

use cpumon_model::ProcessInfo;

use super::services::RunningServices;
use super::sys::CommandLines;
use super::users::Users;
use crate::nt::{Services, scrubbed_command_line};

/// The process whose threads stand for CPUs with nothing to run.
pub(super) const IDLE_PID: u32 = 0;
/// The kernel's own process.
const SYSTEM_PID: u32 = 4;

/// Describes processes that are new, and remembers what that takes.
pub(super) struct About {
    users: Users,
    services: RunningServices,
    /// `None`: not asked for.
    command_lines: Option<CommandLines>,
}

impl About {
    pub(super) fn open(with_command_lines: bool) -> Self {
        let command_lines = with_command_lines.then(CommandLines::default);
        Self { users: Users::default(), services: RunningServices::open(), command_lines }
    }

    /// At the start of a pass: the services, if they were read again.
    pub(super) fn refresh(&mut self) -> Option<&Services> {
        self.services.refresh()
    }

    pub(super) fn describe(&mut self, pid: u32, name: &str) -> ProcessInfo {
        let user = self.users.of(pid);
        let raw = self.command_lines.as_mut().and_then(|lines| lines.of(pid)).unwrap_or_default();
        ProcessInfo {
            name: name.into(),
            comm: name.into(),
            cmdline: scrubbed_command_line(raw).into(),
            container: self.services.of_new(pid).into(),
            uid: user.id,
            user: user.name,
            is_kernel: pid == SYSTEM_PID,
            ..ProcessInfo::default()
        }
    }
}
