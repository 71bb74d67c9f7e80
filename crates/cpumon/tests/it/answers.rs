//! The same question has the same answer, byte for byte, whether a store is read (`--store`) or a receiver is asked for it (`--url`).

use std::path::Path;
use std::process::Output;

use cpumon_model::{HostId, HostInfo, Trust};
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
        // No data, and what cannot be answered.
        "report --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z --host equal",
        "ledger --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z",
        "gaps --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z --format csv",
        "export processes --since 2001-01-01T00:00Z --until 2001-01-02T00:00Z",
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
        assert!(
            by_store.stdout == by_url.stdout,
            "{question:?}:\n{}\n{}",
            text(&by_store.stdout),
            text(&by_url.stdout)
        );
        assert_eq!(text(&by_store.stderr), text(&by_url.stderr), "{question:?}");
        assert_eq!(by_store.status.code(), by_url.status.code(), "{question:?}: {}", text(&by_url.stderr));
        codes.push(by_url.status.code().unwrap());
    }
    for code in [0, 1, 2, 3] {
        assert!(codes.contains(&code), "no question ended with {code}: {codes:?}");
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
    let both = run(&["report", "--url", &serve.url, "--store", "x.db"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    serve.stop();
    let gone = run(&["find", "x", "--url", "http://127.0.0.1:1"]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(text(&gone.stderr).contains("no receiver answers at http://127.0.0.1:1"), "{gone:?}");
}
