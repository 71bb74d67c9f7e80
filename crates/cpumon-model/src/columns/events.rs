//! Cells of what the scheduler's and interrupts' events report, and of run-delay histograms. They share one rule: without the probe there
//! is no data. A percentile of no delays is no data either.

use std::borrow::Cow;

use crate::counters::signed;
use crate::{
    ColumnId, CpuSched, DelayHistogram, DelayOf, Fields, Flags, IntervalView, IrqInterval, Probes,
    SOFTIRQ_KINDS, SchedDelta, SourceHealth, ThreadInterval, Value, WaitReason,
};

impl IntervalView<'_> {
    /// A thread's or process's cell; `None` if the column is another's.
    pub(crate) fn sched(&self, id: ColumnId, flags: Flags, sched: &SchedDelta) -> Option<Value<'_>> {
        let cell = self.watched(id, sched)?;
        // No event reports the thread: 0 would read as "never blocked".
        Some(if flags.contains(Flags::UNWATCHED) { Value::Null } else { cell })
    }

    fn watched(&self, id: ColumnId, sched: &SchedDelta) -> Option<Value<'_>> {
        let count = |value| self.measured(Fields::SCHED, value);
        Some(match id {
            ColumnId::BlockedNs => count(sched.blocked_ns),
            ColumnId::DelayAfterWakeupNs => count(sched.delay_after_wakeup_ns),
            ColumnId::LongestRunDelayNs => count(sched.longest_delay_ns),
            ColumnId::Wakeups => count(sched.wakeups),
            ColumnId::Migrations => count(sched.migrations),
            ColumnId::WaitReason => self.reason(sched.waits.longest().map(|longest| longest.0)),
            ColumnId::WaitNs => {
                // Watched and without a wait is 0; `measured` makes it no data where waits are not watched.
                let ns = sched.waits.longest().map_or(0, |longest| longest.1);
                self.measured(Fields::WAITS, signed(ns))
            }
            ColumnId::OpenWait => self.reason(Some(sched.open_wait).filter(|open| open.is_some())),
            _ => return None,
        })
    }

    fn reason(&self, reason: Option<WaitReason>) -> Value<'_> {
        match reason {
            Some(reason) if self.interval().fields.contains(Fields::WAITS) => Value::Text(reason.name()),
            _ => Value::Null,
        }
    }

    /// A cell of the table of waits: one reason of one thread.
    #[must_use]
    pub fn wait<'v>(
        &'v self,
        row: &'v ThreadInterval,
        reason: WaitReason,
        ns: u64,
        id: ColumnId,
    ) -> Value<'v> {
        match id {
            ColumnId::Reason => self.reason(Some(reason)),
            ColumnId::WaitBlockedNs => self.measured(Fields::WAITS, signed(ns)),
            _ => self.thread(row, id),
        }
    }

    /// A cell of the table of interrupt lines.
    #[must_use]
    pub fn irq<'v>(&'v self, row: &'v IrqInterval, id: ColumnId) -> Value<'v> {
        match id {
            ColumnId::Irq => Value::Int(i64::from(row.irq)),
            ColumnId::IrqName => Value::Text(Cow::Borrowed(&row.name)),
            ColumnId::IrqTimeNs => Value::count(row.time_ns),
            ColumnId::IrqCount => Value::count(row.count),
            _ => self.shared(id),
        }
    }

    /// A CPU's cell, or with the sum over all CPUs the host's; `None` if the column is another's.
    pub(crate) fn cpu_sched(&self, id: ColumnId, sched: &CpuSched) -> Option<Value<'_>> {
        let known = |needs, value: Value<'static>| {
            if self.interval().fields.contains(needs) { value } else { Value::Null }
        };
        if let Some(kind) = softirq_kind(id) {
            return Some(known(Fields::IRQ, Value::count(sched.softirq_ns[kind])));
        }
        Some(match id {
            ColumnId::UnknownNs => known(Fields::SCHED, Value::count(sched.unknown_ns)),
            ColumnId::RunQueueMean => {
                let is_known = !self.interval().flags.contains(Flags::RUN_QUEUE_UNKNOWN);
                let mean = sched.run_queue_mean(self.interval().duration_ns()).filter(|_| is_known);
                known(Fields::SCHED, mean.map_or(Value::Null, Value::Real))
            }
            ColumnId::RunQueueMax => known(Fields::SCHED, Value::Int(i64::from(sched.run_queue_max))),
            ColumnId::Switches => known(Fields::SCHED, Value::count(sched.switches)),
            _ => return None,
        })
    }

    pub(crate) fn host_sched(&self, id: ColumnId) -> Option<Value<'_>> {
        let health = &self.interval().health;
        let count = |count| {
            if self.interval().fields.contains(Fields::SCHED) { Value::count(count) } else { Value::Null }
        };
        Some(match id {
            ColumnId::SchedUntracked => count(health.sched_untracked),
            ColumnId::SchedMissedSwitches => count(health.sched_missed_switches),
            ColumnId::WakeupsUnknown => count(health.wakeups_unknown),
            ColumnId::HistogramDrops if self.interval().fields.contains(Fields::HISTOGRAMS) => {
                Value::count(health.histogram_drops)
            }
            ColumnId::HistogramDrops => Value::Null,
            ColumnId::UnknownNs if self.interval().cpus.is_empty() => Value::Null,
            ColumnId::UnknownNs => self.measured(Fields::SCHED, self.interval().ledger.unknown_ns),
            ColumnId::Probes => Value::Text(Cow::Owned(probe_names(health))),
            _ => {
                // Without a row of any CPU the sum over them is not known.
                let cell = self.cpu_sched(id, &self.interval().cpu_sched())?;
                if self.interval().cpus.is_empty() { Value::Null } else { cell }
            }
        })
    }
}

