//! The images of this machine. A thread of its own opens and reads them: anyone who has a file open can keep the one that opens it waiting for any time
//! (an oplock), as a slow disk can. The passes go on then, without further product names.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::sys;
use crate::nt::Images;

/// Paths on their way to the thread, and answers on their way back.
const MOST_ON_THE_WAY: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// The end of the measuring thread.
pub(super) struct ImageFiles {
    paths: SyncSender<Vec<u16>>,
    answers: Receiver<(Vec<u16>, String)>,
}

impl ImageFiles {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start() -> std::io::Result<Self> {
        let ((paths, next_path), (answer, answers)) =
            (sync_channel::<Vec<u16>>(MOST_ON_THE_WAY), sync_channel(MOST_ON_THE_WAY));
        std::thread::Builder::new().name("products".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            for path in next_path {
                let product = sys::product_of(&path, sys::MAX_VERSION_BYTES).unwrap_or_default();
                if answer.send((path, product)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { paths, answers })
    }
}

impl Images for ImageFiles {
    fn path(&self, pid: u32) -> Option<Vec<u16>> {
        sys::image_path(pid)
    }

    fn ask(&mut self, path: &[u16]) -> bool {
        self.paths.try_send(path.to_vec()).is_ok()
    }

    fn answer(&mut self) -> Option<(Vec<u16>, String)> {
        self.answers.try_recv().ok()
    }
}
