//! A long range in few steps: [`Segment`]s are intervals as they are, or the sums of a minute or an hour as if each were one
//! interval. The code that draws a chart of a day need not know which of the two it reads.

use std::ops::ControlFlow;
use std::sync::Arc;

use cpumon_model::{
    BootId, DelayHistogram, DelayOf, Delays, Delta, Fields, Interval, Moment, ProcessInterval, Waits,
};
use rusqlite::{Connection, params};

use super::cursor::IntervalCursor;
use super::dims::{self, ProcessThen};
use super::error::ReadError;
use super::host_sums::{HostSums, host_sums, read_delays};
use super::open::Reader;
use super::query::{Query, What};
use super::thread_sums::{HourOf, ThreadBucket, ThreadRows, read_times, read_waits};
use crate::error::Result;
use crate::rows::HostRow;
use crate::sums::{ActiveTimes, BucketRange, Resolution, RunQueue};
use crate::time::TimeRange;

/// One interval, or the sums of one bucket of a minute or an hour.
#[derive(Copy, Clone, Debug)]
pub struct Segment<'a> {
    /// What happened. Of sums: their bucket on the wall clock, measured time as length; no CPUs, no flags; the run delays of all CPUs
    /// are those of CPU 0; threads and wait reasons only with [`Query::sum_details`].
    pub interval: &'a Interval,
    /// Of sums: the largest busy share of the capacity in one interval, millionths.
    pub max_busy_ppm: Option<i64>,
    /// Run queues of all CPUs; `None` where context switches were not measured.
    pub run_queue: Option<RunQueue>,
    /// Of sums: the largest run time of each process row in one interval, ns per second. Empty for an interval as it is.
    pub max_run_ns_per_s: &'a [i64],
    /// Of sums: the blocked time of each process row; `None`: not measured. Empty for an interval as it is.
    pub blocked_ns: &'a [Option<i64>],
    /// Of sums: when each process row was active; `None`: not recorded. Empty for an interval as it is.
    pub times: &'a [Option<ActiveTimes>],
    /// Of sums: the boot of each process row, all zero where it is not known. Empty for an interval as it is, which names its boot.
    pub boots: &'a [BootId],
    /// Of sums: what else is known of its threads. Empty for an interval as it is.
    pub threads: ThreadRows<'a>,
}

