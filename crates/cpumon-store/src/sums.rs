//! Sums per minute and hour: their buckets, their columns, and how they are written and read. The writer adds intervals to rows that exist
//! already; the SQL for that is here, with functions for values that `+` cannot add. [`HostSum`] is a row of a host (`host_minute`,
//! `host_hour`), [`SumRow`] and [`TaskSum`] have the columns that sums of tasks have in common.

use std::sync::LazyLock;

use cpumon_model::{BootId, CpuSched, DelayHistogram, Delta, Fields, Flags, Interval, SchedDelta, Waits};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Result, Row, Statement, ToSql, params, params_from_iter};

use crate::codec::Packed;
use crate::codec::host::Cgroups;
use crate::codec::meta::{CAPACITY, COLUMNS, LEDGER_LINES};
use crate::codec::waits_for::WaitsFor;
use crate::reader::TimeRange;
use crate::rows::{HostRow, all_rows, find_row, signed};

/// ns in a second: the unit of rates per second.
pub const PER_SECOND: i64 = 1_000_000_000;

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
struct Largest {
    ns_per_s: i64,
    times: ActiveTimes,
}

impl Largest {
    /// Adds an interval in which `run_ns` ran, so far.
    fn add(&mut self, run_ns: i64, at: &IntervalAt) {
        let times = &mut self.times;
        times.first_ns = times.first_ns.min(at.begin_ns);
        times.last_ns = times.last_ns.max(at.end_ns);
        let ns_per_s = rate(run_ns, at.measured_in_ns, PER_SECOND);
        if ns_per_s > self.ns_per_s || times.max_end_ns == i64::MIN {
            (self.ns_per_s, times.max_end_ns) = (ns_per_s, at.end_ns);
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
}

/// `part` per `unit` of `whole`, such as a billion for a second; 0 if `whole` is not positive.
#[must_use]
pub fn rate(part: i64, whole: i64, unit: i64) -> i64 {
    if whole <= 0 {
        return 0;
    }
    match part.checked_mul(unit) {
        Some(units) => units / whole,
        // `part` can be centuries of ns times a billion; a division of 128 bits takes several times as long.
        None => signed(i128::from(part) * i128::from(unit) / i128::from(whole)),
    }
}

/// Adds where something is known: unknown + 5 = 5, and a sum of nothing stays unknown.
pub fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// [`add_known`] for packed values.
pub(crate) fn add_more<T: Packed>(sum: &mut Option<T>, more: Option<&T>) {
    if let Some(more) = more {
        *sum.get_or_insert_default() += more;
    }
}

/// A column of sums: its name, and as SQL what an upsert makes of its value (`#`) and the one that is added (`excluded.#`).
pub(crate) type SumColumn = (&'static str, &'static str);

/// The sum of two numbers, where NULL is no data. SQLite makes a sum beyond 64 bits REAL, and a column of integers refuses that: the cast
/// makes it the largest or smallest number, as `saturating_add` does.
const SUM: &str = "CASE WHEN excluded.# IS NULL THEN # ELSE CAST(coalesce(#, 0) + excluded.# AS INTEGER) END";
/// The sum of two numbers, NULL if either is.
const SUM_OF_KNOWN: &str = "CAST(# + excluded.# AS INTEGER)";
/// The higher of two numbers, where NULL is no data: `max(NULL, 5)` would be NULL.
const MAX: &str = "max(coalesce(#, excluded.#), coalesce(excluded.#, #))";
/// What `+` cannot add: by a function of [`register`].
const MERGED: &str = "merged_#(#, excluded.#)";

/// Run delays of a process, and of the CPUs of a host.
pub(crate) const RUN_DELAYS: SumColumn = ("run_delays", MERGED);
/// The name of a thread: the newest.
pub(crate) const COMM: SumColumn = ("comm", "excluded.#");

/// The columns that sums of tasks have behind their counters. Where rows of an older version were added before, the times stay NULL.
const TASK_COLUMNS: [SumColumn; 6] = [
    ("max_run_ns_per_s", MAX),
    ("blocked_ns", SUM),
    ("first_ns", "min(#, excluded.#)"),
    ("last_ns", "max(#, excluded.#)"),
    (
        "max_end_ns",
        "CASE WHEN # IS NOT NULL AND excluded.max_run_ns_per_s > max_run_ns_per_s THEN excluded.# ELSE # END",
    ),
    ("waits", MERGED),
];

/// Place of the wait reasons among the columns of a task.
pub(crate) const WAITS_AT: usize = Delta::NAMES.len() + TASK_COLUMNS.len() - 1;

/// Counters that later versions added are NULL where they were not measured: then the sum is, too.
fn task_columns() -> impl Iterator<Item = SumColumn> + Clone {
    Delta::NAMES.map(|name| (name, SUM_OF_KNOWN)).into_iter().chain(TASK_COLUMNS)
}

/// Names of the columns of a task, for a SELECT.
pub(crate) static TASK_COLUMN_NAMES: LazyLock<String> = LazyLock::new(|| names_of(task_columns()));

fn names_of(columns: impl Iterator<Item = SumColumn>) -> String {
    columns.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// SQL: adds a sum to a row. Sums of one bucket come in many steps.
fn upsert(table: &str, keys: &str, columns: impl Iterator<Item = SumColumn> + Clone) -> String {
    let places = vec!["?"; keys.split(',').count() + columns.clone().count()].join(", ");
    let sums = columns.clone().map(|(name, sum)| format!("{name} = {}", sum.replace('#', name)));
    let (names, sums) = (names_of(columns), sums.collect::<Vec<_>>().join(", "));
    format!("INSERT INTO {table} ({keys}, {names}) VALUES ({places}) ON CONFLICT DO UPDATE SET {sums}")
}

/// Neighbouring columns with numbers.
fn numbers<T: FromSql + Copy + Default, const N: usize>(row: &Row<'_>, at: usize) -> Result<[T; N]> {
    let mut numbers = [T::default(); N];
    for (number, at) in numbers.iter_mut().zip(at..) {
        *number = row.get(at)?;
    }
    Ok(numbers)
}

/// An interval whose tasks are added to sums.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct IntervalAt {
    /// Differs from that of the interval before, and is not 0.
    pub(crate) number: usize,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) measured_in_ns: i64,
    /// What was measured and can be read.
    pub(crate) known: Fields,
}

impl IntervalAt {
    /// The events do not cover a task that is hidden from them: its blocked time is unknown, not 0.
    pub(crate) fn watches(&self, flags: Flags) -> bool {
        self.known.contains(Fields::SCHED) && !flags.contains(Flags::UNWATCHED)
    }
}

/// What a task did in a bucket, or the short-lived tasks that share a row.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TaskSum {
    delta: Delta,
    /// Of [`Fields::LATER_COUNTERS`], those that were not measured in some interval: their sums are unknown, not too small.
    unknown: Fields,
    largest: Largest,
    /// Of the threads that were active; `None`: not measured.
    blocked_ns: Option<i64>,
    waits: Option<Waits>,
    /// The interval that was added last, and what all tasks of the row ran in it.
    interval: usize,
    run_ns: i64,
}

