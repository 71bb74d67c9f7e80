//! What a process is: its image's name, its user, its services, its product and, where it is asked for, its command line.

use cpumon_model::ProcessInfo;

use super::images::ImageFiles;
use super::services::RunningServices;
use super::sys::CommandLines;
use super::users::Users;
use crate::SourceOptions;
use crate::nt::{Products, Services, scrubbed_command_line};

/// The process whose threads stand for CPUs with nothing to run.
pub(super) const IDLE_PID: u32 = 0;
/// The kernel's own process.
const SYSTEM_PID: u32 = 4;

/// Describes processes that are new, and remembers what that takes.
pub(super) struct About {
    users: Users,
    services: RunningServices,
    /// `None`: not asked for.
    command_lines: Option<CommandLines>,
    /// `None`: not to be read.
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
