//! `/metrics` of a receiver that measures this machine and receives from an agent with a hostile name: sums are those of the store's
//! ledger to the nanosecond, no series falls, and Prometheus's own tool has nothing to object, where it is installed.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::skip::say_skipped;
use crate::support::{Serve, eventually, ok};

/// Values by series, ns for seconds.
type Samples = BTreeMap<String, i128>;

/// Content type and text.
fn scrape(serve: &Serve, query: &str, accept: &str) -> (String, String) {
    let mut answer =
        ureq::get(format!("{}/metrics{query}", serve.url)).header("accept", accept).call().unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (kind, answer.body_mut().read_to_string().unwrap())
}

fn samples(text: &str) -> Samples {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        // Other numbers are whole, or compared with none.
        let value =
            value.split_once('.').map_or(value.to_owned(), |(whole, rest)| format!("{whole}{rest:0<9}"));
        (series.to_owned(), value.parse().unwrap_or(0))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

/// Sum of the series that begin so and have these labels.
fn sum(samples: &Samples, begin: &str, labels: &[&str]) -> i128 {
    let is = |series: &str| series.starts_with(begin) && labels.iter().all(|label| series.contains(label));
    samples.iter().filter(|(series, _)| is(series)).map(|(_, value)| value).sum()
}

/// What must hold of each host at each moment; gives its capacity.
fn check_sums(samples: &Samples, host: &str) -> i128 {
    let of = |family: &str, more: &str| sum(samples, &format!("cpumon_{family}{{"), &[host, more]);
    let capacity = of("host_capacity_seconds_total", "");
    assert_eq!(of("host_seconds_total", "") - of("overbooked_seconds", "of=\"host\""), capacity, "{host}");
    let threads = of("host_seconds_total", "part=\"threads\"") + of("host_seconds_total", "part=\"exited\"");
    let owed = of("overbooked_seconds", "of=\"cpu\"");
    for (family, by) in [("cpu", "program"), ("user_cpu", "user")] {
        let ended = sum(samples, "cpumon_ended_series", &[host, &format!("by=\"{by}\""), "of=\"cpu\""]);
        assert_eq!(of(&format!("{family}_seconds_total"), "") + ended - owed, threads, "{host}, {by}");
    }
    capacity
}

/// Prometheus's own check, where it is installed.
fn check_by_promtool(text: &str) {
    let tool = std::env::var_os("PROMTOOL").unwrap_or_else(|| "promtool".into());
    let mut check = Command::new(tool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = check.spawn() else {
        return say_skipped("promtool is not installed");
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let objections = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && objections.is_empty(), "{}", String::from_utf8_lossy(&objections));
}

#[test]
fn a_scrape_adds_up_to_the_ledger_of_the_store() {
    let serve = Serve::start(&[
        "--source",
        "procfs",
        "--interval",
        "100ms",
        "--metrics-by",
        "user",
        "--metrics-blocked",
    ]);
    // Nothing is counted before.
    assert!(scrape(&serve, "", "").1.contains("cpumon_series_limit"));
    let (udp, name) = (serve.udp.to_string(), "we\"b\\1");
    ok(&[
        "agent",
        "--to",
        &udp,
        "--host-name",
        name,
        "--source",
        "procfs",
        "--interval",
        "100ms",
        "--count",
        "12",
    ]);
    let hosts = || serve.status()["hosts"].as_array().unwrap().clone();
    let remote = eventually("the agent's host", || {
        hosts().into_iter().find(|host| host["trust"] == "unauthenticated")
    });
    // It has the id of this machine, so it is a host beside it. This is its name as labels have it.
    let host = "host=\"we\\\"b\\\\1@127.0.0.1\"";
    let url = format!("{}/api/v1/hosts/{}/ledger", serve.url, remote["id"].as_str().unwrap());
    // All its intervals are in the store, and nothing more comes of it.
    eventually("a ledger that is the sum of the metrics", || {
        let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        let ledger: Value = serde_json::from_str(&text).unwrap();
        let now = samples(&scrape(&serve, "", "").1);
        let capacity = check_sums(&now, host);
        let lines = &ledger["sum"];
        let threads =
            ["threads_ns", "exited_ns"].iter().map(|line| lines[line].as_i64().unwrap()).sum::<i64>();
        let ours = sum(&now, "cpumon_cpu_seconds_total{", &[host]);
        let is_whole = ledger["intervals"].as_u64() >= Some(10) && capacity > 0;
        (is_whole
            && lines["capacity_ns"].as_i64().map(i128::from) == Some(capacity)
            && i128::from(threads) == ours)
            .then_some(())
    });
    let mut before = Samples::new();
    for _ in 0..5 {
        let (kind, text) = scrape(&serve, "", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(text.ends_with("# EOF\n"));
        let now = samples(&text);
        for (series, value) in before.iter().filter(|(series, _)| series.contains("_total")) {
            assert!(now.get(series).is_some_and(|now| now >= value), "{series} fell from {value}");
        }
        let local = eventually("this machine", || hosts().into_iter().find(|host| host["trust"] == "local"));
        check_sums(&now, &format!("host=\"{}\"", local["hostname"].as_str().unwrap()));
        check_sums(&now, host);
        before = now;
    }
    let (kind, text) = scrape(&serve, "?host=we%22b%5C1%40127.0.0.1", "");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let is_of_host = |line: &str| !line.contains("host=") || line.contains(host);
    assert!(text.contains("cpumon_host_up{") && text.lines().all(is_of_host), "{text}");
    assert!(!text.contains("cpumon_blocked"), "of /proc blocked time is not known, which is not 0");
    check_by_promtool(&scrape(&serve, "", "").1);
    serve.stop();
}
