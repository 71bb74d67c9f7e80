//! What is read of a process, before it is shared.

use cpumon_model::ProcessInfo;

use super::about::About;
use crate::parse;

/// Uid of an unreadable process (the overflow id of `user_namespaces(7)`).
pub(super) const UNKNOWN_UID: u32 = 65_534;

/// A [`ProcessInfo`] in kept buffers, so that reading it again allocates only when something changed.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) name: String,
    pub(super) interpreter: String,
    pub(super) comm: String,
    pub(super) cmdline: String,
    pub(super) cgroup: String,
    pub(super) user: String,
    pub(super) uid: u32,
    pub(super) is_kernel: bool,
    pub(super) is_gone: bool,
}

impl Scratch {
    pub(super) fn clear(&mut self, about: &About) {
        let Self { name, interpreter, comm, cmdline, cgroup, user, .. } = self;
        for text in [name, interpreter, comm, cmdline, cgroup, user] {
            text.clear();
        }
        (self.uid, self.is_kernel, self.is_gone) = (UNKNOWN_UID, about.is_kernel, false);
    }

    pub(super) fn says(&self, info: &ProcessInfo) -> bool {
        *self.name == *info.name
            && *self.interpreter == *info.interpreter
            && *self.user == *info.user
            && *self.comm == *info.comm
            && *self.cmdline == *info.cmdline
            && *self.cgroup == *info.cgroup
            && self.uid == info.uid
            && self.is_kernel == info.is_kernel
    }

    pub(super) fn to_info(&self) -> ProcessInfo {
        ProcessInfo {
            name: self.name.as_str().into(),
            interpreter: self.interpreter.as_str().into(),
            comm: self.comm.as_str().into(),
            cmdline: self.cmdline.as_str().into(),
            cgroup: self.cgroup.as_str().into(),
            container: parse::container_name(&self.cgroup).into(),
            uid: self.uid,
            user: self.user.as_str().into(),
            is_kernel: self.is_kernel,
            ..ProcessInfo::default()
        }
    }
}
