//! [`FleetHost`]: a host of the fleet.

use std::sync::Arc;

use cpumon_model::HostStatus;

use super::glance::Glance;
use super::state::HostState;

/// A host of the fleet.
#[derive(Clone, Debug)]
pub struct FleetHost {
    /// The host.
    pub status: HostStatus,
    /// Whether its intervals still arrive.
    pub state: HostState,
    /// How long ago its last interval arrived.
    pub age_ns: i64,
    /// Its newest interval in short; `None`: there is none.
    pub glance: Option<Arc<Glance>>,
}
