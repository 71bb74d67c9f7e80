//! The receiving thread turns datagrams into intervals for the [`Sink`] and counts for the [`ReceiverState`]. It waits for nothing but the
//! network.
//!
//! [`GroupKeys`] decides which datagrams can be read. In: the key file, checked each second. Out: the keys of the demux, and a file that
//! remembers which datagrams were taken, so that one recorded yesterday is refused today.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use cpumon_agent::Pulse;
use cpumon_files::DiskThread;
use cpumon_link::LinkError;
use cpumon_link::group::{GroupError, read_keys, read_memory, write_memory};
use cpumon_link::receiving::UdpReceiver;
use cpumon_query::status;
use cpumon_wire::encrypted::GroupKey;

use crate::demux::{Demux, DemuxOptions, RejectKind, SourceRate};
use crate::process::HeapWatch;
use crate::status::ReceiverState;
use crate::storing::Sink;
use crate::{ReceiverError, wall_ns};

/// How long one wait for datagrams lasts: an incomplete set is checked again after it.
const WAIT: Duration = Duration::from_millis(100);
/// Sets that wait are searched this often: that takes a walk over all hosts.
const FLUSH_EVERY: Duration = Duration::from_millis(20);
/// Counters and host states are handed to the frontends this often.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// A round of the receiving thread that takes longer counts as hung.
const HANGS: Duration = Duration::from_secs(20);

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

    /// Which datagrams are taken, in words.
    pub fn describe(&self) -> String {
        let open = match self.group_keys.allowed() {
            (true, true) => "hosts that report there are unauthenticated unless they encrypt",
            (true, false) => "v1 is taken, v2 only if it is encrypted",
            (false, true) => "plain v2 is taken too, v1 is refused",
            (false, false) => "what is not encrypted is refused (--allow-plain, --allow-v1)",
        };
        let keys = self.key_ids();
        match keys.is_empty() {
            true if self.group_keys.allowed() == (true, true) => {
                "hosts that report there are unauthenticated".to_owned()
            }
            true => format!("no group key; {open}"),
            false => format!("decrypting with group key {}; {open}", keys.join(", ")),
        }
    }

    fn key_ids(&self) -> Vec<String> {
        self.demux.decryptor.key_ids().map(|id| id.to_string()).collect()
    }

    /// Receives until `stop` is set.
    pub fn run(
        mut self,
        sink: &Sink,
        state: &ReceiverState,
        pulse: &Pulse,
        stop: &AtomicBool,
    ) -> Result<(), LinkError> {
        // From the memory file: a restart must not open these hosts to plain datagrams.
        self.demux.decryptor.hosts().for_each(|host| sink.note_encrypted(host));
        let (mut next_publish, mut next_flush) = (Instant::now(), Instant::now());
        let mut heap = HeapWatch::new(Instant::now());
        while !stop.load(Ordering::Relaxed) {
            pulse.beat(HANGS);
            let Self { receiver, demux, group_keys } = &mut self;
            let mut received = None;
            receiver.recv_batch(WAIT, &mut |datagram, from| {
                // The clocks are read once a batch: it is taken from the kernel in one call.
                let now = *received.get_or_insert_with(cpumon_agent::now);
                // A rejected datagram is counted by the demux, with its sender and the reason.
                let _ = demux.accept(datagram, from, now, &mut |status, interval| {
                    sink.take_received(status, interval);
                });
            })?;
            // Also while nothing arrives: the last snapshot of a host that went silent is given out, too.
            if Instant::now() >= next_flush {
                demux
                    .flush(cpumon_agent::now(), &mut |status, interval| sink.take_received(status, interval));
                next_flush = Instant::now() + FLUSH_EVERY;
            }
            group_keys.work(demux);
            if Instant::now() >= next_publish {
                self.publish(sink, state);
                sink.hub.forget_silent(wall_ns());
                heap.note(self.demux.held_bytes() + sink.hub.bytes());
                next_publish = Instant::now() + PUBLISH_EVERY;
            }
        }
        self.publish(sink, state);
        self.group_keys.finish(&self.demux);
        Ok(())
    }

    fn publish(&mut self, sink: &Sink, state: &ReceiverState) {
        let (accepts_v1, accepts_plain) = self.group_keys.allowed();
        let (totals, refused_claims) = (self.demux.totals(), sink.refused_claims());
        let mut rejected_for = totals.rejected_by_kind.status();
        if refused_claims > 0 {
            *rejected_for.entry(RejectKind::Host.name().to_owned()).or_default() += refused_claims;
        }
        let counters = status::Receiver {
            datagrams: totals.datagrams,
            bytes: totals.bytes,
            kernel_dropped: self.receiver.kernel_drops(),
            rejected: totals.rejected + refused_claims,
            receive_errors: self.receiver.receive_errors,
            rejected_by: self.demux.refusals.status(),
            rejected_for,
            opened: totals.opened,
            keys: self.key_ids(),
            accepts_plain,
            accepts_v1,
            intervals: totals.intervals,
            changed_names: totals.changed_names,
            rows_over_limit: totals.rows_over_limit,
            ended_unseen: totals.ended_unseen,
            tables: self.demux.tables(),
        };
        state.receiver.note(|shown| *shown = counters);
        sink.note_all(self.demux.hosts());
    }
}

/// How often files are checked and written.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Which keys open datagrams, and which unencrypted ones are taken.
#[derive(Clone, Debug, Default)]
pub struct KeyPlan {
    /// The key file; `None`: datagrams are never decrypted.
    pub keys: Option<PathBuf>,
    /// It must be there at the start: the user named it.
    pub needs_keys: bool,
    /// The file that remembers what was received, so that it is not taken a second time.
    pub memory: PathBuf,
    /// Whether to take plain v2; `None`: while there is no key.
    pub allow_plain: Option<bool>,
    /// Whether to take v1; `None`: while there is no key.
    pub allow_v1: Option<bool>,
}

