//! [`RecordChannel`]: one run of records in order becomes intervals and holes, and the number up to which
//! everything is stored ([`Receipts`]). The present and the past of a device come side by side, in a channel each, because
//! each has its own last known snapshot.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;

use cpumon_model::{HostId, HostStatus, Interval, Moment};
use cpumon_store::Receipt;
use cpumon_wire::connection::{ByeReason, ChannelKind};
use cpumon_wire::packed::Unpacker;
use cpumon_wire::spool::{Entry, Gap, GapReason, SnapshotRecord, decode_record};
use cpumon_wire::v2::host_of;

use super::{AbortCheck, End, bye};
use crate::demux::{Demux, DemuxOptions, MemoryLimits, Rejected};
use crate::lock;

/// Longest frame of a record, bytes; agents write 65,000 at most.
const MAX_FRAME_BYTES: usize = 0xffff;

/// What a record turned into.
pub enum RecordOutcome<'a> {
    Interval(&'a HostStatus, &'a Interval),
    /// Snapshots that are missing; or one that cannot be used, and why.
    Gap(Gap, Option<Rejected>),
}

/// One run of records in order, with the last known snapshot that the next one is compared with.
pub struct RecordChannel {
    /// The host that showed its certificate, and its address.
    host: HostId,
    from: SocketAddr,
    /// Number of the channel on this connection.
    pub id: u32,
    pub kind: ChannelKind,
    /// Records that wait to be taken in, of the past only, and their memory in bytes.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// `None`: records do not come packed any more, because newer channels do.
    pub unpacker: Option<Box<Unpacker>>,
    demux: Demux,
    limits: MemoryLimits,
    last: u64,
    /// A hole before the first snapshot: that one's interval is missing too.
    leading: Option<Gap>,
    has_base: bool,
    /// For records that were taken in: the number of the put that must be committed first.
    taken: VecDeque<(u64, u64)>,
    committed: u64,
    /// The last acknowledgement: received number, committed number.
    acknowledged: (u64, u64),
}

