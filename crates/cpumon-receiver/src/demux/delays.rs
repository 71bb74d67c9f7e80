//! Run-delay histograms of a host: sent whole, or only the buckets that changed, and merged to whole,
//! cumulative ones as far as they are known. The other buckets of a histogram that was never sent whole are
//! unknown: it is left out until its turn comes, and nothing is charged that happened before.

use std::sync::Arc;

use cpumon_model::{DelayHistogram, DelayOf, Delays, Fields, Snapshot, find_delays};

/// Keeps only the histograms that were sent whole: nothing else is known of the host yet.
pub(super) fn keep_whole(snapshot: &mut Snapshot, whole: &[DelayOf]) {
    snapshot.delays.retain(|row| whole.binary_search(&row.of).is_ok());
}

/// Merges the buckets that were sent into the known ones. A histogram that cannot be completed is left out. `has_all`: an owner
/// that is not known had no delays when all histograms were sent.
pub(super) fn complete(known: &mut Snapshot, snapshot: &mut Snapshot, whole: &[DelayOf], has_all: bool) {
    let watched_from_ns = known.begin.boot_ns;
    snapshot.delays.retain_mut(|row| {
        // All histograms were sent once, so a missing one had no delays: an empty one to compare with is
        // exact.
        if has_all && let Err(at) = known.delays.binary_search_by_key(&row.of, |row| row.of) {
            known.delays.insert(at, Delays { of: row.of, histogram: Arc::default() });
        }
        if whole.binary_search(&row.of).is_ok() {
            return true;
        }
        match find_delays(&known.delays, row.of) {
            Some(before) => row.histogram = Arc::new(merged(before, &row.histogram)),
            // It began while the host was watched, so every bucket it ever counted in was sent.
            None => return began_since(row.of, watched_from_ns),
        }
        true
    });
}

/// The known counts with the sent ones in their places. A count that arrives late is lower and stays as it is known.
fn merged(known: &DelayHistogram, sent: &DelayHistogram) -> DelayHistogram {
    let mut merged = known.clone();
    for (bucket, count) in sent.iter() {
        merged.set(bucket, count.max(known.count(bucket)));
    }
    merged
}

fn began_since(of: DelayOf, watched_from_ns: u64) -> bool {
    let start_ns = match of {
        // A CPU has no start of its own: it counted before the host was watched.
        DelayOf::Cpu(_) => 0,
        DelayOf::Process(key) => key.start_ns,
        DelayOf::Thread(_, key) => key.start_ns,
    };
    start_ns != 0 && start_ns >= watched_from_ns
}

/// Stores the histograms of a snapshot, and forgets those whose owner is neither known nor in it. Returns how many exceeded
/// the limit.
pub(super) fn take(known: &mut Snapshot, cur: &Snapshot, max_buckets: usize) -> u64 {
    if !cur.fields.contains(Fields::HISTOGRAMS) {
        // The probe is off, and will begin at 0 when it is on again.
        known.delays.clear();
        return 0;
    }
    let sent = |of: DelayOf| find_delays(&cur.delays, of).is_some();
    let (processes, threads) = (&known.processes, &known.threads);
    known.delays.retain(|row| {
        let lives = match row.of {
            DelayOf::Cpu(_) => true,
            DelayOf::Process(key) => processes.binary_search_by_key(&key, |process| process.key).is_ok(),
            DelayOf::Thread(_, key) => threads.binary_search_by_key(&key, |thread| thread.key).is_ok(),
        };
        lives || sent(row.of)
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
