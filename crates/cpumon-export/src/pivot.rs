//! The pivot: one row an interval, one column a process name. In: intervals, twice: names first, then values. Out: rows of
//! cells. Why: a spreadsheet shows a day at a glance. Memory: the columns and the processes alive, whatever the range.
//!
//! The store keeps no row for a process that did nothing. So that *idle* shows as 0 and *not there* as empty, the first
//! pass notes who was alive before its first row, and the second follows births and ends.

mod alive;
mod names;

use cpumon_model::{Delta, Fields, Interval, IntervalView, Value};
use cpumon_store::{Reader, What};

use crate::rows::PivotSink;
use crate::source::{Counter, Source};
use crate::{ExportError, ExportQuery, PivotValue, Progress, Report};

use alive::{Alive, EarlyLives};
use names::Names;

/// Walks all hosts twice and hands each interval's cells to `sink`.
pub(crate) fn run(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn PivotSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let source = Source::open(reader, query, 2)?;
    let mut counter = Counter::new(progress);
    let mut names = Names::new(query.pivot_by);
    let mut early = Vec::with_capacity(source.hosts.len());
    for (at, host) in source.hosts.iter().enumerate() {
        let mut lives = EarlyLives::default();
        source.walk(host, What::Processes, &mut counter, &mut |interval, _| {
            lives.observe(interval);
            names.collect(at, interval);
            Ok(())
        })?;
        early.push(lives);
    }
    let order = names.sort();
    counter.report.folded_columns = names.folded();
    sink.header(&order)?;
    for ((at, host), lives) in source.hosts.iter().enumerate().zip(early) {
        let label = source.label(host);
        let before = counter.report.intervals;
        let mut table =
            Table { value: query.pivot_value, names: &mut names, host: at, alive: Alive::new(lives) };
        source.walk(host, What::Processes, &mut counter, &mut |interval, report| {
            let cells = table.cells(interval);
            sink.row(&label, &IntervalView::new(&label, interval), &cells)?;
            report.intervals += 1;
            report.rows += 1;
            Ok(())
        })?;
        counter.report.hosts += u64::from(counter.report.intervals > before);
    }
    Ok(counter.report)
}

/// The second pass over one host.
struct Table<'n> {
    value: PivotValue,
    names: &'n mut Names,
    host: usize,
    alive: Alive,
}

impl Table<'_> {
    fn cells(&mut self, interval: &Interval) -> Vec<Value<'static>> {
        let mut sums: Vec<Option<i64>> = vec![None; self.names.len()];
        if interval.fields.contains(needs(self.value)) {
            self.alive.enter(interval, |info, key| self.names.column(self.host, interval, info, key));
            self.alive.fill_zeros(&mut sums);
            for row in &interval.processes {
                let column = self.names.column(self.host, interval, &row.info, row.key);
                if let Some(sum) = column.and_then(|at| sums.get_mut(at)) {
                    *sum = Some(sum.unwrap_or(0).saturating_add(part(self.value, &row.delta)));
                }
                self.alive.follow(row, column);
            }
        }
        sums.into_iter().map(|sum| cell(self.value, interval, sum)).collect()
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
