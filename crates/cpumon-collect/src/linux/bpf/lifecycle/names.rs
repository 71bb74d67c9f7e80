//! Names from exec events. A process that ends before its /proc directory can be read still shows under the program it ran, not
//! under a name cut to 15 bytes.

use std::borrow::Cow;

use cpumon_model::{ProcessKey, trim_list};

use super::super::records::{EXEC_NAME_BYTES, ExecEvent};

/// Passes for which a name is kept: the one that learned of the exec, and the next, in case the process began after the
/// iterator had passed by.
const KEPT_PASSES: u8 = 2;

struct ExecName {
    process: ProcessKey,
    name: [u8; EXEC_NAME_BYTES],
    passes: u8,
}

/// The programs of processes that called exec lately.
#[derive(Default)]
pub(crate) struct ExecNames {
    /// Ascending by process, one each, up to `sorted`; newer ones follow in the order of the events.
    names: Vec<ExecName>,
    sorted: usize,
}

impl ExecNames {
    /// Notes an exec; a later one of the same process wins.
    pub(crate) fn note(&mut self, process: ProcessKey, exec: &ExecEvent) {
        if !exec.name().is_empty() {
            self.names.push(ExecName { process, name: exec.name, passes: 0 });
        }
    }

    /// The newest name of the process.
    pub(crate) fn find(&self, process: ProcessKey) -> Option<Cow<'_, str>> {
        let sorted = self.names.get(..self.sorted)?;
        let newer = self.names.get(self.sorted..)?.iter().rev().find(|name| name.process == process);
        let found = newer.or_else(|| {
            sorted.binary_search_by_key(&process, |name| name.process).ok().and_then(|at| sorted.get(at))
        })?;
        let bytes = found.name.split(|&b| b == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(bytes))
    }

    /// Makes every name quick to find; call it when the events have been noted.
    pub(crate) fn sort(&mut self) {
        if self.sorted == self.names.len() {
            return;
        }
        // Stable: the last of several names of a process is the newest.
        self.names.sort_by_key(|name| name.process);
        // `dedup_by_key` keeps the first of equal ones, and the newest is the last.
        self.names.reverse();
        self.names.dedup_by_key(|name| name.process);
        self.names.reverse();
        self.sorted = self.names.len();
    }

    /// Ends a pass: forgets what is old.
    pub(crate) fn end_pass(&mut self) {
        self.sort();
        for name in &mut self.names {
            name.passes += 1;
        }
        self.names.retain(|name| name.passes < KEPT_PASSES);
        trim_list(&mut self.names);
        self.sorted = self.names.len();
    }
}
