//! The receiving thread: datagrams become intervals for the [`Sink`] and counts for the [`State`]. It waits
//! for nothing but the network.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_agent::Pulse;
use cpumon_link::LinkError;
use cpumon_link::receiving::UdpReceiver;
use cpumon_query::status;

use super::group_keys::{GroupKeys, KeyPlan};
use crate::ReceiverError;
use crate::clock;
use crate::demux::{Demux, DemuxOptions, RejectCounts, RejectKind, SourceRate, TableUse};
use crate::heap::HeapWatch;
use crate::sources::other_sources;
use crate::status::State;
use crate::storing::Sink;

/// How long one wait for datagrams lasts: an incomplete set is checked again after it.
const WAIT: Duration = Duration::from_millis(100);
/// Sets that wait are searched this often: that takes a walk over all hosts.
const FLUSH_EVERY: Duration = Duration::from_millis(20);
/// Counters and host states are handed to the frontends this often.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// A round that takes longer than this hangs.
const HANGS: Duration = Duration::from_secs(20);
/// Senders of rejected datagrams that frontends see, most rejects first.
const SHOWN_REJECTS: usize = 64;

/// A receiving thread that is ready to run.
pub struct Receiving {
    receiver: UdpReceiver,
    demux: Demux,
    group_keys: GroupKeys,
}

impl Receiving {
    /// With the keys of the plan; each source may send at `source_rate`.
    ///
    /// # Errors
    /// The keys that the user named cannot be used.
    pub fn open(
        receiver: UdpReceiver,
        plan: &KeyPlan,
        source_rate: Option<SourceRate>,
    ) -> Result<Self, ReceiverError> {
        let limits_cpu_time = source_rate.is_some();
        let mut demux = Demux::new(DemuxOptions { source_rate, limits_cpu_time, ..DemuxOptions::default() });
        let group_keys = GroupKeys::open(plan.clone(), &mut demux)?;
        Ok(Self { receiver, demux, group_keys })
    }

    /// What it takes, in words.
    pub fn describe(&self) -> String {
        let keys: Vec<String> = self.demux.key_ids().map(|id| id.to_string()).collect();
        let open = match self.group_keys.allowed() {
            (true, true) => "hosts that report there are unauthenticated unless they encrypt",
            (true, false) => "v1 is taken, v2 only if it is encrypted",
            (false, true) => "plain v2 is taken too, v1 is refused",
            (false, false) => "what is not encrypted is refused (--allow-plain, --allow-v1)",
        };
        match keys.is_empty() {
            true if self.group_keys.allowed() == (true, true) => {
                "hosts that report there are unauthenticated".to_owned()
            }
            true => format!("no group key; {open}"),
            false => format!("decrypting with group key {}; {open}", keys.join(", ")),
        }
    }
}

/// Receives until `stop` is set.
pub fn run(
    receiving: Receiving,
    sink: &Sink,
    state: &State,
    pulse: &Pulse,
    stop: &AtomicBool,
) -> Result<(), LinkError> {
    let Receiving { mut receiver, mut demux, mut group_keys } = receiving;
    // From the memory file: a restart must not open these hosts to plain datagrams.
    demux.encrypted_hosts().for_each(|host| sink.note_encrypted(host));
    let (mut next_publish, mut next_flush) = (Instant::now(), Instant::now());
    let mut heap = HeapWatch::new(Instant::now());
    while !stop.load(Ordering::Relaxed) {
        pulse.beat(HANGS);
        let mut received = None;
        receiver.recv_batch(WAIT, &mut |datagram, from| {
            // The clocks are read once a batch: it is taken from the kernel in one call.
            let now = *received.get_or_insert_with(clock::now);
            // A rejected datagram is counted by the demux, with its sender and the reason.
            let _ = demux.accept(datagram, from, now, &mut |status, interval| {
                sink.take_received(status, interval);
            });
        })?;
        // Also while nothing arrives: the last snapshot of a host that went silent is given out, too.
        if Instant::now() >= next_flush {
            demux.flush(clock::now(), &mut |status, interval| sink.take_received(status, interval));
            next_flush = Instant::now() + FLUSH_EVERY;
        }
        group_keys.work(&mut demux);
        if Instant::now() >= next_publish {
            publish(&mut receiver, &demux, &group_keys, sink, state);
            sink.forget_silent();
            heap.note(demux.table_use().held_bytes + sink.bytes_in_memory());
            next_publish = Instant::now() + PUBLISH_EVERY;
        }
    }
    publish(&mut receiver, &demux, &group_keys, sink, state);
    group_keys.finish(&demux);
    Ok(())
}

fn publish(receiver: &mut UdpReceiver, demux: &Demux, group_keys: &GroupKeys, sink: &Sink, state: &State) {
    let (accepts_v1, accepts_plain) = group_keys.allowed();
    let totals = demux.totals();
    let mut rejected_for = by_kind(&totals.rejected_by_kind);
    if sink.refused_claims() > 0 {
        *rejected_for.entry(RejectKind::Host.name().to_owned()).or_default() += sink.refused_claims();
    }
    state.put_receiver(status::Receiver {
        datagrams: totals.datagrams,
        bytes: totals.bytes,
        kernel_dropped: receiver.kernel_drops(),
        rejected: totals.rejected + sink.refused_claims(),
        receive_errors: receiver.receive_errors(),
        rejected_by: rejects(demux, totals.rejected_elsewhere),
        rejected_for,
        opened: totals.opened,
        keys: demux.key_ids().map(|id| id.to_string()).collect(),
        accepts_plain,
        accepts_v1,
        intervals: totals.intervals,
        changed_names: totals.changed_names,
        tables: tables(&demux.table_use()),
    });
    sink.note_all(demux.hosts());
}

fn tables(in_use: &TableUse) -> status::Tables {
    status::Tables {
        plain_hosts: in_use.plain_hosts as u64,
        encrypted_hosts: in_use.encrypted_hosts as u64,
        v1_hosts: in_use.v1_hosts as u64,
        max_hosts: in_use.max_hosts as u64,
        held_bytes: in_use.held_bytes as u64,
    }
}

fn by_kind(counts: &RejectCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect()
}

fn rejects(demux: &Demux, elsewhere: u64) -> Vec<status::Rejects> {
    let mut senders: Vec<_> = demux.rejected_senders().collect();
    senders.sort_by_key(|sender| (std::cmp::Reverse(sender.datagrams), sender.source));
    let others = elsewhere + senders.iter().skip(SHOWN_REJECTS).map(|sender| sender.datagrams).sum::<u64>();
    let shown = senders.iter().take(SHOWN_REJECTS).map(|sender| status::Rejects {
        source: sender.source.to_string(),
        count: sender.datagrams,
        by_kind: by_kind(&sender.by_kind),
        reason: sender.last_reason.to_string(),
    });
    shown.chain(other_sources(others)).collect()
}
