//! The routes against a stand-in receiver, and the server over a real socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use cpumon_model::{
    Delta, Fields, HostId, HostInfo, HostStatus, Interval, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    SourceKind, ThreadInterval, ThreadKey,
};
use tower::ServiceExt;

use super::*;
use crate::{HttpServer, WebError};
use cpumon_query::metrics::MetricsFormat;
use cpumon_query::status::{Receiver, Rejects, Status, Store, StoreState};
use cpumon_query::{Bell, Seek, Shown};

/// A receiver with the same intervals for each of its hosts.
#[derive(Default)]
pub(crate) struct Fake {
    hosts: Vec<HostStatus>,
    shown: Mutex<Vec<Shown>>,
    bell: Bell,
}

impl Fake {
    pub(super) fn with_host(name: &str) -> Self {
        Self { hosts: vec![host(1, name)], ..Self::default() }
    }

    pub(super) fn put(&self, shown: Shown) {
        let serial = shown.serial;
        self.shown.lock().unwrap().push(shown);
        self.bell.ring(serial);
    }
}

impl Live for Fake {
    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.clone()
    }
    fn host(&self, host: HostId) -> Option<HostStatus> {
        self.hosts.iter().find(|status| status.info.host == host).cloned()
    }
    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)> {
        self.hosts.iter().map(|host| (host.clone(), self.newest(host.info.host))).collect()
    }
    fn newest(&self, _host: HostId) -> Option<Shown> {
        self.shown.lock().unwrap().last().cloned()
    }
    fn newer(&self, _host: HostId, number: u64) -> Option<Shown> {
        self.shown.lock().unwrap().iter().find(|shown| shown.number > number).cloned()
    }
    fn recent(&self, _host: HostId, since_ns: i64) -> Vec<Shown> {
        let shown = self.shown.lock().unwrap();
        shown.iter().filter(|shown| shown.interval.end.wall_ns > since_ns).cloned().collect()
    }
    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        let (Seek::At(wall_ns) | Seek::Before(wall_ns) | Seek::After(wall_ns)) = to;
        let contains = |shown: &Shown| {
            !matches!(to, Seek::At(_))
                || (shown.interval.begin.wall_ns < wall_ns && wall_ns <= shown.interval.end.wall_ns)
        };
        if wall_ns < 0 { Err("the store is away".into()) } else { Ok(self.newest(host).filter(contains)) }
    }
    fn status(&self) -> Status {
        let error = "no space left".to_owned();
        let store = Store { state: StoreState::Failing, error, dropped: 7, ..Store::default() };
        let rejects = |source: &str, count, reason: &str| Rejects {
            source: source.to_owned(),
            count,
            reason: reason.to_owned(),
            ..Rejects::default()
        };
        let rejected_by = vec![rejects("10.0.0.9", 4, "all bytes are zero"), rejects("10.0.0.8", 1, "late")];
        let receiver = Receiver { rejected: 5, rejected_by, kernel_dropped: 2, ..Receiver::default() };
        Status { version: "1.2.3".into(), store, receiver, ..Status::default() }
    }
    fn metrics(&self, format: MetricsFormat, host: Option<&str>) -> Option<String> {
        (host != Some("nowhere")).then(|| format!("{format:?} {host:?}"))
    }
    fn bell(&self) -> &Bell {
        &self.bell
    }
}

fn host(id: u8, name: &str) -> HostStatus {
    let info = HostInfo { host: HostId([id; 16]), hostname: name.into(), ..HostInfo::default() };
    HostStatus { info, received_wall_ns: cpumon_query::time::now_ns(), ..HostStatus::default() }
}

pub(crate) fn fake() -> Arc<Fake> {
    Arc::new(Fake { hosts: vec![host(1, "one"), host(2, "twin"), host(3, "twin")], ..Fake::default() })
}

const SECOND_NS: i64 = 1_000_000_000;

