//! A share of the queue: what waits of the hosts that are trusted, or of all others. What the others send, how many they are and how often
//! they begin a boot must neither delay nor displace what comes from trusted hosts.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use cpumon_model::limits::{Bucket, Rate};
use cpumon_model::{BootId, HostId, HostInfo, LossCounts, Recent, Trust, bytes_of_info, bytes_of_rows};

use crate::reader::Gap;
use crate::writer::{ActiveCopy, ListSchedule, Seeded};

/// Most hosts that are remembered. A host that is forgotten while it reports begins its boot once more.
const MAX_HOSTS: usize = 8_192;
/// A longer description is not remembered: each interval brings one along, and strangers choose its length.
const MAX_INFO_BYTES: usize = 1_024;

/// For senders that store what they sent until it is acknowledged: what has a receipt and fails is no loss, and no gap is recorded for it,
/// because it is sent again. Called by the writer thread when a transaction has ended; must not block.
pub trait Receipt: Debug + Send + Sync {
    /// The interval or gap that was put with this number is committed (or was in the store already), or it failed.
    fn notify(&self, number: u64, is_stored: bool);
}

#[derive(Clone, Debug)]
pub struct ReceiptRequest {
    /// Notified once.
    pub receipt: Arc<dyn Receipt>,
    /// The caller's number of the interval or gap.
    pub number: u64,
}

impl ReceiptRequest {
    pub(super) fn notify(&self, is_stored: bool) {
        self.receipt.notify(self.number, is_stored);
    }
}

#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) info: Arc<HostInfo>,
    pub(super) trust: Trust,
    pub(super) loss: Option<LossCounts>,
    pub(super) copy: ActiveCopy,
    /// A hole that the device reports, instead of the interval.
    pub(super) gap: Option<Gap>,
    pub(super) receipt: Option<ReceiptRequest>,
    pub(super) received_wall_ns: i64,
    pub(super) received: Instant,
    pub(super) bytes: usize,
}

/// How much of something: what waits, or what may be taken at once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) intervals: usize,
    pub(super) bytes: usize,
}

impl Amount {
    /// This amount divided by `parts`.
    pub(super) fn part(self, parts: usize) -> Self {
        Self { intervals: self.intervals / parts, bytes: self.bytes / parts }
    }

    pub(super) fn with_bytes_below(self, most: usize) -> Self {
        Self { bytes: self.bytes.min(most), ..self }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { intervals: self.intervals + other.intervals, bytes: self.bytes + other.bytes }
    }

    /// This amount minus `used`, at least 0.
    pub(super) fn less(self, used: Self) -> Self {
        Self {
            intervals: self.intervals.saturating_sub(used.intervals),
            bytes: self.bytes.saturating_sub(used.bytes),
        }
    }

    /// The larger value of each of the two numbers.
    pub(super) fn or_at_least(self, least: Self) -> Self {
        Self { intervals: self.intervals.max(least.intervals), bytes: self.bytes.max(least.bytes) }
    }

    /// Whether one more interval of `bytes` bytes fits into `limit`.
    pub(super) fn has_space(self, bytes: usize, limit: Self) -> bool {
        self.intervals < limit.intervals && self.bytes + bytes <= limit.bytes
    }
}

/// Waiting intervals of some hosts, and the descriptions and losses remembered for these hosts.
#[derive(Debug)]
pub(super) struct QueueShare {
    entries: VecDeque<QueueEntry>,
    bytes: usize,
    /// With which intervals the rows of idle processes go along.
    pub(super) lists: ListSchedule,
    infos: Recent<HostId, Arc<HostInfo>, Seeded>,
    /// Intervals of each host that were not stored, cumulative.
    dropped: Recent<HostId, u64, Seeded>,
}

impl Default for QueueShare {
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

impl QueueShare {
    pub(super) fn amount(&self) -> Amount {
        Amount { intervals: self.entries.len(), bytes: self.bytes }
    }

