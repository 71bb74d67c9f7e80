//! [`V2Host`] turns the decoded v2 frames of one host into intervals. It counts lost, doubled and late
//! frames, and charges CPU time exactly once whatever was lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use cpumon_model::limits::{Bucket, Rate};
use cpumon_model::{Flags, HostInfo, HostStatus, Moment, ProcessInfo, Snapshot, Trust};
use cpumon_wire::encrypted::DecryptError;
use cpumon_wire::v2::{Frame, Header};
use cpumon_wire::{DecodeError, Reason};

use super::budget::{Arrival, Charge, count_datagram};
use super::gather::{Added, Fragments, Gather, Space, Work};
use super::known::{KnownSnapshot, ListTurn};
use super::sparse::keep_whole_delays;
use crate::counts::Rejected;

/// Snapshots that may come in at the same time.
const MAX_PENDING: usize = 3;

/// Snapshots that a host may begin: each one, however short, costs a walk over all known tasks. Agents make 10 a second at most; a receiver
/// that was stopped takes in the backlog of its socket at once.
const SNAPSHOTS: Rate = Rate { amount: 20, seconds: 1, burst_ms: 10_000 };

/// An agent start that was replaced by a later one may not come back while that one is received, ns.
const RETIRED_FOR_NS: u64 = 10_000_000_000;

#[derive(Debug)]
pub(super) struct V2Host {
    pub(super) charge: Charge,
    pub(super) status: HostStatus,
    from: Option<SocketAddr>,
    known: KnownSnapshot,
    /// A snapshot is known that the next one can be compared with.
    is_watched: bool,
    agent_start: u32,
    /// The agent start before this one, whose datagrams may still be on their way.
    retired: Option<u32>,
    last_received_mono_ns: u64,
    /// Snapshots coming in, ascending by sequence.
    pending: VecDeque<Gather>,
    /// Number and fragments of the snapshot given out last.
    done: Option<(u64, Fragments)>,
    /// Greatest (sequence, fragment) so far.
    newest: (u64, u16),
    /// Flags of the next interval: what happened since the last one.
    flags: Flags,
    nameless: Arc<ProcessInfo>,
    list_turn: ListTurn,
    /// Limits how often the host may begin a snapshot.
    snapshots: Bucket,
    /// The longest time between two snapshots, on the same clock, ns.
    longest_gap_ns: u64,
    /// At least one interval of the host was given out.
    pub(super) is_established: bool,
    pub(super) rows_over_limit: u64,
    pub(super) ended_unseen: u64,
}

impl V2Host {
    /// For the host that this header names.
    pub(super) fn new(header: &Header, trust: Trust, charge: Charge) -> Self {
        let hostname = header.host.to_string().into();
        let info = HostInfo { host: header.host, boot: header.boot, hostname, ..HostInfo::default() };
        let status = HostStatus { info, trust, source: header.source, ..HostStatus::default() };
        Self {
            charge,
            status,
            from: None,
            known: KnownSnapshot::default(),
            is_watched: false,
            agent_start: header.agent_start,
            retired: None,
            last_received_mono_ns: 0,
            pending: VecDeque::new(),
            done: None,
            newest: (0, 0),
            flags: Flags::empty(),
            nameless: Arc::default(),
            list_turn: ListTurn::default(),
            snapshots: Bucket::new(SNAPSHOTS),
            longest_gap_ns: 0,
            is_established: false,
            rows_over_limit: 0,
            ended_unseen: 0,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.known.bytes() + self.pending_bytes()
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|gather| gather.bytes).sum()
    }

    /// Time since the host's last datagram, ns.
    pub(super) fn silent_ns(&self, now: Moment) -> u64 {
        now.mono_ns.saturating_sub(self.last_received_mono_ns)
    }

    /// Whether it is silent for longer than it ever was between two snapshots, and than `ns`.
    pub(super) fn is_gone(&self, now: Moment, ns: u64) -> bool {
        self.silent_ns(now) >= ns.max(self.longest_gap_ns.saturating_mul(2))
    }

