//! Sums per minute and hour. In: intervals that are sealed. Out: rows of `host_minute`, `process_minute` and their hours.
//! Why: a line over weeks reads thousands of rows, not millions. They are exactly the sums over sealed intervals; fresh ones
//! are added by the reader.

use std::collections::BTreeMap;

use cpumon_model::{CpuSched, DelayHistogram, Delta, Fields, Flags, Interval, Life};
use rusqlite::{Connection, params};

use super::merge::{self, MERGED};
use crate::codec::chunk::FreshInterval;
use crate::codec::cpus;
use crate::codec::meta::{BEGIN_MONO, CAPACITY, END_MONO, END_WALL, MetaRow, fields_of};
use crate::codec::sched::SchedRows;

/// Length of the buckets in which sealed intervals are summed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// 60 s.
    Minute,
    /// 3600 s.
    Hour,
}

impl Resolution {
    /// ns.
    #[must_use]
    pub fn length_ns(self) -> i64 {
        match self {
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }

    /// `minute` or `hour`: name of the column and end of the tables' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// The bucket in which an interval ends: it covers (n × length, (n + 1) × length].
    pub(crate) fn bucket(self, end_wall_ns: i64) -> i64 {
        end_wall_ns.saturating_sub(1).div_euclid(self.length_ns())
    }
}

/// Sums over a host.
#[derive(Clone, Debug, Default)]
struct HostSum {
    intervals: i64,
    covered_ns: i64,
    /// capacity, threads, exited, irq, softirq, steal, idle.
    ledger: [i64; 7],
    max_busy_ppm: i64,
    /// Of all its processes.
    run_delay_ns: Option<i64>,
    blocked_ns: Option<i64>,
    /// Of all CPUs, by length.
    run_delays: Option<DelayHistogram>,
    run_queue: Option<RunQueue>,
}

/// Run queues of all CPUs over a time.
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
    /// Of one interval; `None` where no switch was watched.
    #[must_use]
    pub fn of(interval: &Interval) -> Option<Self> {
        if !interval.fields.contains(Fields::SCHED) || interval.cpus.is_empty() {
            return None;
        }
        let sched = interval.cpu_sched();
        let length_ns = i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX);
        Some(Self::new(&sched, length_ns))
    }

    fn new(sched: &CpuSched, length_ns: i64) -> Self {
        let run_queue_ns = i64::try_from(sched.run_queue_ns).unwrap_or(i64::MAX);
        Self {
            run_queue_ns,
            max_run_queue_ns_per_s: rate(run_queue_ns, length_ns, PER_SECOND),
            run_queue_max: sched.run_queue_max.into(),
        }
    }

    fn add(&mut self, more: &Self) {
        self.run_queue_ns = self.run_queue_ns.saturating_add(more.run_queue_ns);
        self.max_run_queue_ns_per_s = self.max_run_queue_ns_per_s.max(more.max_run_queue_ns_per_s);
        self.run_queue_max = self.run_queue_max.max(more.run_queue_max);
    }
}

/// Sums over a process.
#[derive(Clone, Debug, Default)]
struct ProcessSum {
    delta: Delta,
    max_run_ns_per_s: i64,
    /// Of its threads that were active.
    blocked_ns: Option<i64>,
    /// Its run delays by length.
    run_delays: Option<DelayHistogram>,
}

/// Sums of the intervals that were added since the last write.
#[derive(Debug, Default)]
pub(crate) struct Rollup {
    hosts: [BTreeMap<i64, HostSum>; 2],
    processes: [BTreeMap<(i64, u64), ProcessSum>; 2],
    sched: SchedRows,
    /// Holds what the blob of an interval's CPUs tells.
    cpus: Interval,
}

const RESOLUTIONS: [Resolution; 2] = [Resolution::Minute, Resolution::Hour];

/// Measured length of an interval, ns.
pub(crate) fn length_ns(row: &MetaRow) -> i64 {
    row[END_MONO].saturating_sub(row[BEGIN_MONO]).max(0)
}

/// `part` per second (or million) of `whole`; 0 without a whole.
pub(crate) fn rate(part: i64, whole: i64, unit: i64) -> i64 {
    if whole <= 0 {
        return 0;
    }
    i64::try_from(i128::from(part) * i128::from(unit) / i128::from(whole)).unwrap_or(i64::MAX)
}

/// ns of run time per second.
pub(crate) const PER_SECOND: i64 = 1_000_000_000;

