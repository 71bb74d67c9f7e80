//! The routes of traces against a made trace: numbers are those of the report.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey, WaitReason};
use cpumon_query::traces::{TIMELINE_BYTES, Timelines, TraceInput, Traces};
use cpumon_trace::{
    Compression, FileHeader, Leaves, SchedEvent, SchedEventKind, TraceIdentity, TraceTask, TraceWriter,
};
use serde_json::Value;

use super::tests::{ask_raw, fake};
use super::*;

const BEGAN_NS: u64 = 5_000_000_000;

/// One file, whose id is `made`.
#[derive(Debug)]
struct One(PathBuf);

impl Traces for One {
    fn open(&self, id: &str) -> io::Result<Option<TraceInput>> {
        if id == "made" { TraceInput::open(&self.0).map(Some) } else { Ok(None) }
    }
}

fn identity(number: u32, name: &str) -> TraceIdentity {
    TraceIdentity {
        task: TraceTask(number),
        at_ns: BEGAN_NS,
        thread: ThreadKey { tid: number + 100, start_ns: 7_000 },
        process: ProcessKey { pid: number + 100, start_ns: 7_000 },
        group: 0,
        comm: Comm::from(name),
        program: name.as_bytes().into(),
        is_executable: true,
        is_kernel: false,
    }
}

/// Two threads on CPU 0: `web` wakes `db`, which waits 30 µs behind it; CPU 1 is idle. 100 times, 100 µs each.
fn made(dir: &std::path::Path) -> PathBuf {
    let path = dir.join("made.trace");
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BEGAN_NS, wall_ns: 1_800_000_000_000_000_000 };
    let header = FileHeader { began, cpus: 2, host: "</script>".into(), ..FileHeader::default() };
    let mut writer = TraceWriter::new(File::create(&path).unwrap(), &header, Compression::None).unwrap();
    writer.identity(&identity(1, "web"));
    writer.identity(&identity(2, "db"));
    let sleep = Leaves::Asleep(WaitReason::DISK);
    let switch =
        |prev, next, leaves| SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves };
    let wake =
        |task, waker| SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(waker), cpu: 0 };
    let mut event =
        |at_us: u64, cpu, kind| writer.event(&SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind });
    for turn in 0..100 {
        let at = turn * 100;
        event(at + 10, 0, wake(1, 0));
        event(at + 15, 0, switch(0, 1, Leaves::Ready));
        event(at + 20, 0, wake(2, 1));
        event(at + 50, 0, switch(1, 2, sleep));
        event(at + 90, 0, switch(2, 0, sleep));
    }
    event(5, 1, switch(0, 1, Leaves::Ready));
    event(6, 1, switch(1, 0, sleep));
    writer.finish(BEGAN_NS + 10_000_000, 0).unwrap();
    path
}

struct Made {
    dir: tempfile::TempDir,
    router: Router,
}

fn router_of() -> Made {
    let dir = tempfile::tempdir().unwrap();
    let traces: Arc<dyn Traces> = Arc::new(One(made(dir.path())));
    let timelines = Some(Arc::new(Timelines::new(traces, TIMELINE_BYTES)));
    let audit = Some(Arc::new(cpumon_files::AuditLog::in_dir(dir.path())));
    let options = WebOptions { timelines, audit, ..WebOptions::default() };
    Made { router: router(fake(), "127.0.0.1:3080".parse().unwrap(), options), dir }
}

async fn ask(made: &Made, path: &str) -> Value {
    let (status, _, body) =
        ask_raw(made.router.clone(), &format!("/api/v1/traces/{path}"), "localhost").await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    body
}

