//! A long range in few steps: [`Segment`]s are intervals as they are, or the sums of a minute or an hour as if each were one interval. The
//! code that draws a chart of a day need not know the kind; the caller chooses by the stored range ([`StoredReach`]).

use std::sync::Arc;

use cpumon_model::{
    BootId, DelayHistogram, DelayOf, Delays, Fields, HostId, Interval, Life, Moment, ProcessInterval,
    ProcessKey, SchedDelta, ThreadInterval, ThreadKey, Waits,
};
use rusqlite::{Connection, Row, Transaction, params};

use super::build::{ProcessThen, ReaderNames};
use super::damage::ReadError;
use super::query::{Query, TimeRange, What};
use super::{IntervalReader, Reader, resting};
use crate::codec::meta::ledger_of;
use crate::error::{At, Result};
use crate::names::SqlComm;
use crate::rows::{BootRow, HostRow, all_rows, find_row, first, unsigned};
use crate::steps::check_follows;
use crate::sums::{
    HostSum, Resolution, RunQueue, SumRow, TASK_COLUMN_NAMES, WAITS_AT, host_sums, read_packed, waits_for,
};

/// How far the stored data of a host reaches, by its kind, ns since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoredReach {
    /// End of the oldest interval; `None`: only sums are left.
    pub first_ns: Option<i64>,
    /// Start of the oldest sum of a minute.
    pub minutes_ns: Option<i64>,
    /// Start of the oldest sum of an hour.
    pub hours_ns: Option<i64>,
    /// The earliest of these.
    pub oldest_ns: i64,
    /// End of the newest data.
    pub last_ns: i64,
}

impl Reader {
    /// The range of time that the store has of a host; `None` if it has no data.
    pub fn reach(&self, host: HostId) -> Result<Option<StoredReach>> {
        let Some(host_row) = self.host_row(host)? else { return Ok(None) };
        let (minutes_ns, _) = self.sum_range(host_row, Resolution::Minute)?;
        let (hours_ns, last_hour_ns) = self.sum_range(host_row, Resolution::Hour)?;
        let (first_ns, last_ns) = self.host_span(host_row).at("find the time range", self.path())?;
        let oldest_ns = first_ns.into_iter().chain(minutes_ns).chain(hours_ns).min();
        let ends = oldest_ns.zip(last_ns.or(last_hour_ns));
        Ok(ends.map(|(oldest_ns, last_ns)| {
            let last_ns = last_ns.max(oldest_ns);
            StoredReach { first_ns, minutes_ns, hours_ns, oldest_ns, last_ns }
        }))
    }

    /// Start of the oldest sum of a host and end of the newest, ns.
    fn sum_range(&self, host: HostRow, resolution: Resolution) -> Result<(Option<i64>, Option<i64>)> {
        let name = resolution.name();
        let text = format!("SELECT min({name}), max({name}) + 1 FROM host_{name} WHERE host_id = ?1");
        let ns = |row: &Row<'_>, at: usize| -> rusqlite::Result<Option<i64>> {
            Ok(row.get::<_, Option<i64>>(at)?.map(|bucket| bucket.saturating_mul(resolution.length_ns())))
        };
        let span = find_row(self.question(), &text, [host], |row| Ok((ns(row, 0)?, ns(row, 1)?)));
        Ok(span.at("find sums", self.path())?.unwrap_or_default())
    }
}

/// One interval, or the sums of one bucket of a minute or an hour.
#[derive(Copy, Clone, Debug)]
pub struct Segment<'a> {
    /// What happened. Of sums: their bucket on the wall clock, measured time as length; no CPUs, no flags; the run delays of all CPUs
    /// are those of CPU 0; threads, wait reasons and who ended waits only with [`Query::sum_details`]. Their boot is the newest one of
    /// which a process did something; all zero if none did, or without processes.
    pub interval: &'a Interval,
    /// Of sums: the largest busy share of the capacity in one interval, millionths.
    pub max_busy_ppm: Option<i64>,
    /// Run queues of all CPUs; `None` where context switches were not measured.
    pub run_queue: Option<RunQueue>,
    /// Of sums: what else is known of each process row. Empty for an interval as it is.
    pub processes: &'a [SumRow],
    /// Of sums: what else is known of each thread row. Empty for an interval as it is.
    pub threads: &'a [SumRow],
}

