//! [`HostReader`]: one reader of a host's live stream. It decides which snapshot the reader gets next.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Bytes;
use cpumon_model::{HostId, HostStatus};
use cpumon_query::Shown;
use cpumon_query::fleet::age_ns;
use cpumon_query::time::now_ns;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::{HEARTBEAT, Messages, Threads, close, head, heartbeat, number_of};
use crate::app::Shared;

/// A reader further behind than this many snapshots gets the newest one next.
const MAX_BEHIND: u64 = 3;
/// One that comes back gets at most this many of those it missed.
const MAX_BACKLOG: u64 = 120;
/// The bell rings for every host; this reader checks no more often than that.
const RECHECK: Duration = Duration::from_millis(15);

/// One reader of one host.
pub(crate) struct HostReader {
    app: Shared,
    host: HostId,
    threads: Threads,
    /// Number of the last snapshot it got; `None`: it starts with the newest.
    last: Option<u64>,
    /// It came back and gets everything up to this number, one after the other.
    backlog_until: u64,
    bell: watch::Receiver<u64>,
}

impl HostReader {
    /// `last_id`: the id of the last message it got, on an earlier connection.
    pub(crate) fn new(app: Shared, host: HostId, threads: Threads, last_id: Option<&str>) -> Self {
        let newest = app.live.newest(host).map_or(0, |shown| shown.number);
        // A number above the newest is of a host that was forgotten since: the reader starts with the newest.
        let last = last_id.and_then(|id| number_of(id, app.epoch)).filter(|number| *number <= newest);
        let bell = app.live.bell().listen();
        Self { app, host, threads, last, backlog_until: newest, bell }
    }

    /// The snapshot that comes next, and how many were left out before it.
    fn pick(&self) -> Option<(Shown, u64)> {
        let newest = self.app.live.newest(self.host)?;
        let Some(last) = self.last else { return Some((newest, 0)) };
        if newest.number < last {
            // The host was forgotten and is new again.
            return Some((newest, 0));
        }
        let behind = newest.number - last;
        let catches_up = last < self.backlog_until && behind <= MAX_BACKLOG;
        let shown = if behind == 0 {
            return None;
        } else if catches_up || behind <= MAX_BEHIND {
            self.app.live.newer(self.host, last)?
        } else if last < self.backlog_until {
            // `behind` exceeds MAX_BACKLOG here, so this cannot underflow.
            self.app.live.newer(self.host, newest.number - MAX_BACKLOG)?
        } else {
            newest
        };
        let skipped = shown.number.saturating_sub(last + 1);
        Some((shown, skipped))
    }

    fn message(&self, host: &HostStatus, shown: &Shown, skipped: u64) -> VecDeque<Bytes> {
        let encoded = self.app.encoder.of(host, shown);
        let mut pieces =
            VecDeque::from([head("snapshot", self.app.epoch, shown.number), encoded.base(&*self.app.live)]);
        let age_ns = age_ns(host, now_ns());
        pieces.push_back(format!(",\"skipped\":{skipped},\"age_ns\":{age_ns},\"threads\":[").into());
        for (at, table) in encoded.threads(&self.threads).into_iter().enumerate() {
            if at > 0 {
                pieces.push_back(Bytes::from_static(b","));
            }
            pieces.push_back(table);
        }
        pieces.push_back(Bytes::from_static(b"]"));
        pieces.push_back(close());
        pieces
    }
}

impl Messages for HostReader {
    async fn next(&mut self) -> Option<VecDeque<Bytes>> {
        let deadline = Instant::now() + HEARTBEAT;
        loop {
            // Before the check: a ring after it then ends the wait below.
            self.bell.mark_unchanged();
            let host = self.app.live.host(self.host);
            if let Some((host, (shown, skipped))) = host.zip(self.pick()) {
                self.last = Some(shown.number);
                return Some(self.message(&host, &shown, skipped));
            }
            match timeout_at(deadline, self.bell.changed()).await {
                Ok(Ok(())) => sleep(RECHECK).await,
                // The sender of the bell is gone: the receiver stops.
                Ok(Err(_)) => return None,
                Err(_) => return Some(heartbeat()),
            }
        }
    }
}
