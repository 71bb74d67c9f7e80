//! `cpumon trace view`: the page's server for one trace, until Ctrl-C, and its refusals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use cpumon_model::Moment;
use cpumon_trace::{Compression, FileHeader, Leaves, SchedEvent, SchedEventKind, TraceTask, TraceWriter};
use serde_json::Value;

use crate::support::cpumon;

/// A thread runs for 3 of 10 µs.
fn make(path: &Path) {
    let header =
        FileHeader { began: Moment::default(), cpus: 1, host: "made".into(), ..FileHeader::default() };
    let file = std::fs::File::create(path).unwrap();
    let mut writer = TraceWriter::new(file, &header, Compression::None).unwrap();
    for (at_ns, prev, next) in [(2_000, 0, 1), (5_000, 1, 0)] {
        let (prev, next, leaves) = (TraceTask(prev), TraceTask(next), Leaves::Ready);
        writer.event(&SchedEvent { at_ns, cpu: 0, kind: SchedEventKind::Switch { prev, next, leaves } });
    }
    writer.finish(10_000, 0).unwrap();
}

/// Asks the server, with a line of the header; the whole answer.
fn get(address: &str, path: &str, line: &str) -> String {
    let mut answer = String::new();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{line}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks the server with its key; the body as JSON.
fn ask(address: &str, path: &str, key: &str) -> Value {
    let answer = get(address, path, &format!("Authorization: Bearer {key}"));
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn a_trace_is_shown_until_ctrl_c() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("made.trace");
    make(&file);
    let mut view = cpumon().args(["trace", "view"]).arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(view.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/trace/file?key="));
    let (address, key) = address.unwrap_or_else(|| panic!("{line}"));
    let head = ask(address, "/api/v1/traces/file", key);
    assert_eq!((&head["host"], &head["length_ns"]), (&"made".into(), &10_000.into()));
    assert_eq!(head["sums"]["run_ns"], 3_000);
    assert_eq!(ask(address, "/api/v1/traces/other", key)["status"], 404);
    assert_eq!(ask(address, "/api/v1/hosts", key)["total"], 0, "it is a receiver without hosts");
    // Another user of this machine finds the port, and not the key.
    let wrong = format!("Authorization: Bearer {}0", &key[1..]);
    let wrong_cookie = "Cookie: cpumon-key=0";
    for line in ["Accept: */*", &wrong, wrong_cookie] {
        for path in ["/api/v1/traces/file", "/trace/file", "/trace/file?key=", "/api/v1/traces/file?key=0"] {
            let answer = get(address, path, line);
            assert!(
                answer.starts_with("HTTP/1.1 401 ") && !answer.contains("made"),
                "{path} {line}: {answer}"
            );
        }
    }
    // The browser keeps it as a cookie, and the address has it no longer.
    let first = get(address, &format!("/trace/file?from=1&key={key}&until=2"), "Accept: */*").to_lowercase();
    assert!(
        first.starts_with("http/1.1 303 ") && first.contains("location: /trace/file?from=1&until=2\r\n"),
        "{first}"
    );
    let cookie = first.split_once("set-cookie: ").unwrap().1.split(';').next().unwrap();
    let page = get(address, "/api/v1/traces/file", &format!("Cookie: other=1; {cookie}"));
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let pid = rustix::process::Pid::from_child(&view);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(view.wait().unwrap().code(), Some(130));
}

#[test]
fn what_is_no_trace_or_no_address_of_this_machine_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("foreign");
    std::fs::write(&file, "something else").unwrap();
    let refused = cpumon().args(["trace", "view"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text.contains("foreign") && text.contains("this is no trace"), "{text}");
    let none = cpumon().args(["trace", "view"]).arg(dir.path().join("none")).output().unwrap();
    let text = String::from_utf8_lossy(&none.stderr);
    assert!(none.status.code() == Some(1) && text.matches("No such file").count() == 1, "{text}");
    make(&file);
    let far = cpumon().args(["trace", "view", "--http", "0.0.0.0:0"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&far.stderr);
    assert_eq!(far.status.code(), Some(2), "{text}");
    assert!(text.contains("on this machine only"), "{text}");
}

/// Only the reports named them.
#[test]
fn the_recordings_of_a_directory_that_are_left_out_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for recording in ["20261124T100000.000Z", "20261124T110000.000Z"] {
        make(&dir.path().join(cpumon_trace::segments::name_of(recording, 1)));
    }
    // The port is taken, so that it ends.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let view = cpumon().args(["trace", "view", "--http", &address]).arg(dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&view.stderr);
    assert!(view.status.code() == Some(1) && text.contains("has 1 other recordings"), "{text}");
}
