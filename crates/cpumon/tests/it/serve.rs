//! A receiver at work: agents, the original's datagrams, floods, several readers.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::flood::{backlog_drops, is_counted};
use crate::serve_v1::send_set;
use crate::support::{KillOnDrop, Serve, cpumon, eventually, ok, run, sender, text, wait};

#[test]
fn a_live_host_has_a_ledger_and_the_cost_of_measuring() {
    let serve = Serve::start(&["--no-agent"]);
    let mut agent = cpumon();
    agent.args(["agent", "--to", &serve.udp.to_string(), "--interval", "200ms", "--host-name", "dev"]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the agent's host", || serve.host("dev"));
    let accounts = run(&["ledger", "--live", "1s", "--host", "dev", "--url", &serve.url, "--format", "csv"]);
    let status = run(&["status", "--json", "--url", &serve.url]);
    agent.kill().unwrap();
    agent.wait().unwrap();
    // A busy machine may lose a datagram, and the ledger reports it.
    let is_whole = accounts.status.success();
    let says_holes = accounts.status.code() == Some(3) && text(&accounts.stderr).contains(" are missing");
    assert!(is_whole || says_holes, "{accounts:?}");
    let accounts = String::from_utf8(accounts.stdout).unwrap();
    assert!(accounts.lines().filter(|line| line.contains(",\"dev\",")).count() > 1, "{accounts}");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let cost = &status["agents"][0];
    assert_eq!(cost["host"], "dev", "{status}");
    assert!(cost["own_rss_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{cost}");
}

#[test]
fn an_agent_is_seen_live_stored_and_marked_unauthenticated() {
    let serve = Serve::start(&["--no-agent"]);
    let to = serve.udp.to_string();
    let mut agent = cpumon();
    agent.args(["agent", "--to", &to, "--interval", "200ms", "--host-name", "dev"]);
    let agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut agent = KillOnDrop(agent.unwrap());

    let host = eventually("the agent's host", || serve.host("dev"));
    assert_eq!(host["trust"], "unauthenticated");
    assert!(host["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{host}");

    let top = ok(&["top", "--host", "dev", "--url", &serve.url, "-b", "-n", "2"]);
    assert!(top.contains("unauthenticated"), "{top}");
    let json = ok(&["top", "--host", "dev", "--url", &serve.url, "-b", "-n", "1", "-o", "json"]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert!(first.is_object());

    let past = ok(&["top", "--host", "dev", "--url", &serve.url, "--at", "now", "-b"]);
    assert!(past.contains("dev"), "{past}");

    // Reading while the receiver writes.
    let rows = eventually("a stored interval", || {
        let output = run(&["export", "ledger", "--store", serve.store()]);
        let rows = text(&output.stdout).lines().count();
        (output.status.success() && rows > 3).then_some(rows)
    });
    assert!(rows > 3);
    assert!(agent.end("agent").success());
    serve.stop();
}

/// `top --host` listed only processes that did something in the last interval, `top` all; so did the page, the API and the past.
#[test]
fn a_host_without_bpf_is_listed_with_its_idle_processes_live_and_past() {
    let serve = Serve::start(&["--no-agent"]);
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeper.id();
    let mut agent = cpumon();
    agent.args(["agent", "--to", &serve.udp.to_string(), "--interval", "200ms", "--host-name", "dev"]);
    agent.args(["--source", "procfs"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut agent = agent.spawn().unwrap();
    let host = eventually("intervals of the device", || {
        serve.host("dev").filter(|host| host["loss"]["snapshots"].as_u64() > Some(8))
    });
    let is_idle = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells.first() == Some(&&*pid.to_string()) && cells.last() == Some(&"sleep")
    };
    let top = |more: &[&str]| ok(&[&["top", "--host", "dev", "-b", "-n", "1"], more].concat());
    let all = top(&["--url", &serve.url]);
    assert!(all.lines().any(is_idle), "no sleep {pid}: {all}");
    let active = top(&["--url", &serve.url, "--active"]);
    assert!(!active.lines().any(is_idle) && active.lines().count() < all.lines().count(), "{active}");
    // The same interval in the API, on the page and, once it is out of memory, in the store.
    let id = host["id"].as_str().unwrap();
    let json = |path: &str| -> serde_json::Value {
        let mut answer = ureq::get(format!("{}{path}", serve.url)).call().unwrap();
        serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap()
    };
    let newest = json(&format!("/api/v1/hosts/{id}/interval"));
    let end_ns = newest["interval"]["end"]["wall_ns"].as_i64().unwrap();
    let rows = |interval: &serde_json::Value| -> Vec<(u64, i64)> {
        let rows = interval["processes"].as_array().unwrap().iter();
        rows.map(|row| (row["key"]["pid"].as_u64().unwrap(), row["delta"]["run_ns"].as_i64().unwrap_or(0)))
            .collect()
    };
    let here = rows(&newest["interval"]);
    assert!(here.contains(&(pid.into(), 0)), "idle is 0: {here:?}");
    assert_eq!(rows(&json(&format!("/api/v1/hosts/{id}/interval?at={end_ns}"))["interval"]), here);
    let page = json(&format!("/api/v1/hosts/{id}/at?at={end_ns}"));
    assert!(page.to_string().contains("\"sleep"), "{page}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    eventually("its end", || (!top(&["--url", &serve.url]).lines().any(is_idle)).then_some(()));
    agent.kill().unwrap();
    agent.wait().unwrap();
    let store = serve.store().to_owned();
    eventually("the interval in the store", || {
        let at = jiff::Timestamp::from_nanosecond(end_ns.into()).unwrap().to_string();
        let past = run(&["top", "-b", "--store", &store, "--host", "dev", "--at", &at]);
        String::from_utf8_lossy(&past.stdout).lines().any(is_idle).then_some(())
    });
    serve.stop();
}

/// The command line writes the same bytes as the receiver serves, and reports a picture that cannot be written.
#[test]
fn a_chart_is_the_same_from_the_receiver_and_from_its_command_line() {
    let serve = Serve::start(&["--no-agent"]);
    let device = sender(3);
    for set in 0..3 {
        send_set(&device, serve.udp, set);
        std::thread::sleep(Duration::from_millis(20));
    }
    eventually("three stored sets", || {
        let csv = text(&run(&["export", "processes", "--store", serve.store()]).stdout);
        (csv.lines().count() == 7).then_some(())
    });
    let get = |path: &str| {
        let mut answer = ureq::get(format!("{}/api/v1/{path}", serve.url)).call().unwrap();
        answer.body_mut().read_to_vec().unwrap()
    };
    let work = tempfile::tempdir().unwrap();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_cpumon")).parent().unwrap();
    let path = std::env::join_paths([bin.to_owned(), "/usr/bin".into(), "/bin".into()]).unwrap();
    for question in [
        "hosts/127.0.0.3/charts/landscape?format=svg&by=process&theme=dark",
        "hosts/127.0.0.3/charts/landscape?format=png&rows=1&width=500",
        "hosts/127.0.0.3/charts/tasks?format=svg&process=NK.EXE&zone=Europe/Berlin&percent=host",
        "fleet/chart?format=svg&sort=busy&theme=dark&rows=5",
        "fleet/chart?format=png&host=127.0.0.3&width=640",
        "hosts/127.0.0.3/charts/cpus?format=svg",
    ] {
        let served = get(question);
        let (view, query) = question.split_once('?').unwrap();
        let answer: serde_json::Value =
            serde_json::from_slice(&get(&format!("{view}/command?{query}"))).unwrap();
        let command = answer["command"].as_str().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&work).env("PATH", &path);
        let done = crate::support::output(shell);
        // Devices of the original report no CPUs: a picture that says so, and that data is missing.
        let code = if view.contains("fleet") || view.contains("cpus") { 3 } else { 0 };
        assert_eq!(done.status.code(), Some(code), "{command}: {done:?}");
        let name = command.rsplit("--output=").next().unwrap();
        assert_eq!(std::fs::read(work.path().join(name)).unwrap(), served, "{command}");
    }
    let chart = ["export", "chart", "landscape", "--store", serve.store()];
    let nothing = run(&[&chart[..], &["--until", "2001-01-01"]].concat());
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    assert!(text(&nothing.stdout).contains("No data in this range"));
    assert!(text(&nothing.stderr).starts_with("cpumon: no data in this range; "), "{nothing:?}");
    let unwritable = run(&[&chart[..], &["-o", "/nonexistent/x.svg"]].concat());
    assert_eq!(unwritable.status.code(), Some(1), "{unwritable:?}");
    assert!(text(&unwritable.stderr).contains("/nonexistent/x.svg"));
    for (more, code, messages) in
        [(&["--rows", "0"][..], 2, "rows=0"), (&["--host", "unknown"], 1, "unknown")]
    {
        let output = run(&[&chart[..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(text(&output.stderr).contains(messages), "{output:?}");
    }
    let several = run(&["export", "chart", "states", "--store", serve.store()]);
    assert_eq!(several.status.code(), Some(2), "{several:?}");
    serve.stop();
}

#[test]
fn a_flood_of_garbage_costs_the_good_host_nothing() {
    const SETS: u32 = 20;
    const FLOOD: usize = 20_000;
    /// With the datagrams sent until the status is read again, the buffer of the receiver's socket holds this number twice.
    const UNDER_WAY: usize = 2_000;
    let serve = Serve::start(&["--no-agent"]);
    let (to, drops_before) = (serve.udp, backlog_drops());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let senders = [sender(20), sender(21), sender(22)];
            for (n, last) in (0..FLOOD).zip((0..=250_u8).cycle()) {
                if n % UNDER_WAY == 0 {
                    let sent = n.saturating_sub(UNDER_WAY) as u64;
                    let is_received = || is_counted(&serve.status_by_http()["receiver"], sent, drops_before);
                    eventually("most of the flood is received", || is_received().then_some(()));
                }
                // A negative name length in v1, no magic of v2.
                let bytes = [0xff_u8, 0xff, 0xff, last].repeat(1 + n % 40);
                let _ = senders[n % 3].send_to(&bytes, to);
                if n % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let good = sender(5);
        for set in 0..SETS {
            send_set(&good, to, i64::from(set));
            std::thread::sleep(Duration::from_millis(25));
        }
    });
    let expected = FLOOD as u64 + 3 * u64::from(SETS);
    let status = eventually("all datagrams", || {
        let status = serve.status();
        is_counted(&status["receiver"], expected, drops_before).then_some(status)
    });
    // Floods of other tests share the queues of the CPUs.
    let dropped = backlog_drops() - drops_before;
    let is_all = |count: u64, all: u64| count <= all && count + dropped >= all;
    let receiver = &status["receiver"];
    assert_eq!(receiver["kernel_dropped"], 0, "{receiver}");
    assert!(
        is_all(receiver["rejected"].as_u64().unwrap(), FLOOD as u64),
        "{receiver}, {dropped} dropped before"
    );
    assert_eq!(receiver["rejected_by"].as_array().unwrap().len(), 3);
    let host = serve.host("127.0.0.5").unwrap();
    assert!(
        is_all(host["loss"]["snapshots"].as_u64().unwrap(), SETS.into()),
        "{host}, {dropped} dropped before"
    );
    eventually("all sets stored", || {
        let csv = text(&run(&["export", "ledger", "--store", serve.store()]).stdout);
        is_all((csv.lines().count() as u64).saturating_sub(1), SETS.into()).then_some(())
    });
    serve.stop();
}

#[test]
fn signals_end_it_and_a_taken_port_is_reported() {
    let mut serve = Serve::start(&["--interval", "100ms"]);
    let http = serve.url.strip_prefix("http://").unwrap().to_owned();
    let second = run(&["serve", "--udp", "127.0.0.1:0", "--http", &http, "--no-store", "--no-agent"]);
    assert_eq!(second.status.code(), Some(1));
    let messages = text(&second.stderr);
    assert!(messages.contains(&http) && messages.contains("--http"), "{messages}");

    let same_store =
        run(&["serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", serve.store()]);
    assert_eq!(same_store.status.code(), Some(1));
    assert!(text(&same_store.stderr).contains("--store"), "{same_store:?}");

    let (dir, udp) = (tempfile::tempdir().unwrap(), serve.udp.to_string());
    let other = dir.path().join("other.db").to_str().unwrap().to_owned();
    let streams =
        ["serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", &other, "--tls", &http];
    let same_stream = run(&streams);
    assert_eq!(same_stream.status.code(), Some(1));
    let messages = text(&same_stream.stderr);
    assert!(messages.contains(&http) && messages.contains("--tls"), "{messages}");
    // Datagrams of a port may be shared, as those of a broadcast are; each receiver must report it.
    let shares = run(&["run", "-n", "1", "--udp", &udp, "--http", "127.0.0.1:0", "--store", &other]);
    let messages = text(&shares.stderr);
    assert!(
        messages.contains(&format!("receives on udp {udp} too")) && messages.contains("--udp"),
        "{messages}"
    );

    eventually("a local interval", || {
        serve.status()["store"]["written"].as_u64().filter(|written| *written > 0)
    });
    serve.signal("-INT");
    assert_eq!(wait(&mut serve.child, "serve").code(), Some(130));
    let ledger = ok(&["export", "ledger", "--store", serve.store()]);
    assert!(ledger.lines().count() > 1, "{ledger}");
}

#[test]
fn run_logs_a_line_a_second_without_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("new/dir/x.db");
    let mut command = cpumon();
    command.args([
        "run",
        "--udp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--interval",
        "300ms",
        "-n",
        "5",
        "--store",
    ]);
    command.arg(&store);
    let output = crate::support::output(command);
    let messages = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(messages.contains("%host") && messages.contains("stored"), "{messages}");
    assert!(ok(&["export", "ledger", "--store", store.to_str().unwrap()]).lines().count() >= 5);
}

#[test]
fn run_stays_on_loopback() {
    for line in [&["run", "--udp", "0.0.0.0:0"][..], &["run", "--udp", "127.0.0.1:0", "--http", "0.0.0.0:0"]]
    {
        let output = run(line);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("loopback"), "{output:?}");
    }
}

#[test]
fn the_command_line_of_an_export_writes_what_was_downloaded() {
    let serve = Serve::start(&["--interval", "200ms"]);
    let fetch = |path: &str| {
        let mut answer = ureq::get(format!("{}{path}", serve.url)).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    };
    let series = |serve: &Serve| -> serde_json::Value {
        let host = serve.status()["hosts"][0]["id"].as_str().unwrap_or_default().to_owned();
        let path = format!("/api/v1/hosts/{host}/series?points=3600");
        if host.is_empty() { serde_json::Value::Null } else { serde_json::from_str(&fetch(&path)).unwrap() }
    };
    let kept = eventually("some intervals in the store", || {
        let series = series(&serve);
        let ns = |name: &str| series["kept"][name].as_str()?.parse::<i64>().ok();
        ns("first_ns").zip(ns("last_ns")).filter(|(first, last)| last - first > 1_000_000_000)
    });
    // A range of the past: later intervals do not change it.
    let query = format!("since={}&until={}&interval_ns=300000000", kept.0 - 1, kept.1);
    for kind in ["processes", "threads", "pivot", "ledger"] {
        let command: serde_json::Value =
            serde_json::from_str(&fetch(&format!("/api/v1/export/{kind}/command?{query}"))).unwrap();
        let words: Vec<&str> = command["command"].as_str().unwrap().split(' ').collect();
        assert_eq!(words[0], "cpumon");
        let written = ok(&words[1..]);
        assert!(written.lines().count() > 2, "{written}");
        assert_eq!(fetch(&format!("/api/v1/export/{kind}?{query}")), written, "{kind}");
    }
    let middle = kept.0.midpoint(kept.1);
    for form in ["csv", "jsonl"] {
        let query =
            format!("before={}..{middle}&after={middle}..{}&by=user&format={form}", kept.0 - 1, kept.1);
        let command: serde_json::Value =
            serde_json::from_str(&fetch(&format!("/api/v1/export/compare/command?{query}"))).unwrap();
        let words: Vec<&str> = command["command"].as_str().unwrap().split(' ').collect();
        let written = ok(&words[1..]);
        assert!(written.contains("before_cpu_pct"), "{written}");
        assert_eq!(fetch(&format!("/api/v1/export/compare?{query}")), written, "{form}");
    }
    serve.stop();
}

#[test]
fn the_hosts_of_a_receiver_are_the_same_file_from_page_and_command_line() {
    let serve = Serve::start(&["--no-agent"]);
    let fetch = |path: &str| {
        let mut answer = ureq::get(format!("{}{path}", serve.url)).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    };
    // A device of the original: silent from now on, so its figures stay as they are.
    let device = sender(5);
    eventually("the device", || {
        send_set(&device, serve.udp, 0);
        send_set(&device, serve.udp, 1);
        serve.status()["hosts"].as_array().filter(|hosts| !hosts.is_empty()).map(|_| ())
    });
    // Its busiest processes go when it falls silent: the command line asks for the same, and the file has its columns.
    let command = fetch("/api/v1/fleet/export/command?busiest=true&format=csv");
    assert!(command.contains("--busiest --format=csv"), "{command}");
    let written = ok(&["hosts", &format!("--url={}", serve.url), "--busiest", "--format=csv"]);
    assert!(written.starts_with("host_id,hostname,key,name,"), "{written}");
    for query in ["format=csv", "sort=last_seen&reverse=true&search=127.0.0.5&format=jsonl"] {
        let command: serde_json::Value =
            serde_json::from_str(&fetch(&format!("/api/v1/fleet/export/command?{query}"))).unwrap();
        let words: Vec<&str> = command["command"].as_str().unwrap().split(' ').collect();
        let file = || fetch(&format!("/api/v1/fleet/export?{query}"));
        let before = file();
        let written = ok(&words[1..]);
        // Its state changes after some seconds of silence: the command has the file of before or after that.
        assert!(written == before || written == file(), "{query}: {written}");
        assert!(written.contains("received_ns") && written.contains("127.0.0.5"), "{written}");
    }
    serve.stop();
}

#[test]
fn off_loopback_only_who_has_a_token_gets_in() {
    // A wildcard address is open to the network; it is asked over loopback here.
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().to_str().unwrap();
    let (tokens, store) = (dir.path().join("tokens"), dir.path().join("s.db"));
    let tokens = tokens.to_str().unwrap();
    let with_state = |args: &[&str]| {
        let mut command = cpumon();
        command.args(args).env("STATE_DIRECTORY", state);
        crate::support::output(command)
    };
    let made = with_state(&["login-token", "add", "test", "--login-tokens", tokens]);
    let token = text(&made.stdout).trim().to_owned();
    assert!(made.status.success() && token.starts_with("cpumon-login_"), "{made:?}");

    let mut command = cpumon();
    command.env("STATE_DIRECTORY", state);
    let more = ["--udp", "127.0.0.1:0", "--http", "0.0.0.0:0", "--login-tokens", tokens];
    let serve = Serve::start_with_options(command, &store, &more);
    let url = serve.url.replace("http://0.0.0.0", "https://127.0.0.1");
    let ca = dir.path().join("http-cert.pem");
    let status = |more: &[&str]| {
        let mut args = vec!["status", "--json", "--url", &url];
        args.extend(more);
        with_state(&args)
    };
    let ca = ca.to_str().unwrap();
    let refused = text(&status(&["--ca", ca]).stderr);
    assert!(refused.contains("with a login") && refused.contains("login-token add"), "{refused}");
    let wrong = text(&status(&["--ca", ca, "--login-token", "nonsense"]).stderr);
    assert!(wrong.contains("not a token"), "{wrong}");
    let right = status(&["--ca", ca, "--login-token", &token]);
    assert!(right.status.success(), "{right:?}");
    assert!(text(&status(&["--login-token", &token]).stderr).contains("--ca"));
    assert!(!status(&["--ca", tokens, "--login-token", &token]).status.success(), "no certificate");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem();
    let other_path = dir.path().join("other.pem");
    std::fs::write(&other_path, other).unwrap();
    let refused = status(&["--ca", other_path.to_str().unwrap(), "--login-token", &token]);
    assert!(!refused.status.success(), "another certificate is not trusted");
    serve.stop();

    // A name that is given later is not in the certificate: the receiver reports it until another one is made.
    let lacks_name = || {
        let mut command = cpumon();
        command.env("STATE_DIRECTORY", state);
        let named = [&more[..], &["--http-name", "receiver.example"]].concat();
        let serve = Serve::start_with_options(command, &store, &named);
        let lacks = serve.messages.contains("the certificate is not for receiver.example:");
        assert!(serve.messages.contains("certificate SHA-256"), "{}", serve.messages);
        serve.stop();
        lacks
    };
    assert!(lacks_name());
    std::fs::remove_file(ca).unwrap();
    assert!(!lacks_name());
}

#[test]
fn without_udp_no_socket_for_datagrams_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let serve = Serve::start_anywhere(cpumon(), &dir.path().join("store.db"), &["--no-agent", "--no-udp"]);
    assert!(serve.messages.contains("receiving no datagrams (--no-udp)"), "{}", serve.messages);
    assert_eq!(serve.status()["udp"], serde_json::json!([]));
    let own = std::fs::read_dir(format!("/proc/{}/fd", serve.pid)).unwrap();
    let own: Vec<String> = own
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    for table in ["udp", "udp6"] {
        let table = std::fs::read_to_string(format!("/proc/{}/net/{table}", serve.pid)).unwrap();
        for line in table.lines().skip(1) {
            let socket = format!("socket:[{}]", line.split_whitespace().nth(9).unwrap());
            assert!(!own.contains(&socket), "{line}");
        }
    }
    serve.stop();
}

#[test]
fn a_host_is_forgotten_beside_the_receiver_and_starts_from_nothing() {
    let serve = Serve::start(&["--no-agent"]);
    let mut agent = cpumon();
    agent.args(["agent", "--to", &serve.udp.to_string(), "--interval", "200ms", "--host-name", "dev"]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let first_ns = || -> Option<i64> {
        let query = "SELECT first_ns FROM hosts WHERE host = 'dev'";
        let rows = ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
        rows.lines().nth(1)?.parse().ok()
    };
    let before_ns = eventually("the host is stored", first_ns);
    let shown = ok(&["hosts", "forget", "dev", "--yes", "--store", serve.store()]);
    assert!(shown.contains("removed dev"), "{shown}");
    let after_ns = eventually("the host starts from nothing", first_ns);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(after_ns > before_ns, "{after_ns} {before_ns}");
    serve.stop();
}
