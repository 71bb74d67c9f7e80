//! What a source knows of a process before anything is read.

use std::borrow::Cow;

use cpumon_model::{Comm, ProcessKey};

use crate::script::ExecScript;

/// What a source knows about a process without asking.
#[derive(Copy, Clone, Debug)]
pub(crate) struct About {
    pub(crate) key: ProcessKey,
    /// The main thread's name.
    pub(crate) comm: Comm,
    pub(crate) is_kernel: bool,
    /// Its real user, if known; otherwise it is read from status.
    pub(crate) uid: Option<u32>,
}

/// What a process called last.
pub(crate) struct Exec<'a> {
    /// Base name of the executable.
    pub(crate) program: Cow<'a, str>,
    /// The first 15 bytes of the base name of what was called, which may be a script.
    pub(crate) comm: Comm,
    /// What its arguments say of a script.
    pub(crate) script: &'a ExecScript,
    /// It was reported in this pass: what is known of the process was read before.
    pub(crate) is_new: bool,
}
