//! Command lines as they are seen in the wild, hostile ones, and any bytes.

use proptest::prelude::*;

use super::*;

fn script(executable: &str, comm: &str, arguments: &[&str]) -> Option<String> {
    let cmdline = [arguments.join("\0").as_bytes(), b"\0"].concat();
    Command { executable, comm: comm.into(), cmdline: &cmdline, is_cut: false }.script()
}

/// The script of a program that was started by its interpreter's name.
fn named(arguments: &[&str]) -> Option<String> {
    let program = arguments[0].rsplit('/').next().unwrap();
    script(program, program, arguments)
}

#[test]
fn scripts_are_named() {
    for (arguments, name) in [
        (&["python3.11", "/usr/local/bin/nightly-report"][..], "nightly-report"),
        (&["/usr/bin/python3", "-u", "script.py", "--token", "hunter2"], "script.py"),
        (&["python3", "-Es", "-W", "ignore", "-X", "dev", "/a/b.py"], "b.py"),
        (&["python3", "-Wignore", "/a/b.py"], "b.py"),
        (&["python3", "-m", "http.server", "8000"], "http.server"),
        (&["python3", "-um", "celery", "worker"], "celery"),
        (&["python3", "-mcelery", "worker"], "celery"),
        (&["python3.13t", "--check-hash-based-pycs", "always", "x.py"], "x.py"),
        (&["python3", "/opt/app/"], "app"),
        (&["pypy3", "--", "-odd.py"], "-odd.py"),
        (&["bash", "/etc/cron.daily/rotate-logs.sh", "secret"], "rotate-logs.sh"),
        (&["bash", "-eou", "pipefail", "x.sh"], "x.sh"),
        (&["bash", "+o", "posix", "--norc", "--rcfile", "r", "-l", "x"], "x"),
        (&["sh", "-x", "/tmp/a b"], "a b"),
        (&["dash", "./x"], "x"),
        (&["sh", "/dev/shm/x"], "x"),
        (&["node", "--max-old-space-size=4096", "server.js"], "server.js"),
        (&["node", "--no-warnings", "/usr/bin/npm", "ci"], "npm"),
        (&["node", "-r", "ts-node/register", "src/main"], "main"),
        (&["node", "--unknown", "value", "main.js"], "main.js"),
        (&["node", "--flag", "script.js"], "script.js"),
        (&["node", "inspect", "x.js"], "x.js"),
        (&["nodejs", "--import", "./hook.mjs", "app.mjs"], "app.mjs"),
        (&["deno", "run", "--allow-net", "https://host/x/mod.ts"], "mod.ts"),
        (&["bun", "run", "index.tsx"], "index.tsx"),
        (&["java", "-Xmx4g", "-cp", "a.jar:b.jar", "Main", "hunter2"], "Main"),
        (&["java", "-Dpassword=hunter2", "-jar", "/opt/x/app.jar", "--x"], "app.jar"),
        (
            &["java", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-classpath", "x", "kafka.Kafka"],
            "Kafka",
        ),
        (&["java", "@options", "--enable-preview", "org.example.Main"], "Main"),
        (&["java", "-p", "mods", "-m", "mod/org.example.Main"], "Main"),
        (&["java", "/x/Hello.java"], "Hello.java"),
        (&["perl", "-w", "-I", "lib", "/usr/bin/exiftool", "x"], "exiftool"),
        (&["perl5.36.0", "-Mstrict", "-0777", "-i.bak", "-pi", "x.pl"], "x.pl"),
        (&["ruby3.1", "-W0", "-rbundler/setup", "-I", "lib", "bin/rails", "s"], "rails"),
        (&["ruby", "--enable", "yjit", "--yjit", "/usr/bin/puma"], "puma"),
        (&["php8.2", "-d", "memory_limit=-1", "artisan", "queue:work"], "artisan"),
        (&["php", "-f", "x.php"], "x.php"),
        (&["dotnet", "exec", "--depsfile", "x.json", "/srv/App.dll", "--key", "k"], "App.dll"),
        (&["dotnet", "App.dll"], "App.dll"),
        (&["mono", "/x/Sonarr.exe"], "Sonarr.exe"),
        (&["lua5.4", "-l", "socket", "x.lua"], "x.lua"),
        (&["expect", "-f", "login.exp"], "login.exp"),
    ] {
        assert_eq!(named(arguments).as_deref(), Some(name), "{arguments:?}");
    }
}

#[test]
fn code_and_arguments_never_are_names() {
    for arguments in [
        &["python3", "-c", "import secrets"][..],
        &["python3", "-Bc", "import secrets", "arg"],
        &["python3", "-cimport secrets"],
        &["python3", "-"],
        &["python3"],
        &["python3", "-m"],
        &["bash", "-c", "mysql -phunter2"],
        &["bash", "-lc", "mysql -phunter2"],
        &["bash", "-eo", "pipefail", "-c", "hunter2"],
        &["sh", "-ec", "hunter2", "sh"],
        &["bash", "-s", "hunter2"],
        &["bash", "/dev/fd/63", "hunter2"],
        &["bash", "/dev/stdin", "hunter2"],
        &["bash", "/proc/self/fd/3", "hunter2"],
        &["node", "-e", "hunter2"],
        &["node", "-pe", "hunter2"],
        &["node", "--eval", "hunter2"],
        &["node", "--token", "hunter2", "hunter3"],
        &["node", "--run", "hunter2"],
        &["perl", "-ne", "hunter2", "file"],
        &["perl", "-lnae", "hunter2"],
        &["perl", "-Mstrict", "-E", "hunter2"],
        &["ruby", "-rjson", "-e", "hunter2"],
        &["php", "-r", "hunter2"],
        &["php", "-S", "0.0.0.0:8000", "hunter2"],
        &["java", "--unknown", "hunter2", "hunter3"],
        &["java", "-version"],
        &["dotnet", "build", "hunter2"],
        &["deno", "eval", "hunter2"],
        &["lua", "-e", "hunter2"],
    ] {
        assert_eq!(named(arguments), None, "{arguments:?}");
    }
}

#[test]
fn what_the_kernel_starts_by_its_first_line_is_named() {
    // comm is the script's name, cut to 15 bytes; the interpreter may be any program.
    let long = ["/usr/bin/python3", "/opt/a-very-long-script-name.py"];
    assert_eq!(script("python3.11", "a-very-long-scr", &long).as_deref(), Some("a-very-long-script-name.py"));
    let awk = ["/usr/bin/mawk", "-f", "/x/sum-up", "data"];
    assert_eq!(script("mawk", "sum-up", &awk).as_deref(), Some("sum-up"));
    let before_exec = ["/usr/bin/env", "-S python3 -u", "/x/tool"];
    assert_eq!(script("env", "tool", &before_exec).as_deref(), Some("tool"));
    assert_eq!(script("mawk", "mawk", &["mawk", "x"]), None);
    assert_eq!(script("nginx", "nginx", &["nginx: master process", "nginx"]), None);
    assert_eq!(script("firefox-bin", "Isolated Web Co", &["/x/firefox-bin", "-contentproc"]), None);
}

#[test]
fn a_name_of_its_own_counts_where_the_command_line_has_none() {
    // Rewritten by setproctitle, or the process ended before it could be read.
    assert_eq!(script("python3.11", "gunicorn", &["gunicorn: master [app]"]).as_deref(), Some("gunicorn"));
    assert_eq!(script("python3.11", "nightly-report", &[""]).as_deref(), Some("nightly-report"));
    for comm in ["python3", "python", "MainThread", "python3.11"] {
        assert_eq!(script("python3.11", comm, &[""]), None, "{comm}");
    }
    assert_eq!(script("node", "node-MainThread", &["node"]), None);
    assert_eq!(script("dash", "sh", &["sh", "-c", "x"]), None);
    assert_eq!(script("busybox", "sleep", &["sleep", "9"]).as_deref(), Some("sleep"));
    assert_eq!(script("busybox", "sh", &["sh", "/etc/rc.local"]).as_deref(), Some("rc.local"));
    assert_eq!(script("busybox", "sh", &["sh", "-c", "hunter2"]), None);
}

#[test]
fn executables_are_interpreters_by_name_and_version() {
    for name in
        ["python", "python3", "python3.11", "python3.13t", "python2.7", "ruby3.1", "php8.2", "node18", "bash"]
    {
        assert!(is_interpreter(name), "{name}");
    }
    for name in ["pythonista", "php-fpm8.2", "nodemon", "bashful", "javac", "python3-config", "sh3ll", ""] {
        assert!(!is_interpreter(name), "{name}");
    }
}

#[test]
fn a_cut_command_line_gives_no_cut_name() {
    let cut = |cmdline: &[u8]| {
        Command { executable: "python3", comm: "python3".into(), cmdline, is_cut: true }.script()
    };
    assert_eq!(cut(b"python3\0-u\0/opt/scri"), None);
    assert_eq!(cut(b"python3\0/opt/script\0arg"), Some("script".into()));
    assert_eq!(cut(b"python3 without an end"), None);
}

proptest! {
    #[test]
    fn any_bytes_do(
        executable in "(python3|bash|java|node|perl|ruby|php|dotnet|busybox|x)",
        comm in prop::collection::vec(any::<u8>(), 0..15),
        cmdline in prop::collection::vec(prop_oneof![Just(0), Just(b'-'), any::<u8>()], 0..200),
        is_cut in any::<bool>(),
    ) {
        let command = Command { executable: &executable, comm: Comm::new(&comm), cmdline: &cmdline, is_cut };
        if let Some(name) = command.script() {
            let is_comm = name == command.comm.to_str_lossy();
            prop_assert!(!name.is_empty() && (is_comm || !name.contains(['/', '\0'])), "{name:?}");
        }
    }

    #[test]
    fn code_never_shows(before in "-[uBEsq]{1,3}", code in "hunter2[ -.0-~]{0,20}") {
        for arguments in [["python3", &before, "-c", &code], ["bash", "-l", "-c", &code], ["perl", "-w", "-e", &code]] {
            prop_assert_eq!(named(&arguments), None);
        }
    }
}
