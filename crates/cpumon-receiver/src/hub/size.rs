//! Memory of intervals in the hub.

use std::sync::Arc;

use cpumon_model::{Interval, bytes_of_info, bytes_of_rows};
use cpumon_query::Shown;

/// Memory of an interval, bytes: its rows, and the texts that it does not share with its neighbour.
pub(super) fn bytes_of_interval(interval: &Interval, neighbour: Option<&Shown>) -> usize {
    bytes_of_rows(interval) + bytes_of_texts(interval, neighbour)
}

/// Memory of an interval's texts that it does not share with its neighbour, bytes. Most processes keep their name, and all their rows
/// share it.
fn bytes_of_texts(interval: &Interval, neighbour: Option<&Shown>) -> usize {
    let mut rest = neighbour.map_or(&[][..], |shown| &shown.interval.processes);
    let mut bytes = 0;
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
