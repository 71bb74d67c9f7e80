//! What a wait reason means, in words for readers who do not know system calls: for screens and tables that people read. Files, queries
//! and `top -b` keep the names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::wait::WaitReason;

/// Words, and the names that mean it.
#[rustfmt::skip]
const WORDS: &[(&str, &[&str])] = &[
    ("lock", &[
        "futex", "futex_wait", "futex_waitv", "WrAlertByThreadId", "WrKeyedEvent", "WrPushLock", "WrResource", "WrMutex",
        "WrFastMutex", "WrGuardedMutex",
    ]),
    ("file lock", &["flock", "fcntl"]),
    ("semaphore", &["semop", "semtimedop"]),
    ("sleep", &["nanosleep", "clock_nanosleep", "DelayExecution", "WrDelayExecution"]),
    ("signal", &["pause", "rt_sigtimedwait", "rt_sigsuspend"]),
    ("child process", &["wait4", "waitid", "vfork"]),
    ("I/O events", &[
        "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_wait_old",
    ]),
    ("async I/O", &["io_getevents", "io_pgetevents", "io_uring_enter", "WrIoRing"]),
    ("read", &["readv", "pread64", "preadv", "preadv2"]),
    ("write", &["writev", "pwrite64", "pwritev", "pwritev2"]),
    ("incoming data", &["recvfrom", "recvmsg", "recvmmsg"]),
    ("outgoing data", &["sendto", "sendmsg", "sendmmsg"]),
    ("new connection", &["accept", "accept4", "connect"]),
    ("copying", &["sendfile", "splice", "tee", "vmsplice", "copy_file_range"]),
    ("message", &[
        "msgrcv", "msgsnd", "mq_timedreceive", "mq_timedsend", "WrLpcReceive", "WrLpcReply", "WrUserRequest",
    ]),
    ("flush to disk", &["sync", "fsync", "fdatasync", "msync", "syncfs", "sync_file_range"]),
    ("file system", &[
        "open", "openat", "openat2", "creat", "close", "stat", "fstat", "lstat", "newfstatat", "statx", "access", "faccessat",
        "faccessat2", "getdents", "getdents64", "readlink", "readlinkat", "unlink", "unlinkat", "rename", "renameat",
        "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "rmdir", "truncate", "ftruncate",
        "fallocate", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat",
    ]),
    ("memory", &[
        "mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "FreePage", "WrFreePage", "PoolAllocation",
        "WrPoolAllocation", "WrVirtualMemory", "WrPageOut",
    ]),
    ("page fault", &["PageIn", "WrPageIn", "WrPhysicalFault"]),
    ("device", &["ioctl"]),
    ("new process", &["clone", "clone3", "fork", "execve", "execveat"]),
    ("debugger", &["traced", "ptrace"]),
    ("work to do", &["kernel", "WrQueue"]),
    ("kernel", &["Executive", "WrExecutive", "WrKernel"]),
    ("event or object", &["UserRequest"]),
    ("suspended", &["Suspended", "WrSuspended"]),
    ("CPU limit", &["WrCpuRateControl"]),
    ("exit", &["exit_group", "WrTerminated"]),
];

/// Names of wait reasons with their words, of those whose name is not clear by itself.
pub fn wait_words() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.iter().flat_map(|(words, names)| names.iter().map(move |name| (*name, *words)))
}

/// What the name of a wait reason means in words; `None` where the name is clear by itself.
#[must_use]
pub fn wait_in_words(name: &str) -> Option<&'static str> {
    // A screen asks for each of its cells.
    static BY_NAME: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| wait_words().collect());
    BY_NAME.get(name).copied()
}

impl WaitReason {
    /// In words: `lock` of `futex`; the name where it is clear by itself.
    #[must_use]
    pub fn words(self) -> Cow<'static, str> {
        let name = self.name();
        wait_in_words(&name).map_or(name, Cow::Borrowed)
    }

    /// In words, with the name: `lock (futex)`.
    #[must_use]
    pub fn words_and_name(self) -> Cow<'static, str> {
        let name = self.name();
        match wait_in_words(&name) {
            Some(words) => format!("{words} ({name})").into(),
            None => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_of_reasons_that_exist_and_each_has_one() {
        let names: BTreeSet<String> =
            (0..=u16::MAX).map(|code| WaitReason(code).name().into_owned()).collect();
        let mut seen = BTreeSet::new();
        for (name, words) in wait_words() {
            assert!(names.contains(name), "{name} is no reason");
            assert!(seen.insert(name), "{name} has two meanings");
            assert!(words.len() <= 16 && name != words, "{name}: {words}");
        }
    }

    #[test]
    fn a_lock_is_a_lock() {
        let words_of = |reason: WaitReason| wait_in_words(&reason.name());
        assert_eq!(words_of(WaitReason::syscall(202)), Some("lock"));
        assert_eq!(words_of(WaitReason::syscall(230)), Some("sleep"));
        assert_eq!(words_of(WaitReason::KERNEL), Some("work to do"));
        assert_eq!(words_of(WaitReason::windows(37)), Some("lock"));
        assert_eq!(words_of(WaitReason::DISK), None);
        assert_eq!(words_of(WaitReason::syscall(0)), None);
        assert_eq!(words_of(WaitReason::NONE), None);
        let texts = |reason: WaitReason| [reason.words(), reason.words_and_name()];
        assert_eq!(texts(WaitReason::syscall(202)), ["lock", "lock (futex)"]);
        assert_eq!(texts(WaitReason::syscall(0)), ["read", "read"]);
        assert_eq!(texts(WaitReason::DISK), ["disk", "disk"]);
    }
}