/// A bucket as an interval, its rows being collected.
#[derive(Debug)]
struct BucketInterval {
    length_ns: i64,
    /// Histograms are the larger part of a row: they are decoded only where they are wanted.
    with_delays: bool,
    with_waits: bool,
    interval: Interval,
    max_busy_ppm: i64,
    run_queue: Option<RunQueue>,
    processes: Vec<SumRow>,
    threads: Vec<SumRow>,
    /// Rows of `process` of the process rows, ascending.
    ids: Vec<u64>,
    /// Rows with wait reasons, and rows whose blocked time is known without them.
    waits: [usize; 2],
    /// Packed values of this bucket that are damaged.
    lost: u64,
}

impl BucketInterval {
    fn new(query: &Query, fields: Fields, resolution: Resolution) -> Self {
        let interval = Interval { host: query.host, fields, ..Interval::default() };
        Self {
            length_ns: resolution.length_ns(),
            with_delays: query.sched,
            with_waits: query.sched && query.sum_details,
            interval,
            max_busy_ppm: 0,
            run_queue: None,
            processes: Vec::new(),
            threads: Vec::new(),
            ids: Vec::new(),
            waits: [0; 2],
            lost: 0,
        }
    }

    fn begin(&mut self, bucket: i64, row: HostSum) {
        let begin_ns = bucket.saturating_mul(self.length_ns);
        self.interval.boot = BootId::default();
        self.interval.begin = Moment { wall_ns: begin_ns, ..Moment::default() };
        let [_, covered_ns, ledger @ .., busy_ppm, _, _, queue_ns, max_per_s, queue_max] = row.numbers;
        // The bucket's length on the wall clock, but the measured time on the monotonic one: rates divide by the latter, and a
        // gap in a bucket does not lower them.
        self.interval.end = Moment {
            wall_ns: begin_ns.saturating_add(self.length_ns),
            mono_ns: covered_ns.unwrap_or_default().max(0).unsigned_abs(),
            ..Moment::default()
        };
        self.interval.ledger = ledger_of(ledger.map(Option::unwrap_or_default));
        self.interval.processes.clear();
        self.interval.delays.clear();
        let run_delays = row.run_delays.as_ref().filter(|_| self.with_delays);
        self.interval.fields.set(Fields::HISTOGRAMS, run_delays.is_some());
        self.add_delays(DelayOf::Cpu(0), run_delays);
        self.interval.fields.set(Fields::CGROUPS, row.cgroups.is_some());
        row.cgroups.unwrap_or_default().give(&mut self.interval);
        self.max_busy_ppm = busy_ppm.unwrap_or_default();
        self.run_queue = queue_ns.map(|run_queue_ns| RunQueue {
            run_queue_ns,
            max_run_queue_ns_per_s: max_per_s.unwrap_or_default(),
            run_queue_max: queue_max.unwrap_or_default(),
        });
        self.processes.clear();
        self.ids.clear();
        self.waits = [0; 2];
    }

    /// Ends the rows of a bucket: now it is known whether all rows have wait reasons.
    fn end_rows(&mut self) {
        self.sort_delays();
        let [known, unknown] = self.waits;
        // In a bucket without a row no task waited and was active.
        let is_known = self.with_waits && unknown == 0 && (known > 0 || self.interval.processes.is_empty());
        self.interval.fields.set(Fields::WAITS, is_known);
        self.know_counters(self.processes.iter().fold(Fields::empty(), |all, row| all | row.unknown));
    }

    /// Sums know of the counters of later versions whether they were measured.
    fn know_counters(&mut self, unknown: Fields) {
        self.interval.fields |= Fields::LATER_COUNTERS;
        self.interval.fields -= unknown;
    }

