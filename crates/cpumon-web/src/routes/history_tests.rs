//! The past over HTTP, against a store that is made here: five minutes of a host, the third of them missing.

use std::ops::ControlFlow;

use cpumon_export::ExportQuery;
use cpumon_model::{
    CpuInterval, CpuSched, CpuTimes, DelayOf, Delays, Delta, Fields, HostInfo, Interval, Ledger, Moment,
    ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, ThreadInterval, ThreadKey, Trust, WaitReason,
    delay_bucket,
};
use cpumon_store::{Query, Reader, StoreOptions, Writer};

use serde_json::Value;

use super::tests::{Fake, ask_raw};
use super::*;
use crate::history::{Past, Range, Readers, threads};

pub(super) const SECOND_NS: i64 = 1_000_000_000;
pub(super) const BEGIN_NS: i64 = 1_800_000_000 * SECOND_NS;

/// Blocked for 4 ms, half of it in futex, and a longest delay of 7 µs.
fn sched() -> SchedDelta {
    let waits = [(WaitReason::syscall(202), 2_000_000), (WaitReason::DISK, 2_000_000)].into_iter().collect();
    SchedDelta { blocked_ns: 4_000_000, wakeups: 3, longest_delay_ns: 7_000, waits, ..SchedDelta::default() }
}

/// One and a half tasks on average, three at once.
fn run_queue() -> CpuSched {
    CpuSched { run_queue_ns: 1_500_000_000, run_queue_max: 3, ..CpuSched::default() }
}

fn interval(second: i64) -> Interval {
    let at = |second: i64| Moment {
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
        wall_ns: BEGIN_NS + second * SECOND_NS,
    };
    let delta = |run_ns| Delta { run_ns, user_ns: run_ns / 2, ..Delta::default() };
    let process = |pid, name: &str, run_ns| ProcessInterval {
        key: ProcessKey { pid, start_ns: 9 },
        parent_pid: 1,
        info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        delta: delta(run_ns),
        sched: sched(),
        thread_rows: 1,
        ..ProcessInterval::default()
    };
    let thread = |pid, tid, run_ns| ThreadInterval {
        key: ThreadKey { tid, start_ns: 9 },
        process: ProcessKey { pid, start_ns: 9 },
        comm: "worker".into(),
        delta: delta(run_ns),
        sched: sched(),
        ..ThreadInterval::default()
    };
    let mut processes = vec![process(10, "a,b", 100 + second), process(20, "web", 1000)];
    processes[1].thread_rows = 2;
    if second % 2 == 0 {
        processes.push(process(30, "web", 10));
    }
    let mut threads = vec![thread(10, 10, 100 + second), thread(20, 20, 400), thread(20, 21, 600)];
    threads.extend((second % 2 == 0).then(|| thread(30, 30, 10)));
    // Now and then a single long run delay.
    let waited = if second % 10 == 0 { (delay_bucket(100_000_000), 1) } else { (delay_bucket(1_000_000), 9) };
    let delays = [DelayOf::Cpu(0), DelayOf::Process(processes[0].key)]
        .map(|of| Delays { of, histogram: Arc::new([waited].into_iter().collect()) });
    let times = CpuTimes { user_ns: 600_000_000, idle_ns: 400_000_000, ..CpuTimes::default() };
    Interval {
        host: HostId([8; 16]),
        sequence: second.unsigned_abs(),
        fields: Fields::USER
            | Fields::RUN
            | Fields::CPUS
            | Fields::SCHED
            | Fields::WAITS
            | Fields::HISTOGRAMS,
        source: cpumon_model::SourceKind::Bpf,
        begin: at(second - 1),
        end: at(second),
        cpus: vec![CpuInterval { times, sched: run_queue(), ..CpuInterval::default() }],
        ledger: Ledger {
            capacity_ns: SECOND_NS,
            threads_ns: 600_000_000,
            idle_ns: 400_000_000,
            ..Ledger::default()
        },
        delays: delays.into(),
        processes,
        threads,
        thread_count: 40 + u32::try_from(second % 7).unwrap(),
        ..Interval::default()
    }
}

pub(super) struct Stored {
    dir: tempfile::TempDir,
    intervals: Vec<Interval>,
}

