//! What measuring costs and what was lost, in words.

use cpumon_model::{Fields, Interval, LossCounts, SourceHealth, SourceKind, Trust};

use crate::app::App;
use crate::columns::NONE;
use crate::text::rate;

/// What a loss means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LossKind {
    /// Data is missing because of each one.
    CostsData,
    /// Data is missing while it lasts: not a sum since the start.
    CostsNow,
    /// Normal, or made up for.
    Normal,
}

/// Something that can be lost while measuring.
pub(crate) struct Loss {
    /// What the count counts.
    pub name: &'static str,
    count: fn(&LossCounts, &SourceHealth) -> u64,
    pub kind: LossKind,
    /// For the help.
    pub help: &'static str,
}

const fn costs(name: &'static str, count: fn(&LossCounts, &SourceHealth) -> u64, help: &'static str) -> Loss {
    Loss { name, count, kind: LossKind::CostsData, help }
}

const fn normal(
    name: &'static str,
    count: fn(&LossCounts, &SourceHealth) -> u64,
    help: &'static str,
) -> Loss {
    Loss { name, count, kind: LossKind::Normal, help }
}

/// Everything that can be lost; what costs data first.
pub(crate) const LOSSES: [Loss; 17] = [
    costs(
        "snapshots lost",
        |loss, _| loss.snapshots_lost,
        "never arrived: the next interval covers their time",
    ),
    costs(
        "partial",
        |loss, _| loss.snapshots_partial,
        "parts of a snapshot never arrived; the rest was used",
    ),
    costs("rejected", |loss, _| loss.rejected, "datagrams that could not be decoded"),
    costs(
        "not stored",
        |loss, _| loss.store_dropped,
        "intervals that the store was too slow or too full for",
    ),
    costs(
        "exits lost",
        |_, health| health.exits_lost,
        "ended threads whose last counters did not fit a buffer",
    ),
    costs(
        "intervals skipped",
        |_, health| health.intervals_skipped,
        "the pass before was still running: the next interval covers both",
    ),
    costs("malformed", |_, health| health.malformed, "records of the kernel that made no sense"),
    costs(
        "threads untracked",
        |_, health| health.sched_untracked,
        "too many threads for the switch events: counters of the kernel in their place, no wait reasons",
    ),
    costs(
        "run delays in no histogram",
        |_, health| health.histogram_drops,
        "too many histograms: percentiles lack them, sums do not",
    ),
    costs(
        "other events lost",
        |_, health| health.ring_drops.saturating_sub(health.exits_lost),
        "new names and endings that did not fit a buffer: they are seen a pass later",
    ),
    Loss {
        name: "hidden threads left out",
        count: |_, health| health.hidden_left_out,
        kind: LossKind::CostsNow,
        help: "threads that BPF does not see, too many to read from /proc",
    },
    normal("doubled", |loss, _| loss.duplicates, "datagrams that arrived twice count once"),
    normal("reordered", |loss, _| loss.reordered, "datagrams that arrived after a later one were sorted in"),
    normal(
        "late",
        |_, health| health.intervals_late,
        "passes that began late: rates use the measured length",
    ),
    normal(
        "denied",
        |_, health| health.permission_denied,
        "files of /proc that the kernel does not show, such as /proc/1/exe",
    ),
    normal(
        "switches missed",
        |_, health| health.sched_missed_switches,
        "switch events that did not arrive: the next one corrects the thread, its time is in *unknown*",
    ),
    normal(
        "wakeups unknown",
        |_, health| health.wakeups_unknown,
        "waits without a wakeup event count as blocked, not as ready",
    ),
];

/// What measuring costs: CPU since an earlier interval in percent of one CPU, and memory. The process of cpumon is an ordinary row
/// too.
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
pub(crate) fn events_per_sec(shown: &Interval) -> Option<f64> {
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

/// What the host's source does not see at all: half of the capacity may be *unattributed* then.
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

/// What an agent could not measure since its start, in the words of the header: what costs data, and what is normal or made up for.
#[must_use]
pub fn losses_of_agent(health: &SourceHealth) -> [Vec<String>; 2] {
    let loss = LossCounts::default();
    [false, true].map(|is_normal| {
        let of_kind = LOSSES.iter().filter(|one| (one.kind == LossKind::Normal) == is_normal);
        let counts = of_kind.map(|one| ((one.count)(&loss, health), one.name));
        counts.filter(|row| row.0 > 0).map(|(count, name)| format!("{count} {name}")).collect()
    })
}

/// Everything that was lost or not measured since the start, with its count. Zero counts are left out.
pub(crate) fn losses(loss: &LossCounts, health: &SourceHealth) -> Vec<String> {
    let counts = LOSSES.iter().map(|one| ((one.count)(loss, health), one.name));
    counts.filter(|row| row.0 > 0).map(|(count, name)| format!("{count} {name}")).collect()
}
