//! The sandbox of a running process: a seccomp filter for all its threads, and for the calling thread and those it starts a Landlock domain
//! and fewer capabilities. An attacker who takes over a parser gets only the rights that the parser needs. A kernel that lacks one is
//! no reason to end: the result is reported in words.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use cpumon_model::SourceKind;
use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use libc::c_long;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::host::{self, Version};
use crate::{AllowedPaths, Calls, RetainedCapabilities};

// The system calls of a process: a seccomp filter (seccomp(2)) that admits those of measuring, sending and storing, and
// answers all others with `ENOSYS`: no program is started, no process is traced, nothing is mounted, no module is loaded.

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whatever their arguments are: memory, time, threads, sockets that are open, files that are open, reading of directories.
const ALWAYS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_getcwd,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_pipe2,
    libc::SYS_socketpair,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_eventfd2,
    libc::SYS_getrandom,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_restart_syscall,
];

/// The same, where a machine has old numbers too.
#[cfg(target_arch = "x86_64")]
const ALWAYS_HERE: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALWAYS_HERE: &[c_long] = &[];

/// Opening files, and which argument has the flags. musl makes the old call where a machine has it, glibc does not.
#[cfg(target_arch = "x86_64")]
const OPENING: &[(c_long, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: &[(c_long, u8)] = &[(libc::SYS_openat, 2)];

/// System calls that create, change, rename and remove files.
const WRITING: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_flock,
    libc::SYS_fchmod,
    libc::SYS_utimensat,
];
#[cfg(target_arch = "x86_64")]
const WRITING_HERE: &[c_long] = &[
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
];
#[cfg(not(target_arch = "x86_64"))]
const WRITING_HERE: &[c_long] = &[];

/// Allowed requests of `ioctl`: whether standard error is a terminal, how much there is to read, no waiting, the number
/// of a network interface.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "glibc has them as `unsigned long`, musl as `int`"
)]
const IOCTLS: [u64; 5] = [
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
    libc::FIONREAD as u64,
    libc::FIONBIO as u64,
    libc::SIOCGIFINDEX as u64,
];
/// Kinds of sockets: the network and the list of interfaces. None of `AF_UNIX`: behind such a socket a service manager or a container
/// engine does whatever it is asked, and Landlock does not keep from connecting to it. The one of `NOTIFY_SOCKET` is open before.
const SOCKETS: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Taking connections; SQLite gives its files the owner of the store.
const SERVING: &[c_long] = &[libc::SYS_accept4, libc::SYS_listen, libc::SYS_fchown, libc::SYS_prlimit64];

/// Flags that open a file for more than reading.
const WRITES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// Removes from all threads of this process every system call that measuring, sending and `calls` do not need. Returns
/// the restrictions in words.
///
/// Errors: the kernel refuses, or has no such filters.
pub fn confine_calls(calls: Calls) -> io::Result<String> {
    let rules = rules(calls).map_err(io::Error::other)?;
    let count = rules.len();
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    // Not a kill: libraries have a fallback for a call that an older kernel lacks.
    let refuse = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&program).map_err(io::Error::other)?;
    Ok(format!("seccomp ({count} calls)"))
}

fn rules(calls: Calls) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = Rules::new();
    let mut allow = |numbers: &[c_long]| rules.extend(numbers.iter().map(|number| (*number, Vec::new())));
    allow(ALWAYS);
    allow(ALWAYS_HERE);
    if calls.bpf {
        // libbpf loads from a memory file.
        allow(&[libc::SYS_bpf, libc::SYS_prlimit64, libc::SYS_memfd_create, libc::SYS_ftruncate]);
    }
    if calls.serves {
        allow(SERVING);
    }
    if calls.writes {
        allow(WRITING);
        allow(WRITING_HERE);
        for (number, _) in OPENING {
            allow(&[*number]);
        }
    } else {
        for (number, flags) in OPENING {
            rules.insert(*number, vec![when_masked(*flags, WRITES, 0)?]);
        }
    }
    // Threads only; clone3 hides its flags, so glibc gets ENOSYS and falls back to clone.
    rules.insert(libc::SYS_clone, vec![when_masked(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]);
    let equals = |value: &u64| when(1, SeccompCmpOp::Eq, *value);
    rules.insert(libc::SYS_ioctl, IOCTLS.iter().map(equals).collect::<Result<_, _>>()?);
    let families = SOCKETS.iter().map(|family| when(0, SeccompCmpOp::Eq, u64::from(family.unsigned_abs())));
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    // Only to itself: an abort. Signals of others need no call here.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Eq, own)?]);
    Ok(rules)
}

/// A call is allowed when its argument meets a condition.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    SeccompRule::new(vec![condition])
}

/// A call is allowed when these bits of its argument have this value.
fn when_masked(argument: u8, mask: i32, value: i32) -> Result<SeccompRule, seccompiler::BackendError> {
    let operator = SeccompCmpOp::MaskedEq(u64::from(mask.unsigned_abs()));
    when(argument, operator, u64::from(value.unsigned_abs()))
}

