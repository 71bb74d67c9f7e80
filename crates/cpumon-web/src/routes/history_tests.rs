//! The past over HTTP, as series, lines, landscapes and sums, from a store and from memory.

use cpumon_model::{
    Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey, delay_bucket,
};
use serde_json::Value;

use super::past_store::{BEGIN_NS, SECOND_NS, Stored, interval};
use super::tests::{Fake, ask_raw};
use super::*;
use cpumon_query::history::{History, MatrixSort, ShownRows, threads};
use cpumon_query::time::PlotRange;

fn sum(list: &Value) -> i64 {
    list.as_array().unwrap().iter().filter_map(Value::as_i64).sum()
}

fn nulls(list: &Value) -> usize {
    list.as_array().unwrap().iter().filter(|value| value.is_null()).count()
}

/// One process for all five minutes, and one that began after 60 s and ended after 100 s.
fn with_a_short_one(second: i64) -> Interval {
    let mut made = interval(second);
    made.processes.retain(|row| row.key.pid == 20);
    made.threads.retain(|row| row.process.pid == 20);
    if (61..=100).contains(&second) {
        let (process, thread) = (made.processes[0].clone(), made.threads[0]);
        let key = ProcessKey { pid: 40, start_ns: 60_500_000_000 };
        let life = match second {
            61 => Life::Born,
            100 => Life::Ended,
            _ => Life::Alive,
        };
        let info = Arc::new(ProcessInfo { name: "short".into(), ..ProcessInfo::default() });
        // Idle in every second interval: then it has no row, and is there all the same.
        if second % 2 == 0 || life != Life::Alive {
            made.processes.push(ProcessInterval { key, info, life, thread_rows: 1, ..process });
            let of_thread = ThreadKey { tid: 40, start_ns: key.start_ns };
            made.threads.push(ThreadInterval { key: of_thread, process: key, life, ..thread });
        }
    }
    made
}

/// `.`: no value, `0`: zero, `#`: more.
fn shape(values: &Value) -> String {
    let values = values.as_array().unwrap().iter();
    values
        .map(|value| match value.as_i64() {
            None => '.',
            Some(0) => '0',
            Some(_) => '#',
        })
        .collect()
}

