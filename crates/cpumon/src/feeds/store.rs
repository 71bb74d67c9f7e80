//! [`StoreFeed`]: shows a store: any host at any moment, the newest interval first, and new intervals as they are written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostStatus, Interval, Trust};
use cpumon_query::{Seek, seek};
use cpumon_store::{HostRecord, Reader, StoreError};
use cpumon_tui::{Feed, FeedError};

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

    fn select(&mut self, host: HostId) {
        (self.selected, self.newest_end_ns, self.next_check) = (Some(host), None, Instant::now());
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
        self.newest_end_ns.map(super::age_of)
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        let found = seek(&self.reader, host, to).map_err(|error| failed(&error))?;
        Ok(found.map(Arc::new))
    }

    fn store(&self) -> Option<PathBuf> {
        Some(self.reader.path().to_owned())
    }
}
