//! One line of the log for all files that the kernel refused to show.

/// What was refused in the first pass in which something was. Why: the log line names how much it is.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Processes of which nothing but the executable's link is refused.
    links: u64,
    /// Processes of which another file is refused.
    files: u64,
    /// One of them, of the worse kind if there is any.
    example: u32,
    is_reported: bool,
}

impl Refused {
    /// Executables without a name up to this many are no alarm: root without every capability is refused those of processes
    /// that have more, such as init's.
    const FEW: u64 = 8;

    pub(super) fn note(&mut self, pid: u32, others_denied: u64) {
        if self.files == 0 && (others_denied > 0 || self.links == 0) {
            self.example = pid;
        }
        if others_denied > 0 {
            self.files += 1;
        } else {
            self.links += 1;
        }
    }

    /// What to say of it, once. `processes`: how many there are.
    pub(super) fn message(&mut self, processes: usize) -> Option<(log::Level, String)> {
        if self.is_reported || self.links + self.files == 0 {
            return None;
        }
        self.is_reported = true;
        let Self { links, files, example, .. } = *self;
        Some(if files > 0 {
            let all = links + files;
            let text = format!(
                "{all} of {processes} processes do not show all they are (/proc/{example} for one; another user's, or \
                 hidepid): their short name is shown for the program's, user or container may be missing"
            );
            (log::Level::Warn, text)
        } else {
            let level = if links <= Self::FEW { log::Level::Debug } else { log::Level::Warn };
            let text = format!(
                "the executable of {links} of {processes} processes is not readable (/proc/{example}/exe for one; another \
                 user's, or with more privileges): they have their short names, nothing else is missing"
            );
            (level, text)
        })
    }
}
