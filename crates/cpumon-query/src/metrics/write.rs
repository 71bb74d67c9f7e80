//! What a scrape reads: the samples of each host and of the receiver.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_model::{Fields, HostStatus};

use super::budget::SeriesBudget;
use super::families::Family;
use super::host::{DELAY_POWERS, DelayCounts, HostMetrics, PARTS, Usage};
use super::labels::{Labels, write_label};
use super::options::{MetricsBy, MetricsOptions};
use super::text::{MetricsFormat, Sheet, Value};
use crate::fleet::HostState;
use crate::status::Status;

/// A host with what was counted of it, which the thread that takes its data in shares with scrapes.
pub type CountedHost = (HostStatus, Arc<Mutex<HostMetrics>>);

/// The metrics of all hosts of a receiver.
#[derive(Debug)]
pub struct Metrics {
    options: MetricsOptions,
    pub(super) budget: Arc<SeriesBudget>,
}

impl Metrics {
    /// Metrics without a host.
    pub fn new(options: MetricsOptions) -> Self {
        Self { options, budget: Arc::new(SeriesBudget::new(options.max_series)) }
    }

    /// The counters of a new host; dropping them frees its series.
    pub fn host(&self) -> HostMetrics {
        HostMetrics::new(&self.budget, &self.options)
    }
}

/// The family of CPU time and of ready time of a grouping.
fn families_of(by: MetricsBy) -> (Family, Family) {
    match by {
        MetricsBy::Program => (Family::Cpu, Family::Ready),
        MetricsBy::Service => (Family::ServiceCpu, Family::ServiceReady),
        MetricsBy::Container => (Family::ContainerCpu, Family::ContainerReady),
        MetricsBy::User => (Family::UserCpu, Family::UserReady),
    }
}

/// Host labels: the name of each host, with its id behind it where a host that is trusted more, or was there before, has that name.
fn host_labels(hosts: &[CountedHost]) -> Vec<String> {
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    // Of equal trust by id: a label must not change from one scrape to the next.
    order.sort_by_key(|at| {
        let status = &hosts[*at].0;
        (std::cmp::Reverse(status.trust.rank()), status.info.host)
    });
    let mut labels = vec![String::new(); hosts.len()];
    let mut taken = HashSet::new();
    for at in order {
        let info = &hosts[at].0.info;
        let mut label = String::new();
        write_label(&info.hostname, &mut label);
        if label.is_empty() {
            label = info.host.to_string();
        }
        // More than once only where a host is named after another one's label.
        while !taken.insert(label.clone()) {
            label = format!("{label}#{}", info.host);
        }
        labels[at] = label;
    }
    labels
}

impl Metrics {
    /// The text of a scrape. `wanted`: only the host with this label; samples of the receiver come in any case. `None`: there is no
    /// such host.
    pub fn write(
        &self,
        hosts: &[CountedHost],
        receiver: &Status,
        format: MetricsFormat,
        wanted: Option<&str>,
    ) -> Option<String> {
        let mut sheet = Sheet::new(format);
        let labels = host_labels(hosts);
        if wanted.is_some_and(|name| !labels.iter().any(|label| label == name)) {
            return None;
        }
        let mut left_out = 0;
        for ((status, counted), label) in hosts.iter().zip(&labels) {
            // One host at a time, so that taking in does not wait.
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.see(status);
            if !counted.is_shown {
                left_out += 1;
            } else if wanted.is_none_or(|name| name == label) {
                self.write_host(&counted, status, label, receiver.now_wall_ns, &mut sheet);
            }
        }
        self.write_receiver(receiver, left_out, &mut sheet);
        Some(sheet.finish())
    }

    fn write_receiver(&self, receiver: &Status, left_out: u128, sheet: &mut Sheet) {
        let count = |value: usize| Value::Count(value as u128);
        sheet.add(Family::Receiver, &[("version", &receiver.version)], Value::Count(1));
        sheet.add(Family::StoreBytes, &[], Value::Count(receiver.store.size_bytes.into()));
        sheet.add(Family::KernelDropped, &[], Value::Count(receiver.receiver.kernel_dropped.into()));
        sheet.add(Family::Rejected, &[], Value::Count(receiver.receiver.rejected.into()));
        sheet.add(Family::Series, &[], count(self.budget.used()));
        sheet.add(Family::MaxSeries, &[], count(self.options.max_series));
        sheet.add(Family::HostsLeftOut, &[], Value::Count(left_out));
    }

