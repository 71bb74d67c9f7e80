//! [`Backlog`]: the snapshots that an agent holds until a receiver has stored them. A connection reads it as numbered records,
//! from any full snapshot on. The trait has two implementations: a spool on disk ([`crate::spool::Spool`]) and [`RamBacklog`].

use std::collections::VecDeque;

use cpumon_wire::Datagrams;
use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::{self, Gap, GapReason};

/// Longest record, bytes: a message less the space for its header.
const MAX_RECORD_BYTES: usize = MAX_MESSAGE_BYTES - 64;
/// Snapshots from one full one to the next: reading can begin at a full one only, so memory is freed in such steps.
const FULL_EVERY: u64 = 64;

/// A record as it was read: its number and its bytes.
pub type NumberedRecord = (u64, Vec<u8>);

/// What a backlog holds, and what became of the rest since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BacklogCounts {
    /// Snapshots that no receiver has acknowledged yet.
    pub waiting: u64,
    pub waiting_bytes: u64,
    /// Snapshots that were lost in the backlog, and reported as gaps.
    pub lost: u64,
    /// Everything up to this number is on a receiver's disk; 0: nothing is.
    pub acked: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
}

/// Snapshots that wait for a receiver. Numbers begin with 1 and only grow; those of snapshots that were lost are never used
/// again.
pub trait Backlog: Send {
    /// Identifies the numbering: numbers of two ids cannot be compared.
    fn id(&self) -> [u8; 16];
    /// The number that the next snapshot will get.
    fn next(&self) -> u64;
    /// Whether the next snapshot must be a full one.
    fn wants_full(&self) -> bool;
    /// Takes a snapshot and returns its number. A snapshot that does not fit becomes a counted gap.
    fn append(&mut self, is_full: bool, wall_ns: i64, frames: &Datagrams) -> u64;
    /// Where a receiver that knows nothing must begin to read: the newest full snapshot up to `acked`, or else the oldest record.
    fn start(&self) -> u64;
    /// Reads about `max_bytes` of records from number `cursor` on, gaps included, and moves the cursor behind the last one.
    fn read(&mut self, cursor: &mut u64, max_bytes: usize, out: &mut Vec<NumberedRecord>);
    /// A receiver has stored everything up to this number, so it may be deleted.
    fn ack(&mut self, number: u64);
    fn counts(&self) -> BacklogCounts;
}

struct HeldSnapshot {
    number: u64,
    is_full: bool,
    wall_ns: i64,
    bytes: Vec<u8>,
}

/// A backlog in memory, bounded in bytes. It drops and counts the oldest snapshots first, and is lost when the process ends.
pub struct RamBacklog {
    id: [u8; 16],
    max_bytes: usize,
    bytes: usize,
    held: VecDeque<HeldSnapshot>,
    next: u64,
    acked: u64,
    last_full: u64,
    /// The gap before the first snapshot in `held`.
    hole: Option<Gap>,
    lost: u64,
}

impl RamBacklog {
    /// An empty backlog of about `max_bytes` at most. `id` must be random: it identifies the numbering.
    pub fn new(id: [u8; 16], max_bytes: usize) -> Self {
        Self {
            id,
            max_bytes,
            bytes: 0,
            held: VecDeque::new(),
            next: 1,
            acked: 0,
            last_full: 0,
            hole: None,
            lost: 0,
        }
    }

    /// Drops the oldest until there is space: up to the next full snapshot, or everything.
    fn make_space(&mut self) {
        while self.bytes > self.max_bytes {
            self.lose_front(GapReason::Dropped);
            // The snapshots up to the next full one are differences: without their base they are useless.
            while self.held.front().is_some_and(|held| !held.is_full) {
                self.lose_front(GapReason::Dropped);
            }
        }
    }

    fn lose_front(&mut self, reason: GapReason) {
        let Some(held) = self.held.pop_front() else { return };
        self.bytes -= held.bytes.len();
        // An acknowledged snapshot was held only as the base of the next one, whose interval is lost with it.
        if held.number > self.acked {
            self.lose(held.number, held.wall_ns, reason);
        } else if held.number == self.acked {
            let (first, wall_ns) = (held.number + 1, held.wall_ns);
            let base = Gap { first, last: held.number, begin_wall_ns: wall_ns, end_wall_ns: wall_ns, reason };
            // An empty hole: nothing is lost but the interval that was to end with the next snapshot.
            self.hole.get_or_insert(base);
        }
        if let (Some(hole), Some(front)) = (&mut self.hole, self.held.front()) {
            // The hole ends where the next snapshot was made, because that one's interval is missing too.
            hole.end_wall_ns = front.wall_ns;
        }
    }