// The files that a thread may access: Landlock (landlock(7)). Not for the thread that reads /proc: whatever capabilities
// there are, a domain hides `/proc/PID/exe` of outside processes, and with it the names of programs.

/// Paths that every thread may read: libraries, time zones, names of users, random bytes. Not /dev: its disks belong to
/// root, so a process of root would read them without any capability.
const READ: [&str; 14] = [
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/proc",
    "/sys",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
];
/// And a thread that finds the addresses of names. Directories: these files are replaced while it runs. The file itself, where it is a link
/// to elsewhere, such as in `/tmp`.
const RESOLVES: [&str; 3] = ["/etc", "/run", "/etc/resolv.conf"];
/// The version that the rules are written for; an older kernel enforces the ones that it knows.
const VERSION: ABI = ABI::V6;

/// Denies the calling thread, and those it starts later, every file outside of `allowed` and the system's. Returns this
/// kernel's restrictions in words. Not for the thread that measures: it would lose the names of programs.
///
/// Errors: the kernel refuses.
pub fn confine_files(allowed: &AllowedPaths) -> io::Result<String> {
    let status = restrict(allowed).map_err(io::Error::other)?;
    Ok(match status {
        RulesetStatus::FullyEnforced => "Landlock".to_owned(),
        RulesetStatus::PartiallyEnforced => "Landlock, as far as this kernel has it".to_owned(),
        RulesetStatus::NotEnforced => "no Landlock in this kernel".to_owned(),
    })
}

fn restrict(allowed: &AllowedPaths) -> Result<RulesetStatus, landlock::RulesetError> {
    let all = AccessFs::from_all(VERSION);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let mut ruleset = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?;
    let resolves: &[&str] = if allowed.resolves { &RESOLVES } else { &[] };
    let fixed = READ.iter().chain(resolves).map(PathBuf::from);
    for (path, access) in fixed
        .chain(allowed.read.iter().cloned())
        .map(|path| (path, read))
        .chain(allowed.write.iter().cloned().map(|path| (path, write)))
    {
        // A missing path needs no rule; one that cannot be opened gets none.
        let Ok(parent) = PathFd::new(&path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
        ruleset = ruleset.add_rule(PathBeneath::new(parent, access))?;
    }
    for port in &allowed.connect {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    for port in &allowed.bind {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

// Capabilities are needed to load the probes; a thread that measures afterwards, for weeks, should be able to do nothing else. They
// belong to threads. The thread that opens a source drops them right after, before it starts other threads, which inherit the rest;
// threads that run already drop their own ([`drop_all`]).

/// Names of the capabilities that may be kept, and their purpose.
const KEPT: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE (names of other users' programs)"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE (files in other users' directories)"),
    (CapabilitySet::BPF, "CAP_BPF (the probes)"),
    (CapabilitySet::PERFMON, "CAP_PERFMON (the probes)"),
];

/// First version in which loaded programs work on without `CAP_BPF` where unprivileged BPF is disabled (bpf(2);
/// before, every command was refused).
const BPF_OBJECTS_ARE_ENOUGH_SINCE: Version = Version::new(5, 19);

/// Gives up every capability of the calling thread, and of those it starts later, that is not needed once a source of this
/// kind is open, and the way to get one back by running another program. Says in words which are left.
///
/// Errors: the kernel refuses (a seccomp filter).
pub fn drop_capabilities(kind: SourceKind, keep: RetainedCapabilities) -> io::Result<String> {
    let mut wanted = CapabilitySet::empty();
    if keep.names {
        wanted |= CapabilitySet::SYS_PTRACE;
    }
    if keep.files {
        wanted |= CapabilitySet::DAC_OVERRIDE;
    }
    if keep.probes {
        wanted |= CapabilitySet::BPF | CapabilitySet::PERFMON;
    }
    if kind == SourceKind::Bpf && host::running().is_none_or(|version| version < BPF_OBJECTS_ARE_ENOUGH_SINCE)
    {
        wanted |= CapabilitySet::BPF;
    }
    let left = reduce_to(wanted)?;
    let named: Vec<&str> =
        KEPT.iter().filter(|(set, _)| left.contains(*set)).map(|(_, name)| *name).collect();
    Ok(if named.is_empty() { "none".to_owned() } else { named.join(", ") })
}

/// Gives up all capabilities of the calling thread, which needs none. A kernel that refuses is no reason to end.
pub(crate) fn drop_all() {
    if let Err(error) = reduce_to(CapabilitySet::empty()) {
        log::debug!("a thread keeps its capabilities: {error}");
    }
}

fn reduce_to(wanted: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let left = capabilities(None)?.permitted & wanted;
    // Otherwise a program with file capabilities could regain the dropped ones.
    set_no_new_privs(true)?;
    clear_ambient_capability_set()
        // Kernels before 4.3 have no ambient set, so there is nothing to clear.
        .or_else(|error| if error == Errno::INVAL { Ok(()) } else { Err(error) })?;
    set_capabilities(
        None,
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() },
    )?;
    Ok(left)
}

#[cfg(test)]
mod tests;
