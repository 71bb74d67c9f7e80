//! CPU limits of the control groups in use, how often they were reached, and pressure of groups and host. `files` finds the
//! files and parses them; a group is a [`Dir`].
//!
//! # Cost A pass reads one file for the host's pressure, one for each group in use that counts pressure (cgroup v2, and only if the
//! host's has grown), and one for each group that has a quota. Whether a group has a quota is read when it is new and every 16th pass.
//! Without quotas, cgroup v1 costs only the host's pressure. Groups are found as descriptions of processes change, so nothing is
//! compared for idle processes.
//!
//! # Limits Groups without a measured process, and all that happened in a group before its first pass, are not seen. Groups outside of
//! the mounted directory, as seen from inside a container, have no files there: they count as left out.

mod files;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{CgroupSample, CpuLimit, Fields, MAX_CGROUPS, Pressure, Snapshot, empty_list};
use rustix::fs::CWD;

use self::files::{Dir, Mounts, Read};
use super::file;
use super::procinfo::InfoCache;

/// Directories that are known at most: groups in use and those above them.
const MAX_DIRS: usize = 4 * MAX_CGROUPS;
/// Groups that are remembered as left out, at most.
const MAX_LEFT_OUT: usize = 4_096;
/// Passes from one reading of a quota to the next, and between two searches for groups that are no longer in use.
const RECHECK: usize = 16;
/// Longest file that is read, bytes.
const MAX_BYTES: usize = 4 << 10;

pub(crate) struct Cgroups {
    mounts: Mounts,
    host_pressure: Option<OwnedFd>,
    host_before: Option<Pressure>,
    dirs: Vec<Dir>,
    /// Index in `dirs` by path.
    places: HashMap<Arc<str>, usize>,
    left_out: HashSet<Box<str>>,
    next_id: u64,
    pass: usize,
    buffer: Box<[u8]>,
}

impl Cgroups {
    /// Finds where the groups' files are. Without any, only the host's pressure is measured.
    pub(crate) fn open(proc_root: &Path, fs_root: &Path) -> Self {
        Self {
            mounts: Mounts::open(proc_root, fs_root),
            host_pressure: file::open_at(CWD, proc_root.join("pressure/cpu")).ok(),
            host_before: None,
            dirs: Vec::new(),
            places: HashMap::new(),
            left_out: HashSet::new(),
            next_id: 1,
            pass: 0,
            buffer: vec![0; MAX_BYTES].into_boxed_slice(),
        }
    }

    /// Fills in the groups of the snapshot, whose processes `infos` has described.
    pub(crate) fn read(&mut self, infos: &mut InfoCache, into: &mut Snapshot) {
        into.pressure = self.read_host();
        let has_waited = into.pressure.is_none() || into.pressure != self.host_before;
        self.host_before = into.pressure;
        let fresh = infos.fresh();
        if self.mounts.is_empty() {
            return empty_list(fresh);
        }
        for info in &*fresh {
            self.add(&info.cgroup);
        }
        empty_list(fresh);
        self.recheck();
        self.pass += 1;
        if self.pass.is_multiple_of(RECHECK) {
            self.forget_unused(infos);
        }
        self.read_counters(has_waited);
        self.emit(into);
        into.fields |= Fields::CGROUPS;
        into.cgroups_left_out = u32::try_from(self.left_out.len()).unwrap_or(u32::MAX);
    }

    fn read_host(&mut self) -> Option<Pressure> {
        let bytes = file::read_start(self.host_pressure.as_ref()?, &mut self.buffer).ok()?;
        files::pressure(bytes)
    }

    /// Marks a group as used; adds it if it is new.
    fn add(&mut self, path: &str) {
        if path.is_empty() {
            return;
        }
        if let Some(&at) = self.places.get(path) {
            self.dirs[at].is_used = true;
            return;
        }
        if self.left_out.contains(path) {
            return;
        }
        let is_full = self.dirs.iter().filter(|dir| dir.is_used).count() >= MAX_CGROUPS;
        let added = if is_full { None } else { self.add_dir(path) };
        let is_full = is_full || self.dirs.len() >= MAX_DIRS;
        match added {
            Some(at) => self.dirs[at].is_used = true,
            // Removed in the meantime, or of a hierarchy without limits.
            None if !is_full && self.mounts.reach(path) => {}
            None if self.left_out.len() < MAX_LEFT_OUT => {
                self.left_out.insert(path.into());
            }
            None => {}
        }
    }

