//! [`Presence`]: the processes of a host, idle ones too, now and at the end of each of its intervals in memory. In: its intervals, some
//! with a list of idle processes. Out: the processes at an interval. Why: with a row for each idle process in each interval a host of 300
//! processes took 60 KB a second.
//!
//! One list is of the newest interval. Each interval has the changes to undo, so that going back needs little memory: processes rarely
//! begin or end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cpumon_model::{BootId, Flags, IdleProcess, Interval, ProcessKey, trim_list};

/// Processes that changed, as they were before; `None`: they were not there.
type ProcessChanges = Arc<[(ProcessKey, Option<IdleProcess>)]>;

#[derive(Debug, Default)]
struct Undo {
    /// The processes that were there were known before it.
    was_known: bool,
    before: ProcessChanges,
}

/// The processes at the end of an interval, shared with the hub: taken under the hub's lock, read after it is released.
#[derive(Debug)]
pub(super) struct Then {
    there: Arc<BTreeMap<ProcessKey, IdleProcess>>,
    /// Changes of the later intervals, the newest first.
    undo: Vec<ProcessChanges>,
}

#[derive(Debug, Default)]
pub(super) struct Presence {
    boot: BootId,
    /// End of the newest interval, ns on the host's clock: the next one begins there, unless some did not arrive.
    ended_mono_ns: u64,
    /// Empty if they are not known. Copied by the next change as long as someone reads it.
    there: Arc<BTreeMap<ProcessKey, IdleProcess>>,
    /// A list of processes has arrived, and no interval was missed since.
    is_known: bool,
    /// One for each interval in memory, the oldest first.
    undo: VecDeque<Undo>,
    /// Memory of the processes and of the changes, bytes; 0 as long as no list came.
    pub(super) bytes: usize,
    changes: Vec<(ProcessKey, Option<IdleProcess>)>,
}

impl Then {
    pub(super) fn processes(self) -> Arc<BTreeMap<ProcessKey, IdleProcess>> {
        let Self { mut there, undo } = self;
        if undo.is_empty() {
            return there;
        }
        let earlier = Arc::make_mut(&mut there);
        for (key, before) in undo.iter().flat_map(|before| before.iter().rev()) {
            match before {
                Some(before) => drop(earlier.insert(*key, before.clone())),
                None => drop(earlier.remove(key)),
            }
        }
        there
    }
}

impl Undo {
    fn bytes(&self) -> usize {
        let entry = size_of::<(ProcessKey, Option<IdleProcess>)>();
        self.before.len() * entry
            + self.before.iter().filter_map(|(_, before)| before.as_ref()).map(bytes_of_texts).sum::<usize>()
    }
}

/// Texts count for each process, though the demultiplexer holds the same ones: it may forget the host first.
fn bytes_of_texts(process: &IdleProcess) -> usize {
    process.bytes() - size_of::<IdleProcess>()
}

/// A process in the map, of whose places a third may be empty.
fn bytes_of(process: &IdleProcess) -> usize {
    size_of::<(ProcessKey, IdleProcess)>() * 3 / 2 + bytes_of_texts(process)
}

impl Presence {
    /// Takes the next interval. `idle`: the living processes without a row, if all are listed.
    pub(super) fn push(&mut self, interval: &Interval, idle: Option<&[IdleProcess]>) {
        let was_known = self.is_known;
        let is_next = self.boot == interval.boot && self.ended_mono_ns == interval.begin.mono_ns;
        (self.boot, self.ended_mono_ns) = (interval.boot, interval.end.mono_ns);
        if !is_next || interval.flags.contains(Flags::RESTART) {
            // What ended in between is not known: the next list counts.
            self.is_known = false;
            for (key, process) in Arc::unwrap_or_clone(std::mem::take(&mut self.there)) {
                self.bytes -= bytes_of(&process);
                self.changes.push((key, Some(process)));
            }
        }
        if let Some(idle) = idle {
            self.is_known = true;
            self.keep_listed(interval, idle);
            for process in idle {
                self.set(process);
            }
        }
        if self.is_known {
            for (key, after) in interval.processes_after() {
                match after {
                    Some(process) => self.set(&process),
                    None => self.remove(key),
                }
            }
        }
        // Most intervals change nothing: they share one empty list.
        let is_same = self.changes.is_empty();
        let before = if is_same { Arc::default() } else { self.changes.drain(..).collect() };
        let undo = Undo { was_known, before };
        trim_list(&mut self.changes);
        self.bytes += undo.bytes();
        self.undo.push_back(undo);
    }

    /// Forgets the oldest interval.
    pub(super) fn pop(&mut self) {
        if let Some(undo) = self.undo.pop_front() {
            self.bytes -= undo.bytes();
        }
    }

    /// Forgets all processes until the next list; the intervals stay.
    pub(super) fn forget(&mut self) {
        self.shrink();
        self.shrink();
    }

    /// Forgets what was there at earlier intervals; if that is nothing, all processes until the next list. The intervals stay. Returns the
    /// memory that is free now, bytes.
    pub(super) fn shrink(&mut self) -> usize {
        let mut freed = 0;
        for undo in &mut self.undo {
            freed += std::mem::take(undo).bytes();
        }
        if freed == 0 {
            freed = self.bytes;
            self.there = Arc::default();
            self.is_known = false;
        }
        self.bytes -= freed;
        freed
    }

    /// The processes at the end of an interval. `after`: number of intervals since it. `None`: the processes are not known.
    pub(super) fn at(&self, after: usize) -> Option<Then> {
        if after >= self.undo.len() {
            return None;
        }
        let undone = || self.undo.iter().rev().take(after);
        if !undone().next_back().map_or(self.is_known, |undo| undo.was_known) {
            return None;
        }
        let changed = undone().filter(|undo| !undo.before.is_empty());
        let undo = changed.map(|undo| Arc::clone(&undo.before)).collect();
        Some(Then { there: Arc::clone(&self.there), undo })
    }

    /// Removes the processes that have no row and are not listed: their end was lost.
    fn keep_listed(&mut self, interval: &Interval, idle: &[IdleProcess]) {
        let stays = |key: &ProcessKey| {
            interval.processes.binary_search_by_key(key, |row| row.key).is_ok()
                || idle.binary_search_by_key(key, |one| one.key).is_ok()
        };
        let lost: Vec<ProcessKey> = self.there.keys().copied().filter(|key| !stays(key)).collect();
        for key in lost {
            self.remove(key);
        }
    }

    fn set(&mut self, process: &IdleProcess) {
        if self.there.get(&process.key) == Some(process) {
            return;
        }
        self.bytes += bytes_of(process);
        let before = Arc::make_mut(&mut self.there).insert(process.key, process.clone());
        self.bytes -= before.as_ref().map_or(0, bytes_of);
        self.changes.push((process.key, before));
    }

    fn remove(&mut self, key: ProcessKey) {
        if !self.there.contains_key(&key) {
            return;
        }
        if let Some(before) = Arc::make_mut(&mut self.there).remove(&key) {
            self.bytes -= bytes_of(&before);
            self.changes.push((key, Some(before)));
        }
    }
}