    /// Forgets everything but its description and its counts: its next snapshot is a first one.
    pub(super) fn forget(&mut self) {
        self.known = KnownSnapshot::default();
        self.pending = VecDeque::new();
        (self.done, self.newest, self.is_watched) = (None, (0, 0), false);
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.is_watched.then_some(&self.known.snapshot)
    }

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
        arrival: &Arrival,
        work: &mut Work<'_>,
    ) -> Result<(), Rejected> {
        let Arrival { bytes, from, received } = *arrival;
        count_datagram(&mut self.status.loss, bytes);
        // This runs for each datagram, so the text is made only when the sender has changed.
        if self.from.replace(from) != Some(from) {
            self.status.address = SocketAddr::new(from.ip().to_canonical(), from.port()).to_string().into();
        }
        let header = frame.header;
        if (header.agent_start, header.boot) != (self.agent_start, self.status.info.boot)
            && !self.restart(&header, received, work)
        {
            self.status.loss.reordered += 1;
            return Ok(());
        }
        // Not before the check: datagrams of the retired start must not make the present one seem active, or
        // the retired one could never come back.
        if self.last_received_mono_ns > 0 {
            self.longest_gap_ns = self.longest_gap_ns.max(self.silent_ns(received));
        }
        self.last_received_mono_ns = received.mono_ns;
        self.status.received_wall_ns = received.wall_ns;
        // No error: doubled and late datagrams are the network's doing. They are counted as loss, not as
        // rejects.
        if !self.is_in_time(&header) {
            return Ok(());
        }
        let Some(at) = self.pending_at(&header, received, work)? else { return Ok(()) };
        let space = self.space(work);
        let Some(gather) = self.pending.get_mut(at) else { return Ok(()) };
        match gather.add(frame, &self.known.snapshot, &self.nameless, space) {
            Added::New => {}
            Added::Duplicate => self.status.loss.duplicates += 1,
            Added::Inconsistent => {
                self.status.loss.rejected += 1;
                return Err(DecodeError::new(52, Reason::BadFragment).into());
            }
        }
        // Its rows are copied: what comes next needs as much memory again.
        frame.trim();
        if self.pending.get(at).is_some_and(|gather| gather.fragments.is_complete()) {
            // What came before it will not become whole any more.
            for _ in 0..=at {
                self.finish_oldest(work);
            }
        }
        Ok(())
    }

    fn space(&self, work: &Work<'_>) -> Space {
        let texts: usize = self.pending.iter().map(|gather| gather.text_bytes).sum();
        Space {
            bytes: work.limit.saturating_sub(self.held()),
            text_bytes: (work.limit / 2).saturating_sub(self.known.bytes() + texts),
        }
    }

    /// Whether [`V2Host::flush`] has something to do.
    pub(super) fn is_late(&self, now: Moment, timeout_ns: u64) -> bool {
        let waits = |gather: &Gather| now.mono_ns.saturating_sub(gather.first_mono_ns);
        self.pending.front().is_some_and(|gather| waits(gather) >= timeout_ns)
    }

    /// Gives out snapshots that have been waiting for fragments for too long.
    pub(super) fn flush(&mut self, now: Moment, work: &mut Work<'_>) {
        // Intervals are given out in order, so no snapshot overtakes the oldest one.
        while self.is_late(now, work.options.reassembly_timeout_ns) {
            self.finish_oldest(work);
        }
    }

    /// Turns to another agent start or boot: the known snapshot ends here. False: the frame is a late one of the start before.
    fn restart(&mut self, header: &Header, received: Moment, work: &mut Work<'_>) -> bool {
        let is_quiet = self.silent_ns(received) >= RETIRED_FOR_NS;
        // Late datagrams of the start before must not end the present one. Only when the present one has been silent for 10 s
        // may the one before come back.
        if self.retired == Some(header.agent_start) && !is_quiet {
            return false;
        }
        // The missing fragments of these snapshots belong to a start that is over: waiting for them is useless.
        while !self.pending.is_empty() {
            self.finish_oldest(work);
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
        if let Some((done, fragments)) = self.done.as_ref().filter(|done| header.sequence <= done.0) {
            let loss = &mut self.status.loss;
            let is_twice = header.sequence == *done && fragments.has(header.fragment);
            *(if is_twice { &mut loss.duplicates } else { &mut loss.reordered }) += 1;
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

    /// The place of the snapshot that a header belongs to; begins it if need be. `None`: it is too late for that.
    fn pending_at(
        &mut self,
        header: &Header,
        received: Moment,
        work: &mut Work<'_>,
    ) -> Result<Option<usize>, Rejected> {
        let sequence = |gather: &Gather| gather.header.sequence;
        let place =
            |pending: &VecDeque<Gather>| pending.partition_point(|gather| sequence(gather) < header.sequence);
        let mut at = place(&self.pending);
        if self.pending.get(at).is_some_and(|gather| sequence(gather) == header.sequence) {
            return Ok(Some(at));
        }
        if self.pending.len() >= MAX_PENDING {
            // Older than all that are open: one of those would have to be given out first, and intervals go forwards only.
            if at == 0 {
                return Ok(None);
            }
            // The oldest has waited longest for its fragments, so it is the least likely to become whole.
            self.finish_oldest(work);
            at = place(&self.pending);
        }
        if work.options.source_rate.is_some() && self.snapshots.take(received.mono_ns).is_err() {
            return Err(Rejected::TooManySnapshots);
        }
        let mut gather = work.scratch.spare.pop().unwrap_or_default();
        gather.begin(header, received.mono_ns);
        self.pending.insert(at, gather);
        Ok(Some(at))
    }

    /// Gives out the oldest snapshot, whole or not.
    fn finish_oldest(&mut self, work: &mut Work<'_>) {
        let Some(mut gather) = self.pending.pop_front() else { return };
        self.rows_over_limit += gather.rows_over_limit + gather.waits_over_limit;
        self.known.open_waits.exchange(&mut work.scratch.waits);
        self.count_gap(&gather);
        gather.tidy();
        self.complete_from_known(&mut gather);
        if let Some(mut info) = gather.host.take() {
            let is_changed = info.change_id_name();
            if info != self.status.info {
                work.scratch.changed_names += u64::from(is_changed);
                self.status.info = info;
            }
        }
        if self.is_watched {
            // First the interval, compared with the known snapshot; only then the new snapshot replaces the known one.
            self.give_out(&gather, work);
            self.rows_over_limit += self.known.take(&gather.snapshot, work.limit / 2);
            self.forget_silent(&gather, work.options.stale_rotations);
        } else {
            if self.flags.contains(Flags::RESTART) {
                self.give_out_restart(&gather, work);
            }
            self.update_status(&gather);
            self.rows_over_limit += self.known.begin(&gather.snapshot, work.limit / 2);
            self.list_turn = ListTurn::default();
            self.is_watched = true;
            self.flags = Flags::empty();
        }
        if !gather.fragments.is_complete() {
            self.known.lost_before = gather.header.sequence.saturating_add(1);
        }
        self.known.open_waits.exchange(&mut work.scratch.waits);
        // The old list of fragments goes into the spare snapshot, so that no memory is allocated for each
        // one.
        let fragments = self.done.take().map(|done| done.1).unwrap_or_default();
        let fragments = std::mem::replace(&mut gather.fragments, fragments);
        self.done = Some((gather.header.sequence, fragments));
        self.known.add_texts(gather.text_bytes);
        work.recycle(gather);
    }

    fn count_gap(&mut self, gather: &Gather) {
        let loss = &mut self.status.loss;
        // The first snapshot of a start follows none, whatever its number: `restart` has emptied `done`.
        if let Some((before, _)) = self.done {
            let lost = gather.header.sequence.saturating_sub(before).saturating_sub(1);
            if lost > 0 {
                loss.snapshots_lost = loss.snapshots_lost.saturating_add(lost);
                self.flags |= Flags::SPANS_LOSS;
                self.known.lost_before = gather.header.sequence;
            }
        }
        if gather.fragments.is_complete() {
            loss.snapshots += 1;
        } else {
            loss.snapshots_partial += 1;
            self.flags |= Flags::PARTIAL;
        }
    }

    fn complete_from_known(&mut self, gather: &mut Gather) {
        let snapshot = &mut gather.snapshot;
        // Rows that were left out are no sign of a task that ended.
        let has_all = gather.fragments.is_complete() && gather.rows_over_limit == 0;
        snapshot.is_complete = gather.header.is_complete && has_all;
        if !self.is_watched {
            // Buckets that did not change are in no frame: without known ones a histogram in parts is
            // useless.
            keep_whole_delays(snapshot, &gather.whole_delays);
            return;
        }
        self.known.complete(gather);
        // The fragment with the totals is lost: their defaults would show a host without tasks.
        if !gather.has_totals {
            let (known, snapshot) = (&self.known.snapshot, &mut gather.snapshot);
            snapshot.exited_total = known.exited_total;
            snapshot.health = known.health;
            (snapshot.pressure, snapshot.cgroups_left_out) = (known.pressure, known.cgroups_left_out);
            (snapshot.thread_count, snapshot.process_count) = (known.thread_count, known.process_count);
        }
    }

    fn give_out(&mut self, gather: &Gather, work: &mut Work<'_>) {
        let interval = &mut work.scratch.interval;
        interval.fill(&self.known.snapshot, &gather.snapshot);
        // Before `take`: the waits are those since the snapshot before.
        self.known.add_resting(&gather.snapshot, interval, &mut work.scratch.processes);
        // Before `take`, which forgets the threads that show which process has none left.
        self.known.end_emptied(&gather.snapshot, interval);
        interval.flags |= self.flags;
        self.flags = Flags::empty();
        if gather.fragments.is_complete() && gather.has_totals {
            self.list_turn.pass(&self.known, &gather.snapshot, interval);
        }
        self.is_established = true;
        self.update_status(gather);
        work.give_out(&self.status);
    }

    /// An interval without length: nothing is charged from one agent start to the next.
    fn give_out_restart(&mut self, gather: &Gather, work: &mut Work<'_>) {
        let other_boot = Snapshot { host: gather.snapshot.host, ..Snapshot::default() };
        work.scratch.interval.fill(&other_boot, &gather.snapshot);
        work.scratch.interval.flags |= self.flags;
        self.update_status(gather);
        work.give_out(&self.status);
    }

    fn update_status(&mut self, gather: &Gather) {
        self.status.last = gather.snapshot.end;
        self.status.source = gather.snapshot.source;
        self.status.thread_count = gather.snapshot.thread_count;
        self.status.process_count = gather.snapshot.process_count;
    }

    /// Tasks that should have been repeated since, but were not, are gone.
    fn forget_silent(&mut self, gather: &Gather, stale_rotations: u32) {
        // The counts are those of an earlier snapshot then, and prove nothing about this one.
        if !gather.has_totals {
            return;
        }
        let known = &self.known.snapshot;
        let ghosts = known.threads.len() > known.thread_count as usize
            || known.processes.len() > known.process_count as usize;
        // More tasks are known than the host has: the end of some was lost. A living task is repeated once a rotation.
        let patience = u64::from(gather.header.refresh_snapshots) * u64::from(stale_rotations);
        if ghosts && let Some(since) = gather.header.sequence.checked_sub(patience.max(1)) {
            let (threads, processes) = self.known.forget_silent(since);
            self.ended_unseen += threads;
            if threads + processes > 0 {
                self.list_turn.hurry();
            }
        }
    }
}
