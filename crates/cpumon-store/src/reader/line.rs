//! One process over time. In: a host, which process, a range, how many points fit the picture. Out: points. Why: a line over a
//! day must not read a day of samples: where points are a minute or more apart, the sums that sealing made are read instead.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cpumon_model::{Delta, Fields, Flags, HostId, Interval};
use rusqlite::params;

use super::cursor::{IntervalCursor, ReadError};
use super::query::{ProcessFilter, Query, What};
use super::{Reader, dims};
use crate::error::{At, Result};
use crate::writer::{PER_SECOND, Resolution, rate};

/// What happened between two points of a picture.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Begin of the bucket, ns since the epoch.
    pub begin_wall_ns: i64,
    /// Its end.
    pub end_wall_ns: i64,
    /// Measured time in it, all intervals of the host, ns. Rates divide by this. Buckets without any are left out.
    pub covered_ns: i64,
    /// What the process did; zero if it was idle or not there.
    pub delta: Delta,
    /// Blocked time of its threads that were active, ns; `None` where nothing tells.
    pub blocked_ns: Option<i64>,
    /// Its largest run time in one interval, as ns per second of that interval. Of several processes: that of one of them.
    pub max_run_ns_per_s: i64,
}

impl Point {
    fn add_blocked(&mut self, ns: i64) {
        self.blocked_ns = Some(self.blocked_ns.unwrap_or(0).saturating_add(ns));
    }

    /// Mean utilization with 100 = one CPU.
    #[must_use]
    pub fn cpu_pct(&self) -> f64 {
        if self.covered_ns > 0 { self.delta.run_ns as f64 * 100.0 / self.covered_ns as f64 } else { 0.0 }
    }

    /// Largest utilization in one interval, with 100 = one CPU.
    #[must_use]
    pub fn max_cpu_pct(&self) -> f64 {
        self.max_run_ns_per_s as f64 / 1e7
    }
}

/// Points under construction, by bucket.
#[derive(Debug)]
struct Points {
    width_ns: i64,
    by_bucket: BTreeMap<i64, Point>,
}

impl Points {
    fn at(&mut self, end_wall_ns: i64) -> &mut Point {
        let width_ns = self.width_ns;
        let bucket = end_wall_ns.saturating_sub(1).div_euclid(width_ns);
        self.by_bucket.entry(bucket).or_insert_with(|| Point {
            begin_wall_ns: bucket.saturating_mul(width_ns),
            end_wall_ns: bucket.saturating_add(1).saturating_mul(width_ns),
            ..Point::default()
        })
    }

    fn add(&mut self, interval: &Interval) {
        let has_sched = interval.fields.contains(Fields::SCHED);
        let covered_ns = i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX);
        let point = self.at(interval.end.wall_ns);
        point.covered_ns = point.covered_ns.saturating_add(covered_ns);
        for process in &interval.processes {
            point.delta += &process.delta;
            if has_sched && !process.flags.contains(Flags::UNWATCHED) {
                point.add_blocked(process.sched.blocked_ns);
            }
            point.max_run_ns_per_s =
                point.max_run_ns_per_s.max(rate(process.delta.run_ns, covered_ns, PER_SECOND));
        }
    }
}

/// The coarsest resolution that is fine enough for points `wanted_ns` apart; a coarser one where finer data no longer reaches back
/// to `since`. `None`: the samples themselves. Given are the end of the oldest sample and the begin of the oldest sums.
pub(super) fn choose_resolution(
    wanted_ns: i64,
    since: i64,
    first: Option<i64>,
    minutes: Option<i64>,
    hours: Option<i64>,
) -> Option<Resolution> {
    // Within the hour of the oldest sum, all data reaches equally far.
    let oldest = hours.unwrap_or(i64::MAX).saturating_add(Resolution::Hour.length_ns()).max(since);
    let reaches = |begin: Option<i64>| begin.is_some_and(|begin| begin <= oldest);
    if hours.is_some() && wanted_ns >= Resolution::Hour.length_ns() {
        Some(Resolution::Hour)
    } else if wanted_ns >= Resolution::Minute.length_ns() && reaches(minutes) {
        Some(Resolution::Minute)
    } else if hours.is_none() || reaches(first) {
        None
    } else if reaches(minutes) {
        Some(Resolution::Minute)
    } else {
        Some(Resolution::Hour)
    }
}

