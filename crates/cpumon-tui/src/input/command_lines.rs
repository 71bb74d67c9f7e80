//! Command lines beside the names: on and off, to the left and to the right.

use cpumon_model::Trust;

use crate::app::{App, CommandPart};
use crate::options::CommandLines;
use crate::text::safe;

/// Terminal columns that a key scrolls.
const STEP: usize = 10;

impl App {
    /// Shows command lines or hides them. Where there are none, says how to get them.
    pub(super) fn toggle_command_lines(&mut self) {
        if !self.view.cmdline && !self.has_command_lines() {
            let how = self.how_to_get_command_lines();
            return self.on_notice(format!("no command lines: {how}"));
        }
        self.view.cmdline = !self.view.cmdline;
        self.command = CommandPart::default();
    }

    fn has_command_lines(&self) -> bool {
        let processes = self.shown.as_ref().map_or(&[][..], |shown| &shown.processes);
        processes.iter().any(|process| !process.info.cmdline.is_empty())
    }

    fn how_to_get_command_lines(&self) -> String {
        let status = self.status();
        match (self.command_lines, status) {
            (CommandLines::NotRead, _) => "start with --cmdline".into(),
            (CommandLines::Read, _) => "these processes have none".into(),
            (_, Some(status)) if !status.source.has_users() => {
                format!("{} hosts do not send them", status.source.name())
            }
            (_, Some(status)) if status.trust == Trust::Local => "start `cpumon serve --cmdline`".into(),
            (_, Some(status)) => {
                format!("start `cpumon-agent … --cmdline` on {}", safe(&status.info.hostname))
            }
            (_, None) => "start `cpumon-agent … --cmdline` on the host".into(),
        }
    }

    /// Moves the command lines sideways; their names stay.
    pub(super) fn scroll_command_lines(&mut self, is_right: bool) {
        if !self.view.cmdline {
            return self.on_notice("c shows command lines, which , and . scroll".into());
        }
        let from = self.command.from;
        if is_right && !self.command.has_more {
            return self.on_notice("no command line on screen goes on to the right".into());
        }
        self.command.from = if is_right { from + STEP } else { from.saturating_sub(STEP) };
    }
}