    fn add_delays(&mut self, of: DelayOf, histogram: Option<&DelayHistogram>) {
        // An empty histogram is no entry, as in intervals that come from a device.
        let known = histogram.filter(|histogram| !histogram.is_empty());
        self.interval
            .delays
            .extend(known.map(|histogram| Delays { of, histogram: Arc::new(histogram.clone()) }));
    }

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
    fn add_process(&mut self, process: &ProcessThen, boot: BootId, row: &Row<'_>) -> rusqlite::Result<()> {
        // Behind its id and the run delays.
        let at = 2;
        let (delta, sum) = SumRow::read(row, at, self.interval.begin.wall_ns, boot)?;
        self.interval.processes.push(ProcessInterval { delta, ..process.idle(0).row() });
        self.processes.push(sum);
        if self.with_waits {
            let waits = read_packed(row, at + WAITS_AT, &mut self.lost)?;
            self.add_waits(sum.blocked_ns, waits);
        }
        if self.with_delays {
            let delays = read_packed(row, 1, &mut self.lost)?;
            self.add_delays(DelayOf::Process(process.key), delays.as_ref());
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

    fn segment(&self) -> Segment<'_> {
        Segment {
            interval: &self.interval,
            max_busy_ppm: Some(self.max_busy_ppm),
            run_queue: self.run_queue,
            processes: &self.processes,
            threads: &self.threads,
        }
    }
}

impl Reader {
    /// Reads the segments of a query. Sums come first, then the intervals that are not compacted yet and so are in no sum: their times can
    /// overlap by a bucket. Short-lived processes of one description are summed under one process.
    pub fn segments(&self, query: &Query, resolution: Option<Resolution>) -> Result<SegmentReader<'_>> {
        let (Some(resolution), Some(host)) = (resolution, self.host_row(query.host)?) else {
            return Ok(SegmentReader { intervals: self.intervals(query)?, sums: None, transaction: None });
        };
        let bucket = BucketInterval::new(query, self.last_fields(query)?, resolution);
        let has_threads = query.sum_details && query.what == What::Threads && resolution == Resolution::Hour;
        // Where sums have no threads, the fresh intervals behind them are read without theirs.
        let what = if has_threads { query.what } else { query.what.min(What::Processes) };
        let query = Query { what, ..query.clone() };
        self.follow_to_fresh(host, &query)?;
        // In one transaction: an interval that is compacted in between would be in neither, or in both.
        let connection = self.question();
        let transaction = connection.unchecked_transaction().at("read intervals", self.path())?;
        let buckets = resolution.buckets(TimeRange::new(query.since_ns, query.until_ns));
        let mut lost = 0;
        let hosts = host_sums(connection, host, resolution, buckets, &mut lost);
        let hosts = hosts.at("read intervals", self.path())?.into_iter();
        let mut cursor = self.cursor.take();
        cursor.names.lost_sums += lost;
        let walk = cursor.walk_fresh(host, query.clone());
        let intervals = IntervalReader::new(self, Some((cursor, walk)));
        let sums = SumReader { host, resolution, query, has_threads, hosts, bucket };
        Ok(SegmentReader { intervals, sums: Some(sums), transaction: Some(transaction) })
    }

    /// The hours of a range whose threads are not all in sums, in order: those that an older version compacted. In all others sums and
    /// fresh intervals together have every thread.
    pub fn hours_without_threads(&self, host: HostId, range: TimeRange) -> Result<Vec<TimeRange>> {
        let Some(host) = self.host_row(host)? else { return Ok(Vec::new()) };
        let buckets = Resolution::Hour.buckets(range);
        let length_ns = Resolution::Hour.length_ns();
        let text = "SELECT hour FROM host_hour
             WHERE host_id = ?1 AND hour BETWEEN ?2 AND ?3 AND thread_intervals < intervals ORDER BY hour";
        let hours = all_rows(self.question(), text, params![host, buckets.first, buckets.last], |row| {
            let since_ns = row.get::<_, i64>(0)?.saturating_mul(length_ns);
            Ok(TimeRange::new(since_ns, since_ns.saturating_add(length_ns)))
        });
        hours.at("find sums", self.path())
    }

