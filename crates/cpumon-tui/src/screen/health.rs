//! Problems in words: the cost of measuring, losses, and CPU limits. A quota that is used up slows its tasks down, and no
//! run queue shows it.

use cpumon_model::{
    CgroupInterval, CgroupNames, ColumnId, Fields, GroupLimits, Interval, LossCounts, Pressure, SourceHealth,
    SourceKind, Throttle, Trust, counted,
};

use crate::app::App;
use crate::cells::{Cells, NONE};
use crate::rows::Item;
use crate::text::{clip, percent, rate, safe, seconds};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LossKind {
    /// Data is missing because of each one.
    CostsData,
    /// Data is missing while it lasts: not a sum since the start.
    CostsNow,
    /// Normal, or made up for.
    Normal,
}

pub(crate) struct Loss {
    pub name: &'static str,
    count: fn(&LossCounts, &SourceHealth) -> u64,
    pub kind: LossKind,
    pub help: &'static str,
}

/// The table of losses, those that cost data first: kind, name, count, help.
macro_rules! losses {
    ($($kind:ident $name:literal: $count:expr, $help:literal;)*) => {
        /// All kinds of losses; those that cost data first.
        pub(crate) const LOSSES: [Loss; 19] =
            [$(Loss { name: $name, count: $count, kind: LossKind::$kind, help: $help }),*];
    };
}

losses! {
    CostsData "snapshots lost": |loss, _| loss.snapshots_lost,
        "never arrived: the next interval covers their time";
    CostsData "partial": |loss, _| loss.snapshots_partial,
        "parts of a snapshot never arrived; the rest was used";
    CostsData "rejected": |loss, _| loss.rejected, "datagrams that could not be decoded";
    CostsData "not stored": |loss, _| loss.store_dropped,
        "intervals that the store was too slow or too full for";
    CostsData "exits lost": |_, health| health.exits_lost,
        "ended threads whose last counters did not fit a buffer";
    CostsData "intervals skipped": |_, health| health.intervals_skipped,
        "the pass before was still running: the next interval covers both";
    CostsData "malformed": |_, health| health.malformed, "records of the kernel that made no sense";
    CostsData "threads untracked": |_, health| health.sched_untracked,
        "too many threads for the switch events: counters of the kernel in their place, no wait reasons";
    CostsData "run delays in no histogram": |_, health| health.histogram_drops,
        "too many histograms: percentiles lack them, sums do not";
    CostsData "other events lost": |_, health| health.ring_drops.saturating_sub(health.exits_lost),
        "new names and endings that did not fit a buffer: they are seen a pass later";
    CostsNow "hidden threads left out": |_, health| health.hidden_left_out,
        "threads that BPF does not see, too many to read from /proc";
    Normal "doubled": |loss, _| loss.duplicates, "datagrams that arrived twice count once";
    Normal "reordered": |loss, _| loss.reordered, "datagrams that arrived after a later one were sorted in";
    Normal "late": |_, health| health.intervals_late, "passes that began late: rates use the measured length";
    Normal "denied": |_, health| health.permission_denied,
        "files of /proc that the kernel does not show, such as /proc/1/exe";
    Normal "switches missed": |_, health| health.sched_missed_switches,
        "switch events that did not arrive: the next one corrects the thread, its time is in *unknown*";
    Normal "wakeups unknown": |_, health| health.wakeups_unknown,
        "waits without a wakeup event count as blocked, not as ready";
    Normal "run queues unknown": |_, health| health.run_queue_unknown,
        "intervals with lost events, whose run queue is not shown";
    Normal "wakers unknown": |_, health| health.wakers_unknown,
        "waits of which it is not known who ended them: too many pairs of processes, or the end of one was lost";
}

/// Cost of measuring: CPU since an earlier interval in percent of one CPU, and memory. The process of cpumon is an ordinary row too.
pub(crate) fn own_cost(app: &App, shown: &Interval) -> Option<String> {
    let health = &shown.health;
    if health.own_rss_bytes == 0 {
        return None;
    }
    let share = app.recent.before(shown.end.wall_ns).and_then(|earlier| {
        let used_ns = health.own_cpu_ns.checked_sub(earlier.health.own_cpu_ns)?;
        let length_ns = shown.end.mono_ns.checked_sub(earlier.end.mono_ns).filter(|length| *length > 0)?;
        (earlier.boot == shown.boot).then(|| used_ns as f64 * 100.0 / length_ns as f64)
    });
    let share = share.map_or(String::new(), |percent| format!(" {percent:.1} %CPU"));
    let events = events_per_sec(shown).map_or(String::new(), |events| format!(" {} ev/s", rate(events)));
    Some(format!("cpumon itself{share} {:.0} MB{events}", health.own_rss_bytes as f64 / 1e6))
}

