//! Reads the intervals of an export from the store, one at a time, filtered and added up as the query says: into windows, e.g. of a minute,
//! whose sums are exact. Reports progress.

use cpumon_model::{HostId, Interval};
use cpumon_query::IntervalSum;
use cpumon_store::{HostRecord, ProcessFilter, Query, Reader, StoredInterval, What};

use crate::{ExportError, ExportQuery, Progress, Report};

/// Progress is reported after this many intervals.
const REPORT_EVERY: u64 = 512;

pub(crate) struct ExportSource<'a> {
    pub reader: &'a Reader,
    query: &'a ExportQuery,
    pub hosts: Vec<HostRecord>,
    pub filter: ProcessFilter,
    pub passes: u32,
    /// Rows of threads that only waited are left out.
    pub only_active: bool,
}

/// Progress, and the callback that reports it.
pub(crate) struct Counter<'p> {
    pub report: Report,
    read: u64,
    /// Finished passes over a host.
    done: u64,
    report_progress: &'p mut dyn FnMut(Progress),
}

impl<'p> Counter<'p> {
    pub fn new(report_progress: &'p mut dyn FnMut(Progress)) -> Self {
        Self { report: Report::default(), read: 0, done: 0, report_progress }
    }
}

/// The host that the query names, else all hosts.
pub(crate) fn hosts(reader: &Reader, query: &ExportQuery) -> Result<Vec<HostRecord>, ExportError> {
    Ok(match &query.host {
        Some(name) => vec![reader.find_host(name)?],
        None => reader.hosts()?,
    })
}

impl<'a> ExportSource<'a> {
    /// `passes`: how often each host is read at most.
    pub fn open(reader: &'a Reader, query: &'a ExportQuery, passes: u32) -> Result<Self, ExportError> {
        let hosts = hosts(reader, query)?;
        let filter = match &query.process {
            None => ProcessFilter::All,
            Some(text) => {
                text.parse().map_or_else(|_| ProcessFilter::Name(text.as_str().into()), ProcessFilter::Pid)
            }
        };
        Ok(Self { reader, query, hosts, filter, passes, only_active: false })
    }

    /// Up to eight names of hosts, for an error.
    pub fn known_hosts(&self) -> String {
        let shown =
            self.hosts.iter().take(8).map(|host| cpumon_model::escape(&host.info.hostname).to_string());
        let more = if self.hosts.len() > 8 { ", …" } else { "" };
        shown.collect::<Vec<_>>().join(", ") + more
    }

    /// Reads one host and calls `visit` with each interval. An error of `visit` ends the pass.
    pub fn walk(
        &self,
        host: &HostRecord,
        what: What,
        counter: &mut Counter<'_>,
        visit: &mut dyn FnMut(&Interval, &mut Report) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        self.walk_range(host, (i64::MIN, i64::MAX), what, counter, visit)?;
        self.end_pass(counter);
        Ok(())
    }

    /// Like [`ExportSource::walk`], but only for intervals that end after the first of two times and not after the second. It
    /// is a part of a pass.
    pub fn walk_range(
        &self,
        host: &HostRecord,
        range: (i64, i64),
        what: What,
        counter: &mut Counter<'_>,
        visit: &mut dyn FnMut(&Interval, &mut Report) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let since_ns = self.query.since_ns.unwrap_or(i64::MIN).max(range.0);
        let until_ns = self.query.until_ns.unwrap_or(i64::MAX).min(range.1);
        let query =
            Query::new(host.info.host).range(since_ns, until_ns).what(what).filter(self.filter.clone());
        let query = Query { resting: !self.only_active, ..query };
        let mut resampler = self.query.interval_ns.map(Resampler::new);
        let mut intervals = self.reader.intervals(&query)?;
        while let Some(StoredInterval { interval, .. }) = intervals.read()? {
            self.count(host, interval, counter);
            match &mut resampler {
                Some(resampler) => {
                    resampler.push(interval, &mut |merged| visit(merged, &mut counter.report))?;
                }
                None => visit(interval, &mut counter.report)?,
            }
        }
        if let Some(resampler) = resampler {
            resampler.finish(&mut |merged| visit(merged, &mut counter.report))?;
        }
        Ok(())
    }

