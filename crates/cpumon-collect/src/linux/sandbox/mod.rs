//! The sandbox of a running process: a seccomp filter for all its threads, and a Landlock domain for the calling thread
//! and those it starts. An attacker who takes over a parser gets only the rights that the parser needs. A kernel without
//! one of them is no reason to end: the result is reported in words.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::{AllowedPaths, Calls};

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

// The files that a thread may access: Landlock (landlock(7)). Not for the thread that reads /proc: a domain hides
// `/proc/PID/exe` of processes outside of it, whatever capabilities there are, and with it the names of programs.

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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the process that is sandboxed: a filter never comes off.
    const SANDBOXED: &str = "CPUMON_TEST_SANDBOXED";

    #[test]
    fn a_sandboxed_process_measures_and_sends_and_does_nothing_else() {
        if std::env::var_os(SANDBOXED).is_some() {
            return in_the_sandbox();
        }
        let program = std::env::current_exe().unwrap();
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::a_sandboxed_process_measures_and_sends_and_does_nothing_else");
        let sandboxed =
            Command::new(program).args(["--exact", &name, "--test-threads=1"]).env(SANDBOXED, "1").output();
        let sandboxed = sandboxed.unwrap();
        // A name that no test has would succeed too.
        let has_run = String::from_utf8_lossy(&sandboxed.stdout).contains("1 passed");
        assert!(sandboxed.status.success() && has_run, "{sandboxed:?}");
    }

    fn in_the_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let (held, file) = (dir.path().join("held"), dir.path().join("file"));
        std::fs::write(&held, "x").unwrap();
        let message = confine_calls(Calls::default()).unwrap();
        assert!(message.starts_with("seccomp ("), "{message}");
        assert_eq!(std::fs::read(&held).unwrap(), b"x");
        assert!(std::fs::read_to_string("/proc/self/stat").is_ok());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        // A sender of broadcasts lists its interfaces again and again.
        // SAFETY: the name is a C string that lives on.
        #[expect(unsafe_code, reason = "if_nametoindex(3) has no safe name")]
        let loopback = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        assert!(loopback > 0, "the number of an interface: {}", io::Error::last_os_error());
        for (what, is_done) in [
            ("making a file", std::fs::write(&file, "x").is_ok()),
            ("changing a file", std::fs::OpenOptions::new().append(true).open(&held).is_ok()),
            ("removing a file", std::fs::remove_file(&held).is_ok()),
            ("running a program", Command::new("/bin/true").status().is_ok()),
        ] {
            assert!(!is_done, "{what}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(open_as_musl_does(&held), (true, false), "reading, writing");
        let refused = |number: c_long, argument: c_long| {
            // SAFETY: the filter refuses each of these before it reads more than the first argument.
            #[expect(unsafe_code, reason = "calls that have no safe name")]
            let result = unsafe { libc::syscall(number, argument, 0, 0, 0, 0) };
            result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
        };
        for number in
            [libc::SYS_ptrace, libc::SYS_mount, libc::SYS_bpf, libc::SYS_setns, libc::SYS_io_uring_setup]
        {
            assert!(refused(number, 0), "system call {number}");
        }
        assert!(refused(libc::SYS_socket, libc::AF_PACKET.into()), "raw sockets");
        assert!(refused(libc::SYS_socket, libc::AF_UNIX.into()), "the sockets of service managers");
        assert!(refused(libc::SYS_clone, 0), "processes");
        assert!(refused(libc::SYS_kill, 1), "signals");
    }

    /// Whether a file can be opened for reading, and for writing.
    #[cfg(target_arch = "x86_64")]
    fn open_as_musl_does(path: &std::path::Path) -> (bool, bool) {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let opens = |flags: i32| {
            // SAFETY: the path is a C string that lives on. The file stays open until the process ends.
            #[expect(unsafe_code, reason = "open(2) by its old number has no safe name")]
            let file = unsafe { libc::syscall(libc::SYS_open, path.as_ptr(), flags) };
            file >= 0
        };
        (opens(libc::O_RDONLY), opens(libc::O_WRONLY))
    }

    #[test]
    fn a_thread_writes_only_where_it_may_and_so_do_those_it_starts() {
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mine_path, other_path) = (mine.path().to_owned(), other.path().to_owned());
        std::fs::write(other_path.join("secret"), "s").unwrap();
        let tried = std::thread::spawn(move || {
            let allowed = AllowedPaths { write: vec![mine_path.clone()], ..AllowedPaths::default() };
            let message = confine_files(&allowed).unwrap();
            let tries = move || {
                (
                    std::fs::write(mine_path.join("a"), "x").is_ok(),
                    std::fs::rename(mine_path.join("a"), mine_path.join("b")).is_ok(),
                    std::fs::write(other_path.join("a"), "x").is_ok(),
                    std::fs::read(other_path.join("secret")).is_ok(),
                    std::fs::read("/proc/self/status").is_ok(),
                    Command::new("/bin/true").status().is_ok(),
                    std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
                )
            };
            (message, std::thread::spawn(tries).join().unwrap())
        });
        let (message, tried) = tried.join().unwrap();
        if message.starts_with("no Landlock") {
            return super::super::skip::skip("needs a kernel with Landlock");
        }
        assert_eq!(tried, (true, true, false, false, true, false, false), "{message}");
        assert!(std::fs::write(other.path().join("b"), "x").is_ok(), "others are free");
    }

    #[test]
    fn a_thread_reads_neither_disks_nor_what_root_keeps_in_etc() {
        let tried = std::thread::spawn(|| {
            let message = confine_files(&AllowedPaths::default()).unwrap();
            let reads = |path: &str| std::fs::File::open(path).is_ok();
            (
                message,
                ["/etc/passwd", "/dev/null"].map(reads),
                ["/etc/shadow", "/dev", "/run", "/root"].map(reads),
            )
        });
        let (message, allowed, refused) = tried.join().unwrap();
        if message.starts_with("no Landlock") {
            return super::super::skip::skip("needs a kernel with Landlock");
        }
        assert_eq!((allowed, refused), ([true; 2], [false; 4]), "{message}");
    }
}
