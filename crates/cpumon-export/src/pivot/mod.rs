//! The pivot: one row for each interval, one column for each process name.
//!
//! Writes a pivot in two passes over each host: the first finds the columns, the second writes the cells.
//!
//! Memory: the columns, the processes alive, and a [`PivotBuffer`] that makes the second pass possible without reading the store
//! again. A host that does not fit into the buffer is read twice, so memory is bounded for any range.
//!
//! The store has no row for a process that did nothing. So that *idle* is 0 and *not there* is empty, the first pass notes which
//! processes were alive before their first row, and the second pass follows births and ends.

mod buffer;
mod columns;
#[cfg(test)]
mod tests;

use cpumon_model::{Delta, Fields, Interval, IntervalView, Value};
use cpumon_store::{Reader, What};

use crate::rows::PivotSink;
use crate::source::{Counter, ExportSource};
use crate::{ExportError, ExportQuery, PivotValue, Progress, Report};
use buffer::{BufferedRow, MAX_BUFFER_BYTES, PivotBuffer};
pub(crate) use columns::MAX_COLUMNS;
use columns::{Alive, EarlyLives, PivotNames};

/// Writes the cells of each interval of all hosts to `sink`, in at most `max_columns` columns.
pub(crate) fn run(
    reader: &Reader,
    query: &ExportQuery,
    max_columns: usize,
    sink: &mut dyn PivotSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    run_within(reader, query, max_columns, sink, progress, MAX_BUFFER_BYTES)
}

/// [`run`] with about `max_bytes` of buffers between the passes.
fn run_within(
    reader: &Reader,
    query: &ExportQuery,
    max_columns: usize,
    sink: &mut dyn PivotSink,
    progress: &mut dyn FnMut(Progress),
    max_bytes: usize,
) -> Result<Report, ExportError> {
    let mut source = ExportSource::open(reader, query, 2)?;
    // No value of a pivot is a wait.
    source.only_active = true;
    let mut counter = Counter::new(progress);
    let mut names = PivotNames::new(query.group_by, max_columns);
    let seen = first_passes(&mut source, query.pivot_value, &mut names, &mut counter, max_bytes)?;
    // The header has the names of all hosts, so no row is written before every first pass is over.
    let order = names.sort();
    counter.report.folded = names.folded;
    sink.header(&order)?;
    for ((at, host), (lives, buffer)) in source.hosts.iter().enumerate().zip(seen) {
        let label = source.label(host);
        let before = counter.report.intervals;
        let alive = Alive::new(lives);
        let mut table = SecondPass {
            value: query.pivot_value,
            names: &names,
            host: at,
            alive,
            sums: vec![],
            cells: vec![],
        };
        let mut write = |interval: &Interval, cells: &[Value<'_>], report: &mut Report| {
            report.intervals += 1;
            report.rows += 1;
            sink.row(&label, &IntervalView::new(&label, interval), cells)
        };
        if let Some(buffer) = buffer {
            buffer.replay(|interval, rows| {
                let rows = rows.map(|row| BufferedRow { column: names.position(row.column), ..row });
                write(interval, table.cells(interval, rows), &mut counter.report)
            })?;
            source.end_pass(&mut counter);
        } else {
            source.walk(host, What::Processes, &mut counter, &mut |interval, report| {
                let rows = interval.processes.iter().map(|row| BufferedRow {
                    key: row.key,
                    column: names.column(at, interval, &row.info, row.key),
                    ends: row.life.has_ended(),
                    value: part(query.pivot_value, &row.delta),
                });
                Ok(write(interval, table.cells(interval, rows), report)?)
            })?;
        }
        counter.report.hosts += u64::from(counter.report.intervals > before);
    }
    Ok(counter.report)
}

