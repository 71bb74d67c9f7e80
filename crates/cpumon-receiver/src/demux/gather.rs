//! [`Gather`]: the datagrams of one snapshot while they come in. Datagrams of two snapshots may overlap on
//! the way, so a host gathers more than one at a time.

use std::sync::Arc;

use cpumon_model::{
    DelayHistogram, DelayOf, Delays, ExitSample, HostInfo, IrqSample, ProcessInfo, ProcessSample, Snapshot,
};

use cpumon_wire::v2::{DelayRow, Frame, Header, InfoText, IrqRow};

/// Most interrupt lines kept of a host.
pub(super) const MAX_IRQS: usize = 1_024;
/// Longest name of one, bytes.
const MAX_IRQ_NAME_BYTES: usize = 64;

/// Which fragments of a snapshot arrived.
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

    /// Whether this fragment arrived.
    pub(super) fn has(&self, fragment: u16) -> bool {
        self.bits.get(usize::from(fragment / 64)).is_some_and(|word| word & 1 << (fragment % 64) != 0)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.arrived == self.count
    }
}

/// What became of a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Its rows were added.
    New,
    /// This fragment arrived before; its rows were not added again.
    Duplicate,
    /// It says another number of fragments than those before.
    Inconsistent,
}

/// A snapshot that is coming in.
#[derive(Clone, Debug, Default)]
pub(super) struct Gather {
    pub(super) fragments: Fragments,
    pub(super) header: Header,
    /// What arrived; names that were not sent are taken from what is known.
    pub(super) snapshot: Snapshot,
    pub(super) has_totals: bool,
    /// Buckets of run-delay histograms.
    delays: Vec<DelayRow>,
    /// Owners whose histogram is sent whole, ascending.
    pub(super) whole_delays: Vec<DelayOf>,
    pub(super) host: Option<HostInfo>,
    /// When its first fragment came, on the receiver's monotonic clock, ns.
    pub(super) first_mono_ns: u64,
    /// Rows left out because of a limit.
    pub(super) rows_over_limit: u64,
}

impl Gather {
    /// Begins with the header of the first fragment that came.
    pub(super) fn begin(&mut self, header: &Header, mono_ns: u64) {
        self.fragments.reset(header.fragment_count);
        self.header = *header;
        self.has_totals = false;
        self.delays.clear();
        self.whole_delays.clear();
        self.host = None;
        self.first_mono_ns = mono_ns;
        self.rows_over_limit = 0;
        let snapshot = &mut self.snapshot;
        snapshot.clear();
        (snapshot.host, snapshot.boot) = (header.host, header.boot);
        snapshot.sequence = header.sequence;
        snapshot.source = header.source;
        snapshot.fields = header.fields;
        snapshot.irq_in_run_time = header.irq_in_run_time;
        // The begin comes with the totals: without them the snapshot has no length.
        (snapshot.begin, snapshot.end) = (header.end, header.end);
    }

    /// Takes a frame's rows. `known` is the host's last known snapshot, `limit` the most rows of a kind.
    pub(super) fn add(
        &mut self,
        frame: &mut Frame,
        known: &Snapshot,
        mut texts: Texts<'_>,
        limit: usize,
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
        let snapshot = &mut self.snapshot;
        if let Some(totals) = &frame.totals {
            self.has_totals = true;
            snapshot.begin = totals.begin;
            snapshot.exited_total = totals.exited_total;
            snapshot.health = totals.health;
            snapshot.thread_count = totals.thread_count;
            snapshot.process_count = totals.process_count;
        }
        // Every list is bounded by itself, because a hostile sender can fill any of them.
        let most = |list: usize| limit.saturating_sub(list);
        let over = |rows: usize, list: usize| rows.saturating_sub(most(list)) as u64;
        self.rows_over_limit += over(frame.cpus.len(), snapshot.cpus.len())
            + over(frame.threads.len(), snapshot.threads.len())
            + over(frame.processes.len(), snapshot.processes.len())
            + over(frame.exits.len(), snapshot.exits.len())
            + over(frame.gone.len(), snapshot.gone.len())
            + over(frame.delays.len(), self.delays.len())
            + (snapshot.irqs.len() + frame.irqs.len()).saturating_sub(MAX_IRQS) as u64;
        snapshot.cpus.extend(frame.cpus.iter().take(most(snapshot.cpus.len())));
        let space = most(snapshot.threads.len());
        snapshot.threads.extend(frame.threads.iter().take(space).map(|row| row.sample));
        let space = most(snapshot.processes.len());
        for row in frame.processes.iter().take(space) {
            // Names are repeated in each rotation: one that did not change is shared with the known one, not
            // copied.
            let before = find(known, row.key);
            snapshot.processes.push(ProcessSample {
                key: row.key,
                parent_pid: row.parent_pid,
                info: texts.shared(frame, row.info.as_ref(), before, &mut self.rows_over_limit),
                ended_threads: row.ended_threads,
            });
        }
        let space = most(snapshot.exits.len());
        for row in frame.exits.iter().take(space) {
            let before = find(known, row.thread.process);
            snapshot.exits.push(ExitSample {
                thread: row.thread,
                parent_pid: row.parent_pid,
                info: texts.shared(frame, row.info.as_ref(), before, &mut self.rows_over_limit),
                end_ns: row.end_ns,
                ends_process: row.ends_process,
            });
        }
        let space = most(snapshot.gone.len());
        snapshot.gone.extend(frame.gone.iter().take(space).map(|gone| gone.1));
        for row in frame.irqs.iter().take(MAX_IRQS.saturating_sub(snapshot.irqs.len())) {
            snapshot.irqs.push(irq(frame, row, known));
        }
        self.delays.extend(frame.delays.iter().take(most(self.delays.len())));
        Added::New
    }

