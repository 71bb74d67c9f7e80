//! Control groups of a host: rows that leave out what did not change are completed from what is known.

use std::sync::Arc;

use cpumon_model::{CGROUP_PATH_BYTES, CgroupSample, MAX_CGROUPS, Snapshot};
use cpumon_wire::v2::{CgroupRow, Frame};

/// Memory of a group with its path, bytes: frames cut paths at 255.
pub(super) const CGROUP_BYTES: usize = size_of::<CgroupSample>() + CGROUP_PATH_BYTES + 255;
/// A group whose turns were missing for so many refreshes is gone.
const PATIENCE: u64 = 3;

/// A group, its path and limit taken from what is known where they were not sent. `None`: they are not known either.
pub(super) fn sample(frame: &Frame, row: &CgroupRow, known: &Snapshot) -> Option<CgroupSample> {
    let before = find(&known.cgroups, row.id);
    let about = match (&row.about, before) {
        (None, before) => before?.clone(),
        (Some(about), before) => {
            let path = frame.cgroup_path(about);
            let path = match before.filter(|before| *before.path == *path) {
                Some(before) => Arc::clone(&before.path),
                None => path.into(),
            };
            let (limit, limiter_bytes) = (about.limit, about.limiter_bytes);
            CgroupSample { id: row.id, path, limit, limiter_bytes, ..CgroupSample::default() }
        }
    };
    Some(CgroupSample { throttle: row.throttle, pressure: row.pressure, ..about })
}

fn find(rows: &[CgroupSample], id: u64) -> Option<&CgroupSample> {
    rows.binary_search_by_key(&id, |row| row.id).ok().map(|at| &rows[at])
}

/// When groups were received.
#[derive(Clone, Debug, Default)]
pub(super) struct CgroupTurns {
    /// Number of the group and of the snapshot that had it last, ascending.
    rows: Vec<(u64, u64)>,
    /// Those of the snapshot at hand.
    next: Vec<(u64, u64)>,
}

impl CgroupTurns {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Adds the known groups that were not sent: their counters did not move. `ended`: those that are gone, ascending.
    pub(super) fn complete(
        &mut self,
        snapshot: &mut Snapshot,
        known: &Snapshot,
        ended: &[u64],
        refresh: u16,
    ) {
        let sequence = snapshot.sequence;
        self.next.clear();
        self.next.extend(snapshot.cgroups.iter().map(|row| (row.id, sequence)));
        if !snapshot.is_complete {
            let sent = snapshot.cgroups.len();
            for row in &known.cgroups {
                let turn = self.rows.binary_search_by_key(&row.id, |turn| turn.0);
                let turn = turn.map_or(sequence, |at| self.rows[at].1);
                let is_old = sequence.saturating_sub(turn) > PATIENCE * u64::from(refresh);
                let is_sent = find(&snapshot.cgroups[..sent], row.id).is_some();
                let is_full = snapshot.cgroups.len() >= MAX_CGROUPS;
                if is_old || is_sent || is_full || ended.binary_search(&row.id).is_ok() {
                    continue;
                }
                snapshot.cgroups.push(row.clone());
                self.next.push((row.id, turn));
            }
            snapshot.cgroups.sort_unstable_by_key(|row| row.id);
            self.next.sort_unstable();
        }
        std::mem::swap(&mut self.rows, &mut self.next);
    }
}
