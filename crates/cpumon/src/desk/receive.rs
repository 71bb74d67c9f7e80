//! The receiving thread. In: datagrams. Out: intervals to the [`Sink`], counts to the [`State`]. It waits for nothing but the
//! network.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_link::UdpReceiver;
use cpumon_web::api;
use cpumon_wire::{Demux, DemuxOptions};

use super::sink::Sink;
use super::state::State;
use crate::clock;

/// How long one wait for datagrams lasts: the time after which an incomplete set is looked at again.
const WAIT: Duration = Duration::from_millis(100);
/// Counters and host states are handed to the faces this often.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Senders of rejected datagrams that faces see, most rejects first.
const SHOWN_REJECTS: usize = 64;

/// Receives until `stop` is set.
pub fn run(mut receiver: UdpReceiver, sink: &Sink, state: &State, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut demux = Demux::new(DemuxOptions::default());
    let mut next_publish = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let mut received = None;
        receiver.recv_batch(WAIT, &mut |datagram, from| {
            // One look at the clocks for a batch: it is taken from the kernel in one call.
            let now = *received.get_or_insert_with(clock::now);
            // A rejected datagram is counted by the demux, with its sender and the reason.
            let _ = demux.accept(datagram, from, now, &mut |status, interval| {
                sink.take_received(status, interval);
            });
        })?;
        demux.flush(clock::now(), &mut |status, interval| sink.take_received(status, interval));
        if Instant::now() >= next_publish {
            publish(&mut receiver, &demux, sink, state);
            next_publish = Instant::now() + PUBLISH_EVERY;
        }
    }
    publish(&mut receiver, &demux, sink, state);
    Ok(())
}

fn publish(receiver: &mut UdpReceiver, demux: &Demux, sink: &Sink, state: &State) {
    let totals = demux.totals();
    state.put_receiver(api::Receiver {
        datagrams: totals.datagrams,
        bytes: totals.bytes,
        kernel_dropped: receiver.kernel_drops(),
        rejected: totals.rejected,
        receive_errors: receiver.receive_errors(),
        rejected_by: rejects(demux, totals.rejected_elsewhere),
        intervals: totals.intervals,
    });
    demux.hosts().for_each(|status| sink.note(status));
}

fn rejects(demux: &Demux, elsewhere: u64) -> Vec<api::Rejects> {
    let mut senders: Vec<_> = demux.rejected_senders().collect();
    senders.sort_by_key(|sender| (std::cmp::Reverse(sender.datagrams), sender.address));
    let others = elsewhere + senders.iter().skip(SHOWN_REJECTS).map(|sender| sender.datagrams).sum::<u64>();
    let shown = senders.iter().take(SHOWN_REJECTS).map(|sender| api::Rejects {
        source: sender.address.to_string(),
        count: sender.datagrams,
        reason: sender.last_reason.to_string(),
    });
    let rest =
        (others > 0).then(|| api::Rejects { source: "others".into(), count: others, reason: String::new() });
    shown.chain(rest).collect()
}
