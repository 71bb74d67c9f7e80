//! [`ImportedOrder`]: in which order the original stored the rows of an imported database. `Idx` counts rows as they came, so
//! devices alternate, and after a device's clock was set the order is not that of time either.
//!
//! Rows are written one window of `Idx` after the other, so that memory is bounded whatever the database says.

use cpumon_model::{Interval, SourceKind, Trust};
use cpumon_store::legacy::SetOrder;
use cpumon_store::{Reader, What};

use crate::ExportError;
use crate::source::{Counter, Source};

/// An imported interval whose rows have numbers.
struct Numbered {
    end_ns: i64,
    first: i64,
    last: i64,
    rows: u64,
}

/// The numbers of one host's intervals, ascending in time.
#[derive(Default)]
pub(super) struct HostNumbers {
    intervals: Vec<Numbered>,
    /// Some of its intervals have no numbers.
    pub has_others: bool,
}

/// The numbers of all imported intervals of an export.
#[derive(Default)]
pub(super) struct ImportedOrder {
    pub hosts: Vec<HostNumbers>,
    /// First number and rows of each interval, ascending.
    firsts: Vec<(i64, u64)>,
    /// The highest number.
    pub last: i64,
    window_rows: u64,
}

/// Numbers from `low` on, below `high` unless that is `None`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub low: i64,
    pub high: Option<i64>,
}

impl Window {
    pub fn holds(self, idx: i64) -> bool {
        idx >= self.low && self.high.is_none_or(|high| idx < high)
    }

    fn overlaps(self, interval: &Numbered) -> bool {
        interval.last >= self.low && self.high.is_none_or(|high| interval.first < high)
    }
}

impl HostNumbers {
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn has(&self, interval: &Interval) -> bool {
        self.intervals.binary_search_by_key(&interval.end.wall_ns, |row| row.end_ns).is_ok()
    }

    /// The range of time in which this host has rows of a window: after the first, up to the second.
    pub fn range_of(&self, window: Window) -> Option<(i64, i64)> {
        let mut ends = self.intervals.iter().filter(|row| window.overlaps(row)).map(|row| row.end_ns);
        let first = ends.next()?;
        Some((first.saturating_sub(1), ends.next_back().unwrap_or(first)))
    }
}

impl ImportedOrder {
    /// Of `hosts` hosts without numbers.
    pub fn none(hosts: usize) -> Self {
        let others = || HostNumbers { intervals: Vec::new(), has_others: true };
        Self { hosts: (0..hosts).map(|_| others()).collect(), ..Self::default() }
    }

    /// Reads the numbers of all hosts of `source`, which has no filter.
    pub fn read(
        source: &Source<'_>,
        what: What,
        window_rows: u64,
        counter: &mut Counter<'_>,
    ) -> Result<Self, ExportError> {
        let mut order = Self { window_rows, ..Self::default() };
        for host in &source.hosts {
            let mut numbers = HostNumbers { intervals: Vec::new(), has_others: true };
            if host.trust == Trust::Imported {
                numbers.has_others = false;
                source.walk(host, What::Meta, counter, &mut |interval, report| {
                    let Some(row) = number(source.reader(), interval, what)? else {
                        numbers.has_others = true;
                        return Ok(());
                    };
                    numbers.intervals.push(row);
                    report.intervals += 1;
                    Ok(())
                })?;
            } else {
                source.end_pass(counter);
            }
            counter.report.hosts += u64::from(!numbers.is_empty());
            order.firsts.extend(numbers.intervals.iter().map(|row| (row.first, row.rows)));
            order.last = numbers.intervals.iter().map(|row| row.last).fold(order.last, i64::max);
            order.hosts.push(numbers);
        }
        order.firsts.sort_unstable();
        Ok(order)
    }

    /// The first window; `None`: no row has a number.
    pub fn first_window(&self) -> Option<Window> {
        let low = self.firsts.first()?.0;
        Some(Window { low, high: self.high_from(low) })
    }

    /// The window behind one; `None` if that was the last.
    pub fn window_after(&self, window: Window) -> Option<Window> {
        let low = window.high?;
        Some(Window { low, high: self.high_from(low) })
    }

    /// A number up to which there are about `window_rows` rows; `None`: there are not so many more.
    fn high_from(&self, low: i64) -> Option<i64> {
        let from = self.firsts.partition_point(|(first, _)| *first < low);
        let mut rows = 0_u64;
        for (first, count) in &self.firsts[from..] {
            if rows >= self.window_rows && *first > low {
                return Some(*first);
            }
            rows = rows.saturating_add(*count);
        }
        None
    }
}

/// `None` if the interval has no numbers that fit its rows.
fn number(reader: &Reader, interval: &Interval, what: What) -> Result<Option<Numbered>, ExportError> {
    let Some(order) = order_of(reader, interval)? else { return Ok(None) };
    let count = if what == What::Threads { interval.thread_count } else { interval.process_count };
    let (first, last) = (order.process_idx.iter().min(), order.process_idx.iter().max());
    Ok(first.zip(last).map(|(&first, &last)| Numbered {
        end_ns: interval.end.wall_ns,
        first,
        last,
        rows: u64::from(count),
    }))
}

/// The order in which the original stored the rows of an imported interval that was read without a filter.
pub(super) fn order_of(reader: &Reader, interval: &Interval) -> Result<Option<SetOrder>, ExportError> {
    if interval.source != SourceKind::Legacy {
        return Ok(None);
    }
    let order = reader.legacy_order(interval.host, interval.end.wall_ns)?;
    Ok(order.filter(|order| order.process_idx.len() == interval.process_count as usize))
}