/// An interval of a second with two processes; the second one has three threads.
pub(super) fn shown(number: u64) -> Shown {
    let at = |second: u64| {
        let ns = second * SECOND_NS.unsigned_abs();
        Moment { mono_ns: ns, boot_ns: ns, wall_ns: ns.cast_signed() }
    };
    let delta = |run_ns| Delta { run_ns, user_ns: run_ns, ..Delta::default() };
    let process = |pid, run_ns| ProcessInterval {
        key: ProcessKey { pid, start_ns: u64::MAX },
        info: Arc::new(ProcessInfo { name: "</script>".into(), ..ProcessInfo::default() }),
        delta: delta(run_ns),
        ..ProcessInterval::default()
    };
    let thread = |tid, run_ns| ThreadInterval {
        key: ThreadKey { tid, start_ns: 5 },
        process: ProcessKey { pid: 20, start_ns: u64::MAX },
        delta: delta(run_ns),
        ..ThreadInterval::default()
    };
    let interval = Interval {
        sequence: number,
        fields: Fields::USER | Fields::RUN,
        source: SourceKind::Bpf,
        begin: at(number),
        end: at(number + 1),
        processes: vec![process(10, 1), process(20, 600)],
        threads: vec![thread(20, 100), thread(21, 300), thread(22, 200)],
        ..Interval::default()
    };
    Shown { serial: number, number, interval: Arc::new(interval) }
}

/// Asks a router; every answer must be private.
pub(super) async fn ask_raw(router: Router, path: &str, host: &str) -> (u16, HeaderMap, axum::body::Bytes) {
    let request = Request::get(path).header(header::HOST, host).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let is_picture = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"image/"));
    let caching = if is_picture { "private, no-cache" } else { "no-store" };
    assert_eq!(response.headers().get(header::CACHE_CONTROL).unwrap(), caching);
    assert!(response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, to_bytes(response.into_body(), 1 << 24).await.unwrap())
}

async fn ask(live: Arc<Fake>, path: &str, host: &str) -> (u16, String, serde_json::Value) {
    let router = router(live, "127.0.0.1:3080".parse().unwrap(), WebOptions::default());
    let (status, headers, body) = ask_raw(router, path, host).await;
    let kind = headers.get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap().to_owned());
    (status, kind.unwrap_or_default(), serde_json::from_slice(&body).unwrap_or_default())
}

async fn get_json(live: &Arc<Fake>, path: &str) -> (u16, serde_json::Value) {
    let (status, _, body) = ask(Arc::clone(live), path, "localhost:3080").await;
    (status, body)
}

#[tokio::test]
async fn status_and_hosts_answer() {
    let live = fake();
    let (status, body) = get_json(&live, "/api/v1/status").await;
    assert_eq!(
        (status, &body["version"], &body["hosts"][0]["hostname"]),
        (200, &"1.2.3".into(), &"one".into())
    );
    let (status, body) = get_json(&live, "/api/v1/hosts").await;
    assert_eq!((status, body["hosts"].as_array().unwrap().len()), (200, 3));
    assert_eq!(body["hosts"][2]["trust"], "unauthenticated");
    let (status, page) = get_json(&live, "/api/v1/hosts?offset=2&limit=5").await;
    assert_eq!(
        (status, &page["total"], &page["hosts"]),
        (200, &3.into(), &serde_json::json!([body["hosts"][2]]))
    );
    assert_eq!(get_json(&live, "/api/v1/hosts?limit=0").await.0, 400);
}

#[tokio::test]
async fn a_host_is_found_by_id_and_by_a_name_that_is_its_own() {
    let live = fake();
    live.put(shown(7));
    for path in ["one", "01010101010101010101010101010101", "03030303030303030303030303030303"] {
        let (status, body) = get_json(&live, &format!("/api/v1/hosts/{path}/interval")).await;
        assert_eq!((status, &body["serial"]), (200, &7.into()), "{path}");
    }
    let (status, body) = get_json(&live, "/api/v1/hosts/twin/interval").await;
    assert_eq!(status, 409);
    assert!(body["detail"].as_str().unwrap().contains("0303"), "{body}");
    assert_eq!(get_json(&live, "/api/v1/hosts/unknown/interval").await.0, 404);
}

