//! What retention removed and caches may still name.

use crate::rows::{BootRow, HostRow};

/// Rows that are gone.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Some of table `process_info`.
    pub(super) infos: bool,
    /// All names of unauthenticated hosts, or they will be.
    pub(super) unauthenticated_names: bool,
    /// Hosts, with all of their data.
    pub(super) hosts: Vec<HostRow>,
    /// Boots of which nothing was stored any more.
    pub(super) boots: Vec<BootRow>,
}