impl Reader {
    /// At most about `max_points` points of all processes that pass `filter`, in order of time. The range is (`since_ns`,
    /// `until_ns`], cut to what the store holds; points that are minutes or hours apart cover whole ones. Buckets without
    /// data are left out: a gap is a gap. Short-lived processes are in sums under their name only, not under their key.
    pub fn process_line(
        &self,
        host: HostId,
        filter: &ProcessFilter,
        (since_ns, until_ns): (i64, i64),
        max_points: usize,
    ) -> Result<Vec<Point>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(Vec::new()) };
        let (minutes, _) = self.sum_span(host_id, Resolution::Minute)?;
        let (hours, last_hour) = self.sum_span(host_id, Resolution::Hour)?;
        let (first, last) = self.host_span(host_id).at("find the time range", &self.path)?;
        let oldest = first.into_iter().chain(minutes).chain(hours).min();
        let Some((oldest, last)) = oldest.zip(last.or(last_hour)) else { return Ok(Vec::new()) };
        let (since, until) = (since_ns.max(oldest - 1), until_ns.min(last.max(oldest)));
        let points = i64::try_from(max_points).unwrap_or(i64::MAX).max(1);
        let wanted_ns = (until.saturating_sub(since) / points).max(1);
        let resolution = choose_resolution(wanted_ns, since, first, minutes, hours);
        let query = Query::new(host).range(since, until).what(What::Processes).filter(filter.clone());
        let width_ns = match resolution {
            Some(resolution) => wanted_ns.div_euclid(resolution.length_ns()).max(1) * resolution.length_ns(),
            None => wanted_ns,
        };
        let mut points = Points { width_ns, by_bucket: BTreeMap::new() };
        match resolution {
            Some(resolution) => self.add_sums(host_id, &query, resolution, &mut points)?,
            None => self.for_each_interval(&query, &mut |interval| {
                points.add(interval);
                ControlFlow::Continue(())
            })?,
        }
        Ok(points.by_bucket.into_values().filter(|point| point.covered_ns > 0).collect())
    }

    /// Begin of the oldest sum of a host and end of the newest, ns.
    pub(super) fn sum_span(
        &self,
        host_id: i64,
        resolution: Resolution,
    ) -> Result<(Option<i64>, Option<i64>)> {
        let name = resolution.name();
        let text = format!("SELECT min({name}), max({name}) + 1 FROM host_{name} WHERE host_id = ?1");
        let span: (Option<i64>, Option<i64>) = self
            .connection
            .prepare_cached(&text)
            .and_then(|mut select| select.query_row([host_id], |row| Ok((row.get(0)?, row.get(1)?))))
            .at("find sums", &self.path)?;
        let ns = |bucket: i64| bucket.saturating_mul(resolution.length_ns());
        Ok((span.0.map(ns), span.1.map(ns)))
    }

    /// Sums of sealed intervals and, in the same transaction, fresh intervals.
    fn add_sums(
        &self,
        host_id: i64,
        query: &Query,
        resolution: Resolution,
        points: &mut Points,
    ) -> Result<()> {
        let mut cursor = self.cursor.take();
        let done = self.try_add_sums(&mut cursor, host_id, query, resolution, points);
        self.cursor.replace(cursor);
        done.map_err(|error| self.read_error(error))
    }

    fn try_add_sums(
        &self,
        cursor: &mut IntervalCursor,
        host_id: i64,
        query: &Query,
        resolution: Resolution,
        points: &mut Points,
    ) -> Result<(), ReadError> {
        let transaction = self.connection.unchecked_transaction()?;
        let (name, length_ns) = (resolution.name(), resolution.length_ns());
        let range = params![
            host_id,
            resolution.bucket(query.since_ns.saturating_add(1)),
            resolution.bucket(query.until_ns)
        ];
        let text = format!(
            "SELECT {name}, covered_ns FROM host_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3"
        );
        let mut select = self.connection.prepare_cached(&text)?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            let bucket: i64 = row.get(0)?;
            let point = points.at(bucket.saturating_add(1).saturating_mul(length_ns));
            point.covered_ns = point.covered_ns.saturating_add(row.get(1)?);
        }
        let text = format!(
            "SELECT {name}, process_id, user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches,
                    involuntary_switches, max_run_ns_per_s, blocked_ns
             FROM process_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3"
        );
        let mut select = self.connection.prepare_cached(&text)?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            let process = cursor.names.process(&self.connection, dims::unsigned(row, 1)?)?;
            if !query.filter.matches(process.key, &process.info) {
                continue;
            }
            let bucket: i64 = row.get(0)?;
            let point = points.at(bucket.saturating_add(1).saturating_mul(length_ns));
            point.delta += &Delta {
                user_ns: row.get(2)?,
                system_ns: row.get(3)?,
                run_ns: row.get(4)?,
                run_delay_ns: row.get(5)?,
                voluntary_switches: row.get(6)?,
                involuntary_switches: row.get(7)?,
            };
            point.max_run_ns_per_s = point.max_run_ns_per_s.max(row.get(8)?);
            if let Some(ns) = row.get(9)? {
                point.add_blocked(ns);
            }
        }
        cursor.run_fresh(&self.connection, host_id, query, &mut |interval| points.add(interval))?;
        transaction.commit()?;
        Ok(())
    }
}