impl Rollup {
    /// Adds intervals of one host. `short_lived_id` names the process under which short-lived ones are summed: a row for each of
    /// them would outgrow the samples.
    pub(crate) fn add(
        &mut self,
        intervals: &[FreshInterval],
        mut short_lived_id: impl FnMut(u64) -> rusqlite::Result<u64>,
    ) -> rusqlite::Result<()> {
        for interval in intervals {
            let row = &interval.meta;
            let known = self.read_sched(interval);
            let cpu_delays = known.contains(Fields::HISTOGRAMS).then(|| self.cpus.cpu_delays());
            let has_queue = known.contains(Fields::SCHED) && !self.cpus.cpus.is_empty();
            let run_queue = has_queue.then(|| RunQueue::new(&self.cpus.cpu_sched(), length_ns(row)));
            let sched = &self.sched;
            let processes_of = || interval.rows.processes.iter();
            let delay_ns = || processes_of().map(|row| row.delta.run_delay_ns).fold(0, i64::saturating_add);
            let run_delay_ns = known.contains(Fields::RUN_DELAY).then(delay_ns);
            let blocked = |id| known.contains(Fields::SCHED).then(|| sched.process(id).blocked_ns);
            let covered_ns = length_ns(row);
            let ledger: [i64; 7] = std::array::from_fn(|at| row[CAPACITY + at]);
            let busy_ns = ledger[1..5].iter().fold(0_i64, |sum, line| sum.saturating_add(*line));
            for (resolution, (hosts, processes)) in
                RESOLUTIONS.iter().zip(self.hosts.iter_mut().zip(&mut self.processes))
            {
                let bucket = resolution.bucket(row[END_WALL]);
                let host = hosts.entry(bucket).or_default();
                host.intervals += 1;
                host.covered_ns = host.covered_ns.saturating_add(covered_ns);
                for (sum, line) in host.ledger.iter_mut().zip(ledger) {
                    *sum = sum.saturating_add(line);
                }
                add_known(&mut host.run_delay_ns, run_delay_ns);
                add_delays(&mut host.run_delays, cpu_delays.as_ref());
                if let Some(more) = &run_queue {
                    host.run_queue.get_or_insert_default().add(more);
                }
                host.max_busy_ppm = host.max_busy_ppm.max(rate(busy_ns, ledger[0], 1_000_000));
                for process in &interval.rows.processes {
                    let is_short = process.life == Life::BornEnded;
                    let id = if is_short { short_lived_id(process.id)? } else { process.id };
                    let sum = processes.entry((bucket, id)).or_default();
                    sum.delta += &process.delta;
                    if !process.flags.contains(Flags::UNWATCHED) {
                        add_known(&mut sum.blocked_ns, blocked(process.id));
                        add_known(&mut host.blocked_ns, blocked(process.id));
                    }
                    if known.contains(Fields::HISTOGRAMS) {
                        let none = DelayHistogram::default();
                        let delays = sched.process_delays(process.id);
                        add_delays(&mut sum.run_delays, Some(delays.map_or(&none, |delays| delays)));
                    }
                    let run = rate(process.delta.run_ns, covered_ns, PER_SECOND);
                    sum.max_run_ns_per_s = sum.max_run_ns_per_s.max(run);
                }
            }
        }
        Ok(())
    }

    /// Reads what the scheduler's events tell of an interval. Returns what is known; of a damaged blob nothing is.
    fn read_sched(&mut self, interval: &FreshInterval) -> Fields {
        let known = fields_of(&interval.meta);
        let mut read = self.sched.read(&interval.sched);
        if read.is_ok() && known.intersects(Fields::SCHED | Fields::HISTOGRAMS) {
            read = cpus::decode(&interval.cpus, &mut self.cpus);
        }
        match read {
            Ok(()) => known,
            Err(malformed) => {
                log::warn!("what the scheduler's events tell of an interval is damaged: {malformed}");
                known - Fields::SCHED - Fields::HISTOGRAMS
            }
        }
    }

    /// Adds the sums to the tables and empties itself.
    pub(crate) fn write(&mut self, connection: &Connection, host_id: i64) -> rusqlite::Result<()> {
        for (at, resolution) in RESOLUTIONS.iter().enumerate() {
            let hosts = std::mem::take(&mut self.hosts[at]);
            let processes = std::mem::take(&mut self.processes[at]);
            write_hosts(connection, resolution.name(), host_id, &hosts)?;
            write_processes(connection, resolution.name(), host_id, &processes)?;
        }
        Ok(())
    }
}