/// Events per second that the probes handled: switches and interrupts. `None` if the source has no probes.
pub fn events_per_sec(shown: &Interval) -> Option<f64> {
    let is_known = shown.fields.contains(Fields::SCHED) && shown.duration_ns() > 0;
    let interrupts = shown.irqs.iter().map(|irq| irq.count).fold(0, u64::saturating_add);
    let events = shown.cpu_sched().switches.saturating_add(interrupts);
    is_known.then(|| events as f64 * 1e9 / shown.duration_ns() as f64)
}

/// The mean number of tasks running or ready on all CPUs, weighted by time, and the longest queue of one CPU.
pub(crate) fn run_queue(shown: &Interval) -> String {
    let mean = shown.run_queue_mean().map_or_else(|| NONE.to_string(), |mean| format!("{mean:.2}"));
    format!("run queue {mean}, longest {}", shown.cpu_sched().run_queue_max)
}

/// Why this machine is not measured by BPF, and how to get it; these words come first, where a narrow screen does not cut them.
pub(crate) fn no_bpf(app: &App, shown: &Interval) -> Option<String> {
    let status = app.status().filter(|status| status.trust == Trust::Local)?;
    let is_missing =
        shown.source == SourceKind::Procfs && status.info.source_reason.starts_with("procfs: no BPF");
    is_missing.then(|| "no BPF: run as root, or see cpumon doctor".to_string())
}

/// Processes that the host's source cannot see: half of the capacity may be *unattributed* then.
pub(crate) fn hidden_processes(app: &App) -> Option<String> {
    app.status()?.info.hidden_processes().map(str::to_owned)
}

/// Data that was lost in the minute before the interval on screen, and where it is explained. A healthy host has none.
pub(crate) fn losses_now(app: &App, shown: &Interval) -> Vec<String> {
    let Some((earlier, now)) = app.counts.minute_before(shown) else { return Vec::new() };
    let lost = LOSSES.iter().filter_map(|loss| {
        let [before, after] = [earlier, now].map(|counts| (loss.count)(&counts.loss, &counts.health));
        let (count, rate) = match loss.kind {
            // The device was started again where a count is smaller than it was.
            LossKind::CostsData => (after.checked_sub(before).unwrap_or(after), "/min"),
            LossKind::CostsNow => (after, ""),
            LossKind::Normal => return None,
        };
        (count > 0).then(|| format!("{count} {}{rate}", loss.name))
    });
    let mut lost: Vec<String> = lost.collect();
    if let Some(last) = lost.last_mut() {
        last.push_str(" (? explains)");
    }
    lost
}

/// Losses of an agent since its start, in the words of the header: first those that cost data, then those that are normal
/// or made up for.
pub fn losses_of_agent(health: &SourceHealth) -> [Vec<String>; 2] {
    [false, true].map(|is_normal| {
        losses(&LossCounts::default(), health, |kind| (kind == LossKind::Normal) == is_normal)
    })
}

/// Losses of these kinds since the start, with counts. Zero counts are left out.
pub(crate) fn losses(
    loss: &LossCounts,
    health: &SourceHealth,
    is_meant: impl Fn(LossKind) -> bool,
) -> Vec<String> {
    let meant = LOSSES.iter().filter(|one| is_meant(one.kind));
    counted(meant.map(|one| ((one.count)(loss, health), one.name)))
}

/// Most terminal columns of a group's name in the header.
const NAME_COLUMNS: usize = 24;

fn seconds_of(ns: u64) -> String {
    format!("{} s", seconds(i64::try_from(ns).unwrap_or(i64::MAX)))
}

/// Name of the group that has the limit: its container or service, else its path.
fn name_of(row: &CgroupInterval) -> String {
    let path = row.limiter();
    let name = CgroupNames::of(path).container_or_service();
    safe(if name.is_empty() { path } else { &name })
}