    /// Sorts the rows and drops doubles, which only a broken or hostile sender makes.
    pub(super) fn tidy(&mut self) {
        let snapshot = &mut self.snapshot;
        // Fragments arrive in any order, and everything behind this searches by ascending keys.
        snapshot.cpus.sort_unstable_by_key(|cpu| cpu.cpu);
        snapshot.cpus.dedup_by_key(|cpu| cpu.cpu);
        snapshot.threads.sort_unstable_by_key(|thread| thread.key);
        snapshot.threads.dedup_by_key(|thread| thread.key);
        snapshot.processes.sort_unstable_by_key(|process| process.key);
        snapshot.processes.dedup_by_key(|process| process.key);
        snapshot.exits.sort_unstable_by_key(|exit| exit.thread.key);
        snapshot.exits.dedup_by_key(|exit| exit.thread.key);
        snapshot.gone.sort_unstable();
        snapshot.gone.dedup();
        snapshot.irqs.sort_by_key(|irq| irq.irq);
        snapshot.irqs.dedup_by_key(|irq| irq.irq);
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

/// An interrupt line; its name is shared with what is known if it is the same.
fn irq(frame: &Frame, row: &IrqRow, known: &Snapshot) -> IrqSample {
    let before =
        known.irqs.binary_search_by_key(&row.irq, |irq| irq.irq).ok().and_then(|at| known.irqs.get(at));
    let name = match (before, frame.irq_name(row)) {
        (Some(before), sent) if sent.as_deref().is_none_or(|sent| *before.name == *sent) => {
            Arc::clone(&before.name)
        }
        (_, sent) => {
            let sent = sent.unwrap_or_default();
            // Cut and not refused: the name is for people only, and the sender chooses its length.
            Arc::from(&sent[..sent.floor_char_boundary(MAX_IRQ_NAME_BYTES)])
        }
    };
    IrqSample { irq: row.irq, name, time_ns: row.time_ns, count: row.count }
}

/// The process as it is known.
fn find(known: &Snapshot, key: cpumon_model::ProcessKey) -> Option<&ProcessSample> {
    let at = known.processes.binary_search_by_key(&key, |process| process.key).ok()?;
    known.processes.get(at)
}

/// Where a host's texts go.
pub(super) struct Texts<'a> {
    /// What a process is called whose info was not sent.
    pub(super) nameless: &'a Arc<ProcessInfo>,
    /// Bytes kept so far.
    pub(super) bytes: &'a mut usize,
    /// Most bytes to keep.
    pub(super) most: usize,
}

impl Texts<'_> {
    /// A sent info, shared with what is known if it is the same; what is known if none is sent or there is no space.
    fn shared(
        &mut self,
        frame: &Frame,
        sent: Option<&InfoText>,
        known: Option<&ProcessSample>,
        over_limit: &mut u64,
    ) -> Arc<ProcessInfo> {
        let known = known.map_or(self.nameless, |process| &process.info);
        let Some(sent) = sent.filter(|sent| !frame.is_info(sent, known)) else { return Arc::clone(known) };
        let info = frame.info(sent);
        let bytes = self.bytes.saturating_add(text_bytes(&info));
        // The process stays, under the name that is known: its CPU time counts, only the text is left out.
        if bytes > self.most {
            *over_limit += 1;
            return Arc::clone(known);
        }
        *self.bytes = bytes;
        Arc::new(info)
    }
}

/// Memory of an info, bytes.
pub(super) fn text_bytes(info: &ProcessInfo) -> usize {
    let texts = [&info.name, &info.comm, &info.cmdline, &info.cgroup, &info.container];
    size_of::<ProcessInfo>() + texts.iter().map(|text| text.len()).sum::<usize>()
}
