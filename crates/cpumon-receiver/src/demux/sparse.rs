//! Completes sparse rows from the last known snapshot: control groups, run-delay histograms, and waits of threads, also waits that were
//! lost with an earlier row. A sparse row leaves out unchanged values.

use std::sync::Arc;

use cpumon_model::{
    CGROUP_PATH_BYTES, CgroupSample, DelayHistogram, DelayOf, Delays, Fields, MAX_CGROUPS, ProcessKey,
    SchedTimes, Snapshot, ThreadSample, Waits, bytes_of_delays, find_delays,
};
use cpumon_wire::v2::{CgroupRow, Frame};

/// Where the row of a process is in an ascending list. `at`: where the last one was found, which neighbouring threads often share.
pub(super) fn place_of<T>(
    rows: &[T],
    process: ProcessKey,
    at: &mut usize,
    key_of: impl Fn(&T) -> ProcessKey,
) -> Option<usize> {
    if rows.get(*at).is_none_or(|row| key_of(row) != process) {
        *at = rows.binary_search_by_key(&process, key_of).ok()?;
    }
    Some(*at)
}

/// Memory of a group with its path, bytes: frames cut paths at 255.
pub(super) const CGROUP_BYTES: usize = size_of::<CgroupSample>() + CGROUP_PATH_BYTES + 255;
/// A group without a row for more than this many refreshes is gone.
const CGROUP_PATIENCE: u64 = 3;

/// Makes the sample of a group. Path and limit come from the known group if they were not sent. `None`: they are not known either.
pub(super) fn cgroup_sample(frame: &Frame, row: &CgroupRow, known: &Snapshot) -> Option<CgroupSample> {
    let before = find_cgroup(&known.cgroups, row.id);
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

fn find_cgroup(rows: &[CgroupSample], id: u64) -> Option<&CgroupSample> {
    rows.binary_search_by_key(&id, |row| row.id).ok().map(|at| &rows[at])
}

/// In which snapshot each control group was last received.
#[derive(Clone, Debug, Default)]
pub(super) struct CgroupTurns {
    /// Number of the group and of the snapshot that had it last, ascending.
    rows: Vec<(u64, u64)>,
    /// Rows of the current snapshot, before they replace `rows`.
    next: Vec<(u64, u64)>,
}

impl CgroupTurns {
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
                let is_old = sequence.saturating_sub(turn) > CGROUP_PATIENCE * u64::from(refresh);
                let is_sent = find_cgroup(&snapshot.cgroups[..sent], row.id).is_some();
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

/// Keeps only the histograms that were sent whole: nothing else is known of the host yet.
pub(super) fn keep_whole_delays(snapshot: &mut Snapshot, whole: &[DelayOf]) {
    snapshot.delays.retain(|row| whole.binary_search(&row.of).is_ok());
}

/// Merges the buckets that were sent into the known ones. A histogram that cannot be completed is left out. `has_all`: an owner
/// that is not known had no delays when all histograms were sent.
pub(super) fn complete_delays(
    known: &mut Snapshot,
    snapshot: &mut Snapshot,
    whole: &[DelayOf],
    has_all: bool,
) {
    if has_all {
        add_missing(&mut known.delays, &snapshot.delays);
    }
    let watched_from_ns = known.begin.boot_ns;
    snapshot.delays.retain_mut(|row| {
        if whole.binary_search(&row.of).is_ok() {
            return true;
        }
        match find_delays(&known.delays, row.of) {
            Some(before) => row.histogram = Arc::new(merged_delays(before, &row.histogram)),
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
fn merged_delays(known: &DelayHistogram, sent: &DelayHistogram) -> DelayHistogram {
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

/// Stores the histograms of a snapshot in at most `limit` bytes, and forgets those whose owner is neither known nor in it. Returns how many
/// had no space, and the bytes of all that are known now.
pub(super) fn take_delays(known: &mut Snapshot, cur: &Snapshot, limit: usize) -> (u64, usize) {
    if !cur.fields.contains(Fields::HISTOGRAMS) {
        // The probe is off, and will begin at 0 when it is on again.
        known.delays = Vec::new();
        return (0, 0);
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
    (over, bytes)
}

/// Adds the known waits to a row that has only those that grew. `since_ns`: earlier rows may be lost; time since the last snapshot, up to
/// which the waits of `known` go.
pub(super) fn complete_waits(row: &mut ThreadSample, known: &ThreadSample, since_ns: Option<u64>) {
    let sent = row.sched.waits;
    keep_waits(&mut row.sched, &known.sched);
    if let Some(since_ns) = since_ns
        && known.sched.open_wait.is_some()
        && known.sched.is_watched()
    {
        let blocked_ns = blocked_until_now(row, known, since_ns);
        correct_lost_waits(row, &sent, &known.sched, blocked_ns);
    }
}

/// Corrects the known waits of a thread that sent only rows without a name so far: some of its earlier waits are not known, and `row` must
/// not bring them as waits of its interval. `since_ns` as above.
pub(super) fn forget_earlier_waits(row: &ThreadSample, known: &mut ThreadSample, since_ns: u64) {
    let now_ns = blocked_until_now(row, known, since_ns).saturating_sub(known.sched.blocked_ns);
    let mut waits = row.sched.waits;
    waits.take(known.sched.open_wait, now_ns);
    known.sched.blocked_ns = waits.total_ns();
    known.sched.waits = waits;
}

/// Time in which the thread was blocked since its known row, and before: a thread that neither ran nor waited for a CPU was blocked.
/// `since_ns`: time since the last snapshot, up to which the waits of `known` go.
fn blocked_until_now(sent: &ThreadSample, known: &ThreadSample, since_ns: u64) -> u64 {
    let ran_ns = sent.counters.run_ns.saturating_sub(known.counters.run_ns);
    let delay_ns = sent.counters.run_delay_ns.saturating_sub(known.counters.run_delay_ns);
    let passed_ns = known.sched.blocked_ns.saturating_add(since_ns);
    passed_ns.saturating_sub(ran_ns).saturating_sub(delay_ns)
}

/// Makes the waits of a row add up to `blocked_ns` after rows with some waits were lost. Missing time goes to the last known open wait.
/// Waits in `sent` are exact: excess time is taken from the others, the largest first.
fn correct_lost_waits(thread: &mut ThreadSample, sent: &Waits, known: &SchedTimes, blocked_ns: u64) {
    let SchedTimes { waits, blocked_ns: total_ns, .. } = &mut thread.sched;
    waits.add(known.open_wait, blocked_ns.saturating_sub(*total_ns));
    let mut over_ns = total_ns.saturating_sub(blocked_ns);
    while over_ns > 0 {
        let kept = waits.iter().filter(|(reason, _)| sent.of(*reason) == 0);
        let Some((reason, ns)) = kept.max_by_key(|(_, ns)| *ns) else { break };
        waits.take(reason, over_ns);
        over_ns = over_ns.saturating_sub(ns);
    }
    *total_ns = waits.total_ns();
}

/// Adds the known waits that were not sent, because they did not grow.
fn keep_waits(sent: &mut SchedTimes, known: &SchedTimes) {
    for (reason, ns) in known.waits.iter() {
        if sent.waits.of(reason) == 0 {
            sent.waits.add(reason, ns);
            sent.blocked_ns = sent.blocked_ns.saturating_add(ns);
        }
    }
}
