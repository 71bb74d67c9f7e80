//! [`Gather`]: the datagrams of one snapshot while they come in. Datagrams of two snapshots may overlap on the way, so a host gathers
//! more than one at a time. [`Work`]: what a host uses for that: limits, memory that all hosts share, and where its intervals go.

use std::sync::Arc;

use cpumon_model::{
    CpuSample, DELAY_BUCKET_BYTES, DelayHistogram, DelayOf, Delays, ExitSample, HISTOGRAM_BYTES, HostInfo,
    HostStatus, INFO_BYTES, Interval, IrqSample, MAX_CGROUPS, ProcessInfo, ProcessInterval, ProcessKey,
    ProcessSample, Snapshot, ThreadKey, ThreadSample, WaitBuffers, WaitFor, sort_rows, trim_list,
};
use cpumon_wire::v2::{DelayRow, Frame, Header, InfoText, IrqRow};

use super::budget::{DemuxOptions, IntervalOutput, grow};
use super::sparse::{CGROUP_BYTES, cgroup_sample};

/// An agent has up to 1,024 lines, and each CPU's own interrupts, such as the local timer, behind them.
pub(super) const MAX_IRQS: usize = 1_024 + 16;
const MAX_IRQ_NAME_BYTES: usize = 64;
/// Memory of an interrupt line with its name, bytes.
pub(super) const IRQ_BYTES: usize = size_of::<IrqSample>() + MAX_IRQ_NAME_BYTES + 32;
/// A row counts as at least this many bytes: a short row takes as much time as a long one.
const MIN_ROW_BYTES: usize = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Fragments {
    bits: Vec<u64>,
    count: u16,
    arrived: u16,
}

impl Fragments {
    fn reset(&mut self, count: u16) {
        self.bits.clear();
        self.bits.resize(usize::from(count).div_ceil(64), 0);
        (self.count, self.arrived) = (count, 0);
    }

