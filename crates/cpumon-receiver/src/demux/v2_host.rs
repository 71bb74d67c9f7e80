//! [`V2Host`]: one host that sends v2 frames, from decoded frames to intervals. What is lost, doubled or out
//! of order is counted here, and CPU time is charged exactly once whatever was lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use cpumon_model::{Flags, HostInfo, HostStatus, Interval, Moment, ProcessInfo, Snapshot, Trust};

use super::gather::{Added, Fragments, Gather, Texts, text_bytes};
use super::known::Known;
use super::options::DemuxOptions;
use super::rejects::Rejected;
use super::usage::{Usage, count_datagram};
use cpumon_wire::encrypted::DecryptError;
use cpumon_wire::v2::{Frame, Header};
use cpumon_wire::{DecodeError, Reason};

/// Snapshots that may come in at the same time.
const MAX_PENDING: usize = 3;

/// An agent start that was replaced by a later one may not come back while that one is received, ns.
const RETIRED_FOR_NS: u64 = 10_000_000_000;

/// A host, by its id.
#[derive(Debug)]
pub(super) struct V2Host {
    status: HostStatus,
    from: Option<SocketAddr>,
    known: Known,
    /// There is a snapshot to compare with.
    is_watched: bool,
    agent_start: u32,
    /// The agent start before this one, whose datagrams may still be on their way.
    retired: Option<u32>,
    last_received_mono_ns: u64,
    /// Snapshots coming in, ascending by sequence.
    pending: VecDeque<Gather>,
    spare: Vec<Gather>,
    /// The snapshot given out last.
    done: Option<(u64, Fragments)>,
    /// Greatest (sequence, fragment) so far.
    newest: (u64, u16),
    /// Flags of the next interval: what happened since the last one.
    flags: Flags,
    interval: Interval,
    nameless: Arc<ProcessInfo>,
    /// Bytes of texts kept; those of processes that ended are taken off when it grows large.
    text_bytes: usize,
    pub(super) rows_over_limit: u64,
    pub(super) ended_unseen: u64,
}

impl V2Host {
    /// For the host that this header names.
    pub(super) fn new(header: &Header, trust: Trust) -> Self {
        let hostname = header.host.to_string().into();
        let info = HostInfo { host: header.host, boot: header.boot, hostname, ..HostInfo::default() };
        let status = HostStatus { info, trust, source: header.source, ..HostStatus::default() };
        Self {
            status,
            from: None,
            known: Known::default(),
            is_watched: false,
            agent_start: header.agent_start,
            retired: None,
            last_received_mono_ns: 0,
            pending: VecDeque::new(),
            spare: Vec::new(),
            done: None,
            newest: (0, 0),
            flags: Flags::empty(),
            interval: Interval::default(),
            nameless: Arc::default(),
            text_bytes: 0,
            rows_over_limit: 0,
            ended_unseen: 0,
        }
    }

    pub(super) fn status(&self) -> &HostStatus {
        &self.status
    }

    /// What is kept of it.
    pub(super) fn held(&self) -> Usage {
        Usage { threads: self.known.snapshot.threads.len(), text_bytes: self.text_bytes }
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.is_watched.then_some(&self.known.snapshot)
    }

    /// An encrypted datagram of it was refused.
    pub(super) fn count_refused(&mut self, error: DecryptError) {
        match error {
            DecryptError::Replayed | DecryptError::Earlier => self.status.loss.duplicates += 1,
            _ => self.status.loss.rejected += 1,
        }
    }

    /// Takes one frame; gives out every interval that it completes.
    pub(super) fn accept(
        &mut self,
        frame: &mut Frame,
        bytes: usize,
        from: SocketAddr,
        received: Moment,
        options: &DemuxOptions,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        count_datagram(&mut self.status.loss, bytes);
        // This runs for each datagram, so the text is made only when the sender has changed.
        if self.from.replace(from) != Some(from) {
            self.status.address = SocketAddr::new(from.ip().to_canonical(), from.port()).to_string().into();
        }
        let header = frame.header;
        if (header.agent_start, header.boot) != (self.agent_start, self.status.info.boot)
            && !self.restart(&header, received, options, out)
        {
            self.status.loss.reordered += 1;
            return Ok(());
        }
        // Not before the check: datagrams of the retired start must not make the present one seem active, or
        // the retired one could never come back.
        self.last_received_mono_ns = received.mono_ns;
        self.status.received_wall_ns = received.wall_ns;
        // No error: doubled and late datagrams are the network's doing. They are counted as loss, not as
        // rejects.
        if !self.is_in_time(&header) {
            return Ok(());
        }
        let at = self.pending_at(&header, received, options, out);
        let Some(gather) = self.pending.get_mut(at) else { return Ok(()) };
        let texts = Texts {
            nameless: &self.nameless,
            bytes: &mut self.text_bytes,
            most: options.max_text_bytes_per_host,
        };
        match gather.add(frame, &self.known.snapshot, texts, options.max_threads_per_host) {
            Added::New => {}
            Added::Duplicate => self.status.loss.duplicates += 1,
            Added::Inconsistent => {
                self.status.loss.rejected += 1;
                return Err(DecodeError::new(52, Reason::BadFragment).into());
            }
        }
        if self.pending.get(at).is_some_and(|gather| gather.fragments.is_complete()) {
            // What came before it will not become whole any more.
            for _ in 0..=at {
                self.finish_oldest(options, out);
            }
        }
        Ok(())
    }

