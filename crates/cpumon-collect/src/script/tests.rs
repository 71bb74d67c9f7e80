//! Command lines as they are seen in the wild, hostile ones, and any bytes.

use proptest::prelude::*;

use super::*;

fn script(executable: &str, comm: &str, arguments: &[&str]) -> Option<String> {
    let cmdline = [arguments.join("\0").as_bytes(), b"\0"].concat();
    ScriptCommand { executable, comm: comm.into(), cmdline: &cmdline, is_cut: false }
        .script(|| Some("srv".into()))
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
        (&["pypy3", "--", "odd.py"], "odd.py"),
        (&["bash", "/etc/cron.daily/rotate-logs.sh", "secret"], "rotate-logs.sh"),
        (&["bash", "-eou", "pipefail", "x.sh"], "x.sh"),
        (&["bash", "+o", "posix", "--norc", "--rcfile", "r", "-l", "x"], "x"),
        (&["dash", "./x"], "x"),
        (&["sh", "/dev/shm/x"], "x"),
        (&["node", "--max-old-space-size=4096", "server.js"], "server.js"),
        (&["node", "--no-warnings", "/usr/bin/npm", "ci"], "npm"),
        (&["node", "-r", "ts-node/register", "src/main"], "main"),
        (&["node", "--max_old_space_size=4096", "main.js"], "main.js"),
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
        (&["java", "--enable-preview", "org.example.Main$Inner"], "Main$Inner"),
        (&["java", "-jar", "-Xmx1g", "-Dpassword=hunter2", "app.jar"], "app.jar"),
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
        (&["tclsh", "-encoding", "utf-8", "x.tcl", "hunter2"], "x.tcl"),
        (&["zsh", "-oextendedglob", "x.zsh", "hunter2"], "x.zsh"),
        (&["fish", "--init-command", "set k hunter2", "x.fish"], "x.fish"),
        (&["julia", "--startup-file", "no", "-O3", "x.jl"], "x.jl"),
        (&["bun", "--inspect=hunter2.ts", "index.ts"], "index.ts"),
        (&["ruby", "-W:no-deprecated", "-Ku", "x.rb"], "x.rb"),
        (&["perl", "-d:NYTProf", "x.pl"], "x.pl"),
        (&["php", "--define", "k=hunter2", "--file=x.php"], "x.php"),
        (&["deno", "run", "--allow-net=hunter2", "https://hunter2@host/mod.ts?key=hunter2/x.ts"], "mod.ts"),
        (&["node", "."], "srv"),
        (&["node", "./"], "srv"),
        (&["ld-linux-x86-64.so.2", "--library-path", "/hunter2", "/opt/app/bin/server", "hunter2"], "server"),
        (&["ld-musl-aarch64.so.1", "--argv0=hunter2", "--", "/bin/tool"], "tool"),
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
        &["java", "@hunter2", "hunter2.Main"],
        &["java", "-jar", "-Dpassword=hunter2", "--unknown", "hunter2.jar"],
        &["python3", "--unknown", "hunter2.py"],
        &["python3", "password=hunter2"],
        &["bash", "-c", "-e", "hunter2"],
        &["bash", "-unknown", "--", "hunter2"],
        &["sh", "-opipefail", "hunter2.sh", "hunter2"],
        &["sh", "-x", "/tmp/a hunter2"],
        &["dash", "--", "-hunter2"],
        &["zsh", "-b", "-x", "hunter2"],
        &["fish", "--command=hunter2", "hunter2"],
        &["fish", "-C", "hunter2"],
        &["fish", "--init", "hunter2", "hunter2.fish"],
        &["perl", "-de", "hunter2"],
        &["perl", "-0x1ne", "hunter2"],
        &["ruby", "-Kue", "hunter2"],
        &["ruby", "-W0e", "hunter2"],
        &["php", "--run", "hunter2"],
        &["php", "--run=hunter2", "hunter2.php"],
        &["php", "--process-begin", "hunter2", "hunter2.php"],
        &["php", "--define", "hunter2"],
        &["php", "--", "hunter2.php"],
        &["node", "--eval=1", "hunter2.js"],
        &["node", "--unknown", "hunter2.js"],
        &["node", "--require", "hunter2.js"],
        &["deno", "run", "--unknown", "hunter2.ts", "x.ts"],
        &["deno", "task", "hunter2.ts"],
        &["bun", "-e", "hunter2.ts", "hunter2.ts"],
        &["dotnet", "run", "--", "hunter2.dll"],
        &["dotnet", "exec", "--unknown", "hunter2.dll"],
        &["mono", "--unknown", "hunter2.exe"],
        &["luajit", "-j", "hunter2"],
        &["tclsh", "-encoding", "hunter2"],
        &["tclsh", "-encoding", "utf-8", "-encoding", "x", "hunter2"],
        &["tclsh", "-encoding", "utf-8", "-", "hunter2"],
        &["tclsh", "--", "hunter2"],
        &["tclsh", "-display", "hunter2"],
        &["expect", "-c", "hunter2", "hunter2.exp"],
        &["julia", "-O", "x.jl", "hunter2"],
        &["julia", "--eva", "hunter2"],
        &["ld-linux-x86-64.so.2", "--preload", "hunter2"],
        &["wine64-preloader", "hunter2.exe"],
        &["dotnet", "build", "hunter2"],
        &["deno", "eval", "hunter2"],
        &["lua", "-e", "hunter2"],
    ] {
        assert_eq!(named(arguments), None, "{arguments:?}");
    }
}

