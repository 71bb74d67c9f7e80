//! Run-delay histograms of a host: sent whole, or only the buckets that changed, and merged to whole,
//! cumulative ones as far as they are known. The other buckets of a histogram that was never sent whole are
//! unknown: it is left out until its turn comes, and nothing is charged that happened before.

use std::sync::Arc;

use cpumon_model::{DelayHistogram, DelayOf, Delays, Fields, Snapshot, bytes_of_delays, find_delays};

/// Keeps only the histograms that were sent whole: nothing else is known of the host yet.
pub(super) fn keep_whole(snapshot: &mut Snapshot, whole: &[DelayOf]) {
    snapshot.delays.retain(|row| whole.binary_search(&row.of).is_ok());
}

/// Merges the buckets that were sent into the known ones. A histogram that cannot be completed is left out. `has_all`: an owner
/// that is not known had no delays when all histograms were sent.
pub(super) fn complete(known: &mut Snapshot, snapshot: &mut Snapshot, whole: &[DelayOf], has_all: bool) {
    if has_all {
        add_missing(&mut known.delays, &snapshot.delays);
    }
    let watched_from_ns = known.begin.boot_ns;
    snapshot.delays.retain_mut(|row| {
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

/// All histograms were sent once, so a missing one had no delays: an empty one to compare with is exact.
fn add_missing(known: &mut Vec<Delays>, sent: &[Delays]) {
    let empty = Arc::<DelayHistogram>::default();
    let before = known.len();
    for row in sent {
        if find_delays(&known[..before], row.of).is_none() {
            known.push(Delays { of: row.of, histogram: Arc::clone(&empty) });
        }
    }
    sort_behind(known, before);
}

/// Sorts a list whose first `sorted` rows ascend already, and so do those behind them.
fn sort_behind(list: &mut [Delays], sorted: usize) {
    if list.len() > sorted {
        // The stable sort finds the two runs and merges them; inserting row by row would move all that follows each time.
        list.sort_by_key(|row| row.of);
    }
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

/// What [`take`] did.
pub(super) struct Taken {
    /// Histograms left out for want of space.
    pub(super) over: u64,
    /// Memory of all that are known now.
    pub(super) bytes: usize,
}

/// Stores the histograms of a snapshot in at most `limit` bytes, and forgets those whose owner is neither known nor in it.
pub(super) fn take(known: &mut Snapshot, cur: &Snapshot, limit: usize) -> Taken {
    if !cur.fields.contains(Fields::HISTOGRAMS) {
        // The probe is off, and will begin at 0 when it is on again.
        known.delays = Vec::new();
        return Taken { over: 0, bytes: 0 };
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
    let mut bytes: usize = known.delays.iter().map(bytes_of_delays).sum();
    let (before, mut over) = (known.delays.len(), 0);
    for row in &cur.delays {
        let more = bytes_of_delays(row);
        match known.delays[..before].binary_search_by_key(&row.of, |row| row.of) {
            Ok(at) => {
                bytes = bytes - bytes_of_delays(&known.delays[at]) + more;
                known.delays[at].histogram = Arc::clone(&row.histogram);
            }
            Err(_) if bytes + more > limit => over += 1,
            Err(_) => {
                bytes += more;
                known.delays.push(Delays { of: row.of, histogram: Arc::clone(&row.histogram) });
            }
        }
    }
    sort_behind(&mut known.delays, before);
    Taken { over, bytes }
}
