//! Cells of an interval's rows: the [`Value`] of any column of [`COLUMNS`](crate::COLUMNS). Exports and SQL tables both read
//! them, so that a name gives the same value everywhere.

use std::borrow::Cow;

use super::events::delay_cell;
use crate::{
    CgroupInterval, CgroupNames, ColumnId, CpuInterval, CpuTimes, DelayOf, Delta, Fields, IntervalView,
    Pressure, ProcessInfo, ProcessInterval, ThreadInterval, Throttle, Value, flag_names,
};

impl<'a> IntervalView<'a> {
    fn delta(&self, id: ColumnId, delta: &Delta) -> Option<Value<'_>> {
        Some(match id {
            ColumnId::UserNs => self.measured(Fields::USER, delta.user_ns),
            ColumnId::SystemNs => self.measured(Fields::SYSTEM, delta.system_ns),
            ColumnId::RunNs => self.measured(Fields::RUN, delta.run_ns),
            ColumnId::RunDelayNs => self.measured(Fields::RUN_DELAY, delta.run_delay_ns),
            ColumnId::VoluntarySwitches => self.measured(Fields::SWITCHES, delta.voluntary_switches),
            ColumnId::InvoluntarySwitches => self.measured(Fields::SWITCHES, delta.involuntary_switches),
            ColumnId::CpuPct if self.interval.fields.contains(Fields::RUN) => {
                self.interval.cpu_pct(delta.run_ns).map_or(Value::Null, Value::Real)
            }
            ColumnId::CpuPct => Value::Null,
            _ => return None,
        })
    }

    fn info<'v>(&'v self, id: ColumnId, info: &'v ProcessInfo) -> Option<Value<'v>> {
        Some(match id {
            ColumnId::Uid => self.known(Value::Int(i64::from(info.uid))),
            ColumnId::User => match info.user_name() {
                Some(name) if self.knows_tasks() => Value::Text(Cow::Borrowed(name)),
                _ => Value::Null,
            },
            ColumnId::Service => Value::cow_or_null(info.service()),
            ColumnId::Pod => Value::cow_or_null(CgroupNames::of(&info.cgroup).pod()),
            ColumnId::Interpreter => Value::text_or_null(&info.interpreter),
            ColumnId::Cgroup => Value::text_or_null(&info.cgroup),
            ColumnId::Container => Value::text_or_null(&info.container),
            ColumnId::Cmdline => Value::text_or_null(&info.cmdline),
            ColumnId::IsKernel => self.known(Value::Int(i64::from(info.is_kernel))),
            ColumnId::Session => info.session.map_or(Value::Null, |number| Value::Int(number.into())),
            ColumnId::PriorityClass => info.priority_class().map_or(Value::Null, Value::Text),
            ColumnId::Product => Value::text_or_null(&info.product),
            _ => return None,
        })
    }

    /// A cell of the process table.
    #[must_use]
    pub fn process<'v>(&'v self, row: &'v ProcessInterval, id: ColumnId) -> Value<'v> {
        match id {
            ColumnId::Pid => Value::Int(i64::from(row.key.pid)),
            ColumnId::Name => Value::Text(Cow::Borrowed(&row.info.name)),
            ColumnId::StartNs => self.known(Value::count(row.key.start_ns)),
            ColumnId::ParentPid => self.known(Value::Int(i64::from(row.parent_pid))),
            ColumnId::ThreadRows => Value::Int(i64::from(row.thread_rows)),
            ColumnId::Life => self.known(Value::Text(Cow::Borrowed(row.life.name()))),
            ColumnId::Flags => Value::Text(Cow::Owned(flag_names(row.flags))),
            _ => self
                .delta(id, &row.delta)
                .or_else(|| self.sched(id, row.flags, &row.sched))
                .or_else(|| self.delays(id, DelayOf::Process(row.key), row.sched.longest_ns()))
                .or_else(|| self.info(id, &row.info))
                .unwrap_or_else(|| self.shared(id)),
        }
    }

    /// A cell of the thread table.
    #[must_use]
    pub fn thread<'v>(&'v self, row: &'v ThreadInterval, id: ColumnId) -> Value<'v> {
        match id {
            ColumnId::Pid => Value::Int(i64::from(row.process.pid)),
            ColumnId::Tid => Value::Int(i64::from(row.key.tid)),
            // A v1 device names no thread: the name stays empty there.
            ColumnId::Name if row.comm.is_empty() => Value::Null,
            ColumnId::Name => Value::Text(row.comm.to_str_lossy()),
            ColumnId::ProcessName => self
                .interval
                .process(row.process)
                .map_or(Value::Null, |process| Value::Text(Cow::Borrowed(&process.info.name))),
            ColumnId::StartNs => self.known(Value::count(row.key.start_ns)),
            ColumnId::State => self.known(Value::Text(Cow::Owned(row.state.letter().to_string()))),
            // Windows has no nice values, and does not say where a thread ran.
            ColumnId::Nice | ColumnId::LastCpu if self.interval.source.is_windows() => Value::Null,
            ColumnId::LastCpu => self.known(Value::Int(i64::from(row.last_cpu))),
            ColumnId::Priority => self.known(Value::Int(i64::from(row.priority))),
            ColumnId::Nice => self.known(Value::Int(i64::from(row.nice))),
            ColumnId::Life => self.known(Value::Text(Cow::Borrowed(row.life.name()))),
            ColumnId::Flags => Value::Text(Cow::Owned(flag_names(row.flags))),
            _ => self
                .delta(id, &row.delta)
                .or_else(|| self.sched(id, row.flags, &row.sched))
                .or_else(|| self.delays(id, DelayOf::Thread(row.process, row.key), row.sched.longest_ns()))
                .or_else(|| self.info(id, &self.interval.process(row.process)?.info))
                .unwrap_or_else(|| self.shared(id)),
        }
    }

    /// A cell of the CPU table.
    #[must_use]
    pub fn cpu(&self, row: &CpuInterval, id: ColumnId) -> Value<'_> {
        match id {
            ColumnId::Cpu => Value::Int(i64::from(row.cpu)),
            ColumnId::WentBack => Value::Int(i64::from(row.went_back)),
            ColumnId::CpuUnattributedNs => Value::Int(row.unattributed_ns(self.interval.duration_ns())),
            _ => cpu_mode(&row.times, id)
                .or_else(|| self.cpu_sched(id, &row.sched))
                .or_else(|| self.delays(id, DelayOf::Cpu(row.cpu), None))
                .unwrap_or_else(|| self.shared(id)),
        }
    }

    /// A cell of the host's interval: the ledger, the CPU modes of all CPUs together, health.
    #[must_use]
    pub fn host(&self, id: ColumnId) -> Value<'_> {
        let interval = self.interval;
        match id {
            ColumnId::BootId => Value::text_or_null(&self.boot),
            ColumnId::Sequence => Value::count(interval.sequence),
            ColumnId::Flags => Value::Text(Cow::Borrowed(&self.flags)),
            ColumnId::ThreadCount => Value::Int(i64::from(interval.thread_count)),
            ColumnId::ProcessCount => Value::Int(i64::from(interval.process_count)),
            ColumnId::PassNs => self.known(Value::count(interval.pass_ns)),
            ColumnId::IntervalTrust => {
                interval.trust.map_or(Value::Null, |trust| Value::Text(Cow::Borrowed(trust.name())))
            }
            ColumnId::V1Ticks => interval.v1_ticks.map_or(Value::Null, Value::Int),
            _ => self
                .ledger(id)
                .or_else(|| self.health(id))
                .or_else(|| self.cpu_sum(id))
                .or_else(|| self.host_limits(id))
                .or_else(|| self.host_sched(id))
                .or_else(|| {
                    let delays = || self.interval.cpu_delays();
                    delay_cell(id)
                        .map(|cell| self.delay(cell, Some(&delays()), self.interval.longest_delay_ns()))
                })
                .unwrap_or_else(|| self.shared(id)),
        }
    }

    fn ledger(&self, id: ColumnId) -> Option<Value<'a>> {
        let ledger = &self.interval.ledger;
        let ns = match id {
            ColumnId::CapacityNs => ledger.capacity_ns,
            ColumnId::LedgerThreadsNs => ledger.threads_ns,
            ColumnId::LedgerExitedNs => ledger.exited_ns,
            ColumnId::LedgerIrqNs => ledger.irq_ns,
            ColumnId::LedgerSoftirqNs => ledger.softirq_ns,
            ColumnId::LedgerStealNs => ledger.steal_ns,
            ColumnId::LedgerIdleNs => ledger.idle_ns,
            ColumnId::UnattributedNs => ledger.unattributed_ns(),
            ColumnId::UnattributedRatio if ledger.capacity_ns != 0 => {
                return Some(Value::Real(ledger.unattributed_ratio()));
            }
            // Without a capacity there is nothing to divide by: no data, not 0.
            ColumnId::UnattributedRatio => return Some(Value::Null),
            ColumnId::IrqInRunTime => return Some(self.known(Value::Int(i64::from(ledger.irq_in_run_time)))),
            _ => return None,
        };
        // Without a capacity only the threads' lines mean anything.
        let is_threads = matches!(id, ColumnId::LedgerThreadsNs | ColumnId::LedgerExitedNs);
        Some(if ledger.capacity_ns == 0 && !is_threads { Value::Null } else { Value::Int(ns) })
    }

    fn health(&self, id: ColumnId) -> Option<Value<'a>> {
        let health = &self.interval.health;
        let count = match id {
            ColumnId::TasksVanished => health.tasks_vanished,
            ColumnId::PermissionDenied => health.permission_denied,
            ColumnId::Malformed => health.malformed,
            ColumnId::ExitsLost => health.exits_lost,
            ColumnId::RingDrops => health.ring_drops,
            ColumnId::ExecsLost => health.execs_lost,
            ColumnId::EndingsLost => health.endings_lost,
            ColumnId::CutsLost => health.cuts_lost,
            ColumnId::HiddenLeftOut => health.hidden_left_out,
            ColumnId::IntervalsLate => health.intervals_late,
            ColumnId::IntervalsSkipped => health.intervals_skipped,
            ColumnId::OwnCpuNs => health.own_cpu_ns,
            ColumnId::OwnRssBytes => health.own_rss_bytes,
            _ => return None,
        };
        Some(self.known(Value::count(count)))
    }

    fn cpu_sum(&self, id: ColumnId) -> Option<Value<'a>> {
        // The 0 to begin with; a column that is no CPU mode ends here.
        let one = cpu_mode(&CpuTimes::default(), id)?;
        // The sum over no CPU is no data, not 0.
        if self.interval.cpus.is_empty() {
            return Some(Value::Null);
        }
        let sum = self.interval.cpus.iter().fold(one, |sum, cpu| match (sum, cpu_mode(&cpu.times, id)) {
            (Value::Int(sum), Some(Value::Int(more))) => Value::Int(sum.saturating_add(more)),
            (sum, _) => sum,
        });
        Some(sum)
    }
}

