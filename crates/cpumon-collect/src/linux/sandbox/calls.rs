//! Which system calls a process makes: a seccomp filter (seccomp(2)) that knows what measuring, sending and keeping need, and answers
//! everything else with `ENOSYS`: no program is started, no process is traced, nothing is mounted, no module is loaded.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::Calls;

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

/// Making, naming and removing files.
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

/// What `ioctl` may ask: whether standard error is a terminal, how much there is to read, no waiting, the number of a network interface.
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

/// What opens a file for more than reading.
const WRITES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

pub(crate) fn confine_calls(calls: Calls) -> io::Result<String> {
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
}
