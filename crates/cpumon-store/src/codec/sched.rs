//! Scheduler events of one interval's tasks, as a blob beside its samples; and run-delay histograms and wait reasons on their own, as rows
//! of sums have them. The blob is one of its own so that a store without such events holds not a byte more, and an older store reads as
//! one with empty blobs. Times are rounded to whole µs. Layout: docs/store.md, "Scheduler's events" to "Wait reasons of sums".

use std::sync::Arc;

use cpumon_model::{DelayHistogram, SchedDelta, WaitReason, Waits};

use super::varint::{self, Malformed, VarintCursor};
use super::{MAX_BUCKETS, MAX_HISTOGRAMS, MAX_ROWS, Packed};
use crate::rows::signed;

/// First byte of a blob.
const FORMAT: u8 = 1;
/// Numbers of a row, one for each of the low bits of its head; the three bits above them are how many waits it has.
const NUMBERS: usize = 6;
/// Bit of a head: the thread ran for no time and is no part of its process's sum. No longer written: every thread is part of the sum.
const IDLE: u64 = 1 << 9;

/// Writes a blob: [`SchedEncoder::begin`], then each process and after it its threads.
#[derive(Debug, Default)]
pub(crate) struct SchedEncoder {
    out: Vec<u8>,
    process_id: u64,
    thread_id: u64,
}

impl SchedEncoder {
    /// Empties the blob: nothing is known of the interval.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
    }

    pub(crate) fn begin(&mut self, processes: usize) {
        self.out.clear();
        (self.process_id, self.thread_id) = (0, 0);
        self.out.push(FORMAT);
        varint::write(&mut self.out, processes as u64);
    }

    pub(crate) fn process(&mut self, id: u64, threads: u32) {
        varint::write_signed(&mut self.out, id.wrapping_sub(self.process_id).cast_signed());
        varint::write(&mut self.out, u64::from(threads));
        self.process_id = id;
    }

    /// Adds a thread of the process added last.
    pub(crate) fn thread(&mut self, id: u64, row: &SchedDelta) {
        varint::write_signed(&mut self.out, id.wrapping_sub(self.thread_id).cast_signed());
        self.thread_id = id;
        // A wait that rounds to 0 µs would take two bytes and add no time.
        let mut waits = row.waits.iter().map(|(reason, ns)| (reason, whole_us(ns))).filter(|(_, us)| *us > 0);
        let known: Waits = waits.by_ref().collect();
        let blocked_us = whole_us(row.blocked_ns.max(0).unsigned_abs());
        // Rounding apart, blocked time is the sum of its reasons; it is written only where that does not hold.
        let rest_us = if known.is_empty() { blocked_us } else { 0 };
        let number = |number: i64| number.max(0).unsigned_abs();
        let numbers: [u64; NUMBERS] = [
            whole_us(number(row.delay_after_wakeup_ns)),
            number(row.wakeups),
            number(row.migrations),
            whole_us(number(row.longest_delay_ns)),
            rest_us,
            row.open_wait.code(),
        ];
        varint::write_known(&mut self.out, (known.iter().count() as u64) << NUMBERS, &numbers, 1);
        for (reason, us) in known.iter() {
            varint::write(&mut self.out, reason.code());
            varint::write(&mut self.out, us);
        }
    }

    /// Adds the run-delay histograms of processes or of threads, in any order; once for each of the two, in this order.
    pub(crate) fn delays<'a>(&mut self, rows: impl ExactSizeIterator<Item = (u64, &'a DelayHistogram)>) {
        varint::write(&mut self.out, rows.len() as u64);
        let mut before = 0_u64;
        for (id, histogram) in rows {
            varint::write_signed(&mut self.out, id.wrapping_sub(before).cast_signed());
            before = id;
            write_histogram(&mut self.out, histogram);
        }
    }

    /// The blob, complete after the last row; empty after [`SchedEncoder::clear`].
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.out
    }
}

/// Rounded, so that sums over many intervals do not drift.
fn whole_us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

/// Rows of a blob by id, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct SchedRows {
    processes: Vec<(u64, SchedDelta)>,
    /// With their rows of `process`.
    threads: Vec<(u64, (u64, SchedDelta))>,
    process_delays: Vec<(u64, Arc<DelayHistogram>)>,
    thread_delays: Vec<(u64, Arc<DelayHistogram>)>,
}

