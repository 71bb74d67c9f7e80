//! [`Backlog`] for [`Spool`]: a connection reads records from any number on, with every hole, and acknowledged segments are
//! deleted. While a receiver keeps up, nothing is written: snapshots that it has stored need not wear out the device's
//! flash.

use std::io;
use std::path::Path;

use cpumon_wire::Datagrams;
use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::{Entry, Gap, GapReason, Origin, Records, SegmentHeader, Step, push_gap};

use super::segment::SpoolSegment;
use super::write::Spool;
use super::{SpoolError, SpoolOptions, SpoolPosition};
use crate::backlog::{Backlog, BacklogCounts, NumberedRecord};

/// Bytes that are read from a segment at once, unless a record is longer.
const PIECE_BYTES: u64 = 64 << 10;
/// Positions that are kept to continue reading there: a connection reads at two, one for each channel.
const MAX_POSITIONS: usize = 4;
/// Snapshots that are taken while a place cannot be read, before it counts as lost: a connection sends nothing behind it meanwhile. Attempts
/// say nothing about the time: there are hundreds in a second while files are sent.
const MAX_HELD_UP: u64 = 600;

impl Spool {
    /// Opens the spool of a directory for a connection that empties it.
    ///
    /// # Errors
    /// Those of [`Spool::open`]; or the spool holds snapshots of another machine.
    pub fn open_backlog(options: &SpoolOptions, origin: Origin) -> Result<Self, SpoolError> {
        let mut spool = Self::open(options, origin)?;
        // A receiver ends the connection at a record of another host, so it could never be sent.
        if spool.hosts.iter().any(|host| *host != origin.host.0) {
            return Err(SpoolError::Foreign { path: options.dir.clone() });
        }
        spool.progress.is_drained = true;
        spool.remove_useless();
        Ok(spool)
    }

    /// Deletes all segments if a receiver has everything. A new process starts with a full snapshot, which needs no base, so no
    /// later snapshot refers to them. A hole at the end stays.
    fn remove_useless(&mut self) {
        let behind = self.lost.map_or(self.next, |lost| lost.first);
        if self.progress.acked == 0 || self.progress.acked + 1 < behind {
            return;
        }
        while let Some(oldest) = self.segments.front_mut() {
            if let Err(error) = oldest.remove() {
                self.trouble(&error, "remove what a receiver has");
                return;
            }
            self.segments.pop_front();
        }
        self.progress.dropped_begin_wall_ns = 0;
        self.count();
    }

    /// Deletes the segments behind whose end a receiver has a full snapshot.
    fn forget_acked(&mut self) {
        while self.segments.get(1).is_some_and(|second| second.first <= self.progress.acked) {
            let is_written = self.segments.front().is_some_and(|oldest| oldest.written > 0);
            // The note comes first: a kill in between must not let what was acknowledged appear as dropped.
            if is_written && self.has_news() && !self.note_acked() {
                break;
            }
            let Some(oldest) = self.segments.front_mut() else { break };
            if let Err(error) = oldest.remove() {
                self.trouble(&error, "remove what a receiver has");
                break;
            }
            self.segments.pop_front();
        }
        self.count();
    }

    /// Ends the hole before the oldest segment where a receiver acknowledged it: snapshots that are dropped later make another hole, with a
    /// begin of its own. A receiver takes holes with the same begin for one, and keeps the greater count.
    fn pass_hole(&mut self) {
        let acked = self.progress.acked;
        let given = self.progress.given_hole.take_if(|given| given.last <= acked);
        if self.segments.front().is_some_and(|oldest| oldest.first <= acked) {
            self.progress.dropped_begin_wall_ns = 0;
        } else if let Some(given) = given {
            self.progress.dropped_begin_wall_ns = given.end_wall_ns;
            self.progress.dropped_reason = GapReason::Unknown;
        }
    }

    /// Snapshots that were dropped or could not be stored, and that no receiver has acknowledged as missing.
    fn missing(&self) -> u64 {
        let Some(oldest) = self.segments.front() else { return self.next - 1 - self.progress.acked };
        let dropped = oldest.first.saturating_sub(self.progress.acked + 1);
        dropped + self.lost.map_or(0, |lost| lost.count())
    }

    /// Where reading begins in a segment, for a record of this number. `wall_ns`: when the last snapshot before it was made; 0: not
    /// known.
    fn position_in(&mut self, at: usize, cursor: u64, wall_ns: i64) -> Option<SpoolPosition> {
        let segment = self.segments.get(at)?;
        let wall_ns = if wall_ns == 0 { segment.begin_wall_ns } else { wall_ns };
        let (first, begin) = (
            segment.first,
            SpoolPosition { cursor, segment: segment.first, wall_ns, ..SpoolPosition::default() },
        );
        let known =
            self.progress.positions.iter().position(|one| one.cursor == cursor && one.segment == first);
        if let Some(known) = known.and_then(|known| self.progress.positions.remove(known)) {
            return Some(known);
        }
        if let Some((_, offset)) = segment.fulls.iter().rev().find(|full| full.0 <= cursor) {
            return Some(SpoolPosition { offset: *offset, ..begin });
        }
        Some(begin)
    }

