//! Run-delay histograms of a host. In: snapshots that tell whole histograms or the buckets that changed. Out: whole, cumulative
//! ones, as far as they are known. Why: of a histogram that was never told whole nobody knows what its other buckets held, so
//! it waits for its turn, and nothing is charged that happened before.

use std::sync::Arc;

use cpumon_model::{DelayHistogram, DelayOf, Delays, Fields, Snapshot, find_delays};

/// Leaves the histograms that are told whole: before anything else is known.
pub(super) fn keep_whole(snapshot: &mut Snapshot, whole: &[DelayOf]) {
    snapshot.delays.retain(|row| whole.binary_search(&row.of).is_ok());
}

/// Brings told buckets and known ones together. What cannot be whole is left out. `has_all`: who is not known had no delays
/// when all were told.
pub(super) fn complete(known: &mut Snapshot, snapshot: &mut Snapshot, whole: &[DelayOf], has_all: bool) {
    let watched_from_ns = known.begin.boot_ns;
    snapshot.delays.retain_mut(|row| {
        if has_all && let Err(at) = known.delays.binary_search_by_key(&row.of, |row| row.of) {
            known.delays.insert(at, Delays { of: row.of, histogram: Arc::default() });
        }
        if whole.binary_search(&row.of).is_ok() {
            return true;
        }
        match find_delays(&known.delays, row.of) {
            Some(before) => row.histogram = Arc::new(merged(before, &row.histogram)),
            // All that it ever counted was told since.
            None => return began_since(row.of, watched_from_ns),
        }
        true
    });
}

/// The known counts with the told ones in their places. A count that is told late stays as it is known.
fn merged(known: &DelayHistogram, told: &DelayHistogram) -> DelayHistogram {
    let mut merged = known.clone();
    for (bucket, count) in told.iter() {
        merged.set(bucket, count.max(known.count(bucket)));
    }
    merged
}

fn began_since(of: DelayOf, watched_from_ns: u64) -> bool {
    let start_ns = match of {
        DelayOf::Cpu(_) => 0,
        DelayOf::Process(key) => key.start_ns,
        DelayOf::Thread(_, key) => key.start_ns,
    };
    start_ns != 0 && start_ns >= watched_from_ns
}

/// Takes what a snapshot tells; forgets whose owner is neither known nor told of. Returns how many found no room.
pub(super) fn take(known: &mut Snapshot, cur: &Snapshot, max_buckets: usize) -> u64 {
    if !cur.fields.contains(Fields::HISTOGRAMS) {
        // The probe is off, and will begin at 0 when it is on again.
        known.delays.clear();
        return 0;
    }
    let told = |of: DelayOf| find_delays(&cur.delays, of).is_some();
    let (processes, threads) = (&known.processes, &known.threads);
    known.delays.retain(|row| {
        let lives = match row.of {
            DelayOf::Cpu(_) => true,
            DelayOf::Process(key) => processes.binary_search_by_key(&key, |process| process.key).is_ok(),
            DelayOf::Thread(_, key) => threads.binary_search_by_key(&key, |thread| thread.key).is_ok(),
        };
        lives || told(row.of)
    });
    let mut buckets: usize = known.delays.iter().map(|row| row.histogram.iter().count()).sum();
    let mut over = 0;
    for row in &cur.delays {
        let more = row.histogram.iter().count();
        match known.delays.binary_search_by_key(&row.of, |row| row.of) {
            Ok(at) => known.delays[at].histogram = Arc::clone(&row.histogram),
            Err(_) if buckets + more > max_buckets => over += 1,
            Err(at) => {
                buckets += more;
                known.delays.insert(at, Delays { of: row.of, histogram: Arc::clone(&row.histogram) });
            }
        }
    }
    over
}
