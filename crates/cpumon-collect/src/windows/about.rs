//! Describes a process: its image's name, its user, its services, its product and, on request, its command line.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use cpumon_model::ProcessInfo;

use super::sys::{self, CommandLines, ServiceManager};
use crate::SourceOptions;
use crate::nt::{Images, Products, Services, scrubbed_command_line};
use crate::source::UNKNOWN_UID;

/// The process whose threads stand for CPUs with nothing to run.
pub(super) const IDLE_PID: u32 = 0;
/// Id of the process that has the kernel's threads.
const SYSTEM_PID: u32 = 4;

/// Describes new processes, and caches the data that this needs.
pub(super) struct About {
    users: Users,
    services: RunningServices,
    /// `None`: command lines were not asked for.
    command_lines: Option<CommandLines>,
    /// `None`: product names are not read.
    products: Option<(Products, ImageFiles)>,
}

impl About {
    pub(super) fn open(options: &SourceOptions) -> Self {
        let command_lines = options.cmdline.then(CommandLines::default);
        let images = options.product_names.then(ImageFiles::start).and_then(|started| {
            started.inspect_err(|error| log::warn!("product names are not read: no thread: {error}")).ok()
        });
        let products = images.map(|images| (Products::default(), images));
        Self { users: Users::default(), services: RunningServices::open(), command_lines, products }
    }

    /// At the start of a pass: the services, if they were read again.
    pub(super) fn refresh(&mut self) -> Option<&Services> {
        self.services.refresh()
    }

    /// After that: products that were read since, with the process's id.
    pub(super) fn name_products(&mut self, hand_over: impl FnMut(u32, &str)) {
        if let Some((products, images)) = &mut self.products {
            products.begin(images);
            products.of_waiting(images, hand_over);
        }
    }

    pub(super) fn describe(&mut self, pid: u32, name: &str) -> ProcessInfo {
        let user = self.users.of(pid);
        let raw = self.command_lines.as_mut().and_then(|lines| lines.of(pid)).unwrap_or_default();
        let product =
            self.products.as_mut().map_or_else(Box::default, |(all, images)| all.of_new(pid, images));
        ProcessInfo {
            name: name.into(),
            comm: name.into(),
            cmdline: scrubbed_command_line(raw).into(),
            container: self.services.of_new(pid).into(),
            uid: user.id,
            user: user.name,
            is_kernel: pid == SYSTEM_PID,
            product,
            ..ProcessInfo::default()
        }
    }
}

// Users of processes: the user of the token, by name. The query for a name may go to a domain's server, so it is made once per user.

/// Users that are kept; beyond it all are forgotten and asked for again.
const MOST_USERS: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    /// The last number of the security id: 18 is SYSTEM, people's begin at 1000.
    pub(super) id: u32,
    /// Account name; empty if unknown.
    pub(super) name: Box<str>,
}

#[derive(Default)]
pub(super) struct Users {
    known: HashMap<Vec<u8>, User>,
}

impl Users {
    pub(super) fn of(&mut self, pid: u32) -> User {
        let Some(sid) = sys::user_sid(pid) else { return User { id: UNKNOWN_UID, name: "".into() } };
        if self.known.len() >= MOST_USERS {
            self.known.clear();
        }
        let ask = |sid: &Vec<u8>| User {
            // A security id ends with its numbers, 4 bytes each.
            id: sid.last_chunk().map_or(UNKNOWN_UID, |last| u32::from_le_bytes(*last)),
            name: sys::account_name(sid).unwrap_or_default().into(),
        };
        self.known.entry(sid).or_insert_with_key(ask).clone()
    }
}

// Which process is which services, asked again where it may have changed.

/// Passes between two reads of the list of services.
const PASSES: u32 = 60;
/// The same after a process start: a service is listed with its process some time after that began.
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
    pub(super) fn open() -> Self {
        let manager = ServiceManager::open();
        if manager.is_none() {
            log::info!("services are not named: the service manager does not answer");
        }
        // The first pass reads the list.
        Self { manager, list: Services::default(), age: PASSES, is_stale: false, name: String::new() }
    }

    /// At the start of a pass: the list, if it was read again.
    pub(super) fn refresh(&mut self) -> Option<&Services> {
        self.age += 1;
        let is_due = self.age >= if self.is_stale { PASSES_AFTER_BIRTH } else { PASSES };
        (is_due && self.read()).then_some(&self.list)
    }

    /// Services of a new process, empty if it has none or the list is older than this pass: then the id may be that of one that has ended.
    pub(super) fn of_new(&mut self, pid: u32) -> &str {
        self.is_stale = true;
        self.name.clear();
        if self.age == 0 {
            self.list.name_of(pid, &mut self.name);
        }
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

// The images of this machine. A thread of its own opens and reads them: anyone who has a file open can delay its next
// opener for any time (an oplock), as a slow disk can. The passes then continue without further product names.

/// Paths on their way to the thread, and answers on their way back.
const MOST_ON_THE_WAY: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// Channels to the thread that reads image files.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nt::SERVICE_BYTES;

    #[test]
    fn a_process_with_the_id_of_a_stopped_service_has_not_its_name() {
        let mut record = [0; SERVICE_BYTES + 8];
        record[..8].copy_from_slice(&56_u64.to_le_bytes());
        record[0x2c] = 8;
        record[56..60].copy_from_slice(&[b'D', 0, b'h', 0]);
        let mut list = Services::default();
        list.add(&record, 0, 1).unwrap();
        list.finish();
        let mut services =
            RunningServices { manager: None, list, age: 0, is_stale: false, name: String::new() };
        assert_eq!(services.of_new(8), "Dh.service", "the list was read in this pass");
        assert!(services.refresh().is_none());
        assert_eq!(services.of_new(8), "", "the list is older");
    }
}
