//! What a process has given up is gone.

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

/// In a thread of its own, because dropped capabilities do not come back.
#[test]
fn what_is_given_up_is_gone_and_inherited_so() {
    let (before, left, inherited) = std::thread::spawn(|| {
        let before = capabilities(None).unwrap().permitted;
        let message = drop_capabilities(SourceKind::Procfs, RetainedCapabilities::NAMES).unwrap();
        let left = capabilities(None).unwrap();
        assert_eq!(message == "none", left.permitted.is_empty(), "{message}: {left:?}");
        let inherited = std::thread::spawn(|| {
            let inherited = capabilities(None).unwrap();
            drop_all();
            assert_eq!(capabilities(None).unwrap().permitted, CapabilitySet::empty());
            inherited
        });
        (before, left, inherited.join().unwrap())
    })
    .join()
    .unwrap();
    assert_eq!(left.permitted, before & CapabilitySet::SYS_PTRACE);
    assert_eq!((left.effective, left.inheritable), (left.permitted, CapabilitySet::empty()));
    assert_eq!(inherited.permitted, left.permitted);
    assert_eq!(capabilities(None).unwrap().permitted, before, "another thread keeps its own");
}