    /// The hole before the oldest segment, from a number on. It is empty if a receiver has all that was dropped: the interval
    /// behind it is missing all the same.
    fn hole_before(&self, cursor: u64) -> Option<Gap> {
        let oldest = self.segments.front().filter(|oldest| cursor < oldest.first)?;
        let (first, last) = (cursor.max(self.progress.acked + 1), oldest.first - 1);
        let begin_wall_ns = match self.progress.dropped_begin_wall_ns {
            0 => self.begin_wall_ns,
            begin => begin,
        };
        let reason = match self.progress.dropped_reason {
            GapReason::Unknown => GapReason::Dropped,
            reason => reason,
        };
        let gap = Gap { first, last, begin_wall_ns, end_wall_ns: oldest.begin_wall_ns, reason };
        let is_empty = first == last + 1 && self.progress.dropped_begin_wall_ns != 0;
        (first <= last || is_empty && begin_wall_ns < gap.end_wall_ns).then_some(gap)
    }

    /// Reads from a place on to the end of its segment (then true), or until there is enough. Also false: it cannot be read now.
    fn read_segment(&mut self, at: usize, position: &mut SpoolPosition, out: &mut Out<'_>) -> bool {
        let mut most = PIECE_BYTES;
        loop {
            let Some(segment) = self.segments.get(at) else { return true };
            let (piece, has_more) = match segment.read_at(position.offset, most) {
                Ok(read) => read,
                Err(error) => return position.is_lost(&error, &segment.path, self.next),
            };
            position.failed_at = 0;
            // Only reading from the start meets the segment's header.
            let header = match position.offset {
                0 => SegmentHeader::decode(&piece).map(|(_, length)| length),
                _ => Some(0),
            };
            let Some(header) = header else {
                (position.offset, position.is_broken) = (segment.bytes(), true);
                return true;
            };
            let records = piece.get(header..).unwrap_or_default();
            let read = header + read_piece(records, position, self.progress.acked, out);
            position.offset += read as u64;
            if out.is_full() {
                return false;
            }
            if !has_more {
                // A rest at the end of a segment is a record that was cut, or whose length is damaged.
                position.is_broken |= read < piece.len();
                return true;
            }
            // A record longer than the piece: it is read again with more.
            most = if read == 0 { most.saturating_mul(2) } else { PIECE_BYTES };
            // No record that can be sent is that long, so its length is damaged.
            if most > 2 * MAX_MESSAGE_BYTES as u64 {
                position.is_broken = true;
                return true;
            }
        }
    }

    fn read_on(&mut self, cursor: &mut u64, out: &mut Out<'_>) {
        if let Some(gap) = self.hole_before(*cursor) {
            out.gap(&gap);
            self.progress.given_hole = Some(gap);
        }
        *cursor = (*cursor).max(self.segments.front().map_or(*cursor, |oldest| oldest.first));
        let mut wall_ns = 0;
        loop {
            let at = self.segments.partition_point(|segment| segment.first <= *cursor);
            let Some(at) = at.checked_sub(1) else { return };
            let Some(mut position) = self.position_in(at, *cursor, wall_ns) else { return };
            let is_at_end = self.read_segment(at, &mut position, out);
            *cursor = position.cursor;
            let behind = self.segments.get(at + 1).map(|next| (next.first, next.begin_wall_ns));
            match (is_at_end, behind) {
                (true, Some((first, begin_wall_ns))) => {
                    out.hole(&position, first, begin_wall_ns, self.progress.acked);
                    // A hole that was given out ends there: the next one is another.
                    wall_ns = if position.cursor < first { begin_wall_ns } else { position.wall_ns };
                    *cursor = first.max(*cursor);
                }
                (_, behind) => {
                    if position.is_broken && behind.is_none() {
                        // The next snapshot begins a segment: reading continues there.
                        self.is_open = false;
                    }
                    if self.progress.positions.len() >= MAX_POSITIONS {
                        self.progress.positions.pop_front();
                    }
                    self.progress.positions.push_back(position);
                    return;
                }
            }
        }
    }
}

impl SpoolPosition {
    /// A read failed: whether the rest of the segment is lost by it, just as damage loses it. What a receiver acknowledges is deleted, so
    /// reading is tried again first: too few descriptors, or a disk that fails once, damage nothing. `next`: number of the next snapshot.
    fn is_lost(&mut self, error: &io::Error, segment: &Path, next: u64) -> bool {
        let is_first = self.failed_at == 0;
        if is_first {
            self.failed_at = next;
        }
        let held_up = next.saturating_sub(self.failed_at);
        let is_lost = error.kind() == io::ErrorKind::NotFound || held_up >= MAX_HELD_UP;
        if is_first || (is_lost && !self.is_broken) {
            let effect = if is_lost { "what was not sent of it is lost" } else { "it is tried again" };
            log::warn!("cannot read {}: {error}; {effect}", segment.display());
        }
        self.is_broken |= is_lost;
        is_lost
    }
}

