//! Why threads sleep: [`WaitReason`], its names, and what they mean in words for readers who do not know system calls.
//!
//! A wait reason names the system call a thread sleeps in, on whatever machine; so its number on the wire and in the store is one for
//! all architectures: that of x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`). Who measures another architecture maps its numbers by
//! name; every system call of aarch64 has an x86-64 twin. Screens and tables that people read have words; files, queries and `top -b`
//! keep the names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a thread that is neither running nor runnable waits for. The number is ours and stable: wire and store keep it.
///
/// The upper four bits are the class: 0 plain reasons, 1 a system call (its number of [`syscall_number`] below), 2 a
/// system call that our table does not know (the machine's own number below), 4 a reason of the Windows kernel (its number below).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitReason(pub u16);

const SYSCALL: u16 = 1 << 12;
const UNKNOWN_SYSCALL: u16 = 2 << 12;
const WINDOWS: u16 = 4 << 12;
const NUMBER: u16 = SYSCALL - 1;

/// `KWAIT_REASON` of Windows 11, by number. Old kernels use a few numbers from 22 on for something else.
#[rustfmt::skip]
const WINDOWS_REASONS: [&str; 43] = [
    "Executive", "FreePage", "PageIn", "PoolAllocation", "DelayExecution", "Suspended", "UserRequest",
    "WrExecutive", "WrFreePage", "WrPageIn", "WrPoolAllocation", "WrDelayExecution", "WrSuspended",
    "WrUserRequest", "WrEventPair", "WrQueue", "WrLpcReceive", "WrLpcReply", "WrVirtualMemory", "WrPageOut",
    "WrRendezvous", "WrKeyedEvent", "WrTerminated", "WrProcessInSwap", "WrCpuRateControl", "WrCalloutStack",
    "WrKernel", "WrResource", "WrPushLock", "WrMutex", "WrQuantumEnd", "WrDispatchInt", "WrPreempted",
    "WrYieldExecution", "WrFastMutex", "WrGuardedMutex", "WrRundown", "WrAlertByThreadId", "WrDeferredPreempt",
    "WrPhysicalFault", "WrIoRing", "WrMdlCache", "WrRcu",
];

impl WaitReason {
    /// Not waiting, or not known.
    pub const NONE: Self = Self(0);
    /// Something else, or the sum of reasons that found no slot of their own.
    pub const OTHER: Self = Self(1);
    /// For a disk: uninterruptible, or in iowait (`in_iowait`, state D).
    pub const DISK: Self = Self(2);
    /// Page fault: the page has to be read in.
    pub const PAGE_FAULT: Self = Self(3);
    /// Stopped by a signal (state T).
    pub const STOPPED: Self = Self(4);
    /// Stopped by a debugger (state t).
    pub const TRACED: Self = Self(5);
    /// A kernel thread without work (states S and I).
    pub const KERNEL: Self = Self(6);
    /// Ended, not yet reaped.
    pub const EXIT: Self = Self(7);

    /// No event reports this thread: neither its wait reason nor anything else that only the scheduler's events measure is known. It
    /// occurs in snapshots and frames; in intervals [`Flags::UNWATCHED`](crate::Flags::UNWATCHED) marks the thread.
    pub const UNWATCHED: Self = Self(3 << 12);

    /// In the system call with this number of ours; a number beyond 4095 is [`WaitReason::OTHER`].
    pub const fn syscall(number: u16) -> Self {
        if number <= NUMBER { Self(SYSCALL | number) } else { Self::OTHER }
    }

    /// In a system call that our table does not know, by the machine's own number; beyond 4095 it is
    /// [`WaitReason::OTHER`].
    pub const fn unknown_syscall(number: u16) -> Self {
        if number <= NUMBER { Self(UNKNOWN_SYSCALL | number) } else { Self::OTHER }
    }

    /// What the Windows kernel calls this number of `KWAIT_REASON`.
    pub const fn windows(number: u8) -> Self {
        Self(WINDOWS | number as u16)
    }

