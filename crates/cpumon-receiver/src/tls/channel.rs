//! [`Channel`]: one run of records in order becomes intervals and holes, and the number up to which
//! everything is stored ([`Receipts`]). The present and the past of a device come side by side, in a channel each, because
//! each has its own last known snapshot.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use cpumon_model::{HostId, HostStatus, Interval, Moment};
use cpumon_store::Receipt;
use cpumon_wire::connection::ChannelKind;
use cpumon_wire::spool::{Entry, Gap, GapReason, SnapshotRecord, decode_record};
use cpumon_wire::v2::host_of;

use super::{Refusal, Watch};
use crate::demux::{Demux, DemuxOptions, MemoryLimits, Rejected};

/// Longest frame of a record, bytes; agents write 65,000 at most.
const MAX_FRAME_BYTES: usize = 0xffff;

/// What a record turned into.
pub enum Outcome<'a> {
    /// What happened between two snapshots.
    Interval(&'a HostStatus, &'a Interval),
    /// Snapshots that are missing.
    Gap(Gap),
    /// A snapshot that cannot be used, and why.
    Refused(Gap, Rejected),
}

/// Why a record cannot be used; the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// It is damaged, although TLS brought it whole.
    #[error("a record is damaged")]
    Damaged,
    /// Its number is not above the one before.
    #[error("a record's number is not above the one before")]
    Order,
    /// It speaks for a host other than the one that showed its certificate.
    #[error("a record speaks for another host")]
    Host,
    /// The connection ends for another reason.
    #[error("{}", .0.text)]
    Ended(Refusal),
}

/// Whose record arrived, from where and when.
pub struct Arrival {
    /// The host that showed its certificate.
    pub host: HostId,
    pub from: SocketAddr,
    /// On the receiver's clocks.
    pub at: Moment,
}

/// One run of records in order, with the last known snapshot that the next one is compared with.
pub struct Channel {
    /// Its number on this connection.
    pub id: u32,
    pub kind: ChannelKind,
    /// Records that wait to be taken in; of the past only.
    pub waiting: VecDeque<Vec<u8>>,
    demux: Demux,
    limits: MemoryLimits,
    last: u64,
    /// A hole before the first snapshot: that one's interval is missing too.
    leading: Option<Gap>,
    has_base: bool,
    /// For records that were taken in: the number of the put that must be committed first.
    taken: VecDeque<(u64, u64)>,
    committed: u64,
    /// What was acknowledged last: received, committed.
    acknowledged: (u64, u64),
}

impl Channel {
    pub fn new(id: u32, kind: ChannelKind) -> Self {
        Self {
            id,
            kind,
            waiting: VecDeque::new(),
            demux: demux(MemoryLimits::ENROLLED),
            limits: MemoryLimits::ENROLLED,
            last: 0,
            leading: None,
            has_base: false,
            taken: VecDeque::new(),
            committed: 0,
            acknowledged: (0, 0),
        }
    }

