//! Sums per minute and hour: their buckets, their columns, and how they are written and read. The writer adds intervals to rows that exist
//! already; the SQL for that is here, with functions for values that `+` cannot add. [`HostSums`] are the rows of hosts (`host_minute`,
//! `host_hour`), [`SumRow`] and [`TaskSum`] the columns that sums of tasks have in common.

use std::ops::AddAssign;

use cpumon_model::{
    BootId, CpuSched, DelayHistogram, Delta, Fields, Flags, Interval, Ledger, SchedDelta, Waits,
};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result, Row, RowIndex, Statement, ToSql, params, params_from_iter};

use crate::codec::host::Cgroups;
use crate::codec::sched::{read_histogram, waits_from_bytes, waits_to_bytes, write_histogram};
use crate::codec::varint::{Malformed, VarintCursor};
use crate::reader::TimeRange;
use crate::rows::{HostRow, all_rows, signed};

/// ns in a second: the unit of rates per second.
pub(crate) const PER_SECOND: i64 = 1_000_000_000;

/// Length of the buckets in which compacted intervals are summed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    Minute,
    Hour,
}

impl Resolution {
    /// Both, the finer one first.
    pub(crate) const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    pub fn length_ns(self) -> i64 {
        match self {
            Self::Minute => 60 * PER_SECOND,
            Self::Hour => 3600 * PER_SECOND,
        }
    }

    /// `minute` or `hour`: name of the column and end of the tables' names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// The bucket in which an interval ends: it covers (n × length, (n + 1) × length].
    pub(crate) fn bucket(self, end_wall_ns: i64) -> i64 {
        // Less 1, because a bucket includes its end; euclidean, so that times before 1970 have buckets of
        // full length.
        end_wall_ns.saturating_sub(1).div_euclid(self.length_ns())
    }

    /// The buckets in which intervals of a range can end.
    pub(crate) fn buckets(self, range: TimeRange) -> BucketRange {
        BucketRange {
            // A range does not include its start.
            first: self.bucket(range.since_ns.saturating_add(1)),
            last: self.bucket(range.until_ns),
        }
    }
}

/// Numbers of buckets, both ends included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// When the task of a sum was active and when it ran most, ns since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ActiveTimes {
    /// Start of the first interval in which it was active.
    pub first_ns: i64,
    /// End of the last interval in which it was active.
    pub last_ns: i64,
    /// End of the one in which it ran most.
    pub max_end_ns: i64,
}

/// The largest run time in one interval, and when that and all others were. The store has the times as differences to the start of
/// their bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Largest {
    pub(crate) ns_per_s: i64,
    pub(crate) times: ActiveTimes,
}

impl Largest {
    /// Adds an interval from `begin_ns` to `end_ns`, or more of what ran in it.
    pub(crate) fn add(&mut self, ns_per_s: i64, begin_ns: i64, end_ns: i64) {
        let times = &mut self.times;
        times.first_ns = times.first_ns.min(begin_ns);
        times.last_ns = times.last_ns.max(end_ns);
        if ns_per_s > self.ns_per_s || times.max_end_ns == i64::MIN {
            (self.ns_per_s, times.max_end_ns) = (ns_per_s, end_ns);
        }
    }

    /// The times as the store has them: less the start of their bucket.
    fn stored_times(&self, resolution: Resolution, bucket: i64) -> [i64; 3] {
        let begin_ns = bucket.saturating_mul(resolution.length_ns());
        let ActiveTimes { first_ns, last_ns, max_end_ns } = self.times;
        [first_ns, last_ns, max_end_ns].map(|ns| ns.saturating_sub(begin_ns))
    }
}

impl Default for Largest {
    /// The state before the first interval is added.
    fn default() -> Self {
        let times = ActiveTimes { first_ns: i64::MAX, last_ns: i64::MIN, max_end_ns: i64::MIN };
        Self { ns_per_s: 0, times }
    }
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// Tasks running or ready, integrated over time; divided by the measured time it is their mean number.
    pub run_queue_ns: i64,
    /// The highest mean of a single interval, ns per second: 1e9 is one task.
    pub max_run_queue_ns_per_s: i64,
    /// The longest queue of any one CPU, tasks.
    pub run_queue_max: i64,
}

