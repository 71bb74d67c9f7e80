//! [`InTurn`]: the connections of each device, one after another. A device that connects again takes the place of its connection
//! before, whose thread ends first: two of them would hold and compute twice what one device may.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The connections of one device.
#[derive(Debug, Default)]
struct Connections {
    newest: u64,
    is_served: bool,
}

/// Which connection of each device is the newest, and whether one is served.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    devices: Mutex<HashMap<[u8; 16], Connections>>,
    /// Number of the last connection, of all devices: none comes twice.
    last: AtomicU64,
    ended: Condvar,
}

/// A connection that is served, as long as this lives.
pub(super) struct Served<'a> {
    all: &'a InTurn,
    host: [u8; 16],
    number: u64,
}

impl InTurn {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], Connections>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device has connected: the connection's number. The one before finds at its next check that it is not the newest.
    pub(super) fn add(&self, host: [u8; 16]) -> u64 {
        let mut devices = self.lock();
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        devices.entry(host).or_default().newest = number;
        self.ended.notify_all();
        number
    }

    /// Whether the device has connected again since.
    pub(super) fn is_replaced(&self, host: [u8; 16], number: u64) -> bool {
        self.lock().get(&host).is_none_or(|device| device.newest != number)
    }

    /// Waits for so long until the connection before has ended; `None`: it has not, or this one is not the newest any more.
    pub(super) fn begin(&self, host: [u8; 16], number: u64, wait: Duration) -> Option<Served<'_>> {
        let is_busy = |devices: &mut HashMap<[u8; 16], Connections>| {
            devices.get(&host).is_some_and(|device| device.newest == number && device.is_served)
        };
        let waited = self.ended.wait_timeout_while(self.lock(), wait, is_busy);
        let (mut devices, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let device = devices.get_mut(&host).filter(|device| device.newest == number && !device.is_served)?;
        device.is_served = true;
        Some(Served { all: self, host, number })
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let mut devices = self.all.lock();
        if let Some(device) = devices.get_mut(&self.host) {
            device.is_served = false;
        }
        if devices.get(&self.host).is_some_and(|device| device.newest == self.number) {
            devices.remove(&self.host);
        }
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_for_the_one_before_and_gives_way_to_the_next() {
        const HOST: [u8; 16] = [1; 16];
        let (all, none) = (InTurn::default(), Duration::ZERO);
        let first = all.add(HOST);
        let served = all.begin(HOST, first, none).unwrap();
        let second = all.add(HOST);
        assert!(all.is_replaced(HOST, first) && all.begin(HOST, second, none).is_none());
        let third = all.add(HOST);
        drop(served);
        assert!(all.begin(HOST, second, none).is_none(), "a newer one waits");
        let served = all.begin(HOST, third, none).unwrap();
        let fourth = all.add(HOST);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| all.begin(HOST, fourth, Duration::from_mins(1)).is_some());
            drop(served);
            assert!(waits.join().unwrap(), "it is woken");
        });
        assert!(all.lock().is_empty());
    }
}