/// No data and a number are that number.
fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// Likewise of histograms.
fn add_delays(sum: &mut Option<DelayHistogram>, more: Option<&DelayHistogram>) {
    if let Some(more) = more {
        *sum.get_or_insert_with(DelayHistogram::default) += more;
    }
}

/// The sum of a column of histograms.
fn merged_delays() -> String {
    format!("run_delays = {MERGED}(run_delays, excluded.run_delays)")
}

/// The sum of a column that may be NULL, which is no data.
fn known_sum(column: &str) -> String {
    format!(
        "{column} = CASE WHEN excluded.{column} IS NULL THEN {column} ELSE coalesce({column}, 0) + excluded.{column} END"
    )
}

/// The highest of a column that may be NULL, likewise.
fn known_max(column: &str) -> String {
    format!("{column} = max(coalesce({column}, excluded.{column}), coalesce(excluded.{column}, {column}))")
}

fn write_hosts(
    connection: &Connection,
    resolution: &str,
    host_id: i64,
    sums: &BTreeMap<i64, HostSum>,
) -> rusqlite::Result<()> {
    let text = format!(
        "INSERT INTO host_{resolution} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
           ?18)
         ON CONFLICT DO UPDATE SET intervals = intervals + excluded.intervals,
           covered_ns = covered_ns + excluded.covered_ns, capacity_ns = capacity_ns + excluded.capacity_ns,
           threads_ns = threads_ns + excluded.threads_ns, exited_ns = exited_ns + excluded.exited_ns,
           irq_ns = irq_ns + excluded.irq_ns, softirq_ns = softirq_ns + excluded.softirq_ns,
           steal_ns = steal_ns + excluded.steal_ns, idle_ns = idle_ns + excluded.idle_ns,
           max_busy_ppm = max(max_busy_ppm, excluded.max_busy_ppm), {}, {}, {}, {}, {}, {}",
        known_sum("run_delay_ns"),
        known_sum("blocked_ns"),
        merged_delays(),
        known_sum("run_queue_ns"),
        known_max("max_run_queue_ns_per_s"),
        known_max("run_queue_max")
    );
    let mut upsert = connection.prepare_cached(&text)?;
    for (bucket, sum) in sums {
        let [capacity, threads, exited, irq, softirq, steal, idle] = sum.ledger;
        upsert.execute(params![
            host_id,
            bucket,
            sum.intervals,
            sum.covered_ns,
            capacity,
            threads,
            exited,
            irq,
            softirq,
            steal,
            idle,
            sum.max_busy_ppm,
            sum.run_delay_ns,
            sum.blocked_ns,
            sum.run_delays.as_ref().map(merge::to_bytes),
            sum.run_queue.map(|queue| queue.run_queue_ns),
            sum.run_queue.map(|queue| queue.max_run_queue_ns_per_s),
            sum.run_queue.map(|queue| queue.run_queue_max)
        ])?;
    }
    Ok(())
}

fn write_processes(
    connection: &Connection,
    resolution: &str,
    host_id: i64,
    sums: &BTreeMap<(i64, u64), ProcessSum>,
) -> rusqlite::Result<()> {
    let text = format!(
        "INSERT INTO process_{resolution} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT DO UPDATE SET user_ns = user_ns + excluded.user_ns, system_ns = system_ns + excluded.system_ns,
           run_ns = run_ns + excluded.run_ns, run_delay_ns = run_delay_ns + excluded.run_delay_ns,
           voluntary_switches = voluntary_switches + excluded.voluntary_switches,
           involuntary_switches = involuntary_switches + excluded.involuntary_switches,
           max_run_ns_per_s = max(max_run_ns_per_s, excluded.max_run_ns_per_s), {}, {}",
        known_sum("blocked_ns"),
        merged_delays()
    );
    let mut upsert = connection.prepare_cached(&text)?;
    for ((bucket, process_id), sum) in sums {
        upsert.execute(params![
            host_id,
            bucket,
            process_id.cast_signed(),
            sum.delta.user_ns,
            sum.delta.system_ns,
            sum.delta.run_ns,
            sum.delta.run_delay_ns,
            sum.delta.voluntary_switches,
            sum.delta.involuntary_switches,
            sum.max_run_ns_per_s,
            sum.blocked_ns,
            sum.run_delays.as_ref().map(merge::to_bytes)
        ])?;
    }
    Ok(())
}