    pub(super) fn push(&mut self, entry: QueueEntry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    /// Moves the entries that waited longest to `batch`, up to `limit`, but one in any case. Returns the moved amount.
    pub(super) fn take(&mut self, limit: Amount, batch: &mut Vec<QueueEntry>) -> Amount {
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

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.infos.len() + self.dropped.len()
    }

    /// Intervals of a host that were not stored, cumulative; 0 again once it was forgotten.
    pub(super) fn dropped(&self, host: HostId) -> u64 {
        self.dropped.peek(&host).copied().unwrap_or(0)
    }
}

/// Memory of an entry: rows of all kinds and all texts. Texts count in full although intervals share most texts, because a sender can make
/// each of its intervals bring other ones.
pub(super) fn bytes_of(copy: &ActiveCopy, info: &HostInfo) -> usize {
    let rows = copy.interval.processes.iter().map(|row| &row.info);
    let idle = copy.interval.idle_processes.iter().flat_map(|listed| listed.iter().map(|one| &one.info));
    let texts: usize = rows.chain(idle).map(|info| bytes_of_info(info)).sum();
    size_of::<QueueEntry>() + bytes_of_rows(&copy.interval) + texts + bytes_of_host(info)
}

fn bytes_of_host(info: &HostInfo) -> usize {
    let texts = [&info.hostname, &info.kernel, &info.arch, &info.agent, &info.source_reason];
    size_of::<HostInfo>() + texts.iter().map(|text| text.len()).sum::<usize>()
}

/// Rate of boots of one untrusted host: a machine that starts again and again still has each of its boots stored.
const OF_HOST: Rate = Rate { amount: 1, seconds: 1, burst_ms: 4_000 };
/// Rate of boots of all untrusted hosts together: a thousand machines that start at once do not wait.
const OF_ALL: Rate = Rate { amount: 4, seconds: 1, burst_ms: 1_024_000 };

/// Which boot of each host is stored, and when it may begin another one.
#[derive(Debug)]
pub(super) struct BootLimit {
    hosts: Recent<HostId, HostBoot, Seeded>,
    all: Bucket,
}

#[derive(Debug)]
struct HostBoot {
    boot: BootId,
    left: Bucket,
}

impl Default for BootLimit {
    fn default() -> Self {
        Self { hosts: Recent::new(MAX_HOSTS), all: Bucket::new(OF_ALL) }
    }
}

impl BootLimit {
    /// Whether an interval of this boot is stored. `now_ns`: of a clock that is not set.
    pub(super) fn takes(&mut self, host: HostId, boot: BootId, now_ns: u64) -> bool {
        let Some(known) = self.hosts.get_mut(&host) else {
            // Not remembered before it is taken: who is refused pushes no one out.
            let is_taken = self.all.take(now_ns).is_ok();
            if is_taken {
                let mut left = Bucket::new(OF_HOST);
                left.spend(1, now_ns);
                self.hosts.insert(host, HostBoot { boot, left });
            }
            return is_taken;
        };
        if known.boot == boot {
            return true;
        }
        // In this order a host beyond its own rate takes nothing from the others.
        let is_taken = known.left.take(now_ns).is_ok() && self.all.take(now_ns).is_ok();
        if is_taken {
            known.boot = boot;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn id(number: u64) -> [u8; 16] {
        u128::from(number).to_le_bytes()
    }

    #[test]
    fn a_host_begins_a_boot_a_second_after_a_few_at_once() {
        let mut limit = BootLimit::default();
        let host = HostId(id(1));
        // 25,000 a second for four seconds.
        let taken = |number: &u64| limit.takes(host, BootId(id(*number)), number * 40_000);
        let taken = (0..100_000).filter(taken).count();
        assert!((7..=8).contains(&taken), "4 at once, and 4 s: {taken}");
        let mut limit = BootLimit::default();
        let each_second = |number: &u64| limit.takes(host, BootId(id(number / 3)), number * SECOND_NS / 3);
        assert_eq!((0..3_000).filter(each_second).count(), 3_000, "a boot a second is no flood");
    }

    #[test]
    fn a_boot_that_goes_on_is_not_asked_and_one_that_comes_back_is() {
        let mut limit = BootLimit::default();
        let (host, boots) = (HostId(id(1)), [BootId(id(1)), BootId(id(2))]);
        assert!((0..1_000).all(|_| limit.takes(host, boots[0], 0)));
        let taken = (0..1_000).filter(|number| limit.takes(host, boots[number % 2], 0)).count();
        // Each change costs the writer as much as a new boot.
        assert_eq!(taken, 4 + 498, "the first, three changes, and then every other one: of the last boot");
    }

    #[test]
    fn strangers_share_a_rate_and_do_not_push_out_who_is_there() {
        let mut limit = BootLimit::default();
        let (known, boot) = (HostId(id(u64::MAX)), BootId(id(1)));
        assert!(limit.takes(known, boot, 0));
        let mut taken = 0;
        for number in 0..100_000_u64 {
            // 25,000 new hosts a second.
            let now_ns = number * 40_000;
            taken += u64::from(limit.takes(HostId(id(number)), boot, now_ns));
            assert!(limit.takes(known, boot, now_ns));
        }
        assert!((4_110..=4_112).contains(&taken), "4,095 at once, and 4 s: {taken}");
        assert!(limit.hosts.len() <= MAX_HOSTS);
    }
}
