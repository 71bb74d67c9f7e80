//! [`SetEncoder`]: writes one of our intervals as a v1 set that every original receiver takes. v1 counts
//! whole ms, so the parts below 1 ms are carried to the next set and no time is lost over the long run.
//!
//! Every process is in every set, with zeros where it was idle: the original's screen changes a row only when a datagram for
//! it comes, so a process that is left out keeps its last value there, and the means and the pivot are wrong.

use cpumon_model::{Delta, Fields, Interval, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey};

use super::{
    MAX_ORIGINAL_DATAGRAM, PROCESS_BYTES, ProcessDatagram, THREAD_BYTES, ThreadEntry, encode_process,
    ticks_from_wall,
};
use crate::Datagrams;

/// Longest process name sent, bytes; longer ones are cut.
pub(super) const MAX_NAME_BYTES: usize = 1_024;
const NS_PER_MS: i64 = 1_000_000;
/// Replaces `'` in names: the original puts names into its SQL as they are, so an apostrophe costs it the row, and a crafted
/// name its tables.
const APOSTROPHE: char = '\u{2019}';

/// What one set held and what did not fit. Everything but `processes` and `threads` is for the user to see.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SetReport {
    /// Processes sent.
    pub processes: u64,
    /// Threads sent.
    pub threads: u64,
    /// Threads without time in this interval that were left out so that their process fits one datagram.
    pub idle_threads_dropped: u64,
    /// Processes whose threads needed more than one datagram. The original shows each further one as a row of its own
    /// with no process time.
    pub processes_split: u64,
    /// Names that were cut.
    pub names_cut: u64,
}

/// A task's times, ns: those in an interval, or the remainder below 1 ms that the next set gets.
#[derive(Copy, Clone, Debug, Default)]
struct TimeRemainder {
    user_ns: i64,
    system_ns: i64,
}

/// A task's time in this set, ms.
#[derive(Copy, Clone, Debug, Default)]
struct Millis {
    user: i64,
    kernel: i64,
}

impl Millis {
    fn is_zero(self) -> bool {
        self.user == 0 && self.kernel == 0
    }
}

/// Rests by key, ascending, of the set before and of this one.
#[derive(Debug)]
struct Rests<K> {
    before: Vec<(K, TimeRemainder)>,
    now: Vec<(K, TimeRemainder)>,
    millis: Vec<Millis>,
}

impl<K: Ord + Copy> Rests<K> {
    fn new() -> Self {
        Self { before: Vec::new(), now: Vec::new(), millis: Vec::new() }
    }

    /// Turns the deltas of ascending keys into whole ms and keeps the rests. An ended task's rest is rounded.
    fn carry(&mut self, rows: impl Iterator<Item = (K, TimeRemainder, bool)>) {
        std::mem::swap(&mut self.before, &mut self.now);
        self.now.clear();
        self.millis.clear();
        let mut at = 0;
        for (key, delta, has_ended) in rows {
            while self.before.get(at).is_some_and(|entry| entry.0 < key) {
                at += 1;
            }
            let rest =
                self.before.get(at).filter(|entry| entry.0 == key).map_or(TimeRemainder::default(), |e| e.1);
            // No later set can carry the rest of an ended task, so it is rounded here.
            let round = if has_ended { NS_PER_MS / 2 } else { 0 };
            let user_ns = rest.user_ns.saturating_add(delta.user_ns).saturating_add(round);
            let system_ns = rest.system_ns.saturating_add(delta.system_ns).saturating_add(round);
            // Deltas are signed. Euclidean division keeps each rest within 0 to 1 ms, so it is always carried
            // forward.
            self.millis.push(Millis {
                user: user_ns.div_euclid(NS_PER_MS),
                kernel: system_ns.div_euclid(NS_PER_MS),
            });
            let rest = TimeRemainder {
                user_ns: user_ns.rem_euclid(NS_PER_MS),
                system_ns: system_ns.rem_euclid(NS_PER_MS),
            };
            if !has_ended && (rest.user_ns, rest.system_ns) != (0, 0) {
                self.now.push((key, rest));
            }
        }
    }
}

/// Makes v1 sets of intervals. Intervals must be those of complete snapshots: a task that is not listed has ended.
#[derive(Debug)]
pub struct SetEncoder {
    max_datagram: usize,
    threads: Rests<ThreadKey>,
    processes: Rests<ProcessKey>,
    /// Indices into `Interval::threads`, by process.
    order: Vec<(ProcessKey, usize)>,
    datagram: ProcessDatagram,
}

impl Default for SetEncoder {
    fn default() -> Self {
        Self::new(MAX_ORIGINAL_DATAGRAM)
    }
}

impl SetEncoder {
    /// `max_datagram`: bytes; raised to what one process with one thread needs, at most [`MAX_ORIGINAL_DATAGRAM`].
    pub fn new(max_datagram: usize) -> Self {
        let smallest = PROCESS_BYTES + MAX_NAME_BYTES + THREAD_BYTES;
        Self {
            max_datagram: max_datagram.clamp(smallest, MAX_ORIGINAL_DATAGRAM),
            threads: Rests::new(),
            processes: Rests::new(),
            order: Vec::new(),
            datagram: ProcessDatagram::default(),
        }
    }

