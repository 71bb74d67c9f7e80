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
        match self {
            Self::Process(key) => write!(f, "{}-{}", key.pid, key.start_ns),
            Self::Thread(key) => write!(f, "{}-{}", key.tid, key.start_ns),
        }
    }
}

impl Serialize for TaskKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn pair(text: &str) -> Option<(u32, u64)> {
    let (number, start_ns) = text.split_once('-')?;
    Some((number.parse().ok()?, start_ns.parse().ok()?))
}

fn no_key(text: &str, of: &'static str, form: &'static str) -> QueryError {
    QueryError::InvalidKey { text: text.to_owned(), of: of.into(), form: form.into() }
}

/// Parses `PID-STARTNS`.
pub fn parse_process_key(text: &str) -> Result<ProcessKey, QueryError> {
    let key = pair(text).map(|(pid, start_ns)| ProcessKey { pid, start_ns });
    key.ok_or_else(|| no_key(text, "process", "PID-STARTNS"))
}

/// Parses `TID-STARTNS`.
pub fn parse_thread_key(text: &str) -> Result<ThreadKey, QueryError> {
    let key = pair(text).map(|(tid, start_ns)| ThreadKey { tid, start_ns });
    key.ok_or_else(|| no_key(text, "thread", "TID-STARTNS"))
}
