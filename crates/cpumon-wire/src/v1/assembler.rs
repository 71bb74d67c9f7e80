//! [`Assembler`]: puts the datagrams of one v1 sender together, one [`Interval`] per set, on the receiver's
//! clock. v1 sends each process by itself, and the marker that ends a set may be lost. The devices' clocks
//! are not trusted: the original's showed 2003.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, HostId, Interval, Moment, ProcessInfo, ProcessInterval, ProcessKey, SourceKind,
    ThreadInterval, ThreadKey, trim_list,
};

use super::sets::MAX_NAME_BYTES;
use super::{Datagram, ProcessDatagram, ThreadEntry};

/// Memory of a process beside its row and its name, bytes: its shared description, and its places in tables by id and name.
const PROCESS_INFO_BYTES: usize = size_of::<ProcessInfo>() + 192;

/// Limits of what an assembler keeps of one set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AssemblerLimits {
    /// Most processes of a set; further ones are counted and left out.
    pub max_processes: usize,
    /// Most threads of a set; further ones are counted and left out, their process's time stays.
    pub max_threads: usize,
    /// A set whose end marker does not come is given out this long after its last datagram, ns.
    pub flush_timeout_ns: u64,
}

impl Default for AssemblerLimits {
    fn default() -> Self {
        Self { max_processes: 4_096, max_threads: 32_768, flush_timeout_ns: 2_000_000_000 }
    }
}

/// What happened to the datagrams of one sender, cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Sets that were given out as intervals.
    pub sets: u64,
    /// Of these, sets without an end marker: a new time stamp or the timeout ended them.
    pub sets_without_end: u64,
    /// Datagrams that came twice.
    pub duplicates: u64,
    /// Datagrams that came after their set had been given out; left out.
    pub late: u64,
    /// Processes left out because the set was full.
    pub processes_over_limit: u64,
    /// Threads left out because the set was full.
    pub threads_over_limit: u64,
}

/// The set that is being filled.
#[derive(Debug)]
struct Pending {
    ticks: i64,
    first: Moment,
    last_mono_ns: u64,
    duration_ms: u32,
}

/// The set given out last, to know a straggler.
#[derive(Debug)]
struct Emitted {
    ticks: i64,
    straggler_until_mono_ns: u64,
}

/// Puts the datagrams of one v1 sender together.
///
/// Keys: `(pid, 0)` and `(tid, 0)`, as v1 has no start times. Where one set uses a number twice (another name under a
/// process id, another process for a thread id) the further ones get 1, 2, … instead of 0, so that rows stay apart.
#[derive(Debug)]
pub struct Assembler {
    limits: AssemblerLimits,
    interval: Interval,
    pending: Option<Pending>,
    emitted: Option<Emitted>,
    /// Number of processes in this set by process id.
    names_of_pid: HashMap<u32, u32>,
    /// Places of this set's processes by id and the digest of their name: a sender may split one into many datagrams.
    places: HashMap<(u32, u64), usize>,
    /// Digests of this set's datagrams.
    seen: HashSet<u64>,
    /// Infos of the previous set, which this set shares.
    infos: HashMap<u32, Arc<ProcessInfo>>,
    /// Memory of the rows and names of this set, and of the infos of the last one, bytes.
    bytes: usize,
    info_bytes: usize,
    max_bytes: usize,
    counts: SetCounts,
}

impl Assembler {
    /// For the datagrams of one sender, whose intervals get the id `host`.
    pub fn new(host: HostId, limits: AssemblerLimits) -> Self {
        let interval = Interval {
            host,
            source: SourceKind::V1,
            fields: Fields::USER | Fields::SYSTEM | Fields::RUN,
            ..Interval::default()
        };
        Self {
            limits,
            interval,
            pending: None,
            emitted: None,
            names_of_pid: HashMap::new(),
            places: HashMap::new(),
            seen: HashSet::new(),
            infos: HashMap::new(),
            bytes: 0,
            info_bytes: 0,
            max_bytes: usize::MAX,
            counts: SetCounts::default(),
        }
    }

    /// Memory of the assembler, bytes.
    pub fn held(&self) -> usize {
        self.bytes + self.info_bytes
    }