#[tokio::test]
async fn a_trace_is_described_and_drawn() {
    let made = router_of();
    let head = ask(&made, "made").await;
    assert_eq!((&head["host"], &head["length_ns"]), (&"</script>".into(), &10_000_000.into()));
    assert_eq!((&head["began_ns"], &head["is_cut"]), (&"1800000000000000000".into(), &false.into()));
    assert_eq!((&head["cpus"], &head["threads"]), (&serde_json::json!([0, 1]), &2.into()));
    assert_eq!(head["problems"], serde_json::json!([]));
    assert_eq!(head["sums"]["capacity_ns"], 20_000_000);
    let exact =
        ask(&made, "made/tracks?from_ns=200000&bucket_ns=1000&count=100&cpus=0-9&threads=0,1&all=true").await;
    let cpu = &exact["cpus"][0];
    assert_eq!(cpu["is_exact"], true);
    let db = exact["names"].as_array().unwrap().iter().find(|names| names["name"] == "db").unwrap();
    let who: Vec<_> = cpu["who"].as_array().unwrap().iter().map(|who| *who == db["thread"]).collect();
    assert_eq!((&cpu["from_ns"], who), (&serde_json::json!([215_000, 250_000]), vec![false, true]));
    assert_eq!(cpu["length_ns"], serde_json::json!([35_000, 40_000]));
    assert_eq!((&cpu["queue"][25], &cpu["queue"][55]), (&100.into(), &0.into()));
    assert_eq!((&exact["all"]["busy"][20], &exact["all"]["busy"][95]), (&500.into(), &0.into()));
    assert_eq!(exact["reasons"], serde_json::json!(["disk"]));
    let coarse = ask(&made, "made/tracks?from_ns=0&bucket_ns=1000000&count=10&cpus=0&threads=0").await;
    assert_eq!((&coarse["cpus"][0]["is_exact"], &coarse["cpus"][0]["busy"][3]), (&false.into(), &750.into()));
    assert_eq!(coarse["threads"][0]["shares"][3], serde_json::json!([350, 50, 0, 600, 0]));
}

#[tokio::test]
async fn areas_and_slices_have_the_times_of_the_trace() {
    let made = router_of();
    let list = ask(&made, "made/threads?from_ns=100000&until_ns=300000&sort=ready").await;
    assert_eq!(list["total"], 2);
    let db = &list["rows"][0];
    assert_eq!(
        (&db["name"], &db["run_ns"], &db["ready_woken_ns"]),
        (&"db".into(), &80_000.into(), &60_000.into())
    );
    assert_eq!((&db["blocked_ns"], &db["wakeups"]), (&60_000.into(), &2.into()));
    assert_eq!(ask(&made, "made/threads?filter=DB").await["total"], 1);
    assert_eq!(ask(&made, "made/threads?filter=101").await["rows"][0]["name"], "web");
    let number = db["thread"].as_i64().unwrap();
    let page = ask(&made, &format!("made/threads/{number}?from_ns=100000&until_ns=300000")).await;
    assert_eq!(page["blocked"], serde_json::json!([{"reason": "disk", "ns": 60_000}]));
    assert_eq!(
        (&page["behind"]["by"][0]["who"]["name"], &page["behind"]["by"][0]["ns"]),
        (&"web".into(), &60_000.into())
    );
    let sums = ask(&made, &format!("made/sums?from_ns=100000&until_ns=300000&threads={number}")).await;
    assert_eq!((&sums["totals"]["run_ns"], &sums["threads"]), (&80_000.into(), &1.into()));
    assert_eq!(sums["culprits"]["by"][0]["ns"], 60_000);
    // The sums under a filtered timeline were those of all threads.
    assert_eq!(ask(&made, "made/sums?from_ns=100000&until_ns=300000&filter=DB").await, sums);
    let of_web = ask(&made, "made/sums?from_ns=100000&until_ns=300000&filter=web").await;
    assert_eq!((&of_web["threads"], &of_web["culprits"]["by"]), (&1.into(), &serde_json::json!([])));
    let sums = ask(&made, "made/sums?from_ns=100000&until_ns=300000&cpus=0").await;
    assert_eq!((&sums["all"]["run_ns"], &sums["all"]["idle_ns"]), (&150_000.into(), &50_000.into()));
    // CPU 1 had nothing to do while db waited.
    assert_eq!(sums["idle_while_overloaded"]["wall_ns"], 60_000);
    let delays = ask(&made, "made/delays?from_ns=100000&until_ns=300000").await;
    assert_eq!(delays["rows"], serde_json::json!([{"waited": "db", "behind": "web", "ns": 60_000}]));
    let of_db = ask(&made, "made/delays?from_ns=100000&until_ns=300000&filter=db").await;
    assert_eq!(of_db["rows"], delays["rows"]);
    assert_eq!(ask(&made, "made/delays?from_ns=100000&until_ns=300000&filter=web").await["total"], 0);
    assert_eq!(
        (&delays["total"], &delays["all_ns"], &delays["rest_ns"], &delays["until_ns"]),
        (&1.into(), &60_000.into(), &10_000.into(), &300_000.into())
    );
    for none in ["cpus=1", "threads=99", "offset=1"] {
        let delays = ask(&made, &format!("made/delays?from_ns=100000&until_ns=300000&{none}")).await;
        assert_eq!(delays["rows"], serde_json::json!([]), "{none}");
    }
    let slice = ask(&made, "made/slice?cpu=0&at_ns=260000").await;
    assert_eq!(
        (&slice["who"]["name"], &slice["from_ns"], &slice["length_ns"]),
        (&"db".into(), &250_000.into(), &40_000.into())
    );
    assert_eq!(
        (&slice["wait"]["waker"]["name"], &slice["wait"]["length_ns"]),
        (&"web".into(), &30_000.into())
    );
    assert_eq!((&slice["previous_ns"], &slice["next_ns"]), (&150_000.into(), &350_000.into()));
    let waker = ask(&made, "made/slice?cpu=0&at_ns=230000").await;
    assert_eq!(
        (&waker["woke"][0]["who"]["name"], &waker["woke"][0]["ran_ns"]),
        (&"db".into(), &250_000.into())
    );
}

