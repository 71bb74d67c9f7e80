//! The same question has the same answer, byte for byte, whether a store is read (`--store`) or a receiver is asked (`--url`).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use cpumon::cli::AccessArgs;
use cpumon::client::Client;
use cpumon_model::{HostId, HostInfo, Trust};
use cpumon_query::Seek;
use cpumon_store::{Gap, StoreOptions, Writer};

use crate::equal::{self, LENGTH_NS, begin_ns, mixed};
use crate::support::{Serve, cpumon, run, text};

/// A name that ends a list, a path and a parameter unless it is escaped.
const HOSTILE: &str = "a,b/100%2C?&=+#'\"";
const GROUPINGS: [&str; 9] =
    ["program", "name", "process", "thread", "user", "service", "container", "cgroup", "host"];
const FORMATS: [&str; 5] = ["table", "csv", "jsonl", "json", "parquet"];

/// The store of the other equalities, and a host of a hostile name with a hole and intervals that were not stored.
fn store(path: &Path) {
    equal::store(path);
    let host = HostInfo { host: HostId([9; 16]), hostname: HOSTILE.into(), ..HostInfo::default() };
    let options = StoreOptions { max_age: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options).unwrap();
    for at in (1..=60).filter(|at| !(20..=30).contains(at)) {
        let interval = equal::interval(at, &equal::infos());
        let interval = cpumon_model::Interval { host: host.host, ..interval };
        writer.put(&host, Trust::Authenticated, None, &interval).unwrap();
    }
    let at = |at: i64| begin_ns() + at * LENGTH_NS;
    let lost = Gap {
        begin_wall_ns: at(40),
        end_wall_ns: at(42),
        intervals: 2,
        reason: "queue full".to_owned(),
        ..Gap::default()
    };
    writer.put_gap(host.host, &lost).unwrap();
    writer.commit().unwrap();
}

/// A range of minutes to hours in which both hosts have data.
fn range(seed: i64) -> [String; 4] {
    let since_ns = begin_ns() + mixed(seed) % (50 * LENGTH_NS);
    let until_ns = since_ns + LENGTH_NS + mixed(seed + 1) % (200 * LENGTH_NS);
    ["--since".into(), since_ns.to_string(), "--until".into(), until_ns.to_string()]
}

/// Command lines without the store or the receiver.
fn questions() -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let mut all: Vec<Vec<String>> = Vec::new();
    for ((seed, by), format) in (0..).zip(GROUPINGS).zip(FORMATS.into_iter().cycle()) {
        let question = words(&format!("report --all-hosts --by {by} --limit 5 --format {format}"));
        all.push([question, range(seed).to_vec()].concat());
    }
    for (seed, more) in (20..).zip([
        "report --compare before --sort change",
        "report --compare yesterday --limit 3 --format csv",
        "report --filter DROP --format csv",
        "report --within user:33 --by process --json",
        "report --host HOSTILE --sort ready",
        "report --host equal --host HOSTILE --sort peak --by name --format csv",
        "ledger --format csv",
        "ledger --host HOSTILE --worst 3",
        "ledger --worst 0 --format parquet",
        "gaps",
        "gaps --host HOSTILE --format csv",
        "export processes --host HOSTILE",
        "export threads --host equal --process web --active --format jsonl",
        "export threads --host equal --format parquet",
        "export cgroups --host equal --format json",
        "export pivot --host equal --by user --value pct --interval 5m",
        "export pivot --host equal --legacy 2012",
        "export ledger --host equal --format parquet",
        "export processes",
        "why --host equal",
        "why web --host equal --json",
        "why --service web --host HOSTILE --format csv",
        "why nothing --host equal",
        "why 101 --host equal --format jsonl",
    ]) {
        let question =
            words(more).into_iter().map(|word| if word == "HOSTILE" { HOSTILE.into() } else { word });
        all.push(question.chain(range(seed)).collect());
    }
    let between =
        |at: i64| format!("{}..{}", begin_ns() + at * LENGTH_NS, begin_ns() + (at + 40) * LENGTH_NS);
    all.push(
        [
            words("export compare --host equal --by user --before"),
            vec![between(1), "--after".into(), between(60)],
        ]
        .concat(),
    );
    for whole in [
        "report",
        "find WEB",
        "find DROP --format csv",
        "find root --host equal --json",
        "find nothing --format parquet",
        "find nothing",
        "gaps --format json",
        "gaps --format parquet",
        "hosts",
        "hosts --json",
        "hosts --format parquet",
        // No data, and a question without an answer.
        "report --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z --host equal",
        "ledger --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z",
        "gaps --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z --format csv",
        "export processes --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z",
        "ledger --since 1700-01-01T00:00Z --until 2200-01-01T00:00Z --format csv",
        "gaps --since 1700-01-01T00:00Z --until 2200-01-01T00:00Z",
        "trace list",
        "report --by thread --host equal --since 2001-01-01T00:00Z",
        "find ",
    ] {
        all.push(words(whole));
    }
    all
}

fn ask(question: &[String], more: &[&str]) -> Output {
    let all: Vec<&str> = question.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(&all)
}

/// The words of an answer but for an option, which may be at the end of a line.
fn without(output: &Output, option: &[&str]) -> String {
    let all = text(&output.stdout);
    let words: Vec<&str> = all.split_whitespace().collect();
    words.join(" ").replace(&format!(" {}", option.join(" ")), "")
}

