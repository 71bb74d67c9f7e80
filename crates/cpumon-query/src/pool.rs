//! Open readers of the past, and turns: reading a file blocks, so only a few threads read at once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_store::{DamageReport, Reader, StoreError};
use tokio::sync::Semaphore;

/// Questions answered at once; further ones wait.
pub(crate) const MAX_AT_ONCE: usize = 4;

/// Readers that are open and idle, and turns to read.
pub struct ReaderPool {
    store: Option<PathBuf>,
    idle: Mutex<Vec<Reader>>,
    turns: Arc<Semaphore>,
}

impl ReaderPool {
    /// `store`: its file; `None`: nothing is stored.
    #[must_use]
    pub fn new(store: Option<PathBuf>) -> Self {
        Self { store, idle: Mutex::default(), turns: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// One permit for each question that is answered at once.
    #[must_use]
    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// An idle reader, or a new one; `None`: nothing is stored.
    pub(crate) fn take(&self) -> Result<Option<Reader>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Reader::open(store), Ok).map(Some)
    }

    pub(crate) fn give_back(&self, reader: Option<Reader>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(reader);
    }

    /// What idle readers could not read.
    #[must_use]
    pub fn damage(&self) -> DamageReport {
        let mut damage = DamageReport::default();
        for reader in self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            damage.merge(reader.damage());
        }
        damage
    }
}