    /// Limits its memory from now on, bytes; processes and threads beyond the limit are counted and left out.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.max_bytes = bytes;
    }

    /// Frees the process infos that consecutive sets share. For a sender that is silent.
    pub fn forget_infos(&mut self) {
        self.infos = HashMap::new();
        self.info_bytes = 0;
    }

    /// Number of further rows of `row_bytes` bytes that it may hold.
    fn space_for(&self, row_bytes: usize) -> usize {
        self.max_bytes.saturating_sub(self.held()) / row_bytes
    }

    /// Counts of all sets so far.
    pub fn counts(&self) -> SetCounts {
        self.counts
    }

    /// Takes one datagram; gives out a set that it completes.
    pub fn accept(&mut self, datagram: &Datagram, received: Moment, out: &mut dyn FnMut(&Interval)) {
        match datagram {
            Datagram::EndOfTransfer => self.emit(out),
            Datagram::Process(process) => self.process(process, received, out),
        }
    }

    /// Gives out a set that has been waiting for its end for too long.
    pub fn flush(&mut self, now: Moment, out: &mut dyn FnMut(&Interval)) {
        let waited = |set: &Pending| now.mono_ns.saturating_sub(set.last_mono_ns);
        if self.pending.as_ref().is_some_and(|set| waited(set) >= self.limits.flush_timeout_ns) {
            self.counts.sets_without_end += 1;
            self.emit(out);
        }
    }

    fn process(&mut self, process: &ProcessDatagram, received: Moment, out: &mut dyn FnMut(&Interval)) {
        if self.is_straggler(process, received) {
            self.counts.late += 1;
            return;
        }
        // The end marker is a datagram of its own and may be lost; a datagram with another stamp then begins
        // the next set.
        if self.pending.as_ref().is_some_and(|set| set.ticks != process.timestamp_ticks) {
            self.counts.sets_without_end += 1;
            self.emit(out);
        }
        let set = self.pending.get_or_insert(Pending {
            ticks: process.timestamp_ticks,
            first: received,
            last_mono_ns: received.mono_ns,
            duration_ms: 0,
        });
        set.last_mono_ns = received.mono_ns;
        set.duration_ms = set.duration_ms.max(process.duration_ms);
        let mut digest = DefaultHasher::new();
        process.hash(&mut digest);
        // UDP may deliver a datagram twice, and its times would be added twice. The digests have the limit of
        // the processes, so a sender cannot make this set grow without end.
        if self.seen.len() < self.limits.max_processes && !self.seen.insert(digest.finish()) {
            self.counts.duplicates += 1;
            return;
        }
        self.count_process(process);
    }

    /// Whether a datagram belongs to the set given out last. Only for a short while: a device's clock may stop.
    fn is_straggler(&self, process: &ProcessDatagram, received: Moment) -> bool {
        self.pending.is_none()
            && self.emitted.as_ref().is_some_and(|set| {
                set.ticks == process.timestamp_ticks && received.mono_ns < set.straggler_until_mono_ns
            })
    }

    /// Adds one process and its threads to the set.
    fn count_process(&mut self, process: &ProcessDatagram) {
        let Some(key) = self.row_of(process) else {
            self.counts.processes_over_limit += 1;
            self.counts.threads_over_limit += process.threads.len() as u64;
            return;
        };
        // Threads over the limit are only counted: the process's row has their time already.
        let space = self.limits.max_threads.saturating_sub(self.interval.threads.len());
        let kept = space.min(process.threads.len()).min(self.space_for(size_of::<ThreadInterval>()));
        self.bytes += kept * size_of::<ThreadInterval>();
        // The list grows by an eighth beyond the new rows: doubling would take twice the counted memory.
        if self.interval.threads.capacity() - self.interval.threads.len() < kept {
            self.interval.threads.reserve_exact(kept + self.interval.threads.len() / 8);
        }
        self.counts.threads_over_limit += (process.threads.len() - kept) as u64;
        self.interval
            .threads
            .extend(process.threads.iter().take(kept).map(|entry| thread_row(key, process, entry)));
    }

    /// The key of this datagram's process row, which is added or, if there already (a sender may split the threads of a
    /// process), gets the times added. `None` if the set is full.
    fn row_of(&mut self, process: &ProcessDatagram) -> Option<ProcessKey> {
        let (delta, flags) = delta_of(process.user_ms, process.kernel_ms);
        // Cut where our own senders cut it: the sender chooses its length, and the receiver keeps it.
        let name = &process.name[..process.name.floor_char_boundary(MAX_NAME_BYTES)];
        let mut digest = DefaultHasher::new();
        name.hash(&mut digest);
        let bytes = size_of::<ProcessInterval>() + PROCESS_INFO_BYTES + name.len();
        let has_space =
            self.interval.processes.len() < self.limits.max_processes && self.space_for(bytes) > 0;
        let place = match self.places.entry((process.process_id, digest.finish())) {
            Entry::Occupied(place) => {
                let row = self.interval.processes.get_mut(*place.get())?;
                row.delta += &delta;
                row.flags |= flags;
                return Some(row.key);
            }
            Entry::Vacant(_) if !has_space => return None,
            Entry::Vacant(place) => place,
        };
        place.insert(self.interval.processes.len());
        self.bytes += bytes;
        // v1 has no start times; the count of names takes their place, so two processes with one id stay two
        // rows.
        let names = self.names_of_pid.entry(process.process_id).or_insert(0);
        let key = ProcessKey { pid: process.process_id, start_ns: u64::from(*names) };
        *names += 1;
        let info = match self.infos.get(&key.pid) {
            Some(info) if *info.name == *name => Arc::clone(info),
            _ => Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        };
        self.interval.processes.push(ProcessInterval {
            key,
            info,
            flags,
            delta,
            ..ProcessInterval::default()
        });
        Some(key)
    }

    /// Gives out the pending set, if there is one.
    fn emit(&mut self, out: &mut dyn FnMut(&Interval)) {
        let Some(set) = self.pending.take() else { return };
        let interval = &mut self.interval;
        let duration_ns = u64::from(set.duration_ms) * 1_000_000;
        place(interval, set.first, duration_ns);
        interval.v1_ticks = Some(set.ticks);
        finish_rows(interval);
        out(interval);
        interval.sequence += 1;
        self.counts.sets += 1;
        self.emitted = Some(Emitted {
            ticks: set.ticks,
            // Half an interval and 1 s at most: a device whose clock has stopped sends its next set with the
            // same stamp.
            straggler_until_mono_ns: set.last_mono_ns.saturating_add((duration_ns / 2).min(1_000_000_000)),
        });
        // Only the infos of this set stay, so the map never has more entries than a set has processes.
        self.infos = interval.processes.iter().map(|row| (row.key.pid, Arc::clone(&row.info))).collect();
        self.info_bytes = self.infos.values().map(|info| PROCESS_INFO_BYTES + info.name.len()).sum();
        self.bytes = 0;
        interval.processes.clear();
        trim_list(&mut interval.processes);
        interval.threads.clear();
        trim_list(&mut interval.threads);
        // Replaced, because a cleared table keeps the memory of the largest set.
        self.names_of_pid = HashMap::new();
        self.places = HashMap::new();
        self.seen = HashSet::new();
    }
}