impl TaskSum {
    /// Adds an interval; `sched`: where it was measured.
    pub(crate) fn add(&mut self, at: &IntervalAt, delta: &Delta, sched: Option<&SchedDelta>) {
        self.delta += delta;
        self.unknown |= Fields::LATER_COUNTERS.difference(at.known);
        add_known(&mut self.blocked_ns, sched.map(|sched| sched.blocked_ns));
        let has_waits = at.known.contains(Fields::WAITS);
        add_more(&mut self.waits, sched.filter(|_| has_waits).map(|sched| &sched.waits));
        if self.interval != at.number {
            (self.interval, self.run_ns) = (at.number, 0);
        }
        self.run_ns = self.run_ns.saturating_add(delta.run_ns);
        self.largest.add(self.run_ns, at);
    }

    /// SQL: adds a sum to a row. `keys`: columns before `more`, behind which come those that all tasks have.
    pub(crate) fn upsert(table: &str, keys: &str, more: SumColumn) -> String {
        upsert(table, keys, [more].into_iter().chain(task_columns()))
    }

    /// Adds it to a row in a table of this resolution; `before`: the columns before those that all tasks have.
    pub(crate) fn write(
        &self,
        upsert: &mut Statement<'_>,
        before: &[&dyn ToSql],
        resolution: Resolution,
        bucket: i64,
    ) -> Result<()> {
        let [first_ns, last_ns, max_end_ns] = &self.largest.stored_times(resolution, bucket);
        let waits = self.waits.as_ref().map(Packed::pack);
        let mut counters = self.delta.to_array().map(Some);
        for (count, field) in counters.iter_mut().zip(Delta::FIELDS) {
            *count = count.filter(|_| !self.unknown.intersects(field));
        }
        let rest: [&dyn ToSql; TASK_COLUMNS.len()] =
            [&self.largest.ns_per_s, &self.blocked_ns, first_ns, last_ns, max_end_ns, &waits];
        let counters = counters.iter().map(|count| count as &dyn ToSql);
        let values = before.iter().copied().chain(counters).chain(rest);
        upsert.execute(params_from_iter(values)).map(drop)
    }
}