impl RecordChannel {
    pub fn new(id: u32, kind: ChannelKind, host: HostId, from: SocketAddr) -> Self {
        Self {
            host,
            from,
            id,
            kind,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            unpacker: Some(Box::default()),
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

    /// Lets a record of the past wait. False: those that wait take `most` bytes of memory already.
    pub fn keep(&mut self, record: &[u8], most: usize) -> bool {
        let has_space = self.waiting_bytes < most;
        if has_space {
            self.waiting_bytes += bytes_of(record);
            self.waiting.push_back(record.to_vec());
        }
        has_space
    }

    /// The record that waits for the longest time.
    pub fn next_waiting(&mut self) -> Option<Vec<u8>> {
        let record = self.waiting.pop_front()?;
        self.waiting_bytes -= bytes_of(&record);
        Some(record)
    }

    /// Takes a record in that came at this moment on the receiver's clocks. `out` gives the number of the put into the store.
    ///
    /// # Errors
    /// The record cannot be used ([`ByeReason::Protocol`]), or `watch` ended it.
    pub fn take(
        &mut self,
        record: &[u8],
        at: Moment,
        watch: AbortCheck<'_>,
        out: &mut dyn FnMut(RecordOutcome<'_>) -> u64,
    ) -> Result<(), End> {
        // A record that ends no interval counts as committed with those before it.
        let mut put = self.taken.back().map_or(0, |taken| taken.0);
        let mut out = |outcome: RecordOutcome<'_>| put = put.max(out(outcome));
        match decode_record(record).ok_or_else(damaged)? {
            Entry::Snapshot(snapshot) => self.take_snapshot(&snapshot, at, watch, &mut out)?,
            Entry::Gap(gap) => self.take_gap(gap, &mut out)?,
            // A kind that is not known here has a number all the same.
            Entry::Unknown(number) => self.advance(number)?,
        }
        // Of the records that wait for one put, the last number is enough. While the store fails, all wait for the same.
        match self.taken.back_mut() {
            Some((before, number)) if *before == put => *number = self.last,
            _ => self.taken.push_back((put, self.last)),
        }
        Ok(())
    }

    fn take_snapshot(
        &mut self,
        snapshot: &SnapshotRecord<'_>,
        at: Moment,
        watch: AbortCheck<'_>,
        out: &mut dyn FnMut(RecordOutcome<'_>),
    ) -> Result<(), End> {
        let SnapshotRecord { number, wall_ns, .. } = *snapshot;
        let gap = |reason| Gap {
            first: number,
            last: number,
            begin_wall_ns: wall_ns,
            end_wall_ns: wall_ns,
            reason,
        };
        // A number was skipped without a gap record. The last known snapshot is too old to compare with: the skipped
        // snapshots may be stored already, and their CPU time would be charged twice.
        if self.has_base && number > self.last.saturating_add(1) {
            self.forget_base();
            self.leading = Some(gap(GapReason::Damaged));
        }
        self.advance(number)?;
        if let Some(leading) = self.leading.take() {
            out(RecordOutcome::Gap(Gap { last: number, end_wall_ns: wall_ns, ..leading }, None));
        }
        self.has_base = true;
        let mut refused = None;
        for frame in snapshot.frames() {
            watch()?;
            if frame.len() > MAX_FRAME_BYTES {
                return Err(damaged());
            }
            if host_of(frame).is_some_and(|named| named != self.host) {
                return Err(bye(ByeReason::Protocol, "a record speaks for another host"));
            }
            let taken = self.demux.accept(frame, self.from, at, &mut |status, interval| {
                out(RecordOutcome::Interval(status, interval));
            });
            // Reported as a hole: if the connection ended here, the device would only send the same record again.
            refused = refused.or(taken.err());
        }
        if refused.is_some() {
            out(RecordOutcome::Gap(gap(GapReason::Refused), refused));
        }
        Ok(())
    }

    fn take_gap(&mut self, gap: Gap, out: &mut dyn FnMut(RecordOutcome<'_>)) -> Result<(), End> {
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
            out(RecordOutcome::Gap(gap, None));
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

    fn advance(&mut self, number: u64) -> Result<(), End> {
        if number <= self.last {
            return Err(bye(ByeReason::Protocol, "a record's number is not above the one before"));
        }
        self.last = number;
        Ok(())
    }

    pub fn held(&self) -> usize {
        self.demux.held_bytes() + self.waiting_bytes
    }

    /// Lets it take so much memory from now on, bytes.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.limits = MemoryLimits::one_host(bytes);
        self.demux.options.plain = self.limits;
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

/// Memory of a record that waits: an empty one takes some, too.
fn bytes_of(record: &[u8]) -> usize {
    size_of::<Vec<u8>>() + record.len()
}

fn damaged() -> End {
    // Although TLS brought it whole.
    bye(ByeReason::Protocol, "a record is damaged")
}

fn demux(plain: MemoryLimits) -> Demux {
    // v1 names no host, so nothing would bind its rows to the certificate; and a channel carries one host
    // only.
    Demux::new(DemuxOptions { accept_v1: false, max_hosts: 1, plain, ..DemuxOptions::default() })
}

/// The last put that was stored, and the first that failed: nothing from it on counts, even if later ones were stored. Puts are numbered
/// in the order in which they were made.
#[derive(Debug, Default)]
pub struct Receipts(Mutex<(u64, Option<u64>)>);

impl Receipts {
    /// Number up to which every put is committed.
    pub fn stored(&self) -> u64 {
        let (stored, failed) = *lock(&self.0);
        failed.map_or(stored, |failed| stored.min(failed.saturating_sub(1)))
    }

    pub fn has_failed(&self) -> bool {
        lock(&self.0).1.is_some()
    }
}

impl Receipt for Receipts {
    fn notify(&self, number: u64, is_stored: bool) {
        let (stored, failed) = &mut *lock(&self.0);
        if is_stored {
            *stored = number.max(*stored);
        } else {
            *failed = Some(failed.map_or(number, |failed| failed.min(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use cpumon_wire::spool::push_snapshot;

    use super::*;

    /// Each took a place for as long as the store failed.
    #[test]
    fn records_of_one_put_take_one_place() {
        let from = ([10, 0, 0, 1], 1).into();
        let mut channel = RecordChannel::new(1, ChannelKind::Live, HostId([1; 16]), from);
        for number in 1..=100 {
            let mut record = Vec::new();
            assert!(push_snapshot(&mut record, number, 1, true, &[b"no frame".as_slice()]));
            channel.take(&record, Moment::default(), &mut || Ok(()), &mut |_| u64::MAX).unwrap();
        }
        assert_eq!(channel.taken.len(), 1);
        assert_eq!(channel.news(7), Some((100, 0)));
        assert_eq!(channel.news(u64::MAX), Some((100, 100)));
        assert!(!channel.is_waiting());
    }

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
