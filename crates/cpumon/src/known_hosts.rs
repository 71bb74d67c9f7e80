//! [`KnownHosts`]: the hosts that a receiver knows, those that no longer report and those with only a past included.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostRef, HostStatus, escape};
use cpumon_query::fleet::HostState;

use crate::client::{Client, ClientError};

#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    /// Hosts that reported since the receiver started, by name.
    reporting: Vec<HostStatus>,
    /// The other hosts of its store. `received_wall_ns` is the end of the stored data.
    stored: Vec<HostStatus>,
    /// The receiver's wall clock at the time `read`.
    now_ns: i64,
    read: Option<Instant>,
}

impl KnownHosts {
    pub fn read(client: &Client) -> Result<Self, ClientError> {
        let stored = client.stored()?;
        Self { stored, ..Self::default() }.again(client)
    }

    /// Asks for those that report. The store need not be read again: hosts are added to it as they report.
    pub fn again(self, client: &Client) -> Result<Self, ClientError> {
        let status = client.status()?;
        let (reporting, now_ns) = (status.hosts, status.now_wall_ns);
        let ids: HashSet<HostId> = reporting.iter().map(|host| host.info.host).collect();
        // A receiver that started again has only stored those that reported before.
        let mut seen = ids.clone();
        let others = self.reporting.into_iter().chain(self.stored);
        let stored = others.filter(|host| seen.insert(host.info.host)).collect();
        Ok(Self { reporting, stored, now_ns, read: Some(Instant::now()) })
    }

    /// All hosts; those that report come first.
    pub fn all(&self) -> impl Iterator<Item = &HostStatus> {
        self.reporting.iter().chain(&self.stored)
    }

    /// Whether the host has reported since the receiver started.
    pub fn is_reporting(&self, host: HostId) -> bool {
        self.reporting.iter().any(|known| known.info.host == host)
    }

    /// How long ago its newest interval arrived, by the receiver's clock.
    pub fn age(&self, host: &HostStatus) -> Duration {
        let since = self.read.map_or(Duration::ZERO, |read| read.elapsed());
        let age_ns = self.now_ns.saturating_sub(host.received_wall_ns).max(0);
        Duration::from_nanos(age_ns.unsigned_abs()).saturating_add(since)
    }

    pub fn is_silent(&self, host: &HostStatus) -> bool {
        let age_ns = i64::try_from(self.age(host).as_nanos()).unwrap_or(i64::MAX);
        !self.is_reporting(host.info.host)
            || HostState::of(age_ns, host.info.interval_ns) == HostState::Silent
    }

    /// The host of this id or name, or the only one whose name begins so; one that reports before one that is only stored.
    pub fn find(&self, client: &Client, wanted: &str) -> Result<HostStatus, ClientError> {
        let found = match meant_by(wanted, &self.reporting) {
            none if none.is_empty() => meant_by(wanted, &self.stored),
            found => found,
        };
        let (url, wanted) = (client.url().to_owned(), wanted.to_owned());
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let names: Vec<String> =
                    self.all().map(|host| escape(&host.info.hostname).to_string()).collect();
                let known = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
                Err(ClientError::UnknownHost { url, wanted, known })
            }
            several => {
                let named =
                    |host: &&HostStatus| format!("{} ({})", escape(&host.info.hostname), host.info.host);
                let known: Vec<String> = several.iter().map(named).collect();
                Err(ClientError::AmbiguousHost { wanted, known: known.join(", ") })
            }
        }
    }
}

/// The hosts that a text means: by id or name, else those whose name begins so.
fn meant_by<'h>(wanted: &str, hosts: &'h [HostStatus]) -> Vec<&'h HostStatus> {
    let meant = HostRef::new(wanted, hosts.iter().map(|host| (&host.info, host.trust)));
    let found: Vec<&HostStatus> = hosts.iter().filter(|host| meant.is(&host.info, host.trust)).collect();
    if !found.is_empty() || wanted.is_empty() || matches!(meant, HostRef::Id(_)) {
        return found;
    }
    hosts.iter().filter(|host| host.info.hostname.starts_with(wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::AccessArgs;

    fn host(id: u8, name: &str) -> HostStatus {
        let mut status = HostStatus::default();
        (status.info.host, status.info.hostname) = (HostId([id; 16]), name.into());
        status
    }

    #[test]
    fn a_host_is_meant_by_the_begin_of_its_name_if_no_other_name_begins_so() {
        let hosts = [host(1, "device1@10.77.0.2"), host(2, "board5"), host(3, "board50"), host(4, "board6")];
        let ids = |wanted: &str| -> Vec<u8> {
            meant_by(wanted, &hosts).iter().map(|host| host.info.host.0[0]).collect()
        };
        assert_eq!((ids("device1"), ids("board5"), ids("board")), (vec![1], vec![2], vec![2, 3, 4]));
        assert_eq!((ids(""), ids("x"), ids(&HostId([4; 16]).to_string())), (vec![], vec![], vec![4]));
    }

    #[test]
    fn a_host_that_reports_is_meant_before_one_that_is_only_stored() {
        let client = Client::new("http://127.0.0.1:1", &AccessArgs::default()).unwrap();
        let known = KnownHosts {
            reporting: vec![host(1, "board5")],
            stored: vec![host(2, "board5"), host(3, "gone")],
            now_ns: 20_000_000_000,
            read: None,
        };
        let id = |wanted: &str| known.find(&client, wanted).map(|host| host.info.host.0[0]);
        assert_eq!((id("board5").unwrap(), id("go").unwrap()), (1, 3));
        let unknown = id("x").unwrap_err().to_string();
        assert!(unknown.ends_with("its hosts: board5, board5, gone"), "{unknown}");
        let received = |mut host: HostStatus, second: i64| {
            host.received_wall_ns = second * 1_000_000_000;
            host
        };
        assert!(known.is_silent(&host(3, "gone")), "it does not report");
        assert!(known.is_silent(&received(host(1, "board5"), 4)), "for more than 15 s");
        assert!(!known.is_silent(&received(host(1, "board5"), 6)));
        assert_eq!(known.age(&received(host(1, "board5"), 6)), Duration::from_secs(14));
    }
}
