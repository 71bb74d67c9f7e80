use std::path::Path;

use super::naming::longer_name;
use super::*;

fn about(pid: u32, comm: &str) -> About {
    About { key: ProcessKey { pid, start_ns: 1 }, comm: comm.into(), is_kernel: false, uid: None }
}

#[test]
fn this_process_is_named_after_its_executable() {
    let mut cache = InfoCache::open_in(Path::new("/proc"), true);
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
    let mut cache = InfoCache::open_in(root.path(), true);
    let info = cache.resolve(&about(5, "a thing"));
    assert_eq!((&*info.name, &*info.container, info.uid), ("a thing", "web.service", 7));
    assert_eq!(&*info.cmdline, "/opt/run --token=***");
    let again = cache.resolve(&about(5, "a thing"));
    assert!(Arc::ptr_eq(&info, &again), "kept");
}

/// Replaces executable and command line of the process.
fn exec(root: &tempfile::TempDir, exe: &str, cmdline: &[u8]) {
    let link = root.path().join("5/exe");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(exe, link).unwrap();
    std::fs::write(root.path().join("5/cmdline"), cmdline).unwrap();
}

#[test]
fn a_script_has_its_own_name_and_its_interpreter_beside_it() {
    let root = tree(5, "/usr/bin/python3.11", "0::/\n");
    let run = |cmdline: &[u8]| exec(&root, "/usr/bin/python3.11", cmdline);
    run(b"python3\0-u\0/opt/nightly-report\0--token=abc\0");
    let mut cache = InfoCache::open_in(root.path(), false);
    let info = cache.resolve(&about(5, "python3"));
    assert_eq!((&*info.name, &*info.interpreter), ("nightly-report", "python3.11"));
    assert_eq!((&*info.cmdline, info.executable()), ("", "python3.11"), "nothing else of the command line");

    run(b"python3\0/opt/other\0");
    cache.expire(about(5, "").key);
    assert_eq!(&*cache.resolve(&about(5, "python3")).name, "other", "an exec of the same interpreter");
    exec(&root, "/usr/bin/ls", b"ls\0x\0");
    let info = cache.resolve(&about(5, "ls"));
    assert_eq!((&*info.name, &*info.interpreter), ("ls", ""));

    let options =
        SourceOptions { proc_root: root.path().into(), script_names: false, ..SourceOptions::default() };
    run(b"python3\0/opt/nightly-report\0");
    let info = InfoCache::open(&options).unwrap().resolve(&about(5, "python3"));
    assert_eq!((&*info.name, &*info.interpreter), ("python3.11", ""), "switched off");
}

#[test]
fn a_program_that_is_a_directory_has_its_name() {
    let root = tree(5, "/usr/bin/node", "0::/\n");
    std::os::unix::fs::symlink("/srv/web-shop", root.path().join("5/cwd")).unwrap();
    exec(&root, "/usr/bin/node", b"node\0.\0hunter2\0");
    let info = InfoCache::open_in(root.path(), false).resolve(&about(5, "node"));
    assert_eq!((&*info.name, &*info.interpreter), ("web-shop", "node"));
    for directory in ["/", "/srv/key=hunter2"] {
        std::fs::remove_file(root.path().join("5/cwd")).unwrap();
        std::os::unix::fs::symlink(directory, root.path().join("5/cwd")).unwrap();
        assert_eq!(&*InfoCache::open_in(root.path(), false).resolve(&about(5, "node")).name, "node");
    }
}

#[test]
fn an_executable_in_memory_has_the_name_that_its_maker_gave_it() {
    let root = tree(5, "/memfd:runc_cloned:/proc/self/exe (deleted)", "0::/\n");
    assert_eq!(&*InfoCache::open_in(root.path(), false).resolve(&about(5, "runc")).name, "runc_cloned");
}

#[test]
fn a_main_class_behind_a_long_class_path_is_found() {
    let root = tree(5, "/usr/bin/java", "0::/\n");
    let jars = "/opt/kafka/libs/x.jar:".repeat(1000);
    exec(&root, "/usr/bin/java", format!("java\0-cp\0{jars}\0kafka.Kafka\0x\0").as_bytes());
    let info = InfoCache::open_in(root.path(), false).resolve(&about(5, "java"));
    assert_eq!((&*info.name, &*info.interpreter), ("Kafka", "java"));
}

