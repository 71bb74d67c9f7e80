//! [`Selection`]: which tasks a line is of.

use cpumon_model::{ProcessInterval, ProcessKey, Tables, ThreadInterval, ThreadKey};

use crate::QueryError;
use crate::parse::{parse_process_key, parse_thread_key};

/// What a line is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One process.
    Process(ProcessKey),
    /// One thread.
    Thread {
        /// Its key.
        key: ThreadKey,
        /// Its process, if the caller knows it: then the threads of others are not read.
        process: Option<ProcessKey>,
    },
    /// All processes of a name.
    Name(String),
}

impl Selection {
    pub(super) fn is_thread(&self) -> bool {
        matches!(self, Self::Thread { .. })
    }

    pub(super) fn table(&self) -> Tables {
        if self.is_thread() { Tables::THREAD_INTERVAL } else { Tables::PROCESS_INTERVAL }
    }

    pub(super) fn is_process(&self, row: &ProcessInterval) -> bool {
        match self {
            Self::Process(key) => row.key == *key,
            Self::Name(name) => *row.info.name == **name,
            Self::Thread { .. } => false,
        }
    }

    pub(super) fn is_thread_row(&self, row: &ThreadInterval) -> bool {
        matches!(self, Self::Thread { key, .. } if row.key == *key)
    }
}

/// Reads `TID-STARTNS`, or `PID-STARTNS/TID-STARTNS`.
pub fn parse_thread_selection(text: &str) -> Result<Selection, QueryError> {
    let (process, thread) = match text.split_once('/') {
        Some((process, thread)) => (Some(process), thread),
        None => (None, text),
    };
    let key = parse_thread_key(thread)?;
    Ok(Selection::Thread { key, process: process.map(parse_process_key).transpose()? })
}
