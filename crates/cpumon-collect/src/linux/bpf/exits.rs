//! The threads that ended since the last pass, as [`ExitSample`]s with the name of their process. A process that no pass ever saw gets
//! its name here.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{
    Comm, Counters, ExitSample, ProcessInfo, ProcessKey, ProcessSample, Snapshot, ThreadKey, empty_list,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::super::procinfo::{Exec, InfoCache};
use super::groups::{ControlGroup, ControlGroups};
use super::records::task::whole_us;
use super::records::{ExitEvent, KERNEL_THREAD, LostAtCut, LostExits, LostSides, TaskRecord, read_plain};
use super::renames::ExecNames;
use super::sched::Programs;
use crate::CollectError;
use crate::script::ExecScript;
use crate::split::settle;

#[derive(Default)]
pub(crate) struct Exits {
    list: Vec<ExitEvent>,
    /// Indexes into `list`, by process and end.
    by_process: Vec<usize>,
    /// Placeholder until the process has been named.
    unnamed: Arc<ProcessInfo>,
}

impl Exits {
    pub(crate) fn clear(&mut self) {
        empty_list(&mut self.list);
    }

    pub(crate) fn push(&mut self, exit: &ExitEvent) {
        self.list.push(*exit);
    }

    /// Brings them into ascending order, each once; call it when all are there.
    pub(crate) fn sort(&mut self) {
        self.list.sort_unstable_by_key(|exit| exit.task.key());
        // A second event of the same end would count its time twice.
        self.list.dedup_by_key(|exit| exit.task.key());
    }

    pub(crate) fn key_at(&self, at: usize) -> Option<ThreadKey> {
        self.list.get(at).map(|exit| exit.task.key())
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = &TaskRecord> {
        self.list.iter().map(|exit| &exit.task)
    }

    pub(crate) fn contains(&self, key: ThreadKey) -> bool {
        self.list.binary_search_by_key(&key, |exit| exit.task.key()).is_ok()
    }

    /// Fills `into.exits`; its processes must be listed already. Returns the sum of the counters.
    pub(crate) fn report(
        &mut self,
        names: &ExecNames,
        groups: &ControlGroups,
        infos: &InfoCache,
        into: &mut Snapshot,
    ) -> Counters {
        let mut sum = Counters::default();
        for exit in &self.list {
            sum += &exit.task.counters;
            into.exits.push(ExitSample {
                thread: exit.task.to_sample(),
                parent_pid: exit.task.parent_pid,
                info: Arc::clone(&self.unnamed),
                end_ns: exit.end_ns,
                ends_process: false,
            });
        }
        let list = &self.list;
        let process_of = |at: &usize| list.get(*at).map(|exit| (exit.task.process_key(), exit.end_ns));
        empty_list(&mut self.by_process);
        self.by_process.extend(0..list.len());
        // Sorted by end too: the last thread of a group may be the one that ended its process.
        self.by_process.sort_unstable_by_key(process_of);
        for group in self.by_process.chunk_by(|a, b| process_of(a).map(|p| p.0) == process_of(b).map(|p| p.0))
        {
            let exits = || group.iter().filter_map(|&at| list.get(at));
            let Some(last) = exits().next_back() else { continue };
            let key = last.task.process_key();
            let listed = into.processes.binary_search_by_key(&key, |process| process.key).ok();
            let info = if let Some(process) = listed.and_then(|at| into.processes.get(at)) {
                Arc::clone(&process.info)
            } else {
                let group = exits().rev().find_map(|exit| groups.find(exit.group));
                name_process(key, exits().map(|exit| &exit.task), names, infos, group)
            };
            for &at in group {
                if let Some(sample) = into.exits.get_mut(at) {
                    sample.info = Arc::clone(&info);
                }
            }
            if let Some(sample) = group.last().and_then(|&at| into.exits.get_mut(at)) {
                // A listed process has a live thread, whatever the count at this exit was.
                sample.ends_process = listed.is_none() && last.threads_left == 0;
            }
        }
        sum
    }
}

/// The description of a process that has ended: the cached one, its last exec, or the name of its leader or last thread.
/// Its control group may have been unknown, or another one.
fn name_process<'a>(
    key: ProcessKey,
    threads: impl Iterator<Item = &'a TaskRecord> + Clone,
    names: &ExecNames,
    infos: &InfoCache,
    group: Option<&ControlGroup>,
) -> Arc<ProcessInfo> {
    let exec = names.find(key);
    let mut info = if let Some(kept) = infos.kept(key) {
        // An exec since the process was read makes the cached name old.
        match exec.map(|exec| (of_exec(&exec, infos), exec)) {
            Some(((name, interpreter), exec)) if is_other(kept, &name, &exec) => {
                ProcessInfo { name, interpreter, ..ProcessInfo::clone(kept) }
            }
            _ if group.is_none_or(|group| group.path == kept.cgroup) => return Arc::clone(kept),
            _ => ProcessInfo::clone(kept),
        }
    } else {
        let leader = threads.clone().find(|task| task.is_leader()).or_else(|| threads.last());
        let Some(leader) = leader else { return Arc::default() };
        let (name, interpreter) = match exec {
            Some(exec) => of_exec(&exec, infos),
            None => (leader.comm().to_str_lossy().as_ref().into(), Box::default()),
        };
        let user = infos.user(leader.uid).into();
        ProcessInfo { name, interpreter, user, ..unseen_process(leader) }
    };
    if let Some(group) = group {
        (info.cgroup, info.container) = (group.path.clone(), group.container.clone());
    }
    Arc::new(info)
}