    /// Writes the set of one interval: each process, those with time first, then the end marker.
    ///
    /// The order has two reasons. Of several processes with one name the original's pivot shows the first that came, and a
    /// receiver that does not take all of a set should lose the idle ones.
    ///
    /// `utc_offset_s`: the device's local time less UTC, seconds; v1 stamps are local time.
    pub fn encode(&mut self, interval: &Interval, utc_offset_s: i32, out: &mut Datagrams) -> SetReport {
        out.clear();
        let mut report = SetReport::default();
        let rest = |delta: &Delta| rest_of(delta, interval.fields);
        self.threads
            .carry(interval.threads.iter().map(|row| (row.key, rest(&row.delta), row.life.has_ended())));
        self.processes
            .carry(interval.processes.iter().map(|row| (row.key, rest(&row.delta), row.life.has_ended())));
        self.order.clear();
        self.order.extend(interval.threads.iter().enumerate().map(|(at, row)| (row.process, at)));
        // The interval has its threads by their own key; a datagram needs those of one process together.
        self.order.sort_unstable();
        let stamp = SetStamp::of(interval, utc_offset_s);
        for is_idle in [false, true] {
            for (at, process) in interval.processes.iter().enumerate() {
                let millis = self.processes.millis.get(at).copied().unwrap_or_default();
                if millis.is_zero() == is_idle {
                    self.process(interval, process, millis, stamp, out, &mut report);
                }
            }
        }
        out.push().extend_from_slice(&super::END_OF_TRANSFER);
        report
    }

    /// Writes one process, in as many datagrams as its threads need. Its time is in the first: the original's pivot
    /// keeps the first row of a name, and sums over rows stay right.
    fn process(
        &mut self,
        interval: &Interval,
        process: &ProcessInterval,
        millis: Millis,
        stamp: SetStamp,
        out: &mut Datagrams,
        report: &mut SetReport,
    ) {
        let datagram = &mut self.datagram;
        report.names_cut += u64::from(!put_name(&mut datagram.name, process.info.executable()));
        stamp.put(datagram, process.key.pid, millis);
        datagram.threads.clear();
        let fits = (self.max_datagram - PROCESS_BYTES - datagram.name.len()) / THREAD_BYTES;
        let first = self.order.partition_point(|entry| entry.0 < process.key);
        let count = self.order[first..].iter().take_while(|entry| entry.0 == process.key).count();
        let rows = &self.order[first..first + count];
        // Idle threads are left out only where the process does not fit: the original receives at most 32,768
        // bytes.
        let all_fit = count <= fits;
        let mut sent = 0_u64;
        for &(_, at) in rows {
            let (Some(row), Some(&time)) = (interval.threads.get(at), self.threads.millis.get(at)) else {
                continue;
            };
            if !all_fit && time.is_zero() {
                report.idle_threads_dropped += 1;
                continue;
            }
            if datagram.threads.len() == fits {
                write(datagram, out);
                // Only the first split of a process counts, whatever the number of its datagrams.
                report.processes_split += u64::from(sent == fits as u64);
            }
            datagram.threads.push(stamp.entry(process.key.pid, row, time));
            sent += 1;
        }
        write(datagram, out);
        report.processes += 1;
        report.threads += sent;
    }
}

/// Writes a process datagram and prepares it to be continued: no threads, no time.
fn write(datagram: &mut ProcessDatagram, out: &mut Datagrams) {
    // Name and count are within the format's limits by construction, so this writes.
    let written = encode_process(datagram, out.push());
    debug_assert!(written.is_ok());
    datagram.threads.clear();
    (datagram.user_ms, datagram.kernel_ms) = (0, 0);
}

/// What every datagram and thread entry of a set repeats.
#[derive(Copy, Clone)]
struct SetStamp {
    ticks: i64,
    duration_ms: u32,
}

impl SetStamp {
    fn of(interval: &Interval, utc_offset_s: i32) -> Self {
        // Cut at the same points of the clock, so that lengths add up over many sets.
        let duration_ms =
            (interval.end.mono_ns / 1_000_000).saturating_sub(interval.begin.mono_ns / 1_000_000);
        Self {
            ticks: ticks_from_wall(interval.end.wall_ns, utc_offset_s),
            duration_ms: u32::try_from(duration_ms).unwrap_or(u32::MAX),
        }
    }

    fn put(self, datagram: &mut ProcessDatagram, pid: u32, millis: Millis) {
        datagram.timestamp_ticks = self.ticks;
        datagram.duration_ms = self.duration_ms;
        datagram.process_id = pid;
        (datagram.user_ms, datagram.kernel_ms) = (millis.user, millis.kernel);
    }

    fn entry(self, pid: u32, row: &ThreadInterval, millis: Millis) -> ThreadEntry {
        ThreadEntry {
            owner_process_id: pid,
            kernel_ms: millis.kernel,
            user_ms: millis.user,
            thread_id: row.key.tid,
            duration_ms: self.duration_ms,
            timestamp_ticks: self.ticks,
        }
    }
}

/// User and system time. v1 has no other times, so the run time of a source that does not split it counts as user time.
fn rest_of(delta: &Delta, fields: Fields) -> TimeRemainder {
    if fields.contains(Fields::USER | Fields::SYSTEM) {
        TimeRemainder { user_ns: delta.user_ns, system_ns: delta.system_ns }
    } else {
        TimeRemainder { user_ns: delta.run_ns, system_ns: 0 }
    }
}

/// Writes a name as it is sent; `false`: it is cut, because it is too long.
fn put_name(out: &mut String, name: &str) -> bool {
    out.clear();
    for c in name.chars() {
        let c = if c == '\'' { APOSTROPHE } else { c };
        if out.len() + c.len_utf8() > MAX_NAME_BYTES {
            return false;
        }
        out.push(c);
    }
    true
}
