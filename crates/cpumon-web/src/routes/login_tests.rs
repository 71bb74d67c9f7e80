//! Logins: cookies, tokens, other sites, guessing.

use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{Request, header};
use futures_util::StreamExt;
use tower::ServiceExt;

use super::tests::Fake;
use super::*;
use crate::TokenFile;
use cpumon_files::AuditLog;

/// A receiver that asks for a login.
pub(super) struct Guarded {
    dir: tempfile::TempDir,
    router: Router,
}

impl Guarded {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let login = Some(dir.path().join("tokens"));
        let audit = Some(Arc::new(AuditLog::in_dir(dir.path())));
        let options = WebOptions { login, audit, ..WebOptions::default() };
        let router = router(Arc::new(Fake::with_host("one")), "127.0.0.1:3080".parse().unwrap(), options);
        Self { dir, router }
    }

    /// A token that counts.
    pub(super) fn token(&self) -> String {
        self.tokens().add("scraper").unwrap()
    }

    fn tokens(&self) -> TokenFile {
        TokenFile::new(self.dir.path().join("tokens"))
    }

    /// Status, the cookie that was set, body.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, serde_json::Value) {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost:3080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let cookie =
            response.headers().get(header::SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, cookie.unwrap_or_default(), serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.ask("GET", path, headers, "").await.0
    }

    /// A stream of all hosts that has sent something.
    async fn open(&self, header: (&str, &str)) -> BodyDataStream {
        let request = Request::get("/api/v1/fleet/live").header(header::HOST, "localhost");
        let request = request.header(header.0, header.1).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let mut stream = response.into_body().into_data_stream();
        for _ in 0..12 {
            stream.next().await.unwrap().unwrap();
        }
        stream
    }

    async fn log_in(&self, token: &str) -> (u16, String, serde_json::Value) {
        let body = serde_json::json!({ "token": token }).to_string();
        self.ask("POST", "/api/v1/login", &[("content-type", "application/json")], &body).await
    }
}

const DATA: [&str; 8] = [
    "/api/v1/status",
    "/api/v1/fleet",
    "/api/v1/fleet/live",
    "/api/v1/fleet/export",
    "/api/v1/fleet/export/command",
    "/api/v1/hosts/one/compare",
    "/api/v1/hosts/one/live",
    "/api/v1/export/threads",
];

#[tokio::test]
async fn strangers_see_the_page_and_the_login_and_nothing_else() {
    let guarded = Guarded::new();
    for path in DATA.into_iter().chain(["/api/v1/hosts/one/at", "/api/v2", "/api/v1/logout"]) {
        let (status, _, body) = guarded.ask("GET", path, &[], "").await;
        assert_eq!((status, body["status"].as_u64()), (401, Some(401)), "{path}");
        assert!(body["how"].as_str().unwrap().contains("login-token"), "{body}");
    }
    for path in ["/", "/host/one", "/api/v1/columns", "/api/v1/openapi.json"] {
        assert_eq!(guarded.get(path, &[]).await, 200, "{path}");
    }
    let (_, _, session) = guarded.ask("GET", "/api/v1/session", &[], "").await;
    assert_eq!((&session["login_required"], &session["logged_in"]), (&true.into(), &false.into()));
}

#[tokio::test]
async fn a_login_lasts_until_the_logout_or_until_the_token_is_revoked() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("anna").unwrap();
    let (status, cookie, _) = guarded.log_in(&format!(" {token}\n")).await;
    assert_eq!(status, 204);
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let mine = [("cookie", &*format!("theme=dark; {}", cookie.split(';').next().unwrap()))];
    assert_eq!(guarded.get("/api/v1/status", &mine).await, 200);
    let (_, _, session) = guarded.ask("GET", "/api/v1/session", &mine, "").await;
    assert_eq!(session["logged_in"], true);
    assert_eq!(guarded.get("/api/v1/status", &[("cookie", "cpumon=00")]).await, 401);
    let (status, gone, _) = guarded.ask("POST", "/api/v1/logout", &mine, "").await;
    assert!(status == 204 && gone.contains("Max-Age=0"), "{gone}");
    assert_eq!(guarded.get("/api/v1/status", &mine).await, 401);

    let (_, cookie, _) = guarded.log_in(&token).await;
    let mine = [("cookie", cookie.split(';').next().unwrap())];
    assert_eq!(guarded.get("/api/v1/status", &mine).await, 200);
    assert!(guarded.tokens().revoke("anna").unwrap());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(guarded.get("/api/v1/status", &mine).await, 401, "a revoked token's session ends");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_login_that_it_was_opened_with() {
    let guarded = Guarded::new();
    let tokens = ["anna", "bob"].map(|label| guarded.tokens().add(label).unwrap());
    let (_, cookie, _) = guarded.log_in(&tokens[0]).await;
    let (_, other, _) = guarded.log_in(&tokens[0]).await;
    let [mine, other] = [&cookie, &other].map(|cookie| ("cookie", cookie.split(';').next().unwrap()));
    let bearers = tokens.map(|token| format!("Bearer {token}"));
    let [anna, bob] = [&bearers[0], &bearers[1]].map(|bearer| ("authorization", bearer.as_str()));

    let mut left = guarded.open(mine).await;
    let mut stays = [guarded.open(other).await, guarded.open(anna).await, guarded.open(bob).await];
    assert_eq!(guarded.ask("POST", "/api/v1/logout", &[mine], "").await.0, 204);
    assert!(left.next().await.is_none(), "logged out");
    for stream in &mut stays {
        stream.next().await.unwrap().unwrap();
    }

    assert!(guarded.tokens().revoke("anna").unwrap());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let [session, token, still] = &mut stays;
    assert!(session.next().await.is_none(), "a session of a revoked token");
    assert!(token.next().await.is_none(), "a revoked token");
    still.next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_token_counts_as_soon_as_it_is_made() {
    let guarded = Guarded::new();
    for label in ["first", "second"] {
        // The second one is made after the file was read for the first.
        let token = guarded.tokens().add(label).unwrap();
        assert_eq!(guarded.log_in(&token).await.0, 204, "{label}");
    }
}

#[tokio::test]
async fn programs_send_the_token_itself() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("script").unwrap();
    let bearer = format!("Bearer {token}");
    for _ in 0..20 {
        assert_eq!(guarded.get("/api/v1/status", &[("authorization", &bearer)]).await, 200);
    }
    let lower = bearer.replace("Bearer", "bearer");
    assert_eq!(guarded.get("/api/v1/status", &[("authorization", &lower)]).await, 200);
    let wrong = bearer.replace(|c: char| c.is_ascii_digit(), "f");
    assert_eq!(guarded.get("/api/v1/status", &[("authorization", &wrong)]).await, 401);
    assert_eq!(guarded.get("/api/v1/status", &[("authorization", "Basic eA==")]).await, 401);
}