    /// Takes a record in. `puts` gives the number of the last put so far.
    pub fn take(
        &mut self,
        record: &[u8],
        arrival: &Arrival,
        watch: Watch<'_>,
        out: &mut dyn FnMut(Outcome<'_>) -> u64,
    ) -> Result<(), ChannelError> {
        // A record that ends no interval counts as committed with those before it.
        let mut put = self.taken.back().map_or(0, |taken| taken.0);
        let mut out = |outcome: Outcome<'_>| put = put.max(out(outcome));
        match decode_record(record).ok_or(ChannelError::Damaged)? {
            Entry::Snapshot(snapshot) => self.take_snapshot(&snapshot, arrival, watch, &mut out)?,
            Entry::Gap(gap) => self.take_gap(gap, &mut out)?,
            // A kind that is not known here has a number all the same.
            Entry::Unknown(number) => self.advance(number)?,
        }
        self.taken.push_back((put, self.last));
        Ok(())
    }

    fn take_snapshot(
        &mut self,
        snapshot: &SnapshotRecord<'_>,
        arrival: &Arrival,
        watch: Watch<'_>,
        out: &mut dyn FnMut(Outcome<'_>),
    ) -> Result<(), ChannelError> {
        let damaged = Gap {
            first: snapshot.number,
            last: snapshot.number,
            begin_wall_ns: snapshot.wall_ns,
            end_wall_ns: snapshot.wall_ns,
            reason: GapReason::Damaged,
        };
        // A number was skipped without a word about it. What is known is too old to compare with: the skipped snapshots
        // may be stored already, and their CPU time would be charged twice.
        if self.has_base && snapshot.number > self.last.saturating_add(1) {
            self.forget_base();
            self.leading = Some(damaged);
        }
        self.advance(snapshot.number)?;
        if let Some(gap) = self.leading.take() {
            out(Outcome::Gap(Gap { last: snapshot.number, end_wall_ns: snapshot.wall_ns, ..gap }));
        }
        self.has_base = true;
        let mut refused = None;
        for frame in snapshot.frames() {
            watch().map_err(ChannelError::Ended)?;
            if frame.len() > MAX_FRAME_BYTES {
                return Err(ChannelError::Damaged);
            }
            if host_of(frame).is_some_and(|named| named != arrival.host) {
                return Err(ChannelError::Host);
            }
            let taken = self.demux.accept(frame, arrival.from, arrival.at, &mut |status, interval| {
                out(Outcome::Interval(status, interval));
            });
            // Reported as a hole: if the connection ended here, the device would only send the same record again.
            refused = refused.or(taken.err());
        }
        if let Some(rejected) = refused {
            out(Outcome::Refused(Gap { reason: GapReason::Refused, ..damaged }, rejected));
        }
        Ok(())
    }

    fn take_gap(&mut self, gap: Gap, out: &mut dyn FnMut(Outcome<'_>)) -> Result<(), ChannelError> {
        if gap.reason == GapReason::Damaged || gap.first > self.last.saturating_add(1) {
            self.forget_base();
        }
        self.advance(gap.last)?;
        // The next snapshot is the first here and ends no interval: its own interval belongs to the hole.
        if !self.has_base {
            self.leading = Some(gap);
        }
        // An empty hole only says that the base is gone: it has nothing of its own to store.
        if gap.count() > 0 {
            out(Outcome::Gap(gap));
        }
        Ok(())
    }

    /// What comes is not compared with what was: between them lies what may be stored already.
    fn forget_base(&mut self) {
        if self.has_base {
            self.demux = demux(self.limits);
            self.has_base = false;
        }
    }

    fn advance(&mut self, number: u64) -> Result<(), ChannelError> {
        if number <= self.last {
            return Err(ChannelError::Order);
        }
        self.last = number;
        Ok(())
    }

    /// Memory that it takes, bytes.
    pub fn held(&self) -> usize {
        self.demux.held_bytes() + self.waiting.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Lets it take so much memory from now on, bytes.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.limits = MemoryLimits::one_host(bytes);
        self.demux.limit_memory(self.limits);
    }

    /// Up to which records are taken in and committed, given the last put that is; `None`: no news.
    pub fn news(&mut self, stored: u64) -> Option<(u64, u64)> {
        // Puts ascend along the queue, so the first one that is not stored yet ends the run.
        while let Some(&(put, number)) = self.taken.front().filter(|taken| taken.0 <= stored) {
            debug_assert!(put <= stored);
            self.committed = number;
            self.taken.pop_front();
        }
        let now = (self.last, self.committed);
        (std::mem::replace(&mut self.acknowledged, now) != now).then_some(now)
    }

    /// Whether something is not committed yet.
    pub fn is_waiting(&self) -> bool {
        !self.taken.is_empty() || !self.waiting.is_empty()
    }
}

fn demux(plain: MemoryLimits) -> Demux {
    // v1 names no host, so nothing would bind its rows to the certificate; and a channel carries one host
    // only.
    Demux::new(DemuxOptions { accept_v1: false, max_hosts: 1, plain, ..DemuxOptions::default() })
}

/// See the module. Numbers are given in the order in which they were put.
#[derive(Debug, Default)]
pub struct Receipts(Mutex<Progress>);

#[derive(Copy, Clone, Debug, Default)]
struct Progress {
    stored: u64,
    /// The first that failed: nothing from it on counts, even if later ones were stored.
    failed: Option<u64>,
}

impl Receipts {
    /// Every put up to this number is committed.
    pub fn stored(&self) -> u64 {
        let progress = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.failed.map_or(progress.stored, |failed| progress.stored.min(failed.saturating_sub(1)))
    }

    pub fn has_failed(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed.is_some()
    }
}

impl Receipt for Receipts {
    fn notify(&self, number: u64, is_stored: bool) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_stored {
            progress.stored = progress.stored.max(number);
        } else {
            progress.failed = Some(progress.failed.map_or(number, |failed| failed.min(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_failure_is_not_acknowledged() {
        let receipts = Receipts::default();
        receipts.notify(1, true);
        receipts.notify(2, true);
        assert_eq!((receipts.stored(), receipts.has_failed()), (2, false));
        receipts.notify(3, false);
        receipts.notify(4, true);
        assert_eq!((receipts.stored(), receipts.has_failed()), (2, true));
    }
}