    /// Marks a fragment; false if it is there already or cannot be.
    fn mark(&mut self, fragment: u16) -> bool {
        let bit = 1 << (fragment % 64);
        match self.bits.get_mut(usize::from(fragment / 64)) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.arrived += 1;
                true
            }
            _ => false,
        }
    }

    pub(super) fn has(&self, fragment: u16) -> bool {
        self.bits.get(usize::from(fragment / 64)).is_some_and(|word| word & 1 << (fragment % 64) != 0)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.arrived == self.count
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    /// This fragment arrived before; its rows were not added again.
    Duplicate,
    /// It says another number of fragments than those before.
    Inconsistent,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Gather {
    pub(super) fragments: Fragments,
    pub(super) header: Header,
    /// Rows that arrived. Names that were not sent come from the last known snapshot.
    pub(super) snapshot: Snapshot,
    pub(super) has_totals: bool,
    delays: Vec<DelayRow>,
    /// Owners whose histogram is sent whole, ascending.
    pub(super) whole_delays: Vec<DelayOf>,
    /// Control groups that ended, ascending.
    pub(super) ended_cgroups: Vec<u64>,
    pub(super) host: Option<HostInfo>,
    /// When its first fragment came, on the receiver's monotonic clock, ns.
    pub(super) first_mono_ns: u64,
    /// Rows of tasks, CPUs, lines and control groups that were left out.
    pub(super) rows_over_limit: u64,
    /// Rows of waits that were left out. They do not make the snapshot incomplete: no task is known by them.
    pub(super) waits_over_limit: u64,
    /// Memory that its rows and texts are charged with, bytes; of these, texts that were not known.
    pub(super) bytes: usize,
    pub(super) text_bytes: usize,
}

/// Bytes that a host may still hold: of rows and texts of a snapshot that comes in, and of texts.
#[derive(Copy, Clone, Debug)]
pub(super) struct Space {
    pub(super) bytes: usize,
    pub(super) text_bytes: usize,
}

impl Space {
    /// Takes `rows` rows of `each` bytes, as many as fit. Returns their number; they count from now on.
    fn take(&mut self, rows: usize, each: usize) -> usize {
        // Lists have up to an eighth more space than rows.
        let each = each.max(MIN_ROW_BYTES) * 9 / 8;
        let fits = rows.min(self.bytes / each);
        self.bytes -= fits * each;
        fits
    }
}

impl Gather {
    /// Begins with the header of the first fragment that came.
    pub(super) fn begin(&mut self, header: &Header, mono_ns: u64) {
        self.fragments.reset(header.fragment_count);
        self.header = *header;
        self.has_totals = false;
        self.delays.clear();
        self.whole_delays.clear();
        self.ended_cgroups.clear();
        self.host = None;
        self.first_mono_ns = mono_ns;
        (self.rows_over_limit, self.waits_over_limit) = (0, 0);
        (self.bytes, self.text_bytes) = (0, 0);
        let snapshot = &mut self.snapshot;
        snapshot.clear();
        (snapshot.host, snapshot.boot) = (header.host, header.boot);
        snapshot.sequence = header.sequence;
        snapshot.source = header.source;
        snapshot.fields = header.fields;
        snapshot.irq_in_run_time = header.irq_in_run_time;
        // The start comes with the totals: without them the snapshot has no length.
        (snapshot.begin, snapshot.end) = (header.end, header.end);
    }

    /// Gives back texts, and memory that only few snapshots need.
    pub(super) fn trim(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.clear();
        trim_list(&mut snapshot.cpus);
        trim_list(&mut snapshot.threads);
        trim_list(&mut snapshot.processes);
        trim_list(&mut snapshot.exits);
        trim_list(&mut snapshot.gone);
        trim_list(&mut snapshot.delays);
        free(&mut self.delays);
        free(&mut self.whole_delays);
        self.ended_cgroups.clear();
    }

    /// Takes a frame's rows, as many as there is space for. `known` is the host's last known snapshot.
    pub(super) fn add(
        &mut self,
        frame: &mut Frame,
        known: &Snapshot,
        nameless: &Arc<ProcessInfo>,
        space: Space,
    ) -> Added {
        let header = frame.header;
        // Fragments of one snapshot agree on these: others would mix the counters of two moments.
        if header.fragment_count != self.header.fragment_count || header.end != self.header.end {
            return Added::Inconsistent;
        }
        // Before any row is taken: a fragment that comes twice must not add its rows twice.
        if !self.fragments.mark(header.fragment) {
            return Added::Duplicate;
        }
        if let Some(host) = frame.host.take() {
            self.host = Some(host);
        }
        if let Some(totals) = &frame.totals {
            self.has_totals = true;
            let snapshot = &mut self.snapshot;
            snapshot.begin = totals.begin;
            snapshot.exited_total = totals.exited_total;
            snapshot.health = totals.health;
            (snapshot.pressure, snapshot.cgroups_left_out) = (totals.pressure, totals.cgroups_left_out);
            snapshot.thread_count = totals.thread_count;
            snapshot.process_count = totals.process_count;
        }
        let mut left = space;
        self.add_rows(frame, &mut left, known);
        self.add_cgroups(frame, &mut left, known);
        let mut texts = Texts { frame, known, nameless, space: &mut left, over: 0 };
        self.add_processes(&mut texts);
        self.add_exits(&mut texts);
        self.rows_over_limit += texts.over;
        // Last: waits get the space that tasks leave.
        self.add_waits_for(frame, &mut left);
        self.bytes += space.bytes - left.bytes;
        self.text_bytes += space.text_bytes - left.text_bytes;
        Added::New
    }

    /// Adds all rows of a frame, but not the texts of processes.
    fn add_rows(&mut self, frame: &Frame, space: &mut Space, known: &Snapshot) {
        let (snapshot, over) = (&mut self.snapshot, &mut self.rows_over_limit);
        let mut fitting = |rows: usize, each: usize| {
            let fits = space.take(rows, each);
            *over += (rows - fits) as u64;
            fits
        };
        let fits = fitting(frame.cpus.len(), size_of::<CpuSample>());
        grow(&mut snapshot.cpus, fits);
        snapshot.cpus.extend(frame.cpus.iter().take(fits));
        let fits = fitting(frame.threads.len(), size_of::<ThreadSample>());
        grow(&mut snapshot.threads, fits);
        snapshot.threads.extend(frame.threads.iter().take(fits).map(|row| row.sample));
        let fits = fitting(frame.gone.len(), size_of::<ThreadKey>());
        grow(&mut snapshot.gone, fits);
        snapshot.gone.extend(frame.gone.iter().take(fits).map(|gone| gone.1));
        let lines = frame.irqs.len().min(MAX_IRQS.saturating_sub(snapshot.irqs.len()));
        let fits = fitting(lines, IRQ_BYTES);
        *over += (frame.irqs.len() - lines) as u64;
        snapshot.irqs.extend(frame.irqs.iter().take(fits).map(|row| irq(frame, row, known)));
        let mut of = None;
        for row in &frame.delays {
            // Its place among the rows, and in a histogram that is merged into a known one.
            let own = if of == Some(row.of) { 0 } else { 2 * (size_of::<Delays>() + HISTOGRAM_BYTES) };
            of = Some(row.of);
            if space.take(1, size_of::<DelayRow>() + 2 * DELAY_BUCKET_BYTES + own) == 0 {
                *over += 1;
                continue;
            }
            grow(&mut self.delays, 1);
            self.delays.push(*row);
        }
    }

    /// Takes control groups, as many as a host has, and as many that ended; how many did not fit counts as over the limit.
    fn add_cgroups(&mut self, frame: &Frame, space: &mut Space, known: &Snapshot) {
        for row in &frame.cgroups {
            let taken = if row.has_ended { self.ended_cgroups.len() } else { self.snapshot.cgroups.len() };
            if taken >= MAX_CGROUPS || space.take(1, CGROUP_BYTES) == 0 {
                self.rows_over_limit += 1;
            } else if row.has_ended {
                self.ended_cgroups.push(row.id);
            } else {
                self.snapshot.cgroups.extend(cgroup_sample(frame, row, known));
            }
        }
    }

    /// Takes waits by who ended them, as many as an interval has.
    fn add_waits_for(&mut self, frame: &Frame, space: &mut Space) {
        let (rows, waits_for) = (&frame.waits_for, &mut self.snapshot.waits_for);
        let free = WaitFor::MAX_ROWS.saturating_sub(waits_for.len());
        let fits = space.take(rows.len().min(free), size_of::<WaitFor>());
        waits_for.extend(rows.iter().take(fits));
        self.waits_over_limit += (rows.len() - fits) as u64;
    }

    fn add_processes(&mut self, texts: &mut Texts<'_>) {
        let rows = &texts.frame.processes;
        let fits = texts.space.take(rows.len(), size_of::<ProcessSample>());
        texts.over += (rows.len() - fits) as u64;
        grow(&mut self.snapshot.processes, fits);
        for row in rows.iter().take(fits) {
            self.snapshot.processes.push(ProcessSample {
                key: row.key,
                parent_pid: row.parent_pid,
                info: texts.shared(row.info.as_ref(), row.key),
                ended_threads: row.ended_threads,
            });
        }
    }

    fn add_exits(&mut self, texts: &mut Texts<'_>) {
        let rows = &texts.frame.exits;
        let fits = texts.space.take(rows.len(), size_of::<ExitSample>() + size_of::<ThreadKey>());
        texts.over += (rows.len() - fits) as u64;
        grow(&mut self.snapshot.exits, fits);
        for row in rows.iter().take(fits) {
            self.snapshot.exits.push(ExitSample {
                thread: row.thread,
                parent_pid: row.parent_pid,
                info: texts.shared(row.info.as_ref(), row.thread.process),
                end_ns: row.end_ns,
                ends_process: row.ends_process,
            });
        }
    }

    /// Sorts the rows and drops doubles, which only a broken or hostile sender makes.
    pub(super) fn tidy(&mut self) {
        let snapshot = &mut self.snapshot;
        // Fragments arrive in any order, and everything behind this searches by ascending keys.
        snapshot.cpus.sort_unstable_by_key(|cpu| cpu.cpu);
        snapshot.cpus.dedup_by_key(|cpu| cpu.cpu);
        sort_rows(&mut snapshot.threads, |thread| thread.key);
        snapshot.threads.dedup_by_key(|thread| thread.key);
        sort_rows(&mut snapshot.processes, |process| process.key);
        snapshot.processes.dedup_by_key(|process| process.key);
        sort_rows(&mut snapshot.exits, |exit| exit.thread.key);
        snapshot.exits.dedup_by_key(|exit| exit.thread.key);
        snapshot.gone.sort_unstable();
        snapshot.gone.dedup();
        snapshot.irqs.sort_by_key(|irq| irq.irq);
        snapshot.irqs.dedup_by_key(|irq| irq.irq);
        snapshot.cgroups.sort_by_key(|row| row.id);
        snapshot.cgroups.dedup_by_key(|row| row.id);
        WaitFor::tidy(&mut snapshot.waits_for, WaitFor::MAX_ROWS);
        self.ended_cgroups.sort_unstable();
        self.tidy_delays();
    }

    /// Makes histograms of the buckets. Where fragments are missing none is whole.
    fn tidy_delays(&mut self) {
        self.delays.sort_by_key(|row| (row.of, row.bucket));
        self.delays.dedup_by_key(|row| (row.of, row.bucket));
        for rows in self.delays.chunk_by(|a, b| a.of == b.of) {
            let Some(first) = rows.first() else { continue };
            let histogram: DelayHistogram = rows.iter().map(|row| (row.bucket, row.count)).collect();
            self.snapshot.delays.push(Delays { of: first.of, histogram: Arc::new(histogram) });
            if self.fragments.is_complete() && rows.iter().all(|row| row.is_whole) {
                self.whole_delays.push(first.of);
            }
        }
    }
}

/// Empties a list, and gives its memory back if it is much.
pub(super) fn free<T>(list: &mut Vec<T>) {
    list.clear();
    trim_list(list);
}

/// Converts an interrupt line. It shares the name of the known line if the names are equal or none was sent.
fn irq(frame: &Frame, row: &IrqRow, known: &Snapshot) -> IrqSample {
    let before =
        known.irqs.binary_search_by_key(&row.irq, |irq| irq.irq).ok().and_then(|at| known.irqs.get(at));
    let name = match (before, frame.irq_name(row)) {
        (Some(before), sent) if sent.is_none_or(|sent| *before.name == *sent) => Arc::clone(&before.name),
        (_, sent) => {
            let sent = sent.unwrap_or_default();
            // Cut and not refused: the name is for people only, and the sender chooses its length.
            Arc::from(&sent[..sent.floor_char_boundary(MAX_IRQ_NAME_BYTES)])
        }
    };
    IrqSample { irq: row.irq, name, time_ns: row.time_ns, count: row.count }
}

fn find(known: &Snapshot, key: ProcessKey) -> Option<&ProcessSample> {
    let at = known.processes.binary_search_by_key(&key, |process| process.key).ok()?;
    known.processes.get(at)
}

/// Resolves the texts of a frame to shared ones, within the memory limits.
struct Texts<'a> {
    frame: &'a Frame,
    known: &'a Snapshot,
    /// What a process is called whose info was not sent.
    nameless: &'a Arc<ProcessInfo>,
    space: &'a mut Space,
    over: u64,
}

