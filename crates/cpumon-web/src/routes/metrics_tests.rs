//! `/metrics`: formats, refusals, login.

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use tower::ServiceExt;

use super::login_tests::Guarded;
use super::*;

/// Status, content type and body.
async fn ask(path: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
    let mut request = Request::get(path).header(header::HOST, "localhost:3080");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let router = router(fake(), "127.0.0.1:3080".parse().unwrap(), WebOptions::default());
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, kind, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_format_is_the_one_that_is_accepted_and_always_named() {
    let text = "text/plain; version=0.0.4; charset=utf-8";
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    for (accept, expected, body) in [
        ("", text, "Text None"),
        ("*/*", text, "Text None"),
        ("application/openmetrics-text;version=1.0.0", open, "OpenMetrics None"),
    ] {
        assert_eq!(
            ask("/metrics", &[("accept", accept)]).await,
            (200, expected.to_owned(), body.to_owned()),
            "{accept}"
        );
    }
    let (status, _, body) = ask("/metrics?host=w%22eb", &[]).await;
    assert_eq!((status, &*body), (200, r#"Text Some("w\"eb")"#));
}

#[tokio::test]
async fn what_is_misspelled_unknown_or_from_another_site_is_refused() {
    for (path, expected) in [
        ("/metrics?hosts=web", 400),
        ("/metrics?host=a&host=b", 400),
        ("/metrics?host=nowhere", 404),
        ("/metrics/x", 404),
    ] {
        assert_eq!(ask(path, &[]).await.0, expected, "{path}");
    }
    assert_eq!(ask("/metrics", &[("origin", "http://evil.example")]).await.0, 403);
}

#[tokio::test]
async fn where_a_login_is_needed_a_scrape_needs_a_token() {
    let guarded = Guarded::new();
    assert_eq!(guarded.ask("GET", "/metrics", &[], "").await.0, 401);
    let wrong = [("authorization", "Bearer nonsense")];
    assert_eq!(guarded.ask("GET", "/metrics", &wrong, "").await.0, 401);
    let token = format!("Bearer {}", guarded.token());
    assert_eq!(guarded.ask("GET", "/metrics", &[("authorization", &*token)], "").await.0, 200);
}
