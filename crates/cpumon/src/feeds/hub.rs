//! [`HubFeed`]: shows the hosts of this process's own receiver, live and past.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, HostStatus, Interval, Trust};
use cpumon_query::{Live, Seek, status::StoreState};
use cpumon_receiver::hub::Hub;
use cpumon_tui::{Feed, FeedError};

/// The hub, where its page is, the selected host, and the serial number of the last interval that was returned.
pub struct HubFeed {
    hub: Arc<Hub>,
    page_url: String,
    selected: Option<HostId>,
    handed_out: u64,
}

impl HubFeed {
    /// Shows this machine first, or else the first host by name.
    pub fn new(hub: Arc<Hub>, page_url: String) -> Self {
        Self { hub, page_url, selected: None, handed_out: 0 }
    }

    fn choose_first(&mut self) {
        if self.selected.is_none() {
            let hosts = self.hub.hosts();
            let local = hosts.iter().find(|host| host.trust == Trust::Local);
            self.selected = local.or(hosts.first()).map(|host| host.info.host);
        }
    }
}

/// The end is cut where there is little space, so problems come first.
fn title(store_error: Option<&str>, lost: u64, page_url: &str, udp: &str) -> String {
    let mut title = String::new();
    if store_error.is_some() {
        title.push_str("NOT STORING, ");
    }
    if lost > 0 {
        let _ = write!(title, "{lost} datagrams lost in the kernel, ");
    }
    let _ = write!(title, "page {page_url}, udp {udp}");
    if let Some(error) = store_error {
        let _ = write!(title, "; not storing: {error}");
    }
    title
}

impl Feed for HubFeed {
    fn title(&self) -> String {
        let status = self.hub.status();
        let failing = (status.store.state == StoreState::Failing).then_some(&*status.store.error);
        title(failing, status.receiver.kernel_dropped, &self.page_url, &status.udp.join(", "))
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hub.hosts()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) {
        (self.selected, self.handed_out) = (Some(host), 0);
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        self.choose_first();
        let Some(host) = self.selected else { return Ok(None) };
        // The first interval is the newest: the screens begin with now, not with the oldest in memory.
        let next = if self.handed_out == 0 {
            self.hub.newest(host)
        } else {
            self.hub.after_serial(host, self.handed_out).into_iter().next()
        };
        Ok(next.map(|shown| {
            self.handed_out = shown.serial;
            self.hub.with_idle(host, &shown).interval
        }))
    }

    fn age(&self) -> Option<Duration> {
        let host = self.selected?;
        let status = self.hub.hosts().into_iter().find(|status| status.info.host == host)?;
        Some(super::age_of(status.received_wall_ns))
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        let found = self.hub.seek(host, to).map_err(FeedError)?;
        Ok(found.map(|shown| self.hub.with_idle(host, &shown).interval))
    }

    fn store(&self) -> Option<PathBuf> {
        Some(PathBuf::from(self.hub.status().store.path)).filter(|path| !path.as_os_str().is_empty())
    }

    fn take_trace(&mut self) -> Result<String, FeedError> {
        let host = self.selected.ok_or_else(|| FeedError("no host is selected".to_owned()))?;
        let hub = &self.hub;
        let record = |length| hub.record_trace(host, length);
        super::take_trace(hub.trace_sources(host), record, || hub.take_trace(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The screen cut the count of lost datagrams behind the address of the page.
    #[test]
    fn what_is_wrong_comes_first_in_the_title() {
        let of = |store_error, lost| title(store_error, lost, "http://127.0.0.1:3080/", "0.0.0.0:3001");
        assert_eq!(of(None, 0), "page http://127.0.0.1:3080/, udp 0.0.0.0:3001");
        assert!(of(None, 7).starts_with("7 datagrams lost in the kernel, page http"), "{}", of(None, 7));
        assert_eq!(
            of(Some("disk full"), 7),
            "NOT STORING, 7 datagrams lost in the kernel, page http://127.0.0.1:3080/, udp 0.0.0.0:3001; not storing: disk full"
        );
    }
}
