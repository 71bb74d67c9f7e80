//! Interrupts by line: the probe's table with the names of /proc/interrupts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpumon_model::{IrqSample, LOCAL_IRQ_FROM};

use super::super::records::IrqEntry;
use super::{Programs, Shared};
use crate::CollectError;
use crate::parse::irq_name;

/// Entries for lines; irqs.h: `IRQ_LINES`. The last is for all lines above.
const LINES: usize = 1024;

/// Entries behind the lines; irqs.h: `IRQ_TIMER` and on.
const LOCAL: [&str; 6] =
    ["local timer", "reschedule", "function call", "single function call", "irq work", "inter-processor"];

pub(crate) struct IrqTimes {
    entries: Shared<IrqEntry>,
    path: PathBuf,
    names: HashMap<u32, Arc<str>>,
}

impl IrqTimes {
    /// Maps it, and learns the names of all lines there are: one that is handled for the first time then costs nothing.
    pub(crate) fn open(programs: &Programs, proc_root: &Path) -> Result<Self, CollectError> {
        let entries = Shared::map(programs, "irqs", false)?;
        let mut irqs = Self { entries, path: proc_root.join("interrupts"), names: HashMap::new() };
        irqs.learn_listed();
        for (number, name) in (LOCAL_IRQ_FROM..).zip(LOCAL) {
            irqs.names.insert(number, Arc::from(name));
        }
        Ok(irqs)
    }

    /// Replaces `into` by every line that was ever handled, ascending.
    pub(crate) fn read(&mut self, into: &mut Vec<IrqSample>) {
        into.clear();
        into.reserve(self.names.len());
        let mut has_read_names = false;
        for at in 0..self.entries.len() {
            let Some(entry) = self.entries.read(at).filter(|entry| entry.count > 0) else { continue };
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            let first_local = u32::try_from(LINES).unwrap_or(u32::MAX);
            let irq = if at < LINES { number } else { LOCAL_IRQ_FROM + number - first_local };
            if !self.names.contains_key(&irq) {
                self.learn(irq, at, &mut has_read_names);
            }
            let Some(name) = self.names.get(&irq) else { continue };
            into.push(IrqSample { irq, name: Arc::clone(name), time_ns: entry.time_ns, count: entry.count });
        }
    }

    fn learn_listed(&mut self) {
        let text = std::fs::read(&self.path).unwrap_or_default();
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((number, name)) = irq_name(line) {
                self.names.insert(number, Arc::from(String::from_utf8_lossy(name)));
            }
        }
    }

    fn learn(&mut self, irq: u32, at: usize, has_read_names: &mut bool) {
        // At most once a pass: /proc/interrupts has a column for each CPU.
        if !*has_read_names {
            *has_read_names = true;
            self.learn_listed();
        }
        let name = if at + 1 == LINES { format!("irq {at} and above") } else { format!("irq {at}") };
        self.names.entry(irq).or_insert_with(|| Arc::from(name));
    }
}