#[tokio::test]
async fn guessing_is_stopped_and_says_when_to_try_again() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("anna").unwrap();
    let statuses =
        |answers: &[(u16, String, serde_json::Value)]| answers.iter().map(|a| a.0).collect::<Vec<_>>();
    let mut answers = Vec::new();
    for guess in 0..7 {
        answers.push(guarded.log_in(&format!("cpumon-login_{guess:08}_x")).await);
    }
    assert_eq!(statuses(&answers), [401, 401, 401, 401, 401, 429, 429]);
    assert!(answers[6].2["how"].as_str().unwrap().contains("Try again in"), "{:?}", answers[6].2);
    assert_eq!(guarded.log_in(&token).await.0, 429, "from the same address, even the right one");
    assert_eq!(guarded.log_in(&"x".repeat(300)).await.0, 401, "too long to be read");
}

#[tokio::test]
async fn strangers_do_not_use_up_the_tries_of_those_who_have_a_token() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("anna").unwrap();
    let log_in = |token: String, from: u8| {
        let request = Request::post("/api/v1/login").header(header::HOST, "localhost:3080");
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let peer = crate::login::Peer(([10, 0, 0, from], 40_000).into());
        let body = Body::from(serde_json::json!({ "token": token }).to_string());
        guarded.router.clone().oneshot(request.extension(peer).body(body).unwrap())
    };
    for from in 0..100 {
        let answer = log_in(format!("cpumon-login_{from:08}_x"), from).await.unwrap();
        assert_eq!(answer.status(), 401, "stranger {from}");
    }
    assert_eq!(log_in(token, 200).await.unwrap().status(), 204);
}

#[tokio::test]
async fn other_sites_can_neither_read_nor_log_in() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("anna").unwrap();
    let bearer = format!("Bearer {token}");
    for other in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(
            guarded.get("/api/v1/status", &[("authorization", &bearer), other]).await,
            403,
            "{other:?}"
        );
        let headers = [("content-type", "application/json"), other];
        let body = serde_json::json!({ "token": token }).to_string();
        assert_eq!(guarded.ask("POST", "/api/v1/login", &headers, &body).await.0, 403, "{other:?}");
    }
    let ours =
        [("authorization", &*bearer), ("origin", "http://localhost:3080"), ("sec-fetch-site", "same-origin")];
    assert_eq!(guarded.get("/api/v1/status", &ours).await, 200);
    assert_eq!(guarded.get("/", &[("sec-fetch-site", "cross-site")]).await, 200, "a link may open the page");
    let large = format!("{{\"token\":\"{}\"}}", "x".repeat(5000));
    for (kind, body, expected) in [
        ("application/x-www-form-urlencoded", "token=x", 415),
        ("text/plain", "{\"token\":\"x\"}", 415),
        ("application/json", "{", 400),
        ("application/json", "[]", 400),
        ("application/json", &large, 413),
    ] {
        let answer = guarded.ask("POST", "/api/v1/login", &[("content-type", kind)], body).await;
        assert_eq!(answer.0, expected, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_that_does_not_come_is_not_waited_for() {
    let never = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = Request::post("/api/v1/login").header(header::HOST, "localhost:3080");
    let request = request.header(header::CONTENT_TYPE, "application/json").body(never).unwrap();
    let answer = Guarded::new().router.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn without_a_login_there_is_none_to_make() {
    let open = router(Arc::new(Fake::default()), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    for path in ["/api/v1/login", "/api/v1/logout"] {
        let request = Request::post(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
        assert_eq!(open.clone().oneshot(request).await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn log_ins_and_wrong_tokens_are_in_the_audit_log() {
    let guarded = Guarded::new();
    let token = guarded.tokens().add("anna").unwrap();
    let json = ("content-type", "application/json");
    for text in [token.as_str(), token.as_str(), "cpumon-login_wrong"] {
        guarded.ask("POST", "/api/v1/login", &[json], &format!("{{\"token\":\"{text}\"}}")).await;
    }
    let bearer = format!("Bearer {token}");
    for _ in 0..2 {
        assert_eq!(guarded.get("/api/v1/status", &[("authorization", &bearer)]).await, 200);
    }
    let read = |name: &str| std::fs::read_to_string(guarded.dir.path().join(name)).unwrap();
    let done = read("audit.jsonl");
    assert_eq!(
        done.matches("\"subject\":\"anna\"").count(),
        2,
        "the program used a token that was verified: {done}"
    );
    assert_eq!(read("audit-refused.jsonl").lines().count(), 1);
    assert!(!format!("{done}{}", read("audit-refused.jsonl")).contains("cpumon-login_"), "no token");
}
