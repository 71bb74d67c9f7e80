//! Who made threads wait: [`WaitFor`], an edge of the wait-for graph of processes, with the time that it took.
//!
//! Only waits of [`WaitFor::MIN_NS`] and more are followed. Such a wait counts whole, with who ended it, in the interval in which it ended; a
//! wait that lasts is in none yet. Shorter ones are in the times of threads alone ([`SchedTimes`](crate::SchedTimes)).

use crate::{ProcessKey, ThreadKey, WaitReason};

/// A wait with a cause goes before one of a thread that rested this many times as long: all of a host's daemons rest all the time.
const REST_PARTS: u64 = 64;

/// What a thread waited for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "json",
    derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema),
    serde(rename_all = "snake_case")
)]
pub enum WaitKind {
    /// A CPU: it was runnable, and others ran.
    #[default]
    Ready,
    /// CPU time of its control group, which had used up its limit.
    Throttled,
    /// It was blocked, for this reason.
    Blocked(WaitReason),
}

/// Who had what a thread waited for, or ended its wait.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "json",
    derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema),
    serde(rename_all = "snake_case")
)]
pub enum WaitedOn {
    /// Not known, or the rest of a list that was too long.
    #[default]
    Others,
    /// An interrupt, hard or soft: a timer, a disk, a network card.
    Interrupt,
    /// A thread of another process.
    Process(ProcessKey),
    /// Another thread of the same process.
    Thread(ThreadKey),
}

/// Time that the threads of a process waited, by what for and on whom.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct WaitFor {
    /// The process that waited.
    pub waiter: ProcessKey,
    /// What for.
    pub kind: WaitKind,
    /// On whom.
    pub on: WaitedOn,
    /// Sum of the waits that ended in the interval, ns; of several threads more than the interval is long.
    pub ns: u64,
    /// Number of these waits.
    pub count: u64,
}

impl WaitFor {
    /// The shortest wait that is followed, ns.
    pub const MIN_NS: u64 = 1_000_000;
    /// Rows of an interval at most; what is beyond them is summed by process and kind ([`WaitedOn::Others`]), then left out ([`WaitFor::tidy`]).
    pub const MAX_ROWS: usize = 512;

    /// What makes two rows one.
    pub fn key(&self) -> (ProcessKey, WaitKind, WaitedOn) {
        (self.waiter, self.kind, self.on)
    }

    /// Adds the time of another row.
    pub fn add(&mut self, more: &Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.count = self.count.saturating_add(more.count);
    }

    /// Whether it says who or what made the process wait. The others are mostly threads that rest: a timer, data from outside or something
    /// that is not known ended these waits, and a minute of a machine has more of their time than of any other.
    fn has_cause(&self) -> bool {
        match self.kind {
            WaitKind::Ready
            | WaitKind::Throttled
            | WaitKind::Blocked(WaitReason::DISK | WaitReason::PAGE_FAULT) => true,
            WaitKind::Blocked(_) => matches!(self.on, WaitedOn::Process(_) | WaitedOn::Thread(_)),
        }
    }

    /// Sorts rows: the longest first, where rest counts as a part of its time ([`REST_PARTS`]).
    fn rank(rows: &mut [Self]) {
        let weight = |row: &Self| if row.has_cause() { row.ns } else { row.ns / REST_PARTS };
        rows.sort_unstable_by_key(|row| (std::cmp::Reverse(weight(row)), row.key()));
    }

    /// Brings rows into ascending order of their keys, each key once, and at most `most` of them: the longest, where the time of those
    /// that only rested counts as a 64th. Of the others those of one process and kind become one row, and what is too much even so goes:
    /// returns the number of waits that are in no row then.
    pub fn tidy(rows: &mut Vec<Self>, most: usize) -> u64 {
        join(rows);
        if rows.len() <= most {
            return 0;
        }
        Self::rank(rows);
        for row in rows.iter_mut().skip(most - most / 4) {
            row.on = WaitedOn::Others;
        }
        join(rows);
        if rows.len() <= most {
            return 0;
        }
        Self::rank(rows);
        let left_out = rows.drain(most..).fold(0, |sum: u64, row| sum.saturating_add(row.count));
        rows.sort_unstable_by_key(Self::key);
        left_out
    }
}

fn join(rows: &mut Vec<WaitFor>) {
    rows.sort_unstable_by_key(WaitFor::key);
    rows.dedup_by(|row, kept| {
        let is_same = row.key() == kept.key();
        if is_same {
            kept.add(row);
        }
        is_same
    });
}

impl WaitKind {
    /// As a number: frames and stores keep it.
    pub fn code(self) -> u64 {
        match self {
            Self::Ready => 0,
            Self::Throttled => 1,
            Self::Blocked(reason) => 2 + reason.code(),
        }
    }

