//! Charts over HTTP, against a store that is made here: content, content types, refusals.

use cpumon_export::chart::{PictureForm, RenderOptions, draw};
use cpumon_model::{
    HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey, Trust,
};
use cpumon_query::charts::{Body, ChartQuery, View, chart};
use cpumon_query::history::History;
use cpumon_query::report::ReportBy;
use cpumon_store::{StoreOptions, Writer};

use super::past_store::{BEGIN_NS, SECOND_NS, Stored};
use super::tests::{Fake, ask_raw};
use super::*;

/// A picture as the command line writes it, and why it is empty.
pub(super) fn drawn(
    store: &std::path::Path,
    query: &ChartQuery,
    form: PictureForm,
) -> (Vec<u8>, Option<String>) {
    let chart = chart(&History::of_store(store).unwrap(), query).unwrap();
    (draw(&chart, &RenderOptions::default(), form).unwrap(), chart.empty)
}

pub(super) async fn get(router: Router, path: &str) -> (u16, HeaderMap, String) {
    let (status, headers, body) = ask_raw(router, path, "localhost").await;
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

pub(super) fn all(view: &str, more: &str) -> String {
    let until = BEGIN_NS + 300 * SECOND_NS;
    format!("/api/v1/hosts/past/charts/{view}?since={BEGIN_NS}&until={until}&{more}")
}

#[tokio::test]
async fn every_chart_is_served_as_the_command_line_writes_it() {
    let stored = Stored::new(false);
    for view in View::ALL {
        for form in [PictureForm::Svg, PictureForm::Png] {
            let process = match view {
                View::Tasks | View::States | View::Delays | View::Threads => Some("10-9"),
                _ => None,
            };
            let more = process.map(|key| format!("&process={key}")).unwrap_or_default();
            let path = all(view.name(), &format!("format={}{more}", form.name()));
            let (status, headers, body) = ask_raw(stored.router(), &path, "localhost").await;
            assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
            assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(
                headers[header::CONTENT_SECURITY_POLICY],
                "default-src 'none'; sandbox; frame-ancestors 'none'"
            );
            let name = format!("attachment; filename=\"cpumon-{}.{}\"", view.name(), form.name());
            assert_eq!(headers[header::CONTENT_DISPOSITION], name.as_str());
            let query = ChartQuery {
                hosts: vec!["past".into()],
                since_ns: Some(BEGIN_NS),
                until_ns: Some(BEGIN_NS + 300 * SECOND_NS),
                processes: process.into_iter().map(str::to_owned).collect(),
                ..ChartQuery::new(*view)
            };
            let written = drawn(&stored.path(), &query, form);
            assert_eq!(written, (body.to_vec(), None), "{path}");
        }
    }
}

pub(super) fn host_named(name: &str, id: u8) -> HostInfo {
    HostInfo { host: HostId([id; 16]), hostname: name.into(), cpu_count: 1, ..HostInfo::default() }
}

/// This many seconds after the store's first interval.
pub(super) fn at(second: i64) -> Moment {
    let ns = ((second + 1000) * SECOND_NS).unsigned_abs();
    Moment { wall_ns: BEGIN_NS + second * SECOND_NS, mono_ns: ns, boot_ns: ns }
}

#[tokio::test]
async fn a_bar_a_cpu_of_one_interval_or_of_many() {
    let stored = Stored::new(false);
    let one = BEGIN_NS + 10 * SECOND_NS;
    let path = format!("/api/v1/hosts/past/charts/cpus?since={}&until={one}", one - SECOND_NS);
    let (status, _, body) = get(stored.router(), &path).await;
    assert_eq!(status, 200, "{body}");
    for expected in
        [">past: each CPU by mode<", ">CPU 0<", ">60.0<", ">user<", ">idle<", ">One interval of 1.000 s.<"]
    {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    assert!(!body.contains(">irq<") && !body.contains("context switch"), "{body}");
    let (_, _, body) = get(stored.router(), &all("cpus", "")).await;
    for expected in [">60.0<", ">Mean of 240 intervals: 4 min 0 s measured.<", "No data: "] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    let (status, _, body) =
        get(stored.router(), "/api/v1/hosts/past/charts/cpus?since=1&until=3600000000000").await;
    assert!(status == 200 && body.contains(">No data in this range</text>"), "{body}");
    let long = format!("/api/v1/hosts/past/charts/cpus?since={}&until={one}", one - 49 * 3600 * SECOND_NS);
    let (status, _, body) = get(stored.router(), &long).await;
    assert!(status == 400 && body.contains("48 hours"), "{body}");
}

#[tokio::test]
async fn charts_of_a_host_of_windows_have_its_words() {
    let stored = Stored::new(false);
    let kernels = [("win", 41, "Windows 10.0.19045"), ("lin", 42, "Linux 6.18.4")];
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    for (name, id, kernel) in kernels {
        let info = HostInfo { kernel: kernel.into(), ..host_named(name, id) };
        let ns = SECOND_NS.unsigned_abs() / 4;
        let times = cpumon_model::CpuTimes {
            user_ns: ns,
            irq_ns: ns,
            softirq_ns: ns,
            idle_ns: ns,
            ..cpumon_model::CpuTimes::default()
        };
        let interval = Interval {
            host: info.host,
            fields: cpumon_model::Fields::RUN | cpumon_model::Fields::CPUS,
            begin: at(1),
            end: at(2),
            cpus: vec![cpumon_model::CpuInterval { times, ..cpumon_model::CpuInterval::default() }],
            ledger: Ledger { capacity_ns: SECOND_NS, ..Ledger::default() },
            ..Interval::default()
        };
        writer.put(&info, Trust::Unauthenticated, None, &interval).unwrap();
    }
    writer.commit().unwrap();
    let (windows, linux) = ([">ISR<", ">DPC<"], [">irq<", ">softirq<"]);
    for (name, words, others) in [("win", windows, linux), ("lin", linux, windows)] {
        for view in ["cpu", "cpus"] {
            let (since, until) = (BEGIN_NS, BEGIN_NS + 3 * SECOND_NS);
            let path = format!("/api/v1/hosts/{name}/charts/{view}?since={since}&until={until}");
            let (status, _, body) = get(stored.router(), &path).await;
            assert_eq!(status, 200, "{body}");
            assert!(words.iter().all(|word| body.contains(word)), "{name} {view}: {body}");
            assert!(!others.iter().any(|word| body.contains(word)), "{name} {view}: {body}");
        }
    }
}

#[tokio::test]
async fn a_picture_waits_for_what_is_on_its_way_into_the_store() {
    let stored = Stored::new(false);
    let late = super::past_store::interval(301);
    let live = Fake::default();
    let shown = cpumon_query::Shown { serial: 1, number: 1, interval: Arc::new(late.clone()) };
    live.put(shown);
    let options = WebOptions { store: Some(stored.path()), ..WebOptions::default() };
    let router = router(Arc::new(live), "127.0.0.1:1".parse().unwrap(), options);
    let (since, until) = (BEGIN_NS + 300 * SECOND_NS, BEGIN_NS + 301 * SECOND_NS);
    let path = format!("/api/v1/hosts/past/charts/cpus?since={since}&until={until}");
    let asked = tokio::spawn(async move { get(router, &path).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!asked.is_finished());
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    writer.put(&host_named("past", 8), Trust::Unauthenticated, None, &late).unwrap();
    writer.commit().unwrap();
    let (status, _, body) = asked.await.unwrap();
    assert!(status == 200 && body.contains(">One interval of 1.000 s.<"), "{body}");
}

#[tokio::test]
async fn charts_show_what_the_store_holds() {
    let stored = Stored::new(false);
    let svg = |view: &'static str, more: &'static str| {
        let router = stored.router();
        async move {
            let (status, _, body) = get(router, &all(view, more)).await;
            assert_eq!(status, 200, "{view}: {body}");
            body
        }
    };
    let cpu = svg("cpu", "").await;
    assert!(cpu.contains(">past: CPU use</text>") && cpu.contains(">user</text>"), "{cpu}");
    assert!(cpu.contains("url(#hole)") && cpu.contains(">no data</text>"), "the missing minute: {cpu}");
    assert!(!cpu.contains(">irq</text>"), "modes that never ran have no place in the legend");
    assert!(svg("run-queue", "").await.contains(">longest of one CPU</text>"));
    // A name selects all its processes; a comma in a name differs from those between names.
    let tasks = svg("tasks", "process=web,a%252Cb,20-9&thread=20-9/21-9&percent=host&zone=%2B05:30").await;
    for label in [">web [20]<", ">web<", ">a,b<", ">worker<", "UTC+05:30", "%host: 100 = all CPUs"] {
        assert!(tasks.contains(label), "{label}: {tasks}");
    }
    let states = svg("states", "process=20&blocked=true").await;
    assert!(
        states.contains(">past: web (pid 20), states over time</text>") && states.contains(">blocked</text>")
    );
    assert!(!svg("states", "process=20").await.contains(">blocked</text>"));
    assert!(svg("delays", "process=10").await.contains(">p99</text>"));
    let threads = svg("threads", "process=20").await;
    assert!(threads.contains(">worker [21]</text>"), "{threads}");
    assert!(
        threads.contains(">1.0</text>"),
        "the strongest colour is not a whole CPU where none used one: {threads}"
    );
    let landscape = svg("landscape", "by=process&rows=2").await;
    assert!(landscape.contains(">web [20]</text>") && landscape.contains(">1 other</text>"), "{landscape}");
    let dark = svg("landscape", "theme=dark&width=500&height=400").await;
    assert!(dark.contains("#141a21") && dark.contains("width=\"500\" height=\"400\""), "{dark}");
    // Long before there was anything.
    let (status, _, empty) =
        get(stored.router(), "/api/v1/hosts/past/charts/cpu?since=1&until=3600000000000").await;
    assert!(status == 200 && empty.contains(">No data in this range</text>"), "{empty}");
}

#[tokio::test]
async fn a_picture_that_is_known_is_not_sent_again() {
    let stored = Stored::new(true);
    let path = all("landscape", "");
    let (_, headers, _) = get(stored.router(), &path).await;
    let ask = |tag: &str| {
        let request = axum::http::Request::get(&path).header(header::HOST, "localhost");
        let request = request.header(header::IF_NONE_MATCH, tag).body(axum::body::Body::empty()).unwrap();
        tower::ServiceExt::oneshot(stored.router(), request)
    };
    let tag = headers[header::ETAG].to_str().unwrap();
    assert_eq!(ask(tag).await.unwrap().status(), StatusCode::NOT_MODIFIED);
    assert_eq!(ask("\"other\"").await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn what_cannot_be_drawn_says_why() {
    let stored = Stored::new(false);
    for (path, status, expected) in [
        (all("pie", ""), 400, "run-queue"),
        (all("states", ""), 400, "one process"),
        (all("states", "process=web"), 400, "20-9"),
        (all("states", "process=77-7"), 404, "No such process"),
        (all("states", "process=unknown"), 404, "unknown"),
        (all("tasks", ""), 400, "Between 1 and 32"),
        (all("tasks", "thread=x"), 400, "thread key"),
        (all("cpu", "width=1000000"), 400, "2400"),
        (all("cpu", "zone=Mars/Olympus"), 400, "Europe/Berlin"),
        (all("cpu", "zone=local"), 400, "name it"),
        (all("cpu", "format=gif"), 400, "svg, png"),
        (all("landscape", "rows=100000"), 400, "200"),
        ("/api/v1/hosts/past/charts/cpu?since=5&until=5".into(), 400, "not before"),
        (format!("/api/v1/hosts/past/charts/threads?process=10-9&until={BEGIN_NS}&since=1"), 400, "24 hours"),
        ("/api/v1/hosts/unknown/charts/cpu".into(), 404, "no such host"),
        ("/api/v1/hosts/unknown/charts/cpus".into(), 404, "no such host"),
        ("/api/v1/hosts/unknown/charts/fleet".into(), 404, "no such host"),
    ] {
        let (answered, headers, body) = get(stored.router(), &path).await;
        assert_eq!(answered, status, "{path}: {body}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{path}");
        assert!(body.contains(expected), "{path}: {body}");
    }
}

#[tokio::test]
async fn the_command_is_for_a_shell_whatever_the_names() {
    let stored = Stored::new(false);
    let path = all("tasks/command", "process='%3B%20rm%20-rf%20~,%3Cscript%3E&theme=dark&format=png");
    let (status, _, body) = get(stored.router(), &path).await;
    assert_eq!(status, 200, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let command = body["command"].as_str().unwrap();
    assert!(command.contains(r"'--process='\''; rm -rf ~' '--process=<script>'"), "{command}");
    assert!(command.ends_with("--theme=dark --output=cpumon-tasks.png"), "{command}");
    let without =
        router(Arc::new(Fake::with_host("past")), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    let (status, _, body) = get(without, &all("cpu/command", "")).await;
    assert!(status == 404 && body.contains("--no-store"), "{body}");
}

#[tokio::test]
async fn a_command_is_refused_where_the_chart_is() {
    let stored = Stored::new(false);
    let (until, span) = (BEGIN_NS + 300 * SECOND_NS, format!("since={BEGIN_NS}&until={}", BEGIN_NS + 1));
    for (path, status) in [
        (format!("hosts/unknown/charts/cpu{{}}?{span}"), 404),
        (format!("hosts/past/charts/cpu{{}}?since={until}&until={BEGIN_NS}"), 400),
        (format!("hosts/past/charts/landscape{{}}?{span}&rows=201"), 400),
        (format!("hosts/past/charts/threads{{}}?{span}&process=20-9&rows=0"), 400),
        (format!("fleet/chart{{}}?{span}&host=unknown"), 404),
        (format!("fleet/chart{{}}?{span}&rows=0"), 400),
    ] {
        for rest in ["", "/command"] {
            let path = format!("/api/v1/{}", path.replace("{}", rest));
            let (answered, _, body) = get(stored.router(), &path).await;
            assert_eq!(answered, status, "{path}: {body}");
        }
    }
}

#[tokio::test]
async fn hostile_names_stay_text_in_a_served_picture() {
    let hostile = "<script>alert(1)</script>]]>'; DROP TABLE--\u{1b}[2J";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let info = HostInfo { host: HostId([9; 16]), hostname: hostile.into(), ..HostInfo::default() };
    let at = |second: i64| Moment {
        wall_ns: BEGIN_NS + second * SECOND_NS,
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
    };
    let process = ProcessInterval {
        key: ProcessKey { pid: 5, start_ns: 1 },
        info: Arc::new(ProcessInfo { name: hostile.into(), ..ProcessInfo::default() }),
        delta: cpumon_model::Delta { run_ns: 5_000_000, ..cpumon_model::Delta::default() },
        ..ProcessInterval::default()
    };
    let interval = Interval {
        host: info.host,
        sequence: 1,
        fields: cpumon_model::Fields::RUN,
        begin: at(0),
        end: at(1),
        ledger: Ledger { capacity_ns: SECOND_NS, ..Ledger::default() },
        processes: vec![process],
        ..Interval::default()
    };
    writer.put(&info, Trust::Unauthenticated, None, &interval).unwrap();
    writer.commit().unwrap();
    for (view, processes) in [
        (View::Landscape, vec![]),
        (View::Who, vec![]),
        (View::Tasks, vec![hostile]),
        (View::States, vec!["5"]),
    ] {
        let query = ChartQuery {
            processes: processes.into_iter().map(str::to_owned).collect(),
            ..ChartQuery::new(view)
        };
        let (picture, _) = drawn(&path, &query, PictureForm::Svg);
        let text = String::from_utf8(picture).unwrap();
        assert!(text.contains("&lt;script&gt;") && !text.contains("<script"), "{text}");
        assert!(!text.contains("]]>") && !text.contains('\u{1b}'), "{text}");
    }
}

#[tokio::test]
async fn of_several_processes_of_a_name_the_error_says_how_they_differ() {
    let stored = Stored::new(false);
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    let info = host_named("twins", 7);
    let row = |pid: u32, began_s: i64, run_ns: i64, cmdline: &str| {
        let start_ns = at(began_s).boot_ns;
        let process =
            ProcessInfo { name: "python3".into(), cmdline: cmdline.into(), ..ProcessInfo::default() };
        let delta = cpumon_model::Delta { run_ns, ..cpumon_model::Delta::default() };
        let key = ProcessKey { pid, start_ns };
        ProcessInterval { key, info: process.into(), delta, ..ProcessInterval::default() }
    };
    let mut processes = vec![
        row(20, 5, 900_000_000, "python3 /opt/a.py"),
        row(21, 6, 100_000_000, &format!("python3 \u{1b}[31m {}", "x".repeat(100))),
    ];
    processes.extend((1..=8).map(|pid| row(pid, -i64::from(pid), 1_000, "python3 old.py")));
    let interval = Interval {
        host: info.host,
        fields: cpumon_model::Fields::RUN,
        begin: at(9),
        end: at(10),
        ledger: Ledger { capacity_ns: SECOND_NS, threads_ns: SECOND_NS, ..Ledger::default() },
        processes,
        ..Interval::default()
    };
    writer.put(&info, Trust::Unauthenticated, None, &interval).unwrap();
    writer.commit().unwrap();
    let until = BEGIN_NS + 20 * SECOND_NS;
    let path = format!("/api/v1/hosts/twins/charts/states?since={BEGIN_NS}&until={until}&process=python3");
    let (status, _, body) = get(stored.router(), &path).await;
    let detail =
        serde_json::from_str::<serde_json::Value>(&body).unwrap()["detail"].as_str().unwrap().to_owned();
    assert_eq!(status, 400, "{detail}");
    let began = cpumon_model::Utc(BEGIN_NS + 6 * SECOND_NS).to_string();
    let newest = format!("21-{} (began {}Z, 0.100 s of CPU, python3 ", at(6).boot_ns, &began[..19]);
    let text = format!("10 processes of this range are python3, the newest first: {newest}");
    assert!(detail.contains(&text), "{detail}");
    assert!(detail.contains(&format!("; 20-{} (", at(5).boot_ns)) && detail.contains("; …"), "{detail}");
    assert!(detail.contains(&format!("; 6-{} (", at(-6).boot_ns)) && !detail.contains("; 7-"), "{detail}");
    assert!(detail.contains("0.900 s of CPU, python3 /opt/a.py)") && !detail.contains('\u{1b}'), "{detail}");
    assert!(!detail.contains(&"x".repeat(60)), "{detail}");
}

#[tokio::test]
async fn the_page_draws_the_chart_that_a_picture_is_made_of() {
    let stored = Stored::new(false);
    let body = stored.of_all("charts", "views=who,run-queue&by=process").await;
    let query = ChartQuery {
        since_ns: Some(BEGIN_NS),
        until_ns: Some(BEGIN_NS + 300 * SECOND_NS),
        by: Some(ReportBy::Process),
        ..ChartQuery::new(View::Who)
    };
    let history = History::of_store(&stored.path()).unwrap();
    for (served, view) in body["charts"].as_array().unwrap().iter().zip([View::Who, View::RunQueue]) {
        let made = chart(&history, &ChartQuery { view, ..query.clone() }).unwrap();
        assert_eq!(*served, serde_json::to_value(&made).unwrap());
        let Body::Lines { lines, .. } = &made.body else { panic!("{made:?}") };
        let first: Vec<Option<f64>> =
            serde_json::from_value(served["body"]["lines"][0]["values"].clone()).unwrap();
        for (served, value) in first.iter().zip(&lines[0].values) {
            assert!(served.unwrap_or(-1.0) - value.unwrap_or(-1.0) < 1e-4, "{served:?} {value:?}");
        }
    }
    assert_eq!((&body["cpus"], body["charts"].as_array().unwrap().len()), (&1.into(), 2));
    assert_eq!(body["kept"]["last_ns"], (BEGIN_NS + 300 * SECOND_NS).to_string());
    // An area is found by the same name as its row of the report.
    let report = stored.of_all("report", "by=process").await;
    let row = &report["rows"][0];
    let key = format!("group:{}-{}", row["pid"], row["process_start_ns"].as_str().unwrap());
    assert_eq!(body["charts"][0]["body"]["lines"][0]["key"], key);
}

#[tokio::test]
async fn charts_of_a_process_without_a_span_show_its_life_and_when_it_was_not_there() {
    let stored = Stored::new(true);
    let (status, body) =
        stored.get("/api/v1/hosts/past/charts?views=states,delays&process=10-9&points=60").await;
    assert_eq!(status, 200, "{body}");
    let (_, process) = stored.get("/api/v1/hosts/past/processes/10-9").await;
    assert_eq!((&body["since_ns"], &body["until_ns"]), (&process["since_ns"], &process["until_ns"]));
    assert!(body["charts"][0]["times"]["begin_ms"].as_array().unwrap().len() <= 61, "{body}");
    for (refused, why) in [
        ("views=fleet", "no chart of a host"),
        ("views=", "no chart of a host"),
        ("views=cpu,cpu,cpu,cpu,cpu", "at most 4"),
        ("views=pie", "pie"),
        ("views=states", "one process"),
        ("views=cpu&points=0", "points=0"),
    ] {
        let (status, body) = stored.get(&format!("/api/v1/hosts/past/charts?{refused}")).await;
        assert!(status == 400 && body["detail"].as_str().unwrap().contains(why), "{refused}: {body}");
    }
}

#[tokio::test]
async fn a_heatmap_has_of_each_row_what_the_page_shows() {
    let stored = Stored::new(false);
    let chart = async |more: &str| {
        let mut body = stored.of_all("charts", &format!("views=landscape&by=process&{more}")).await;
        body["charts"][0].take()
    };
    let (shown, matrix) = (chart("rows=2").await, stored.of_all("landscape", "by=process").await);
    let (rows, of) = (shown["body"]["rows"].as_array().unwrap(), &matrix["rows"][0]);
    let row = &rows[0];
    assert_eq!((&row["name"], &shown["body"]["cells"]), (&"web [20]".into(), &"mean".into()));
    assert_eq!((&row["key"], &row["run_ns"], &row["life"]), (&of["key"], &of["total_ns"], &of["life"]));
    assert!(row["mean"].as_f64().unwrap() > 0.0 && row["max"].as_f64() >= row["mean"].as_f64(), "{row}");
    assert_eq!((rows.len(), &rows[2]["name"], rows[2]["key"].is_null()), (3, &"1 other".into(), true));
    let covered = shown["times"]["covered_ms"].as_array().unwrap();
    let values = row["values"].as_array().unwrap().iter();
    assert!(covered.iter().zip(values).all(|(ms, value)| (*ms == 0.0) == value.is_null()), "{shown}");
    let found = chart("rows=1&filter=EB%20W").await;
    assert_eq!(found["body"]["rows"].as_array().unwrap().len(), 1, "without others: {found}");
    assert_eq!(found["notes"][0], "The busiest 1 of 2 processes.");
    assert_eq!(chart("filter=none").await["empty"], "No such process used a CPU in this range");
}