impl RunQueue {
    /// Of one interval; `None` where context switches were not measured, or some of its events were lost.
    pub fn of(interval: &Interval) -> Option<Self> {
        let is_known =
            interval.fields.contains(Fields::SCHED) && !interval.flags.contains(Flags::RUN_QUEUE_UNKNOWN);
        if !is_known || interval.cpus.is_empty() {
            return None;
        }
        let sched = interval.cpu_sched();
        let length_ns = signed(interval.duration_ns());
        Some(Self::new(&sched, length_ns))
    }

    pub(crate) fn new(sched: &CpuSched, length_ns: i64) -> Self {
        let run_queue_ns = signed(sched.run_queue_ns);
        Self {
            run_queue_ns,
            max_run_queue_ns_per_s: rate(run_queue_ns, length_ns, PER_SECOND),
            run_queue_max: sched.run_queue_max.into(),
        }
    }

    /// Adds another time: lengths add up, maxima stay maxima.
    pub(crate) fn add(&mut self, more: &Self) {
        self.run_queue_ns = self.run_queue_ns.saturating_add(more.run_queue_ns);
        self.max_run_queue_ns_per_s = self.max_run_queue_ns_per_s.max(more.max_run_queue_ns_per_s);
        self.run_queue_max = self.run_queue_max.max(more.run_queue_max);
    }
}

/// `part` per second (or million) of `whole`; 0 if `whole` is not positive.
pub(crate) fn rate(part: i64, whole: i64, unit: i64) -> i64 {
    if whole <= 0 {
        return 0;
    }
    // 128 bits: `part` can be centuries of ns times a billion.
    signed(i128::from(part) * i128::from(unit) / i128::from(whole))
}

/// Adds where something is known: unknown + 5 = 5, and a sum of nothing stays unknown.
pub(crate) fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// [`add_known`] for histograms and for wait reasons.
pub(crate) fn add_more<T: Default + for<'a> AddAssign<&'a T>>(sum: &mut Option<T>, more: Option<&T>) {
    if let Some(more) = more {
        *sum.get_or_insert_default() += more;
    }
}

/// A histogram as a row of sums stores it.
pub(crate) fn delay_bytes(histogram: &DelayHistogram) -> Vec<u8> {
    let mut out = Vec::new();
    write_histogram(&mut out, histogram);
    out
}

pub(crate) fn cgroup_bytes(cgroups: &Cgroups) -> Vec<u8> {
    let mut out = Vec::new();
    cgroups.write(&mut out);
    out
}

/// The columns that sums of processes and threads have in common, in the order of [`TaskSum::write`].
pub(crate) const TASK_COLUMNS: &str =
    "user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches, involuntary_switches,
    max_run_ns_per_s, blocked_ns, first_ns, last_ns, max_end_ns, waits";

/// What a task did in a bucket.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TaskSum {
    pub(crate) delta: Delta,
    pub(crate) largest: Largest,
    /// Of the threads that were active; `None`: not measured.
    blocked_ns: Option<i64>,
    waits: Option<Waits>,
}

impl TaskSum {
    /// Adds an interval; `sched`: where it was measured.
    pub(crate) fn add(&mut self, delta: &Delta, sched: Option<&SchedDelta>, has_waits: bool) {
        self.delta += delta;
        add_known(&mut self.blocked_ns, sched.map(|sched| sched.blocked_ns));
        add_more(&mut self.waits, sched.filter(|_| has_waits).map(|sched| &sched.waits));
    }

    /// SQL: adds a sum to a row. `keys`: columns before [`TASK_COLUMNS`]; `more`: what becomes of those that are no key.
    pub(crate) fn upsert(table: &str, keys: &str, more: &str) -> String {
        let places = vec!["?"; (keys.split(',').chain(TASK_COLUMNS.split(','))).count()].join(", ");
        format!(
            "INSERT INTO {table} ({keys}, {TASK_COLUMNS}) VALUES ({places})
             ON CONFLICT DO UPDATE SET {more}, {COUNTERS_SUM}, {LARGEST}, {WAITS_SUM}, {}",
            known_sum("blocked_ns")
        )
    }