    /// Follows who rests up to the first fresh interval of a query. Outside of a transaction.
    fn follow_to_fresh(&self, host: HostRow, query: &Query) -> Result<()> {
        let text = "SELECT begin_wall_ns FROM interval WHERE host_id = ?1 AND end_wall_ns > ?2
                    ORDER BY end_wall_ns LIMIT 1";
        let begin: Option<i64> = find_row(self.question(), text, params![host, query.since_ns], first)
            .at("read intervals", self.path())?;
        let Some(begin) = begin.filter(|_| resting::is_wanted(query)) else { return Ok(()) };
        // No interval is in this range, but those before it are followed.
        let mut before = self.intervals(&query.clone().range(begin, begin))?;
        while before.read()?.is_some() {}
        Ok(())
    }

    /// Sums do not record which counters were measured. Taken are those of the next interval behind the range, else of the
    /// newest one there is: a host rarely loses a source of data.
    fn last_fields(&self, query: &Query) -> Result<Fields> {
        let mut newest = self.first_in(&Query {
            what: What::Meta,
            since_ns: query.until_ns - 1,
            until_ns: i64::MAX,
            ..query.clone()
        })?;
        if newest.is_none()
            && let Some((_, last_ns)) = self.time_range(query.host)?
        {
            newest = self.first_in(&Query::new(query.host).range(last_ns - 1, last_ns).what(What::Meta))?;
        }
        // Scheduler and interrupt events are not summed: without these fields they read as no data, not as zero. Whether run
        // delays were measured is recorded for each bucket.
        let without = Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::HISTOGRAMS | Fields::CGROUPS;
        let without = without | Fields::WAITS_FOR | Fields::AFFINITY;
        Ok(newest.map_or(Fields::all(), |stored| stored.interval.fields).difference(without))
    }
}

impl<'a> Segment<'a> {
    /// From the start of the interval or bucket to its end, on the wall clock.
    pub fn time(&self) -> TimeRange {
        TimeRange::new(self.interval.begin.wall_ns, self.interval.end.wall_ns)
    }

    /// A segment that is a single interval.
    pub fn of(interval: &'a Interval) -> Self {
        Self { interval, max_busy_ppm: None, run_queue: RunQueue::of(interval), processes: &[], threads: &[] }
    }
}

/// The segments of a query, read one after the other.
#[derive(Debug)]
pub struct SegmentReader<'r> {
    /// Where sums are read: those that are in none.
    intervals: IntervalReader<'r>,
    sums: Option<SumReader>,
    /// Of sums, up to the last segment: nothing is compacted meanwhile.
    transaction: Option<Transaction<'r>>,
}

impl SegmentReader<'_> {
    /// The next segment; `None` behind the last one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(&mut self) -> Result<Option<Segment<'_>>> {
        let IntervalReader { reader, walking } = &mut self.intervals;
        if let (Some(sums), Some((cursor, _))) = (&mut self.sums, walking) {
            let is_there = sums.advance(&reader.connection, &mut cursor.names);
            if is_there.map_err(|error| reader.read_error(error))? {
                return Ok(Some(sums.bucket.segment()));
            }
        }
        let interval = self.intervals.read()?;
        if interval.is_none() {
            self.transaction = None;
        }
        Ok(interval.map(|stored| Segment::of(&stored.interval)))
    }
}

/// The sums of a query, a bucket at a time.
#[derive(Debug)]
struct SumReader {
    host: HostRow,
    resolution: Resolution,
    query: Query,
    has_threads: bool,
    /// Buckets that were not read yet.
    hosts: std::vec::IntoIter<(i64, HostSum)>,
    bucket: BucketInterval,
}

