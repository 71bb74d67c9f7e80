//! [`DiskThread`]: slow work on the disk, in order, for a thread that must not wait for it.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The end of a bounded queue to a thread that works on its items. Dropping it waits until every item is done.
#[derive(Debug)]
pub struct DiskThread<T> {
    /// Its work, as in "the thread that …".
    does: &'static str,
    items: Option<SyncSender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> DiskThread<T> {
    /// Starts the thread. At most `most` items wait for it.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        thread: Builder,
        does: &'static str,
        most: usize,
        work: impl FnMut(T) + Send + 'static,
    ) -> io::Result<Self> {
        let (items, waiting) = sync_channel(most);
        let thread = thread.spawn(move || waiting.into_iter().for_each(work))?;
        Ok(Self { does, items: Some(items), thread: Some(thread) })
    }

    /// Queues an item, and waits while too many wait.
    pub fn put(&self, item: T) {
        if let Some(items) = &self.items {
            // It fails only if the thread is gone, which it is not before this is dropped.
            let _ = items.send(item);
        }
    }

    /// Queues an item; false: too many wait.
    pub fn try_put(&self, item: T) -> bool {
        self.items.as_ref().is_some_and(|items| !matches!(items.try_send(item), Err(TrySendError::Full(_))))
    }
}

impl<T> Drop for DiskThread<T> {
    fn drop(&mut self) {
        // This ends the thread after the items that wait. Joined before, it would wait for ever.
        self.items = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that {} panicked", self.does);
        }
    }
}