    /// Adds it to the row of `keys` in a table of this resolution.
    pub(crate) fn write(
        &self,
        upsert: &mut Statement<'_>,
        keys: &[&dyn ToSql],
        resolution: Resolution,
        bucket: i64,
    ) -> Result<()> {
        let [first_ns, last_ns, max_end_ns] = self.largest.stored_times(resolution, bucket);
        let waits = self.waits.as_ref().map(waits_to_bytes);
        let values: [&dyn ToSql; 12] = [
            &self.delta.user_ns,
            &self.delta.system_ns,
            &self.delta.run_ns,
            &self.delta.run_delay_ns,
            &self.delta.voluntary_switches,
            &self.delta.involuntary_switches,
            &self.largest.ns_per_s,
            &self.blocked_ns,
            &first_ns,
            &last_ns,
            &max_end_ns,
            &waits,
        ];
        upsert.execute(params_from_iter(keys.iter().copied().chain(values))).map(drop)
    }
}

/// SQL: the sums of the six counters of a task.
const COUNTERS_SUM: &str = "user_ns = user_ns + excluded.user_ns, system_ns = system_ns + excluded.system_ns,
    run_ns = run_ns + excluded.run_ns, run_delay_ns = run_delay_ns + excluded.run_delay_ns,
    voluntary_switches = voluntary_switches + excluded.voluntary_switches,
    involuntary_switches = involuntary_switches + excluded.involuntary_switches";

/// SQL: the sum of a column of histograms.
pub(crate) const RUN_DELAYS_SUM: &str = "run_delays = merged_run_delays(run_delays, excluded.run_delays)";

/// SQL: the sum of a column of wait reasons.
const WAITS_SUM: &str = "waits = merged_waits(waits, excluded.waits)";

/// SQL: the sum of a column of control groups.
pub(crate) const CGROUPS_SUM: &str = "cgroups = merged_cgroups(cgroups, excluded.cgroups)";

/// SQL: the sum of a column in which NULL is no data.
pub(crate) fn known_sum(column: &str) -> String {
    format!(
        "{column} = CASE WHEN excluded.{column} IS NULL THEN {column} ELSE coalesce({column}, 0) + excluded.{column} END"
    )
}

/// SQL: the largest run time and the times of a sum. Where rows of an older version were added before, the times stay NULL.
const LARGEST: &str = "max_run_ns_per_s = max(max_run_ns_per_s, excluded.max_run_ns_per_s),
    first_ns = min(first_ns, excluded.first_ns), last_ns = max(last_ns, excluded.last_ns),
    max_end_ns = CASE WHEN max_end_ns IS NOT NULL AND excluded.max_run_ns_per_s > max_run_ns_per_s
                      THEN excluded.max_end_ns ELSE max_end_ns END";

/// Adds the functions that add two values to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("merged_run_delays", 2, flags, |context| {
        let read = |bytes: &[u8]| read_histogram(&mut VarintCursor::new(bytes));
        let sum = sum_of(context, read, |sum: &mut DelayHistogram, more| *sum += &more)?;
        Ok(sum.as_ref().map(delay_bytes))
    })?;
    connection.create_scalar_function("merged_waits", 2, flags, |context| {
        let sum = sum_of(context, waits_from_bytes, |sum: &mut Waits, more| *sum += &more)?;
        Ok(sum.as_ref().map(waits_to_bytes))
    })?;
    connection.create_scalar_function("merged_cgroups", 2, flags, |context| {
        let read = |bytes: &[u8]| Cgroups::read(&mut VarintCursor::new(bytes));
        let sum = sum_of(context, read, |sum: &mut Cgroups, more| sum.add(&more))?;
        Ok(sum.as_ref().map(cgroup_bytes))
    })
}

/// NULL and a value make that value. A damaged one is logged and left out: it must not stop compaction for good.
fn sum_of<T: Default>(
    context: &Context<'_>,
    read: impl Fn(&[u8]) -> std::result::Result<T, Malformed>,
    add: impl Fn(&mut T, T),
) -> Result<Option<T>> {
    let mut sum = None;
    for at in 0..context.len() {
        let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
        match read(bytes) {
            Ok(more) => add(sum.get_or_insert_default(), more),
            Err(malformed) => log::warn!("a sum is damaged and left out: {malformed}"),
        }
    }
    Ok(sum)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HostSums {
    pub(crate) bucket: i64,
    pub(crate) covered_ns: i64,
    pub(crate) ledger: Ledger,
    pub(crate) max_busy_ppm: i64,
    pub(crate) run_queue: Option<RunQueue>,
    pub(crate) run_delays: Option<DelayHistogram>,
    pub(crate) cgroups: Option<Cgroups>,
}

/// What is packed in a column of a sum; `None` where it is not known, or damaged.
fn unpack<T>(
    row: &Row<'_>,
    at: impl RowIndex,
    what: &str,
    read: impl Fn(&[u8]) -> std::result::Result<T, Malformed>,
) -> Result<Option<T>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    let unpacked = read(bytes);
    Ok(unpacked.inspect_err(|malformed| log::warn!("a sum of {what} is damaged: {malformed}")).ok())
}