    fn lose(&mut self, number: u64, wall_ns: i64, reason: GapReason) {
        self.lost += 1;
        let new = Gap { first: number, last: number, begin_wall_ns: wall_ns, end_wall_ns: wall_ns, reason };
        let hole = self.hole.get_or_insert(new);
        hole.last = number;
        hole.end_wall_ns = wall_ns;
        hole.reason = reason;
    }

    fn forget_acked(&mut self) {
        // The newest acknowledged full snapshot stays: a new connection starts reading there.
        let base = self.held.iter().rposition(|held| held.is_full && held.number <= self.acked).unwrap_or(0);
        for held in self.held.drain(..base) {
            self.bytes -= held.bytes.len();
        }
        // A receiver has been informed of a hole once it acknowledged the hole's last number.
        self.hole = self.hole.filter(|hole| hole.last > self.acked);
    }
}

impl Backlog for RamBacklog {
    fn id(&self) -> [u8; 16] {
        self.id
    }

    fn next(&self) -> u64 {
        self.next
    }

    fn wants_full(&self) -> bool {
        self.held.is_empty() || self.next >= self.last_full + FULL_EVERY
    }

    fn append(&mut self, is_full: bool, wall_ns: i64, frames: &Datagrams) -> u64 {
        let number = self.next;
        self.next += 1;
        let mut bytes = Vec::new();
        let fits = spool::push_snapshot(&mut bytes, number, wall_ns, is_full, frames.as_slice())
            // A longer record would end the connection each time it is sent.
            && bytes.len() <= MAX_RECORD_BYTES;
        if !fits || (self.held.is_empty() && !is_full) {
            // The backlog has one hole, at its front. A hole here would be a second one, so everything before it goes too.
            while !self.held.is_empty() {
                self.lose_front(GapReason::TooLarge);
            }
            self.lose(number, wall_ns, if fits { GapReason::Dropped } else { GapReason::TooLarge });
            return number;
        }
        if is_full {
            self.last_full = number;
        }
        self.bytes += bytes.len();
        self.held.push_back(HeldSnapshot { number, is_full, wall_ns, bytes });
        if let (Some(hole), 1) = (&mut self.hole, self.held.len()) {
            hole.end_wall_ns = wall_ns;
        }
        self.make_space();
        number
    }

    fn start(&self) -> u64 {
        let base = self.held.iter().rev().find(|held| held.is_full && held.number <= self.acked);
        let oldest = || self.held.front().map_or(self.next, |held| held.number);
        let hole = || self.hole.map(|hole| hole.first.min(hole.last));
        base.map(|held| held.number).or_else(hole).unwrap_or_else(oldest)
    }

    fn read(&mut self, cursor: &mut u64, max_bytes: usize, out: &mut Vec<NumberedRecord>) {
        if let Some(hole) = self.hole.filter(|hole| *cursor <= hole.last) {
            let mut bytes = Vec::new();
            // A reader that is inside the hole already, or a receiver that acknowledged a part, misses only
            // the rest.
            let first = hole.first.max(*cursor).max(self.acked + 1);
            spool::push_gap(&mut bytes, &Gap { first, ..hole });
            out.push((hole.last, bytes));
            *cursor = hole.last + 1;
        }
        let from = self.held.partition_point(|held| held.number < *cursor);
        let mut bytes = 0;
        for held in self.held.range(from..) {
            // One record always goes, however long: otherwise it would block those behind it.
            if bytes > 0 && bytes + held.bytes.len() > max_bytes {
                break;
            }
            bytes += held.bytes.len();
            out.push((held.number, held.bytes.clone()));
            *cursor = held.number + 1;
        }
    }

    fn ack(&mut self, number: u64) {
        // The number comes from the network: it must not free snapshots that are still to be made.
        let number = number.min(self.next.saturating_sub(1));
        if number > self.acked {
            self.acked = number;
            self.forget_acked();
        }
    }