    /// The place of a group and of those above it, which are added where they are not known. `None`: out of reach, or too many.
    fn add_dir(&mut self, path: &str) -> Option<usize> {
        if let Some(&at) = self.places.get(path) {
            return Some(at);
        }
        let above = match path.rsplit_once('/')? {
            ("", "") => None,
            // Nothing above the mount can be read.
            ("", _) => self.add_dir("/"),
            (above, _) => self.add_dir(above),
        };
        if self.dirs.len() >= MAX_DIRS {
            return None;
        }
        let mut dir = Dir::open(&self.mounts, path)?;
        (dir.id, dir.above) = (self.next_id, above);
        self.next_id += 1;
        dir.read_limit(&self.mounts, &mut self.buffer);
        self.places.insert(Arc::clone(&dir.path), self.dirs.len());
        self.dirs.push(dir);
        Some(self.dirs.len() - 1)
    }

    /// Reads some of the quotas again: each has its turn.
    fn recheck(&mut self) {
        for at in (self.pass % RECHECK..self.dirs.len()).step_by(RECHECK) {
            self.dirs[at].read_limit(&self.mounts, &mut self.buffer);
        }
    }

    fn forget_unused(&mut self, infos: &InfoCache) {
        self.dirs.iter_mut().for_each(|dir| dir.is_used = false);
        for info in infos.all() {
            if let Some(&at) = self.places.get(&*info.cgroup) {
                self.dirs[at].is_used = true;
            }
        }
        self.retain(|dir| dir.is_used);
        // Groups that had no space take the slots of those that went.
        self.left_out.clear();
        for info in infos.all() {
            self.add(&info.cgroup);
        }
    }

    /// Keeps these groups and those above them. Allocates only if one goes.
    fn retain(&mut self, keeps: impl Fn(&Dir) -> bool) {
        self.dirs.iter_mut().for_each(|dir| dir.stays = keeps(dir));
        // A group above was added before the group below.
        for at in (0..self.dirs.len()).rev() {
            if let (true, Some(above)) = (self.dirs[at].stays, self.dirs[at].above) {
                self.dirs[above].stays = true;
            }
        }
        if self.dirs.iter().all(|dir| dir.stays) {
            return;
        }
        let mut next = 0;
        let place = |dir: &Dir| {
            next += usize::from(dir.stays);
            next - usize::from(dir.stays)
        };
        let places: Vec<usize> = self.dirs.iter().map(place).collect();
        self.dirs.retain(|dir| dir.stays);
        self.places.clear();
        for (at, dir) in self.dirs.iter_mut().enumerate() {
            dir.above = dir.above.map(|above| places[above]);
            self.places.insert(Arc::clone(&dir.path), at);
        }
    }

    fn read_counters(&mut self, has_waited: bool) {
        let mut is_gone = false;
        for dir in &mut self.dirs {
            is_gone |= dir.read_counters(has_waited, &mut self.buffer) == Read::Gone;
        }
        if is_gone {
            self.forget_gone();
        }
    }

    /// Groups that were removed. One that was made again under the same path is another one, with a number and counters of its own.
    fn forget_gone(&mut self) {
        // Groups below a removed group are gone too.
        for at in 0..self.dirs.len() {
            let is_below = self.dirs[at].above.is_some_and(|above| self.dirs[above].is_gone);
            self.dirs[at].is_gone |= is_below;
        }
        let gone = self.dirs.iter().filter(|dir| dir.is_gone && dir.is_used);
        let gone: Vec<Arc<str>> = gone.map(|dir| Arc::clone(&dir.path)).collect();
        self.retain(|dir| !dir.is_gone);
        for path in gone {
            if let Some(at) = self.add_dir(&path) {
                self.dirs[at].is_used = true;
                self.dirs[at].read_counters(true, &mut self.buffer);
            }
        }
    }

    /// The rows ascend by number: that is the order in which groups were added.
    fn emit(&self, into: &mut Snapshot) {
        for dir in self.dirs.iter().filter(|dir| dir.is_used) {
            let (limit, limiter) = self.tightest(dir);
            if limit == CpuLimit::Unlimited && dir.pressure.is_none() {
                continue;
            }
            into.cgroups.push(CgroupSample {
                id: dir.id,
                path: Arc::clone(&dir.path),
                limit,
                limiter_bytes: limiter.map_or(0, |dir| u16::try_from(dir.path.len()).unwrap_or(u16::MAX)),
                throttle: limiter.and_then(|dir| dir.throttle),
                pressure: dir.pressure,
            });
        }
    }

    /// The tightest limit of a group and those above it, with its owner.
    fn tightest<'a>(&'a self, dir: &'a Dir) -> (CpuLimit, Option<&'a Dir>) {
        let (mut limit, mut limiter) = (CpuLimit::Unlimited, None);
        let mut next = Some(dir);
        while let Some(dir) = next {
            let tighter = limit.tighter(dir.limit);
            // Of equal limits the uppermost counts: all groups below share its quota.
            if dir.limit.is_limited() && dir.limit == tighter {
                limiter = Some(dir);
            }
            limit = tighter;
            next = dir.above.and_then(|above| self.dirs.get(above));
        }
        (limit, limiter)
    }
}