/// The limit that cost most time in the interval, and how many others were reached. `None`: none was.
pub(crate) fn used_up_quota(shown: &Interval, cut: char) -> Option<String> {
    let rows = shown.throttled();
    let (first, others) = rows.split_first()?;
    let share = first.throttle.and_then(Throttle::percent)?;
    let name = clip(&name_of(first), NAME_COLUMNS, cut);
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    Some(format!("CPU limit reached: {name} in {share:.0}% of periods{others}"))
}

/// Pressure as the share of the interval in which something waited for a CPU.
pub(crate) fn pressure(shown: &Interval, pressure: Pressure) -> String {
    let share = i64::try_from(pressure.some_ns).ok().and_then(|ns| shown.cpu_pct(ns));
    let share = share.map_or(String::new(), |share| format!(" ({}% of the interval)", percent(share, false)));
    format!("something waited for a CPU for {}{share}", seconds_of(pressure.some_ns))
}

/// The limit of a row, how it was reached, and its pressure; nothing where there is neither.
pub(crate) fn about_limits(cells: &Cells<'_>, item: &Item<'_>) -> Vec<(&'static str, String)> {
    let Some(limits) = cells.limits(item) else { return Vec::new() };
    let mut entries = Vec::new();
    if let Some(cpus) = limits.limit.cpus() {
        let by = limiter(cells.interval, item).map_or(String::new(), |name| format!(", set for {name}"));
        let limit = format!("{} CPU{by}", percent(cpus, true));
        let limit = match share_of_limit(cells, item, cpus) {
            Some(share) => format!("{share:.0}% of {limit}"),
            None => limit,
        };
        entries.push(("CPU limit", limit));
        entries.push(("throttled", throttled(&limits)));
    }
    let of_group = limits.pressure.map(|some| pressure(cells.interval, some));
    entries.extend(of_group.map(|text| ("pressure", text)));
    entries
}

/// Utilization of a process or a thread in percent of its limit. `None`: not measured, or a sum of several, which may have several limits.
fn share_of_limit(cells: &Cells<'_>, item: &Item<'_>, cpus: f64) -> Option<f64> {
    let is_one = !matches!(item, Item::Group(_)) && !cells.is_sum(item);
    let run_ns = cells.int(item, ColumnId::RunNs).filter(|_| is_one && cpus > 0.0)?;
    Some(cells.interval.cpu_pct(run_ns)? / cpus)
}

fn throttled(limits: &GroupLimits) -> String {
    let Some(throttle) = limits.throttle else { return "not known yet".into() };
    let Throttle { periods, throttled_periods, throttled_ns } = throttle;
    format!("{}, CPU limit reached in {throttled_periods} of {periods} periods", seconds_of(throttled_ns))
}

/// Name of the group that has the limit; a group of rows may have several.
fn limiter(interval: &Interval, item: &Item<'_>) -> Option<String> {
    interval.cgroup(&item.process(interval)?.info.cgroup).map(name_of)
}

#[cfg(test)]
mod tests {
    use cpumon_model::CpuLimit;

    use super::*;

    fn group(path: &str, throttled_periods: u64) -> CgroupInterval {
        CgroupInterval {
            path: path.into(),
            limit: CpuLimit::Millionths(500_000),
            limiter_bytes: u16::MAX,
            throttle: Some(Throttle { periods: 10, throttled_periods, throttled_ns: throttled_periods * 7 }),
            ..CgroupInterval::default()
        }
    }

    #[test]
    fn only_a_limit_that_was_reached_is_in_the_header() {
        let shown = |cgroups| Interval { cgroups, ..Interval::default() };
        assert_eq!(used_up_quota(&shown(vec![group("/a", 0)]), '~'), None);
        let one = shown(vec![group("/system.slice/web.service", 4), group("/b", 0)]);
        assert_eq!(used_up_quota(&one, '~').unwrap(), "CPU limit reached: web.service in 40% of periods");
        let two = shown(vec![group("/a", 3), group("/a\u{1b}[2J-name-that-is-longer-than-others", 9)]);
        let text = used_up_quota(&two, '~').unwrap();
        assert_eq!(text, "CPU limit reached: /a\\x1b[2J-name-that-is-~ in 90% of periods and 1 more");
    }
}
