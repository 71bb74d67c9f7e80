//! Rows of processes and threads in the order of `Idx`: that is the order in which the original stored the rows of an imported database.
//! `Idx` counts rows as they came, so devices alternate, and after a device's clock was set the order is not that of time either.
//!
//! Rows are written one window of `Idx` after the other, so that memory is bounded whatever the database says.

use std::io::Write;

use cpumon_model::{Interval, ProcessKey, SourceKind, Trust};
use cpumon_store::{LegacyOrder, ProcessFilter, Reader, What};

use super::layout::{RowLayout, write_thread};
use crate::source::{Counter, ExportSource};
use crate::{ExportError, ExportQuery, Progress, Report};

#[derive(Copy, Clone)]
pub(super) struct Limits {
    /// Approximate number of rows in a window.
    window_rows: u64,
    /// More than these, and those with the highest numbers are put off to the next window.
    most_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window_rows: 1 << 18, most_rows: 1 << 19 }
    }
}

pub(super) fn write(
    reader: &Reader,
    query: &ExportQuery,
    layout: RowLayout,
    limits: Limits,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    // A number belongs to a place among all rows of an interval, so imported ones are read in full and filtered here.
    let unfiltered = ExportQuery { process: None, ..query.clone() };
    let mut all = ExportSource::open(reader, &unfiltered, 1)?;
    let mut filtered = ExportSource::open(reader, query, 1)?;
    (all.only_active, filtered.only_active) = (true, true);
    let mut counter = Counter::new(progress);
    // Sums of intervals have no numbers.
    let has_numbers =
        query.interval_ns.is_none() && all.hosts.iter().any(|host| host.trust == Trust::Imported);
    let order = if has_numbers {
        (all.passes, filtered.passes) = (2, 2);
        ImportedOrder::read(&all, layout.what, limits.window_rows, &mut counter)?
    } else {
        ImportedOrder::none(all.hosts.len())
    };
    out.write_all(layout.header().as_bytes())?;
    let mut next = order.window_from(order.firsts.first().map(|(first, _)| *first));
    let mut lines = WindowRows::new(layout, filtered.filter.clone(), limits.most_rows);
    while let Some(mut window) = next {
        lines.collect(&all, &order, &mut window, &mut counter)?;
        lines.write(out, &mut counter)?;
        next = order.window_from(window.high);
    }
    write_others(&filtered, &order, layout, out, &mut counter)?;
    Ok(counter.report)
}

/// Writes the rows that no database numbered, one host after the other.
fn write_others(
    source: &ExportSource<'_>,
    order: &ImportedOrder,
    layout: RowLayout,
    out: &mut dyn Write,
    counter: &mut Counter<'_>,
) -> Result<(), ExportError> {
    // Numbers go on behind imported ones, so none is used twice.
    let mut last = order.last;
    for (host, numbers) in source.hosts.iter().zip(&order.hosts) {
        if !numbers.has_others {
            source.end_pass(counter);
            continue;
        }
        let label = source.label(host);
        let before = counter.report.intervals;
        source.walk(host, layout.what, counter, &mut |interval, report| {
            if numbers.has(interval) {
                return Ok(());
            }
            report.intervals += 1;
            report.rows += write_interval(layout, &label, interval, last, out)?;
            last = last.saturating_add(i64::try_from(interval.processes.len()).unwrap_or(i64::MAX));
            Ok(())
        })?;
        counter.report.hosts += u64::from(numbers.is_empty() && counter.report.intervals > before);
    }
    Ok(())
}

/// Writes the rows of an interval, numbered from `last` on; returns how many.
fn write_interval(
    layout: RowLayout,
    host: &str,
    interval: &Interval,
    last: i64,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let idx_of = |at: usize| last.saturating_add(i64::try_from(at).map_or(i64::MAX, |at| at + 1));
    if layout.what != What::Threads {
        for (at, row) in interval.processes.iter().enumerate() {
            layout.process(host, interval, row, idx_of(at), out)?;
        }
        return Ok(interval.processes.len() as u64);
    }
    // The original listed threads under their process.
    let place = |key: ProcessKey| interval.processes.binary_search_by_key(&key, |row| row.key);
    let mut rows: Vec<_> =
        interval.threads.iter().map(|row| (place(row.process).map_or(0, idx_of), row)).collect();
    rows.sort_by_key(|(idx, _)| *idx);
    for (idx, row) in &rows {
        write_thread(interval, row, *idx, out)?;
    }
    Ok(rows.len() as u64)
}

/// A line of a window, and its sort key.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WindowLine {
    idx: i64,
    /// Index of the host: row numbers are unique within a database only.
    host: usize,
    end_ns: i64,
    /// Threads of a process are in the order in which the device sent them.
    position: u32,
    /// Range of the line in [`WindowRows::text`].
    text: (usize, usize),
}

struct WindowRows {
    layout: RowLayout,
    filter: ProcessFilter,
    lines: Vec<WindowLine>,
    text: Vec<u8>,
    most_rows: usize,
}

#[derive(Copy, Clone)]
struct HostWindow<'a> {
    host: usize,
    label: &'a str,
    window: RowWindow,
}

impl WindowRows {
    fn new(layout: RowLayout, filter: ProcessFilter, most_rows: usize) -> Self {
        Self { layout, filter, lines: Vec::new(), text: Vec::new(), most_rows }
    }

