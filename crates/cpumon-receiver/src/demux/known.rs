//! [`KnownSnapshot`]: everything known of a v2 host, its live tasks with cumulative counters. A frame leaves out what
//! did not change, so each snapshot is completed from here before it is compared.

mod complete;

use cpumon_model::{
    Fields, Finder, Interval, IrqSample, Life, OpenWaits, ProcessInfo, ProcessKey, ProcessSample, Snapshot,
    ThreadKey, ThreadSample, WaitPlace, bytes_of_info, gallop, trim_list,
};

use super::budget::{bytes_of, grow};
use super::gather::{IRQ_BYTES, MAX_IRQS, free};
use super::sparse::{CGROUP_BYTES, CgroupTurns, place_of, take_delays};

pub(super) use self::complete::ListTurn;

/// Texts are counted again when their sum exceeds twice the last count by more than this, bytes.
const FEW_TEXT_BYTES: usize = 64 << 10;

/// The full last known snapshot and when each task was last received.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownSnapshot {
    pub(super) snapshot: Snapshot,
    /// One for each thread and process of the snapshot.
    threads_received: Vec<Received>,
    processes_received: Vec<Received>,
    /// Exits in the last snapshot; the next one repeats them, so that one lost snapshot loses no exit.
    exits_sent: Vec<ThreadKey>,
    /// Tasks that began at or after this cannot have been counted before they were first received, ns since boot.
    watched_from_boot_ns: u64,
    /// A snapshot had every run-delay histogram, or reported that there are none: tasks missing in it had no delays.
    has_all_delays: bool,
    /// Rows of the snapshots before this one were lost, as far as is known.
    pub(super) lost_before: u64,
    pub(super) open_waits: OpenWaits,
    /// Rows of the current snapshot that were not known, ascending.
    fresh: Vec<usize>,
    /// Processes that end with the current snapshot, ascending.
    emptied: Vec<ProcessKey>,
    /// Memory of texts of processes, those that ended since the last count included; and as of that count.
    text_bytes: usize,
    counted_text_bytes: usize,
    delay_bytes: usize,
    cgroup_turns: CgroupTurns,
    /// Threads of some process were taken before it, or as those of another one: their numbers are counted again.
    has_miscounted: bool,
}

impl KnownSnapshot {
    pub(super) fn bytes(&self) -> usize {
        let known = &self.snapshot;
        bytes_of(&known.cpus)
            + bytes_of(&known.processes)
            + bytes_of(&known.threads)
            + known.irqs.len() * IRQ_BYTES
            + known.cgroups.len() * CGROUP_BYTES
            + bytes_of(&self.threads_received)
            + bytes_of(&self.processes_received)
            + bytes_of(&self.exits_sent)
            + bytes_of(&self.fresh)
            + bytes_of(&self.emptied)
            + self.open_waits.bytes()
            + self.text_bytes
            + self.delay_bytes
    }

    /// Adds the bytes of new texts. The sum still has the texts of ended processes: counting again walks over all processes, so it waits
    /// until the sum has more than doubled.
    pub(super) fn add_texts(&mut self, bytes: usize) {
        self.text_bytes += bytes;
        if self.text_bytes <= 2 * self.counted_text_bytes + FEW_TEXT_BYTES {
            return;
        }
        // Processes without received texts share one description.
        let nameless = ProcessInfo::default();
        let infos =
            self.snapshot.processes.iter().map(|process| &*process.info).filter(|info| **info != nameless);
        self.text_bytes = infos.map(bytes_of_info).fold(0, usize::saturating_add);
        self.counted_text_bytes = self.text_bytes;
    }

    /// Begins to watch with a first snapshot, in `limit` bytes in all. Returns the number of rows beyond the limit.
    pub(super) fn begin(&mut self, first: &Snapshot, limit: usize) -> u64 {
        self.snapshot.clear();
        self.threads_received.clear();
        self.processes_received.clear();
        self.open_waits.clear();
        self.lost_before = 0;
        self.watched_from_boot_ns = first.begin.boot_ns;
        self.has_all_delays = false;
        (self.text_bytes, self.counted_text_bytes) = (0, 0);
        self.cgroup_turns.clear();
        self.exits_sent.clear();
        // The next snapshot repeats these exits. They are older than the first snapshot, so none is charged.
        self.exits_sent.extend(first.exits.iter().map(|exit| exit.thread.key));
        self.take(first, limit)
    }

