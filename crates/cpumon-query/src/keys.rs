//! [`TaskKey`]: the key of a process or a thread. Its text, `PID-STARTNS` or `TID-STARTNS`, is its JSON and is read back here.

use std::fmt;

use cpumon_model::{ProcessKey, ThreadKey};
use serde::{Serialize, Serializer};

use crate::QueryError;

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
        write!(f, "{}-{}", self.number(), self.start_ns())
    }
}

impl Serialize for TaskKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn pair(text: &str, of: &'static str, form: &'static str) -> Result<(u32, u64), QueryError> {
    let pair = text.split_once('-');
    let pair = pair.and_then(|(number, start_ns)| number.parse().ok().zip(start_ns.parse().ok()));
    pair.ok_or_else(|| QueryError::InvalidKey { text: text.to_owned(), of: of.into(), form: form.into() })
}

/// Parses `PID-STARTNS`.
pub fn parse_process_key(text: &str) -> Result<ProcessKey, QueryError> {
    pair(text, "process", "PID-STARTNS").map(|(pid, start_ns)| ProcessKey { pid, start_ns })
}

/// Parses `TID-STARTNS`.
pub fn parse_thread_key(text: &str) -> Result<ThreadKey, QueryError> {
    pair(text, "thread", "TID-STARTNS").map(|(tid, start_ns)| ThreadKey { tid, start_ns })
}
