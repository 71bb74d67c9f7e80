//! [`IdleProcess`]: a process that is there and did nothing.

use std::sync::Arc;

use crate::{ProcessInfo, ProcessKey};

/// A process, without what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleProcess {
    /// Id and start; unique within a boot.
    pub key: ProcessKey,
    /// Name, user, cgroup and command line.
    pub info: Arc<ProcessInfo>,
    /// Pid of the parent process; 0 for none.
    pub parent_pid: u32,
    /// Its threads.
    pub thread_rows: u32,
}
