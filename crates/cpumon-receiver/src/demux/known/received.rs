//! [`Received`]: what is noted of each known task beside its row, in a list that runs in step with the rows.

use cpumon_model::{ProcessKey, ProcessSample, Snapshot, WaitPlace};

use crate::demux::accounts::grow;

/// The last snapshot that had a task.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) sequence: u64,
    /// Its end on the device's monotonic clock, ns.
    pub(super) end_ns: u64,
    /// Of a thread: rows that brought waits of it may be lost. The next one with a name has all.
    pub(super) lacks_waits: bool,
    /// Of a thread that waits: where it is among the open waits.
    pub(super) place: WaitPlace,
    /// Of a process: its known threads.
    pub(super) threads: u32,
}

impl Received {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self { sequence: snapshot.sequence, end_ns: snapshot.end.mono_ns, ..Self::default() }
    }
}

/// What is noted of a process. `at`: where the last one was found, which neighbouring threads often share.
pub(super) fn of_process<'a>(
    processes: &[ProcessSample],
    received: &'a mut [Received],
    key: ProcessKey,
    at: &mut usize,
) -> Option<&'a mut Received> {
    if processes.get(*at).is_none_or(|row| row.key != key) {
        *at = processes.binary_search_by_key(&key, |row| row.key).ok()?;
    }
    received.get_mut(*at)
}

/// Inserts `count` rows, given in descending order, into an ascending list and stamps them. What lies behind them moves;
/// new tasks mostly have the highest numbers, so that is little.
pub(super) fn insert<T: Default, K: Ord>(
    list: &mut Vec<T>,
    received: &mut Vec<Received>,
    count: usize,
    descending: impl Iterator<Item = T>,
    stamp: Received,
    key_of: impl Fn(&T) -> K,
) {
    let mut from = list.len();
    let mut to = from + count;
    grow(list, count);
    grow(received, count);
    list.resize_with(to, T::default);
    received.resize(to, stamp);
    for row in descending {
        // From behind, as in an insertion sort: each row moves at most once, to its final place.
        while from > 0 && key_of(&list[from - 1]) > key_of(&row) {
            list.swap(from - 1, to - 1);
            received.swap(from - 1, to - 1);
            from -= 1;
            to -= 1;
        }
        list[to - 1] = row;
        received[to - 1] = stamp;
        to -= 1;
    }
}

/// Keeps the rows that `keep` picks, and what is noted of them.
pub(super) fn retain_both<T>(
    list: &mut Vec<T>,
    received: &mut Vec<Received>,
    mut keep: impl FnMut(&T, Received) -> bool,
) {
    let mut at = 0;
    let mut kept = 0;
    // `retain` visits the rows in order, so `at` and `kept` keep both lists in step.
    list.retain(|row| {
        let stamp = received[at];
        let stays = keep(row, stamp);
        if stays {
            received[kept] = stamp;
            kept += 1;
        }
        at += 1;
        stays
    });
    received.truncate(kept);
}
