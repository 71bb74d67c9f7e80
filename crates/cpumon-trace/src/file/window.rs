//! The last part of a recording, in memory of a fixed size. It can be copied out while the recording continues.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use cpumon_model::Moment;
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask};
use foldhash::fast::RandomState;

use super::WriteError;
use super::format::{FileHeader, RecordingId};
use super::writer::{Compression, TraceWriter, WrittenCounts};

/// Ended tasks whose names are known, beyond which the one that ended first is forgotten. Those that also began in the window keep their
/// name all the same: it is among the window's own chunks.
const MAX_ENDED: usize = 1 << 16;
/// Control groups whose names are known, beyond which the one that came first is forgotten.
const MAX_GROUPS: usize = 1 << 14;

/// Limits of a [`TraceWindow`]: the first to be reached applies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    pub length_ns: u64,
    /// Bytes of the chunks. Beside them a window has up to 65 KiB a CPU for events that are in no chunk yet, and a name for each task.
    pub bytes: usize,
}

/// Chunks between two marks. They can be read without those before.
struct Period {
    from_ns: u64,
    until_ns: u64,
    /// Its place in the ring; it may go on at the ring's begin.
    at: usize,
    bytes: usize,
    events: u64,
    lost: u64,
}

/// A recording that keeps only its last part. In a steady state it allocates nothing but names.
pub struct TraceWindow {
    header: FileHeader,
    compression: Compression,
    length_ns: u64,
    /// Period that is not closed yet.
    open: TraceWriter<Vec<u8>>,
    /// All events before this are in closed periods.
    closed_ns: u64,
    ring: Box<[u8]>,
    periods: VecDeque<Period>,
    /// Periods that are no longer there: the number of the first one that is.
    passed: u64,
    used: usize,
    names: WindowNames,
    lost: u64,
    events: u64,
}

impl TraceWindow {
    pub fn new(
        header: FileHeader,
        limits: WindowLimits,
        compression: Compression,
    ) -> Result<Self, WriteError> {
        let mut open = TraceWriter::new(Vec::new(), &header, compression)?;
        open.written().clear();
        let (closed_ns, length_ns) = (header.began.mono_ns, limits.length_ns);
        Ok(Self {
            header,
            compression,
            length_ns,
            open,
            closed_ns,
            ring: vec![0; limits.bytes].into(),
            periods: VecDeque::new(),
            passed: 0,
            used: 0,
            names: WindowNames::default(),
            lost: 0,
            events: 0,
        })
    }

    pub fn event(&mut self, event: &SchedEvent) {
        if let SchedEventKind::Switch { prev, leaves: Leaves::Dead, .. } = event.kind {
            self.names.end(prev, event.at_ns);
        }
        self.open.event(event);
    }

    pub fn identity(&mut self, identity: &TraceIdentity) {
        self.names.set(identity);
        self.open.identity(identity);
    }

    pub fn group(&mut self, group: &TraceGroup) {
        self.names.set_group(group);
        self.open.group(group);
    }

    /// Closes a period: all events before `before_ns` are known. `lost`: events lost since the recording began. Drops periods that are
    /// older than the window's length, or do not fit any more.
    pub fn sync(&mut self, before_ns: u64, lost: u64) -> Result<(), WriteError> {
        self.open.sync(before_ns)?;
        let (events, bytes) = (self.open.counts().events, self.open.written().len());
        let period = Period {
            from_ns: self.closed_ns,
            until_ns: before_ns,
            at: 0,
            bytes,
            events: events - self.events,
            lost: lost.saturating_sub(self.lost),
        };
        (self.closed_ns, self.events, self.lost) = (before_ns, events, lost);
        let begin_ns = before_ns.saturating_sub(self.length_ns);
        while self.periods.front().is_some_and(|first| first.until_ns < begin_ns) {
            self.drop_oldest();
        }
        while self.used + bytes > self.ring.len() && !self.periods.is_empty() {
            self.drop_oldest();
        }
        if bytes <= self.ring.len() {
            self.store(period);
        } else {
            self.passed += 1;
        }
        self.open.written().clear();
        self.names.forget_before(self.periods.front().map_or(before_ns, |first| first.from_ns));
        Ok(())
    }

    /// From when to when the window reaches, ns on the trace's clock.
    pub fn span_ns(&self) -> (u64, u64) {
        (self.periods.front().map_or(self.closed_ns, |first| first.from_ns), self.closed_ns)
    }

    /// Begins a copy of the window as it is now: a trace file of its own. `now`: for the other clocks in its header.
    pub fn begin_copy<W: Write>(&self, to: W, now: Moment) -> Result<WindowCopy<W>, WriteError> {
        let from_ns = self.span_ns().0;
        let file = TraceWriter::new(to, &self.header_at(from_ns, now), self.compression)?;
        Ok(self.copy_to(file, from_ns))
    }

    /// Begins a copy that follows other files of the same recording: it begins where the last one ends, at `after_ns`. What the window
    /// no longer has of the time between is marked as lost.
    pub fn begin_part<W: Write>(
        &self,
        to: W,
        now: Moment,
        after_ns: u64,
    ) -> Result<WindowCopy<W>, WriteError> {
        let from_ns = self.span_ns().0;
        let mut file = TraceWriter::new(to, &self.header_at(after_ns, now), self.compression)?;
        file.part(RecordingId { began_ns: self.header.began.mono_ns, boot: self.header.boot })?;
        if from_ns > after_ns {
            for cpu in 0..self.header.cpus {
                let kind = SchedEventKind::Lost { count: 0, until_ns: from_ns };
                file.event(&SchedEvent { at_ns: after_ns, cpu, kind });
            }
        }
        Ok(self.copy_to(file, from_ns))
    }

