//! [`TaskKey`]: the key of a process or a thread, and its text, `PID-STARTNS` or `TID-STARTNS`.

use std::fmt;

use cpumon_model::{ProcessKey, ThreadKey};

/// Key of a process or of a thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskKey {
    /// Key of a process.
    Process(ProcessKey),
    /// Key of a thread.
    Thread(ThreadKey),
}

impl TaskKey {
    /// The pid or tid.
    pub fn number(self) -> u32 {
        match self {
            Self::Process(key) => key.pid,
            Self::Thread(key) => key.tid,
        }
    }

    /// Start of the task, ns since boot.
    pub fn start_ns(self) -> u64 {
        match self {
            Self::Process(key) => key.start_ns,
            Self::Thread(key) => key.start_ns,
        }
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(key) => write!(f, "{}-{}", key.pid, key.start_ns),
            Self::Thread(key) => write!(f, "{}-{}", key.tid, key.start_ns),
        }
    }
}
