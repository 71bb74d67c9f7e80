//! [`DeviceSession`]: one connection of an enrolled device. The present goes to the hub and the store at once, the past to the store
//! when that has space.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cpumon_model::limits::{Bucket, Rate};
use cpumon_model::{BootId, ClockEstimate, ClockExchange, ClockWatch, HostId, HostStatus, Trust};
use cpumon_store::ReceiptRequest;
use cpumon_wire::connection::{ATTACHMENT_VERSION, ByeReason, ChannelKind, ClockReport, Message};

use super::channel::{Receipts, RecordChannel, RecordOutcome};
use super::server::DeviceMemory;
use super::{AbortCheck, End, bye};
use crate::demux::{MemoryLimits, Rejected};
use crate::storing::Sink;
use crate::traces::{OfferedTrace, SentTrace};
use crate::{lock, mono_ns};

/// Channels that a device may have open, and channels whose records may come packed: the past and the present. The oldest channel gives way
/// to a new one.
const MAX_CHANNELS: usize = 4;
const MAX_PACKED_CHANNELS: usize = 2;
/// Memory of old records that may wait to be taken in, bytes. A device that keeps to the window has less, one record more.
const MAX_WAITING_BYTES: usize = 2 << 20;
/// How long old records may be worked on before the connection is polled again.
const WORK_TIME: Duration = Duration::from_millis(20);
/// A store that failed is asked after this long whether it works again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Bytes that one device may send; more waits in its own socket.
const BYTES: Rate = Rate { amount: 16 << 20, seconds: 1, burst_ms: 4_000 };
/// Capacity that a buffer for records keeps, bytes.
const KEPT_BYTES: usize = 256 << 10;

/// A device that showed its certificate.
pub(super) struct DevicePeer {
    /// The machine that was enrolled: its records may speak for no other.
    pub(super) host: HostId,
    /// Hash of its public key.
    pub(super) key: [u8; 32],
    /// The welcome asked it to renew its certificate.
    pub(super) is_renewal_asked: bool,
    pub(super) address: SocketAddr,
    /// Protocol version that both sides speak.
    pub(super) version: u16,
}

pub(super) struct DeviceSession {
    host: HostId,
    address: SocketAddr,
    sink: Sink,
    memory: Arc<Mutex<DeviceMemory>>,
    channels: Vec<RecordChannel>,
    receipts: Arc<Receipts>,
    /// Number of the last put into the store's queue.
    puts: u64,
    /// Since when records are shown but not stored: they must come again.
    unstored_since: Option<Instant>,
    status: HostStatus,
    /// Comparisons of the device's time since boot with this receiver's clock, and what follows for that boot.
    watch: ClockWatch,
    estimate: Option<(BootId, ClockEstimate)>,
    /// `None`: this receiver stores no traces.
    pub(super) trace: Option<SentTrace>,
    refused: UnusableSnapshots,
    pub(super) bucket: Bucket,
    /// Bytes that came so far, and when the last did.
    received_bytes: u64,
    pub(super) received_at: Instant,
    /// Buffer for unpacking.
    record: Vec<u8>,
}

/// Snapshots that were acknowledged and then could not be used.
#[derive(Default)]
struct UnusableSnapshots {
    /// Snapshots refused since the last report.
    news: u64,
    all: u64,
    reason: String,
}

impl UnusableSnapshots {
    fn note(&mut self, host: HostId, rejected: &Rejected) {
        (self.news, self.all) = (self.news + 1, self.all + 1);
        self.reason = rejected.fault();
        // A device that sends a snapshot a second must not fill the log.
        if self.all.is_power_of_two() {
            let Self { all, reason, .. } = self;
            log::error!(
                "{all} snapshots of host {host} on this connection cannot be used, and are lost; the last: {reason}"
            );
        }
    }
}