    /// The reason as a number, small for reasons that occur: frames and stores keep it.
    pub const fn code(self) -> u64 {
        match self.0 {
            plain @ 0..8 => plain as u64,
            call @ SYSCALL..UNKNOWN_SYSCALL => (call - SYSCALL + 8) as u64,
            other => other as u64 + 8,
        }
    }

    /// The reason with this [`WaitReason::code`]; [`WaitReason::OTHER`] for any other number.
    pub fn from_code(code: u64) -> Self {
        match u16::try_from(code) {
            Ok(plain @ 0..8) => Self(plain),
            Ok(call @ 8..0x1008) => Self(call - 8 + SYSCALL),
            Ok(other @ 0x2008..) => Self(other - 8),
            _ => Self::OTHER,
        }
    }

    /// Whether the thread waits for anything.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The name people see: `futex`, `disk`, `syscall 999`. Empty for [`WaitReason::NONE`].
    pub fn name(self) -> Cow<'static, str> {
        let plain = match self {
            Self::NONE => "",
            Self::OTHER => "other",
            Self::DISK => "disk",
            Self::PAGE_FAULT => "page fault",
            Self::STOPPED => "stopped",
            Self::TRACED => "traced",
            Self::KERNEL => "kernel",
            Self::EXIT => "exit",
            Self::UNWATCHED => "not watched",
            Self(code) => return named(code),
        };
        Cow::Borrowed(plain)
    }
}

fn named(code: u16) -> Cow<'static, str> {
    let number = code & NUMBER;
    match code & !NUMBER {
        SYSCALL => {
            syscall_name(number).map_or_else(|| Cow::Owned(format!("syscall {number}")), Cow::Borrowed)
        }
        UNKNOWN_SYSCALL => Cow::Owned(format!("syscall {number}")),
        WINDOWS => match WINDOWS_REASONS.get(usize::from(number)) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("KWAIT_REASON {number}")),
        },
        _ => Cow::Owned(format!("reason {code}")),
    }
}

/// Words for people, each with the names of the reasons that it covers.
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
pub fn wait_in_words(name: &str) -> Option<&'static str> {
    // A screen asks for each of its cells.
    static BY_NAME: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| wait_words().collect());
    BY_NAME.get(name).copied()
}

impl WaitReason {
    /// In words: `lock` of `futex`; the name where it is clear by itself.
    pub fn words(self) -> Cow<'static, str> {
        let name = self.name();
        wait_in_words(&name).map_or(name, Cow::Borrowed)
    }

    /// Words and name of the reason: `lock (futex)`.
    pub fn words_and_name(self) -> Cow<'static, str> {
        let name = self.name();
        match wait_in_words(&name) {
            Some(words) => format!("{words} ({name})").into(),
            None => name,
        }
    }
}

