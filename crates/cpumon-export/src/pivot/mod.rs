//! The pivot: one row for each interval, one column for each process name. It is written in two passes over each host: the first finds the
//! columns, the second writes the cells.
//!
//! Memory: the columns, the processes alive, and a [`PivotBuffer`] that makes the second pass possible without reading the store again. A
//! host that does not fit into the buffer is read twice, so memory is bounded for any range.
//!
//! The store has no row for a process that did nothing. So that *idle* is 0 and *not there* is empty, the first pass notes which processes
//! were alive before their first row, and the second pass follows births and ends.

mod columns;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::varint::{self, unzigzag, zigzag};
use cpumon_model::{
    BootId, Delta, Fields, Flags, Interval, IntervalView, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    SourceKind, Value,
};
use cpumon_store::{Reader, What};
use foldhash::fast::RandomState;

use crate::rows::PivotSink;
use crate::source::{Counter, ExportSource};
use crate::{ExportError, ExportQuery, PivotValue, Progress, Report};
pub(crate) use columns::MAX_COLUMNS;
use columns::{Alive, EarlyLives, PivotNames};

/// Greatest size of all buffers together, bytes: a day of 100 processes active each second, at 5 bytes a row.
const MAX_BUFFER_BYTES: usize = 64 << 20;
/// Memory of a process: its slot, and its entry in the index with the free space of a hash table.
const SLOT_BYTES: usize = 128;

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
    // Rows without a cell would count as data of the process that was chosen.
    if order.is_empty() && query.process.is_some() {
        return Ok(counter.report);
    }
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

/// A process with one name. A process that changes its name has two slots.
#[derive(Copy, Clone, Debug)]
struct PivotSlot {
    key: ProcessKey,
    column: Option<usize>,
}

/// The data of an interval that [`PivotSink`] and the second pass use.
struct BufferedInterval {
    begin_wall_ns: i64,
    end_wall_ns: i64,
    duration_ns: u64,
    v1_ticks: Option<i64>,
    boot: BootId,
    source: SourceKind,
    fields: Fields,
    flags: Flags,
    /// Where its rows end in [`PivotBuffer::rows`].
    rows_end: usize,
}

/// The part of a host's intervals that the second pass needs. Reading and unpacking the store is most of the work of a pivot, so it
/// is done once where this buffer fits.
#[derive(Default)]
struct PivotBuffer {
    heads: Vec<BufferedInterval>,
    /// For each row two varints: slot << 1 | ends, and the value in zigzag.
    rows: Vec<u8>,
    slots: Vec<PivotSlot>,
    /// Slots of the current boot by process and address of its description. The map holds the description, so no other one can
    /// get its address.
    index: HashMap<(ProcessKey, usize), (usize, Arc<ProcessInfo>), RandomState>,
    boot: BootId,
}

#[derive(Copy, Clone, Debug)]
struct BufferedRow {
    key: ProcessKey,
    /// As given to [`PivotBuffer::push`]: in the order of the first pass, `None` for `(other)`.
    column: Option<usize>,
    /// Whether the process ended in the interval.
    ends: bool,
    value: i64,
}

impl PivotBuffer {
    fn bytes(&self) -> usize {
        self.rows.len() + self.heads.len() * size_of::<BufferedInterval>() + self.slots.len() * SLOT_BYTES
    }

    fn enter(&mut self, interval: &Interval) {
        if self.boot != interval.boot {
            self.boot = interval.boot;
            // Keys are unique within one boot only.
            self.index.clear();
        }
        self.heads.push(BufferedInterval {
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            duration_ns: interval.duration_ns(),
            v1_ticks: interval.v1_ticks,
            boot: interval.boot,
            source: interval.source,
            fields: interval.fields,
            flags: interval.flags,
            rows_end: self.rows.len(),
        });
    }

    /// Adds a row to the interval that was begun last. `column` is called once for each process and name.
    fn push(
        &mut self,
        row: &ProcessInterval,
        ends: bool,
        value: i64,
        column: impl FnOnce() -> Option<usize>,
    ) {
        let slots = &mut self.slots;
        // Intervals share descriptions, so addresses suffice; an equal copy only takes a slot of its own.
        let (slot, _) = self.index.entry((row.key, Arc::as_ptr(&row.info).addr())).or_insert_with(|| {
            slots.push(PivotSlot { key: row.key, column: column() });
            (slots.len() - 1, Arc::clone(&row.info))
        });
        varint::push(&mut self.rows, (*slot as u64) << 1 | u64::from(ends));
        // Zigzag: a negative value would take ten bytes otherwise.
        varint::push(&mut self.rows, zigzag(value));
        if let Some(head) = self.heads.last_mut() {
            head.rows_end = self.rows.len();
        }
    }

    /// Ends the first pass: frees memory that only this pass needs.
    fn close(&mut self) {
        self.index = HashMap::default();
        self.rows.shrink_to_fit();
        self.heads.shrink_to_fit();
    }

    /// Calls `visit` with each interval, which has only the fields of a [`BufferedInterval`], and its rows.
    fn replay<E>(
        &self,
        mut visit: impl FnMut(&Interval, BufferedRows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut interval = Interval::default();
        let mut begin = 0;
        for head in &self.heads {
            interval.begin = Moment { wall_ns: head.begin_wall_ns, ..Moment::default() };
            // The start is 0 on this clock, so the end is the length.
            interval.end =
                Moment { wall_ns: head.end_wall_ns, mono_ns: head.duration_ns, ..Moment::default() };
            interval.v1_ticks = head.v1_ticks;
            interval.boot = head.boot;
            interval.source = head.source;
            interval.fields = head.fields;
            interval.flags = head.flags;
            let bytes = self.rows.get(begin..head.rows_end).unwrap_or_default();
            begin = head.rows_end;
            visit(&interval, BufferedRows { bytes, slots: &self.slots })?;
        }
        Ok(())
    }
}

/// The rows of one interval, in the order in which they were added.
struct BufferedRows<'k> {
    bytes: &'k [u8],
    slots: &'k [PivotSlot],
}

impl Iterator for BufferedRows<'_> {
    type Item = BufferedRow;

    fn next(&mut self) -> Option<BufferedRow> {
        let head = varint::take(&mut self.bytes)?;
        let value = unzigzag(varint::take(&mut self.bytes)?);
        let PivotSlot { key, column } = *self.slots.get(usize::try_from(head >> 1).ok()?)?;
        Some(BufferedRow { key, column, ends: head & 1 != 0, value })
    }
}
