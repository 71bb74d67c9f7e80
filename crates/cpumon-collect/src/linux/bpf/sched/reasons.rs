//! Makes [`WaitReason`]s, which mean the same on every machine, of what the probe notes at a switch (reasons.h)
//! in the machine's own numbers.

use cpumon_model::WaitReason;

/// reasons.h: `WAIT_OTHER`.
pub(super) const OTHER: u16 = 0x9000;

const CLASS: u16 = 0xf000;
const NUMBER: u16 = 0x0fff;
/// reasons.h: `WAIT_NO_SYSCALL`.
const NO_SYSCALL: u16 = 0x0fff;

/// Calls that wait uninterruptibly for a child, not for a disk.
const CLONES: [&str; 3] = ["vfork", "clone", "clone3"];

/// What a reason of the probe means.
pub(crate) fn reason_of(noted: u16) -> WaitReason {
    match noted & CLASS {
        0 => WaitReason::NONE,
        0x1000 => call(noted & NUMBER),
        0x2000 => WaitReason::DISK,
        0x3000 => uninterruptible(noted & NUMBER),
        0x4000 => WaitReason::PAGE_FAULT,
        0x5000 => WaitReason::STOPPED,
        0x6000 => WaitReason::TRACED,
        0x7000 => WaitReason::KERNEL,
        0x8000 => WaitReason::EXIT,
        _ => WaitReason::OTHER,
    }
}

fn uninterruptible(number: u16) -> WaitReason {
    if number == NO_SYSCALL {
        return WaitReason::PAGE_FAULT;
    }
    let call = call(number);
    if CLONES.contains(&call.name().as_ref()) { call } else { WaitReason::DISK }
}

