//! The newest intervals of a host: their memory, and which of them is meant.

use std::collections::VecDeque;
use std::sync::Arc;

use cpumon_model::{Interval, bytes_of_info, bytes_of_rows};
use cpumon_query::{Seek, Shown};

/// Memory of an interval, bytes: its rows, and the texts that it does not share with its neighbour. Most processes keep their name, and
/// all their rows share it.
pub(super) fn bytes_of_interval(interval: &Interval, neighbour: Option<&Shown>) -> usize {
    let mut rest = neighbour.map_or(&[][..], |shown| &shown.interval.processes);
    let mut bytes = bytes_of_rows(interval);
    for row in &interval.processes {
        while let [first, behind @ ..] = rest
            && first.key < row.key
        {
            rest = behind;
        }
        let is_shared =
            rest.first().is_some_and(|one| one.key == row.key && Arc::ptr_eq(&one.info, &row.info));
        bytes += if is_shared { 0 } else { bytes_of_info(&row.info) };
    }
    bytes
}

/// Finds the wanted interval in `recent` (oldest first). `None`: it may be older than all.
pub(super) fn find_recent(recent: &VecDeque<Shown>, to: Seek) -> Option<&Shown> {
    let newest_first = || recent.iter().rev();
    match to {
        Seek::At(ns) => {
            newest_first().find(|shown| shown.interval.begin.wall_ns < ns && ns <= shown.interval.end.wall_ns)
        }
        Seek::Before(ns) => newest_first().find(|shown| shown.interval.end.wall_ns < ns),
        Seek::After(ns) => {
            // What the oldest one in memory hides, the store may have.
            let is_older = recent.front().is_some_and(|oldest| oldest.interval.begin.wall_ns > ns);
            recent.iter().find(|shown| !is_older && shown.interval.end.wall_ns > ns)
        }
    }
}
