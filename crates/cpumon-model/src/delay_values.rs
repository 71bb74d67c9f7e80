//! Cells of the run-delay histograms of processes, threads, CPUs and hosts. A percentile of no delays is no data.

use std::borrow::Cow;

use crate::{ColumnId, DelayHistogram, DelayOf, Fields, IntervalView, Value};

/// What a column shows of a histogram.
#[derive(Copy, Clone, Debug)]
pub(crate) enum DelayCell {
    Count,
    Percentile(u32),
    Histogram,
}

/// Which percentile of the run delays a column shows, if it is one of those; 100 is the highest.
#[must_use]
pub fn delay_percent(id: ColumnId) -> Option<u32> {
    Some(match id {
        ColumnId::RunDelayP50Ns => 50,
        ColumnId::RunDelayP90Ns => 90,
        ColumnId::RunDelayP99Ns => 99,
        ColumnId::RunDelayMaxNs => 100,
        _ => return None,
    })
}

/// What the column shows of a histogram, if it is one of those.
pub(crate) fn delay_cell(id: ColumnId) -> Option<DelayCell> {
    match id {
        ColumnId::RunDelays => Some(DelayCell::Count),
        ColumnId::RunDelayHistogram => Some(DelayCell::Histogram),
        _ => delay_percent(id).map(DelayCell::Percentile),
    }
}

impl IntervalView<'_> {
    /// The cell of an owner; `None` if the column is another's. A thread that was not selected has no count, not 0.
    pub(crate) fn delays(&self, id: ColumnId, of: DelayOf, longest_ns: Option<u64>) -> Option<Value<'_>> {
        let cell = delay_cell(id)?;
        let histogram = self.interval().delays_of(of);
        let is_none = histogram.is_none() && matches!(of, DelayOf::Thread(..));
        Some(if is_none { Value::Null } else { self.delay(cell, histogram, longest_ns) })
    }

    /// The cell of a histogram; `None`: no delay ended.
    pub(crate) fn delay(
        &self,
        cell: DelayCell,
        histogram: Option<&DelayHistogram>,
        longest_ns: Option<u64>,
    ) -> Value<'static> {
        if !self.interval().fields.contains(Fields::HISTOGRAMS) {
            return Value::Null;
        }
        match cell {
            DelayCell::Count => Value::count(histogram.map_or(0, DelayHistogram::total)),
            DelayCell::Percentile(percent) => histogram
                .and_then(|histogram| histogram.percentile_ns(percent, longest_ns))
                .map_or(Value::Null, Value::count),
            DelayCell::Histogram => {
                let text = histogram.map_or_else(|| "[]".to_owned(), ToString::to_string);
                Value::Text(Cow::Owned(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Delays, Interval, ProcessInterval, ProcessKey, SchedDelta, ThreadInterval};

    #[test]
    fn no_probe_no_delay_and_some_delays_are_three_things() {
        let key = ProcessKey { pid: 7, start_ns: 1 };
        let row = ProcessInterval { key, ..ProcessInterval::default() };
        let cells = |fields, delays| {
            let interval = Interval { fields, delays, ..Interval::default() };
            let view = IntervalView::new("h", &interval);
            let ids = [ColumnId::RunDelays, ColumnId::RunDelayP50Ns, ColumnId::RunDelayMaxNs];
            ids.map(|id| match view.process(&row, id) {
                Value::Int(number) => Some(number),
                _ => None,
            })
        };
        let histogram = Arc::new(DelayHistogram::from_iter([(40, 3), (90, 1)]));
        let some = vec![Delays { of: DelayOf::Process(key), histogram }];
        assert_eq!(cells(Fields::empty(), some.clone()), [None; 3]);
        assert_eq!(cells(Fields::HISTOGRAMS, Vec::new()), [Some(0), None, None]);
        let end = |bucket| i64::try_from(*crate::delay_range_ns(bucket).end()).ok();
        assert_eq!(cells(Fields::HISTOGRAMS, some.clone()), [Some(4), end(40), end(90)]);
        let longest_delay_ns = end(90).unwrap() - 1;
        let sched = SchedDelta { longest_delay_ns, ..SchedDelta::default() };
        let row = ProcessInterval { key, sched, ..ProcessInterval::default() };
        let interval = Interval { fields: Fields::HISTOGRAMS, delays: some, ..Interval::default() };
        for id in [ColumnId::RunDelayP99Ns, ColumnId::RunDelayMaxNs] {
            let view = IntervalView::new("h", &interval);
            assert_eq!(
                view.process(&row, id),
                Value::Int(longest_delay_ns),
                "no percentile is above the longest delay"
            );
        }
        let interval = Interval { fields: Fields::HISTOGRAMS, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        let thread = ThreadInterval::default();
        assert_eq!(view.thread(&thread, ColumnId::RunDelays), Value::Null, "it was not selected");
    }
}