    /// The kind with this number.
    pub fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Ready,
            1 => Self::Throttled,
            reason => Self::Blocked(WaitReason::from_code(reason - 2)),
        }
    }
}

impl WaitedOn {
    /// As a number of the kind, an id and a start: frames keep them.
    pub fn code(self) -> (u64, u32, u64) {
        match self {
            Self::Others => (0, 0, 0),
            Self::Interrupt => (1, 0, 0),
            Self::Process(key) => (2, key.pid, key.start_ns),
            Self::Thread(key) => (3, key.tid, key.start_ns),
        }
    }

    /// From the numbers of [`WaitedOn::code`]; a kind of a later version is [`WaitedOn::Others`].
    pub fn from_code(kind: u64, id: u32, start_ns: u64) -> Self {
        match kind {
            1 => Self::Interrupt,
            2 => Self::Process(ProcessKey { pid: id, start_ns }),
            3 => Self::Thread(ThreadKey { tid: id, start_ns }),
            _ => Self::Others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, on: WaitedOn, ns: u64) -> WaitFor {
        let waiter = ProcessKey { pid, start_ns: 1 };
        WaitFor { waiter, kind: WaitKind::Blocked(WaitReason::DISK), on, ns, count: 1 }
    }

    fn process(pid: u32) -> WaitedOn {
        WaitedOn::Process(ProcessKey { pid, start_ns: 7 })
    }

    #[test]
    fn codes_come_back() {
        for kind in [WaitKind::Ready, WaitKind::Throttled, WaitKind::Blocked(WaitReason::syscall(202))] {
            assert_eq!(WaitKind::from_code(kind.code()), kind);
        }
        for on in [
            WaitedOn::Others,
            WaitedOn::Interrupt,
            process(3),
            WaitedOn::Thread(ThreadKey { tid: 4, start_ns: 5 }),
        ] {
            let (kind, id, start_ns) = on.code();
            assert_eq!(WaitedOn::from_code(kind, id, start_ns), on);
        }
        assert_eq!(WaitedOn::from_code(9, 1, 1), WaitedOn::Others, "of a later version");
    }

    #[test]
    fn rows_of_one_key_are_one() {
        let mut rows = vec![row(2, process(9), 5), row(1, process(9), 3), row(2, process(9), 7)];
        assert_eq!(WaitFor::tidy(&mut rows, 10), 0);
        let times: Vec<_> = rows.iter().map(|row| (row.waiter.pid, row.ns, row.count)).collect();
        assert_eq!(times, [(1, 3, 1), (2, 12, 2)]);
    }

    #[test]
    fn of_too_many_rows_the_longest_keep_their_names_and_no_time_of_a_waiter_is_lost() {
        let mut rows: Vec<WaitFor> = (1..=100).map(|pid| row(1, process(pid), u64::from(pid))).collect();
        assert_eq!(WaitFor::tidy(&mut rows, 10), 0, "all are in a row");
        assert_eq!(rows.len(), 9, "eight by name, and the rest");
        assert_eq!(rows.iter().map(|row| row.ns).sum::<u64>(), 5_050);
        let others = rows.iter().find(|row| row.on == WaitedOn::Others).unwrap();
        assert_eq!((others.ns, others.count), ((1..=92).sum(), 92));
        let mut many: Vec<WaitFor> = (1..=100).map(|pid| row(pid, process(7), u64::from(pid))).collect();
        assert_eq!(WaitFor::tidy(&mut many, 10), 90, "waits that are in no row are counted");
        let pids: Vec<u32> = many.iter().map(|row| row.waiter.pid).collect();
        assert_eq!(pids, (91..=100).collect::<Vec<_>>(), "the longest, ascending");
    }

    /// Of a machine with a hundred idle threads the rows of a minute were these alone.
    #[test]
    fn of_too_many_rows_waits_with_a_cause_come_before_long_rest() {
        let rest = |pid| WaitFor {
            kind: WaitKind::Blocked(WaitReason::syscall(35)),
            ..row(pid, WaitedOn::Interrupt, 60_000_000_000)
        };
        let ready = WaitFor { kind: WaitKind::Ready, ..row(501, process(9), 2_000_000_000) };
        let lock = WaitFor { kind: WaitKind::Blocked(WaitReason::syscall(202)), ..ready };
        let disk = row(501, WaitedOn::Interrupt, 3_000_000_000);
        let mut rows: Vec<WaitFor> = (1..=100).map(rest).chain([ready, lock, disk]).collect();
        WaitFor::tidy(&mut rows, 8);
        assert_eq!(rows.len(), 8);
        assert!([ready, lock, disk].iter().all(|row| rows.contains(row)), "{rows:?}");
    }
}
