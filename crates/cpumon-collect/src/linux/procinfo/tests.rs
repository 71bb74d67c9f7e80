use super::*;

fn about(pid: u32, comm: &str) -> About {
    About { key: ProcessKey { pid, start_ns: 1 }, comm: comm.into(), is_kernel: false, uid: None }
}

#[test]
fn this_process_is_named_after_its_executable() {
    let mut cache = InfoCache::open(Path::new("/proc"), true).unwrap();
    let info = cache.resolve(&about(std::process::id(), "whatever"));
    let exe = std::env::current_exe().unwrap();
    assert_eq!(*info.name, *exe.file_name().unwrap().to_string_lossy());
    assert!(info.cmdline.contains("cpumon_collect"), "{}", info.cmdline);
    assert_eq!(&*info.comm, "whatever");
    assert_eq!(info.uid, rustix::process::getuid().as_raw());
}

fn tree(pid: u32, exe: &str, cgroup: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(pid.to_string());
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(exe, dir.join("exe")).unwrap();
    std::fs::write(dir.join("cgroup"), cgroup).unwrap();
    std::fs::write(dir.join("cmdline"), b"/opt/run\0--token=abc\0").unwrap();
    std::fs::write(dir.join("status"), "Uid:\t7\t0\t0\t0\n").unwrap();
    root
}

#[test]
fn names_units_and_users_come_from_their_files() {
    let root = tree(5, "/opt/a thing (deleted)", "0::/system.slice/web.service\n");
    let mut cache = InfoCache::open(root.path(), true).unwrap();
    let info = cache.resolve(&about(5, "a thing"));
    assert_eq!((&*info.name, &*info.container, info.uid), ("a thing", "web.service", 7));
    assert_eq!(&*info.cmdline, "/opt/run --token=***");
    let again = cache.resolve(&about(5, "a thing"));
    assert!(Arc::ptr_eq(&info, &again), "kept");
}

#[test]
fn a_new_name_and_a_second_read_count_and_ended_processes_retain_theirs() {
    let root = tree(5, "/opt/old", "0::/\n");
    let mut cache = InfoCache::open(root.path(), false).unwrap();
    let first = cache.resolve(&about(5, "old"));
    assert_eq!((&*first.name, &*first.cmdline), ("old", ""));
    cache.end_pass();
    std::fs::write(root.path().join("5/cgroup"), "0::/system.slice/late.service\n").unwrap();
    assert_eq!(&*cache.resolve(&about(5, "old")).cgroup, "/");
    cache.end_pass();
    assert_eq!(&*cache.resolve(&about(5, "old")).container, "late.service", "second read");
    let exe = root.path().join("5/exe");
    std::fs::remove_file(&exe).unwrap();
    std::os::unix::fs::symlink("/opt/new", &exe).unwrap();
    assert_eq!(&*cache.resolve(&about(5, "new")).name, "new", "exec");
    std::fs::remove_dir_all(root.path().join("5")).unwrap();
    assert_eq!(&*cache.resolve(&about(5, "newer")).name, "new", "gone");
    cache.end_pass();
    cache.end_pass();
    assert_eq!(&*cache.resolve(&about(5, "short")).name, "short", "forgotten, and nothing to read");
}

#[test]
fn what_is_refused_is_logged_once_with_numbers() {
    let mut few = Refused::default();
    assert_eq!(few.message(90), None);
    few.note(1, 0);
    let (level, text) = few.message(90).unwrap();
    assert_eq!(level, log::Level::Info);
    assert!(text.starts_with("1 of 90 processes") && text.contains("/proc/1/exe"), "{text}");
    few.note(2, 1);
    assert_eq!(few.message(90), None, "once");

    let mut many = Refused::default();
    for pid in 1..30 {
        many.note(pid, 0);
    }
    assert_eq!(many.message(90).unwrap().0, log::Level::Warn);

    let mut worse = Refused::default();
    for (pid, others) in [(1, 0), (7, 2), (9, 1)] {
        worse.note(pid, others);
    }
    let (level, text) = worse.message(90).unwrap();
    assert_eq!(level, log::Level::Warn);
    assert!(text.starts_with("3 of 90 processes") && text.contains("/proc/7 "), "{text}");
}

#[test]
fn a_cut_name_is_completed_from_the_command_line() {
    let comm = Comm::new(b"systemd-journal");
    assert_eq!(
        longer_name(b"/lib/systemd/systemd-journald\0-x\0", comm).as_deref(),
        Some("systemd-journald")
    );
    assert_eq!(longer_name(b"something else\0", comm), None);
    assert_eq!(longer_name(b"bash-x\0", "bash".into()), None);
}
