//! One line a second about a running receiver, for output that is no terminal.

use std::fmt::Write;
use std::sync::Arc;

use cpumon_model::{HostStatus, Interval, LossCounts, Trust, escape};
use cpumon_query::{Live, status};
use cpumon_receiver::hub::Hub;
use jiff::Timestamp;

/// Processes named in a line.
const NAMED: usize = 3;

/// Makes the lines.
#[derive(Debug)]
pub struct SecondLines {
    hub: Arc<Hub>,
}

impl SecondLines {
    /// Lines about this hub.
    #[must_use]
    pub fn new(hub: Arc<Hub>) -> Self {
        Self { hub }
    }

    /// The line of this moment.
    #[must_use]
    pub fn line(&self, now_wall_ns: i64) -> String {
        let (hosts, status) = (self.hub.hosts(), self.hub.status());
        let threads: u64 = hosts.iter().map(|host| u64::from(host.thread_count)).sum();
        let receiver = &status.receiver;
        let mut line = format!(
            "{} hosts {} threads {threads} datagrams {} lost {} rejected {} {}",
            Timestamp::from_second(now_wall_ns.div_euclid(1_000_000_000)).unwrap_or_default(),
            hosts.len(),
            receiver.datagrams,
            receiver.kernel_dropped + hosts.iter().map(|host| lost(&host.loss)).sum::<u64>(),
            receiver.rejected,
            store(&status.store),
        );
        for host in hosts.iter().filter(|host| host.trust == Trust::Local) {
            if let Some(shown) = self.hub.newest(host.info.host) {
                line.push_str(&busiest(host, &shown.interval));
            }
        }
        line
    }
}

fn lost(loss: &LossCounts) -> u64 {
    loss.snapshots_lost + loss.snapshots_partial
}

fn store(store: &status::Store) -> String {
    match store.state {
        status::StoreState::None => "store none".to_owned(),
        status::StoreState::Ok => format!("stored {} dropped {}", store.written, store.dropped),
        status::StoreState::Failing => {
            format!("NOT STORING ({}) dropped {}", escape(&store.error), store.dropped)
        }
    }
}

/// ` | vm: 34 %host, cargo 120 %CPU, …`
fn busiest(host: &HostStatus, interval: &Interval) -> String {
    let busy_ns = interval.ledger.threads_ns.saturating_add(interval.ledger.exited_ns);
    let mut text = format!(" | {}:", escape(&host.info.hostname));
    if let Some(pct) = interval.host_pct(busy_ns) {
        let _ = write!(text, " {pct:.0} %host");
    }
    let mut rows: Vec<_> = interval.processes.iter().filter(|row| row.delta.run_ns > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.delta.run_ns));
    for row in rows.iter().take(NAMED) {
        let pct = interval.cpu_pct(row.delta.run_ns).unwrap_or(0.0);
        let _ = write!(text, ", {} {pct:.1} %CPU", escape(&row.info.name));
    }
    text
}
