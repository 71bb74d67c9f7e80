//! A thread's times, brought to the instant of the cut. The probe accounts for a wait or delay when it ends; a snapshot
//! also shows the part of an open one that has passed. The reason of a wait, which the probe notes in the machine's own
//! numbers (reasons.h), becomes a [`WaitReason`], which means the same on every machine.

use cpumon_model::{SchedTimes, WaitReason, Waits};

use super::super::records::ThreadTimes;

/// States of [`ThreadTimes`]; records.h: `STATE_*`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimesState {
    None,
    Blocked,
    Ready,
    Running,
}

/// Kind of a record of the iterator; records.h: `SENT_*`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentKind {
    /// The thread did not move since it was sent last.
    Same,
    Task,
    Times,
    /// A record whose times could not be read whole.
    Torn,
}

impl SentKind {
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::Same, Self::Task, Self::Times, Self::Torn].get((code as usize).checked_sub(1)?).copied()
    }
}

/// records.h: `STATE_RUNNING`.
const RUNNING: u8 = 3;
/// records.h: `TIMES_BROKEN`.
const BROKEN: u8 = 1;
/// No event reports the thread. Set in user space.
const UNWATCHED: u8 = 0x80;

impl ThreadTimes {
    pub(crate) fn state(&self) -> TimesState {
        match self.state {
            1 => TimesState::Blocked,
            2 => TimesState::Ready,
            3 => TimesState::Running,
            _ => TimesState::None,
        }
    }

    /// Whether its switch events are complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.state() != TimesState::None && self.flags & BROKEN == 0
    }

    /// From here on the kernel's own counters stand for it.
    pub(crate) fn give_up(&mut self) {
        self.flags |= BROKEN;
    }

    /// They are those of a thread that BPF does not see.
    pub(crate) fn say_unwatched(&mut self) {
        self.flags |= UNWATCHED;
    }

    /// Accounts for the open delay or wait up to the cut; the longest delay becomes that of the interval since `previous_cut_ns`.
    /// Returns the open delay. A blocked thread can be closed again at the next cut, if it did not move.
    pub(crate) fn close(&mut self, previous_cut_ns: u64, cut_ns: u64) -> u64 {
        self.forget_earlier_delays(previous_cut_ns);
        // Woken after T: as of T it was still blocked.
        if self.ready_ns > cut_ns {
            self.ready_ns = 0;
        }
        let mut delay_ns = 0;
        match self.state() {
            TimesState::Blocked => {
                // Blocked until it was woken; from there on the time is run delay, although the thread did not get a CPU yet.
                let until = if self.ready_ns == 0 { cut_ns } else { self.ready_ns };
                self.wait_until(until);
                if self.ready_ns != 0 {
                    delay_ns = cut_ns.saturating_sub(self.at_ns);
                    self.delay_wakeup_ns = self.delay_wakeup_ns.saturating_add(delay_ns);
                }
            }
            TimesState::Ready => {
                delay_ns = cut_ns.saturating_sub(self.at_ns);
                self.delay_preempt_ns = self.delay_preempt_ns.saturating_add(delay_ns);
            }
            // The CPU accounts for the open slice, because it knows the interrupts and steal in it.
            TimesState::Running | TimesState::None => {}
        }
        self.longest_delay_ns = self.longest_delay_ns.max(delay_ns);
        delay_ns
    }

    /// It was given a CPU at `at_ns`, without an event.
    pub(crate) fn come(&mut self, previous_cut_ns: u64, at_ns: u64) {
        // One that the probe has as running was reported, so the unseen switch is not its own.
        if matches!(self.state(), TimesState::Blocked | TimesState::Ready) {
            self.close(previous_cut_ns, at_ns);
            (self.state, self.at_ns, self.ready_ns) = (RUNNING, at_ns, 0);
        }
    }

    /// Removes the longest delay if it is of an earlier interval.
    pub(crate) fn forget_earlier_delays(&mut self, previous_cut_ns: u64) {
        if self.longest_cut != lower_half(previous_cut_ns) {
            self.longest_delay_ns = 0;
        }
    }

    fn wait_until(&mut self, until: u64) {
        let waited = until.saturating_sub(self.at_ns);
        // So that closing at the next cut adds only the time since this one.
        self.at_ns = self.at_ns.max(until);
        self.blocked_ns = self.blocked_ns.saturating_add(waited);
        // Wait reasons are not watched.
        if self.reason == 0 {
            return;
        }
        // As in `add_new_wait` of waits.h: the last slot is for "other" alone.
        let (named, other) = self.reasons.split_at(self.reasons.len() - 1);
        let slot = named.iter().position(|known| *known == self.reason || *known == 0);
        let slot = slot.unwrap_or(named.len());
        debug_assert_eq!(other.len(), 1);
        self.reasons[slot] = if slot == named.len() { OTHER } else { self.reason };
        self.wait_ns[slot] = self.wait_ns[slot].saturating_add(waited);
    }

    pub(crate) fn to_sched(self, migrations: u32) -> SchedTimes {
        if self.flags & UNWATCHED != 0 {
            return SchedTimes::unwatched();
        }
        if !self.is_whole() {
            return SchedTimes::default();
        }
        let is_asleep = self.state() == TimesState::Blocked && self.ready_ns == 0;
        let mut waits = Waits::default();
        for (reason, ns) in self.reasons.into_iter().zip(self.wait_ns).filter(|(reason, _)| *reason != 0) {
            waits.add(reason_of(reason), ns);
        }
        SchedTimes {
            delay_after_wakeup_ns: self.delay_wakeup_ns,
            blocked_ns: self.blocked_ns,
            // Each sleep ended with a wakeup, but for the one that is still open.
            wakeups: self.voluntary_switches.saturating_sub(is_asleep.into()),
            migrations: migrations.into(),
            longest_delay_ns: self.longest_delay_ns,
            waits,
            open_wait: if is_asleep { reason_of(self.reason) } else { reason_of(0) },
        }
    }

    /// Subtracts the times under another identity.
    pub(crate) fn subtract(&mut self, base: &Self) {
        let take = |from: &mut u64, part: u64| *from = from.saturating_sub(part);
        take(&mut self.run_ns, base.run_ns);
        take(&mut self.delay_wakeup_ns, base.delay_wakeup_ns);
        take(&mut self.delay_preempt_ns, base.delay_preempt_ns);
        take(&mut self.blocked_ns, base.blocked_ns);
        take(&mut self.voluntary_switches, base.voluntary_switches);
        take(&mut self.involuntary_switches, base.involuntary_switches);
        // Matched by reason: a slot may have gone to another one since the base was taken.
        for (reason, ns) in self.reasons.iter().zip(&mut self.wait_ns) {
            if let Some(at) = base.reasons.iter().position(|known| known == reason && *reason != 0) {
                take(ns, base.wait_ns[at]);
            }
        }
    }
}