impl DeviceSession {
    pub(super) fn new(peer: &DevicePeer, sink: Sink, memory: Arc<Mutex<DeviceMemory>>) -> Self {
        // An agent in a container has this machine's id: its traces belong to the host that its intervals belong to.
        let host = sink.host_of_enrolled(peer.host, peer.address);
        let knows_requests = peer.version >= ATTACHMENT_VERSION;
        let trace = sink.traces.as_ref().map(|traces| SentTrace::new(traces.clone(), host, knows_requests));
        Self {
            host: peer.host,
            address: peer.address,
            sink,
            memory,
            channels: Vec::new(),
            receipts: Arc::default(),
            puts: 0,
            unstored_since: None,
            status: HostStatus::default(),
            watch: ClockWatch::default(),
            estimate: None,
            trace,
            refused: UnusableSnapshots::default(),
            bucket: Bucket::new(BYTES),
            received_bytes: 0,
            received_at: Instant::now(),
            record: Vec::new(),
        }
    }

    /// Counts what the connection brought, given all bytes so far; returns how many are new.
    pub(super) fn note_bytes(&mut self, received: u64) -> u64 {
        let new = received - std::mem::replace(&mut self.received_bytes, received);
        if new > 0 {
            self.received_at = Instant::now();
            self.bucket.spend(new, mono_ns());
        }
        new
    }

    /// How far the device's wall clock is ahead of the time line of its intervals, ns.
    fn shift_ns(&self) -> i64 {
        self.sink.lines.shift_ns(self.host).unwrap_or_else(|| lock(&self.memory).shift_ns())
    }

