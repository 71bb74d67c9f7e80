//! Threads that changed their id. When a thread other than the leader calls exec, it takes over the id *and the start time* of the
//! leader, which ends (`de_thread` in fs/exec.c): two threads share one key, and one thread has two. Records get an identity here
//! that is unique.
//!
//! So the thread counts as ended under its old id at the exec, and as begun at that moment under the new one: the key's
//! start is the time of the exec, and its counters begin at zero there. Nothing is counted twice, whichever snapshot sees
//! which half. Its process keeps its key.

use cpumon_model::{Comm, Counters, ProcessKey, ThreadKey, trim_list};
use cpumon_sched::up_to_zero;

use super::super::procinfo::Exec;
use super::records::task::whole_us;
use super::records::{EXEC_NAME_BYTES, ExecEvent, TAKEN_OVER, TaskRecord, ThreadTimes};
use crate::script::ExecScript;

#[derive(Copy, Clone, Debug)]
pub(crate) struct Rename {
    /// Its key in the kernel.
    kernel_key: ThreadKey,
    /// Start under the new id.
    start_ns: u64,
    /// Counters before the exec, times as sampled.
    base: Counters,
    times: ThreadTimes,
    migrations: u32,
}

impl Rename {
    /// `was_shown`: the thread was in a snapshot under its old id. If not, all its counters go to the new one.
    pub(crate) fn new(exec: &ExecEvent, was_shown: bool) -> Self {
        let nothing = TaskRecord::default();
        let before = if was_shown { &exec.task } else { &nothing };
        Self {
            kernel_key: exec.task.key(),
            start_ns: exec.at_ns,
            base: before.counters,
            times: before.times,
            migrations: before.migrations,
        }
    }

    fn put_on(&self, task: &mut TaskRecord) {
        task.start_ns = self.start_ns;
        task.counters = task.counters.without(&self.base);
        task.times.subtract(&self.times);
        task.migrations = task.migrations.saturating_sub(self.migrations);
    }

    /// Record of the thread at the moment of the exec.
    pub(crate) fn just_now(&self, exec: &ExecEvent) -> TaskRecord {
        let mut task = exec.task;
        self.put_on(&mut task);
        task
    }
}

/// The threads that live under another id than they began with. Nearly always empty.
#[derive(Default)]
pub(crate) struct Renames {
    list: Vec<Rename>,
}

impl Renames {
    /// Adds one; an older one under the same kernel key has ended.
    pub(crate) fn begin(&mut self, rename: Rename) {
        self.list.retain(|other| other.kernel_key != rename.kernel_key);
        self.list.push(rename);
    }

    /// Puts the identities on the iterator's records; `records` must be sorted.
    pub(crate) fn apply(&self, records: &mut [TaskRecord]) {
        for rename in &self.list {
            if let Ok(at) = records.binary_search_by_key(&rename.kernel_key, TaskRecord::key)
                // The former leader got this key in exchange: it is not the thread that called exec.
                && let Some(task) = records.get_mut(at).filter(|task| !task.has(TAKEN_OVER))
            {
                rename.put_on(task);
            }
        }
    }

    /// Gives `task` its new identity if the thread was renamed.
    pub(crate) fn put_on(&self, task: &mut TaskRecord) {
        if task.has(TAKEN_OVER) {
            return;
        }
        if let Some(rename) = self.list.iter().find(|rename| rename.kernel_key == task.key()) {
            rename.put_on(task);
        }
    }

    /// Puts the identity on a thread that ended, and forgets it.
    pub(crate) fn end(&mut self, task: &mut TaskRecord) {
        if task.has(TAKEN_OVER) {
            return;
        }
        if let Some(at) = self.list.iter().position(|rename| rename.kernel_key == task.key()) {
            self.list.swap_remove(at).put_on(task);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets the threads that are not in `records` (their exit was lost).
    pub(crate) fn keep_alive(&mut self, records: &[TaskRecord]) {
        self.list.retain(|rename| {
            // The records have the identity that was put on them, with the start cut as in every key.
            let key = ThreadKey { start_ns: whole_us(rename.start_ns), ..rename.kernel_key };
            records.binary_search_by_key(&key, TaskRecord::key).is_ok()
        });
    }
}

/// Passes for which a name is kept: the one that learned of the exec, and the next, in case the process began after the
/// iterator had passed by.
const KEPT_PASSES: u8 = 2;

/// The newest execs among which the one before is sought: `env` calls the next within microseconds.
const NEAR: usize = 64;
/// The program in the first line of many scripts (`#!/usr/bin/env python3`), which calls the interpreter.
const ENV: &[u8] = b"env";

struct ExecName {
    process: ProcessKey,
    name: [u8; EXEC_NAME_BYTES],
    /// The name of the thread after the exec: the script's, if that was called.
    comm: Comm,
    script: ExecScript,
    passes: u8,
}

impl ExecName {
    fn program(&self) -> &[u8] {
        up_to_zero(&self.name)
    }
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
    pub(crate) fn note(&mut self, process: ProcessKey, exec: &ExecEvent, script: &ExecScript) {
        if !exec.name().is_empty() {
            // The script called env, and env its interpreter: the name is still the script's.
            let mut near = self.names.iter().rev().take(NEAR);
            let before = near.find(|name| name.process == process);
            let env = before.filter(|before| before.program() == ENV && before.comm.as_bytes() != ENV);
            let comm = env.map_or(exec.task.comm(), |env| env.comm);
            let script = script.clone();
            self.names.push(ExecName { process, name: exec.name, comm, script, passes: 0 });
        }
    }

    /// The newest exec of the process.
    pub(crate) fn find(&self, process: ProcessKey) -> Option<Exec<'_>> {
        let sorted = self.names.get(..self.sorted)?;
        let newer = self.names.get(self.sorted..)?.iter().rev().find(|name| name.process == process);
        let found = newer.or_else(|| {
            sorted.binary_search_by_key(&process, |name| name.process).ok().and_then(|at| sorted.get(at))
        })?;
        Some(Exec {
            program: String::from_utf8_lossy(found.program()),
            comm: found.comm,
            script: &found.script,
            is_new: found.passes == 0,
        })
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

    /// Ends a pass: forgets old entries.
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
