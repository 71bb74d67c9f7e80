//! Traces of the receiver's own machine with the real program: recorded on request, and by its flight recorder.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::{Serve, cpumon, eventually, ok, report_of, run, text, traces};

/// `CAP_PERFMON` and `CAP_BPF`.
const PROBES: u64 = 1 << 38 | 1 << 39;

struct Receiver {
    serve: Serve,
    host: String,
    _dir: tempfile::TempDir,
}

impl Receiver {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let args = [&["--interval", "200ms"], more].concat();
        let serve = Serve::start_with(cpumon(), &dir.path().join("store.db"), &args);
        let host = eventually("this machine is known", || {
            let status = serve.status();
            let local = status["hosts"].as_array()?.iter().find(|host| host["trust"] == "local")?.clone();
            Some(local["id"].as_str()?.to_owned())
        });
        Self { serve, host, _dir: dir }
    }

    /// A request below the host's path: the status, and the body.
    fn ask(&self, method: &str, path: &str, header: &str) -> (u16, Value) {
        let address = self.serve.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let path = format!("/api/v1/hosts/{}/{path}", self.host);
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{header}content-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }

    fn sources(&self) -> Value {
        self.ask("GET", "recording", "").1
    }

    /// Waits until the last recording is a trace; its id.
    fn stored(&self) -> String {
        eventually("the recording is stored", || {
            let recording = self.sources()["recording"].clone();
            assert_ne!(recording["state"], "failed", "{recording}");
            recording["trace"].as_str().map(str::to_owned)
        })
    }

    fn list(&self) -> Vec<Value> {
        traces(self.serve.store())
    }

    /// The effective capabilities of a thread of the receiver.
    fn capabilities(&self, thread: &str) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.serve.pid)).unwrap();
        let status = tasks
            .flatten()
            .map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default())
            .find(|status| status.starts_with(&format!("Name:\t{thread}\n")));
        let line = status.as_ref().and_then(|status| status.lines().find(|line| line.starts_with("CapEff:")));
        u64::from_str_radix(line.unwrap().split_whitespace().last().unwrap(), 16).unwrap()
    }
}

#[test]
fn this_machine_is_recorded_on_request() {
    let receiver = Receiver::start(&[]);
    let sources = receiver.sources();
    if sources["can_record"] != true {
        return crate::skip::skip(format!("needs root for BPF: {sources}"));
    }
    assert_eq!((&sources["can_take"], &sources["recording"]), (&false.into(), &Value::Null));
    assert_eq!(receiver.capabilities("record") & !PROBES, 0, "what the recorder keeps");
    let (status, begun) = receiver.ask("POST", "recording?seconds=60", "");
    assert_eq!((status, &begun["recording"]["state"]), (202, &"recording".into()), "{begun}");
    for (path, header, refused, reason) in [
        ("recording?seconds=5", "", 409, "under way"),
        ("recording?seconds=0", "", 400, "between 1 and 60"),
        ("recording?seconds=61", "", 400, "between 1 and 60"),
        ("recording?seconds=1", "origin: http://elsewhere\r\n", 403, "Another site"),
        ("recording/stop", "sec-fetch-site: cross-site\r\n", 403, "Another site"),
        ("traces", "", 409, "no flight recorder"),
    ] {
        let (status, problem) = receiver.ask("POST", path, header);
        assert!(
            status == refused && problem["detail"].as_str().unwrap().contains(reason),
            "{path}: {problem}"
        );
    }
    eventually("events are counted", || (receiver.sources()["recording"]["events"] != 0).then_some(()));
    assert_eq!(receiver.ask("POST", "recording/stop", "").0, 202);
    let id = receiver.stored();
    assert_eq!(receiver.ask("POST", "recording/stop", "").0, 409, "none is under way");
    assert_eq!(receiver.ask("POST", "recording?seconds=1", "").0, 202);
    let second =
        eventually("the second one is stored", || Some(receiver.stored()).filter(|next| *next != id));
    let listed = receiver.list();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().all(|trace| trace["reason"] == "recorded by a user"), "{listed:?}");
    let seconds: f64 = listed[1]["seconds"].as_str().unwrap().parse().unwrap();
    assert!(seconds >= 1.0, "{listed:?}");
    let file = format!("{}.traces/{second}.trace", receiver.serve.store());
    assert!(report_of(file.as_ref()).contains("run_ns"));
    let own = std::fs::read_dir(format!("{}.traces/own", receiver.serve.store())).unwrap();
    assert_eq!(own.count(), 0, "nothing waits");
}

#[test]
fn the_receivers_flight_recorder_fills_its_trace_store() {
    let receiver =
        Receiver::start(&["--flight-recorder", "2s", "--probes", "sched", "--flight-when", "delay>1us"]);
    let sources = receiver.sources();
    assert_eq!((&sources["can_take"], &sources["last_seconds"]), (&true.into(), &2.0.into()));
    assert_eq!(receiver.capabilities("flight") & PROBES, 0, "its programs are loaded");
    let reasons = |receiver: &Receiver| -> Vec<Value> {
        receiver.list().iter().map(|trace| trace["reason"].clone()).collect()
    };
    eventually("the rule is met", || reasons(&receiver).contains(&"delay>1us".into()).then_some(()));
    let url = receiver.serve.url.clone();
    ok(&["trace", "take", "--host", &receiver.host, "--url", &url]);
    let again = run(&["trace", "take", "--host", &receiver.host, "--url", &url]);
    assert!(text(&again.stderr).contains("less than a minute ago"), "{again:?}");
    eventually("the request is stored", || reasons(&receiver).contains(&"request".into()).then_some(()));
    receiver.serve.signal("-USR1");
    eventually("the signal is stored", || reasons(&receiver).contains(&"SIGUSR1".into()).then_some(()));
}

#[test]
fn a_receiver_without_a_trace_store_says_so() {
    let receiver = Receiver::start(&["--trace-bytes", "0"]);
    let sources = receiver.sources();
    let how = sources["how"].as_str().unwrap();
    assert!(sources["can_record"] == false && how.contains("--trace-bytes"), "{sources}");
    let (status, problem) = receiver.ask("POST", "recording", "");
    assert!(status == 409 && problem["how"].as_str().unwrap().contains("--trace-bytes"), "{problem}");
    for (flags, reason) in [
        (["--trace-bytes", "0"].as_slice(), "--trace-bytes is 0"),
        (["--no-store"].as_slice(), "needs a store"),
        (["--no-agent"].as_slice(), "needs a store"),
        (["--flight-when", "delay>1us"].as_slice(), "--probes sched"),
    ] {
        let refused = run(&[
            &["serve", "--flight-recorder", "2s", "--no-udp", "--http", "127.0.0.1:0"],
            flags,
        ]
        .concat());
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(reason), "{refused:?}");
    }
}
