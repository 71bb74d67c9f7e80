//! The routes against a stand-in receiver, and the server over a real socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use cpumon_model::{HostInfo, HostStatus, Interval};
use tower::ServiceExt;

use super::*;
use crate::{Bell, HttpServer, WebError};

#[derive(Default)]
struct Fake {
    hosts: Vec<HostStatus>,
    newest: Mutex<Option<Shown>>,
    bell: Bell,
}

impl Live for Fake {
    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.clone()
    }
    fn newest(&self, _host: HostId) -> Option<Shown> {
        self.newest.lock().unwrap().clone()
    }
    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        let (Seek::At(wall_ns) | Seek::Before(wall_ns) | Seek::After(wall_ns)) = to;
        if wall_ns < 0 { Err("the store is away".into()) } else { Ok(self.newest(host)) }
    }
    fn status(&self) -> api::Status {
        api::Status { version: "1.2.3".into(), ..api::Status::default() }
    }
    fn bell(&self) -> &Bell {
        &self.bell
    }
}

fn host(id: u8, name: &str) -> HostStatus {
    let info = HostInfo { host: HostId([id; 16]), hostname: name.into(), ..HostInfo::default() };
    HostStatus { info, ..HostStatus::default() }
}

fn fake() -> Arc<Fake> {
    Arc::new(Fake { hosts: vec![host(1, "one"), host(2, "twin"), host(3, "twin")], ..Fake::default() })
}

fn shown(serial: u64) -> Shown {
    Shown { serial, interval: Arc::new(Interval { sequence: serial, ..Interval::default() }) }
}

async fn ask(live: Arc<Fake>, path: &str, host: &str) -> (u16, String, serde_json::Value) {
    let request = Request::get(path).header(header::HOST, host).body(Body::empty()).unwrap();
    let response = router(live, "127.0.0.1:3080".parse().unwrap()).oneshot(request).await.unwrap();
    let kind = response.headers().get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    assert_eq!(response.headers().get(header::CACHE_CONTROL).unwrap(), "no-store");
    assert!(response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
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
}

#[tokio::test]
async fn a_host_is_found_by_id_and_by_a_name_that_is_its_own() {
    let live = fake();
    *live.newest.lock().unwrap() = Some(shown(7));
    for path in ["one", "01010101010101010101010101010101", "03030303030303030303030303030303"] {
        let (status, body) = get_json(&live, &format!("/api/v1/hosts/{path}/interval")).await;
        assert_eq!((status, &body["serial"]), (200, &7.into()), "{path}");
    }
    let (status, body) = get_json(&live, "/api/v1/hosts/twin/interval").await;
    assert_eq!(status, 409);
    assert!(body["detail"].as_str().unwrap().contains("0303"), "{body}");
    assert_eq!(get_json(&live, "/api/v1/hosts/nobody/interval").await.0, 404);
}

#[tokio::test]
async fn errors_are_problem_json() {
    let live = fake();
    for (path, host, expected) in [
        ("/", "localhost", 404),
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
        let response = router(fake(), "127.0.0.1:1".parse().unwrap()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_on_a_newer_interval_and_gives_up_in_time() {
    let live = fake();
    *live.newest.lock().unwrap() = Some(shown(4));
    assert_eq!(get_json(&live, "/api/v1/hosts/one/interval?newer_than=4").await.0, 204);

    let waiting = tokio::spawn({
        let live = Arc::clone(&live);
        async move { get_json(&live, "/api/v1/hosts/one/interval?newer_than=4").await }
    });
    tokio::task::yield_now().await;
    *live.newest.lock().unwrap() = Some(shown(5));
    live.bell.ring(5);
    let (status, body) = waiting.await.unwrap();
    assert_eq!((status, &body["serial"]), (200, &5.into()));
}

#[test]
fn a_server_answers_over_a_socket_and_stops() {
    let server = HttpServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, shutdown) = (server.local_addr(), server.shutdown());
    let taken = HttpServer::bind(address).unwrap_err();
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
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn off_loopback_is_refused() {
    let error = HttpServer::bind("0.0.0.0:3080".parse().unwrap()).unwrap_err();
    assert!(matches!(error, WebError::NotLoopback(_)));
    assert!(error.to_string().contains("127.0.0.1:3080"), "{error}");
}