fn cpu_mode<'a>(times: &CpuTimes, id: ColumnId) -> Option<Value<'a>> {
    times.mode(id).map(Value::count)
}

impl CpuTimes {
    /// The mode that a column shows, ns; `None`: it is no column of a mode.
    #[must_use]
    pub fn mode(&self, id: ColumnId) -> Option<u64> {
        Some(match id {
            ColumnId::CpuUserNs => self.user_ns,
            ColumnId::CpuNiceNs => self.nice_ns,
            ColumnId::CpuSystemNs => self.system_ns,
            ColumnId::CpuIdleNs => self.idle_ns,
            ColumnId::CpuIowaitNs => self.iowait_ns,
            ColumnId::CpuIrqNs => self.irq_ns,
            ColumnId::CpuSoftirqNs => self.softirq_ns,
            ColumnId::CpuStealNs => self.steal_ns,
            ColumnId::CpuGuestNs => self.guest_ns,
            ColumnId::CpuGuestNiceNs => self.guest_nice_ns,
            _ => return None,
        })
    }
}

fn real(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Real)
}

fn count(value: Option<u64>) -> Value<'static> {
    value.map_or(Value::Null, Value::count)
}

fn pressure_cell(pressure: Option<Pressure>, id: ColumnId) -> Option<Value<'static>> {
    match id {
        ColumnId::PressureSomeNs => Some(count(pressure.map(|pressure| pressure.some_ns))),
        ColumnId::PressureFullNs => Some(count(pressure.map(|pressure| pressure.full_ns))),
        _ => None,
    }
}

