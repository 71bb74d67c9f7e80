//! [`GroupKeys`]: the group keys and what was received under them, on the receiving thread. In: the key file, checked each second.
//! Out: a demux that opens and refuses as it should; a file that remembers what was taken, so that a recording of yesterday
//! is refused today.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_link::group::{GroupError, read_keys, read_memory, write_memory};
use cpumon_wire::encrypted::GroupKey;

use crate::ReceiverError;
use crate::demux::Demux;

/// How often files are checked and written.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// What a receiver takes by datagram.
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
    writer: Option<Writer>,
}

impl GroupKeys {
    /// Reads keys and memory into the demux.
    ///
    /// # Errors
    /// The key file that the user named cannot be used.
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
                let bad = demux.recall(&text);
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
        let opened = demux.totals().opened;
        // A busy writer is tried again in a second: the next text contains all of this one.
        if opened > self.written && self.put(demux.memory()) {
            self.written = opened;
        }
    }

    /// Writes what was received since, and waits for it.
    pub fn finish(mut self, demux: &Demux) {
        // The writer has its last text on the disk before this one goes there.
        drop(self.writer.take());
        if demux.totals().opened > 0
            && let Err(error) = write_memory(&self.plan.memory, &demux.memory())
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
        if !keys.iter().map(GroupKey::id).eq(demux.key_ids()) {
            demux.set_keys(keys);
        }
        let (v1, plain) = self.allowed();
        demux.accept_plain(v1, plain);
    }

    /// Whether v1 and plain v2 are taken, in this order.
    pub fn allowed(&self) -> (bool, bool) {
        let allows = |given: Option<bool>| given.unwrap_or(self.keys.is_none());
        (allows(self.plan.allow_v1), allows(self.plan.allow_plain))
    }

    /// Hands a text to the writer; false: it is busy, or there is none.
    fn put(&mut self, text: String) -> bool {
        if self.writer.is_none() {
            let started = Writer::start(self.plan.memory.clone());
            self.writer = started
                .inspect_err(|error| log::warn!("cannot start the thread that remembers datagrams: {error}"))
                .ok();
        }
        self.writer.as_ref().is_some_and(|writer| writer.put(text))
    }
}

/// Writes on a thread of its own: receiving waits for no disk.
#[derive(Debug)]
struct Writer {
    texts: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(path: PathBuf) -> io::Result<Self> {
        // One text may wait, because each one contains those before it.
        let (texts, to_write) = sync_channel::<String>(1);
        let write = move || {
            let mut has_failed = false;
            for text in to_write {
                let failed = write_memory(&path, &text);
                if let Err(error) = &failed
                    && !has_failed
                {
                    log::warn!("{error}: what was received before may be sent again to the next receiver");
                }
                has_failed = failed.is_err();
            }
        };
        let thread = std::thread::Builder::new().name("key memory".to_owned()).spawn(write);
        Ok(Self { texts: Some(texts), thread: Some(thread?) })
    }

    fn put(&self, text: String) -> bool {
        self.texts.as_ref().is_some_and(|texts| !matches!(texts.try_send(text), Err(TrySendError::Full(_))))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // This ends the thread after its last text. Joined before, it would wait for ever.
        self.texts = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that remembers datagrams panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use cpumon_link::group::add_key;

    use super::*;
    use crate::demux::DemuxOptions;

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
        assert!(demux.key_ids().eq([key.id()]), "its devices are still understood");
    }
}
