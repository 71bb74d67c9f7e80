//! Values of a row that are found elsewhere in the interval.

use cpumon_model::{DelayHistogram, DelayOf, Interval, ProcessInterval, ThreadInterval, ThreadKey};

use crate::rows::types::Group;

/// The run delays of all processes of a program.
pub(crate) fn group_delays(interval: &Interval, group: &Group) -> DelayHistogram {
    let mut sum = DelayHistogram::default();
    for row in group.processes.iter().filter_map(|&at| interval.processes.get(at as usize)) {
        if let Some(delays) = interval.delays_of(DelayOf::Process(row.key)) {
            sum += delays;
        }
    }
    sum
}

/// The thread whose state, nice value and CPU stand for its process.
pub(crate) fn main_thread<'a>(
    interval: &'a Interval,
    process: &ProcessInterval,
) -> Option<&'a ThreadInterval> {
    let key = ThreadKey { tid: process.key.pid, start_ns: process.key.start_ns };
    let at = interval.threads.binary_search_by_key(&key, |row| row.key).ok()?;
    interval.threads.get(at)
}
