//! Commands that end by themselves, beside something: a plain server, a made-up store, a signal.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use cpumon_model::{
    Delta, Fields, HostInfo, Interval, Moment, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey, Trust,
};

use crate::support::{cpumon, eventually, output, run, text, wait};
use crate::trace_analyses;

/// A server that answers whatever it gets as HTTP does.
fn plain_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address
}

/// A receiver that answers each request with these bytes.
fn server_of(file: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&file));
        }
    });
    url
}

/// Warnings went nowhere but in four commands.
#[test]
fn a_command_that_cannot_write_the_audit_log_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("cpumon.db.identity/audit.jsonl")).unwrap();
    let tokens = dir.path().join("tokens");
    let mut command = cpumon();
    command.args(["login-token", "add", "test", "--login-tokens"]).arg(&tokens);
    command.env("STATE_DIRECTORY", dir.path());
    let made = output(command);
    let errors = text(&made.stderr);
    assert!(
        made.status.success() && errors.contains("cpumon: warning: cannot write the audit log in "),
        "{errors}"
    );
}

/// Two MB of anything became a file with the name of a trace, and exit code 0.
#[test]
fn only_a_whole_trace_gets_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (made, got) = (dir.path().join("made.trace"), dir.path().join("got.trace"));
    trace_analyses::write(&made);
    let whole = std::fs::read(&made).unwrap();
    let get =
        |file: Vec<u8>, to: &[&str]| run(&[&["trace", "get", "7", "--url", &server_of(file)], to].concat());
    let path = got.to_str().unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for (file, reason) in [
        (b"[".repeat(2_000_000), "what came is no trace: "),
        (whole[..whole.len() - 1].to_vec(), "the trace came damaged or cut off"),
        (changed, "the trace came damaged or cut off"),
        (Vec::new(), "what came is no trace: "),
    ] {
        let refused = get(file, &["-o", path]);
        assert_eq!(refused.status.code(), Some(1), "{reason}: {refused:?}");
        assert!(text(&refused.stderr).contains(reason), "{reason}: {refused:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{reason}");
    }
    let stored = get(whole.clone(), &["-o", path]);
    assert!(stored.status.success() && std::fs::read(&got).unwrap() == whole, "{stored:?}");
    for to in [&[][..], &["-o", "-"]] {
        let printed = get(whole.clone(), to);
        assert!(printed.status.success() && printed.stdout == whole, "{to:?}: {:?}", text(&printed.stderr));
    }
}

#[test]
fn a_port_without_tls_is_called_one() {
    let address = plain_server().to_string();
    let dir = tempfile::tempdir().unwrap();
    let token = cpumon_link::tls::Token { pin: [1; 32], secret: [2; 32] }.to_string();
    let enrolled = run(&["enroll", &address, &token, "--state", dir.path().to_str().unwrap()]);
    assert!(text(&enrolled.stderr).contains("does not speak TLS"), "{enrolled:?}");
}