#[tokio::test]
async fn errors_are_problem_json() {
    let live = fake();
    for (path, host, expected) in [
        ("/api/v1/nothing", "localhost", 404),
        ("/api/v1/status", "evil.example", 421),
        ("/api/v1/hosts/one/interval", "localhost", 404),
        ("/api/v1/hosts/one/interval?at=x", "localhost", 400),
        ("/api/v1/hosts/one/interval?at=1&newer_than=1", "localhost", 400),
        ("/api/v1/hosts/one/interval?at=-1", "localhost", 503),
        ("/api/v1/hosts/one/interval?at=5", "localhost", 404),
        ("/api/v1/hosts/one/interval?before=5", "localhost", 404),
        ("/api/v1/hosts/one/interval?before=5&after=5", "localhost", 400),
    ] {
        let (status, kind, body) = ask(Arc::clone(&live), path, host).await;
        assert_eq!((status, kind.as_str()), (expected, "application/problem+json"), "{path}");
        assert!(!body["detail"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_request_without_or_with_two_hosts_is_refused() {
    for hosts in [&[][..], &["localhost", "localhost"]] {
        let mut request = Request::get("/api/v1/status");
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = router(fake(), "127.0.0.1:1".parse().unwrap(), WebOptions::default())
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_on_a_newer_interval_and_gives_up_in_time() {
    let live = fake();
    live.put(shown(4));
    assert_eq!(get_json(&live, "/api/v1/hosts/one/interval?newer_than=4").await.0, 204);

    let waiting = tokio::spawn({
        let live = Arc::clone(&live);
        async move { get_json(&live, "/api/v1/hosts/one/interval?newer_than=4").await }
    });
    tokio::task::yield_now().await;
    live.put(shown(5));
    let (status, body) = waiting.await.unwrap();
    assert_eq!((status, &body["serial"]), (200, &5.into()));
}

#[test]
fn a_server_answers_over_a_socket_and_stops() {
    let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), WebOptions::default()).unwrap();
    let (address, shutdown) = (server.local_addr(), server.shutdown());
    let taken = HttpServer::bind(address, WebOptions::default()).unwrap_err();
    assert!(taken.to_string().contains(&address.to_string()), "{taken}");
    let thread = std::thread::spawn(move || server.run(fake()));

    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /api/v1/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("1.2.3"), "{answer}");

    let _idle = TcpStream::connect(address).unwrap();
    shutdown.stop();
    thread.join().unwrap().unwrap();
    // A socket can be given the port that is free now, and connect to itself.
    assert!((0..3).any(|_| TcpStream::connect(address).is_err()));
}

#[test]
fn off_loopback_is_refused_without_login_and_tls() {
    let only_login = WebOptions { login: Some("/nowhere".into()), ..WebOptions::default() };
    for options in [WebOptions::default(), only_login] {
        let error = HttpServer::bind("0.0.0.0:0".parse().unwrap(), options).unwrap_err();
        assert!(matches!(error, WebError::Unguarded(_)), "{error}");
    }
}

#[tokio::test]
async fn a_moment_is_a_table_with_text_keys() {
    let live = fake();
    live.put(shown(7));
    let (status, body) = get_json(&live, "/api/v1/hosts/one/at?threads=20-18446744073709551615").await;
    assert_eq!((status, &body["number"], &body["end_ns"]), (200, &7.into(), &"8000000000".into()));
    let processes = &body["processes"];
    assert_eq!((&processes["rows"], &processes["total"]), (&2.into(), &2.into()));
    let columns = &processes["columns"];
    assert_eq!(columns["key"], serde_json::json!(["20-18446744073709551615", "10-18446744073709551615"]));
    assert_eq!(columns["run_ns"], serde_json::json!([600, 1]));
    assert_eq!(columns["name"], "</script>");
    assert!(columns.get("system_ns").is_none(), "not measured is not there: {columns}");
    let threads = &body["threads"][0];
    assert_eq!(
        (&threads["columns"]["run_ns"], &threads["columns"]["process"]),
        (&serde_json::json!([300, 200, 100]), &"20-18446744073709551615".into())
    );
    let (_, body) = get_json(&live, "/api/v1/hosts/one/at?threads=all&limit=1").await;
    assert_eq!((&body["threads"][0]["rows"], &body["processes"]["rows"]), (&3.into(), &1.into()));
    let page = "/api/v1/hosts/one/at?threads=all&thread_offset=1&thread_limit=1";
    let (_, body) = get_json(&live, page).await;
    let threads = &body["threads"][0];
    assert_eq!((&threads["total"], &threads["columns"]["run_ns"]), (&3.into(), &200.into()));
    for wrong in [
        "threads=7",
        "threads=a-b",
        "thread_limit=20001",
        "thread_offset=-1",
        "limit=0",
        "limit=20001",
        "at=1&after=2",
        "at=x",
    ] {
        assert_eq!(get_json(&live, &format!("/api/v1/hosts/one/at?{wrong}")).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_hole_names_its_neighbours() {
    let live = fake();
    live.put(shown(7));
    let (status, body) = get_json(&live, "/api/v1/hosts/one/at?at=99000000000").await;
    assert_eq!((status, &body["before_ns"]), (404, &"8000000000".into()), "{body}");
}

#[tokio::test]
async fn the_fleet_is_searched_sorted_and_paged() {
    let live = fake();
    live.put(shown(7));
    let (status, body) = get_json(&live, "/api/v1/fleet?search=TWI&limit=1&offset=1").await;
    assert_eq!((status, &body["hosts"]["rows"], &body["hosts"]["total"]), (200, &1.into(), &2.into()));
    let columns = &body["hosts"]["columns"];
    assert_eq!((&columns["hostname"], &columns["top_name"]), (&"twin".into(), &"</script>".into()));
    assert_eq!(columns["busy_ratio"], serde_json::Value::Null, "no CPU was measured");
    assert_eq!(body["spark"]["host_ids"].as_array().unwrap().len(), 1);
    assert_eq!(body["top"]["columns"]["run_ns"][0], 600);
    assert_eq!(columns["state"], "reporting");
    let silent =
        Fake { hosts: vec![HostStatus { received_wall_ns: 0, ..host(4, "old") }], ..Fake::default() };
    silent.put(shown(7));
    let (_, body) = get_json(&Arc::new(silent), "/api/v1/fleet").await;
    assert_eq!((&body["hosts"]["columns"]["state"], &body["top"]["rows"]), (&"silent".into(), &0.into()));
    let (status, _, file) = {
        let router = router(live.clone(), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
        ask_raw(router, "/api/v1/fleet/export?busiest=true", "localhost").await
    };
    let lines: Vec<&str> = std::str::from_utf8(&file).unwrap().lines().collect();
    assert_eq!((status, lines[0]), (200, "host_id,hostname,key,name,container,cpu_pct,host_pct,run_ns"));
    assert!(lines.len() > 3 && lines[1].contains("</script>") && lines[1].ends_with(",600"), "{lines:?}");
    for wrong in ["busiest=true&sort=name", "busiest=true&reverse=true", "busiest=maybe"] {
        let path = format!("/api/v1/fleet/export/command?{wrong}");
        assert_eq!(get_json(&live, &path).await.0, 400, "{wrong}");
    }
    for wrong in ["sort=size", "limit=0", "limit=5000", "offset=-1"] {
        assert_eq!(get_json(&live, &format!("/api/v1/fleet?{wrong}")).await.0, 400, "{wrong}");
    }
}

/// Reads one message of a stream: its id and data.
pub(super) struct Messages(axum::body::BodyDataStream, String);

impl Messages {
    pub(super) async fn open(live: &Arc<Fake>, path: &str, last_id: Option<&str>) -> Self {
        let mut request = Request::get(path).header(header::HOST, "localhost");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let live: Arc<dyn Live> = Arc::<Fake>::clone(live);
        let router = router(live, "127.0.0.1:3080".parse().unwrap(), WebOptions::default());
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self(response.into_body().into_data_stream(), String::new())
    }

    pub(super) async fn next(&mut self) -> (String, serde_json::Value) {
        loop {
            if let Some((message, rest)) = self.1.split_once("\n\n") {
                let field = |name: &str| {
                    message.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
                };
                let (id, data) = (field("id: "), field("data: "));
                self.1 = rest.to_owned();
                if !id.is_empty() {
                    return (id, serde_json::from_str(&data).unwrap_or_else(|_| panic!("{data}")));
                }
            } else {
                let piece = futures_util::StreamExt::next(&mut self.0).await.unwrap().unwrap();
                self.1.push_str(std::str::from_utf8(&piece).unwrap());
            }
        }
    }

    async fn number(&mut self) -> (u64, u64) {
        let (_, data) = self.next().await;
        (data["number"].as_u64().unwrap(), data["skipped"].as_u64().unwrap())
    }
}

const LIVE: &str = "/api/v1/hosts/one/live";

#[tokio::test(start_paused = true)]
async fn a_stream_gives_each_snapshot_with_the_threads_that_were_asked_for() {
    let live = fake();
    live.put(shown(3));
    let path = format!("{LIVE}?threads=20-18446744073709551615,99-1");
    let mut stream = Messages::open(&live, &path, None).await;
    let (id, data) = stream.next().await;
    assert_eq!((id.as_str(), &data["number"], &data["skipped"]), ("0-3", &3.into(), &0.into()));
    assert!(data["age_ns"].as_i64().unwrap() < 60 * SECOND_NS, "it has just come");
    let rows: Vec<&serde_json::Value> =
        data["threads"].as_array().unwrap().iter().map(|t| &t["rows"]).collect();
    assert_eq!(rows, [3, 0]);
    assert_eq!(data["processes"]["columns"]["name"], "</script>");
    live.put(shown(4));
    assert_eq!(stream.number().await, (4, 0));
    let all = Messages::open(&live, &format!("{LIVE}?threads=all"), None).await.next().await.1;
    assert_eq!(all["threads"][0]["total"], 3);
}

#[tokio::test]
async fn answers_about_a_silent_host_have_the_age_of_its_newest_interval() {
    let received_wall_ns = cpumon_query::time::now_ns() - 600 * SECOND_NS;
    let silent = Fake { hosts: vec![HostStatus { received_wall_ns, ..host(1, "one") }], ..Fake::default() };
    silent.put(shown(3));
    let live = Arc::new(silent);
    let (_, streamed) = Messages::open(&live, LIVE, None).await.next().await;
    let (_, newest) = get_json(&live, "/api/v1/hosts/one/at").await;
    for answer in [streamed, newest] {
        let age_ns = answer["age_ns"].as_i64().unwrap();
        assert!((600..660).contains(&(age_ns / SECOND_NS)), "{age_ns}");
    }
    let (_, past) = get_json(&live, "/api/v1/hosts/one/at?at=3500000000").await;
    assert_eq!((&past["number"], past.get("age_ns")), (&3.into(), None), "the past has no age");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_gets_what_it_missed() {
    let live = fake();
    (1..=9).for_each(|number| live.put(shown(number)));
    let mut stream = Messages::open(&live, LIVE, Some("0-2")).await;
    for number in 3..=9 {
        assert_eq!(stream.number().await, (number, 0));
    }
    // An id of another run, of the future, or of no run: from the newest on.
    for id in ["77-2", "0-10", "x", ""] {
        assert_eq!(Messages::open(&live, LIVE, Some(id)).await.number().await, (9, 0), "{id:?}");
    }
    let by_query = Messages::open(&live, &format!("{LIVE}?last_event_id=0-7"), None).await.number().await;
    assert_eq!(by_query, (8, 0));
    // Intervals that left memory, and those that are too many, are counted.
    live.shown.lock().unwrap().retain(|shown| shown.number >= 5);
    assert_eq!(Messages::open(&live, LIVE, Some("0-2")).await.number().await, (5, 2));
    (10..=300).for_each(|number| live.put(shown(number)));
    assert_eq!(Messages::open(&live, LIVE, Some("0-9")).await.number().await, (181, 171));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_newest_and_the_count_of_what_it_missed() {
    let live = fake();
    live.put(shown(1));
    let mut stream = Messages::open(&live, LIVE, None).await;
    assert_eq!(stream.number().await, (1, 0));
    (2..=40).for_each(|number| live.put(shown(number)));
    assert_eq!(stream.number().await, (40, 38));
    (41..=43).for_each(|number| live.put(shown(number)));
    assert_eq!(stream.number().await, (41, 0), "a little late is not slow");
}

#[tokio::test(start_paused = true)]
async fn the_fleet_streams_once_for_all() {
    let live = fake();
    live.put(shown(1));
    let mut stream = Messages::open(&live, "/api/v1/fleet/live", None).await;
    let (_, first) = stream.next().await;
    let health = r#"{"store":"failing","store_error":"no space left","store_clock":"","stored_error":"","store_dropped":7,"datagrams":0,"udp":[],"tls":null,"rejected":5,"rejected_why":"10.0.0.9: all bytes are zero","kernel_dropped":2}"#;
    assert_eq!(first["receiver"], serde_json::from_str::<serde_json::Value>(health).unwrap());
    assert_eq!((&first["hosts"]["rows"], first["spark"].is_object()), (&3.into(), true));
    let (_, second) = stream.next().await;
    assert_eq!((&second["number"], second.get("spark")), (&2.into(), None));
    // The id of a message that was never sent.
    let beyond = format!("0-{}", u64::MAX);
    assert_eq!(Messages::open(&live, "/api/v1/fleet/live", Some(&beyond)).await.number().await, (1, 0));
}

#[tokio::test]
async fn the_description_holds_every_route_and_type() {
    let (status, body) = get_json(&fake(), "/api/v1/openapi.json").await;
    assert_eq!((status, body["openapi"].as_str().unwrap().starts_with("3.1")), (200, true));
    let text = body.to_string();
    for (at, _) in text.match_indices("#/components/schemas/") {
        let name = text[at..].split(['"', '/']).nth(3).unwrap();
        assert!(body["components"]["schemas"].get(name).is_some(), "{name} is used and not described");
    }
}