impl SumReader {
    /// Reads the next bucket; `false` behind the last one. Processes without a row in a bucket are absent.
    fn advance(&mut self, connection: &Connection, names: &mut ReaderNames) -> Result<bool, ReadError> {
        let Some((number, host)) = self.hosts.next() else { return Ok(false) };
        self.bucket.begin(number, host);
        if self.bucket.with_waits {
            let lost = &mut self.bucket.lost;
            let waits_for = waits_for(connection, self.host, self.resolution, number, lost)?;
            self.bucket.interval.fields.set(Fields::WAITS_FOR, waits_for.is_some());
            waits_for.unwrap_or_default().give(&mut self.bucket.interval);
        }
        if self.query.what > What::Meta {
            self.read_processes(connection, names, number)?;
            self.bucket.end_rows();
            if self.has_threads {
                self.read_threads(connection, names, number)?;
            }
        }
        names.lost_sums += std::mem::take(&mut self.bucket.lost);
        Ok(true)
    }

    fn read_processes(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        number: i64,
    ) -> Result<(), ReadError> {
        let name = self.resolution.name();
        let text = format!(
            "SELECT process_id, run_delays, {} FROM process_{name}
             WHERE host_id = ?1 AND {name} = ?2 ORDER BY process_id",
            *TASK_COLUMN_NAMES
        );
        let mut select = connection.prepare_cached(&text)?;
        let mut rows = select.query(params![self.host, number])?;
        let (mut newest, mut last_id) = (BootRow::default(), None);
        while let Some(row) = rows.next()? {
            let id = unsigned(row, 0)?;
            check_follows(&mut last_id, id.cast_signed())?;
            let boot = names.boot_of(connection, id)?;
            let process = names.process(connection, id)?;
            // Whatever the filter: one process does not say when its machine started again.
            if process.boot > newest {
                (newest, self.bucket.interval.boot) = (process.boot, boot);
            }
            if self.query.filter.matches(process.key, &process.info) {
                self.bucket.add_process(process, boot, row)?;
                self.bucket.ids.push(id);
            }
        }
        Ok(())
    }

    /// Replaces the thread rows with those of an hour.
    fn read_threads(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        hour: i64,
    ) -> rusqlite::Result<()> {
        let bucket = &mut self.bucket;
        let threads = &mut bucket.interval.threads;
        threads.clear();
        bucket.threads.clear();
        let text = format!(
            "SELECT process_id, tid, start_ns, comm, {} FROM thread_hour
             WHERE host_id = ?1 AND hour = ?2 ORDER BY process_id, tid, start_ns",
            *TASK_COLUMN_NAMES
        );
        let mut select = connection.prepare_cached(&text)?;
        let mut rows = select.query(params![self.host, hour])?;
        let begin_ns = hour.saturating_mul(Resolution::Hour.length_ns());
        let (mut last_id, mut boot, mut owner, mut is_wanted) =
            (None, BootId::default(), ProcessKey::default(), false);
        let mut last_key = None;
        while let Some(row) = rows.next()? {
            let id = unsigned(row, 0)?;
            let key = ThreadKey { tid: row.get(1)?, start_ns: unsigned(row, 2)? };
            check_follows(&mut last_key, (id.cast_signed(), key.tid, key.start_ns.cast_signed()))?;
            if last_id.replace(id) != Some(id) {
                boot = names.boot_of(connection, id)?;
                let found = names.process(connection, id)?;
                is_wanted = self.query.filter.matches(found.key, &found.info);
                owner = found.key;
            }
            if !is_wanted {
                continue;
            }
            let at = 4;
            let waits = read_packed::<Waits>(row, at + WAITS_AT, &mut bucket.lost)?.unwrap_or_default();
            let (delta, sum) = SumRow::read(row, at, begin_ns, boot)?;
            threads.push(ThreadInterval {
                key,
                process: owner,
                comm: row.get::<_, SqlComm>(3)?.0,
                // The row that short-lived threads of a name share is that of no thread.
                life: if key.tid == 0 { Life::BornEnded } else { Life::Alive },
                delta,
                sched: SchedDelta { waits, ..SchedDelta::default() },
                ..ThreadInterval::default()
            });
            let process = bucket.ids.binary_search(&id).ok();
            bucket.threads.push(SumRow { process, ..sum });
        }
        let rows = bucket.processes.iter().chain(&bucket.threads);
        bucket.know_counters(rows.fold(Fields::empty(), |all, row| all | row.unknown));
        Ok(())
    }
}
