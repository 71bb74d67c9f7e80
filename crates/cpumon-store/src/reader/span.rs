//! A long range in few steps. In: a query, how many points a picture has. Out: [`Segment`]s: intervals as they are, or the sums of
//! a minute or an hour as if each were one interval. Why: a picture of a day must not read a day of samples, and whoever draws
//! it need not know which of the two it reads.

use std::ops::ControlFlow;
use std::sync::Arc;

use cpumon_model::{
    DelayHistogram, DelayOf, Delays, Delta, Fields, HostId, Interval, Ledger, Moment, ProcessInterval,
};
use rusqlite::{Connection, params};

use super::cursor::{IntervalCursor, ReadError};
use super::line::choose_resolution;
use super::query::{Query, What};
use super::{Reader, dims};
use crate::codec::delays;
use crate::codec::varint::Cursor;
use crate::error::{At, Result};
pub use crate::writer::{Resolution, RunQueue};

/// What one step of a walk tells.
#[derive(Copy, Clone, Debug)]
pub struct Segment<'a> {
    /// What happened. Of sums: their bucket on the wall clock, measured time as length; no threads, no CPUs, no oddities; the
    /// run delays of all CPUs stand as those of the first.
    pub interval: &'a Interval,
    /// Of sums: the largest share of the capacity that was busy in one interval, millionths.
    pub max_busy_ppm: Option<i64>,
    /// Run queues of all CPUs; `None` where no switch was watched.
    pub run_queue: Option<RunQueue>,
    /// Of sums: the largest run time of each process row in one interval, ns per second. Empty for an interval as it is.
    pub max_run_ns_per_s: &'a [i64],
}

/// How a range is walked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Only what ends after this; not before what the store holds.
    pub since_ns: i64,
    /// And not after this; not after what the store holds.
    pub until_ns: i64,
    /// Sums of this length; `None`: the intervals themselves.
    pub resolution: Option<Resolution>,
    /// Width of a point, ns; of sums a multiple of theirs.
    pub width_ns: i64,
}

