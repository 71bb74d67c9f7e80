//! The agent's line of log every minute: its own cost, its traffic, and its errors.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cpumon_link::SendStats;
use cpumon_model::SourceHealth;

use crate::connection::ConnectionTotals;
use crate::recorder::RecordingTotals;

/// Time between two log lines.
const EVERY: Duration = Duration::from_mins(1);

/// Counts of the agent, cumulative since it started.
#[derive(Clone, Debug, Default)]
pub struct AgentTotals {
    pub snapshots: u64,
    /// Passes that failed.
    pub failed: u64,
    pub sent: SendStats,
    pub connection: Option<ConnectionTotals>,
    pub recording: Option<RecordingTotals>,
    /// Losses of the source, and the cost of the agent.
    pub health: SourceHealth,
    /// Threads alive now.
    pub threads: u32,
}

/// Formats log lines about the time since the last line.
pub struct Reporter {
    last: AgentTotals,
    at: Instant,
}

impl Reporter {
    /// The first line is due one minute after `now`.
    pub fn new(now: Instant) -> Self {
        Self { last: AgentTotals::default(), at: now }
    }

    /// The line about the time since the one before, when it is due.
    pub fn line_if_due(&mut self, totals: &AgentTotals, now: Instant) -> Option<String> {
        (now.saturating_duration_since(self.at) >= EVERY).then(|| self.line(totals, now))
    }

    /// The line about the time since the one before.
    pub fn line(&mut self, totals: &AgentTotals, now: Instant) -> String {
        let length = now.saturating_duration_since(self.at);
        let line = describe(totals, &self.last, length);
        (self.last, self.at) = (totals.clone(), now);
        line
    }
}

fn describe(now: &AgentTotals, then: &AgentTotals, length: Duration) -> String {
    let snapshots = now.snapshots - then.snapshots;
    let own_ns = now.health.own_cpu_ns.saturating_sub(then.health.own_cpu_ns);
    let cpu_pct = own_ns as f64 * 100.0 / (length.as_nanos() as f64).max(1.0);
    let each_ms = own_ns as f64 / 1e6 / (snapshots as f64).max(1.0);
    let mut line = format!(
        "{snapshots} snapshots of {} threads; own cost {cpu_pct:.2} % of one CPU, {each_ms:.2} ms a snapshot, \
         {:.1} MB",
        now.threads,
        now.health.own_rss_bytes as f64 / 1e6,
    );
    let datagrams = now.sent.datagrams - then.sent.datagrams;
    // Where datagrams are not an output, `sent 0 datagrams` would read as a failure.
    if datagrams > 0 || (now.recording.is_none() && now.connection.is_none()) {
        // Writing to a String cannot fail.
        let kilobytes = (now.sent.bytes - then.sent.bytes) as f64 / 1e3;
        let _ = write!(line, "; sent {datagrams} datagrams, {kilobytes:.1} kB");
    }
    if let Some(connection) = &now.connection {
        let _ = write!(line, "; {}", connection.line(&then.connection.clone().unwrap_or_default(), length));
    }
    if let Some(recording) = &now.recording {
        let _ = write!(line, "; {}", recording.line(&then.recording.clone().unwrap_or_default(), length));
    }
    for (name, before, count) in troubles(now, then) {
        if count > before {
            let _ = write!(line, "; {name} {}", count - before);
        }
    }
    if now.sent.errors - now.sent.unresolved > then.sent.errors - then.sent.unresolved {
        let kinds: Vec<String> = now.sent.by_kind().map(|(kind, count)| format!("{count}x {kind}")).collect();
        let _ = write!(line, " (since the start: {})", kinds.join(", "));
    }
    line
}

/// Counts that are reported when they grew. Send errors come last, because their kinds follow them in the line.
fn troubles(now: &AgentTotals, then: &AgentTotals) -> [(&'static str, u64, u64); 11] {
    let (health, before) = (&now.health, &then.health);
    [
        ("failed passes", then.failed, now.failed),
        ("late", before.intervals_late, health.intervals_late),
        ("skipped", before.intervals_skipped, health.intervals_skipped),
        ("not permitted", before.permission_denied, health.permission_denied),
        ("malformed", before.malformed, health.malformed),
        ("exit records lost", before.exits_lost, health.exits_lost),
        ("exec events lost", before.execs_lost, health.execs_lost),
        ("ending events lost", before.endings_lost, health.endings_lost),
        ("cut events lost", before.cuts_lost, health.cuts_lost),
        ("not sent, name without an address", then.sent.unresolved, now.sent.unresolved),
        ("send errors", then.sent.errors - then.sent.unresolved, now.sent.errors - now.sent.unresolved),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(snapshots: u64, own_cpu_ns: u64, intervals_late: u64) -> AgentTotals {
        let health =
            SourceHealth { own_cpu_ns, own_rss_bytes: 8_200_000, intervals_late, ..SourceHealth::default() };
        AgentTotals { snapshots, health, threads: 1203, ..AgentTotals::default() }
    }

    #[test]
    fn the_line_is_about_the_last_minute_only() {
        let start = Instant::now();
        let mut reporter = Reporter::new(start);
        assert_eq!(reporter.line_if_due(&totals(59, 60_000_000, 2), start + EVERY / 2), None);
        reporter.line(&totals(60, 60_000_000, 2), start + EVERY);
        let line = reporter.line_if_due(&totals(120, 180_000_000, 3), start + EVERY * 2).unwrap();
        assert_eq!(
            line,
            "60 snapshots of 1203 threads; own cost 0.20 % of one CPU, 2.00 ms a snapshot, 8.2 MB; \
             sent 0 datagrams, 0.0 kB; late 1"
        );
    }

    #[test]
    fn a_minute_without_errors_lists_none() {
        let mut reporter = Reporter::new(Instant::now());
        let line = reporter.line(&totals(1, 1, 0), Instant::now());
        assert!(!line.contains("late") && !line.contains("errors"), "{line}");
    }
}