/// Adds the functions that add two packed values to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    register_merge::<DelayHistogram>(connection)?;
    register_merge::<Waits>(connection)?;
    register_merge::<Cgroups>(connection)?;
    register_merge::<WaitsFor>(connection)
}

/// NULL and a value make that value. A damaged one is logged and left out: it must not stop compaction for good.
fn register_merge<T: Packed + 'static>(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(&*format!("merged_{}", T::COLUMN), 2, flags, |context| {
        let mut sum: Option<T> = None;
        for at in 0..context.len() {
            let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
            match T::unpack(bytes) {
                Ok(more) => add_more(&mut sum, Some(&more)),
                Err(malformed) => log::warn!("a sum is damaged and left out: {malformed}"),
            }
        }
        Ok(sum.as_ref().map(T::pack))
    })
}

/// The first columns of sums of hosts: intervals, measured time and lines of the ledger, then these.
const HOST_NUMBERS: [SumColumn; 6] = [
    ("max_busy_ppm", MAX),
    ("run_delay_ns", SUM),
    ("blocked_ns", SUM),
    ("run_queue_ns", SUM),
    ("max_run_queue_ns_per_s", MAX),
    ("run_queue_max", MAX),
];

const HOST_WIDTH: usize = 2 + LEDGER_LINES + HOST_NUMBERS.len();

fn host_numbers() -> impl Iterator<Item = SumColumn> + Clone {
    let ledger = COLUMNS.iter().skip(CAPACITY).take(LEDGER_LINES).map(|column| (column.name, SUM));
    [("intervals", SUM), ("covered_ns", SUM)].into_iter().chain(ledger).chain(HOST_NUMBERS)
}

fn host_columns() -> impl Iterator<Item = SumColumn> + Clone {
    host_numbers().chain([RUN_DELAYS, (Cgroups::COLUMN, MERGED)])
}

/// What a host did in a bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSum {
    /// In the order of their columns; `None`: not known.
    pub(crate) numbers: [Option<i64>; HOST_WIDTH],
    pub(crate) run_delays: Option<DelayHistogram>,
    pub(crate) cgroups: Option<Cgroups>,
    /// Not read with the others, see [`waits_for`].
    pub(crate) waits_for: Option<WaitsFor>,
}

impl HostSum {
    pub(crate) fn add(&mut self, one: &Self) {
        for ((sum, more), (_, rule)) in self.numbers.iter_mut().zip(one.numbers).zip(host_numbers()) {
            // Saturating: a hostile sender's ledger must not stop compaction of its host by an overflow.
            if rule == SUM {
                add_known(sum, more);
            } else {
                *sum = more.max(*sum);
            }
        }
        add_more(&mut self.run_delays, one.run_delays.as_ref());
        add_more(&mut self.cgroups, one.cgroups.as_ref());
        add_more(&mut self.waits_for, one.waits_for.as_ref());
    }

    /// SQL: adds a sum to a row of a host and a bucket.
    pub(crate) fn upsert(resolution: Resolution) -> String {
        let name = resolution.name();
        let columns = host_columns().chain([(WaitsFor::COLUMN, MERGED)]);
        upsert(&format!("host_{name}"), &format!("host_id, {name}"), columns)
    }