/// Takes a span, says whether to go on.
type Visit<'a> = &'a mut dyn FnMut(&Segment<'_>) -> ControlFlow<()>;

/// Sums of one bucket over a host.
#[derive(Clone, Debug, Default)]
struct HostRow {
    bucket: i64,
    covered_ns: i64,
    ledger: Ledger,
    max_busy_ppm: i64,
    run_queue: Option<RunQueue>,
    run_delays: Option<DelayHistogram>,
}

/// A bucket as an interval, its rows being collected.
struct Bucket {
    length_ns: i64,
    interval: Interval,
    peaks: Vec<i64>,
}

impl Bucket {
    fn new(host: HostId, fields: Fields, resolution: Resolution) -> Self {
        let interval = Interval { host, fields, ..Interval::default() };
        Self { length_ns: resolution.length_ns(), interval, peaks: Vec::new() }
    }

    fn begin(&mut self, row: &HostRow) {
        let begin_ns = row.bucket.saturating_mul(self.length_ns);
        self.interval.begin = Moment { wall_ns: begin_ns, ..Moment::default() };
        self.interval.end = Moment {
            wall_ns: begin_ns.saturating_add(self.length_ns),
            mono_ns: row.covered_ns.max(0).unsigned_abs(),
            ..Moment::default()
        };
        self.interval.ledger = row.ledger;
        self.interval.processes.clear();
        self.interval.delays.clear();
        self.interval.fields.set(Fields::HISTOGRAMS, row.run_delays.is_some());
        self.add_delays(DelayOf::Cpu(0), row.run_delays.as_ref());
        self.peaks.clear();
    }

    fn add_delays(&mut self, of: DelayOf, histogram: Option<&DelayHistogram>) {
        let known = histogram.filter(|histogram| !histogram.is_empty());
        self.interval
            .delays
            .extend(known.map(|histogram| Delays { of, histogram: Arc::new(histogram.clone()) }));
    }
}

impl Reader {
    /// How to walk a range for a picture of at most about `points` points: over sums where points are minutes or hours apart,
    /// or where nothing finer reaches back. `None` if the store holds nothing of the host.
    pub fn plan(
        &self,
        host: HostId,
        (since_ns, until_ns): (i64, i64),
        points: usize,
    ) -> Result<Option<Plan>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(None) };
        let (minutes, _) = self.sum_span(host_id, Resolution::Minute)?;
        let (hours, last_hour) = self.sum_span(host_id, Resolution::Hour)?;
        let (first, last) = self.host_span(host_id).at("find the time range", &self.path)?;
        let oldest = first.into_iter().chain(minutes).chain(hours).min();
        let Some((oldest, last)) = oldest.zip(last.or(last_hour)) else { return Ok(None) };
        let since = since_ns.max(oldest.saturating_sub(1));
        let until = until_ns.min(last.max(oldest));
        let points = i64::try_from(points).unwrap_or(i64::MAX).max(1);
        // The points are those of the range that was asked for: it is what the picture shows.
        let wanted_ns = (until_ns.saturating_sub(since_ns) / points).max(1);
        let resolution = choose_resolution(wanted_ns, since, first, minutes, hours);
        let width_ns = resolution.map_or(wanted_ns, |resolution| {
            let length_ns = resolution.length_ns();
            (wanted_ns.saturating_add(length_ns - 1) / length_ns).max(1).saturating_mul(length_ns)
        });
        Ok(Some(Plan { since_ns: since, until_ns: until, resolution, width_ns }))
    }

    /// Calls `visit` for each span of the query until it breaks off. Of sums, those come first that are sealed, then the
    /// intervals that are not: their times can overlap by a bucket. Short-lived processes are in sums under one of them.
    pub fn for_each_segment(
        &self,
        query: &Query,
        resolution: Option<Resolution>,
        visit: Visit<'_>,
    ) -> Result<()> {
        let Some(resolution) = resolution else {
            return self.for_each_interval(query, &mut |interval| visit(&Segment::of(interval)));
        };
        let Some(host_id) = self.host_row(query.host)? else { return Ok(()) };
        let fields = self.last_fields(query)?;
        let mut cursor = self.cursor.take();
        let done = walk_sums(&self.connection, &mut cursor, host_id, query, (resolution, fields), visit);
        self.cursor.replace(cursor);
        done.map_err(|error| self.read_error(error))
    }

    /// Sums do not tell which counters were measured: those of the newest interval before the range's end are taken.
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
        // What the scheduler's and interrupts' events tell is not summed up: no data there, not zero. Whether run delays are, each
        // bucket tells.
        let without = Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::HISTOGRAMS;
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
        Self { interval, max_busy_ppm: None, run_queue: RunQueue::of(interval), max_run_ns_per_s: &[] }
    }
}

/// In one transaction, so that sealing at the same time neither hides nor doubles an interval.
fn walk_sums(
    connection: &Connection,
    cursor: &mut IntervalCursor,
    host_id: i64,
    query: &Query,
    (resolution, fields): (Resolution, Fields),
    visit: Visit<'_>,
) -> std::result::Result<(), ReadError> {
    let transaction = connection.unchecked_transaction()?;
    let range = (resolution.bucket(query.since_ns.saturating_add(1)), resolution.bucket(query.until_ns));
    let hosts = host_rows(connection, host_id, resolution, range)?;
    let mut bucket = Bucket::new(query.host, fields, resolution);
    let mut flow = ControlFlow::Continue(());
    if query.what == What::Meta {
        for row in &hosts {
            bucket.begin(row);
            flow = visit(&bucket.span(row));
            if flow.is_break() {
                break;
            }
        }
    } else {
        flow = walk_processes(
            connection,
            cursor,
            (host_id, &hosts),
            query,
            (resolution, range),
            &mut bucket,
            visit,
        )?;
    }
    if flow.is_continue() {
        let query = Query { what: query.what.min(What::Processes), ..query.clone() };
        let mut flow = flow;
        cursor.run_fresh(connection, host_id, &query, &mut |interval| {
            if flow.is_continue() {
                flow = visit(&Segment::of(interval));
            }
        })?;
    }
    transaction.commit()?;
    Ok(())
}