    /// Takes one record in, of the channel at this place.
    fn take(&mut self, at: usize, record: &[u8], watch: AbortCheck<'_>) -> Result<(), End> {
        // One limit for all channels of the device, whatever it sends on which.
        let held: usize = self.channels.iter().map(RecordChannel::held).sum();
        let Some(channel) = self.channels.get_mut(at) else { return Ok(()) };
        let others = held - channel.held();
        channel.limit_memory(MemoryLimits::ENROLLED.host.saturating_sub(others));
        let kind = channel.kind;
        let (sink, receipts, status) = (&self.sink, &self.receipts, &mut self.status);
        let (puts, unstored_since, estimate) = (&mut self.puts, &mut self.unstored_since, self.estimate);
        let (refused, host) = (&mut self.refused, self.host);
        let mut memory = lock(&self.memory);
        memory.loss.datagrams += 1;
        memory.loss.bytes += record.len() as u64;
        let mut out = |outcome: RecordOutcome<'_>| {
            // Provisional: the number is used up only if the queue takes the put.
            let put = *puts + 1;
            let receipt = ReceiptRequest { receipt: Arc::clone(receipts) as _, number: put };
            let is_taken = match outcome {
                RecordOutcome::Interval(seen, interval) => {
                    // What was shown before comes again after a cut: the store knows it, and it is not shown twice.
                    let is_live = kind == ChannelKind::Live && memory.shows(interval);
                    memory.loss.snapshots += 1;
                    status.clone_from(seen);
                    status.trust = Trust::Authenticated;
                    status.loss = memory.loss;
                    status.clock = memory.clock;
                    // Of another boot than the one that is connected only the wall clock is known.
                    let estimate = match estimate {
                        Some((boot, estimate)) if boot == interval.boot => Some(estimate),
                        _ => memory.clock.and_then(|clock| ClockEstimate::as_off_now(&clock, &interval.end)),
                    };
                    let receipt = unstored_since.is_none().then_some(receipt);
                    sink.take_enrolled(status, interval, estimate, is_live, receipt)
                }
                RecordOutcome::Gap(gap, rejected) => {
                    let mut reason = gap.reason.words().to_owned();
                    if let Some(rejected) = rejected {
                        memory.loss.rejected += 1;
                        refused.note(host, &rejected);
                        reason = format!("{reason}: {}", rejected.fault());
                    }
                    memory.count_gap(&gap);
                    let gap = cpumon_store::Gap {
                        begin_wall_ns: gap.begin_wall_ns,
                        end_wall_ns: gap.end_wall_ns,
                        wall_shift_ns: memory.shift_ns(),
                        intervals: gap.count(),
                        reason,
                    };
                    unstored_since.is_none() && sink.take_gap(host, gap, receipt)
                }
            };
            if is_taken {
                *puts = put;
            } else if unstored_since.is_none() {
                // From the first record that the queue refuses on, records are only shown: acknowledging a later one would
                // acknowledge this one too, and the device would forget it.
                *unstored_since = Some(Instant::now());
            }
            // What was not put is never committed.
            if is_taken { put } else { u64::MAX }
        };
        let taken = channel.take(record, cpumon_agent::now(), watch, &mut out);
        if matches!(taken, Err(End::Bye(ByeReason::Protocol, _))) {
            memory.loss.rejected += 1;
        }
        taken
    }

    /// Takes records of the past in, as long as the store has space and there is time.
    fn catch_up(&mut self, watch: AbortCheck<'_>) -> Result<(), End> {
        let end = Instant::now() + WORK_TIME;
        for at in 0..self.channels.len() {
            // Live data of all devices share this queue, so the past fills at most half of the space for trusted hosts.
            while self.sink.has_ample_space() && Instant::now() < end {
                let Some(record) = self.channels.get_mut(at).and_then(RecordChannel::next_waiting) else {
                    break;
                };
                self.take(at, &record, watch)?;
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, channel: u32, kind: ChannelKind) -> Result<(), End> {
        // Numbers only grow, so that one can be recognised as used even after its channel gave way.
        if self.channels.last().is_some_and(|last| last.id >= channel) {
            return Err(bye(ByeReason::Protocol, "a channel begins a second time"));
        }
        if self.channels.len() >= MAX_CHANNELS {
            self.channels.remove(0);
        }
        self.channels.push(RecordChannel::new(channel, kind, self.host, self.address));
        for channel in self.channels.iter_mut().rev().skip(MAX_PACKED_CHANNELS) {
            channel.unpacker = None;
        }
        Ok(())
    }

    pub(super) fn record(&mut self, channel: u32, record: &[u8], watch: AbortCheck<'_>) -> Result<(), End> {
        let Some(at) = self.channels.iter().position(|known| known.id == channel) else {
            return Err(bye(ByeReason::Protocol, "a record of no channel"));
        };
        let channel = &mut self.channels[at];
        #[cfg(test)]
        super::tests::Observed::record(&self.memory, channel.kind, record, watch)?;
        if channel.kind == ChannelKind::Live {
            return self.take(at, record, watch);
        }
        // Off the window only when it is taken in; who sends more all the same does not fill this memory.
        if !channel.keep(record, MAX_WAITING_BYTES) {
            let text = "more records of the past than the window allows";
            return Err(bye(ByeReason::Protocol, text));
        }
        Ok(())
    }

    /// A packed record. It costs the device as much as if it came as it is.
    pub(super) fn unpack(&mut self, channel: u32, packed: &[u8], watch: AbortCheck<'_>) -> Result<(), End> {
        let known = self.channels.iter_mut().find(|known| known.id == channel);
        let Some(unpacker) = known.and_then(|known| known.unpacker.as_mut()) else {
            return Err(bye(ByeReason::Protocol, "a record of no channel"));
        };
        let mut ended = None;
        let mut goes_on = || {
            ended = watch().err();
            ended.is_none()
        };
        let mut record = std::mem::take(&mut self.record);
        let unpacked = unpacker.unpack_while(packed, &mut record, &mut goes_on);
        if let Some(end) = ended {
            return Err(end);
        }
        let cost = unpacked.map_err(|error| bye(ByeReason::Protocol, &error.to_string()))?;
        // The bytes on the wire are counted already; the rest is what unpacking costs beyond them.
        self.bucket.spend(cost.saturating_sub(packed.len() as u64), mono_ns());
        let taken = self.record(channel, &record, watch);
        // A full snapshot comes seldom.
        record.clear();
        record.shrink_to(KEPT_BYTES);
        self.record = record;
        taken
    }

    /// The device compared its clock with this receiver's, which was `wall_ns` when the report came.
    pub(super) fn clock(&mut self, report: ClockReport, wall_ns: i64) {
        let ClockReport { offset_ns, round_trip_ns, boot } = report;
        let mut memory = lock(&self.memory);
        #[cfg(test)]
        memory.observed.clocks.lock().unwrap().push(report);
        let known = memory.watch.take(ClockExchange { wall_ns, offset_ns, round_trip_ns });
        memory.clock = Some(known);
        if let Some(report) = boot {
            let boot = BootId(report.boot);
            // The time since boot begins again with each boot: comparisons of two boots cannot be combined.
            if self.estimate.is_some_and(|known| known.0 != boot) {
                self.watch = ClockWatch::default();
            }
            let exchange = ClockExchange { wall_ns, offset_ns: report.offset_ns, round_trip_ns };
            self.estimate = Some((boot, ClockEstimate::measured(&self.watch.take(exchange))));
        }
    }

    /// The device offers a trace; [`DeviceSession::work`] answers. `wall_ns`: time of the event that it shows, on the device's clock.
    pub(super) fn offer(
        &mut self,
        number: u32,
        hash: [u8; 32],
        bytes: u64,
        wall_ns: i64,
        reason: &str,
    ) -> Result<(), End> {
        let shift_ns = self.shift_ns();
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let wall_ns = wall_ns.saturating_sub(shift_ns);
        let (host, reason) = (trace.host, reason.to_owned());
        trace.offer(number, OfferedTrace { host, hash, bytes, wall_ns, shift_ns, reason })
    }

    /// Snapshots that could not be used since the last call: how many, and why the last one.
    pub(super) fn take_refused(&mut self) -> Option<(u64, String)> {
        let count = std::mem::take(&mut self.refused.news);
        (count > 0).then(|| (count, self.refused.reason.clone()))
    }

    /// Takes in what waits, and acknowledges. Called often. True: there is more, call again soon.
    pub(super) fn work(&mut self, answers: &mut Vec<u8>, watch: AbortCheck<'_>) -> Result<bool, End> {
        self.catch_up(watch)?;
        let is_sending = self.trace.as_mut().is_some_and(|trace| trace.work(answers));
        let stored = self.receipts.stored();
        for channel in &mut self.channels {
            if let Some((received, committed)) = channel.news(stored) {
                Message::Ack { channel: channel.id, received, committed }.push(answers);
            }
        }
        if self.receipts.has_failed() && self.unstored_since.is_none() {
            self.unstored_since = Some(Instant::now());
        }
        // The device begins its next connection behind the last acknowledged record, so the unstored records come again.
        if self.unstored_since.is_some_and(|since| since.elapsed() >= RETRY_AFTER) && self.sink.is_storing() {
            let text = "the store takes records again: send what is not acknowledged";
            return Err(bye(ByeReason::Resume, text));
        }
        Ok(is_sending || self.channels.iter().any(RecordChannel::is_waiting))
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuSample, CpuTimes, HostInfo, Interval, Snapshot};
    use cpumon_query::status;
    use cpumon_wire::Datagrams;
    use cpumon_wire::spool::push_snapshot;
    use cpumon_wire::v2::{Encoder, EncoderOptions};

    use super::*;
    use crate::hub::{Hub, HubOptions};

    fn session() -> DeviceSession {
        let hub =
            Hub::new(HubOptions::default(), Box::new(|_, _| Ok(None)), Box::new(status::Status::default));
        let sink = Sink::new(Arc::new(hub), None, None, None);
        let (host, address) = (HostId([1; 16]), ([10, 0, 0, 1], 1).into());
        let version = ATTACHMENT_VERSION;
        let peer = DevicePeer { host, key: [0; 32], is_renewal_asked: false, address, version };
        DeviceSession::new(&peer, sink, Arc::default())
    }

    #[test]
    fn a_damaged_record_ends_the_connection_and_is_counted() {
        let mut sound = Vec::new();
        assert!(push_snapshot(&mut sound, 7, 1, true, &[b"no frame".as_slice()]));
        for at in 0..sound.len() {
            let (mut session, mut record) = (session(), sound.clone());
            record[at] ^= 0x10;
            session.begin(1, ChannelKind::Live).unwrap();
            let end = session.record(1, &record, &mut || Ok(())).unwrap_err();
            assert!(matches!(end, End::Bye(ByeReason::Protocol, _)));
            assert_eq!(session.memory.lock().unwrap().loss.rejected, 1);
        }
        let mut session = session();
        assert!(session.record(1, &sound, &mut || Ok(())).is_err(), "of no channel");
        session.begin(1, ChannelKind::Live).unwrap();
        assert!(session.begin(1, ChannelKind::Live).is_err(), "a channel begins once");
        session.record(1, &sound, &mut || Ok(())).unwrap();
        assert!(session.record(1, &sound, &mut || Ok(())).is_err(), "numbers ascend");
        for channel in 2..50 {
            session.begin(channel, ChannelKind::Backfill).unwrap();
        }
        assert_eq!(session.channels.len(), MAX_CHANNELS);
    }

    #[test]
    fn a_snapshot_that_is_acknowledged_and_cannot_be_used_is_an_error_with_its_reason() {
        let host = HostInfo { host: HostId([1; 16]), ..HostInfo::default() };
        let mut cpu = CpuSample::default();
        cpu.times.steal_ns = CpuTimes::MAX_NS + 1;
        let snapshot = Snapshot { host: host.host, cpus: vec![cpu], ..Snapshot::default() };
        let (mut frames, mut record) = (Datagrams::new(), Vec::new());
        Encoder::new(EncoderOptions::default()).encode(&host, &snapshot, &Interval::default(), &mut frames);
        let frames: Vec<Vec<u8>> = frames.iter().cloned().collect();
        assert!(push_snapshot(&mut record, 7, 1, true, &frames));
        let mut session = session();
        session.begin(1, ChannelKind::Live).unwrap();
        session.record(1, &record, &mut || Ok(())).unwrap();
        let reason = "steal time of a CPU (column 71): a value out of range";
        assert_eq!(session.take_refused(), Some((1, reason.to_owned())));
        assert_eq!(session.take_refused(), None, "reported once");
        let loss = session.memory.lock().unwrap().loss;
        assert_eq!((loss.rejected, loss.snapshots_lost), (1, 1));
    }

    #[test]
    fn a_connection_that_ends_takes_no_more_frames() {
        let mut record = Vec::new();
        assert!(push_snapshot(&mut record, 7, 1, true, &vec![b"no frame".as_slice(); 50]));
        let (mut session, mut asked) = (session(), 0);
        session.begin(1, ChannelKind::Live).unwrap();
        let stopping = bye(ByeReason::Stopping, "");
        let mut watch = || {
            asked += 1;
            if asked < 5 { Ok(()) } else { Err(stopping.clone()) }
        };
        assert_eq!(session.record(1, &record, &mut watch), Err(stopping.clone()));
        assert_eq!((asked, session.memory.lock().unwrap().loss.rejected), (5, 0));
    }

    #[test]
    fn who_does_not_keep_to_the_window_is_cut_off() {
        let (mut session, mut bytes) = (session(), 0);
        session.begin(1, ChannelKind::Backfill).unwrap();
        let refused = (1..).find_map(|number| {
            let mut record = Vec::new();
            assert!(push_snapshot(&mut record, number, 1, true, &[vec![0; 10_000]]));
            bytes += record.len();
            session.record(1, &record, &mut || Ok(())).err()
        });
        assert!(matches!(refused.unwrap(), End::Bye(ByeReason::Protocol, _)));
        assert!((MAX_WAITING_BYTES..MAX_WAITING_BYTES + 30_000).contains(&bytes));
    }

    /// Only their bytes counted: one of 0 bytes takes memory, too.
    #[test]
    fn empty_records_fill_the_window() {
        let mut session = session();
        session.begin(1, ChannelKind::Backfill).unwrap();
        let refused = (0..100_000).find_map(|_| session.record(1, &[], &mut || Ok(())).err());
        assert!(matches!(refused, Some(End::Bye(ByeReason::Protocol, _))), "{refused:?}");
    }
}