/// Names of the system calls 0 to 334 of x86-64, by number.
#[rustfmt::skip]
const FIRST: &[&str] = &[
    "read", "write", "open", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap", "mprotect",
    "munmap", "brk", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "ioctl", "pread64", "pwrite64",
    "readv", "writev", "access", "pipe", "select", "sched_yield", "mremap", "msync", "mincore", "madvise",
    "shmget", "shmat", "shmctl", "dup", "dup2", "pause", "nanosleep", "getitimer", "alarm", "setitimer",
    "getpid", "sendfile", "socket", "connect", "accept", "sendto", "recvfrom", "sendmsg", "recvmsg",
    "shutdown", "bind", "listen", "getsockname", "getpeername", "socketpair", "setsockopt", "getsockopt",
    "clone", "fork", "vfork", "execve", "exit", "wait4", "kill", "uname", "semget", "semop", "semctl",
    "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl", "fcntl", "flock", "fsync", "fdatasync", "truncate",
    "ftruncate", "getdents", "getcwd", "chdir", "fchdir", "rename", "mkdir", "rmdir", "creat", "link",
    "unlink", "symlink", "readlink", "chmod", "fchmod", "chown", "fchown", "lchown", "umask", "gettimeofday",
    "getrlimit", "getrusage", "sysinfo", "times", "ptrace", "getuid", "syslog", "getgid", "setuid", "setgid",
    "geteuid", "getegid", "setpgid", "getppid", "getpgrp", "setsid", "setreuid", "setregid", "getgroups",
    "setgroups", "setresuid", "getresuid", "setresgid", "getresgid", "getpgid", "setfsuid", "setfsgid",
    "getsid", "capget", "capset", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_sigsuspend",
    "sigaltstack", "utime", "mknod", "uselib", "personality", "ustat", "statfs", "fstatfs", "sysfs",
    "getpriority", "setpriority", "sched_setparam", "sched_getparam", "sched_setscheduler",
    "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
    "mlock", "munlock", "mlockall", "munlockall", "vhangup", "modify_ldt", "pivot_root", "_sysctl", "prctl",
    "arch_prctl", "adjtimex", "setrlimit", "chroot", "sync", "acct", "settimeofday", "mount", "umount2",
    "swapon", "swapoff", "reboot", "sethostname", "setdomainname", "iopl", "ioperm", "create_module",
    "init_module", "delete_module", "get_kernel_syms", "query_module", "quotactl", "nfsservctl", "getpmsg",
    "putpmsg", "afs_syscall", "tuxcall", "security", "gettid", "readahead", "setxattr", "lsetxattr",
    "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
    "removexattr", "lremovexattr", "fremovexattr", "tkill", "time", "futex", "sched_setaffinity",
    "sched_getaffinity", "set_thread_area", "io_setup", "io_destroy", "io_getevents", "io_submit",
    "io_cancel", "get_thread_area", "lookup_dcookie", "epoll_create", "epoll_ctl_old", "epoll_wait_old",
    "remap_file_pages", "getdents64", "set_tid_address", "restart_syscall", "semtimedop", "fadvise64",
    "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "clock_settime",
    "clock_gettime", "clock_getres", "clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl", "tgkill",
    "utimes", "vserver", "mbind", "set_mempolicy", "get_mempolicy", "mq_open", "mq_unlink", "mq_timedsend",
    "mq_timedreceive", "mq_notify", "mq_getsetattr", "kexec_load", "waitid", "add_key", "request_key",
    "keyctl", "ioprio_set", "ioprio_get", "inotify_init", "inotify_add_watch", "inotify_rm_watch",
    "migrate_pages", "openat", "mkdirat", "mknodat", "fchownat", "futimesat", "newfstatat", "unlinkat",
    "renameat", "linkat", "symlinkat", "readlinkat", "fchmodat", "faccessat", "pselect6", "ppoll", "unshare",
    "set_robust_list", "get_robust_list", "splice", "tee", "sync_file_range", "vmsplice", "move_pages",
    "utimensat", "epoll_pwait", "signalfd", "timerfd_create", "eventfd", "fallocate", "timerfd_settime",
    "timerfd_gettime", "accept4", "signalfd4", "eventfd2", "epoll_create1", "dup3", "pipe2", "inotify_init1",
    "preadv", "pwritev", "rt_tgsigqueueinfo", "perf_event_open", "recvmmsg", "fanotify_init",
    "fanotify_mark", "prlimit64", "name_to_handle_at", "open_by_handle_at", "clock_adjtime", "syncfs",
    "sendmmsg", "setns", "getcpu", "process_vm_readv", "process_vm_writev", "kcmp", "finit_module",
    "sched_setattr", "sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create", "kexec_file_load",
    "bpf", "execveat", "userfaultfd", "membarrier", "mlock2", "copy_file_range", "preadv2", "pwritev2",
    "pkey_mprotect", "pkey_alloc", "pkey_free", "statx", "io_pgetevents", "rseq",
];

