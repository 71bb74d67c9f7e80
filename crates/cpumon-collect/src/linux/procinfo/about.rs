//! What a source knows of a process before anything is read.

use cpumon_model::{Comm, ProcessKey};

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