pub(crate) fn read_delays(row: &Row<'_>, at: usize) -> Result<Option<DelayHistogram>> {
    unpack(row, at, "run delays", |bytes| read_histogram(&mut VarintCursor::new(bytes)))
}

pub(crate) fn read_waits(row: &Row<'_>, at: usize) -> Result<Option<Waits>> {
    unpack(row, at, "wait reasons", waits_from_bytes)
}

/// The six counters of a task in columns from `at` on.
pub(crate) fn read_counters(row: &Row<'_>, at: usize) -> Result<Delta> {
    Ok(Delta {
        user_ns: row.get(at)?,
        system_ns: row.get(at + 1)?,
        run_ns: row.get(at + 2)?,
        run_delay_ns: row.get(at + 3)?,
        voluntary_switches: row.get(at + 4)?,
        involuntary_switches: row.get(at + 5)?,
    })
}

fn read_run_queue(row: &Row<'_>) -> Result<Option<RunQueue>> {
    let Some(run_queue_ns) = row.get("run_queue_ns")? else { return Ok(None) };
    let known = |name: &str| row.get::<_, Option<i64>>(name).map(Option::unwrap_or_default);
    Ok(Some(RunQueue {
        run_queue_ns,
        max_run_queue_ns_per_s: known("max_run_queue_ns_per_s")?,
        run_queue_max: known("run_queue_max")?,
    }))
}

/// The sums of a host over some buckets, in order.
pub(crate) fn host_sums(
    connection: &Connection,
    host: HostRow,
    resolution: Resolution,
    buckets: BucketRange,
) -> Result<Vec<HostSums>> {
    let name = resolution.name();
    let text = format!(
        "SELECT {name}, covered_ns, capacity_ns, threads_ns, exited_ns, irq_ns, softirq_ns, steal_ns, idle_ns, max_busy_ppm,
                run_delays, run_queue_ns, max_run_queue_ns_per_s, run_queue_max, cgroups
         FROM host_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}"
    );
    all_rows(connection, &text, params![host, buckets.first, buckets.last], |row| {
        Ok(HostSums {
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
            cgroups: unpack(row, "cgroups", "control groups", |bytes| {
                Cgroups::read(&mut VarintCursor::new(bytes))
            })?,
        })
    })
}

/// What a row of a sum has beside its counters.
#[derive(Copy, Clone, Debug, Default)]
pub struct SumRow {
    /// The largest run time in one interval, ns per second; of short-lived threads that share a row that of all of them together.
    pub max_run_ns_per_s: i64,
    /// Blocked time; `None`: not measured.
    pub blocked_ns: Option<i64>,
    /// When it was active; `None`: not recorded.
    pub times: Option<ActiveTimes>,
    /// The boot of its process, all zero where it is not known.
    pub boot: BootId,
    /// Of a thread: the place of its process among the process rows of the sum.
    pub process: Option<usize>,
}

impl SumRow {
    /// Reads `max_run_ns_per_s`, `blocked_ns`, `first_ns`, `last_ns`, `max_end_ns` from column `at` on; `begin_ns`: of the bucket.
    pub(crate) fn read(row: &Row<'_>, at: usize, begin_ns: i64, boot: BootId) -> Result<Self> {
        let time = |at: usize| {
            Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(|ns| ns.saturating_add(begin_ns)))
        };
        let times = match (time(at + 2)?, time(at + 3)?, time(at + 4)?) {
            (Some(first_ns), Some(last_ns), Some(max_end_ns)) => {
                Some(ActiveTimes { first_ns, last_ns, max_end_ns })
            }
            _ => None,
        };
        let (max_run_ns_per_s, blocked_ns) = (row.get(at)?, row.get(at + 1)?);
        Ok(Self { max_run_ns_per_s, blocked_ns, times, boot, process: None })
    }
}