    fn counts(&self) -> BacklogCounts {
        let Self { acked, lost, .. } = *self;
        let missing = self.hole.map_or(0, |hole| hole.count());
        let waiting = (self.next - 1).saturating_sub(acked).saturating_sub(missing);
        BacklogCounts { waiting, waiting_bytes: self.bytes as u64, lost, acked, written_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use cpumon_wire::spool::{Entry, decode_record};

    use super::*;

    fn from_start(backlog: &mut RamBacklog) -> Vec<String> {
        let start = backlog.start();
        entries(backlog, start)
    }

    fn entries(backlog: &mut RamBacklog, mut cursor: u64) -> Vec<String> {
        let mut out = Vec::new();
        backlog.read(&mut cursor, usize::MAX, &mut out);
        out.iter()
            .map(|(number, bytes)| match decode_record(bytes) {
                Some(Entry::Snapshot(snapshot)) => {
                    assert_eq!(snapshot.number, *number);
                    format!("{number}{}", if snapshot.is_full { "F" } else { "" })
                }
                Some(Entry::Gap(gap)) => format!("gap {}-{}", gap.first, gap.last),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Appends `count` snapshots of about 100 bytes, full where the backlog wants it.
    fn append(backlog: &mut RamBacklog, count: u64) {
        for _ in 0..count {
            let frames = Datagrams::from(vec![vec![0; 64]]);
            let is_full = backlog.wants_full();
            let wall_ns = i64::try_from(backlog.next()).unwrap();
            backlog.append(is_full, wall_ns, &frames);
        }
    }

    #[test]
    fn reading_begins_at_a_full_snapshot_and_acks_free_memory() {
        let mut backlog = RamBacklog::new([1; 16], 1 << 20);
        append(&mut backlog, 130);
        assert_eq!((backlog.start(), backlog.counts().waiting), (1, 130));
        backlog.ack(70);
        assert_eq!(backlog.start(), 65, "the newest full one up to what is acknowledged");
        assert_eq!(entries(&mut backlog, 65)[0], "65F");
        let bytes = backlog.counts().waiting_bytes;
        backlog.ack(129);
        assert!(backlog.counts().waiting_bytes < bytes && backlog.counts().waiting == 1);
        assert_eq!(from_start(&mut backlog), ["129F", "130"]);
        backlog.ack(u64::MAX);
        assert_eq!(backlog.counts().acked, 130, "an acknowledgement cannot exceed the newest number");
    }

    #[test]
    fn without_space_the_oldest_go_and_are_counted() {
        let mut backlog = RamBacklog::new([1; 16], 100 * 100);
        append(&mut backlog, 200);
        let read = from_start(&mut backlog);
        assert_eq!(&read[..2], ["gap 1-128", "129F"]);
        assert_eq!((backlog.counts().lost, backlog.counts().waiting), (128, 72));
        assert_eq!(entries(&mut backlog, 100)[0], "gap 100-128", "who has read up to 99 misses less");
        backlog.ack(128);
        assert_eq!(from_start(&mut backlog)[0], "129F");
    }

    #[test]
    fn dropping_what_the_next_one_is_compared_with_is_a_hole_too() {
        let mut backlog = RamBacklog::new([1; 16], 100 * 100);
        append(&mut backlog, 64);
        backlog.ack(64);
        append(&mut backlog, 100 - 63);
        assert_eq!(from_start(&mut backlog)[..2], ["gap 65-64", "65F"], "an empty hole");
        assert_eq!((backlog.counts().lost, backlog.counts().waiting), (0, 37));
        assert_eq!(entries(&mut backlog, 65)[0], "65F", "who has read up to there misses nothing");
        backlog.ack(64);
        assert_eq!(from_start(&mut backlog)[0], "gap 65-64", "no news");
        backlog.ack(65);
        assert_eq!(from_start(&mut backlog)[0], "65F");
    }

    #[test]
    fn what_does_not_fit_is_a_hole_and_reading_restarts_behind_it() {
        let mut backlog = RamBacklog::new([1; 16], 500);
        append(&mut backlog, 12);
        assert_eq!(from_start(&mut backlog), ["gap 1-12"], "not one whole stretch fits");
        append(&mut backlog, 2);
        assert_eq!(from_start(&mut backlog), ["gap 1-12", "13F", "14"]);
        assert_eq!((backlog.counts().waiting, backlog.counts().lost), (2, 12));
    }
}