    /// Applies a snapshot: its rows replace the known ones, in `limit` bytes in all. Returns the number of rows beyond the limit.
    pub(super) fn take(&mut self, cur: &Snapshot, limit: usize) -> u64 {
        // A complete snapshot lists every live task, so it repairs what losses left behind.
        if cur.is_complete {
            self.forget_unlisted(cur);
        }
        self.forget_ended(cur);
        self.forget_gone(cur);
        // After forgetting, so that ended tasks make space for new ones below the limit.
        // Processes first: threads are counted with theirs.
        let mut over = self.take_processes(cur, limit);
        over += self.take_threads(cur, limit);
        if std::mem::take(&mut self.has_miscounted) {
            self.recount_threads();
        }
        let known = &mut self.snapshot;
        (known.host, known.boot, known.sequence) = (cur.host, cur.boot, cur.sequence);
        (known.source, known.fields) = (cur.source, cur.fields);
        known.irq_in_run_time = cur.irq_in_run_time;
        known.end = cur.end;
        // Births are judged against this: a task that began since the host is watched has not been counted yet.
        known.begin = cur.begin;
        known.begin.boot_ns = self.watched_from_boot_ns;
        known.exited_total = cur.exited_total;
        known.health = cur.health;
        (known.thread_count, known.process_count) = (cur.thread_count, cur.process_count);
        // Where the CPU rows are lost the known counters stay: they are cumulative, so the next ones bring
        // the sum.
        if !cur.cpus.is_empty() {
            known.cpus.clone_from(&cur.cpus);
        }
        known.cgroups.clone_from(&cur.cgroups);
        (known.pressure, known.cgroups_left_out) = (cur.pressure, cur.cgroups_left_out);
        take_irqs(&mut self.snapshot.irqs, &cur.irqs);
        self.has_all_delays |= cur.is_complete || !cur.fields.contains(Fields::HISTOGRAMS);
        let space = limit.saturating_sub(self.bytes() - self.delay_bytes);
        let (left_out, bytes) = take_delays(&mut self.snapshot, cur, space);
        self.delay_bytes = bytes;
        self.trim();
        over + left_out
    }

    /// Gives back memory that only few snapshots need.
    fn trim(&mut self) {
        trim_list(&mut self.snapshot.processes);
        trim_list(&mut self.snapshot.threads);
        trim_list(&mut self.threads_received);
        trim_list(&mut self.processes_received);
        trim_list(&mut self.exits_sent);
        free(&mut self.fresh);
        free(&mut self.emptied);
    }

    fn forget_unlisted(&mut self, cur: &Snapshot) {
        let mut is_listed = Finder::new(&cur.threads, |thread| thread.key);
        self.retain_threads(|thread, _| is_listed.has(&thread.key));
        let mut is_listed = Finder::new(&cur.processes, |process| process.key);
        self.retain_processes(|process, _| is_listed.has(&process.key));
    }

    fn forget_ended(&mut self, cur: &Snapshot) {
        if cur.exits.is_empty() {
            return;
        }
        let mut has_ended = Finder::new(&cur.exits, |exit| exit.thread.key);
        self.retain_threads(|thread, _| !has_ended.has(&thread.key));
        let mut processes: Vec<ProcessKey> =
            cur.exits.iter().filter(|exit| exit.ends_process).map(|exit| exit.thread.process).collect();
        if !processes.is_empty() {
            // Exits ascend by thread. Sorted by process each search takes few steps, however many ended at once.
            processes.sort_unstable();
            let mut has_ended = Finder::new(&processes, |key| *key);
            self.retain_processes(|process, _| !has_ended.has(&process.key));
        }
    }

