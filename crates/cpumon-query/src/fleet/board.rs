//! [`FleetBoard`]: all hosts with their newest interval in short. An interval is read once, however many readers ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_model::{HostId, HostStatus};

use super::glance::{Busy, Glance};
use super::order::{self, FleetHost, FleetQuery};
use super::state::{HostState, age_ns};
use crate::Live;
use crate::time::now_ns;

/// All hosts that were asked for.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The receiver's clock.
    pub now_ns: i64,
    /// All that match, in order; the page of the query is a part of them.
    pub hosts: Vec<FleetHost>,
}

/// A busy process and its host.
#[derive(Copy, Clone, Debug)]
pub struct TopProcess<'f> {
    /// The host.
    pub host: &'f HostStatus,
    /// The process.
    pub busy: &'f Busy,
}

/// The newest interval of each host in short.
#[derive(Default)]
pub struct FleetBoard(Mutex<HashMap<HostId, Arc<Glance>>>);

impl FleetBoard {
    /// The hosts that match a query, in its order, all pages of them.
    pub fn hosts(&self, live: &dyn Live, query: &FleetQuery) -> Fleet {
        let now_ns = now_ns();
        let mut glances = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Hosts that were forgotten leave with the old map.
        let mut known = std::mem::take(&mut *glances);
        let fleet = live.fleet();
        glances.reserve(fleet.len());
        let mut hosts = Vec::with_capacity(fleet.len());
        for (status, shown) in fleet {
            let id = status.info.host;
            let glance = shown.map(|shown| {
                let same = known.remove(&id).filter(|glance| glance.number == shown.number);
                same.unwrap_or_else(|| Arc::new(Glance::new(shown.number, &shown.interval)))
            });
            glances.extend(glance.clone().map(|glance| (id, glance)));
            let age_ns = age_ns(&status, now_ns);
            let state = HostState::of(age_ns, status.info.interval_ns);
            hosts.push(FleetHost { status, state, age_ns, glance });
        }
        drop(glances);
        Fleet { now_ns, hosts: order::select(hosts, query) }
    }
}

/// The busiest processes of each host that reports, the busiest of all first.
#[must_use]
pub fn top(hosts: &[FleetHost]) -> Vec<TopProcess<'_>> {
    let reporting = hosts.iter().filter(|host| host.state == HostState::Reporting);
    let mut all: Vec<TopProcess<'_>> = reporting
        .flat_map(|host| {
            let busiest = host.glance.iter().flat_map(|glance| &glance.top);
            busiest.map(|busy| TopProcess { host: &host.status, busy })
        })
        .collect();
    let pct = |top: &TopProcess<'_>| top.busy.cpu_pct.unwrap_or(0.0);
    all.sort_by(|a, b| pct(b).total_cmp(&pct(a)));
    all
}