/// Number of the first name in [`SECOND`]: the kernel left 335 to 423 free on x86-64.
const SECOND_FROM: u16 = 424;

/// Numbers from 424 on: the same on every architecture.
#[rustfmt::skip]
const SECOND: &[&str] = &[
    "pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open", "clone3", "close_range", "openat2",
    "pidfd_getfd", "faccessat2", "process_madvise", "epoll_pwait2", "mount_setattr", "quotactl_fd",
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "memfd_secret",
    "process_mrelease", "futex_waitv", "set_mempolicy_home_node", "cachestat", "fchmodat2",
    "map_shadow_stack", "futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
    "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat", "getxattrat",
    "listxattrat", "removexattrat", "open_tree_attr", "file_getattr", "file_setattr",
];

/// Name of a system call by its x86-64 number; `None` if it is not known.
pub fn syscall_name(number: u16) -> Option<&'static str> {
    let name = match number.checked_sub(SECOND_FROM) {
        Some(at) => SECOND.get(usize::from(at)),
        None => FIRST.get(usize::from(number)),
    };
    name.copied()
}

/// Our number of a system call. A search of the whole list: for tables made once.
pub fn syscall_number(name: &str) -> Option<u16> {
    let first = (0_u16..).zip(FIRST);
    let second = (SECOND_FROM..).zip(SECOND);
    first.chain(second).find(|(_, known)| **known == name).map(|(number, _)| number)
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

    #[test]
    fn numbers_and_names_agree_with_the_kernels_table() {
        let known = [
            (0, "read"),
            (7, "poll"),
            (23, "select"),
            (35, "nanosleep"),
            (61, "wait4"),
            (202, "futex"),
            (230, "clock_nanosleep"),
            (232, "epoll_wait"),
            (281, "epoll_pwait"),
            (334, "rseq"),
            (424, "pidfd_send_signal"),
            (426, "io_uring_enter"),
            (441, "epoll_pwait2"),
            (449, "futex_waitv"),
            (462, "mseal"),
        ];
        for (number, name) in known {
            assert_eq!(syscall_name(number), Some(name));
            assert_eq!(syscall_number(name), Some(number));
        }
        for number in [335, 423, 4095] {
            assert_eq!(syscall_name(number), None);
        }
        assert_eq!(syscall_number("no such call"), None);
    }

    #[test]
    fn names() {
        let names = |code| WaitReason(code).name().into_owned();
        assert_eq!(WaitReason::syscall(202).name(), "futex");
        assert_eq!(WaitReason::syscall(400).name(), "syscall 400");
        assert_eq!(WaitReason::unknown_syscall(202).name(), "syscall 202");
        assert_eq!(WaitReason::syscall(5000), WaitReason::OTHER);
        let windows = |number| WaitReason::windows(number).name().into_owned();
        assert_eq!(
            [windows(0), windows(6), windows(15), windows(31), windows(37), windows(42), windows(43)],
            [
                "Executive",
                "UserRequest",
                "WrQueue",
                "WrDispatchInt",
                "WrAlertByThreadId",
                "WrRcu",
                "KWAIT_REASON 43"
            ]
        );
        assert_eq!(
            [names(0), names(2), names(7), names(8), names(0xffff)],
            ["", "disk", "exit", "reason 8", "reason 65535"]
        );
    }

    #[test]
    fn every_reason_comes_back_from_its_code_and_others_are_other() {
        for number in (0..8).chain(0x1000..0x3000).chain(0x4000..0x4100) {
            assert_eq!(WaitReason::from_code(WaitReason(number).code()), WaitReason(number), "{number:#x}");
        }
        assert_eq!(WaitReason::syscall(202).code(), 210, "short, because it occurs often");
        for beyond in [0x1008, 0x2007, 1 << 20, u64::MAX] {
            assert_eq!(WaitReason::from_code(beyond), WaitReason::OTHER, "{beyond:#x}");
        }
    }
}
