//! What measuring costs and what was lost, in words.

use cpumon_model::{Fields, Interval, LossCounts, SourceHealth};

use crate::app::App;
use crate::columns::NONE;
use crate::text::rate;

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

/// Everything that was lost or not measured, with its count. Zero counts are left out.
pub(crate) fn losses(loss: Option<&LossCounts>, health: &SourceHealth) -> Vec<String> {
    let loss = loss.copied().unwrap_or_default();
    let counts = [
        (loss.snapshots_lost, "snapshots lost"),
        (loss.snapshots_partial, "partial"),
        (loss.rejected, "rejected"),
        (loss.store_dropped, "not stored"),
        (loss.duplicates, "doubled"),
        (loss.reordered, "reordered"),
        (health.exits_lost, "exits lost"),
        (health.intervals_skipped, "intervals skipped"),
        (health.intervals_late, "late"),
        (health.permission_denied, "denied"),
        (health.malformed, "malformed"),
        (health.sched_missed_switches, "switches missed"),
        (health.wakeups_unknown, "wakeups unknown"),
        (health.sched_untracked, "threads untracked"),
        (health.histogram_drops, "run delays in no histogram"),
        (health.ring_drops.saturating_sub(health.exits_lost), "other events lost"),
        (health.hidden_left_out, "hidden threads left out"),
    ];
    counts.into_iter().filter(|row| row.0 > 0).map(|(count, what)| format!("{count} {what}")).collect()
}