#[tokio::test]
async fn a_window_is_a_file_and_wrong_questions_are_refused() {
    let made = router_of();
    let path = "/api/v1/traces/made/export?from_ns=100000&until_ns=200000";
    let (status, headers, body) = ask_raw(made.router.clone(), path, "localhost").await;
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!((status, headers[header::CONTENT_TYPE].to_str().unwrap()), (200, "text/csv; charset=utf-8"));
    // Each thread: blocked, ready, running, and the slice that continues behind the window.
    assert_eq!(text.lines().filter(|line| line.contains("\"db\",\"db\"")).count(), 4, "{text}");
    let log = cpumon_files::AuditLog::in_dir(made.dir.path());
    let audit: String = log.files().iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let entry = "\"trace\",\"detail\":\"made, slices from 100000 to 200000 ns\"";
    assert!(audit.contains("\"exported\"") && audit.contains(entry), "{audit}");
    for (path, status) in [
        ("nosuch", 404),
        ("..%2Fetc%2Fpasswd", 404),
        ("made?part=x", 400),
        ("made/tracks?from_ns=0&bucket_ns=0&count=5", 400),
        ("made/tracks?from_ns=0&bucket_ns=5&count=0", 400),
        (
            "made/tracks?from_ns=18446744073709551615&bucket_ns=18446744073709551615&count=8192&cpus=0&threads=0&all=true",
            200,
        ),
        ("made/tracks?from_ns=0&bucket_ns=5&count=5&cpus=5-1", 400),
        ("made/threads?from_ns=9&until_ns=8", 400),
        ("made/threads?sort=x", 400),
        ("made/delays?limit=0", 400),
        ("made/delays?from_ns=9&until_ns=8", 400),
        ("made/delays?from_ns=0&until_ns=18446744073709551615", 200),
        ("made/threads/7", 404),
        ("made/slice?at_ns=0&cpu=1&thread=1", 400),
        ("made/slice?at_ns=99999999999&cpu=0", 404),
        ("made/sums?from_ns=0&until_ns=18446744073709551615", 200),
        ("nosuch/export", 404),
    ] {
        let (is, _, body) =
            ask_raw(made.router.clone(), &format!("/api/v1/traces/{path}"), "localhost").await;
        assert_eq!(is, status, "{path}: {}", String::from_utf8_lossy(&body));
    }
    let after: String = log.files().iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    assert_eq!(after, audit, "what failed is no export");
    let (status, ..) = ask_raw(
        router(fake(), "127.0.0.1:3080".parse().unwrap(), WebOptions::default()),
        "/api/v1/traces/made",
        "localhost",
    )
    .await;
    assert_eq!(status, 404, "a receiver without traces");
}
