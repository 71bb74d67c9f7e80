//! Exits that did not fit the buffers, as rows: one process row for each parent executable, and one for all others. A storm that
//! outruns the buffers loses names, never CPU time; the parent mostly says enough.
//!
//! A row has the process id 0 and begins when it is first needed; [`cpumon_model::Flags::SUMMED`] marks it in intervals.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{Comm, Counters, ProcessInfo, ProcessKey, ProcessSample, Snapshot};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::super::records::task::whole_us;
use super::super::records::{LostExits, TaskRecord, ThreadTimes, read_plain};
use super::super::sched::Programs;
use crate::CollectError;

/// Passes after which a row that does not grow goes, until it grows again.
const IDLE_PASSES: u32 = 60;

/// Most parents with a row of their own in the waiting list; lost.h: `MAX_LOST_PARENTS`.
pub(crate) const MAX_PARENTS: usize = 64;
/// Beyond so many rows the waiting list, whose parents may be others at each pass, makes none but that of all others.
const MAX_ROWS: usize = 2 * MAX_PARENTS + 1;

#[derive(Clone, Debug, Default)]
struct Row {
    /// Out of the probe, cumulative.
    lost: LostExits,
    /// Out of the waiting list, cumulative.
    overflow: LostExits,
    /// What of both was charged already to threads while they lived.
    charged: Counters,
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

    /// Adds the rows to `into`, which has its processes already. `lost`: the sum over all, cumulative. `overflow`: what the
    /// waiting list summed since the last pass, by the parent's process id. `vanished`: threads of the last pass that are
    /// among the lost. `live` and `earlier`: the live threads of this pass and the last one, ascending.
    pub(crate) fn fill(
        &mut self,
        lost: &LostExits,
        overflow: &[(u32, LostExits)],
        vanished: &[TaskRecord],
        live: &[TaskRecord],
        earlier: &[TaskRecord],
        into: &mut Snapshot,
    ) {
        // Nothing was lost since the last pass: the map of the probe is not read, a system call for each
        // parent.
        if lost.count != self.seen {
            self.seen = lost.count;
            self.read_probe();
            for (pid, more) in overflow {
                let row = row_of(&mut self.rows, name_of(*pid, live, earlier));
                row.overflow = row.overflow.plus(more);
            }
            for task in vanished {
                self.charge(name_of(task.parent_pid, live, earlier), task);
            }
        }
        let start_ns = whole_us(into.end.boot_ns);
        for (name, row) in &mut self.rows {
            row.settle();
            row.show_or_hide(name, start_ns, &mut self.begun);
            if row.is_shown {
                into.processes.push(row.sample(live, name));
            }
        }
        // The probe's counts of a row are cumulative, so that row must stay; one that only the waiting list filled may start over.
        self.rows.retain(|_, row| row.idle_passes < IDLE_PASSES || row.lost.count > 0);
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

    /// A thread that was seen alive was charged up to then.
    fn charge(&mut self, name: [u8; 16], task: &TaskRecord) {
        // A parent beyond the limits has no row of its own: its children are in that of all others.
        let row = if self.rows.contains_key(&name) {
            self.rows.get_mut(&name)
        } else {
            self.rows.get_mut(&[0; 16])
        };
        if let Some(row) = row {
            row.charged += &task.counters();
        }
    }
}

/// The row of a parent, or that of all others if there are too many.
fn row_of(rows: &mut BTreeMap<[u8; 16], Row>, name: [u8; 16]) -> &mut Row {
    let has_space = rows.contains_key(&name) || rows.len() < MAX_ROWS;
    rows.entry(if has_space { name } else { [0; 16] }).or_default()
}

impl Row {
    /// Brings `settled` up to date; no counter of it ever falls.
    fn settle(&mut self) {
        let mut task = self.lost.plus(&self.overflow).as_task();
        task.subtract(&self.charged, &ThreadTimes::default());
        let before = self.settled;
        // A vanished thread is only most likely among the lost: what was charged for it may exceed the sums.
        task.run_ns = task.run_ns.max(before.run_ns);
        task.run_delay_ns = task.run_delay_ns.max(before.run_delay_ns);
        task.voluntary_switches = task.voluntary_switches.max(before.voluntary_switches);
        task.involuntary_switches = task.involuntary_switches.max(before.involuntary_switches);
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

/// The parent's name, also if it ended since the last pass; that of all others if it is not known.
fn name_of(pid: u32, live: &[TaskRecord], earlier: &[TaskRecord]) -> [u8; 16] {
    let find = |list: &[TaskRecord]| {
        let at = list.binary_search_by_key(&pid, |task| task.tid).ok();
        at.and_then(|at| list.get(at)).map(|task| padded(task.comm().as_bytes()))
    };
    find(live).or_else(|| find(earlier)).unwrap_or_default()
}

/// As the probe keys its sums.
fn padded(name: &[u8]) -> [u8; 16] {
    let mut padded = [0; 16];
    padded.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    padded
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_ended_meanwhile_lends_its_name_too() {
        let task = |tid, name: &[u8; 4]| {
            let mut comm = [0; 16];
            comm[..4].copy_from_slice(name);
            TaskRecord { tid, pid: tid, comm, ..TaskRecord::default() }
        };
        let (live, earlier) = ([task(3, b"make")], [task(3, b"init"), task(7, b"bash")]);
        let name = |pid| Comm::new(&name_of(pid, &live, &earlier)).to_str_lossy().into_owned();
        assert_eq!((name(3), name(7), name(9)), ("make".to_owned(), "bash".to_owned(), String::new()));
    }

    #[test]
    fn parents_without_end_make_no_rows_without_end() {
        let mut rows = BTreeMap::new();
        for parent in 0..5_000_u32 {
            let sums = LostExits { count: 1, run_ns: 7, ..LostExits::default() };
            let row = row_of(&mut rows, padded(format!("p{parent}").as_bytes()));
            row.overflow = row.overflow.plus(&sums);
        }
        assert_eq!(rows.len(), MAX_ROWS + 1);
        let run_ns: u64 = rows.values().map(|row| row.overflow.run_ns).sum();
        assert_eq!(run_ns, 35_000, "no CPU time is dropped");
        assert_eq!(rows[&[0; 16]].overflow.count, 5_000 - MAX_ROWS as u64);
    }
}