/// The part that the probe stores.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
fn lower_half(cut_ns: u64) -> u32 {
    cut_ns as u32
}

/// reasons.h: `WAIT_OTHER`.
pub(super) const OTHER: u16 = 0x9000;

const CLASS: u16 = 0xf000;
const NUMBER: u16 = 0x0fff;
/// reasons.h: `WAIT_NO_SYSCALL`.
const NO_SYSCALL: u16 = 0x0fff;

/// Calls that wait uninterruptibly for a child, not for a disk.
const CLONES: [&str; 3] = ["vfork", "clone", "clone3"];

/// Converts a reason of the probe.
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

/// System calls of machines that use the numbers of asm-generic/unistd.h: aarch64, riscv64, loongarch64.
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
    use cpumon_model::WaitReason;

    use super::*;

    const BLOCKED: u8 = 1;
    const READY: u8 = 2;

    /// Wait in `futex` on x86-64.
    const FUTEX: u16 = 0x10ca;

    fn asleep(at_ns: u64, reason: u16) -> ThreadTimes {
        ThreadTimes { at_ns, reason, state: BLOCKED, voluntary_switches: 1, ..ThreadTimes::default() }
    }

    #[test]
    fn an_open_wait_counts_up_to_each_cut() {
        let mut times = asleep(100, FUTEX);
        assert_eq!(times.close(50, 150), 0);
        let sched = times.to_sched(0);
        assert_eq!((sched.blocked_ns, sched.waits.of(WaitReason::syscall(202)), sched.wakeups), (50, 50, 0));
        assert_eq!(sched.open_wait, WaitReason::syscall(202));
        times.close(150, 170);
        assert_eq!((times.blocked_ns, times.to_sched(0).waits.total_ns()), (70, 70));
    }

    #[test]
    fn a_wakeup_before_the_cut_ends_the_wait_and_one_after_it_does_not() {
        let mut woken = ThreadTimes { ready_ns: 120, ..asleep(100, 0x1000) };
        assert_eq!(woken.close(50, 150), 30);
        let sched = woken.to_sched(0);
        assert_eq!((sched.blocked_ns, sched.delay_after_wakeup_ns, sched.wakeups), (20, 30, 1));
        assert_eq!((sched.open_wait, sched.longest_delay_ns), (WaitReason::NONE, 30));
        let mut later = ThreadTimes { ready_ns: 160, ..asleep(100, 0x1000) };
        assert_eq!(later.close(50, 150), 0);
        assert_eq!((later.blocked_ns, later.to_sched(0).wakeups), (50, 0));
    }

    #[test]
    fn the_longest_delay_is_of_this_interval() {
        let of = |longest_cut| ThreadTimes {
            longest_cut,
            longest_delay_ns: 70,
            state: READY,
            at_ns: 140,
            ..ThreadTimes::default()
        };
        let closed = |mut times: ThreadTimes| {
            times.close(50, 150);
            (times.longest_delay_ns, times.delay_preempt_ns)
        };
        assert_eq!((closed(of(50)), closed(of(40))), ((70, 10), (10, 10)));
    }

    #[test]
    fn a_full_table_leaves_the_open_wait_to_other() {
        let mut times = asleep(100, 0x1000 | 9);
        times.reasons = [0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0];
        times.close(50, 150);
        assert_eq!(times.to_sched(0).waits.of(WaitReason::OTHER), 50);
    }

    #[test]
    fn what_is_not_watched_or_broken_reports_nothing() {
        let mut broken = asleep(100, 0x1000);
        broken.give_up();
        broken.close(50, 150);
        assert_eq!(broken.to_sched(0), SchedTimes::default());
        assert!(!ThreadTimes::default().is_whole());
        let mut hidden = ThreadTimes::default();
        hidden.say_unwatched();
        assert_eq!(hidden.to_sched(0), SchedTimes::unwatched());
    }

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