#[test]
fn a_store_and_a_receiver_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let serve = Serve::start_with(cpumon(), &path, &["--no-agent", "--retain-days", "0"]);
    let mut codes = Vec::new();
    for question in questions() {
        let is_list = question[0] == "hosts";
        let by_store = ask(&question, &["--store", serve.store()]);
        let more: &[&str] = if is_list { &["--stored"] } else { &[] };
        let by_url = ask(&question, &[more, &["--url", &serve.url]].concat());
        let is_same = if question[0] == "why" {
            // Its commands ask the same place again.
            without(&by_store, &["--store", serve.store()]) == without(&by_url, &["--url", &serve.url])
        } else {
            by_store.stdout == by_url.stdout
        };
        assert!(is_same, "{question:?}:\n{}\n{}", text(&by_store.stdout), text(&by_url.stdout));
        assert_eq!(text(&by_store.stderr), text(&by_url.stderr), "{question:?}");
        assert_eq!(by_store.status.code(), by_url.status.code(), "{question:?}: {}", text(&by_url.stderr));
        codes.push(by_url.status.code().unwrap());
    }
    for code in [0, 1, 2, 3] {
        assert!(codes.contains(&code), "no question ended with {code}: {codes:?}");
    }
    serve.stop();
}

/// Each answer of status 404 was taken for a moment without data.
#[test]
fn a_host_that_a_receiver_does_not_know_is_not_one_without_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let serve = Serve::start_with(cpumon(), &path, &["--no-agent", "--retain-days", "0"]);
    let client = Client::new(&serve.url, &AccessArgs::default()).unwrap();
    assert!(client.seek(HostId([9; 16]), Seek::Before(1)).unwrap().is_none());
    let error = client.seek(HostId([8; 16]), Seek::Before(i64::MAX)).unwrap_err().to_string();
    assert!(error.contains("knows no such host"), "{error}");
    serve.stop();
}

/// The receiver's answer was "no gaps", with exit code 0.
#[test]
fn an_empty_store_and_its_receiver_hold_no_host() {
    let serve = Serve::start(&["--no-agent"]);
    for from in [["--store", serve.store()], ["--url", &serve.url]] {
        let none = run(&[&["gaps"][..], &from].concat());
        assert!(none.status.code() == Some(1) && text(&none.stderr).contains("no host"), "{none:?}");
    }
    serve.stop();
}

#[test]
fn a_receiver_that_is_asked_for_what_it_cannot_give_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let serve = Serve::start_with(cpumon(), &dir.path().join("none.db"), &["--no-agent", "--no-store"]);
    let file = dir.path().join("out.csv");
    std::fs::write(&file, "of yesterday").unwrap();
    let asked = run(&["export", "processes", "--url", &serve.url, "-o", file.to_str().unwrap()]);
    let message = text(&asked.stderr);
    assert_eq!(asked.status.code(), Some(1), "{message}");
    assert!(message.contains("This receiver keeps nothing"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of yesterday");
    let unknown = run(&["report", "--url", &serve.url, "--host", "none"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("knows no such host"), "{unknown:?}");
    for command in ["report", "hosts"] {
        let both = run(&[command, "--url", &serve.url, "--store", "x.db"]);
        assert_eq!(both.status.code(), Some(2), "{both:?}");
    }
    // An empty name is no host, and does not mean all hosts.
    let nameless = run(&["find", "x", "--url", &serve.url, "--host", ""]);
    assert!(
        nameless.status.code() == Some(1) && text(&nameless.stderr).contains("no such host"),
        "{nameless:?}"
    );
    let too_long = run(&["find", &"x".repeat(5000), "--url", &serve.url]);
    assert_eq!(too_long.status.code(), Some(2), "{too_long:?}");
    serve.stop();
    let gone = run(&["find", "x", "--url", "http://127.0.0.1:1"]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(text(&gone.stderr).contains("no receiver answers at http://127.0.0.1:1"), "{gone:?}");
}

fn get(url: &str, path: &str) -> String {
    ureq::get(format!("{url}{path}")).call().unwrap().body_mut().read_to_string().unwrap()
}

/// A receiver that answers each path with this status and body, until the test ends.
fn server_of(answers: &'static [(&'static str, u16)], bodies: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let asked = String::from_utf8_lossy(&request[..length]).into_owned();
            let at = answers.iter().position(|(path, _)| asked.starts_with(&format!("GET {path}")));
            let (status, body) = at.map_or((404, ""), |at| (answers[at].1, &*bodies[at]));
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // The client may have gone.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    url
}

/// The name of the row of all others, and a receiver's error text, came to the terminal as they were.
#[test]
fn a_hostile_receiver_writes_nothing_to_the_terminal_but_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let serve = Serve::start_with(cpumon(), &path, &["--no-agent", "--retain-days", "0"]);
    let report = get(&serve.url, "/api/v1/report?host=equal&limit=2");
    let others = report.split("\"name\":\"(").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let hostile = report.replace(&format!("({others}"), "a\\u001b[31mb\\u009b\\u0007");
    assert_ne!(hostile, report);
    let state =
        r#"{"type":"x","title":"t","status":500,"detail":"a\u001b[2Jb\ncpumon: all is well","how":"h"}"#;
    let evil = server_of(
        &[("/api/v1/stored", 200), ("/api/v1/report", 200), ("/api/v1/status", 500)],
        vec![get(&serve.url, "/api/v1/stored"), hostile, state.to_owned()],
    );
    serve.stop();
    let asked = run(&["report", "--url", &evil, "--host", "equal"]);
    // It is not known whether all could be read.
    assert_eq!(asked.status.code(), Some(3), "{asked:?}");
    let (table, messages) = (text(&asked.stdout), text(&asked.stderr));
    let is_plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    assert!(is_plain(&table) && table.contains("a\\x1b[31mb"), "{table}");
    assert!(is_plain(&messages) && messages.lines().count() == 1, "{messages}");
}