impl IntervalView<'_> {
    /// A cell of the table of control groups.
    #[must_use]
    pub fn cgroup<'v>(&'v self, row: &'v CgroupInterval, id: ColumnId) -> Value<'v> {
        let throttle = |of: fn(&Throttle) -> u64| count(row.throttle.as_ref().map(of));
        match id {
            ColumnId::CgroupPath => Value::Text(Cow::Borrowed(&row.path)),
            ColumnId::CpuLimit => real(row.limit.cpus()),
            ColumnId::LimitedBy if row.limit.is_limited() => Value::Text(Cow::Borrowed(row.limiter())),
            ColumnId::LimitedBy => Value::Null,
            ColumnId::Periods => throttle(|one| one.periods),
            ColumnId::ThrottledPeriods => throttle(|one| one.throttled_periods),
            ColumnId::ThrottledNs => throttle(|one| one.throttled_ns),
            _ => pressure_cell(row.pressure, id).unwrap_or_else(|| self.shared(id)),
        }
    }

    /// A cell of the host; `None` if the column is another's.
    pub(crate) fn host_limits(&self, id: ColumnId) -> Option<Value<'_>> {
        if id == ColumnId::CgroupsLeftOut {
            return Some(self.measured(Fields::CGROUPS, i64::from(self.interval().cgroups_left_out)));
        }
        pressure_cell(self.interval().pressure, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BootId, CpuLimit, DelayHistogram, Delays, Interval, IrqInterval, Ledger, SchedDelta, SourceKind,
        Tables, Trust, WaitReason, columns,
    };

    #[test]
    fn no_data_is_not_zero() {
        let interval = Interval { fields: Fields::USER, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        let row = ProcessInterval::default();
        assert_eq!(view.process(&row, ColumnId::UserNs), Value::Int(0));
        assert_eq!(view.process(&row, ColumnId::SystemNs), Value::Null);
        assert_eq!(view.host(ColumnId::CpuUserNs), Value::Null);
        assert_eq!(view.host(ColumnId::CapacityNs), Value::Null);
    }

    #[test]
    fn windows_has_no_nice_values_and_no_last_cpu() {
        let cells = |source| {
            let interval = Interval { source, ..Interval::default() };
            let row = ThreadInterval { priority: 8, ..ThreadInterval::default() };
            let view = IntervalView::new("h", &interval);
            [ColumnId::Nice, ColumnId::LastCpu, ColumnId::Priority]
                .map(|id| view.thread(&row, id) == Value::Null)
        };
        assert_eq!(cells(SourceKind::Nt), [true, true, false]);
        assert_eq!(cells(SourceKind::Procfs), [false; 3]);
    }

    #[test]
    fn without_its_probe_a_column_has_no_data() {
        let mut row = ThreadInterval::default();
        row.sched.blocked_ns = 5;
        row.sched.waits.add(WaitReason::DISK, 5);
        let ids = [ColumnId::BlockedNs, ColumnId::WaitReason, ColumnId::WaitNs];
        let cells = |fields| {
            let interval = Interval { fields, ..Interval::default() };
            let view = IntervalView::new("h", &interval);
            ids.map(|id| match view.thread(&row, id) {
                Value::Null => "-".to_string(),
                Value::Int(number) => number.to_string(),
                other => format!("{other:?}"),
            })
        };
        assert_eq!(cells(Fields::RUN), ["-", "-", "-"]);
        assert_eq!(cells(Fields::SCHED), ["5", "-", "-"]);
        assert_eq!(cells(Fields::SCHED | Fields::WAITS), ["5", "Text(\"disk\")", "5"]);
    }

    #[test]
    fn every_column_of_an_interval_table_gives_a_value() {
        let mut interval = Interval {
            fields: Fields::all(),
            source: SourceKind::Bpf,
            boot: BootId([1; 16]),
            v1_ticks: Some(1),
            cpus: vec![CpuInterval::default(); 2],
            ledger: Ledger { capacity_ns: 1, ..Ledger::default() },
            trust: Some(Trust::Local),
            pressure: Some(Pressure::default()),
            ..Interval::default()
        };
        interval.end.mono_ns = 1;
        let text = || "x".into();
        let info = ProcessInfo {
            cgroup: "/kubepods/pod3cac3187-5e77-11ea-9c85-2c600c7b896a/x.service".into(),
            container: text(),
            cmdline: text(),
            interpreter: text(),
            session: Some(1),
            base_priority: Some(8),
            product: text(),
            ..ProcessInfo::default()
        };
        let process = ProcessInterval { info: info.into(), ..ProcessInterval::default() };
        let mut sched = SchedDelta { open_wait: WaitReason::DISK, ..SchedDelta::default() };
        sched.waits.add(WaitReason::DISK, 1);
        let thread = ThreadInterval { comm: "x".into(), sched, ..ThreadInterval::default() };
        let process = ProcessInterval { sched, ..process };
        interval.processes.push(process.clone());
        let histogram = std::sync::Arc::new(DelayHistogram::from_iter([(9, 1)]));
        let owners =
            [DelayOf::Cpu(0), DelayOf::Process(process.key), DelayOf::Thread(process.key, thread.key)];
        interval.delays = owners.map(|of| Delays { of, histogram: histogram.clone() }).into();
        let view = IntervalView::new("h", &interval);
        for column in columns(Tables::PROCESS_INTERVAL) {
            assert_ne!(view.process(&process, column.id), Value::Null, "{}", column.name);
        }
        for column in columns(Tables::THREAD_INTERVAL) {
            assert_ne!(view.thread(&thread, column.id), Value::Null, "{}", column.name);
        }
        for column in columns(Tables::WAIT_INTERVAL) {
            let cell = view.wait(&thread, WaitReason::DISK, 1, column.id);
            assert_ne!(cell, Value::Null, "{}", column.name);
        }
        for column in columns(Tables::IRQ_INTERVAL) {
            assert_ne!(view.irq(&IrqInterval::default(), column.id), Value::Null, "{}", column.name);
        }
        for column in columns(Tables::CPU_INTERVAL) {
            assert_ne!(view.cpu(&CpuInterval::default(), column.id), Value::Null, "{}", column.name);
        }
        for column in columns(Tables::HOST_INTERVAL) {
            assert_ne!(view.host(column.id), Value::Null, "{}", column.name);
        }
    }

    fn cells<'v>(view: &'v IntervalView<'_>, row: &'v CgroupInterval) -> [Value<'v>; 4] {
        let ids = [ColumnId::CpuLimit, ColumnId::LimitedBy, ColumnId::ThrottledNs, ColumnId::PressureSomeNs];
        ids.map(|id| view.cgroup(row, id))
    }

    #[test]
    fn no_limit_no_data_and_zero_have_different_cells() {
        let interval = Interval { fields: Fields::CGROUPS, cgroups_left_out: 2, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        let known = CgroupInterval {
            path: "/a/b".into(),
            limit: CpuLimit::Millionths(500_000),
            limiter_bytes: 2,
            throttle: Some(Throttle::default()),
            pressure: Some(Pressure { some_ns: 7, full_ns: 0 }),
            ..CgroupInterval::default()
        };
        let expected = [Value::Real(0.5), Value::Text("/a".into()), Value::Int(0), Value::Int(7)];
        assert_eq!(cells(&view, &known), expected);
        let unlimited = CgroupInterval { limit: CpuLimit::Unlimited, ..CgroupInterval::default() };
        assert!(cells(&view, &unlimited).iter().all(|cell| *cell == Value::Null));
        assert_eq!(view.host(ColumnId::CgroupsLeftOut), Value::Int(2));
        assert_eq!(view.host(ColumnId::PressureSomeNs), Value::Null);
    }
}