fn probe_names(health: &SourceHealth) -> String {
    let names = Probes::iter_names(&health.probes).map(|(name, _)| name.to_ascii_lowercase());
    names.collect::<Vec<_>>().join("|")
}

const _: () =
    assert!(ColumnId::SoftirqRcuNs as usize + 1 - ColumnId::SoftirqHiNs as usize == SOFTIRQ_KINDS.len());

/// The columns of the kinds follow each other, in the kernel's order.
fn softirq_kind(id: ColumnId) -> Option<usize> {
    let kind = (id as usize).checked_sub(ColumnId::SoftirqHiNs as usize)?;
    (kind < SOFTIRQ_KINDS.len()).then_some(kind)
}

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
    use crate::{
        CpuInterval, CpuSample, Delays, Interval, Moment, ProcessInterval, ProcessKey, Snapshot,
        delay_range_ns,
    };

    #[test]
    fn where_events_were_lost_the_run_queue_is_no_data_and_not_zero() {
        let snapshot = |mono_ns, run_queue_ns, run_queue_unknown| {
            let sched = CpuSched { run_queue_ns, ..CpuSched::default() };
            let end = Moment { mono_ns, ..Moment::default() };
            let mut snapshot = Snapshot { fields: Fields::all(), begin: end, end, ..Snapshot::default() };
            snapshot.cpus = vec![CpuSample { sched, ..CpuSample::default() }];
            snapshot.health.run_queue_unknown = run_queue_unknown;
            snapshot
        };
        let (first, second, third) = (snapshot(10, 0, 3), snapshot(20, 25, 4), snapshot(30, 40, 4));
        let unknown = Interval::between(&first, &second);
        let view = IntervalView::new("h", &unknown);
        assert_eq!(view.host(ColumnId::Flags), Value::Text("run_queue_unknown".into()));
        assert_eq!(view.host(ColumnId::RunQueueMean), Value::Null);
        assert_eq!(view.cpu(&unknown.cpus[0], ColumnId::RunQueueMean), Value::Null);
        assert_eq!(unknown.run_queue_mean(), None);
        let known = Interval::between(&second, &third);
        assert_eq!((known.flags, known.run_queue_mean()), (Flags::empty(), Some(1.5)));
        assert_eq!(IntervalView::new("h", &known).host(ColumnId::RunQueueMean), Value::Real(1.5));
    }

    #[test]
    fn without_a_row_of_any_cpu_their_sum_is_no_data() {
        let ids = [ColumnId::Switches, ColumnId::RunQueueMax, ColumnId::UnknownNs, ColumnId::SoftirqTimerNs];
        let cells = |cpus| {
            let interval = Interval { fields: Fields::all(), cpus, ..Interval::default() };
            let view = IntervalView::new("h", &interval);
            ids.map(|id| view.host(id) == Value::Null)
        };
        assert_eq!(cells(Vec::new()), [true; 4]);
        assert_eq!(cells(vec![CpuInterval::default()]), [false; 4]);
    }

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
        let end = |bucket| i64::try_from(*delay_range_ns(bucket).end()).ok();
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