#[test]
fn a_process_that_is_not_there_is_an_error_and_no_empty_list() {
    let output = run(&["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs", "-p", "4194305"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("there is no process 4194305"), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// It was `"rows":[]`, exit code 0 and no word.
#[test]
fn a_filter_that_no_row_matches_is_an_error_and_no_empty_list() {
    for more in [&[][..], &["--json"]] {
        let top = ["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs", "--filter", "no such row"];
        let output = run(&[&top[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("no row matches \"no such row\""), "{output:?}");
    }
}

#[test]
fn rows_are_chosen_sorted_and_limited() {
    let top =
        |more: &[&str]| run(&[&["top", "-b", "-n", "1", "-d", "300ms", "--source", "procfs"], more].concat());
    let output = top(&["--sort", "pid", "--limit", "3", "--user", "0"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    let pids: Vec<u32> =
        printed.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert!(pids.len() <= 3 && !pids.is_empty() && pids.is_sorted(), "{printed}");
    let mine = top(&["--filter", "cpumon", "--active", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(text(&mine.stdout).trim()).unwrap();
    let rows = listed["rows"].as_array().unwrap();
    // A thread that has only waited for a CPU so far counts too: its run time is added at the next tick.
    let figures =
        ["run_ns", "user_ns", "system_ns", "run_delay_ns", "voluntary_switches", "involuntary_switches"];
    let is_active = |row: &serde_json::Value| figures.iter().any(|name| row[name].as_i64() != Some(0));
    assert!(!rows.is_empty() && rows.iter().all(is_active), "{listed}");
    for (wrong, expected) in [
        (["--user", "no such user"], "this machine has no user"),
        (["--sort", "seen"], "--sort seen is the run time while the screens are open"),
    ] {
        let refused = top(&wrong);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
}

/// A store whose export takes long enough to be stopped.
fn store_of_many_threads(path: &Path) {
    let options = cpumon_store::StoreOptions::default();
    let mut writer = cpumon_store::Writer::open(path, &options).unwrap();
    let info = HostInfo { hostname: "many".into(), ..HostInfo::default() };
    let second = |at: i64| Moment {
        wall_ns: at * 1_000_000_000,
        mono_ns: at.unsigned_abs() * 1_000_000_000,
        ..Moment::default()
    };
    let key = ProcessKey { pid: 1, start_ns: 1 };
    let thread = |tid| ThreadInterval {
        key: ThreadKey { tid, start_ns: 1 },
        process: key,
        delta: Delta { run_ns: 5, ..Delta::default() },
        ..ThreadInterval::default()
    };
    for at in 1..60 {
        let interval = Interval {
            host: info.host,
            fields: Fields::RUN,
            begin: second(at - 1),
            end: second(at),
            sequence: at.unsigned_abs(),
            processes: vec![ProcessInterval { key, ..ProcessInterval::default() }],
            threads: (1..2_000).map(thread).collect(),
            ..Interval::default()
        };
        writer.put(&info, Trust::Local, None, &interval).unwrap();
    }
    writer.commit().unwrap();
}

#[test]
fn a_closed_pipe_ends_every_command_without_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let (store, trace) = (dir.path().join("s.db"), dir.path().join("t.trace"));
    store_of_many_threads(&store);
    trace_analyses::write(&trace);
    let (store, trace) = (store.to_str().unwrap(), trace.to_str().unwrap());
    for (command, more) in [
        ("hosts", &["--store", store][..]),
        ("report", &["--store", store, "--since", "1970-01-01", "--format", "csv"]),
        ("ledger --live 100ms --interval 100ms --source procfs", &[]),
        ("export threads", &["--store", store]),
        ("export threads", &["--store", store, "--format", "json"]),
        ("export chart cpu", &["--store", store]),
        ("sql", &["--store", store, "SELECT * FROM threads"]),
        ("sql", &["--store", store, "--format", "json", "SELECT * FROM threads"]),
        ("store check", &[store]),
        ("trace export", &[trace, "--format", "csv"]),
        ("trace export", &[trace, "--format", "parquet"]),
        ("trace export", &[trace, "--format", "perfetto"]),
        ("trace report", &[trace]),
        ("trace report", &[trace, "--format", "csv"]),
        ("trace report", &[trace, "--every", "1ms", "--format", "csv"]),
        ("trace delays", &[trace]),
        ("trace wakers", &[trace, "--format", "json"]),
        ("trace histogram", &[trace]),
        ("top -b -n 1 -d 100ms --source procfs", &[]),
        ("top -b -n 1 -d 100ms --source procfs --json", &[]),
        ("help", &[]),
        ("completions bash", &[]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        // Before the command starts, so that its first write meets a closed pipe.
        drop(reader);
        let mut closed = cpumon();
        closed.args(command.split(' ')).args(more).stdout(writer).stderr(Stdio::piped());
        let ended = closed.spawn().unwrap().wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{command} {more:?}: {ended:?}");
    }
}

/// It ended at once, with exit code 0 and no word.
#[test]
fn a_receiver_whose_output_is_closed_receives_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut closed = cpumon();
    closed.args(["run", "-n", "1", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store"]).arg(&store);
    closed.args(["--interval", "200ms"]).stdout(writer).stderr(Stdio::null());
    let ended = wait(&mut closed.spawn().unwrap(), "run");
    assert!(ended.success(), "{ended:?}");
    let ledger = run(&["export", "ledger", "--store", store.to_str().unwrap()]);
    assert!(text(&ledger.stdout).lines().count() > 1, "{ledger:?}");
}

#[test]
fn a_minus_is_standard_output_wherever_a_file_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    store_of_many_threads(&store);
    let out = tempfile::tempdir().unwrap();
    let store = store.to_str().unwrap();
    for (args, begin) in [
        (&["export", "ledger", "--store", store, "-o", "-"][..], "host,"),
        (&["export", "ledger", "--store", store, "-o", "-", "--format", "json"], "["),
        (&["export", "ledger", "--store", store, "-o", "-", "--format", "parquet"], "PAR1"),
        (&["hosts", "--store", store, "-o", "-", "--format", "csv"], "id,hostname,"),
        (&["export", "chart", "cpu", "--store", store, "--output", "-"], "<svg"),
        (&["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs", "--json", "-o", "-"], "{"),
    ] {
        let output = cpumon().args(args).current_dir(out.path()).output().unwrap();
        assert!(text(&output.stdout).starts_with(begin), "{args:?}: {}", text(&output.stderr));
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "{args:?} made a file");
    }
}

#[test]
fn a_store_with_the_name_of_a_uri_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let name = "file:s.db?mode=memory";
    store_of_many_threads(&dir.path().join(name));
    let output =
        cpumon().args(["hosts", "--store", name, "--format", "csv"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert!(text(&output.stdout).contains("\"many\""), "{output:?}");
}

#[test]
fn every_list_is_a_file_in_the_format_of_its_ending() {
    let dir = tempfile::tempdir().unwrap();
    let (store, trace) = (dir.path().join("s.db"), dir.path().join("t.trace"));
    store_of_many_threads(&store);
    trace_analyses::write(&trace);
    let (store, trace) = (store.to_str().unwrap(), trace.to_str().unwrap());
    for args in [
        &["hosts", "--store", store][..],
        &["report", "--store", store, "--by", "thread", "--limit", "100"],
        &["find", "--store", store, "root"],
        &["store", "check", store],
        &["sql", "--store", store, "SELECT tid, run_ns, cpu_pct, name FROM thread_interval LIMIT 5"],
        &["trace", "report", trace],
        &["trace", "report", trace, "--every", "1ms", "--by", "cpu"],
        &["trace", "delays", trace],
        &["trace", "wakers", trace],
        &["trace", "histogram", trace],
    ] {
        for (ending, begin) in [("txt", ""), ("csv", ""), ("jsonl", "{"), ("json", ""), ("parquet", "PAR1")] {
            let file = dir.path().join(format!("rows.{ending}"));
            let written = cpumon().args(args).arg("-o").arg(&file).output().unwrap();
            assert_eq!(text(&written.stdout), "", "{args:?} {ending}");
            let format = if ending == "txt" { "table" } else { ending };
            let printed = cpumon().args(args).args(["--format", format]).output().unwrap();
            assert_eq!(written.status, printed.status, "{args:?} {ending}: {}", text(&written.stderr));
            let rows = std::fs::read(&file).unwrap();
            assert!(rows == printed.stdout && rows.starts_with(begin.as_bytes()), "{args:?} {ending}");
        }
    }
    // Without any data the file of yesterday stays.
    let (file, before) =
        (dir.path().join("rows.parquet"), std::fs::read(dir.path().join("rows.parquet")).unwrap());
    let output = cpumon().args(["ledger", "--store", store, "-o"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(std::fs::read(&file).unwrap() == before);
    // The ending that was typed wins over a format that is usual here.
    let usual = |name: &str| {
        let file = dir.path().join(name);
        let hosts =
            cpumon().args(["hosts", "--store", store, "-o"]).arg(&file).env("CPUMON_FORMAT", "csv").output();
        assert!(hosts.unwrap().status.success());
        std::fs::read(&file).unwrap()
    };
    assert!(usual("hosts.parquet").starts_with(b"PAR1") && usual("hosts.csv").starts_with(b"id,hostname,"));
}

/// SIGXFSZ ended it without a word, and left the unfinished file.
#[test]
fn a_limit_of_file_size_is_an_error_and_leaves_no_unfinished_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    store_of_many_threads(&store);
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("threads.csv");
    let limited = |script: &str| {
        let mut shell = Command::new("sh");
        crate::support::clean(&mut shell);
        shell.args(["-c", script, env!("CARGO_BIN_EXE_cpumon")]).arg(&store).arg(&file);
        output(shell)
    };
    let ended = limited("ulimit -f 8; exec \"$0\" export threads --store \"$1\" -o \"$2\"");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let message = text(&ended.stderr);
    assert!(message.contains("cannot write") && message.contains("File too large"), "{message}");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "{message}");
    let ended = limited("ulimit -f 8; \"$0\" export threads --store \"$1\" >\"$2\"");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(text(&ended.stderr).contains("File too large"), "{ended:?}");
    let record =
        "ulimit -f 8; exec \"$0\" agent --source procfs --record \"$2.rec\" --count 2 --interval 100ms";
    let ended = limited(record);
    assert_eq!(ended.status.code(), Some(3), "as on a full disk, data is missing: {ended:?}");
    assert!(text(&ended.stderr).contains("File too large"), "{ended:?}");
}

#[test]
fn a_signal_leaves_no_unfinished_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    store_of_many_threads(&store);
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("threads.csv");
    let mut command = cpumon();
    command.args(["export", "threads", "--store", store.to_str().unwrap(), "-o", file.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the unfinished file", || {
        let files = std::fs::read_dir(out.path()).unwrap().count();
        (files > 0 || file.exists()).then_some(())
    });
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let status = wait(&mut child, "export");
    let mut message = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // It may have been quicker than the signal: then the file is whole.
    let is_stopped = status.code() == Some(130) && message.contains("was not written");
    let whole: &[&str] = if is_stopped { &[] } else { &["threads.csv"] };
    assert_eq!(left, whole, "{status:?}: {message}");
    assert!(is_stopped || matches!(status.code(), Some(0 | 130)), "{status:?}: {message}");
}

/// Without a key file `key list` was an error.
#[test]
fn a_list_of_keys_or_tokens_without_a_file_is_empty() {
    let work = tempfile::tempdir().unwrap();
    let (state, tokens) = (work.path().to_str().unwrap(), work.path().join("login-tokens"));
    for list in [
        &["key", "list", "--state", state][..],
        &["login-token", "list", "--login-tokens", tokens.to_str().unwrap()],
    ] {
        let output = run(&[list, &["--format", "json"]].concat());
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "[]\n"), "{list:?}: {output:?}");
        assert!(text(&output.stderr).ends_with(" makes one\n"), "{list:?}: {output:?}");
    }
}