    pub(crate) fn write(&self, upsert: &mut Statement<'_>, host: HostRow, bucket: i64) -> Result<()> {
        let delays = self.run_delays.as_ref().map(Packed::pack);
        let cgroups = self.cgroups.as_ref().map(Packed::pack);
        let waits_for = self.waits_for.as_ref().map(Packed::pack);
        let (keys, packed): ([&dyn ToSql; 2], [&dyn ToSql; 3]) =
            ([&host, &bucket], [&delays, &cgroups, &waits_for]);
        let numbers = self.numbers.iter().map(|number| number as &dyn ToSql);
        upsert.execute(params_from_iter(keys.into_iter().chain(numbers).chain(packed))).map(drop)
    }

    /// Reads the columns from `at` on.
    fn read(row: &Row<'_>, at: usize, lost: &mut u64) -> Result<Self> {
        let (numbers, behind) = (numbers(row, at)?, at + HOST_WIDTH);
        let run_delays = read_packed(row, behind, lost)?;
        let cgroups = read_packed(row, behind + 1, lost)?;
        Ok(Self { numbers, run_delays, cgroups, waits_for: None })
    }
}

/// The sums of a host over some buckets, in order, each with its bucket. `lost` counts what is damaged.
pub(crate) fn host_sums(
    connection: &Connection,
    host: HostRow,
    resolution: Resolution,
    buckets: BucketRange,
    lost: &mut u64,
) -> Result<Vec<(i64, HostSum)>> {
    let (name, columns) = (resolution.name(), names_of(host_columns()));
    let text = format!(
        "SELECT {name}, {columns} FROM host_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}"
    );
    all_rows(connection, &text, params![host, buckets.first, buckets.last], |row| {
        Ok((row.get(0)?, HostSum::read(row, 1, lost)?))
    })
}

/// Waits of a host and a bucket by who ended them; `None` where they are not known. Few questions want them, and those of all buckets of a
/// range could take much memory.
pub(crate) fn waits_for(
    connection: &Connection,
    host: HostRow,
    resolution: Resolution,
    bucket: i64,
    lost: &mut u64,
) -> Result<Option<WaitsFor>> {
    let (name, column) = (resolution.name(), WaitsFor::COLUMN);
    let text = format!("SELECT {column} FROM host_{name} WHERE host_id = ?1 AND {name} = ?2");
    let found = find_row(connection, &text, params![host, bucket], |row| read_packed(row, 0, lost))?;
    Ok(found.flatten())
}

/// Unpacks a column of a sum; `None` where it is not known, or damaged: then it is counted.
pub(crate) fn read_packed<T: Packed>(row: &Row<'_>, at: usize, lost: &mut u64) -> Result<Option<T>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    let unpacked = T::unpack(bytes).inspect_err(|malformed| {
        log::debug!("a sum of {} is damaged: {malformed}", T::WORDS);
        *lost += 1;
    });
    Ok(unpacked.ok())
}

/// What a row of a sum has beside its counters.
#[derive(Copy, Clone, Debug, Default)]
pub struct SumRow {
    /// Counters that were not measured all the time: 0 in its sums.
    pub unknown: Fields,
    /// The largest run time in one interval, ns per second. Short-lived threads that share a row count together.
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
    /// Reads the columns of a task from column `at` on, but for the wait reasons; `begin_ns`: of the bucket.
    pub(crate) fn read(row: &Row<'_>, at: usize, begin_ns: i64, boot: BootId) -> Result<(Delta, Self)> {
        let counters: [Option<i64>; Delta::NAMES.len()] = numbers(row, at)?;
        let unmeasured = counters.iter().zip(Delta::FIELDS).filter(|(count, _)| count.is_none());
        let unknown = unmeasured.fold(Fields::empty(), |all, (_, field)| all | field);
        let delta = Delta::from_array(counters.map(Option::unwrap_or_default));
        let at = at + Delta::NAMES.len();
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
        Ok((delta, Self { unknown, max_run_ns_per_s, blocked_ns, times, boot, process: None }))
    }
}