#[test]
fn a_long_name_seen_once_completes_the_15_bytes_of_those_that_were_too_short() {
    let root = tree(5, "/usr/bin/bash", "0::/\n");
    exec(&root, "/usr/bin/bash", b"bash\0/opt/pyenv-version-name\0");
    let mut cache = InfoCache::open_in(root.path(), false);
    let comm = Comm::new(b"pyenv-version-n");
    let script = |cache: &InfoCache, comm| cache.script(&called("bash", comm, &ExecScript::Unread));
    assert_eq!(script(&cache, comm).as_deref(), Some("pyenv-version-n"));
    assert_eq!(&*cache.resolve(&about(5, "pyenv-version-n")).name, "pyenv-version-name");
    assert_eq!(script(&cache, comm).as_deref(), Some("pyenv-version-name"));
    assert_eq!(script(&cache, "bash".into()), None);
}

fn called<'a>(program: &'a str, comm: Comm, script: &'a ExecScript) -> Exec<'a> {
    Exec { program: program.into(), comm, script, is_new: true }
}

#[test]
fn a_script_that_ended_before_its_files_were_read_has_its_name_from_the_exec() {
    let root = tempfile::tempdir().unwrap();
    let named = ExecScript::Named("x.py".into());
    let about = about(5, "python3");
    let resolve = |script_names, program: &str, script: &ExecScript| {
        let options =
            SourceOptions { proc_root: root.path().into(), script_names, ..SourceOptions::default() };
        let mut cache = InfoCache::open(&options).unwrap();
        let exec = called(program, about.comm, script);
        let info = cache.resolve_called(&about, Some(&exec));
        assert_eq!(cache.script(&exec).as_deref(), (!info.interpreter.is_empty()).then_some(&*info.name));
        (info.name.to_string(), info.interpreter.to_string())
    };
    let is = |name: &str, interpreter: &str| (name.to_owned(), interpreter.to_owned());
    assert_eq!(resolve(true, "python3.11", &named), is("x.py", "python3.11"));
    assert_eq!(resolve(true, "python3.11", &ExecScript::None), is("python3.11", ""));
    assert_eq!(
        resolve(true, "python3.11", &ExecScript::Unread),
        is("python3.11", ""),
        "as the kernel shows it"
    );
    assert_eq!(resolve(false, "python3.11", &named), is("python3.11", ""), "switched off");
}

#[test]
fn a_known_command_line_is_not_read_again() {
    let root = tree(5, "/usr/bin/mawk", "0::/\n");
    let read = |cache: &mut InfoCache, passes: u64| {
        for _ in 0..passes {
            cache.end_pass();
            cache.resolve(&about(5, "sum-up"));
        }
        cache.resolve(&about(5, "sum-up")).name.to_string()
    };
    exec(&root, "/usr/bin/mawk", b"mawk\0-f\0/x/sum-up\0");
    let mut cache = InfoCache::open_in(root.path(), false);
    assert_eq!(read(&mut cache, SECOND_READ + 1), "sum-up");
    std::fs::write(root.path().join("5/cmdline"), b"rewritten\0").unwrap();
    assert_eq!(read(&mut cache, NEXT_READ + 1), "sum-up", "known from the second read");
    cache.expire(about(5, "").key);
    assert_eq!(read(&mut cache, 0), "mawk", "an exec");
}

#[test]
fn a_process_has_its_users_name() {
    let root = tree(5, "/opt/x", "0::/\n");
    std::fs::create_dir(root.path().join("etc")).unwrap();
    std::fs::write(root.path().join("etc/passwd"), "ann:x:7:7::/:\n").unwrap();
    let (proc_root, fs_root) = (root.path().into(), root.path().into());
    let mut cache =
        InfoCache::open(&SourceOptions { proc_root, fs_root, ..SourceOptions::default() }).unwrap();
    assert_eq!(&*cache.resolve(&about(5, "x")).user, "ann");
    let of_root = About { uid: Some(0), ..about(5, "x") };
    assert_eq!(&*cache.resolve(&of_root).user, "root");
    assert_eq!(&*cache.resolve(&About { uid: Some(9), ..about(5, "x") }).user, "");
}

#[test]
fn a_new_name_and_a_second_read_count_and_ended_processes_retain_theirs() {
    let root = tree(5, "/opt/old", "0::/\n");
    let mut cache = InfoCache::open_in(root.path(), false);
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
    // Normal on a healthy machine: only with -v.
    assert_eq!(level, log::Level::Debug);
    assert!(text.contains(" 1 of 90 processes ") && text.contains("/proc/1/exe"), "{text}");
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
    assert_eq!(longer_name(b"systemd-journald: key=hunter2\0", comm), None, "a title");
}