/// Takes a segment; `Break` ends the walk.
type Visit<'a> = &'a mut dyn FnMut(&Segment<'_>) -> ControlFlow<()>;

/// A bucket as an interval, its rows being collected.
struct Bucket {
    length_ns: i64,
    /// Histograms are the larger part of a row: they are decoded only where they are wanted.
    with_delays: bool,
    with_waits: bool,
    interval: Interval,
    peaks: Vec<i64>,
    blocked_ns: Vec<Option<i64>>,
    times: Vec<Option<ActiveTimes>>,
    boots: Vec<BootId>,
    /// Rows of `process` of the rows.
    ids: Vec<u64>,
    /// Rows with wait reasons, and rows whose blocked time is known without them.
    waits: [usize; 2],
    threads: ThreadBucket,
}

impl Bucket {
    fn new(query: &Query, fields: Fields, resolution: Resolution) -> Self {
        let interval = Interval { host: query.host, fields, ..Interval::default() };
        Self {
            length_ns: resolution.length_ns(),
            with_delays: query.sched,
            with_waits: query.sched && query.sum_details,
            interval,
            peaks: Vec::new(),
            blocked_ns: Vec::new(),
            times: Vec::new(),
            boots: Vec::new(),
            ids: Vec::new(),
            waits: [0; 2],
            threads: ThreadBucket::default(),
        }
    }

    fn begin(&mut self, row: &HostSums) {
        let begin_ns = row.bucket.saturating_mul(self.length_ns);
        self.interval.begin = Moment { wall_ns: begin_ns, ..Moment::default() };
        // The bucket's length on the wall clock, but the measured time on the monotonic one: rates divide by the latter, and a
        // gap in a bucket does not lower them.
        self.interval.end = Moment {
            wall_ns: begin_ns.saturating_add(self.length_ns),
            mono_ns: row.covered_ns.max(0).unsigned_abs(),
            ..Moment::default()
        };
        self.interval.ledger = row.ledger;
        self.interval.processes.clear();
        self.interval.delays.clear();
        let run_delays = row.run_delays.as_ref().filter(|_| self.with_delays);
        self.interval.fields.set(Fields::HISTOGRAMS, run_delays.is_some());
        self.add_delays(DelayOf::Cpu(0), run_delays);
        self.interval.fields.set(Fields::CGROUPS, row.cgroups.is_some());
        row.cgroups.clone().unwrap_or_default().give(&mut self.interval);
        self.peaks.clear();
        self.blocked_ns.clear();
        self.times.clear();
        self.boots.clear();
        self.ids.clear();
        self.waits = [0; 2];
    }

    /// Ends the rows of a bucket: now it is known whether all of them have wait reasons.
    fn end_rows(&mut self) {
        self.sort_delays();
        let [known, unknown] = self.waits;
        // In a bucket without a row no task waited and was active.
        let is_known = self.with_waits && unknown == 0 && (known > 0 || self.interval.processes.is_empty());
        self.interval.fields.set(Fields::WAITS, is_known);
    }

    fn add_delays(&mut self, of: DelayOf, histogram: Option<&DelayHistogram>) {
        // An empty histogram is no entry, as in intervals that come from a device.
        let known = histogram.filter(|histogram| !histogram.is_empty());
        self.interval
            .delays
            .extend(known.map(|histogram| Delays { of, histogram: Arc::new(histogram.clone()) }));
    }
}

impl Reader {
    /// Calls `visit` for each segment of the query until it breaks. Sums come first, then the intervals that are not compacted
    /// yet and so are in no sum: their times can overlap by a bucket. Short-lived processes are summed under one of them.
    pub fn for_each_segment(
        &self,
        query: &Query,
        resolution: Option<Resolution>,
        visit: Visit<'_>,
    ) -> Result<()> {
        let Some(resolution) = resolution else {
            return self.for_each_interval(query, &mut |interval| visit(&Segment::of(interval)));
        };
        let Some(host) = self.host_row(query.host)? else { return Ok(()) };
        let fields = self.last_fields(query)?;
        let mut cursor = self.take_cursor();
        let done = BucketReader { connection: &self.connection, cursor: &mut cursor, host, resolution }
            .visit_segments(query, fields, visit);
        self.give_back(cursor);
        done.map_err(|error| self.read_error(error))
    }

    /// Sums do not record which counters were measured. Taken are those of the next interval behind the range, else of the
    /// newest one there is: a host rarely loses a source of data.
    fn last_fields(&self, query: &Query) -> Result<Fields> {
        let mut fields = self.fields_in(&Query {
            what: What::Meta,
            since_ns: query.until_ns - 1,
            until_ns: i64::MAX,
            ..query.clone()
        })?;
        if fields.is_none()
            && let Some((_, last_ns)) = self.time_range(query.host)?
        {
            fields = self.fields_in(&Query::new(query.host).range(last_ns - 1, last_ns).what(What::Meta))?;
        }
        // Scheduler and interrupt events are not summed: without these fields they read as no data, not as zero. Whether run
        // delays were measured is recorded for each bucket.
        let without = Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::HISTOGRAMS | Fields::CGROUPS;
        Ok(fields.unwrap_or(Fields::all()).difference(without))
    }

    fn fields_in(&self, query: &Query) -> Result<Option<Fields>> {
        let mut fields = None;
        self.for_each_interval(query, &mut |interval| {
            fields = Some(interval.fields);
            ControlFlow::Break(())
        })?;
        Ok(fields)
    }
}

impl<'a> Segment<'a> {
    /// An interval as it is.
    #[must_use]
    pub fn of(interval: &'a Interval) -> Self {
        Self {
            interval,
            max_busy_ppm: None,
            run_queue: RunQueue::of(interval),
            max_run_ns_per_s: &[],
            blocked_ns: &[],
            times: &[],
            boots: &[],
            threads: ThreadRows::default(),
        }
    }
}

/// Reads the sums of one host.
struct BucketReader<'a> {
    connection: &'a Connection,
    cursor: &'a mut IntervalCursor,
    host: HostRow,
    resolution: Resolution,
}

