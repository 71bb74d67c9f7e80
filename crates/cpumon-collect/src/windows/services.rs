//! Which process is which services, asked again where it may have changed.

use super::sys::ServiceManager;
use crate::nt::Services;

/// The list is read again after so many passes, …
const PASSES: u32 = 60;
/// … or so many if a process began since: a service is listed with its process some time after that began.
const PASSES_AFTER_BIRTH: u32 = 5;

/// The services that run, and when they were read.
pub(super) struct RunningServices {
    manager: Option<ServiceManager>,
    list: Services,
    age: u32,
    is_stale: bool,
    name: String,
}

impl RunningServices {
    /// Reads them for the first time.
    pub(super) fn open() -> Self {
        let manager = ServiceManager::open();
        if manager.is_none() {
            log::info!("services are not named: the service manager does not answer");
        }
        let mut opened =
            Self { manager, list: Services::default(), age: 0, is_stale: false, name: String::new() };
        opened.read();
        opened
    }

    /// At the start of a pass: the list, if it was read again.
    pub(super) fn refresh(&mut self) -> Option<&Services> {
        self.age += 1;
        let is_due = self.age >= if self.is_stale { PASSES_AFTER_BIRTH } else { PASSES };
        (is_due && self.read()).then_some(&self.list)
    }

    /// Services of a process that is new, empty if it is none.
    pub(super) fn of_new(&mut self, pid: u32) -> &str {
        self.is_stale = true;
        self.list.name_of(pid, &mut self.name);
        &self.name
    }

    fn read(&mut self) -> bool {
        (self.age, self.is_stale) = (0, false);
        let Some(manager) = &mut self.manager else { return false };
        let read = manager.list(&mut self.list);
        if let Err(error) = &read {
            log::warn!("services are not named: {error}");
            self.list.clear();
            self.manager = None;
        }
        read.is_ok()
    }
}