impl SchedRows {
    /// Reads a blob and replaces all rows; an empty blob has no rows.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.read_of(bytes, &mut |_| true)
    }

    /// [`SchedRows::read`] of the processes that `wants` lets pass by their ids. Rows of others are stepped over.
    pub(crate) fn read_of(
        &mut self,
        bytes: &[u8],
        wants: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Malformed> {
        self.processes.clear();
        self.threads.clear();
        self.process_delays.clear();
        self.thread_delays.clear();
        if bytes.is_empty() {
            return Ok(());
        }
        let mut cursor = VarintCursor::open(bytes, FORMAT)?;
        let (mut process_id, mut thread_id) = (0_u64, 0_u64);
        let mut rows_left = MAX_ROWS;
        for _ in 0..cursor.count(2)? {
            process_id = process_id.wrapping_add(cursor.i64()?.cast_unsigned());
            let threads = cursor.count(2)?;
            if !wants(process_id) {
                for _ in 0..threads {
                    thread_id = thread_id.wrapping_add(cursor.i64()?.cast_unsigned());
                    pass_row(&mut cursor)?;
                }
                continue;
            }
            // A row of two bytes becomes 136.
            let left = rows_left.checked_sub(threads + 1);
            rows_left = left.ok_or_else(|| cursor.malformed("more than 524,288 rows"))?;
            let mut sum = SchedDelta::default();
            for _ in 0..threads {
                thread_id = thread_id.wrapping_add(cursor.i64()?.cast_unsigned());
                let (row, is_idle) = read_row(&mut cursor)?;
                // Marked by older versions, in which the blocked time of a process was that of its active threads.
                if !is_idle {
                    sum += &row;
                }
                self.threads.push((thread_id, (process_id, row)));
            }
            self.processes.push((process_id, sum));
        }
        // Before schema version 4 nothing followed.
        if cursor.remaining() > 0 {
            let mut limit = HistogramLimit::default();
            read_delay_rows(&mut cursor, &mut limit, &mut self.process_delays, wants)?;
            // `wants` knows ids of processes, and a thread's id does not say which process it is of.
            read_delay_rows(&mut cursor, &mut limit, &mut self.thread_delays, &mut |_| true)?;
        }
        if cursor.remaining() > 0 {
            return Err(cursor.malformed("bytes after the end"));
        }
        // A blob has rows in any order; `find` searches by id.
        self.processes.sort_unstable_by_key(|row| row.0);
        self.threads.sort_unstable_by_key(|row| row.0);
        Ok(())
    }

    /// For each thread with a row, ascending by thread: its row ids in `process` and `thread`, and the reason of its open wait.
    pub(crate) fn open_waits(&self) -> impl Iterator<Item = (u64, u64, WaitReason)> + '_ {
        self.threads.iter().map(|&(thread_id, (process_id, ref row))| (process_id, thread_id, row.open_wait))
    }

    /// Events of a row of table `process`; zeros if it has none.
    pub(crate) fn process(&self, id: u64) -> SchedDelta {
        find(&self.processes, id).copied().unwrap_or_default()
    }

    /// The run delays of a row of table `process`, if any ended.
    pub(crate) fn process_delays(&self, id: u64) -> Option<&Arc<DelayHistogram>> {
        find(&self.process_delays, id)
    }

    /// The run delays of a row of table `thread`, if any ended.
    pub(crate) fn thread_delays(&self, id: u64) -> Option<&Arc<DelayHistogram>> {
        find(&self.thread_delays, id)
    }

    /// Events of a row of table `thread`; zeros if it has none.
    pub(crate) fn thread(&self, id: u64) -> SchedDelta {
        let row = find(&self.threads, id).map_or(SchedDelta::default(), |(_, row)| *row);
        // Of a thread that no event reports a flag of its row says so.
        let is_unwatched = row.open_wait == WaitReason::UNWATCHED;
        if is_unwatched { SchedDelta { open_wait: WaitReason::NONE, ..row } } else { row }
    }
}

fn find<T>(rows: &[(u64, T)], id: u64) -> Option<&T> {
    let at = rows.binary_search_by_key(&id, |row| row.0).ok()?;
    rows.get(at).map(|row| &row.1)
}

