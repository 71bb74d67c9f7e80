//! [`Device`]: what a connection keeps of its device, and how packed records are taken.

use std::time::Instant;

use cpumon_model::limits::Bucket;
use cpumon_wire::connection::ByeReason;
use cpumon_wire::packed::Unpacker;

use super::ending::{End, bye};
use super::handler::{Session, Watch};
use crate::clock::mono_ns;

/// A buffer for records keeps so many bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Channels of one connection that may come packed, the past and the present; an older one gives way.
const MAX_PACKED_CHANNELS: usize = 2;

/// One connected device.
pub(super) struct Device {
    pub(super) session: Box<dyn Session>,
    pub(super) bucket: Bucket,
    pub(super) counted_bytes: u64,
    pub(super) received_at: Instant,
    /// Of channels whose records come packed, what came before; begun with the channel.
    unpackers: Vec<(u32, Box<Unpacker>)>,
    record: Vec<u8>,
}

impl Device {
    pub(super) fn new(session: Box<dyn Session>, bucket: Bucket) -> Self {
        let received_at = Instant::now();
        Self { session, bucket, counted_bytes: 0, received_at, unpackers: Vec::new(), record: Vec::new() }
    }

    pub(super) fn begin(&mut self, channel: u32) {
        if self.unpackers.len() >= MAX_PACKED_CHANNELS {
            self.unpackers.remove(0);
        }
        self.unpackers.push((channel, Box::default()));
    }

    /// A packed record. It costs the device as much as if it came as it is.
    pub(super) fn unpack(&mut self, channel: u32, packed: &[u8], watch: Watch<'_>) -> Result<(), End> {
        let Some((_, unpacker)) = self.unpackers.iter_mut().find(|known| known.0 == channel) else {
            return Err(bye(ByeReason::Protocol, "a record of no channel"));
        };
        let mut ended = None;
        let mut goes_on = || {
            ended = watch().err();
            ended.is_none()
        };
        let unpacked = unpacker.unpack_while(packed, &mut self.record, &mut goes_on);
        let cost = match (unpacked, ended) {
            (_, Some(refusal)) => return Err(End::Bye(refusal)),
            (Err(error), None) => return Err(bye(ByeReason::Protocol, &error.to_string())),
            (Ok(cost), None) => cost,
        };
        // The bytes on the wire are counted already; the rest is what unpacking costs beyond them.
        self.bucket.spend(cost.saturating_sub(packed.len() as u64), mono_ns());
        let taken = self.session.record(channel, &self.record, watch).map_err(End::Bye);
        // A full snapshot comes seldom.
        self.record.clear();
        self.record.shrink_to(KEPT_BYTES);
        taken
    }
}
