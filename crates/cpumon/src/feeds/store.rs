//! [`StoreFeed`]: shows a store: any host at any moment, the newest interval first, and new intervals as they are written.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostStatus, Interval, Trust};
use cpumon_query::report::ReportQuery;
use cpumon_query::{Seek, seek};
use cpumon_store::{HostRecord, Reader, StoreError};
use cpumon_tui::{Feed, FeedError, HistoryPoint, RangeReport, StoredTrace, Subject};

use super::past;

/// Time between two checks for new intervals.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The store, the selected host, and the end of the newest interval that was shown.
#[derive(Debug)]
pub struct StoreFeed {
    reader: Reader,
    hosts: Vec<HostStatus>,
    selected: Option<HostId>,
    newest_end_ns: Option<i64>,
    next_check: Instant,
    note: String,
}

fn failed(error: &StoreError) -> FeedError {
    FeedError(error.with_causes())
}

impl StoreFeed {
    /// Opens a store and selects `host`, or else this machine, or else the host that reported last. `note` is shown behind the
    /// store's name.
    pub fn open(path: &Path, host: Option<&str>, note: &str) -> Result<Self, StoreError> {
        let reader = Reader::open(path)?;
        let records = reader.hosts()?;
        let preferred = |record: &&HostRecord| (record.trust == Trust::Local, record.last_wall_ns);
        let selected = match host {
            Some(wanted) => Some(reader.find_host(wanted)?.info.host),
            None => records.iter().max_by_key(preferred).map(|record| record.info.host),
        };
        let hosts = records.into_iter().map(HostRecord::status).collect();
        Ok(Self {
            reader,
            hosts,
            selected,
            newest_end_ns: None,
            next_check: Instant::now(),
            note: note.to_owned(),
        })
    }
}

impl Feed for StoreFeed {
    fn title(&self) -> String {
        format!("store {}{}", self.reader.path().display(), self.note)
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.clone()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if !self.hosts.iter().any(|known| known.info.host == host) {
            return Err(FeedError(format!("the store has no host {host}")));
        }
        (self.selected, self.newest_end_ns, self.next_check) = (Some(host), None, Instant::now());
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected.filter(|_| Instant::now() >= self.next_check) else { return Ok(None) };
        // First the newest interval of the store, then each one behind it.
        let found = match self.newest_end_ns {
            None => seek(&self.reader, host, Seek::Before(i64::MAX)),
            Some(end_ns) => seek(&self.reader, host, Seek::After(end_ns)),
        };
        let found = found.map_err(|error| failed(&error))?;
        match &found {
            Some(interval) => self.newest_end_ns = Some(interval.end.wall_ns),
            // Only an empty answer delays the next query, so intervals that piled up are read without a
            // pause.
            None => self.next_check = Instant::now() + CHECK_EVERY,
        }
        Ok(found.map(Arc::new))
    }

    fn age(&self) -> Option<Duration> {
        let age_ns = cpumon_query::time::now_ns().saturating_sub(self.newest_end_ns?);
        Some(Duration::from_nanos(u64::try_from(age_ns).unwrap_or(0)))
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        let found = seek(&self.reader, host, to).map_err(|error| failed(&error))?;
        Ok(found.map(Arc::new))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        past::points_of_store(&self.reader, host, of, &wall_ns)
    }

    fn traces(&mut self, wall_ns: Range<i64>) -> Result<Vec<StoredTrace>, FeedError> {
        let Some(host) = self.selected else { return Ok(Vec::new()) };
        past::traces_of_store(self.reader.path(), host, &wall_ns)
    }

    fn report(&mut self, query: &ReportQuery) -> Result<RangeReport, FeedError> {
        let host = self.selected.ok_or_else(|| FeedError("no host is selected".to_owned()))?;
        past::report_of_store(self.reader.path(), host, query)
    }
}