    /// Gives out snapshots that have been waiting for fragments for too long.
    pub(super) fn flush(
        &mut self,
        now: Moment,
        options: &DemuxOptions,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) {
        let is_late = |gather: &Gather| {
            now.mono_ns.saturating_sub(gather.first_mono_ns) >= options.reassembly_timeout_ns
        };
        // Intervals are given out in order, so no snapshot overtakes the oldest one.
        while self.pending.front().is_some_and(is_late) {
            self.finish_oldest(options, out);
        }
    }

    /// Another agent start or boot: what is known ends here. False if it is the start before, late on its way.
    fn restart(
        &mut self,
        header: &Header,
        received: Moment,
        options: &DemuxOptions,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> bool {
        let is_quiet = received.mono_ns.saturating_sub(self.last_received_mono_ns) >= RETIRED_FOR_NS;
        // Late datagrams of the start before must not end the present one. Only when the present one has been silent for 10 s
        // may the one before come back.
        if self.retired == Some(header.agent_start) && !is_quiet {
            return false;
        }
        // The missing fragments of these snapshots belong to a start that is over: waiting for them is useless.
        while !self.pending.is_empty() {
            self.finish_oldest(options, out);
        }
        self.retired = Some(self.agent_start);
        self.agent_start = header.agent_start;
        self.status.info.boot = header.boot;
        // A start numbers its snapshots from the beginning.
        self.done = None;
        self.newest = (0, 0);
        // Counters of two starts or boots cannot be compared: the next snapshot is a first one, and says so.
        if self.is_watched {
            self.flags |= Flags::RESTART;
            self.is_watched = false;
        }
        true
    }

    /// False, and counted, if the frame's snapshot has been given out already.
    fn is_in_time(&mut self, header: &Header) -> bool {
        let place = (header.sequence, header.fragment);
        // Its interval is out already. Counters are cumulative: the thread's next row brings what this one
        // had.
        let is_done = self.done.as_ref().is_some_and(|done| header.sequence <= done.0);
        if is_done {
            let is_twice = self.done.as_ref().is_some_and(|(sequence, fragments)| {
                *sequence == header.sequence && fragments.has(header.fragment)
            });
            if is_twice {
                self.status.loss.duplicates += 1;
            } else {
                self.status.loss.reordered += 1;
            }
            return false;
        }
        let is_twice = || {
            let gather = self.pending.iter().find(|gather| gather.header.sequence == header.sequence);
            gather.is_some_and(|gather| gather.fragments.has(header.fragment))
        };
        // Older than the newest but of a snapshot that is still open: counted as out of order, and used.
        if place < self.newest && !is_twice() {
            self.status.loss.reordered += 1;
        }
        self.newest = self.newest.max(place);
        true
    }

    /// The place of the snapshot that a header belongs to; begins it if need be.
    fn pending_at(
        &mut self,
        header: &Header,
        received: Moment,
        options: &DemuxOptions,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> usize {
        let sequence = |gather: &Gather| gather.header.sequence;
        let place =
            |pending: &VecDeque<Gather>| pending.partition_point(|gather| sequence(gather) < header.sequence);
        let mut at = place(&self.pending);
        if self.pending.get(at).is_some_and(|gather| sequence(gather) == header.sequence) {
            return at;
        }
        // The oldest has waited longest for its fragments, so it is the least likely to become whole.
        if self.pending.len() >= MAX_PENDING {
            self.finish_oldest(options, out);
            at = place(&self.pending);
        }
        let mut gather = self.spare.pop().unwrap_or_default();
        gather.begin(header, received.mono_ns);
        self.pending.insert(at, gather);
        at
    }

    /// Gives out the oldest snapshot, whole or not.
    fn finish_oldest(&mut self, options: &DemuxOptions, out: &mut dyn FnMut(&HostStatus, &Interval)) {
        let Some(mut gather) = self.pending.pop_front() else { return };
        self.rows_over_limit += gather.rows_over_limit;
        self.count_gap(&gather);
        gather.tidy();
        self.complete_from_known(&mut gather);
        if let Some(info) = gather.host.take()
            && info != self.status.info
        {
            self.status.info = info;
        }
        if self.is_watched {
            // First the interval, which compares with what is known; only then the snapshot becomes what is known.
            self.give_out(&gather, out);
            self.rows_over_limit += self.known.take(&gather.snapshot, options.max_threads_per_host);
            self.forget_silent(&gather, options);
        } else {
            if self.flags.contains(Flags::RESTART) {
                self.give_out_restart(&gather, out);
            }
            self.update_status(&gather);
            self.rows_over_limit += self.known.begin(&gather.snapshot, options.max_threads_per_host);
            self.is_watched = true;
            self.flags = Flags::empty();
        }
        // The old list of fragments goes into the spare snapshot, so that no memory is allocated for each
        // one.
        let fragments = self.done.take().map(|done| done.1).unwrap_or_default();
        let fragments = std::mem::replace(&mut gather.fragments, fragments);
        self.done = Some((gather.header.sequence, fragments));
        self.spare.push(gather);
        // The sum still has the texts of ended processes. Counting walks over all processes, so it waits
        // until the limit is near.
        if self.text_bytes > options.max_text_bytes_per_host / 2 {
            self.count_texts();
        }
    }

    /// Counts the bytes of texts again, without those of processes that ended.
    fn count_texts(&mut self) {
        let infos = self.known.snapshot.processes.iter().map(|process| &process.info);
        self.text_bytes = infos.map(|info| text_bytes(info)).fold(0, usize::saturating_add);
    }

    fn count_gap(&mut self, gather: &Gather) {
        let loss = &mut self.status.loss;
        // The first snapshot of a start follows none, whatever its number: `restart` has emptied `done`.
        if let Some((before, _)) = self.done {
            let lost = gather.header.sequence.saturating_sub(before).saturating_sub(1);
            if lost > 0 {
                loss.snapshots_lost = loss.snapshots_lost.saturating_add(lost);
                self.flags |= Flags::SPANS_LOSS;
            }
        }
        if gather.fragments.is_complete() {
            loss.snapshots += 1;
        } else {
            loss.snapshots_partial += 1;
            self.flags |= Flags::PARTIAL;
        }
    }

    /// Fills in what the frames left out.
    fn complete_from_known(&mut self, gather: &mut Gather) {
        let snapshot = &mut gather.snapshot;
        snapshot.is_complete = gather.header.is_complete && gather.fragments.is_complete();
        if !self.is_watched {
            // Buckets that did not change are in no frame: without known ones a histogram in parts is
            // useless.
            super::delays::keep_whole(snapshot, &gather.whole_delays);
            return;
        }
        self.known.complete_delays(snapshot, &gather.whole_delays);
        self.known.drop_known_exits(snapshot);
        self.known.complete_threads(snapshot);
        self.known.name_irqs(snapshot);
        // The fragment with the totals is lost: their defaults would show a host without tasks.
        if !gather.has_totals {
            let known = &self.known.snapshot;
            snapshot.exited_total = known.exited_total;
            snapshot.health = known.health;
            (snapshot.thread_count, snapshot.process_count) = (known.thread_count, known.process_count);
        }
    }

    fn give_out(&mut self, gather: &Gather, out: &mut dyn FnMut(&HostStatus, &Interval)) {
        self.interval.fill(&self.known.snapshot, &gather.snapshot);
        // Before `take`, which forgets the threads that show which process has none left.
        self.known.end_emptied(&gather.snapshot, &mut self.interval);
        self.interval.flags |= self.flags;
        self.flags = Flags::empty();
        self.update_status(gather);
        out(&self.status, &self.interval);
    }

    /// An interval without length: nothing is charged from one agent start to the next.
    fn give_out_restart(&mut self, gather: &Gather, out: &mut dyn FnMut(&HostStatus, &Interval)) {
        let other_boot = Snapshot { host: gather.snapshot.host, ..Snapshot::default() };
        self.interval.fill(&other_boot, &gather.snapshot);
        self.interval.flags |= self.flags;
        self.update_status(gather);
        out(&self.status, &self.interval);
    }

    fn update_status(&mut self, gather: &Gather) {
        self.status.last = gather.snapshot.end;
        self.status.source = gather.snapshot.source;
        self.status.thread_count = gather.snapshot.thread_count;
        self.status.process_count = gather.snapshot.process_count;
    }

    /// Tasks that should have been repeated since, but were not, are gone.
    fn forget_silent(&mut self, gather: &Gather, options: &DemuxOptions) {
        // The counts are those of an earlier snapshot then, and prove nothing about this one.
        if !gather.has_totals {
            return;
        }
        let known = &self.known.snapshot;
        let ghosts = known.threads.len() > known.thread_count as usize
            || known.processes.len() > known.process_count as usize;
        // More tasks are known than the host has: the end of some was lost. A living task is repeated once a rotation.
        let patience = u64::from(gather.header.refresh_snapshots) * u64::from(options.stale_rotations);
        if ghosts && let Some(since) = gather.header.sequence.checked_sub(patience.max(1)) {
            self.ended_unseen += self.known.forget_silent(since);
        }
    }
}
