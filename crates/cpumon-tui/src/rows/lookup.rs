//! Values of a row that are found elsewhere in the interval.

use std::borrow::Cow;

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

/// A thread's name. v1 names no threads: there it is the name of the process; empty if that has none either.
pub(crate) fn thread_name<'a>(interval: &'a Interval, thread: &'a ThreadInterval) -> Cow<'a, str> {
    if thread.comm.is_empty() {
        interval.process(thread.process).map_or(Cow::Borrowed(""), |process| (&*process.info.name).into())
    } else {
        thread.comm.to_str_lossy()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{ProcessInfo, ProcessKey};

    use super::*;

    #[test]
    fn a_thread_that_a_v1_device_does_not_name_has_the_name_of_its_process() {
        let info = Arc::new(ProcessInfo { name: "NK.EXE".into(), ..ProcessInfo::default() });
        let process = ProcessInterval { info, ..ProcessInterval::default() };
        let interval = Interval { processes: vec![process], ..Interval::default() };
        let mut thread = ThreadInterval::default();
        assert_eq!(thread_name(&interval, &thread), "NK.EXE");
        thread.comm = "worker".into();
        assert_eq!(thread_name(&interval, &thread), "worker");
        thread = ThreadInterval { process: ProcessKey { pid: 9, start_ns: 0 }, ..ThreadInterval::default() };
        assert_eq!(thread_name(&interval, &thread), "", "no process");
    }
}
