//! Reads keys of processes and threads: `PID-STARTNS`, `TID-STARTNS`.

use cpumon_model::{ProcessKey, ThreadKey};

use crate::QueryError;

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