/// The records read so far; full at `most` bytes.
struct Out<'a> {
    records: &'a mut Vec<NumberedRecord>,
    bytes: usize,
    most: usize,
}

impl Out<'_> {
    fn is_full(&self) -> bool {
        self.bytes >= self.most
    }

    fn push(&mut self, number: u64, record: Vec<u8>) {
        self.bytes += record.len();
        self.records.push((number, record));
    }

    fn gap(&mut self, gap: &Gap) {
        let mut record = Vec::new();
        push_gap(&mut record, gap);
        self.push(gap.last, record);
    }

    /// The numbers from a place up to `behind` cannot be read. If a receiver has them all, an empty hole is given out: the interval that
    /// ends with `behind` has nothing to be compared with, and must not be missed in silence.
    fn hole(&mut self, position: &SpoolPosition, behind: u64, wall_ns: i64, acked: u64) {
        let last = behind.saturating_sub(1);
        let first = position.cursor.max(acked + 1);
        if position.cursor <= last && behind > acked {
            let begin_wall_ns = if position.wall_ns == 0 { wall_ns } else { position.wall_ns };
            self.gap(&Gap { first, last, begin_wall_ns, end_wall_ns: wall_ns, reason: GapReason::Damaged });
        }
    }
}

/// Gives out the records of a piece that are due; how many bytes were read.
fn read_piece(piece: &[u8], position: &mut SpoolPosition, acked: u64, out: &mut Out<'_>) -> usize {
    let mut records = Records::within(piece);
    loop {
        let begin = records.offset();
        if out.is_full() {
            return begin;
        }
        let step = records.step();
        let bytes = piece.get(begin..records.offset()).unwrap_or_default();
        match step {
            Step::Entry(Entry::Snapshot(snapshot)) if snapshot.number < position.cursor => {
                position.wall_ns = snapshot.wall_ns;
            }
            Step::Entry(Entry::Snapshot(snapshot)) => {
                // A jump of the numbers: the snapshot before this one is missing, so only a full one can
                // follow.
                position.is_broken |= snapshot.number > position.cursor;
                if position.is_broken && !snapshot.is_full {
                    continue;
                }
                out.hole(position, snapshot.number, snapshot.wall_ns, acked);
                out.push(snapshot.number, bytes.to_vec());
                (position.cursor, position.wall_ns) = (snapshot.number + 1, snapshot.wall_ns);
                position.is_broken = false;
            }
            Step::Entry(Entry::Gap(gap)) if gap.last >= position.cursor => {
                out.hole(position, gap.first, gap.begin_wall_ns, acked);
                out.push(gap.last, bytes.to_vec());
                (position.cursor, position.wall_ns) = (gap.last + 1, gap.end_wall_ns);
                position.is_broken = true;
            }
            Step::Entry(_) => {}
            // What was given out before needs not be read again.
            Step::Damaged(damaged) => {
                position.is_broken |= damaged.number.is_none_or(|number| number >= position.cursor);
            }
            Step::End { .. } => return begin,
        }
    }
}

impl Backlog for Spool {
    fn id(&self) -> [u8; 16] {
        self.id
    }

    fn next(&self) -> u64 {
        self.next
    }

    fn wants_full(&self) -> bool {
        Self::wants_full(self)
    }

    fn append(&mut self, is_full: bool, wall_ns: i64, frames: &Datagrams) -> u64 {
        let number = self.next;
        // `Spool::append` counts a lost snapshot.
        let _ = Self::append(self, wall_ns, is_full, frames.as_slice());
        number
    }

    fn start(&self) -> u64 {
        let acked = self.progress.acked;
        let full = |segment: &SpoolSegment| {
            let known = segment.fulls.iter().rev().find(|full| full.0 <= acked).map(|full| full.0);
            known.or((segment.first <= acked).then_some(segment.first))
        };
        let oldest = self.segments.front().map_or(self.next, |segment| segment.first);
        // Without a base reading begins behind `acked`, so that the hole there is reported.
        self.segments.iter().rev().find_map(full).unwrap_or_else(|| oldest.min(acked.max(1)))
    }

    fn read(&mut self, cursor: &mut u64, max_bytes: usize, out: &mut Vec<NumberedRecord>) {
        self.read_on(cursor, &mut Out { records: out, bytes: 0, most: max_bytes });
    }

    fn ack(&mut self, number: u64) {
        let number = number.min(self.next.saturating_sub(1));
        if number <= self.progress.acked {
            return;
        }
        self.progress.acked = number;
        self.pass_hole();
        self.forget_unwritten(number);
        self.forget_acked();
    }

    fn counts(&self) -> BacklogCounts {
        let (acked, status) = (self.progress.acked, &self.status);
        BacklogCounts {
            waiting: (self.next - 1).saturating_sub(acked).saturating_sub(self.missing()),
            waiting_bytes: status.bytes,
            lost: status.lost + status.dropped,
            acked,
            written_bytes: status.written_bytes,
        }
    }
}