    /// Counts a pass over a host as finished. A kind that does not need its second pass calls this instead of [`ExportSource::walk`].
    pub fn end_pass(&self, counter: &mut Counter<'_>) {
        counter.done += 1;
        (counter.report_progress)(Progress {
            intervals: counter.read,
            rows: counter.report.rows,
            ratio: self.ratio(counter.done, 0.0),
        });
    }

    fn count(&self, host: &HostRecord, interval: &Interval, counter: &mut Counter<'_>) {
        counter.read += 1;
        if !counter.read.is_multiple_of(REPORT_EVERY) {
            return;
        }
        let part = self.part_of_host(host, interval.end.wall_ns);
        let ratio = part.and_then(|part| self.ratio(counter.done, part));
        (counter.report_progress)(Progress { intervals: counter.read, rows: counter.report.rows, ratio });
    }

    fn ratio(&self, done: u64, part: f64) -> Option<f64> {
        let all = self.hosts.len() as f64 * f64::from(self.passes);
        (all > 0.0).then(|| ((done as f64 + part) / all).clamp(0.0, 1.0))
    }

    fn part_of_host(&self, host: &HostRecord, at_ns: i64) -> Option<f64> {
        let first = host.first_wall_ns?.max(self.query.since_ns.unwrap_or(i64::MIN));
        let last = host.last_wall_ns?.min(self.query.until_ns.unwrap_or(i64::MAX));
        // The times come from other machines: the difference of two i64 needs more than 64 bits.
        let (whole, part) = (i128::from(last) - i128::from(first), i128::from(at_ns) - i128::from(first));
        (whole > 0).then(|| (part as f64 / whole as f64).clamp(0.0, 1.0))
    }

    /// The name of a host in rows. Names need not be unique: hosts that share one get the start of their id appended.
    pub fn label(&self, host: &HostRecord) -> String {
        // All hosts of the export are compared, so a label does not depend on which host is written.
        let is_double = |other: &HostRecord| {
            other.info.hostname == host.info.hostname && other.info.host != host.info.host
        };
        let name = if host.info.hostname.is_empty() {
            short(host.info.host)
        } else {
            host.info.hostname.to_string()
        };
        if self.hosts.iter().any(is_double) { format!("{name} ({})", short(host.info.host)) } else { name }
    }
}

fn short(id: HostId) -> String {
    id.to_string().chars().take(8).collect()
}

/// Adds up intervals. A window holds the intervals that *end* in it; a restart of the host begins a new one.
struct Resampler {
    window_ns: i128,
    current: Option<(i128, IntervalSum)>,
}

type Visit<'v> = dyn FnMut(&Interval) -> Result<(), ExportError> + 'v;

impl Resampler {
    pub fn new(window_ns: u64) -> Self {
        Self { window_ns: i128::from(window_ns.max(1)), current: None }
    }

    /// Takes the next interval; calls `visit` with a window that is complete.
    pub fn push(&mut self, interval: &Interval, visit: &mut Visit<'_>) -> Result<(), ExportError> {
        // Windows include their end: an interval that ends exactly there belongs to the window before the border.
        let window = (i128::from(interval.end.wall_ns) - 1).div_euclid(self.window_ns);
        match &mut self.current {
            Some((at, merged)) if *at == window && merged.continues(interval) => merged.add(interval)?,
            current => {
                let before = current.replace((window, IntervalSum::new(interval)));
                if let Some((_, merged)) = before {
                    visit(&merged.finish())?;
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with the last window.
    pub fn finish(self, visit: &mut Visit<'_>) -> Result<(), ExportError> {
        self.current.map_or(Ok(()), |(_, merged)| visit(&merged.finish()))
    }
}
