//! Files of traces and requests for them: threads held by clients that read slowly or go away, and the audit log.

use std::sync::Condvar;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use cpumon_files::AuditLog;
use cpumon_model::{HostId, HostStatus};
use cpumon_query::status::Status;
use cpumon_query::{Bell, Seek, Shown, trace_file};
use futures_util::StreamExt;
use tower::ServiceExt;

use super::tests::{Fake, ask_raw};
use super::*;

/// A receiver whose devices do not answer before they are released.
#[derive(Default)]
struct Slow {
    fake: Fake,
    /// Requests that wait, the most that did, and whether they are released.
    waiting: Mutex<(usize, usize, bool)>,
    released: Condvar,
}

impl Live for Slow {
    fn hosts(&self) -> Vec<HostStatus> {
        self.fake.hosts()
    }
    fn host(&self, host: HostId) -> Option<HostStatus> {
        self.fake.host(host)
    }
    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)> {
        self.fake.fleet()
    }
    fn newest(&self, host: HostId) -> Option<Shown> {
        self.fake.newest(host)
    }
    fn newer(&self, host: HostId, number: u64) -> Option<Shown> {
        self.fake.newer(host, number)
    }
    fn recent(&self, host: HostId, since_ns: i64) -> Vec<Shown> {
        self.fake.recent(host, since_ns)
    }
    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        self.fake.seek(host, to)
    }
    fn status(&self) -> Status {
        self.fake.status()
    }
    fn bell(&self) -> &Bell {
        self.fake.bell()
    }
    fn take_trace(&self, _: HostId) -> Result<(), String> {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.0 += 1;
        waiting.1 = waiting.1.max(waiting.0);
        let mut waiting = self.released.wait_while(waiting, |waiting| !waiting.2).unwrap();
        waiting.0 -= 1;
        Ok(())
    }
}

struct Receiver {
    dir: tempfile::TempDir,
    router: Router,
}

impl Receiver {
    fn new(live: Arc<dyn Live>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.db");
        let file = trace_file(&store, 7);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..4_000_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        std::fs::write(file, bytes).unwrap();
        let audit = Some(Arc::new(AuditLog::in_dir(dir.path())));
        let options = WebOptions { store: Some(store), audit, ..WebOptions::default() };
        Self { router: router(live, "127.0.0.1:3080".parse().unwrap(), options), dir }
    }

    /// All entries.
    fn audit(&self) -> String {
        let files = AuditLog::in_dir(self.dir.path()).files();
        files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }

    async fn send(&self, method: Method, path: &str) -> Response {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let origin = request.header(header::ORIGIN, "http://localhost");
        self.router.clone().oneshot(origin.body(Body::empty()).unwrap()).await.unwrap()
    }
}

#[test]
fn clients_that_read_slowly_hold_no_thread() {
    // Two threads, not the server's sixteen.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        let receiver = Receiver::new(fake());
        let mut slow = Vec::new();
        for _ in 0..3 {
            let mut body =
                receiver.send(Method::GET, "/api/v1/traces/7/file").await.into_body().into_data_stream();
            assert_eq!(body.next().await.unwrap().unwrap()[..3], [0, 1, 2]);
            slow.push(body);
        }
        let file = ask_raw(receiver.router.clone(), "/api/v1/traces/7/file", "localhost");
        let (status, headers, body) = tokio::time::timeout(Duration::from_mins(2), file).await.unwrap();
        assert_eq!((status, headers[header::CONTENT_LENGTH].to_str().unwrap()), (200, "4000000"));
        assert!(
            body.len() == 4_000_000
                && body.iter().enumerate().all(|(at, byte)| at % 251 == usize::from(*byte))
        );
        drop(slow);
    });
}

#[tokio::test]
async fn few_requests_wait_for_devices_at_once() {
    let live = Arc::new(Slow { fake: Fake::with_host("one"), ..Slow::default() });
    let receiver = Arc::new(Receiver::new(Arc::<Slow>::clone(&live)));
    let asking: Vec<_> = (0..10)
        .map(|_| {
            let receiver = Arc::clone(&receiver);
            tokio::spawn(
                async move { receiver.send(Method::POST, "/api/v1/hosts/one/traces").await.status() },
            )
        })
        .collect();
    while live.waiting.lock().unwrap().0 < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Requests whose clients went away still hold their turns.
    asking[..4].iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(live.waiting.lock().unwrap().1, 4);
    live.waiting.lock().unwrap().2 = true;
    live.released.notify_all();
    for asking in asking.into_iter().skip(4) {
        assert_eq!(asking.await.unwrap(), 202);
    }
    assert!(live.waiting.lock().unwrap().1 <= 4);
}

#[tokio::test]
async fn the_audit_log_has_what_was_exported_or_begun_and_nothing_else() {
    let receiver = Receiver::new(fake());
    for path in ["traces/9000/file", "traces/x/file", "export/windows", "export/ledger?host=nosuch"] {
        let response = receiver.send(Method::GET, &format!("/api/v1/{path}")).await;
        assert!(!response.status().is_success(), "{path}");
    }
    for path in ["traces", "recording", "recording/stop"] {
        let response = receiver.send(Method::POST, &format!("/api/v1/hosts/one/{path}")).await;
        assert_eq!(response.status(), 409, "{path}");
    }
    assert_eq!(receiver.audit(), "");
    assert_eq!(receiver.send(Method::GET, "/api/v1/traces/7/file").await.status(), 200);
    let audit = receiver.audit();
    assert!(audit.contains("\"exported\"") && audit.contains("\"trace\",\"detail\":\"7\""), "{audit}");
}