    /// Marks the processes whose last thread ended without a record: they ended too.
    pub(super) fn end_emptied(&mut self, cur: &Snapshot, interval: &mut Interval) {
        self.emptied.clear();
        if cur.gone.is_empty() {
            return;
        }
        let threads = &self.snapshot.threads;
        let mut is_gone = Finder::new(&cur.gone, |key| *key);
        self.emptied.extend(threads.iter().filter(|row| is_gone.has(&row.key)).map(|row| row.process));
        self.emptied.sort_unstable();
        self.emptied.dedup();
        // A thread that is new in this snapshot keeps its process alive as well.
        let mut is_gone = Finder::new(&cur.gone, |key| *key);
        let alive = threads.iter().filter(|row| !is_gone.has(&row.key)).chain(&cur.threads);
        // Memory that is free at this point: 1 for each of these processes that lives.
        let lives = &mut self.fresh;
        lives.clear();
        lives.resize(self.emptied.len(), 0);
        let mut last = None;
        for thread in alive {
            // Neighbours often share a process.
            if last != Some(thread.process)
                && let Ok(at) = self.emptied.binary_search(&thread.process)
            {
                lives[at] = 1;
            }
            last = Some(thread.process);
        }
        let mut lives = lives.iter();
        self.emptied.retain(|_| lives.next() != Some(&1));
        let mut at = 0;
        for key in &self.emptied {
            at = gallop(&interval.processes, at, key, |row| row.key);
            if let Some(row) = interval.processes.get_mut(at).filter(|row| row.key == *key) {
                row.life = Life::Ended;
            }
        }
    }

    /// Forgets threads that ended without a record, and the processes that have none left.
    fn forget_gone(&mut self, cur: &Snapshot) {
        if cur.gone.is_empty() {
            return;
        }
        let mut is_gone = Finder::new(&cur.gone, |key| *key);
        self.retain_threads(|thread, _| !is_gone.has(&thread.key));
        // Taken out for the borrow and put back, so that its memory is used again.
        let emptied = std::mem::take(&mut self.emptied);
        let mut is_emptied = Finder::new(&emptied, |key| *key);
        self.retain_processes(|process, _| !is_emptied.has(&process.key));
        self.emptied = emptied;
    }

    /// Forgets tasks that were not received since snapshot `since`: their end was lost. Returns how many threads and processes; sums of exits are
    /// no processes.
    pub(super) fn forget_silent(&mut self, since: u64) -> (u64, u64) {
        let before = self.snapshot.threads.len();
        self.retain_threads(|_, received| received.sequence >= since);
        let threads = (before - self.snapshot.threads.len()) as u64;
        let mut processes = 0;
        self.retain_processes(|process, received| {
            let stays = received.sequence >= since;
            processes += u64::from(!stays && !is_sum(process));
            stays
        });
        if threads > 0 {
            // A forgotten thread that turns up again must not be charged a second time from its start.
            self.watched_from_boot_ns = self.snapshot.end.boot_ns;
            self.snapshot.begin.boot_ns = self.watched_from_boot_ns;
        }
        (threads, processes)
    }

    fn recount_threads(&mut self) {
        for received in &mut self.processes_received {
            received.threads = 0;
        }
        let mut at = usize::MAX;
        for thread in &self.snapshot.threads {
            if let Some(place) = place_of(&self.snapshot.processes, thread.process, &mut at, |row| row.key) {
                let received = &mut self.processes_received[place];
                received.threads = received.threads.saturating_add(1);
            }
        }
    }

    fn retain_threads(&mut self, mut keep: impl FnMut(&ThreadSample, Received) -> bool) {
        let open_waits = &mut self.open_waits;
        let Snapshot { threads, processes, .. } = &mut self.snapshot;
        let processes_received = &mut self.processes_received;
        let mut at = usize::MAX;
        retain_both(threads, &mut self.threads_received, |thread, received| {
            let stays = keep(thread, received);
            if !stays {
                open_waits.leave(thread.process, thread.sched.open_wait, received.place);
                if let Some(place) = place_of(processes, thread.process, &mut at, |row| row.key) {
                    let received = &mut processes_received[place];
                    received.threads = received.threads.saturating_sub(1);
                }
            }
            stays
        });
    }

    fn retain_processes(&mut self, keep: impl FnMut(&ProcessSample, Received) -> bool) {
        retain_both(&mut self.snapshot.processes, &mut self.processes_received, keep);
    }