#[tokio::test]
async fn a_task_that_is_not_there_is_null_and_not_zero() {
    for compacted in [false, true] {
        let stored = Stored::made(compacted, with_a_short_one);
        // 30 points of 10 s; from 120 to 180 s nothing was measured.
        let short = "......####....................";
        let all = "############......############";
        let of = |body: &Value, name: &str| {
            let rows = body["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["name"] == name || row["key"] == name).unwrap();
            [shape(&row["values"]), shape(&row["max"])]
        };
        for by in ["name", "process"] {
            let body = stored.of_all("landscape", &format!("points=30&by={by}")).await;
            assert_eq!(of(&body, "short"), [short; 2], "{by}");
            assert_eq!(of(&body, "web"), [all; 2], "{by}");
            assert_eq!(shape(&body["other"]), all.replace('#', "0"));
        }
        let key = "40-60500000000";
        let body = stored.of_all(&format!("processes/{key}/threads"), "points=30").await;
        assert_eq!(of(&body, key), [short; 2]);
        let body = stored.of_all("lines", &format!("points=30&processes={key},20-9&threads={key}")).await;
        for (nth, expected) in [short, all, short].into_iter().enumerate() {
            assert_eq!(shape(&body["lines"][nth]["columns"]["run_ns"]), expected, "{nth}");
            assert_eq!(shape(&body["lines"][nth]["max_run_ns_per_s"]), expected, "{nth}");
        }
        let body = stored.of_all(&format!("processes/{key}"), "points=30").await;
        assert_eq!(shape(&body["lines"][0]["columns"]["run_ns"]), short);
        // In points of 1 s there are some in which it was idle.
        let body = stored.of_all("landscape", "points=300").await;
        assert!(of(&body, "short")[0][58..102].starts_with("..##0#0#"), "{body}");
    }
    // Sums of minutes have neither begin nor end; of one process both are found.
    let stored = Stored::made(true, with_a_short_one);
    for (by, expected) in [("process", ".#..."), ("name", "0#.00")] {
        let body = stored.of_all("landscape", &format!("points=5&by={by}")).await;
        assert_eq!(body["resolution"], "minute");
        let row = body["rows"].as_array().unwrap().iter().find(|row| row["name"] == "short").unwrap();
        assert_eq!(shape(&row["values"]), expected, "{by}");
    }
}

#[tokio::test]
async fn a_series_adds_up_and_its_holes_are_holes_with_a_reason() {
    for (compacted, points, resolution, per_minute) in
        [(false, 300, "interval", 60), (true, 300, "interval", 60), (true, 5, "minute", 1)]
    {
        let stored = Stored::new(compacted);
        let body = stored.of_all("series", &format!("points={points}")).await;
        assert_eq!(
            (body["resolution"].as_str(), body["covered_ns"].as_array().unwrap().len()),
            (Some(resolution), points)
        );
        assert_eq!(sum(&body["covered_ns"]), 240 * SECOND_NS);
        for (column, per_second) in
            [("ledger_threads_ns", 600_000_000), ("busy_ns", 600_000_000), ("capacity_ns", SECOND_NS)]
        {
            let values = &body["columns"][column]["sum"];
            assert_eq!((sum(values), nulls(values)), (240 * per_second, per_minute), "{column}");
        }
        let busy = &body["columns"]["busy_ns"]["max"];
        assert_eq!((&busy[0], &busy[3 * per_minute - 1]), (&600_000_000.into(), &Value::Null));
        assert_eq!(
            body["columns"].get("user_ns").is_some(),
            resolution == "interval",
            "sums hold no CPU modes"
        );
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
    let fine = Stored::new(true).of_all("series", "points=5&resolution=interval&columns=user_ns").await;
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
        assert_eq!((&line(1)["name"], &line(1)["first_ns"]), (&Value::Null, &Value::Null));
        assert_eq!((total(2), &line(2)["name"]), (600 * 240, &"worker".into()));
        assert_eq!(total(3), stored.run_ns(20) + stored.run_ns(30));
        assert_eq!((total(4), &line(4)["name"]), (stored.run_ns(10), &"a,b".into()));
        assert!(nulls(&line(1)["columns"]["run_ns"]) > 0, "a gap is no zero");
        assert!(line(0)["columns"].get("run_delay_ns").is_none(), "not measured");
    }
    // In every other second two processes took 1,010 ns; of sums the highest of one is known, and their mean.
    for (points, peaks) in [(300, [1010, 1000]), (5, [1005, 1005])] {
        let web = stored.of_all("lines", &format!("points={points}&names=web")).await;
        let peak = |at: usize| &web["lines"][0]["max_run_ns_per_s"][at * points / 300];
        assert_eq!([peak(249), peak(250)], peaks, "all of a name together");
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
        (sum(&body["lines"][0]["columns"]["run_ns"]), &body["resolution"]),
        (stored.run_ns(10), &"minute".into())
    );
    assert_eq!(body["lines"][0]["max_run_ns_per_s"][4], 400, "the highest of a single interval");
    assert_eq!(stored.get("/api/v1/hosts/past/processes/99-9").await.0, 404);
}

/// A process that ends in a minute before the last, and one that lived for half a second.
fn with_ends(second: i64) -> cpumon_model::Interval {
    let mut interval = interval(second);
    let start_ns = (100 * SECOND_NS - SECOND_NS / 2).unsigned_abs();
    let row = |pid, start_ns, life| cpumon_model::ProcessInterval {
        key: ProcessKey { pid, start_ns },
        info: Arc::new(cpumon_model::ProcessInfo { name: "brief".into(), ..Default::default() }),
        delta: cpumon_model::Delta { run_ns: 70, ..Default::default() },
        life,
        ..Default::default()
    };
    match second {
        30 => interval.processes.push(row(40, 9, Life::Alive)),
        70 => interval.processes.push(row(40, 9, Life::Ended)),
        100 => interval.processes.push(row(50, start_ns, Life::BornEnded)),
        101 => interval.processes.push(row(51, start_ns + 1_000_000_000, Life::BornEnded)),
        _ => {}
    }
    interval
}

#[tokio::test]
async fn begin_and_end_are_known_whatever_was_read() {
    for (compacted, points, resolution) in
        [(false, 300, "interval"), (true, 300, "interval"), (true, 5, "minute")]
    {
        let stored = Stored::made(compacted, with_ends);
        let keys = "10-9,30-9,40-9,50-99500000000,50-9";
        let body = stored.of_all("lines", &format!("points={points}&processes={keys}&names=web")).await;
        assert_eq!(body["resolution"], resolution);
        let at = |half_seconds: i64| Some(BEGIN_NS + half_seconds * SECOND_NS / 2);
        let ns = |nth: usize, name: &str| Some(body["lines"][nth][name].as_str()?.parse::<i64>().unwrap());
        let life = |nth: usize| ["began_ns", "ended_ns"].map(|name| ns(nth, name));
        // As their keys say, 9 ns after the boot.
        let began = at(0).map(|ns| ns + 9);
        assert_eq!([life(0), life(1)], [[began, None], [began, at(600)]]);
        assert_eq!([life(2), life(3)], [[began, at(140)], [at(199), at(200)]], "{resolution}");
        assert_eq!([life(4), life(5)], [[None, None]; 2], "never there, and a name");
        let work = |nth: usize| ["first_ns", "last_ns"].map(|name| ns(nth, name));
        let first = if resolution == "minute" { began } else { at(58) };
        assert_eq!([work(2), work(3)], [[first, at(140)], [at(199), at(200)]], "not before and after");
        let brief = &body["lines"][3];
        assert_eq!(&brief["name"], "brief");
        assert_eq!(
            (sum(&brief["columns"]["run_ns"]), brief["max_run_ns_per_s"][points * 99 / 300].as_i64()),
            (70, Some(70))
        );
        assert_eq!(sum(&body["covered_ns"]), 240 * SECOND_NS, "read again, not measured again");
    }
}

#[tokio::test]
async fn a_landscape_has_the_busiest_and_the_rest() {
    for (compacted, points) in [(false, 10), (true, 10), (true, 5)] {
        let stored = Stored::new(compacted);
        let body = stored.of_all("landscape", &format!("points={points}&rows=1")).await;
        assert_eq!((&body["total"], &body["rows"][0]["name"]), (&2.into(), &"web".into()));
        assert_eq!(sum(&body["rows"][0]["values"]), stored.run_ns(20) + stored.run_ns(30));
        assert_eq!(sum(&body["other"]), stored.run_ns(10));
        assert_eq!(nulls(&body["other"]), points / 5);
        let rest = stored.of_all("landscape", &format!("points={points}&rows=1&offset=1")).await;
        assert_eq!(
            (&rest["total"], sum(&rest["rows"][0]["values"]), sum(&rest["other"])),
            (&2.into(), stored.run_ns(10), stored.run_ns(20) + stored.run_ns(30))
        );
        let body = stored.of_all("landscape", &format!("points={points}&by=process")).await;
        let totals: Vec<i64> =
            body["rows"].as_array().unwrap().iter().map(|row| sum(&row["values"])).collect();
        assert_eq!(totals, [stored.run_ns(20), stored.run_ns(10), stored.run_ns(30)]);
        assert_eq!((sum(&body["other"]), &body["rows"][1]["key"]), (0, &"10-9".into()));
    }
    let body = Stored::new(true).of_all("processes/20-9/threads", "points=5&rows=1").await;
    assert_eq!((&body["total"], &body["rows"][0]["key"]), (&2.into(), &"21-9".into()));
    assert_eq!((sum(&body["rows"][0]["values"]), sum(&body["other"])), (600 * 240, 400 * 240));
    let body = Stored::new(true).of_all("processes/20-9/threads", "points=5&rows=1&offset=2").await;
    assert_eq!((&body["total"], body["rows"].as_array().unwrap().len()), (&2.into(), 0));
}

/// One second of a process in five minutes.
fn spike(second: i64) -> Interval {
    let mut interval = interval(second);
    let (process, thread) = (&mut interval.processes[0], &mut interval.threads[0]);
    // It is the least busy one but for this second.
    let run_ns = if second == 77 { 230_000 } else { 1 };
    (process.delta.run_ns, thread.delta.run_ns) = (run_ns, run_ns);
    interval
}

#[tokio::test]
async fn a_spike_of_a_second_is_in_a_matrix_whatever_its_points() {
    // Two processes have the other name: an interval has the run time of both, a sum at least their mean.
    let both = |points| if points == 5 { 1005 } else { 1010 };
    for (compacted, points) in [(false, 10), (true, 10), (true, 5)] {
        let stored = Stored::made(compacted, spike);
        let body = stored.of_all("landscape", &format!("points={points}&rows=2&sort=highest")).await;
        let row = |nth: usize| (&body["rows"][nth]["name"], &body["rows"][nth]["max"]);
        assert_eq!((row(0).0, row(1).0), (&"a,b".into(), &"web".into()));
        let highest = |nth| row(nth).1.as_array().unwrap().iter().filter_map(Value::as_i64).max();
        assert_eq!((highest(0), highest(1)), (Some(230_000), Some(both(points))), "{points}");
        assert_eq!(nulls(row(0).1), points / 5);
        assert_eq!(row(0).1[77 * points / 300], 230_000, "in its point and no other");
        assert_eq!(row(0).1[0], 1);
        let usual = stored.of_all("landscape", &format!("points={points}&rows=2")).await;
        assert_eq!((&usual["rows"][0], &usual["rows"][1]), (&body["rows"][1], &body["rows"][0]));
    }
    let stored = Stored::made(true, spike);
    let body = stored.of_all("processes/10-9/threads", "points=5&sort=highest").await;
    assert_eq!(body["rows"][0]["max"], serde_json::json!([1, 230_000, null, 1, 1]));
    // Its picture has the row first, and explains its colours.
    let chart = |more: &str| {
        format!("charts/landscape?{}&since={BEGIN_NS}&until={}{more}", "rows=2", BEGIN_NS + 300 * SECOND_NS)
    };
    let (_, _, body) =
        ask_raw(stored.router(), &format!("/api/v1/hosts/past/{}", chart("&cells=highest")), "localhost")
            .await;
    let picture = String::from_utf8(body.to_vec()).unwrap();
    assert!(picture.contains("highest single interval in each cell"), "{picture}");
    assert!(picture.find(">a,b<").unwrap() < picture.find(">web<").unwrap());
}

#[test]
fn a_range_read_in_parts_is_the_same_range() {
    let stored = Stored::new(true);
    let range = PlotRange { since_ns: BEGIN_NS, until_ns: BEGIN_NS + 300 * SECOND_NS, points: 7 };
    let read = |parts| {
        let history = History::of_store(&stored.path()).unwrap().with_parts(parts);
        let process = ProcessKey { pid: 20, start_ns: 9 };
        let shown = ShownRows { sort: MatrixSort::Run, offset: 0, limit: 1, search: "" };
        threads(&history, &history.host("past").unwrap(), range, process, shown).unwrap()
    };
    let whole = read(1);
    assert_eq!(whole.gaps.len(), 1, "{whole:?}");
    // An edge in the hole, edges beside it, and more parts than there are turns.
    for parts in [2, 3, 4, 9] {
        assert_eq!(read(parts), whole, "{parts} parts");
    }
}

#[tokio::test]
async fn a_span_is_summed_by_process_and_by_name() {
    let stored = Stored::new(true);
    let body = stored.of_all("sum", "threads=20-9").await;
    assert_eq!((&body["covered_ns"], &body["resolution"]), (&(240 * SECOND_NS).into(), &"interval".into()));
    let columns = &body["processes"]["columns"];
    assert_eq!(
        columns["run_ns"],
        serde_json::json!([stored.run_ns(20), stored.run_ns(10), stored.run_ns(30)])
    );
    assert_eq!(body["summary"]["ledger_threads_ns"], 240 * 600_000_000_i64);
    assert_eq!(body["threads"][0]["columns"]["run_ns"], serde_json::json!([600 * 240, 400 * 240]));
    let body = stored.of_all("sum", "threads=20-9&thread_offset=1").await;
    assert_eq!(body["threads"][0]["columns"]["run_ns"], 400 * 240);
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
    assert_eq!((status, &body["hosts"][0]["hostname"], &body["total"]), (200, &"past".into(), &1.into()));
    let body = stored.of_all("gaps", "limit=1").await;
    assert_eq!((&body["total"], &body["gaps"][0]["reason"]), (&1.into(), &"no data".into()));
    assert_eq!(stored.of_all("gaps", "offset=1").await["gaps"], serde_json::json!([]));
    assert_eq!(stored.get("/api/v1/hosts/unknown/series").await.0, 404);
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
        "series?resolution=second".into(),
        "lines".into(),
        "lines?processes=1".into(),
        format!("lines?names={}", "a,".repeat(33)),
        format!("lines?threads=1-1&since=0&until={day_and_more}"),
        format!("processes/1-1/threads?since=0&until={day_and_more}"),
        "landscape?rows=1001".into(),
        "landscape?by=size".into(),
        "sum?limit=0".into(),
        "gaps?limit=10001".into(),
    ] {
        let (status, body) = stored.get(&format!("/api/v1/hosts/past/{wrong}")).await;
        assert_eq!(status, 400, "{wrong}: {body}");
        assert!(!body["how"].as_str().unwrap().is_empty() && !body["detail"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn without_a_store_the_past_is_what_memory_holds() {
    let fake = Fake::with_host("now");
    for second in 1..=20 {
        fake.put(cpumon_query::Shown {
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
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, sum(&body["rows"][0]["values"])), (200, 20 * 1000 + 10 * 10));
}

#[tokio::test]
async fn waits_add_up_maxima_do_not_and_sums_have_neither() {
    let stored = Stored::new(true);
    let body = stored.of_all("processes/10-9", "points=5&").await;
    assert_eq!(body["resolution"], "minute", "{body}");
    assert!(body["lines"][0]["columns"].get("blocked_ns").is_none(), "not kept in sums: {body}");
    assert_eq!(body["waits"], serde_json::json!([]));
    let body = stored.of_all("processes/10-9", "points=300").await;
    assert_eq!(body["resolution"], "interval");
    let columns = &body["lines"][0]["columns"];
    assert_eq!((&columns["blocked_ns"][0], &columns["wakeups"][0]), (&4_000_000.into(), &3.into()));
    assert_eq!(
        (&columns["longest_run_delay_ns"][0], &columns["blocked_ns"][150]),
        (&100_000_000.into(), &Value::Null)
    );
    let waits = body["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 2, "{waits:?}");
    for wait in waits {
        assert_eq!((&wait["total_ns"], &wait["values"][150]), (&(240 * 2_000_000).into(), &Value::Null));
    }
    let body = stored.of_all("processes/10-9", "points=40").await;
    let column = &body["lines"][0]["columns"]["longest_run_delay_ns"];
    assert_eq!(column[0], 100_000_000, "the highest of several intervals, not their sum");
}

#[tokio::test]
async fn percentiles_of_a_point_are_of_all_its_run_delays_from_intervals_and_from_sums() {
    for (compacted, points, resolution) in [(true, 5, "minute"), (false, 5, "minute"), (true, 40, "interval")]
    {
        let stored = Stored::new(compacted);
        let body = stored.of_all("processes/10-9", &format!("points={points}")).await;
        let columns = &body["lines"][0]["columns"];
        let resolution = if compacted { resolution } else { "interval" };
        assert_eq!(body["resolution"], resolution);
        let at = |column: &str| columns[column][1].as_u64().unwrap_or_else(|| panic!("{column}: {body}"));
        let end_of = |ns| *cpumon_model::delay_range_ns(delay_bucket(ns)).end();
        assert_eq!(
            at("run_delay_p50_ns"),
            end_of(1_000_000),
            "not the highest of the intervals' medians: {resolution}"
        );
        // Sums do not hold the longest delay, so only intervals cap the end of the bucket.
        let max_ns = if resolution == "interval" { 100_000_000 } else { end_of(100_000_000) };
        assert_eq!(at("run_delay_max_ns"), max_ns);
        let hole = points / 5 * 2;
        assert_eq!(
            columns["run_delay_p50_ns"][hole],
            Value::Null,
            "two minutes in nothing was measured: {body}"
        );
    }
}

#[tokio::test]
async fn a_landscape_of_groups_has_the_run_time_of_the_report() {
    for compacted in [false, true] {
        let stored = Stored::new(compacted);
        for by in ["program", "user", "service", "container", "cgroup", "process"] {
            for points in [5, 300] {
                let body = stored.of_all("landscape", &format!("points={points}&by={by}")).await;
                let report = stored.of_all("report", &format!("by={by}&limit=1000")).await;
                let of_landscape: Vec<i64> = body["rows"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| row["total_ns"].as_i64().unwrap())
                    .collect();
                let used = report["used_ns"].as_i64().unwrap();
                assert!(!of_landscape.is_empty() && of_landscape.iter().sum::<i64>() <= used, "{by}: {body}");
                assert_eq!(
                    report["rows"][0]["run_ns"], of_landscape[0],
                    "{by}, {points} points, compacted {compacted}"
                );
            }
        }
    }
}