/// The set ends when its first datagram came and is as long as its datagrams say.
fn place(interval: &mut Interval, end: Moment, duration_ns: u64) {
    // A length that reaches back before the receiver's own clock began keeps its length.
    let end = Moment { mono_ns: end.mono_ns.max(duration_ns), boot_ns: end.boot_ns.max(duration_ns), ..end };
    interval.begin = Moment {
        mono_ns: end.mono_ns - duration_ns,
        boot_ns: end.boot_ns - duration_ns,
        wall_ns: end.wall_ns.saturating_sub_unsigned(duration_ns),
    };
    interval.end = end;
}

/// Sorts the rows, makes keys unique, and fills what sums them up.
fn finish_rows(interval: &mut Interval) {
    interval.processes.sort_by_key(|row| row.key);
    interval.threads.sort_by_key(|row| (row.key.tid, row.process));
    let mut previous: Option<ThreadKey> = None;
    for row in &mut interval.threads {
        // One set may list a thread id under two processes. Keys of an interval are unique, so the later ones
        // count up.
        if let Some(before) = previous.filter(|before| before.tid == row.key.tid) {
            row.key.start_ns = before.start_ns + 1;
        }
        previous = Some(row.key);
        if let Ok(at) = interval.processes.binary_search_by_key(&row.process, |process| process.key) {
            interval.processes[at].thread_rows += 1;
            interval.processes[at].flags |= row.flags;
        }
    }
    // A sender may claim any times: a wrapped sum would be wrong and plausible, a saturated one is visible.
    let run_ns = interval.processes.iter().fold(0_i64, |sum, row| sum.saturating_add(row.delta.run_ns));
    interval.ledger.threads_ns = run_ns;
    interval.process_count = u32::try_from(interval.processes.len()).unwrap_or(u32::MAX);
    interval.thread_count = u32::try_from(interval.threads.len()).unwrap_or(u32::MAX);
    interval.flags = interval.processes.iter().fold(Flags::empty(), |flags, row| flags | row.flags);
}

fn thread_row(process: ProcessKey, datagram: &ProcessDatagram, entry: &ThreadEntry) -> ThreadInterval {
    let (delta, mut flags) = delta_of(entry.user_ms, entry.kernel_ms);
    // A thread runs on one CPU at a time and belongs to the process it is listed under.
    if delta.run_ns > i64::from(datagram.duration_ms) * 1_000_000
        || entry.owner_process_id != datagram.process_id
    {
        flags |= Flags::IMPOSSIBLE;
    }
    ThreadInterval {
        key: ThreadKey { tid: entry.thread_id, start_ns: 0 },
        process,
        flags,
        delta,
        ..ThreadInterval::default()
    }
}

/// Times in ms as a delta in ns. Negative or too large ones are kept as far as they fit, and flagged.
fn delta_of(user_ms: i64, kernel_ms: i64) -> (Delta, Flags) {
    const NS_PER_MS: i64 = 1_000_000;
    let (user, system) = (user_ms.checked_mul(NS_PER_MS), kernel_ms.checked_mul(NS_PER_MS));
    let user_ns = user.unwrap_or_else(|| user_ms.saturating_mul(NS_PER_MS));
    let system_ns = system.unwrap_or_else(|| kernel_ms.saturating_mul(NS_PER_MS));
    let run = user_ns.checked_add(system_ns);
    let fits = user.is_some() && system.is_some() && run.is_some();
    let delta = Delta {
        user_ns,
        system_ns,
        run_ns: run.unwrap_or_else(|| user_ns.saturating_add(system_ns)),
        ..Delta::default()
    };
    let flags = if fits && user_ms >= 0 && kernel_ms >= 0 { Flags::empty() } else { Flags::IMPOSSIBLE };
    (delta, flags)
}