impl BucketReader<'_> {
    /// Visits sums, then fresh intervals.
    fn visit_segments(&mut self, query: &Query, fields: Fields, visit: Visit<'_>) -> Result<(), ReadError> {
        // Where sums have no threads, the fresh intervals behind them are read without theirs.
        let what = if self.has_threads(query) { query.what } else { query.what.min(What::Processes) };
        let fresh = Query { what, ..query.clone() };
        self.cursor.follow_to_fresh(self.connection, self.host, &fresh)?;
        // In one transaction: an interval that is compacted in between would be in neither, or in both.
        let transaction = self.connection.unchecked_transaction()?;
        let range = TimeRange::new(query.since_ns, query.until_ns);
        let buckets = self.resolution.buckets(range);
        let hosts = host_sums(self.connection, self.host, self.resolution, buckets)?;
        let mut bucket = Bucket::new(query, fields, self.resolution);
        let mut flow = if query.what == What::Meta {
            visit_hosts(&hosts, &mut bucket, visit)
        } else {
            self.visit_process_buckets(&hosts, query, buckets, &mut bucket, visit)?
        };
        if flow.is_continue() {
            self.cursor.run_fresh(self.connection, self.host, &fresh, &mut |interval| {
                if flow.is_continue() {
                    flow = visit(&Segment::of(interval));
                }
            })?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Whether the threads of sums are read.
    fn has_threads(&self, query: &Query) -> bool {
        query.sum_details && query.what == What::Threads && self.resolution == Resolution::Hour
    }

    /// Visits one bucket at a time; processes without a row in a bucket are left out of it.
    fn visit_process_buckets(
        &mut self,
        hosts: &[HostSums],
        query: &Query,
        buckets: BucketRange,
        bucket: &mut Bucket,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, ReadError> {
        let name = self.resolution.name();
        let text = format!(
            "SELECT {name}, process_id, user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches, involuntary_switches,
                    max_run_ns_per_s, run_delays, blocked_ns, waits, first_ns, last_ns,
                    max_end_ns
             FROM process_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}, process_id"
        );
        let mut select = self.connection.prepare_cached(&text)?;
        let mut rows = select.query(params![self.host, buckets.first, buckets.last])?;
        // Both lists are in order of buckets: the row that ends one bucket is the first of a later one.
        let mut pending = rows.next()?;
        for host in hosts {
            bucket.begin(host);
            while let Some(row) = pending {
                let at: i64 = row.get(0)?;
                if at > host.bucket {
                    break;
                }
                let (id, names) = (dims::unsigned(row, 1)?, &mut self.cursor.names);
                let boot = names.process(self.connection, id)?.boot;
                let boot = names.boot(self.connection, boot)?;
                let process = names.process(self.connection, id)?;
                if at == host.bucket && query.filter.matches(process.key, &process.info) {
                    bucket.add_process(process, row)?;
                    bucket.boots.push(boot);
                    bucket.ids.push(id);
                }
                pending = rows.next()?;
            }
            bucket.end_rows();
            let at_hour = host.bucket;
            if self.has_threads(query) {
                let (threads, rows) = (&mut bucket.threads, &mut bucket.interval.threads);
                let (host, processes) = (self.host, &bucket.ids);
                let hour = HourOf { connection: self.connection, host, hour: at_hour, processes };
                threads.read(hour, query, &mut self.cursor.names, rows)?;
            }
            if visit(&bucket.segment(host)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Visits the sums of the host alone.
fn visit_hosts(hosts: &[HostSums], bucket: &mut Bucket, visit: Visit<'_>) -> ControlFlow<()> {
    hosts.iter().try_for_each(|host| {
        bucket.begin(host);
        visit(&bucket.segment(host))
    })
}

impl Bucket {
    /// Makes the list ascending with one histogram for each owner: a process that was renamed has several rows.
    fn sort_delays(&mut self) {
        let list = &mut self.interval.delays;
        list.sort_by_key(|row| row.of);
        list.dedup_by(|next, first| {
            let is_same = next.of == first.of;
            if is_same {
                *Arc::make_mut(&mut first.histogram) += &next.histogram;
            }
            is_same
        });
    }

    /// Adds a row of `process_minute` or `process_hour`.
    fn add_process(&mut self, process: &ProcessThen, row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
        self.interval.processes.push(ProcessInterval {
            key: process.key,
            parent_pid: process.parent_pid,
            info: Arc::clone(&process.info),
            delta: Delta {
                user_ns: row.get(2)?,
                system_ns: row.get(3)?,
                run_ns: row.get(4)?,
                run_delay_ns: row.get(5)?,
                voluntary_switches: row.get(6)?,
                involuntary_switches: row.get(7)?,
            },
            ..ProcessInterval::default()
        });
        self.peaks.push(row.get(8)?);
        let blocked_ns: Option<i64> = row.get(10)?;
        self.blocked_ns.push(blocked_ns);
        self.times.push(read_times(row, 12, self.interval.begin.wall_ns)?);
        if self.with_waits {
            self.add_waits(blocked_ns, read_waits(row, 11)?);
        }
        if self.with_delays {
            self.add_delays(DelayOf::Process(process.key), read_delays(row, 9)?.as_ref());
        }
        Ok(())
    }

    /// Adds the wait reasons of the row that was added last.
    fn add_waits(&mut self, blocked_ns: Option<i64>, waits: Option<Waits>) {
        let [known, unknown] = &mut self.waits;
        *known += usize::from(waits.is_some());
        *unknown += usize::from(waits.is_none() && blocked_ns.is_some());
        if let (Some(waits), Some(row)) = (waits, self.interval.processes.last_mut()) {
            row.sched.waits = waits;
        }
    }

    fn segment(&self, row: &HostSums) -> Segment<'_> {
        Segment {
            interval: &self.interval,
            max_busy_ppm: Some(row.max_busy_ppm),
            run_queue: row.run_queue,
            max_run_ns_per_s: &self.peaks,
            blocked_ns: &self.blocked_ns,
            times: &self.times,
            boots: &self.boots,
            threads: self.threads.rows(),
        }
    }
}
