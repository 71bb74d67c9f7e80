//! Names from exec events. A process that ends before its /proc directory can be read still shows under the program it ran, not
//! under a name cut to 15 bytes.

use cpumon_model::{Comm, ProcessKey, trim_list};

use super::super::super::procinfo::Exec;
use super::super::records::{EXEC_NAME_BYTES, ExecEvent};
use crate::script::ExecScript;

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
        self.name.split(|&b| b == 0).next().unwrap_or_default()
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
