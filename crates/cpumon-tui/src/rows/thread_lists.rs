//! The threads of each process of an interval.

use cpumon_model::{Interval, ThreadInterval};

use crate::rows::types::index;

/// The threads of each process, as places in the interval's list: one array cut at `starts`.
#[derive(Debug, Default)]
pub(crate) struct ThreadLists {
    starts: Vec<u32>,
    threads: Vec<u32>,
}

impl ThreadLists {
    pub(crate) fn new(interval: &Interval) -> Self {
        let owner = |thread: &ThreadInterval| {
            interval.processes.binary_search_by_key(&thread.process, |row| row.key).ok()
        };
        let owners: Vec<Option<usize>> = interval.threads.iter().map(owner).collect();
        // A counting sort: the threads of each process stay in the order of the interval.
        let mut starts = vec![0_u32; interval.processes.len() + 1];
        for process in owners.iter().flatten() {
            starts[process + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut threads = vec![0_u32; starts.last().map_or(0, |&count| count as usize)];
        for (at, process) in owners.iter().enumerate() {
            if let Some(process) = *process {
                threads[next[process] as usize] = index(at);
                next[process] += 1;
            }
        }
        Self { starts, threads }
    }

    /// The threads of the process at this place.
    pub(crate) fn of(&self, process: u32) -> &[u32] {
        let at = process as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.threads.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
