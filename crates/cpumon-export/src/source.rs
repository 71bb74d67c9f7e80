//! Where rows come from. In: a reader and a query. Out: each host's intervals, filtered and added up as asked, one at a
//! time. Why: every kind walks the store the same way, and progress and bounds are kept in one place.

use std::ops::ControlFlow;

use cpumon_model::{HostId, Interval};
use cpumon_store::{HostRecord, ProcessFilter, Query, Reader, What};

use crate::resample::Resampler;
use crate::{ExportError, ExportQuery, Progress, Report};

/// Progress is told after this many intervals.
const TELL_EVERY: u64 = 512;

/// The intervals of an export.
pub(crate) struct Source<'a> {
    reader: &'a Reader,
    query: &'a ExportQuery,
    pub hosts: Vec<HostRecord>,
    filter: ProcessFilter,
    passes: u32,
}

/// What has been done, and whom to tell.
pub(crate) struct Counter<'p> {
    pub report: Report,
    read: u64,
    /// Passes over a host that are done.
    done: u64,
    tell: &'p mut dyn FnMut(Progress),
}

impl<'p> Counter<'p> {
    pub fn new(tell: &'p mut dyn FnMut(Progress)) -> Self {
        Self { report: Report::default(), read: 0, done: 0, tell }
    }
}

impl<'a> Source<'a> {
    /// `passes`: how often each host will be walked at most.
    pub fn open(reader: &'a Reader, query: &'a ExportQuery, passes: u32) -> Result<Self, ExportError> {
        let hosts = match &query.host {
            Some(name) => vec![reader.find_host(name)?],
            None => reader.hosts()?,
        };
        let filter = match &query.process {
            None => ProcessFilter::All,
            Some(text) => {
                text.parse().map_or_else(|_| ProcessFilter::Name(text.as_str().into()), ProcessFilter::Pid)
            }
        };
        Ok(Self { reader, query, hosts, filter, passes })
    }

    pub fn reader(&self) -> &'a Reader {
        self.reader
    }

    pub fn filter(&self) -> &ProcessFilter {
        &self.filter
    }

    /// Names of hosts for an error.
    pub fn known_hosts(&self) -> String {
        let shown =
            self.hosts.iter().take(8).map(|host| cpumon_model::escape(&host.info.hostname).to_string());
        let more = if self.hosts.len() > 8 { ", …" } else { "" };
        shown.collect::<Vec<_>>().join(", ") + more
    }

    /// Walks one host. `visit` gets each interval; an error of it ends the walk.
    pub fn walk(
        &self,
        host: &HostRecord,
        what: What,
        counter: &mut Counter<'_>,
        visit: &mut dyn FnMut(&Interval, &mut Report) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let range = (self.query.since_ns.unwrap_or(i64::MIN), self.query.until_ns.unwrap_or(i64::MAX));
        let query = Query::new(host.info.host).range(range.0, range.1).what(what).filter(self.filter.clone());
        let mut resampler = self.query.interval_ns.map(Resampler::new);
        let mut failed = None;
        self.reader.for_each_interval(&query, &mut |interval| {
            self.tell(host, interval, counter);
            let visited = match &mut resampler {
                Some(resampler) => resampler.push(interval, &mut |merged| visit(merged, &mut counter.report)),
                None => visit(interval, &mut counter.report),
            };
            match visited {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        if let Some(resampler) = resampler {
            resampler.finish(&mut |merged| visit(merged, &mut counter.report))?;
        }
        self.end_pass(counter);
        Ok(())
    }

    /// A pass over a host is done; a kind that does not need to walk it again says so here.
    pub fn end_pass(&self, counter: &mut Counter<'_>) {
        counter.done += 1;
        (counter.tell)(Progress {
            intervals: counter.read,
            rows: counter.report.rows,
            ratio: self.ratio(counter.done, 0.0),
        });
    }

    fn tell(&self, host: &HostRecord, interval: &Interval, counter: &mut Counter<'_>) {
        counter.read += 1;
        if !counter.read.is_multiple_of(TELL_EVERY) {
            return;
        }
        let part = self.part_of_host(host, interval.end.wall_ns);
        let ratio = part.and_then(|part| self.ratio(counter.done, part));
        (counter.tell)(Progress { intervals: counter.read, rows: counter.report.rows, ratio });
    }

    fn ratio(&self, done: u64, part: f64) -> Option<f64> {
        let all = self.hosts.len() as f64 * f64::from(self.passes);
        (all > 0.0).then(|| ((done as f64 + part) / all).clamp(0.0, 1.0))
    }

    fn part_of_host(&self, host: &HostRecord, at_ns: i64) -> Option<f64> {
        let first = host.first_wall_ns?.max(self.query.since_ns.unwrap_or(i64::MIN));
        let last = host.last_wall_ns?.min(self.query.until_ns.unwrap_or(i64::MAX));
        let (whole, part) = (i128::from(last) - i128::from(first), i128::from(at_ns) - i128::from(first));
        (whole > 0).then(|| (part as f64 / whole as f64).clamp(0.0, 1.0))
    }

    /// Ids of hosts are unique, names need not be; a second host of the same name is shown with its id.
    pub fn label(&self, host: &HostRecord) -> String {
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