fn read_delay_rows(
    cursor: &mut VarintCursor<'_>,
    limit: &mut HistogramLimit,
    into: &mut Vec<(u64, Arc<DelayHistogram>)>,
    wants: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Malformed> {
    let mut id = 0_u64;
    for _ in 0..cursor.count(2)? {
        id = id.wrapping_add(cursor.i64()?.cast_unsigned());
        if wants(id) {
            into.push((id, limit.read(cursor)?));
        } else {
            skip_histogram(cursor)?;
        }
    }
    into.sort_unstable_by_key(|row| row.0);
    Ok(())
}

/// Steps over what [`read_row`] reads.
fn pass_row(cursor: &mut VarintCursor<'_>) -> Result<(), Malformed> {
    let head = cursor.u64()?;
    // A number follows for each of the bits below the number of waits; the idle bit above it has none.
    let numbers = (head & ((1 << NUMBERS) - 1)).count_ones() as usize;
    let waits = (head >> NUMBERS & 7) as usize;
    cursor.skip(numbers + 2 * waits)
}

fn read_row(cursor: &mut VarintCursor<'_>) -> Result<(SchedDelta, bool), Malformed> {
    let head = cursor.u64()?;
    let mut numbers = [0; NUMBERS];
    cursor.known(head, 1, &mut numbers)?;
    let [after, wakeups, migrations, longest, blocked, open] = numbers;
    let mut row = SchedDelta {
        delay_after_wakeup_ns: from_us(after),
        wakeups: signed(wakeups),
        migrations: signed(migrations),
        longest_delay_ns: from_us(longest),
        blocked_ns: from_us(blocked),
        open_wait: WaitReason::from_code(open),
        waits: Waits::default(),
    };
    for _ in 0..head >> NUMBERS & 7 {
        let reason = WaitReason::from_code(cursor.u64()?);
        row.waits.add(reason, cursor.u64()?.saturating_mul(1_000));
    }
    // Blocked time is written only where there are no waits: else it is their sum.
    row.blocked_ns = row.blocked_ns.saturating_add(signed(row.waits.total_ns()));
    Ok((row, head & IDLE != 0))
}

fn from_us(us: u64) -> i64 {
    signed(us.saturating_mul(1_000))
}

pub(crate) fn write_histogram(out: &mut Vec<u8>, histogram: &DelayHistogram) {
    varint::write(out, histogram.iter().count() as u64);
    let mut before = 0;
    for (bucket, count) in histogram.iter() {
        // Buckets come in ascending order, so this is not negative.
        varint::write(out, u64::from(bucket - before));
        varint::write(out, count);
        before = bucket;
    }
}

fn read_histogram(cursor: &mut VarintCursor<'_>) -> Result<DelayHistogram, Malformed> {
    let mut histogram = DelayHistogram::default();
    let mut bucket = 0_u8;
    for _ in 0..cursor.count(2)? {
        let step: u8 = cursor.narrow()?;
        bucket = bucket.checked_add(step).ok_or_else(|| cursor.malformed("bucket out of range"))?;
        histogram.add(bucket, cursor.u64()?);
    }
    Ok(histogram)
}

/// How many histograms an interval may still have, and how many buckets in them: of a byte each they would take a hundred.
#[derive(Debug)]
pub(crate) struct HistogramLimit {
    histograms: usize,
    buckets: usize,
}

impl Default for HistogramLimit {
    fn default() -> Self {
        Self { histograms: MAX_HISTOGRAMS, buckets: MAX_BUCKETS }
    }
}

impl HistogramLimit {
    /// Reads one more histogram; an error if it exceeds a limit.
    pub(crate) fn read(&mut self, cursor: &mut VarintCursor<'_>) -> Result<Arc<DelayHistogram>, Malformed> {
        let too_many = cursor.malformed("more histograms than an interval has");
        self.histograms = self.histograms.checked_sub(1).ok_or(too_many)?;
        let histogram = read_histogram(cursor)?;
        self.buckets = self.buckets.checked_sub(histogram.iter().count()).ok_or(too_many)?;
        Ok(Arc::new(histogram))
    }
}

pub(crate) fn skip_histogram(cursor: &mut VarintCursor<'_>) -> Result<(), Malformed> {
    let buckets = cursor.count(2)?;
    cursor.skip(2 * buckets)
}

impl Packed for DelayHistogram {
    const COLUMN: &'static str = "run_delays";
    const WORDS: &'static str = "run delays";

    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_histogram(&mut out, self);
        out
    }

    fn unpack(bytes: &[u8]) -> Result<Self, Malformed> {
        read_histogram(&mut VarintCursor::new(bytes))
    }
}

impl Packed for Waits {
    const COLUMN: &'static str = "waits";
    const WORDS: &'static str = "wait reasons";

    /// No bytes where it was never blocked.
    fn pack(&self) -> Vec<u8> {
        let mut reasons: Vec<_> = self.iter().map(|(reason, ns)| (reason.code(), ns / 1_000)).collect();
        reasons.sort_unstable();
        let mut out = Vec::new();
        for (code, us) in reasons {
            varint::write(&mut out, code);
            varint::write(&mut out, us);
        }
        out
    }

    fn unpack(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = VarintCursor::new(bytes);
        let mut waits = Self::default();
        while cursor.remaining() > 0 {
            let reason = WaitReason::from_code(cursor.u64()?);
            waits.add(reason, cursor.u64()?.saturating_mul(1_000));
        }
        Ok(waits)
    }
}

#[cfg(test)]
mod tests;
