//! [`busy_peers`] and [`idle_threads`]: which of the processes and threads that ended waits of a subject did something meanwhile. To wait for
//! one that did nothing is to wait for work.

use cpumon_model::{Fields, ProcessKey, ThreadKey, WaitFor, WaitKind, WaitReason, WaitedOn};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::part::WhyPart;
use super::states::{StateTimes, SubjectRows, WaitClass, at_least_zero, is_input, is_lock};
use super::threads::{SeenThread, ThreadSums};

/// Share of the waiting time below which a process does nearly nothing for those who wait for it.
const IDLE_PEER: f64 = 0.3;
/// The same where the wait is for whatever comes first, as with `epoll_wait`: mostly that is a wait for input.
const IDLE_INPUT: f64 = 0.5;
/// Share of the time from which on a process counts as one that does something.
const USED_SHARE: f64 = 0.05;
/// Mean wait for another thread from which on it is more likely one for work than one for a lock that a thread holds while it runs.
const POOL_WAIT_NS: u64 = 20_000_000;
/// Processes at most whose own time is examined, because the subject waited for them.
const MAX_PEERS: usize = 64;
/// Generations of children, each of which waits for the next, at most.
const MAX_GENERATIONS: u32 = 4;

/// Waits that one process ended.
#[derive(Copy, Clone, Debug, Default)]
struct EndedWaits {
    ns: u64,
    /// The shortest time for which the process must have been busy to count as busy, ns.
    least_ns: f64,
}

impl EndedWaits {
    fn add(&mut self, row: &WaitFor) {
        let is_input = matches!(row.kind, WaitKind::Blocked(reason) if is_input(reason));
        self.ns = self.ns.saturating_add(row.ns);
        self.least_ns += row.ns as f64 * if is_input { IDLE_INPUT } else { IDLE_PEER };
    }
}

/// The processes that ended waits of the subject and were busy. Of others than children only those that were waited for longest are
/// examined; the rest count as idle.
pub(super) fn busy_peers(part: &WhyPart, rows: &SubjectRows) -> HashSet<ProcessKey> {
    if rows.is_machine() {
        return HashSet::new();
    }
    let mut busy = busy_children(part, rows);
    let mut peers: HashMap<ProcessKey, EndedWaits> = HashMap::new();
    for row in part.waits.iter().filter(|row| rows.has(row.waiter)) {
        if let (WaitedOn::Process(key), Some(WaitClass::Peer)) = (row.on, WaitClass::of_row(part, rows, row))
        {
            peers.entry(key).or_default().add(row);
        }
    }
    let mut longest: Vec<(ProcessKey, EndedWaits)> = peers.into_iter().collect();
    longest.sort_by_key(|(key, waits)| (std::cmp::Reverse(waits.ns), *key));
    longest.truncate(MAX_PEERS);
    // One that waits for those who wait for it, or for others that do nothing, waits for work itself.
    let is_idle = |key: ProcessKey| rows.has(key) || !(is_used(part, key) || busy.contains(&key));
    let is_busy = |key: ProcessKey, least_ns: f64| {
        let own = SubjectRows { keys: Some(HashSet::from_iter([key])), ..SubjectRows::default() };
        let mut times = StateTimes::of(part, &own, &is_idle);
        // Its threads are not read. One that held no lock for so long passes work to a pool.
        if (held_ns(times.waits.iter().map(|wait| (wait.reason, wait.ns))) as f64) < least_ns {
            times.let_pools_sleep(|_| true);
        }
        times.busy_ns() as f64 >= least_ns
    };
    let found = longest.into_iter().filter(|(key, waits)| is_busy(*key, waits.least_ns));
    let found: Vec<ProcessKey> = found.map(|(key, _)| key).collect();
    busy.extend(found);
    busy
}

/// Run time and run delay of a process, ns; `None`: not measured.
fn used_ns(part: &WhyPart, key: ProcessKey) -> Option<u64> {
    // A process without a length was only named.
    let by_row = part.processes.get(&key).filter(|seen| seen.length_ns > 0).map(|seen| &seen.delta);
    let delta = by_row.or_else(|| part.children.get(&key).map(|child| &child.delta))?;
    Some(at_least_zero(delta.run_ns.saturating_add(delta.run_delay_ns)))
}

fn is_used(part: &WhyPart, key: ProcessKey) -> bool {
    used_ns(part, key).is_some_and(|ns| ns as f64 >= part.length_ns as f64 * USED_SHARE)
}

