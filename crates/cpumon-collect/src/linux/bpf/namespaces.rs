//! Whether the ids and clocks of this process are those that BPF has.

use std::path::Path;

use super::super::host;
use super::super::proc_ids::ProcIds;
use crate::CollectError;

/// Why it is not used in a pid namespace.
const OTHER_IDS: &str =
    "it has the host's process ids, and this runs in a pid namespace (docker run --pid=host, hostPID: true)";

/// Why it is not used in a time namespace.
const OTHER_CLOCKS: &str =
    "it has the host's clocks, and this runs in a time namespace with others (nsenter --time --target 1)";

/// Checks that /proc and the clocks of this process are those of BPF.
///
/// Errors: it is in a pid namespace, where a busy process would have the name and the command line of a stranger, or in a time namespace.
pub(in super::super) fn check_namespaces(proc_root: &Path) -> Result<(), CollectError> {
    check_clocks(proc_root)?;
    if ProcIds::of(proc_root) == ProcIds::Others {
        return Err(CollectError::BpfUnavailable { reason: OTHER_IDS.to_owned() });
    }
    Ok(())
}

/// As [`check_namespaces`], where ids do not count.
pub(super) fn check_clocks(proc_root: &Path) -> Result<(), CollectError> {
    // The time up to now of what is still open would be wrong by the offset.
    if host::has_shifted_clocks(proc_root) {
        return Err(CollectError::BpfUnavailable { reason: OTHER_CLOCKS.to_owned() });
    }
    Ok(())
}
