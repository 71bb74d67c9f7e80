//! The receiver as a process. [`Kept`] decides its user and its rights to files: started by root, it runs as the owner of its files, if
//! they have one owner other than root (docs/adr/0019-receiver-user.md). [`HeapWatch`] gives memory back to the system, after a crowd and
//! once a minute: the C library keeps freed memory between pieces that are in use.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cpumon_agent::give_memory_back;
use cpumon_files::{Owner, create_dir_for, directory_of};
use rustix::process::{Gid, Uid};
use rustix::thread::{
    capabilities, set_capabilities, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::ReceiverError;

/// The user of a receiver that root starts and that has no store yet.
const SERVICE_USER: &str = "cpumon";
/// Intervals end in another order than they begin, so the heap of a steady receiver has holes: with 20 hosts they were 66 of 172 MB.
const GIVE_BACK_EVERY: Duration = Duration::from_mins(1);
/// Less than this is not worth a walk over the heap, bytes.
const MUCH_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) store: Option<PathBuf>,
    /// Directory of identity, enrolled hosts and audit log.
    pub(crate) state: Option<PathBuf>,
    /// Directory of the memory of encrypted datagrams, mostly the same.
    pub(crate) memory: Option<PathBuf>,
    /// File of the group keys, which is read each second.
    pub(crate) keys: Option<PathBuf>,
}

impl Kept {
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let store = self.store.as_deref().map(|path| directory_of(path).to_owned());
        store.into_iter().chain(self.state.clone()).chain(self.memory.clone()).collect()
    }

    /// Makes missing directories: a Landlock rule needs one that is there. They are for the owner of the store's directory.
    pub(crate) fn make_directories(&self) -> Result<(), ReceiverError> {
        let mut owner = service_user(&std::fs::read_to_string("/etc/passwd").unwrap_or_default());
        for dir in self.directories() {
            create_dir_for(&dir, owner)
                .map_err(|source| ReceiverError::Directory { path: dir.clone(), source })?;
            owner = Owner::of(&dir);
        }
        Ok(())
    }

    /// Runs as the owner of everything that it keeps, if root has started it and that is another user. Says so in words. Call it
    /// before another thread begins, which would stay as it is; probes and sockets need the capabilities, which stay until they
    /// are given up.
    pub(crate) fn become_owner(&self) -> Option<String> {
        let is_root = rustix::process::geteuid().is_root();
        let owner = self.only_owner().filter(|owner| is_root && owner.uid != 0)?;
        match become_user(owner) {
            Ok(()) => Some(format!("user {}", owner.uid)),
            Err(error) => {
                log::warn!("cannot run as user {}, who owns the store: {error}", owner.uid);
                None
            }
        }
    }

    /// Whether something that it keeps belongs to another user than this process's.
    pub(crate) fn needs_override(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.existing().iter().any(|owner| owner.uid != own)
    }

    /// The owner of all that exists, if it is one.
    fn only_owner(&self) -> Option<Owner> {
        let mut owners = self.existing().into_iter();
        let first = owners.next()?;
        owners.all(|owner| owner.uid == first.uid).then_some(first)
    }

    fn existing(&self) -> Vec<Owner> {
        let mut paths = self.directories();
        if let Some(store) = &self.store {
            paths.extend(["", "-wal", "-shm", "-writer", ".traces"].map(|ending| {
                let mut name = store.clone().into_os_string();
                name.push(ending);
                PathBuf::from(name)
            }));
        }
        paths.extend(self.keys.clone());
        for dir in [&self.state, &self.memory].into_iter().flatten() {
            let entries = cpumon_files::entries(dir).into_iter().flatten();
            paths.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
        paths.iter().filter_map(|path| Owner::of(path)).collect()
    }
}

/// Makes the calling thread, and those that it starts from now on, run as a user, with the capabilities that it had.
fn become_user(owner: Owner) -> std::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    let had = capabilities(None)?;
    // Without this the kernel clears all capabilities with the user; with it only the effective ones.
    set_keep_capabilities(true)?;
    set_thread_groups(&[gid])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(set_capabilities(None, had)?)
}

/// User and group of the service in the lines of passwd(5).
fn service_user(passwd: &str) -> Option<Owner> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(SERVICE_USER))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    Some(Owner { uid: numbers.next()?.ok()?, gid: numbers.next()?.ok()? })
}

/// Notes how much is in use, to see when that falls by much.
#[derive(Debug)]
pub(crate) struct HeapWatch {
    peak: usize,
    last: Instant,
}

impl HeapWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { peak: 0, last: now }
    }

    /// Notes the bytes in use now. Gives memory back when they fall by half of their peak, at least by `MUCH_BYTES`, and once a minute.
    pub(crate) fn note(&mut self, bytes: usize) {
        let is_due = self.is_due(Instant::now());
        if self.has_fallen(bytes) || is_due {
            give_memory_back();
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.last) >= GIVE_BACK_EVERY;
        if is_due {
            self.last = now;
        }
        is_due
    }

    fn has_fallen(&mut self, bytes: usize) -> bool {
        self.peak = self.peak.max(bytes);
        let has_fallen = self.peak - bytes >= MUCH_BYTES.max(self.peak / 2);
        if has_fallen {
            self.peak = bytes;
        }
        has_fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_user_is_found_by_its_whole_name() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\ncpumon-agent:x:7:7::/:/bin/false\ncpumon:x:998:997::/:/bin/false\n";
        assert_eq!(service_user(passwd), Some(Owner { uid: 998, gid: 997 }));
        assert_eq!(service_user("root:x:0:0::/root:/bin/sh\n"), None);
    }

    #[test]
    fn memory_is_given_back_once_after_each_crowd() {
        let mut watch = HeapWatch::new(Instant::now());
        let mut fallen = |mib: usize| watch.has_fallen(mib << 20);
        assert!(![1, 40, 30, 40, 21].into_iter().any(&mut fallen), "steady hosts come and go");
        assert!(fallen(20) && !fallen(20) && !fallen(13), "less than 8 MiB");
        assert!(fallen(5) && !fallen(0));
        assert!(!fallen(100) && fallen(3));
    }
    #[test]
    fn memory_is_given_back_once_a_minute() {
        let begin = Instant::now();
        let mut watch = HeapWatch::new(begin);
        let due: Vec<u64> =
            (0..200).filter(|second| watch.is_due(begin + Duration::from_secs(*second))).collect();
        assert_eq!(due, [60, 120, 180]);
    }
}