impl Stored {
    /// `sealed`: sums are made too.
    pub(super) fn new(sealed: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(&dir.path().join("s.db"), &StoreOptions::default()).unwrap();
        let info =
            HostInfo { host: HostId([8; 16]), hostname: "past".into(), cpu_count: 1, ..HostInfo::default() };
        let intervals: Vec<Interval> =
            (1..=300).filter(|second| !(121..=180).contains(second)).map(interval).collect();
        for interval in &intervals {
            writer.put(&info, Trust::Unauthenticated, None, interval).unwrap();
        }
        writer.commit().unwrap();
        if sealed {
            writer.seal_all().unwrap();
        }
        Self { dir, intervals }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("s.db")
    }

    pub(super) fn router(&self) -> Router {
        let options = WebOptions { store: Some(self.path()), ..WebOptions::default() };
        router(Arc::new(Fake::default()), "127.0.0.1:1".parse().unwrap(), options)
    }

    async fn get(&self, path: &str) -> (u16, serde_json::Value) {
        let (status, _, body) = ask_raw(self.router(), path, "localhost").await;
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{path}: {body:?}")))
    }

    /// Of the whole five minutes.
    async fn of_all(&self, path: &str, query: &str) -> serde_json::Value {
        let until = BEGIN_NS + 300 * SECOND_NS;
        let path = format!("/api/v1/hosts/past/{path}?since={BEGIN_NS}&until={until}&{query}");
        let (status, body) = self.get(&path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn run_ns(&self, pid: u32) -> i64 {
        let rows = self.intervals.iter().flat_map(|interval| &interval.processes);
        rows.filter(|row| row.key.pid == pid).map(|row| row.delta.run_ns).sum()
    }
}

fn sum(list: &serde_json::Value) -> i64 {
    list.as_array().unwrap().iter().filter_map(serde_json::Value::as_i64).sum()
}

fn nulls(list: &serde_json::Value) -> usize {
    list.as_array().unwrap().iter().filter(|value| value.is_null()).count()
}

#[tokio::test]
async fn a_series_adds_up_and_its_holes_are_holes_with_a_reason() {
    for (sealed, points, grain, per_minute) in
        [(false, 300, "interval", 60), (true, 300, "interval", 60), (true, 5, "minute", 1)]
    {
        let stored = Stored::new(sealed);
        let body = stored.of_all("series", &format!("points={points}")).await;
        assert_eq!((body["grain"].as_str(), body["t_ms"].as_array().unwrap().len()), (Some(grain), points));
        assert_eq!(sum(&body["covered_ns"]), 240 * SECOND_NS);
        for (column, per_second) in
            [("ledger_threads_ns", 600_000_000), ("busy_ns", 600_000_000), ("capacity_ns", SECOND_NS)]
        {
            let values = &body["columns"][column]["sum"];
            assert_eq!((sum(values), nulls(values)), (240 * per_second, per_minute), "{column}");
        }
        let busy = &body["columns"]["busy_ns"]["max"];
        assert_eq!((&busy[0], &busy[3 * per_minute - 1]), (&600_000_000.into(), &serde_json::Value::Null));
        assert_eq!(body["columns"].get("user_ns").is_some(), grain == "interval", "sums hold no CPU modes");
        let queue = &body["columns"]["run_queue_ns"];
        let longest = &body["columns"]["run_queue_max"]["max"];
        assert_eq!((sum(&queue["sum"]), nulls(&queue["sum"])), (240 * 1_500_000_000, per_minute));
        assert_eq!((&queue["max"][0], &longest[0]), (&1_500_000_000.into(), &3.into()));
        assert!(body["columns"].get("steal_ns").is_none_or(|steal| sum(&steal["sum"]) == 0));
        let gaps = body["gaps"].as_array().unwrap();
        assert_eq!((gaps.len(), &gaps[0]["reason"]), (1, &"no data".into()), "{gaps:?}");
        assert_eq!(gaps[0]["begin_ns"], (BEGIN_NS + 120 * SECOND_NS).to_string());
        assert_eq!(body["kept"]["last_ns"], (BEGIN_NS + 300 * SECOND_NS).to_string());
    }
    let fine = Stored::new(true).of_all("series", "points=5&grain=interval&columns=user_ns").await;
    assert_eq!(sum(&fine["columns"]["user_ns"]["sum"]), 240 * 600_000_000);
    assert_eq!(fine["columns"]["user_ns"]["max"][0], 600_000_000);
    assert!(fine["columns"].get("capacity_ns").is_none(), "only what was asked for");
}

#[tokio::test]
async fn chosen_tasks_are_lines() {
    let stored = Stored::new(true);
    for points in [300, 5] {
        let body = stored
            .of_all("lines", &format!("points={points}&processes=10-9,77-1&names=web,a%252Cb&threads=21-9"))
            .await;
        let line = |at: usize| &body["lines"][at];
        let total = |at: usize| sum(&line(at)["columns"]["run_ns"]);
        assert_eq!((total(0), total(1)), (stored.run_ns(10), 0));
        assert_eq!(
            (&line(1)["name"], &line(1)["first_ms"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!((total(2), &line(2)["name"]), (600 * 240, &"worker".into()));
        assert_eq!(total(3), stored.run_ns(20) + stored.run_ns(30));
        assert_eq!((total(4), &line(4)["name"]), (stored.run_ns(10), &"a,b".into()));
        assert!(nulls(&line(1)["columns"]["run_ns"]) > 0, "a gap is no zero");
        assert!(line(0)["columns"].get("run_delay_ns").is_none(), "not measured");
    }
    let alone = stored.of_all("lines", "points=300&threads=20-9/21-9,10-9/10-9").await;
    let totals = [0, 1].map(|at: usize| sum(&alone["lines"][at]["columns"]["run_ns"]));
    assert_eq!(totals, [600 * 240, stored.run_ns(10)], "their processes are named");
    assert_eq!(sum(&alone["lines"][0]["columns"]["blocked_ns"]), 240 * 4_000_000);
    let one = stored.of_all("lines", "points=300&threads=20-9/21-9&columns=run_ns").await;
    assert_eq!(
        one["lines"][0]["columns"],
        serde_json::json!({ "run_ns": alone["lines"][0]["columns"]["run_ns"] })
    );
    let body = stored.of_all("processes/10-9", "points=5").await;
    assert_eq!((&body["process"]["name"], &body["process"]["parent_pid"]), (&"a,b".into(), &1.into()));
    assert_eq!(
        (sum(&body["lines"][0]["columns"]["run_ns"]), &body["grain"]),
        (stored.run_ns(10), &"minute".into())
    );
    assert_eq!(body["lines"][0]["max_run_ns_per_s"][4], 400, "the highest of a single interval");
    assert_eq!(stored.get("/api/v1/hosts/past/processes/99-9").await.0, 404);
}

#[tokio::test]
async fn a_landscape_has_the_busiest_and_the_rest() {
    for (sealed, points) in [(false, 10), (true, 10), (true, 5)] {
        let stored = Stored::new(sealed);
        let body = stored.of_all("landscape", &format!("points={points}&rows=1")).await;
        assert_eq!((&body["total"], &body["rows"][0]["name"]), (&2.into(), &"web".into()));
        assert_eq!(sum(&body["rows"][0]["values"]), stored.run_ns(20) + stored.run_ns(30));
        assert_eq!(sum(&body["other"]), stored.run_ns(10));
        assert_eq!(nulls(&body["other"]), points / 5);
        let body = stored.of_all("landscape", &format!("points={points}&by=process")).await;
        let totals: Vec<i64> =
            body["rows"].as_array().unwrap().iter().map(|row| sum(&row["values"])).collect();
        assert_eq!(totals, [stored.run_ns(20), stored.run_ns(10), stored.run_ns(30)]);
        assert_eq!((sum(&body["other"]), &body["rows"][1]["key"]), (0, &"10-9".into()));
    }
    let body = Stored::new(true).of_all("processes/20-9/threads", "points=5&rows=1").await;
    assert_eq!((&body["total"], &body["rows"][0]["key"]), (&2.into(), &"21-9".into()));
    assert_eq!((sum(&body["rows"][0]["values"]), sum(&body["other"])), (600 * 240, 400 * 240));
}

#[tokio::test]
async fn a_range_read_in_parts_is_the_same_range() {
    let stored = Stored::new(true);
    let options = WebOptions { store: Some(stored.path()), ..WebOptions::default() };
    let app = Arc::new(App::new(Arc::new(Fake::default()), options));
    let range = Range { since_ns: BEGIN_NS, until_ns: BEGIN_NS + 300 * SECOND_NS, points: 7 };
    let ask = async |parts| {
        let read = move |past: &Past| {
            let process = ProcessKey { pid: 20, start_ns: 9 };
            threads(past, &past.find("past")?, range, process, (1, Some(parts)))
        };
        serde_json::to_value(Readers::ask(&app, read).await.unwrap()).unwrap()
    };
    let whole = ask(1).await;
    assert_eq!(whole["gaps"].as_array().unwrap().len(), 1, "{whole}");
    // An edge in the hole, edges beside it, and more parts than there are turns.
    for parts in [2, 3, 4, 9] {
        assert_eq!(ask(parts).await, whole, "{parts} parts");
    }
}

#[tokio::test]
async fn a_span_is_summed_by_process_and_by_name() {
    let stored = Stored::new(true);
    let body = stored.of_all("sum", "threads=20-9").await;
    assert_eq!((&body["covered_ns"], &body["grain"]), (&(240 * SECOND_NS).into(), &"interval".into()));
    let columns = &body["processes"]["columns"];
    assert_eq!(
        columns["run_ns"],
        serde_json::json!([stored.run_ns(20), stored.run_ns(10), stored.run_ns(30)])
    );
    assert_eq!(body["summary"]["ledger_threads_ns"], 240 * 600_000_000_i64);
    assert_eq!(body["threads"][0]["columns"]["run_ns"], serde_json::json!([600 * 240, 400 * 240]));
    let body = stored.of_all("sum", "by=name&limit=1").await;
    assert_eq!(
        (&body["processes"]["total"], &body["processes"]["columns"]["name"]),
        (&2.into(), &"web".into())
    );
    assert_eq!(body["processes"]["columns"]["run_ns"], stored.run_ns(20) + stored.run_ns(30));
    assert_eq!(body["processes"]["columns"]["processes"], 2);
}

#[tokio::test]
async fn hosts_of_the_store_and_holes_are_listed() {
    let stored = Stored::new(false);
    let (status, body) = stored.get("/api/v1/stored").await;
    assert_eq!((status, &body["columns"]["hostname"], &body["total"]), (200, &"past".into(), &1.into()));
    let body = stored.of_all("gaps", "limit=1").await;
    assert_eq!((&body["total"], &body["gaps"][0]["reason"]), (&1.into(), &"no data".into()));
    assert_eq!(stored.of_all("gaps", "offset=1").await["gaps"], serde_json::json!([]));
    assert_eq!(stored.get("/api/v1/hosts/nobody/series").await.0, 404);
    let empty = stored.get("/api/v1/hosts/past/series?since=0&until=1000&points=7").await;
    assert_eq!((empty.0, nulls(&serde_json::json!(empty.1["covered_ns"]))), (200, 0));
}

#[tokio::test]
async fn wrong_ranges_and_lists_are_refused() {
    let stored = Stored::new(false);
    let day_and_more = 25 * 3600 * SECOND_NS;
    for wrong in [
        "series?since=5&until=5".to_owned(),
        format!("series?since={}&until={}", i64::MIN, i64::MAX),
        "series?points=0".into(),
        "series?points=4001".into(),
        "series?since=x".into(),
        "series?grain=second".into(),
        "lines".into(),
        "lines?processes=1".into(),
        format!("lines?names={}", "a,".repeat(33)),
        format!("lines?threads=1-1&since=0&until={day_and_more}"),
        format!("processes/1-1/threads?since=0&until={day_and_more}"),
        "landscape?rows=1001".into(),
        "landscape?by=user".into(),
        "sum?limit=0".into(),
        "gaps?limit=10001".into(),
    ] {
        let (status, body) = stored.get(&format!("/api/v1/hosts/past/{wrong}")).await;
        assert_eq!(status, 400, "{wrong}: {body}");
        assert!(!body["how"].as_str().unwrap().is_empty() && !body["detail"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_export_is_the_file_that_the_command_writes() {
    let stored = Stored::new(true);
    for (kind, query, format) in [
        ("threads", "", ExportQuery { kind: cpumon_export::Kind::Threads, ..ExportQuery::default() }),
        (
            "pivot",
            "&value=run&by=process&host=past",
            ExportQuery {
                kind: cpumon_export::Kind::Pivot,
                host: Some("past".into()),
                group_by: cpumon_export::GroupBy::Process,
                pivot_value: cpumon_export::PivotValue::Run,
                ..ExportQuery::default()
            },
        ),
        (
            "ledger",
            "&format=jsonl",
            ExportQuery {
                kind: cpumon_export::Kind::Ledger,
                format: cpumon_export::Format::Jsonl,
                ..ExportQuery::default()
            },
        ),
    ] {
        let path = format!("/api/v1/export/{kind}?interval_ns=60000000000{query}");
        let (status, headers, body) = ask_raw(stored.router(), &path, "localhost").await;
        let mut wanted = Vec::new();
        let format = ExportQuery { interval_ns: Some(60_000_000_000), ..format };
        cpumon_export::export(&Reader::open(&stored.path()).unwrap(), &format, &mut wanted, &mut |_| {})
            .unwrap();
        assert_eq!((status, String::from_utf8_lossy(&body)), (200, String::from_utf8_lossy(&wanted)));
        assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().contains(&format!("cpumon-{kind}.")));
    }
    for (wrong, expected) in [
        ("windows", 400),
        ("compare", 400),
        ("compare?before=1..2", 400),
        ("compare?before=2..1&after=3..4", 400),
        ("compare?before=1&after=3..4", 400),
        ("compare?before=1..2&after=3..4&since=0", 400),
        ("threads?before=1..2", 400),
        ("threads?value=x", 400),
        ("threads?host=nobody", 400),
        ("ledger?legacy=2013", 400),
        ("threads?since=2&until=1", 400),
    ] {
        assert_eq!(stored.get(&format!("/api/v1/export/{wrong}")).await.0, expected, "{wrong}");
    }
    let nothing_kept =
        router(Arc::new(Fake::default()), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    assert_eq!(ask_raw(nothing_kept, "/api/v1/export/threads", "localhost").await.0, 404);
}

#[tokio::test]
async fn the_command_line_is_safe_to_paste() {
    let stored = Stored::new(false);
    let query = "host=it%27s%3B%20%24(reboot)&since=1800000000000000001&process=-x&format=csv";
    let (_, body) = stored.get(&format!("/api/v1/export/threads/command?{query}")).await;
    let command = body["command"].as_str().unwrap();
    assert!(
        command.ends_with(
            r"'--host=it'\''s; $(reboot)' --since=2027-01-15T08:00:00.000000001Z --process=-x --format=csv"
        ),
        "{command}"
    );
}

#[tokio::test]
async fn the_page_compares_as_the_file_does() {
    let stored = Stored::new(true);
    let minute =
        |nth: i64| format!("{}..{}", BEGIN_NS + nth * 60 * SECOND_NS, BEGIN_NS + (nth + 1) * 60 * SECOND_NS);
    let spans = format!("before={}&after={}", minute(0), minute(4));
    let (status, body) = stored.get(&format!("/api/v1/hosts/past/compare?{spans}&by=process")).await;
    assert_eq!((status, &body["before_covered_ns"]), (200, &(60 * SECOND_NS).into()), "{body}");
    let columns = &body["rows"]["columns"];
    assert_eq!(
        (&columns["name"][0], &columns["pid"][0]),
        (&"a,b".into(), &10.into()),
        "only it grew: {body}"
    );
    let file = format!("/api/v1/export/compare?{spans}&by=process&host=past&format=jsonl");
    let (_, headers, file) = ask_raw(stored.router(), &file, "localhost").await;
    assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().contains("cpumon-compare.jsonl"));
    let lines: Vec<Value> = file
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for (at, line) in lines.iter().enumerate() {
        for name in ["name", "pid", "before_run_ns", "after_run_ns"] {
            assert_eq!(line[name], columns[name][at], "{name} of row {at}");
        }
    }
    let (_, page) = stored.get(&format!("/api/v1/hosts/past/compare?{spans}&limit=1&offset=2")).await;
    assert_eq!((&page["rows"]["rows"], &page["rows"]["total"]), (&0.into(), &2.into()), "two names");
    for wrong in ["", "before=1..2", "before=1..2&after=2..x", "before=1..2&after=2..3&by=colour"] {
        assert_eq!(stored.get(&format!("/api/v1/hosts/past/compare?{wrong}")).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn without_a_store_the_past_is_what_memory_holds() {
    let fake = Fake::with_host("now");
    for second in 1..=20 {
        fake.put(crate::Shown {
            serial: second,
            number: second,
            interval: Arc::new(interval(second.cast_signed())),
        });
    }
    let options = WebOptions::default();
    let router = router(Arc::new(fake), "127.0.0.1:1".parse().unwrap(), options);
    let range = format!("since={BEGIN_NS}&until={}&points=10", BEGIN_NS + 20 * SECOND_NS);
    let (status, _, body) =
        ask_raw(router, &format!("/api/v1/hosts/now/landscape?{range}"), "localhost").await;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, sum(&body["rows"][0]["values"])), (200, 20 * 1000 + 10 * 10));
}

#[tokio::test]
async fn spans_in_memory_are_compared_too() {
    let fake = Fake::with_host("now");
    for second in 1..=20_u64 {
        let interval = Arc::new(interval(second.cast_signed()));
        fake.put(crate::Shown { serial: second, number: second, interval });
    }
    let router = router(Arc::new(fake), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    let at = |second: i64| BEGIN_NS + second * SECOND_NS;
    let path = format!("/api/v1/hosts/now/compare?before={}..{}&after={}..{}", at(0), at(10), at(10), at(20));
    let (status, _, body) = ask_raw(router, &path, "localhost").await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let columns = &body["rows"]["columns"];
    assert_eq!(
        (status, &columns["name"][0], &columns["after_run_ns"][0]),
        (200, &"a,b".into(), &1155.into()),
        "{body}"
    );
}

#[test]
fn the_test_store_is_what_it_says() {
    let stored = Stored::new(true);
    let reader = Reader::open(&stored.path()).unwrap();
    let mut seen = 0;
    reader
        .for_each_interval(&Query::new(HostId([8; 16])), &mut |_| {
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, stored.intervals.len());
}

#[tokio::test]
async fn waits_add_up_maxima_do_not_and_sums_have_neither() {
    let stored = Stored::new(true);
    let body = stored.of_all("processes/10-9", "points=5&").await;
    assert_eq!(body["grain"], "minute", "{body}");
    assert!(body["lines"][0]["columns"].get("blocked_ns").is_none(), "not kept in sums: {body}");
    assert_eq!(body["waits"], serde_json::json!([]));
    let body = stored.of_all("processes/10-9", "points=300").await;
    assert_eq!(body["grain"], "interval");
    let columns = &body["lines"][0]["columns"];
    assert_eq!((&columns["blocked_ns"][0], &columns["wakeups"][0]), (&4_000_000.into(), &3.into()));
    assert_eq!(
        (&columns["longest_run_delay_ns"][0], &columns["blocked_ns"][150]),
        (&7_000.into(), &Value::Null)
    );
    let waits = body["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 2, "{waits:?}");
    for wait in waits {
        assert_eq!((&wait["total_ns"], &wait["values"][150]), (&(240 * 2_000_000).into(), &Value::Null));
    }
    let body = stored.of_all("processes/10-9", "points=40").await;
    let column = &body["lines"][0]["columns"]["longest_run_delay_ns"];
    assert_eq!(column[0], 7_000, "the highest of several intervals, not their sum");
}

#[tokio::test]
async fn percentiles_of_a_point_are_of_all_its_run_delays_from_intervals_and_from_sums() {
    for (sealed, points, grain) in [(true, 5, "minute"), (false, 5, "minute"), (true, 40, "interval")] {
        let stored = Stored::new(sealed);
        let body = stored.of_all("processes/10-9", &format!("points={points}")).await;
        let columns = &body["lines"][0]["columns"];
        let grain = if sealed { grain } else { "interval" };
        assert_eq!(body["grain"], grain);
        let at = |column: &str| columns[column][1].as_u64().unwrap_or_else(|| panic!("{column}: {body}"));
        let end_of = |ns| *cpumon_model::delay_range_ns(delay_bucket(ns)).end();
        assert_eq!(
            at("run_delay_p50_ns"),
            end_of(1_000_000),
            "not the highest of the intervals' medians: {grain}"
        );
        assert_eq!(at("run_delay_max_ns"), end_of(100_000_000));
        let hole = points / 5 * 2;
        assert_eq!(
            columns["run_delay_p50_ns"][hole],
            Value::Null,
            "two minutes in nothing was measured: {body}"
        );
    }
}