#[cfg(target_arch = "x86_64")]
fn call(number: u16) -> WaitReason {
    // The model's numbers are this machine's.
    match cpumon_model::syscall_name(number) {
        Some(_) => WaitReason::syscall(number),
        None => WaitReason::unknown_syscall(number),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn call(number: u16) -> WaitReason {
    generic_call(number)
}

/// Of the machines that number system calls as asm-generic/unistd.h does: aarch64, riscv64, loongarch64.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn generic_call(number: u16) -> WaitReason {
    /// From here on the numbers are the same on every machine.
    const COMMON_FROM: u16 = 424;
    let ours = if number >= COMMON_FROM {
        cpumon_model::syscall_name(number).map(|_| number)
    } else {
        GENERIC.get(usize::from(number)).and_then(|name| cpumon_model::syscall_number(name))
    };
    ours.map_or(WaitReason::unknown_syscall(number), WaitReason::syscall)
}

/// include/uapi/asm-generic/unistd.h, from 0 on; empty where no call has the number.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[rustfmt::skip]
const GENERIC: &[&str] = &[
    "io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "setxattr", "lsetxattr", "fsetxattr",
    "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "removexattr",
    "lremovexattr", "fremovexattr", "getcwd", "lookup_dcookie", "eventfd2", "epoll_create1", "epoll_ctl",
    "epoll_pwait", "dup", "dup3", "fcntl", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "ioctl",
    "ioprio_set", "ioprio_get", "flock", "mknodat", "mkdirat", "unlinkat", "symlinkat", "linkat", "renameat",
    "umount2", "mount", "pivot_root", "nfsservctl", "statfs", "fstatfs", "truncate", "ftruncate", "fallocate",
    "faccessat", "chdir", "fchdir", "chroot", "fchmod", "fchmodat", "fchownat", "fchown", "openat", "close",
    "vhangup", "pipe2", "quotactl", "getdents64", "lseek", "read", "write", "readv", "writev", "pread64",
    "pwrite64", "preadv", "pwritev", "sendfile", "pselect6", "ppoll", "signalfd4", "vmsplice", "splice", "tee",
    "readlinkat", "newfstatat", "fstat", "sync", "fsync", "fdatasync", "sync_file_range", "timerfd_create",
    "timerfd_settime", "timerfd_gettime", "utimensat", "acct", "capget", "capset", "personality", "exit",
    "exit_group", "waitid", "set_tid_address", "unshare", "futex", "set_robust_list", "get_robust_list",
    "nanosleep", "getitimer", "setitimer", "kexec_load", "init_module", "delete_module", "timer_create",
    "timer_gettime", "timer_getoverrun", "timer_settime", "timer_delete", "clock_settime", "clock_gettime",
    "clock_getres", "clock_nanosleep", "syslog", "ptrace", "sched_setparam", "sched_setscheduler",
    "sched_getscheduler", "sched_getparam", "sched_setaffinity", "sched_getaffinity", "sched_yield",
    "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "restart_syscall", "kill",
    "tkill", "tgkill", "sigaltstack", "rt_sigsuspend", "rt_sigaction", "rt_sigprocmask", "rt_sigpending",
    "rt_sigtimedwait", "rt_sigqueueinfo", "rt_sigreturn", "setpriority", "getpriority", "reboot", "setregid",
    "setgid", "setreuid", "setuid", "setresuid", "getresuid", "setresgid", "getresgid", "setfsuid", "setfsgid",
    "times", "setpgid", "getpgid", "getsid", "setsid", "getgroups", "setgroups", "uname", "sethostname",
    "setdomainname", "getrlimit", "setrlimit", "getrusage", "umask", "prctl", "getcpu", "gettimeofday",
    "settimeofday", "adjtimex", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "gettid",
    "sysinfo", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
    "msgget", "msgctl", "msgrcv", "msgsnd", "semget", "semctl", "semtimedop", "semop", "shmget", "shmctl",
    "shmat", "shmdt", "socket", "socketpair", "bind", "listen", "accept", "connect", "getsockname",
    "getpeername", "sendto", "recvfrom", "setsockopt", "getsockopt", "shutdown", "sendmsg", "recvmsg",
    "readahead", "brk", "munmap", "mremap", "add_key", "request_key", "keyctl", "clone", "execve", "mmap",
    "fadvise64", "swapon", "swapoff", "mprotect", "msync", "mlock", "munlock", "mlockall", "munlockall",
    "mincore", "madvise", "remap_file_pages", "mbind", "get_mempolicy", "set_mempolicy", "migrate_pages",
    "move_pages", "rt_tgsigqueueinfo", "perf_event_open", "accept4", "recvmmsg", "", "", "", "", "", "", "",
    "", "", "", "", "", "", "", "", "", "wait4", "prlimit64", "fanotify_init", "fanotify_mark",
    "name_to_handle_at", "open_by_handle_at", "clock_adjtime", "syncfs", "setns", "sendmmsg",
    "process_vm_readv", "process_vm_writev", "kcmp", "finit_module", "sched_setattr", "sched_getattr",
    "renameat2", "seccomp", "getrandom", "memfd_create", "bpf", "execveat", "userfaultfd", "membarrier",
    "mlock2", "copy_file_range", "preadv2", "pwritev2", "pkey_mprotect", "pkey_alloc", "pkey_free", "statx",
    "io_pgetevents",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names() {
        let name = |noted| reason_of(noted).name().into_owned();
        assert_eq!(name(0), "");
        assert_eq!(
            [name(0x2000), name(0x3fff), name(0x7000), name(OTHER)],
            ["disk", "page fault", "kernel", "other"]
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_parent_in_vfork_waits_for_its_child_and_not_for_a_disk() {
        assert_eq!(reason_of(0x303a).name(), "vfork");
        assert_eq!(reason_of(0x304a).name(), "disk", "fsync");
        assert_eq!(reason_of(0x10ca).name(), "futex");
        assert_eq!(reason_of(0x1fa0).name(), "syscall 4000");
    }

    #[test]
    fn generic_numbers_are_mapped_by_name() {
        let name = |number| generic_call(number).name().into_owned();
        assert_eq!(
            [name(98), name(22), name(63), name(115)],
            ["futex", "epoll_pwait", "read", "clock_nanosleep"]
        );
        assert_eq!([name(441), name(260)], ["epoll_pwait2", "wait4"]);
        let unknown: Vec<_> = GENERIC
            .iter()
            .filter(|name| !name.is_empty() && cpumon_model::syscall_number(name).is_none())
            .collect();
        assert_eq!(unknown, [&""; 0]);
    }
}