/// Whether an exec started another program or script than the cached one.
fn is_other(kept: &ProcessInfo, name: &str, exec: &Exec<'_>) -> bool {
    let is_script = name != exec.program;
    let is_other_script = match exec.script {
        // The cache was read after the exec, and the program may have renamed itself since.
        ExecScript::Named(_) => exec.is_new && name != &*kept.name,
        // The kept name may be longer than the 15 bytes that an exec shows of a script.
        ExecScript::Unread | ExecScript::None => !kept.name.starts_with(name),
    };
    *exec.program != *kept.executable() || (is_script && is_other_script)
}

/// Name and interpreter of the started program.
fn of_exec(exec: &Exec<'_>, infos: &InfoCache) -> (Box<str>, Box<str>) {
    let program: Box<str> = exec.program.as_ref().into();
    match infos.script(exec) {
        Some(script) => (script, program),
        None => (program, Box::default()),
    }
}

/// A process that was never looked up in /proc.
fn unseen_process(leader: &TaskRecord) -> ProcessInfo {
    ProcessInfo {
        comm: leader.comm().to_str_lossy().as_ref().into(),
        uid: leader.uid,
        is_kernel: leader.has(KERNEL_THREAD),
        ..ProcessInfo::default()
    }
}

// Exits that did not fit the buffers, as rows: one process row for each parent executable, and one for all others. A storm that
// outruns the buffers loses names, never CPU time; the parent mostly says enough.
//
// A row has the process id 0 and begins when it is first needed; [`cpumon_model::Flags::SUMMED`] marks it in intervals.

/// Passes after which a row that does not grow goes, until it grows again.
const IDLE_PASSES: u32 = 60;

#[derive(Clone, Debug, Default)]
struct LostExitsRow {
    /// Sums of the probe, cumulative.
    lost: Counters,
    lost_at_cut: LostAtCut,
    /// The same, settled as of one thread.
    settled: Counters,
    /// Counters that were shown before the row was shown again.
    base: Counters,
    key: ProcessKey,
    info: Arc<ProcessInfo>,
    idle_passes: u32,
    is_shown: bool,
}

pub(crate) struct SummedExits {
    probe: MapHandle,
    /// By name of the parent; the empty name: all other parents.
    rows: BTreeMap<[u8; 16], LostExitsRow>,
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
        probe.update(&[0; 16], &[0; size_of::<LostSides>()], MapFlags::ANY).map_err(failed)?;
        Ok(Self { probe, rows: BTreeMap::new(), seen: 0, begun: 0 })
    }

    /// Reads the probe's sums as of a cut on this side. `lost`: the sum over all, cumulative.
    pub(crate) fn read(&mut self, lost: &LostExits, side: Option<usize>) {
        // Nothing was lost since the last pass: the map of the probe is not read, a system call for each
        // parent.
        if lost.count != self.seen {
            self.seen = lost.count;
            self.read_probe(side);
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

    fn read_probe(&mut self, side: Option<usize>) {
        let parents = self.probe.keys().filter_map(|key| {
            let sums = self.probe.lookup(&key, MapFlags::ANY).ok().flatten()?;
            Some((*key.first_chunk()?, read_plain::<LostSides>(&sums)?))
        });
        let is_used = |sums: &LostSides| sums.sides.iter().any(|side| side.count > 0);
        let parents: Vec<([u8; 16], LostSides)> = parents.filter(|(_, sums)| is_used(sums)).collect();
        for (name, sums) in parents {
            let row = self.rows.entry(name).or_default();
            row.lost = row.lost_at_cut.read(&sums, side).counters;
        }
    }
}

impl LostExitsRow {
    /// Brings `settled` up to date; its counters never fall.
    fn settle(&mut self) {
        let mut counters = self.lost;
        settle(&mut counters, &self.settled);
        self.idle_passes = if counters == self.settled { self.idle_passes + 1 } else { 0 };
        self.settled = counters;
    }

    fn show_or_hide(&mut self, name: &[u8; 16], start_ns: u64, begun: &mut u64) {
        if self.idle_passes >= IDLE_PASSES {
            (self.is_shown, self.base) = (false, self.settled);
        } else if self.idle_passes == 0 && !self.is_shown {
            // Starts are whole µs, and no two rows have the same.
            self.key = ProcessKey { pid: 0, start_ns: start_ns + *begun * 1_000 };
            *begun += 1;
            self.info = Arc::new(info(name));
            self.is_shown = true;
        }
    }

    fn sample(&self, live: &[TaskRecord], name: &[u8; 16]) -> ProcessSample {
        let ended_threads = self.settled.without(&self.base);
        let is_parent = |task: &&TaskRecord| task.is_leader() && task.comm() == Comm::new(name);
        // The row is that of all parents with one name; the first one is shown.
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