/// The children that ended a wait and were busy, or waited for a busy child themselves. One of which nothing was measured counts as
/// busy: it was short.
fn busy_children(part: &WhyPart, rows: &SubjectRows) -> HashSet<ProcessKey> {
    let mut children: HashMap<ProcessKey, EndedWaits> = HashMap::new();
    let mut edges: Vec<ChildEdge> = Vec::new();
    // What each did itself, ns.
    let mut own_ns: HashMap<ProcessKey, u64> = HashMap::new();
    for row in &part.waits {
        let does_something = match (WaitClass::of_row(part, rows, row), row.on) {
            (Some(WaitClass::Child), WaitedOn::Process(child)) => {
                children.entry(child).or_default().add(row);
                edges.push(ChildEdge { parent: row.waiter, child, ns: row.ns });
                false
            }
            (Some(WaitClass::Peer), WaitedOn::Process(key)) => is_used(part, key),
            (Some(WaitClass::Disk | WaitClass::Faults), _) => !part.fields.contains(Fields::WAITS),
            (Some(class), WaitedOn::Interrupt | WaitedOn::Others) => class.is_delay(),
            _ => false,
        };
        if does_something {
            let sum = own_ns.entry(row.waiter).or_default();
            *sum = sum.saturating_add(row.ns);
        }
    }
    let at_disk_ns = |key: ProcessKey| {
        let seen = part.processes.get(&key).filter(|_| part.fields.contains(Fields::WAITS))?;
        let is_disk = |class: WaitClass| matches!(class, WaitClass::Disk | WaitClass::Faults);
        let at_disk =
            seen.waits.iter().filter(|(reason, _)| is_disk(WaitClass::of(*reason, WaitedOn::Others)));
        Some(at_disk.fold(0_u64, |sum, (_, ns)| sum.saturating_add(ns)))
    };
    for key in children.keys() {
        let ns = used_ns(part, *key).unwrap_or(0).saturating_add(at_disk_ns(*key).unwrap_or(0));
        let sum = own_ns.entry(*key).or_default();
        *sum = sum.saturating_add(ns);
    }
    let mut busy: HashSet<ProcessKey> = HashSet::new();
    for _ in 0..MAX_GENERATIONS {
        let mut done_ns = own_ns.clone();
        for edge in edges.iter().filter(|edge| busy.contains(&edge.child)) {
            let sum = done_ns.entry(edge.parent).or_default();
            *sum = sum.saturating_add(edge.ns);
        }
        let is_busy = |key: ProcessKey, waits: &EndedWaits| {
            let ns = done_ns.get(&key).copied().unwrap_or(0);
            used_ns(part, key).is_none() || ns as f64 >= waits.least_ns
        };
        let before = busy.len();
        busy.extend(children.iter().filter(|(key, waits)| is_busy(**key, waits)).map(|(key, _)| *key));
        if busy.len() == before {
            break;
        }
    }
    busy
}

/// A wait of a process for a child.
#[derive(Copy, Clone, Debug)]
struct ChildEdge {
    parent: ProcessKey,
    child: ProcessKey,
    ns: u64,
}

/// The threads of the subject that ended waits of its other threads and neither ran nor held anything meanwhile: they pass work to a pool.
/// Threads of which nothing was measured are not among them.
///
/// Of several threads that wait at once each waits as long, so the time that is due to a thread is its part of these waits divided by
/// their number.
pub(super) fn idle_threads(part: &WhyPart, times: &StateTimes, threads: &ThreadSums) -> HashSet<ThreadKey> {
    let mut ended_ns: HashMap<ThreadKey, u64> = HashMap::new();
    for wait in times.waits.iter().filter(|wait| wait.class == WaitClass::Lock) {
        if let WaitedOn::Thread(key) = wait.on {
            let sum = ended_ns.entry(key).or_default();
            *sum = sum.saturating_add(wait.ns);
        }
    }
    let waiting = (times.of_class(WaitClass::Lock) as f64 / part.length_ns.max(1) as f64).max(1.0);
    let held_by_process_ns = held_ns(times.waits.iter().map(|wait| (wait.reason, wait.ns)));
    let held_by_ns = |seen: &SeenThread| {
        if part.fields.contains(Fields::WAITS) { held_ns(seen.waits.iter()) } else { held_by_process_ns }
    };
    let is_idle = |key: &ThreadKey, ns: u64| {
        let Some(seen) = threads.each.get(key) else { return false };
        let used_ns = at_least_zero(seen.delta.run_ns.saturating_add(seen.delta.run_delay_ns));
        let busy_ns = used_ns.saturating_add(held_by_ns(seen));
        (busy_ns as f64) < ns as f64 / waiting * IDLE_PEER
    };
    ended_ns.into_iter().filter(|(key, ns)| is_idle(key, *ns)).map(|(key, _)| key).collect()
}

/// The same without threads: whether all threads of the subject together ran and held too little for those that waited for another one.
pub(super) fn is_idle_pool(times: &StateTimes) -> bool {
    let held_ns = held_ns(times.waits.iter().map(|wait| (wait.reason, wait.ns)));
    let busy_ns = times.ran_ns().saturating_add(times.ready_ns()).saturating_add(held_ns);
    let due_ns = times.of_class(WaitClass::Lock).min(times.present_ns);
    (busy_ns as f64) < due_ns as f64 * IDLE_PEER
}

/// Counts long waits for other threads as waits for work where no thread can have slept with a lock. It needs no threads: to compare the
/// parts of a range, not to explain them.
pub(super) fn let_long_pool_waits_sleep(times: &mut StateTimes) {
    if held_ns(times.waits.iter().map(|wait| (wait.reason, wait.ns))) > 0 {
        return;
    }
    for wait in times.waits.iter_mut().filter(|wait| wait.class == WaitClass::Lock) {
        let mean_ns = wait.ns.checked_div(wait.count).unwrap_or(0);
        if matches!(wait.on, WaitedOn::Thread(_)) && mean_ns >= POOL_WAIT_NS {
            wait.class = WaitClass::Asleep;
        }
    }
}

/// How long waits can have been those of a thread that holds a lock: in a sleep or for a disk, but not for input. 0 where waits for input
/// take longer. The first thread of many a program waits for a signal all the time: that is neither.
fn held_ns(waits: impl Iterator<Item = (WaitReason, u64)>) -> u64 {
    let (mut held_ns, mut input_ns) = (0_u64, 0_u64);
    for (reason, ns) in waits.filter(|(reason, _)| !is_lock(*reason) && reason.words() != "signal") {
        let words = reason.words();
        let is_for_work = is_input(reason)
            || matches!(&*words, "incoming data" | "read" | "message" | "work to do" | "event or object");
        let sum = if is_for_work { &mut input_ns } else { &mut held_ns };
        *sum = sum.saturating_add(ns);
    }
    if held_ns >= input_ns { held_ns } else { 0 }
}