    fn take_threads(&mut self, cur: &Snapshot, limit: usize) -> u64 {
        let space = limit.saturating_sub(self.bytes());
        let (known, received) = (&mut self.snapshot.threads, &mut self.threads_received);
        self.fresh.clear();
        let mut at = 0;
        for (index, thread) in cur.threads.iter().enumerate() {
            at = gallop(known, at, &thread.key, |row| row.key);
            match known.get_mut(at).filter(|known| known.key == thread.key) {
                Some(known) => {
                    let Received { lacks_waits, mut place, .. } = received[at];
                    let (before, now) = (known.sched.open_wait, thread.sched.open_wait);
                    // Most threads that ran wait for the same again.
                    if (known.process, before) != (thread.process, now) {
                        self.open_waits.leave(known.process, before, place);
                        self.open_waits.join(thread.process, now, &mut place);
                    }
                    self.has_miscounted |= known.process != thread.process;
                    *known = *thread;
                    received[at] = Received { lacks_waits, place, ..Received::of(cur) };
                }
                None => self.fresh.push(index),
            }
        }
        // Known threads are updated whatever the limit is: it keeps only new ones out.
        let space = rows_in(space, known, OpenWaits::MOST_BYTES_A_THREAD);
        let over = self.fresh.len().saturating_sub(space);
        self.fresh.truncate(space);
        let mut at = usize::MAX;
        for thread in self.fresh.iter().filter_map(|&index| cur.threads.get(index)) {
            self.open_waits.join(thread.process, thread.sched.open_wait, &mut WaitPlace::default());
            if let Some(place) = place_of(&self.snapshot.processes, thread.process, &mut at, |row| row.key) {
                let received = &mut self.processes_received[place];
                received.threads = received.threads.saturating_add(1);
            }
        }
        let fresh = self.fresh.iter().rev().filter_map(|&index| cur.threads.get(index).copied());
        insert(known, received, self.fresh.len(), fresh, Received::of(cur), |row| row.key);
        over as u64
    }

    fn take_processes(&mut self, cur: &Snapshot, limit: usize) -> u64 {
        let space = limit.saturating_sub(self.bytes());
        let (known, received) = (&mut self.snapshot.processes, &mut self.processes_received);
        self.fresh.clear();
        let mut at = 0;
        for (index, process) in cur.processes.iter().enumerate() {
            at = gallop(known, at, &process.key, |row| row.key);
            match known.get_mut(at).filter(|known| known.key == process.key) {
                Some(known) => {
                    known.clone_from(process);
                    received[at] = Received { threads: received[at].threads, ..Received::of(cur) };
                }
                None => self.fresh.push(index),
            }
        }
        let space = rows_in(space, known, 0);
        let over = self.fresh.len().saturating_sub(space);
        self.fresh.truncate(space);
        let last_ns = self.snapshot.end.boot_ns;
        let fresh = || self.fresh.iter().rev().filter_map(|&index| cur.processes.get(index));
        self.has_miscounted |= fresh().any(|process| process.key.start_ns < last_ns);
        let fresh = fresh().cloned();
        insert(known, received, self.fresh.len(), fresh, Received::of(cur), |row| row.key);
        over as u64
    }
}

/// Without a process id, but with a start, it is a sum of exits and no process.
fn is_sum(process: &ProcessSample) -> bool {
    process.key.pid == 0 && process.key.start_ns != 0
}

/// Number of rows that fit into the free capacity of the list and into `bytes`. Each row takes `elsewhere` bytes outside its two lists.
fn rows_in<T>(bytes: usize, list: &Vec<T>, elsewhere: usize) -> usize {
    list.capacity() - list.len() + bytes / (size_of::<T>() + size_of::<Received>() + elsewhere)
}

fn take_irqs(known: &mut Vec<IrqSample>, sent: &[IrqSample]) {
    for irq in sent {
        match known.binary_search_by_key(&irq.irq, |known| known.irq) {
            Ok(at) => known[at].clone_from(irq),
            // Bounded, because a hostile sender could name new lines for ever.
            Err(at) if known.len() < MAX_IRQS => known.insert(at, irq.clone()),
            Err(_) => {}
        }
    }
}

/// The last snapshot that had a task.
#[derive(Copy, Clone, Debug, Default)]
struct Received {
    sequence: u64,
    /// Its end on the device's monotonic clock, ns.
    end_ns: u64,
    /// For a thread: rows with its waits may be lost. Its next row with a name has all waits.
    lacks_waits: bool,
    /// For a waiting thread: its place among the open waits.
    place: WaitPlace,
    /// For a process: the number of its known threads.
    threads: u32,
}

impl Received {
    fn of(snapshot: &Snapshot) -> Self {
        Self { sequence: snapshot.sequence, end_ns: snapshot.end.mono_ns, ..Self::default() }
    }
}

/// Inserts `count` rows, given in descending order, into an ascending list and stamps them. What lies behind them moves;
/// new tasks mostly have the highest numbers, so that is little.
fn insert<T: Default, K: Ord>(
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

/// Keeps the rows that `keep` picks, and their stamps.
fn retain_both<T>(
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