/// The group keys in use, and the memory of what was received under them.
#[derive(Debug)]
pub struct GroupKeys {
    plan: KeyPlan,
    /// `None`: there is no key file.
    keys: Option<Vec<GroupKey>>,
    /// The key file cannot be used, and it was logged.
    has_failed: bool,
    next_check: Instant,
    written: u64,
    /// Receiving waits for no disk.
    writer: Option<DiskThread<String>>,
}

impl GroupKeys {
    /// Reads keys and memory into the demux.
    pub fn open(plan: KeyPlan, demux: &mut Demux) -> Result<Self, ReceiverError> {
        let mut group_keys = Self {
            plan,
            keys: None,
            has_failed: false,
            next_check: Instant::now() + CHECK_EVERY,
            written: 0,
            writer: None,
        };
        // Without the key that the user named, plain datagrams would be taken instead.
        if group_keys.plan.needs_keys
            && let Some(path) = &group_keys.plan.keys
        {
            read_keys(path).map_err(ReceiverError::GroupKeys)?;
        }
        group_keys.read_keys(demux);
        match read_memory(&group_keys.plan.memory) {
            Ok(Some(text)) => {
                let bad = demux.decryptor.recall(&text);
                if bad > 0 {
                    log::warn!("{bad} lines of {} cannot be read", group_keys.plan.memory.display());
                }
            }
            Ok(None) => {}
            Err(error) => log::warn!("{error}: what was received before may be sent again"),
        }
        Ok(group_keys)
    }

    /// Checks the key file now and then, and stores what was received.
    pub fn work(&mut self, demux: &mut Demux) {
        if Instant::now() < self.next_check {
            return;
        }
        self.next_check = Instant::now() + CHECK_EVERY;
        self.read_keys(demux);
        let opened = demux.decryptor.decrypted();
        // A busy writer is tried again in a second: the next text contains all of this one.
        if opened > self.written && self.put(demux.decryptor.memory()) {
            self.written = opened;
        }
    }

    /// Writes what was received since, and waits for it.
    pub fn finish(mut self, demux: &Demux) {
        // The writer has its last text on the disk before this one goes there.
        drop(self.writer.take());
        if demux.decryptor.decrypted() > 0
            && let Err(error) = write_memory(&self.plan.memory, &demux.decryptor.memory())
        {
            log::warn!("{error}: what was received before may be sent again to the next receiver");
        }
    }

    fn read_keys(&mut self, demux: &mut Demux) {
        match self.plan.keys.as_deref().map(read_keys) {
            None => self.keys = None,
            // There has never been a key, so that a first try on a subnet needs no configuration.
            Some(Err(GroupError::Missing(_))) if self.keys.is_none() => {}
            Some(Ok(keys)) => (self.keys, self.has_failed) = (Some(keys), false),
            Some(Err(error)) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    log::warn!("{error}; the keys before it stay in use");
                }
                // A file that cannot be used must not turn encryption off: without keys plain datagrams would be taken.
                self.keys.get_or_insert_default();
            }
        }
        let keys = self.keys.as_deref().unwrap_or_default();
        // Only on a change: `set_keys` checks every agent start that is remembered.
        if !keys.iter().map(GroupKey::id).eq(demux.decryptor.key_ids()) {
            demux.decryptor.set_keys(keys);
        }
        (demux.options.accept_v1, demux.options.accept_v2) = self.allowed();
    }

    /// Whether v1 and plain v2 are taken, in this order.
    pub fn allowed(&self) -> (bool, bool) {
        let allows = |given: Option<bool>| given.unwrap_or(self.keys.is_none());
        (allows(self.plan.allow_v1), allows(self.plan.allow_plain))
    }

    /// Hands a text to the writer; false: it is busy, or there is none.
    fn put(&mut self, text: String) -> bool {
        if self.writer.is_none() {
            let (path, mut has_failed) = (self.plan.memory.clone(), false);
            let write = move |text: String| {
                let failed = write_memory(&path, &text);
                if let Err(error) = &failed
                    && !has_failed
                {
                    log::warn!("{error}: what was received before may be sent again to the next receiver");
                }
                has_failed = failed.is_err();
            };
            // One text may wait, because each one contains those before it.
            let thread = Builder::new().name("key memory".to_owned());
            self.writer = DiskThread::start(thread, "remembers datagrams", 1, write)
                .inspect_err(|error| log::warn!("cannot start the thread that remembers datagrams: {error}"))
                .ok();
        }
        self.writer.as_ref().is_some_and(|writer| writer.try_put(text))
    }
}

#[cfg(test)]
mod tests {
    use cpumon_link::group::add_key;

    use super::*;

    #[test]
    fn a_key_file_that_vanishes_leaves_plain_datagrams_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("group.keys");
        let plan = KeyPlan {
            keys: Some(path.clone()),
            memory: dir.path().join("sealed.heard"),
            ..KeyPlan::default()
        };
        let mut demux = Demux::new(DemuxOptions::default());
        let mut group_keys = GroupKeys::open(plan, &mut demux).unwrap();
        assert_eq!(group_keys.allowed(), (true, true), "there has never been a key");
        let key = add_key(&path).unwrap();
        group_keys.read_keys(&mut demux);
        assert_eq!(group_keys.allowed(), (false, false));
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        group_keys.read_keys(&mut demux);
        assert_eq!(group_keys.allowed(), (false, false));
        assert!(demux.decryptor.key_ids().eq([key.id()]), "its devices are still understood");
    }
}
