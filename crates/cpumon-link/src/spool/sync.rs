//! [`Syncer`]: calls fdatasync(2) on a thread of its own, because a slow flash must not delay the next snapshot.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

const STACK_BYTES: usize = 64 << 10;
/// Files that may wait. One more makes the writer wait: the disk is that slow.
const MAX_WAITING: usize = 4;

/// Handle of the thread; dropping it waits for the files that were handed over.
#[derive(Debug)]
pub(super) struct Syncer {
    files: Option<SyncSender<File>>,
    errors: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start() -> io::Result<Self> {
        let (send, receive) = sync_channel::<File>(MAX_WAITING);
        let errors = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&errors);
        let work = move || {
            for file in receive {
                if let Err(error) = file.sync_data()
                    && counted.fetch_add(1, Ordering::Relaxed) == 0
                {
                    log::warn!("cannot sync the spool to its disk: {error}");
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("spool-sync".to_owned()).stack_size(STACK_BYTES).spawn(work)?;
        Ok(Self { files: Some(send), errors, thread: Some(thread) })
    }

    /// Has a file synced soon.
    pub(super) fn sync(&self, file: File) {
        if let Some(files) = &self.files {
            // It fails only if the thread is gone, which it is not before this is dropped.
            let _ = files.send(file);
        }
    }

    /// Times that a sync failed so far.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // This ends the thread's loop after the files that wait; joined before, it would wait for ever.
        drop(self.files.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that syncs the log panicked");
        }
    }
}
