//! [`Channels`]: the records in flight on one connection, live ones before the backlog. It decides what must be sent again after
//! a connection broke.

use std::collections::VecDeque;

use cpumon_wire::connection::{ChannelKind, MESSAGE_HEADER_BYTES, Message, PACKED_VERSION};
use cpumon_wire::packed::Packer;
use cpumon_wire::spool::{Entry, decode_record};

use crate::backlog::{Backlog, NumberedRecord};

/// A backlog of at most this many snapshots is sent before the present one instead of beside it.
const SMALL_BACKLOG: u64 = 5;
/// Bytes that are read from the backlog at once.
const READ_BYTES: usize = 64 << 10;
/// No more is queued while so much waits for the socket.
const OUTBOX_BYTES: usize = 64 << 10;

const RECORD_MESSAGE_BYTES: usize = MESSAGE_HEADER_BYTES + 4;

/// A sequence of records with ascending numbers, live or backfilled.
#[derive(Debug)]
struct Channel {
    id: u32,
    /// Number of the next record to read.
    cursor: u64,
    /// Number of the last record that belongs to it; `None`: no end.
    last: Option<u64>,
    committed: u64,
    /// What the receiver knows of the channel, if it takes packed records.
    packer: Option<Box<Packer>>,
}

/// Records that the receiver has not taken in yet.
#[derive(Copy, Clone, Debug)]
struct UnderWay {
    channel: u32,
    number: u64,
    bytes: usize,
}

/// The channels of a connection, and the records that are not acknowledged yet.
#[derive(Debug)]
pub(super) struct Channels {
    window: usize,
    under_way: VecDeque<UnderWay>,
    past: Option<Channel>,
    live: Option<Channel>,
    next_id: u32,
    /// A full snapshot of this number or later begins the live channel.
    live_from: u64,
    read: Vec<NumberedRecord>,
    packed: Vec<u8>,
    version: u16,
    pub(super) records: u64,
}

impl Channels {
    /// Begins where a receiver must that knows nothing. `version`: that both sides speak; `window_bytes`: unacknowledged bytes that the
    /// receiver allows. True: the next snapshot should be a full one.
    pub(super) fn begin(
        backlog: &dyn Backlog,
        version: u16,
        window_bytes: u32,
        out: &mut Vec<u8>,
    ) -> (Self, bool) {
        let waiting = backlog.next().saturating_sub(1).saturating_sub(backlog.counts().acked);
        let mut channels = Self {
            // At least 1: with 0 not even one live record would go.
            window: usize::try_from(window_bytes).unwrap_or(usize::MAX).max(1),
            under_way: VecDeque::new(),
            past: None,
            live: None,
            next_id: 1,
            live_from: backlog.next(),
            read: Vec::new(),
            packed: Vec::new(),
            version,
            records: 0,
        };
        // A few snapshots go before the present: a second channel would cost a full snapshot.
        let is_small = waiting <= SMALL_BACKLOG;
        let kind = if is_small { ChannelKind::Live } else { ChannelKind::Backfill };
        let channel = channels.open(kind, backlog.start(), out);
        if is_small {
            channels.live = Some(channel);
        } else {
            channels.past = Some(channel);
        }
        (channels, !is_small)
    }

    fn open(&mut self, kind: ChannelKind, cursor: u64, out: &mut Vec<u8>) -> Channel {
        let id = self.next_id;
        self.next_id += 1;
        Message::Begin { channel: id, kind }.push(out);
        let packer = (self.version >= PACKED_VERSION).then(Box::default);
        Channel { id, cursor, last: None, committed: 0, packer }
    }

    /// Queues what may go now. `last_full`: number of the newest full snapshot.
    pub(super) fn fill(&mut self, backlog: &mut dyn Backlog, last_full: u64, out: &mut Vec<u8>) {
        // Only a full snapshot that was made since the connection began: an older one belongs to the past.
        if self.live.is_none() && last_full >= self.live_from && last_full < backlog.next() {
            let live = self.open(ChannelKind::Live, last_full, out);
            if let Some(past) = &mut self.past {
                // The first snapshot of a channel ends no interval there: it belongs to the past as well.
                past.last = Some(last_full);
            }
            self.live = Some(live);
        }
        // The present first: the past gets the rest of the outbox and of the window.
        for kind in [ChannelKind::Live, ChannelKind::Backfill] {
            while out.len() < OUTBOX_BYTES && self.has_space(kind) && self.queue(kind, backlog, out) {}
        }
    }

    /// The past may use half of the window only, so that the present never waits for it.
    fn has_space(&self, kind: ChannelKind) -> bool {
        let bytes = |channel: Option<&Channel>| {
            let of_channel =
                self.under_way.iter().filter(|one| channel.is_some_and(|channel| channel.id == one.channel));
            of_channel.map(|one| one.bytes).sum::<usize>()
        };
        match kind {
            ChannelKind::Live => bytes(self.live.as_ref()) + bytes(self.past.as_ref()) < self.window,
            ChannelKind::Backfill => bytes(self.past.as_ref()) < self.window / 2,
        }
    }

    fn queue(&mut self, kind: ChannelKind, backlog: &mut dyn Backlog, out: &mut Vec<u8>) -> bool {
        let channel = match kind {
            ChannelKind::Live => self.live.as_mut(),
            ChannelKind::Backfill => self.past.as_mut(),
        };
        let Some(channel) = channel.filter(|channel| channel.last.is_none_or(|last| channel.cursor <= last))
        else {
            return false;
        };
        self.read.clear();
        backlog.read(&mut channel.cursor, READ_BYTES, &mut self.read);
        let is_any = !self.read.is_empty();
        for (number, record) in self.read.drain(..) {
            if let Some(last) = channel.last.filter(|last| number > *last) {
                // What was read beyond the end is the other channel's; but a hole that swallowed the end ends this one.
                if !matches!(decode_record(&record), Some(Entry::Gap(gap)) if gap.first <= last) {
                    break;
                }
                channel.last = Some(number);
            }
            self.records += 1;
            self.packed.clear();
            let is_packed =
                channel.packer.as_mut().is_some_and(|packer| packer.pack(&record, &mut self.packed));
            if is_packed {
                Message::Packed { channel: channel.id, packed: &self.packed }.push(out);
            } else {
                Message::Record { channel: channel.id, record: &record }.push(out);
            }
            // The receiver unpacks them before they wait, so they count as long as they are.
            let bytes = record.len() + RECORD_MESSAGE_BYTES;
            self.under_way.push_back(UnderWay { channel: channel.id, number, bytes });
        }
        is_any
    }

    /// Takes an acknowledgement; gives the number up to which everything is on the receiver's disk, if that is news.
    pub(super) fn acked(&mut self, channel: u32, received: u64, committed: u64) -> Option<u64> {
        // Other channels have the same numbers, so the channel is part of the comparison.
        self.under_way.retain(|one| one.channel != channel || one.number > received);
        for one in [&mut self.past, &mut self.live].into_iter().flatten().filter(|one| one.id == channel) {
            // It must never go down: what was acknowledged is deleted.
            one.committed = one.committed.max(committed);
        }
        // The backlog deletes from its start, so while the past is sent only its acknowledgements count.
        let past = self.past.as_ref().map(|past| (past.committed, past.last));
        match past {
            Some((committed, Some(last))) if committed >= last => {
                self.past = None;
                self.live.as_ref().map(|live| live.committed.max(committed))
            }
            Some((committed, _)) => Some(committed),
            None => self.live.as_ref().map(|live| live.committed),
        }
    }

    pub(super) fn is_backfilling(&self) -> bool {
        self.past.is_some()
    }
}