    /// Reads the rows of a window, which is made smaller if they are too many.
    fn collect(
        &mut self,
        source: &ExportSource<'_>,
        order: &ImportedOrder,
        window: &mut RowWindow,
        counter: &mut Counter<'_>,
    ) -> Result<(), ExportError> {
        for (at, (host, numbers)) in source.hosts.iter().zip(&order.hosts).enumerate() {
            let Some(range) = numbers.range_of(*window) else { continue };
            let label = source.label(host);
            source.walk_range(host, range, self.layout.what, counter, &mut |interval, _| {
                if let Some(order) = order_of(source.reader, interval)? {
                    self.add(HostWindow { host: at, label: &label, window: *window }, interval, &order)?;
                }
                if self.lines.len() > self.most_rows {
                    self.put_off(window);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Adds those rows of an interval that the window holds.
    fn add(
        &mut self,
        place: HostWindow<'_>,
        interval: &Interval,
        order: &LegacyOrder,
    ) -> Result<(), ExportError> {
        let Self { layout, filter, lines, text, .. } = self;
        let mut add = |idx: i64, position: u32, begin: usize, end: usize| {
            lines.push(WindowLine {
                idx,
                host: place.host,
                end_ns: interval.end.wall_ns,
                position,
                text: (begin, end),
            });
        };
        let is_wanted = |at: usize| {
            let (row, idx) = (interval.processes.get(at)?, *order.process_idx.get(at)?);
            (place.window.holds(idx) && filter.matches(row.key, &row.info)).then_some((row, idx))
        };
        if layout.what != What::Threads {
            for (row, idx) in (0..interval.processes.len()).filter_map(is_wanted) {
                let begin = text.len();
                layout.process(place.label, interval, row, idx, text)?;
                add(idx, 0, begin, text.len());
            }
            return Ok(());
        }
        for (at, row) in interval.threads.iter().enumerate() {
            let owner = interval.processes.binary_search_by_key(&row.process, |process| process.key);
            let Some((_, idx)) = owner.ok().and_then(is_wanted) else { continue };
            let position = order.thread_position.get(at).copied().unwrap_or(0);
            let begin = text.len();
            write_thread(interval, row, idx, text)?;
            add(idx, position, begin, text.len());
        }
        Ok(())
    }

    /// Leaves the rows with the lower half of the numbers, and ends the window behind them. Rows of one number stay together.
    fn put_off(&mut self, window: &mut RowWindow) {
        self.lines.sort_unstable();
        let is_border = |at: &usize| self.lines[at - 1].idx != self.lines[*at].idx;
        let half = self.lines.len() / 2;
        let border = (half..self.lines.len()).find(is_border).or_else(|| (1..half).rev().find(is_border));
        let Some(border) = border else { return };
        window.high = Some(self.lines[border].idx);
        self.lines.truncate(border);
        let mut text = Vec::new();
        for line in &mut self.lines {
            let begin = text.len();
            text.extend_from_slice(&self.text[line.text.0..line.text.1]);
            line.text = (begin, text.len());
        }
        self.text = text;
    }

    /// Writes the lines in their order, and forgets them.
    fn write(&mut self, out: &mut dyn Write, counter: &mut Counter<'_>) -> Result<(), ExportError> {
        self.lines.sort_unstable();
        for line in &self.lines {
            out.write_all(&self.text[line.text.0..line.text.1])?;
        }
        counter.report.rows += self.lines.len() as u64;
        self.lines.clear();
        self.text.clear();
        Ok(())
    }
}

/// An imported interval whose rows have numbers.
struct Numbered {
    end_ns: i64,
    first: i64,
    last: i64,
    rows: u64,
}

/// The numbers of one host's intervals, ascending in time.
#[derive(Default)]
struct HostNumbers {
    intervals: Vec<Numbered>,
    /// Whether some of the host's intervals have no numbers.
    pub has_others: bool,
}

/// The numbers of all imported intervals of an export.
#[derive(Default)]
struct ImportedOrder {
    pub hosts: Vec<HostNumbers>,
    /// First number and row count of each interval, ascending.
    firsts: Vec<(i64, u64)>,
    pub last: i64,
    window_rows: u64,
}

/// Numbers from `low` on, below `high` unless that is `None`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct RowWindow {
    pub low: i64,
    pub high: Option<i64>,
}

impl RowWindow {
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
    pub fn range_of(&self, window: RowWindow) -> Option<(i64, i64)> {
        let mut ends = self.intervals.iter().filter(|row| window.overlaps(row)).map(|row| row.end_ns);
        let first = ends.next()?;
        Some((first.saturating_sub(1), ends.next_back().unwrap_or(first)))
    }
}

impl ImportedOrder {
    /// The order of `hosts` hosts without numbers.
    pub fn none(hosts: usize) -> Self {
        let others = || HostNumbers { intervals: Vec::new(), has_others: true };
        Self { hosts: (0..hosts).map(|_| others()).collect(), ..Self::default() }
    }

    /// Reads the numbers of all hosts of `source`, which has no filter.
    pub fn read(
        source: &ExportSource<'_>,
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
                    let Some(row) = number(source.reader, interval, what)? else {
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

    /// The window that begins with this number; `None`: no further row has a number.
    pub fn window_from(&self, low: Option<i64>) -> Option<RowWindow> {
        low.map(|low| RowWindow { low, high: self.high_from(low) })
    }

    /// A number up to which there are about `window_rows` rows; `None` if fewer are left.
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
fn order_of(reader: &Reader, interval: &Interval) -> Result<Option<LegacyOrder>, ExportError> {
    if interval.source != SourceKind::Legacy {
        return Ok(None);
    }
    let order = reader.legacy_order(interval.host, interval.end.wall_ns)?;
    Ok(order.filter(|order| order.process_idx.len() == interval.process_count as usize))
}

#[cfg(test)]
mod tests;
