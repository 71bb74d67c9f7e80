//! A share of the queue: what waits of the hosts that are trusted, or of all others. What the others send, and how many they
//! are, must neither delay nor displace what comes from trusted hosts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use cpumon_model::{HostId, HostInfo, LossCounts, Recent, Trust, bytes_of_info, bytes_of_rows};

use super::receipt::ReceiptRequest;
use crate::writer::{ActiveCopy, ListSchedule, ReportedGap, Seeded};

/// Hosts of a share of which something is remembered.
const MAX_HOSTS: usize = 8_192;
/// A longer description is not remembered: each interval brings one along, and strangers choose its length.
const MAX_INFO_BYTES: usize = 1_024;

/// An interval that waits for the writer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) info: Arc<HostInfo>,
    pub(super) trust: Trust,
    pub(super) loss: Option<LossCounts>,
    pub(super) copy: ActiveCopy,
    /// In place of the interval: a hole that the device reports.
    pub(super) gap: Option<ReportedGap>,
    pub(super) receipt: Option<ReceiptRequest>,
    pub(super) received_wall_ns: i64,
    pub(super) received: Instant,
    /// Its memory.
    pub(super) bytes: usize,
}

/// How much of something: what waits, or what may be taken at once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) intervals: usize,
    pub(super) bytes: usize,
}

impl Amount {
    /// One part of it in `parts`.
    pub(super) fn part(self, parts: usize) -> Self {
        Self { intervals: self.intervals / parts, bytes: self.bytes / parts }
    }

    /// The same with at most so many bytes.
    pub(super) fn with_bytes_below(self, most: usize) -> Self {
        Self { bytes: self.bytes.min(most), ..self }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { intervals: self.intervals + other.intervals, bytes: self.bytes + other.bytes }
    }

    /// What is left of it after `used`.
    pub(super) fn less(self, used: Self) -> Self {
        Self {
            intervals: self.intervals.saturating_sub(used.intervals),
            bytes: self.bytes.saturating_sub(used.bytes),
        }
    }

    /// The larger of both numbers.
    pub(super) fn or_at_least(self, least: Self) -> Self {
        Self { intervals: self.intervals.max(least.intervals), bytes: self.bytes.max(least.bytes) }
    }

    /// Whether one more interval of so many bytes fits into `limit`.
    pub(super) fn has_space(self, bytes: usize, limit: Self) -> bool {
        self.intervals < limit.intervals && self.bytes + bytes <= limit.bytes
    }
}

/// What waits of some hosts, and what is remembered of them.
#[derive(Debug)]
pub(super) struct Share {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// With which intervals the rows of idle processes go along.
    pub(super) lists: ListSchedule,
    infos: Recent<HostId, Arc<HostInfo>, Seeded>,
    /// Intervals that were not stored, cumulative.
    dropped: Recent<HostId, u64, Seeded>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            lists: ListSchedule::default(),
            infos: Recent::new(MAX_HOSTS),
            dropped: Recent::new(MAX_HOSTS),
        }
    }
}

impl Share {
    /// What waits.
    pub(super) fn amount(&self) -> Amount {
        Amount { intervals: self.entries.len(), bytes: self.bytes }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    /// Moves what waited longest to `batch`, up to `limit`, but one interval in any case. Gives what it moved.
    pub(super) fn take(&mut self, limit: Amount, batch: &mut Vec<Entry>) -> Amount {
        let mut taken = Amount::default();
        while let Some(entry) = self.entries.front() {
            if taken.intervals > 0 && !taken.has_space(entry.bytes, limit) {
                break;
            }
            taken = taken.plus(Amount { intervals: 1, bytes: entry.bytes });
            batch.extend(self.entries.pop_front());
        }
        self.bytes -= taken.bytes;
        taken
    }

    /// All waiting intervals of a host share one description as long as it does not change.
    pub(super) fn info(&mut self, host: HostId, info: &HostInfo) -> Arc<HostInfo> {
        if let Some(known) = self.infos.get_mut(&host).filter(|known| ***known == *info) {
            return Arc::clone(known);
        }
        let new = Arc::new(info.clone());
        if bytes_of_host(info) <= MAX_INFO_BYTES {
            self.infos.insert(host, Arc::clone(&new));
        }
        new
    }

    /// Counts intervals of a host that will not be stored.
    pub(super) fn count_dropped(&mut self, host: HostId, intervals: u64) {
        *self.dropped.get_or_insert_with(host, || 0) += intervals;
    }

    /// Hosts of which something is remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.infos.len() + self.dropped.len()
    }

    /// Intervals of a host that were not stored, cumulative; 0 again once it was forgotten.
    pub(super) fn dropped(&self, host: HostId) -> u64 {
        self.dropped.peek(&host).copied().unwrap_or(0)
    }
}

/// Memory of an entry: rows of all kinds and all texts. Texts count in full although intervals share most of them, because a
/// sender can make each of its intervals bring other ones.
pub(super) fn bytes_of(copy: &ActiveCopy, info: &HostInfo) -> usize {
    let rows = copy.interval.processes.iter().map(|row| &row.info);
    let idle = copy.interval.idle_processes.iter().flat_map(|listed| listed.iter().map(|one| &one.info));
    let texts: usize = rows.chain(idle).map(|info| bytes_of_info(info)).sum();
    size_of::<Entry>() + bytes_of_rows(&copy.interval) + texts + bytes_of_host(info)
}

/// Memory of a host's description.
fn bytes_of_host(info: &HostInfo) -> usize {
    let texts = [&info.hostname, &info.kernel, &info.arch, &info.agent, &info.source_reason];
    size_of::<HostInfo>() + texts.iter().map(|text| text.len()).sum::<usize>()
}