/// The first pass over each host: when its tasks began, and its rows, as long as all rows fit into `budget` bytes.
fn first_passes(
    source: &mut ExportSource<'_>,
    value: PivotValue,
    names: &mut PivotNames,
    counter: &mut Counter<'_>,
    mut budget: usize,
) -> Result<Vec<(EarlyLives, Option<PivotBuffer>)>, ExportError> {
    let mut seen = Vec::with_capacity(source.hosts.len());
    for (at, host) in source.hosts.iter().enumerate() {
        let (lives, buffer) = (EarlyLives::default(), Some(PivotBuffer::default()));
        let mut first = FirstPass { value, host: at, lives, buffer, budget };
        source.walk(host, What::Processes, counter, &mut |interval, _| {
            first.observe(interval, names);
            Ok(())
        })?;
        if let Some(buffer) = &mut first.buffer {
            buffer.close();
            // The buffers of all hosts live until the second pass, so they share one budget.
            budget = budget.saturating_sub(buffer.bytes());
        }
        seen.push((first.lives, first.buffer));
    }
    Ok(seen)
}

struct FirstPass {
    value: PivotValue,
    host: usize,
    lives: EarlyLives,
    /// `None` if the host has more rows than fit.
    buffer: Option<PivotBuffer>,
    /// Greatest size of the buffer, bytes.
    budget: usize,
}

impl FirstPass {
    fn observe(&mut self, interval: &Interval, names: &mut PivotNames) {
        self.lives.observe(interval);
        // From here on this host only collects names; it is read a second time.
        self.buffer.take_if(|buffer| buffer.bytes() > self.budget);
        let Some(buffer) = &mut self.buffer else {
            for row in &interval.processes {
                names.collect(self.host, interval, row);
            }
            return;
        };
        buffer.enter(interval);
        for row in &interval.processes {
            let value = part(self.value, &row.delta);
            buffer.push(row, row.life.has_ended(), value, || names.collect(self.host, interval, row));
        }
    }
}

struct SecondPass<'n> {
    value: PivotValue,
    names: &'n PivotNames,
    host: usize,
    alive: Alive,
    sums: Vec<Option<i64>>,
    cells: Vec<Value<'static>>,
}

impl SecondPass<'_> {
    /// The cells of an interval from its rows. Only times, boot, source, fields and flags of `interval` are used.
    fn cells(&mut self, interval: &Interval, rows: impl Iterator<Item = BufferedRow>) -> &[Value<'static>] {
        self.sums.clear();
        self.sums.resize(self.names.len(), None);
        // Without the counter every cell stays empty: a 0 would claim that nothing ran.
        if interval.fields.contains(needs(self.value)) {
            self.alive.enter(interval, |info, key| self.names.column(self.host, interval, info, key));
            self.alive.fill_zeros(&mut self.sums);
            for row in rows {
                if let Some(sum) = row.column.and_then(|at| self.sums.get_mut(at)) {
                    *sum = Some(sum.unwrap_or(0).saturating_add(row.value));
                }
                // After the sum, because a process that ends in this interval still ran in it.
                self.alive.follow(row.key, row.ends, row.column);
            }
        }
        self.cells.clear();
        self.cells.extend(self.sums.iter().map(|sum| cell(self.value, interval, *sum)));
        &self.cells
    }
}

fn needs(value: PivotValue) -> Fields {
    match value {
        PivotValue::User => Fields::USER,
        PivotValue::System => Fields::SYSTEM,
        PivotValue::Run | PivotValue::Pct => Fields::RUN,
    }
}

fn part(value: PivotValue, delta: &Delta) -> i64 {
    match value {
        PivotValue::User => delta.user_ns,
        PivotValue::System => delta.system_ns,
        PivotValue::Run | PivotValue::Pct => delta.run_ns,
    }
}

fn cell(value: PivotValue, interval: &Interval, sum: Option<i64>) -> Value<'static> {
    match (value, sum) {
        (_, None) => Value::Null,
        (PivotValue::Pct, Some(ns)) => interval.cpu_pct(ns).map_or(Value::Null, Value::Real),
        (_, Some(ns)) => Value::Int(ns),
    }
}