#[test]
fn programs_of_wine_have_their_own_names() {
    for (called, comm, name) in [
        (r"C:\windows\system32\notepad.exe", "notepad.exe", Some("notepad.exe")),
        ("/srv/tools/agent.EXE", "main", Some("agent.EXE")),
        (r"C:\Program Files\A Tool\a tool.exe", "a tool.exe", Some("a tool.exe")),
        ("/usr/lib/wine/wine64", "wine64-preloade", None),
    ] {
        let words = [called, "hunter2.exe"];
        assert_eq!(script("wine64-preloader", comm, &words).as_deref(), name, "{called}");
    }
}

#[test]
fn an_argument_that_goes_on_from_the_short_name_is_no_script() {
    // A program that names itself by 15 bytes of its argument.
    let words = ["/usr/bin/worker", "token-of-the-user-hunter2"];
    let name = script("worker", "token-of-the-us", &words);
    assert_eq!(name, None);
    assert_eq!(script("worker", "a=b", &["/usr/bin/worker", "/x/a=b"]), None);
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
        ScriptCommand { executable: "python3", comm: "python3".into(), cmdline, is_cut: true }.script(|| None)
    };
    assert_eq!(cut(b"python3\0-u\0/opt/scri"), None);
    assert_eq!(cut(b"python3\0/opt/script\0arg"), Some("script".into()));
    assert_eq!(cut(b"python3 without an end"), None);
}

/// The value was taken where there is none, or none was taken where there is one: the next word was the name.
#[test]
fn an_option_whose_value_may_be_missing_makes_no_argument_a_name() {
    assert_eq!(named(&["julia", "--min-optlevel", "app.jl", "hunter2"]).as_deref(), Some("app.jl"));
    for arguments in [
        &["bun", "-c", "app.ts", "hunter2.ts"][..],
        &["bun", "--inspect", "hunter2.ts", "app.ts"],
        &["mksh", "-T", "hunter2", "x.sh"],
        &["sh", "-eT", "hunter2", "x.sh"],
        &["ksh", "-o", "-c", "hunter2"],
        &["tclsh", "-encoding=utf-8", "hunter2"],
    ] {
        assert_eq!(named(arguments), None, "{arguments:?}");
    }
}

/// `-Xhunter2` was taken for an unknown option of java, and the next word for its value.
#[test]
fn an_option_that_begins_as_a_known_one_is_no_unknown_one() {
    exercise(&[231, 0, 254, 97, 0, 133, 0, 73, 88]);
}

proptest! {
    #[test]
    fn no_name_has_a_secret(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        exercise(&bytes);
    }

    #[test]
    fn any_bytes_do(
        executable in "(python3|bash|java|node|perl|ruby|php|dotnet|busybox|wine|ld-2|x)",
        comm in prop::collection::vec(any::<u8>(), 0..15),
        cmdline in prop::collection::vec(prop_oneof![Just(0), Just(b'-'), any::<u8>()], 0..200),
        is_cut in any::<bool>(),
    ) {
        let command =
            ScriptCommand { executable: &executable, comm: Comm::new(&comm), cmdline: &cmdline, is_cut };
        if let Some(name) = command.script(|| None) {
            let is_comm = name == command.comm.to_str_lossy();
            prop_assert!(!name.is_empty() && (is_comm || !name.contains(['/', '\0', ' ', '=', '\''])), "{name:?}");
        }
    }
}