/// Run delays by length; `None` where they are not known, or damaged.
fn read_delays(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<DelayHistogram>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    match delays::read(&mut Cursor::new(bytes)) {
        Ok(histogram) => Ok(Some(histogram)),
        Err(malformed) => {
            log::warn!("a sum of run delays is damaged: {malformed}");
            Ok(None)
        }
    }
}

fn read_run_queue(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<RunQueue>> {
    let Some(run_queue_ns) = row.get("run_queue_ns")? else { return Ok(None) };
    let known = |name: &str| row.get::<_, Option<i64>>(name).map(Option::unwrap_or_default);
    Ok(Some(RunQueue {
        run_queue_ns,
        max_run_queue_ns_per_s: known("max_run_queue_ns_per_s")?,
        run_queue_max: known("run_queue_max")?,
    }))
}

impl Bucket {
    /// Ascending, one for each owner: a process that was renamed has several rows.
    fn sort_delays(&mut self) {
        let list = &mut self.interval.delays;
        list.sort_by_key(|row| row.of);
        list.dedup_by(|next, kept| {
            let is_same = next.of == kept.of;
            if is_same {
                *Arc::make_mut(&mut kept.histogram) += &next.histogram;
            }
            is_same
        });
    }

    fn span(&self, row: &HostRow) -> Segment<'_> {
        Segment {
            interval: &self.interval,
            max_busy_ppm: Some(row.max_busy_ppm),
            run_queue: row.run_queue,
            max_run_ns_per_s: &self.peaks,
        }
    }
}

fn host_rows(
    connection: &Connection,
    host_id: i64,
    resolution: Resolution,
    (first, last): (i64, i64),
) -> rusqlite::Result<Vec<HostRow>> {
    let name = resolution.name();
    let text = format!(
        "SELECT {name}, covered_ns, capacity_ns, threads_ns, exited_ns, irq_ns, softirq_ns, steal_ns, idle_ns, max_busy_ppm,
                run_delays, run_queue_ns, max_run_queue_ns_per_s, run_queue_max
         FROM host_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}"
    );
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map(params![host_id, first, last], |row| {
        Ok(HostRow {
            bucket: row.get(0)?,
            covered_ns: row.get(1)?,
            ledger: Ledger {
                capacity_ns: row.get(2)?,
                threads_ns: row.get(3)?,
                exited_ns: row.get(4)?,
                irq_ns: row.get(5)?,
                softirq_ns: row.get(6)?,
                steal_ns: row.get(7)?,
                idle_ns: row.get(8)?,
                ..Ledger::default()
            },
            max_busy_ppm: row.get(9)?,
            run_delays: read_delays(row, 10)?,
            run_queue: read_run_queue(row)?,
        })
    })?;
    rows.collect()
}

fn walk_processes(
    connection: &Connection,
    cursor: &mut IntervalCursor,
    (host_id, hosts): (i64, &[HostRow]),
    query: &Query,
    (resolution, (first, last)): (Resolution, (i64, i64)),
    bucket: &mut Bucket,
    visit: Visit<'_>,
) -> std::result::Result<ControlFlow<()>, ReadError> {
    let name = resolution.name();
    let text = format!(
        "SELECT {name}, process_id, user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches, involuntary_switches,
                max_run_ns_per_s, run_delays
         FROM process_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}, process_id"
    );
    let mut select = connection.prepare_cached(&text)?;
    let mut rows = select.query(params![host_id, first, last])?;
    let mut pending = rows.next()?;
    for host in hosts {
        bucket.begin(host);
        while let Some(row) = pending {
            let at: i64 = row.get(0)?;
            if at > host.bucket {
                break;
            }
            let process = cursor.names.process(connection, dims::unsigned(row, 1)?)?;
            if at == host.bucket && query.filter.matches(process.key, &process.info) {
                bucket.interval.processes.push(ProcessInterval {
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
                bucket.peaks.push(row.get(8)?);
                bucket.add_delays(DelayOf::Process(process.key), read_delays(row, 9)?.as_ref());
            }
            pending = rows.next()?;
        }
        bucket.sort_delays();
        if visit(&bucket.span(host)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
