//! Exits that did not fit the buffers, as rows: one process row for each parent executable, and one for all others. A storm that
//! outruns the buffers loses names, never CPU time; the parent mostly says enough.
//!
//! A row has the process id 0 and begins when it is first needed; [`cpumon_model::Flags::SUMMED`] marks it in intervals.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{Comm, Counters, ProcessInfo, ProcessKey, ProcessSample, Snapshot};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::super::records::task::whole_us;
use super::super::records::{LostExits, TaskRecord, read_plain};
use super::super::sched::Programs;
use crate::CollectError;

/// Passes after which a row that does not grow goes, until it grows again.
const IDLE_PASSES: u32 = 60;

#[derive(Clone, Debug, Default)]
struct Row {
    /// Out of the probe, cumulative.
    lost: LostExits,
    /// All that was shown under this name, settled.
    settled: TaskRecord,
    /// What was shown before the row began this time.
    base: Counters,
    key: ProcessKey,
    info: Arc<ProcessInfo>,
    idle_passes: u32,
    is_shown: bool,
}

pub(crate) struct SummedExits {
    probe: MapHandle,
    /// The empty name is all others'.
    rows: BTreeMap<[u8; 16], Row>,
    seen: u64,
    /// Rows that ever began: each gets a start of its own.
    begun: u64,
}

impl SummedExits {
    /// Adds the row for parents beyond those with one of their own.
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let failed = |error: libbpf_rs::Error| CollectError::Bpf {
            operation: "keep the sums of lost exits",
            error: std::io::Error::other(error.to_string()),
        };
        let probe = MapHandle::try_from(&programs.map("lost_parents")?).map_err(failed)?;
        probe.update(&[0; 16], &[0; size_of::<LostExits>()], MapFlags::ANY).map_err(failed)?;
        Ok(Self { probe, rows: BTreeMap::new(), seen: 0, begun: 0 })
    }

    /// Reads the probe's sums as they are now. `lost`: the sum over all, cumulative.
    pub(crate) fn read(&mut self, lost: &LostExits) {
        // Nothing was lost since the last pass: the map of the probe is not read, a system call for each
        // parent.
        if lost.count != self.seen {
            self.seen = lost.count;
            self.read_probe();
        }
    }

    /// Adds the rows to `into`, which has its processes already. `live`: the live threads of this pass, ascending.
    pub(crate) fn fill(&mut self, live: &[TaskRecord], into: &mut Snapshot) {
        let start_ns = whole_us(into.end.boot_ns);
        for (name, row) in &mut self.rows {
            row.settle();
            row.show_or_hide(name, start_ns, &mut self.begun);
            if row.is_shown {
                into.processes.push(row.sample(live, name));
            }
        }
        into.processes.sort_unstable_by_key(|process| process.key);
    }

    fn read_probe(&mut self) {
        let parents = self.probe.keys().filter_map(|key| {
            let sums = self.probe.lookup(&key, MapFlags::ANY).ok().flatten()?;
            Some((*key.first_chunk()?, read_plain::<LostExits>(&sums)?))
        });
        let parents: Vec<([u8; 16], LostExits)> = parents.filter(|(_, sums)| sums.count > 0).collect();
        for (name, sums) in parents {
            self.rows.entry(name).or_default().lost = sums;
        }
    }
}

impl Row {
    /// Brings `settled` up to date; no counter of it ever falls.
    fn settle(&mut self) {
        let mut task = self.lost.as_task();
        let before = self.settled;
        task.settle(Some(&before));
        self.idle_passes = if task.counters() == before.counters() { self.idle_passes + 1 } else { 0 };
        self.settled = task;
    }

    fn show_or_hide(&mut self, name: &[u8; 16], start_ns: u64, begun: &mut u64) {
        if self.idle_passes >= IDLE_PASSES {
            (self.is_shown, self.base) = (false, self.settled.counters());
        } else if self.idle_passes == 0 && !self.is_shown {
            // Starts are whole µs, and no two rows have the same.
            self.key = ProcessKey { pid: 0, start_ns: start_ns + *begun * 1_000 };
            *begun += 1;
            self.info = Arc::new(info(name));
            self.is_shown = true;
        }
    }

    fn sample(&self, live: &[TaskRecord], name: &[u8; 16]) -> ProcessSample {
        let (now, base) = (self.settled.counters(), &self.base);
        let ended_threads = Counters {
            user_ns: now.user_ns.saturating_sub(base.user_ns),
            system_ns: now.system_ns.saturating_sub(base.system_ns),
            run_ns: now.run_ns.saturating_sub(base.run_ns),
            run_delay_ns: now.run_delay_ns.saturating_sub(base.run_delay_ns),
            voluntary_switches: now.voluntary_switches.saturating_sub(base.voluntary_switches),
            involuntary_switches: now.involuntary_switches.saturating_sub(base.involuntary_switches),
        };
        let is_parent = |task: &&TaskRecord| task.is_leader() && task.comm() == Comm::new(name);
        // The row is that of all parents of one name: the first of them is shown.
        let parent_pid = live.iter().find(is_parent).map_or(0, |task| task.tid);
        ProcessSample { key: self.key, parent_pid, info: Arc::clone(&self.info), ended_threads }
    }
}

fn info(name: &[u8; 16]) -> ProcessInfo {
    let comm = Comm::new(name);
    let parent = if comm.is_empty() { "others".into() } else { comm.to_str_lossy() };
    ProcessInfo {
        name: format!("children of {parent} (summed)").into(),
        comm: parent.as_ref().into(),
        ..ProcessInfo::default()
    }
}