impl Texts<'_> {
    /// Resolves a sent info. Returns the known info if the two are equal, if none was sent, or if there is no space for another
    /// one. Each rotation repeats all names, and most did not change.
    fn shared(&mut self, sent: Option<&InfoText>, key: ProcessKey) -> Arc<ProcessInfo> {
        let known = find(self.known, key).map_or(self.nameless, |process| &process.info);
        let Some(sent) = sent.filter(|sent| !self.frame.is_info(sent, known)) else {
            return Arc::clone(known);
        };
        // Before the texts are copied: rows of a few bits may each have the same long ones.
        let bytes = INFO_BYTES + self.frame.info_bytes(sent);
        // The process stays, under the name that is known: its CPU time counts, only the text is left out.
        if bytes > self.space.bytes.min(self.space.text_bytes) {
            self.over += 1;
            return Arc::clone(known);
        }
        self.space.bytes -= bytes;
        self.space.text_bytes -= bytes;
        Arc::new(self.frame.info(sent))
    }
}

/// Snapshots that are kept for use by whichever host begins the next one.
const MAX_SPARE: usize = 4;

/// Memory that all hosts use in turn.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) interval: Interval,
    pub(super) processes: Vec<ProcessInterval>,
    pub(super) waits: WaitBuffers,
    pub(super) spare: Vec<Gather>,
    /// Names of hosts that were the id of another one.
    pub(super) changed_names: u64,
}

/// For one frame, or one flush, of one host.
pub(super) struct Work<'a> {
    pub(super) options: &'a DemuxOptions,
    /// Bytes that the host may hold.
    pub(super) limit: usize,
    pub(super) scratch: &'a mut Scratch,
    pub(super) out: IntervalOutput<'a>,
}

impl Work<'_> {
    /// Hands over the finished interval, and gives back memory that only few intervals need.
    pub(super) fn give_out(&mut self, status: &HostStatus) {
        let interval = &mut self.scratch.interval;
        (self.out)(status, interval);
        free(&mut interval.cpus);
        free(&mut interval.processes);
        free(&mut self.scratch.processes);
        free(&mut interval.threads);
        interval.resting = None;
        interval.idle_processes = None;
        interval.corrects_lists = false;
        free(&mut interval.irqs);
        free(&mut interval.delays);
        free(&mut interval.cgroups);
        free(&mut interval.waits_for);
    }

    /// Keeps the memory of a finished snapshot for the next one.
    pub(super) fn recycle(&mut self, mut gather: Gather) {
        // Cleared now and not at its next use: until then it would hold texts of its host.
        gather.trim();
        if self.scratch.spare.len() < MAX_SPARE {
            self.scratch.spare.push(gather);
        }
    }
}