    fn write_host(&self, of: &HostMetrics, status: &HostStatus, name: &str, now_ns: i64, sheet: &mut Sheet) {
        let host = ("host", name);
        let mut owed = 0_u128;
        for (part, count) in PARTS.iter().zip(&of.parts) {
            sheet.add(Family::HostSeconds, &[host, ("part", part)], Value::Ns(count.shown));
            owed = owed.saturating_add(count.owed);
        }
        sheet.add(Family::Capacity, &[host], Value::Ns(of.capacity.shown));
        sheet.add(Family::Overbooked, &[host, ("of", "host")], Value::Ns(owed));
        for (by, labels) in &of.by {
            self.write_labels(*by, labels, name, of.fields, sheet);
        }
        sheet.add(Family::LeftOut, &[host], Value::Count(of.left_out.into()));
        for (group, sums) in of.limits.iter() {
            let labels = [host, ("container", group)];
            if sums.periods == 0 && sums.limit.is_none() {
                continue;
            }
            sheet.add(Family::Throttled, &labels, Value::Ns(sums.throttled_ns));
            sheet.add(Family::Periods, &labels, Value::Count(sums.periods));
            sheet.add(Family::ThrottledPeriods, &labels, Value::Count(sums.throttled_periods));
            // Those in `(other)` have no limit in common.
            if let Some(limit) = sums.limit.filter(|_| group != crate::report::OTHERS) {
                sheet.add(Family::CpuLimit, &labels, Value::Number(limit));
            }
        }
        if let Some(sum) = of.run_queue {
            sheet.add(Family::RunQueue, &[host], Value::Ns(sum));
        }
        if let Some(delays) = &of.delays {
            write_delays(delays, name, sheet);
        }
        let counts = [
            (Family::SnapshotsLost, &of.snapshots_lost),
            (Family::SnapshotsPartial, &of.snapshots_partial),
            (Family::StoreDropped, &of.store_dropped),
            (Family::ExitsLost, &of.exits_lost),
        ];
        for (family, count) in counts {
            sheet.add(family, &[host], Value::Count(count.sum.into()));
        }
        sheet.add(Family::AgentCpu, &[host], Value::Ns(of.agent_cpu.sum.into()));
        sheet.add(Family::AgentBytes, &[host], Value::Count(of.agent_bytes.into()));
        write_state(status, name, now_ns, sheet);
    }

    fn write_labels(
        &self,
        by: MetricsBy,
        labels: &Labels<Usage>,
        host: &str,
        measured: Fields,
        sheet: &mut Sheet,
    ) {
        let (cpu, ready) = families_of(by);
        let (host, word) = (("host", host), by.name());
        let is_shown = self.options.has_blocked && by == MetricsBy::Program;
        let has_blocked = is_shown && measured.contains(Fields::SCHED);
        let has_ready = measured.contains(Fields::RUN_DELAY);
        let mut owed = labels.ended().cpu.owed();
        for (name, usage) in labels.iter() {
            let label = (word, name);
            let Usage { cpu: time, ready: ready_time, blocked } = usage;
            sheet.add(cpu, &[host, label, ("mode", "user")], Value::Ns(time.user()));
            sheet.add(cpu, &[host, label, ("mode", "system")], Value::Ns(time.system()));
            if time.unknown.shown > 0 {
                sheet.add(cpu, &[host, label, ("mode", "unknown")], Value::Ns(time.unknown.shown));
            }
            if has_ready {
                sheet.add(ready, &[host, label], Value::Ns(ready_time.shown));
            }
            if has_blocked {
                sheet.add(Family::Blocked, &[host, label], Value::Ns(blocked.shown));
            }
            owed = owed.saturating_add(time.owed());
        }
        let ended = labels.ended();
        let (by, time) = (("by", word), [("cpu", ended.cpu.shown()), ("ready", ended.ready.shown)]);
        for (of, ns) in time {
            sheet.add(Family::Ended, &[host, by, ("of", of)], Value::Ns(ns));
        }
        if has_blocked {
            sheet.add(Family::Ended, &[host, by, ("of", "blocked")], Value::Ns(ended.blocked.shown));
        }
        if word == MetricsBy::Program.name() {
            sheet.add(Family::Overbooked, &[host, ("of", "cpu")], Value::Ns(owed));
        }
    }
}

fn write_delays(delays: &DelayCounts, host: &str, sheet: &mut Sheet) {
    let host = ("host", host);
    let mut sum = 0_u128;
    for (count, power) in delays.counts.iter().zip(DELAY_POWERS.map(Some).into_iter().chain([None])) {
        sum = sum.saturating_add((*count).into());
        let bound =
            power.map_or_else(|| "+Inf".to_owned(), |power| ((1_u64 << power) as f64 / 1e9).to_string());
        sheet.add_with(Family::RunDelay, "_bucket", &[host, ("le", &bound)], Value::Count(sum));
    }
    sheet.add_with(Family::RunDelay, "_sum", &[host], Value::Ns(delays.sum.shown));
    sheet.add_with(Family::RunDelay, "_count", &[host], Value::Count(sum));
}

fn write_state(status: &HostStatus, host: &str, now_ns: i64, sheet: &mut Sheet) {
    let host = ("host", host);
    let info = &status.info;
    let state = HostState::of(now_ns.saturating_sub(status.received_wall_ns), info.interval_ns);
    sheet.add(Family::HostUp, &[host], Value::Count(u128::from(state != HostState::Silent)));
    let texts = [&info.kernel, &info.arch, &info.agent];
    let [kernel, arch, agent] = texts.map(|text| {
        let mut label = String::new();
        write_label(text, &mut label);
        label
    });
    let id = info.host.to_string();
    let labels = [
        host,
        ("id", &*id),
        ("kernel", &kernel),
        ("arch", &arch),
        ("agent", &agent),
        ("source", status.source.name()),
        ("trust", status.trust.name()),
    ];
    sheet.add(Family::Host, &labels, Value::Count(1));
}
