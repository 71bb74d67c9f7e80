//! [`Uplink`]: the thread of an agent that sends the records of a [`Backlog`] over TLS to the first receiver of a list that
//! answers. The measuring thread never waits for the network.

mod attaching;
mod shared;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_wire::Datagrams;

use self::shared::SharedUplink;
pub use self::shared::{AttachmentOptions, Receiver, UplinkOptions, UplinkStatus};
use self::worker::Worker;
use super::TlsError;
use crate::backlog::Backlog;
use crate::platform::{Wake, WakeReceiver};

const STACK_BYTES: usize = 512 << 10;

/// Handle of the sending thread. Dropping it ends the thread.
pub struct Uplink {
    shared: Arc<SharedUplink>,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

impl Uplink {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread or a pipe, or an identity cannot be used.
    pub fn start(options: UplinkOptions, backlog: Box<dyn Backlog>) -> Result<Self, TlsError> {
        for receiver in &options.receivers {
            // An identity that cannot be used is an error of the start, not a failure on each attempt.
            receiver.identity.client_config()?;
        }
        let (awake, wake) = WakeReceiver::new()?;
        let shared = Arc::new(SharedUplink::new(backlog));
        let mut worker = Worker::new(options, Arc::clone(&shared), awake);
        let thread = std::thread::Builder::new().name("uplink".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || worker.run()).map_err(TlsError::Thread)?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    pub fn wants_full(&self) -> bool {
        self.shared.full_wanted.load(Ordering::Relaxed) || self.shared.backlog().wants_full()
    }

    /// Takes a snapshot and returns its number. A snapshot that does not fit becomes a counted gap.
    #[expect(clippy::must_use_candidate, reason = "the number is for tests; losses are counted")]
    pub fn append(&self, is_full: bool, wall_ns: i64, frames: &Datagrams) -> u64 {
        let number = self.shared.backlog().append(is_full, wall_ns, frames);
        if is_full {
            self.shared.full_wanted.store(false, Ordering::Relaxed);
            // The live channel begins with this snapshot, if a connection waits for one.
            self.shared.last_full.store(number, Ordering::Relaxed);
        }
        self.wake.wake();
        number
    }

    pub fn status(&self) -> UplinkStatus {
        // One lock after the other: no thread ever holds both, so they cannot block one another.
        let status = self.shared.status().clone();
        UplinkStatus { backlog: self.shared.backlog().counts(), ..status }
    }

    /// Waits until every snapshot is acknowledged; false if that took longer than `timeout`.
    pub fn drain(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.shared.backlog().counts().waiting > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wake.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the uplink's thread ended by a panic");
        }
    }
}