    fn header_at(&self, began_ns: u64, now: Moment) -> FileHeader {
        let ago_ns = now.mono_ns.saturating_sub(began_ns);
        let began = Moment {
            mono_ns: began_ns,
            boot_ns: now.boot_ns.saturating_sub(ago_ns),
            wall_ns: now.wall_ns.saturating_sub_unsigned(ago_ns),
        };
        FileHeader { began, ..self.header.clone() }
    }

    fn copy_to<W: Write>(&self, mut file: TraceWriter<W>, from_ns: u64) -> WindowCopy<W> {
        let WindowNames { identities, groups, group_order, .. } = &self.names;
        group_order.iter().filter_map(|group| groups.get(group)).for_each(|group| file.group(group));
        // A table has them in another order each time.
        let mut identities: Vec<&TraceIdentity> = identities.values().collect();
        identities.sort_unstable_by_key(|identity| identity.task);
        for identity in identities {
            file.identity(identity);
        }
        let end = self.passed + self.periods.len() as u64;
        WindowCopy { file, next: self.passed, end, until_ns: from_ns, lost: 0 }
    }

    /// Lets a copy go on with what came since it began.
    pub fn extend_copy<W: Write>(&self, copy: &mut WindowCopy<W>) {
        copy.end = self.passed + self.periods.len() as u64;
    }

    /// Bytes of the oldest part, which a copy that has all before it writes next.
    pub fn next_bytes(&self) -> Option<u64> {
        self.periods.front().map(|first| first.bytes as u64)
    }

    pub fn drop_oldest(&mut self) {
        if let Some(first) = self.periods.pop_front() {
            self.used -= first.bytes;
            self.passed += 1;
        }
    }

    /// Drops the periods that a copy has.
    pub fn drop_copied<W: Write>(&mut self, copy: &WindowCopy<W>) {
        while self.passed < copy.next && !self.periods.is_empty() {
            self.drop_oldest();
        }
    }

    /// Writes the next part of a copy; false if no further part follows. The recording can continue between two parts.
    ///
    /// Errors: the file cannot be written, or is written so slowly that the window has moved past the part.
    pub fn copy_part<W: Write>(&self, copy: &mut WindowCopy<W>) -> Result<bool, WriteError> {
        if copy.next >= copy.end {
            return Ok(false);
        }
        let at = copy.next.checked_sub(self.passed).and_then(|at| usize::try_from(at).ok());
        let period = at.and_then(|at| self.periods.get(at)).ok_or_else(|| WriteError {
            operation: "write the window before it is recorded over",
            error: io::Error::other("the disk is too slow: keep a shorter time, or give more memory"),
        })?;
        let first = period.bytes.min(self.ring.len() - period.at);
        copy.file.chunks(&self.ring[period.at..period.at + first], period.events)?;
        copy.file.chunks(&self.ring[..period.bytes - first], 0)?;
        copy.lost += period.lost;
        copy.until_ns = period.until_ns;
        copy.next += 1;
        Ok(copy.next < copy.end)
    }

    /// Index in the ring at which the next byte is written.
    fn end(&self) -> usize {
        let begin = self.periods.front().map_or(0, |first| first.at);
        (begin + self.used) % self.ring.len().max(1)
    }

    fn store(&mut self, mut period: Period) {
        let at = self.end();
        period.at = at;
        let bytes = self.open.written();
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.used += period.bytes;
        self.periods.push_back(period);
    }
}

/// A copy of a window that is being written.
pub struct WindowCopy<W: Write> {
    file: TraceWriter<W>,
    next: u64,
    end: u64,
    /// The copy has all events before this time.
    until_ns: u64,
    lost: u64,
}

impl<W: Write> WindowCopy<W> {
    /// It has all events before this time, ns on the trace's clock.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    pub fn counts(&self) -> WrittenCounts {
        self.file.counts()
    }

    pub fn finish(self) -> Result<(W, WrittenCounts), WriteError> {
        self.file.finish(self.until_ns, self.lost)
    }
}

/// Who the tasks of the window are: each that lives, and those that ended in it.
#[derive(Default)]
struct WindowNames {
    identities: HashMap<TraceTask, TraceIdentity, RandomState>,
    /// Ended tasks in the order of their ends.
    ended: VecDeque<(u64, TraceTask)>,
    groups: HashMap<u64, TraceGroup, RandomState>,
    /// Groups in the order of their arrival.
    group_order: VecDeque<u64>,
}

impl WindowNames {
    fn set(&mut self, identity: &TraceIdentity) {
        let known = self.identities.get(&identity.task);
        if known.is_none_or(|known| known.at_ns <= identity.at_ns) {
            self.identities.insert(identity.task, identity.clone());
        }
    }

    fn set_group(&mut self, group: &TraceGroup) {
        if self.groups.insert(group.group, group.clone()).is_none() {
            self.group_order.push_back(group.group);
        }
        if self.groups.len() > MAX_GROUPS
            && let Some(first) = self.group_order.pop_front()
        {
            self.groups.remove(&first);
        }
    }

    fn end(&mut self, task: TraceTask, at_ns: u64) {
        self.ended.push_back((at_ns, task));
        if self.ended.len() > MAX_ENDED {
            self.forget_first();
        }
    }

    fn forget_before(&mut self, from_ns: u64) {
        while self.ended.front().is_some_and(|(at_ns, _)| *at_ns < from_ns) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, task)) = self.ended.pop_front() {
            self.identities.remove(&task);
        }
    }
}
