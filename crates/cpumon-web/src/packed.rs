//! Answers of the API and metrics are compressed where they go over TLS, to readers elsewhere: a series of 200 kB takes seconds
//! there. On this machine compression would cost more than it saves. Event streams and files are sent as they are made,
//! uncompressed. No answer has a secret of its reader beside text that others choose, so its length reveals nothing.

use std::io::Write;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cpumon_query::metrics::MetricsFormat;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::page::takes;

/// A shorter answer is not packed: it fits into one packet.
const LEAST_BYTES: u64 = 1_200;
/// More is sent as it is: packing must not take a second of a CPU.
const MOST_BYTES: u64 = 32 << 20;

/// Packs a route's answer, if its reader takes gzip.
pub(crate) async fn pack(request: Request, next: Next) -> Response {
    let takes_gzip = takes(request.headers(), "gzip");
    let response = next.run(request).await;
    if !takes_gzip || !is_packable(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    let packing = async move {
        let bytes = to_bytes(body, most).await.ok()?;
        tokio::task::spawn_blocking(move || gzip(&bytes)).await.ok()?
    };
    let Some(packed) = packing.await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, Body::from(packed))
}

/// Whole JSON or metrics of a length that is worth it.
fn is_packable(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind == "application/json" || kind == "application/problem+json";
    let formats = [MetricsFormat::Text, MetricsFormat::OpenMetrics];
    let is_scrape = formats.iter().any(|format| format.content_type() == kind);
    let length = response.body().size_hint().exact();
    (is_json || is_scrape)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && length.is_some_and(|bytes| (LEAST_BYTES..=MOST_BYTES).contains(&bytes))
}

/// A vector takes all that is written, so there is always an answer.
fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    Some(encoder.finish().ok()?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::routing::get;
    use axum::{Json, Router, middleware};
    use flate2::read::GzDecoder;
    use tower::ServiceExt;

    use super::*;

    async fn answer(path: &str, accept: &str) -> (Option<String>, Vec<u8>) {
        let scrape = MetricsFormat::OpenMetrics.content_type();
        let router = Router::new()
            .route("/large", get(|| async { Json(vec![1_234_567_890_u64; 5_000]) }))
            .route("/small", get(|| async { Json(vec![1_u8; 20]) }))
            .route(
                "/metrics",
                get(move || async move { ([(header::CONTENT_TYPE, scrape)], "x 1\n".repeat(5_000)) }),
            )
            .route("/text", get(|| async { "x".repeat(5_000) }))
            .layer(middleware::from_fn(pack));
        let request = Request::builder().uri(path).header(header::ACCEPT_ENCODING, accept);
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let coding =
            response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned());
        (coding, to_bytes(response.into_body(), 1 << 24).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn what_is_large_is_packed_for_those_who_take_it() {
        let (coding, plain) = answer("/large", "br").await;
        assert_eq!((coding, plain.len()), (None, 55_001));
        let (coding, packed) = answer("/large", "gzip, br").await;
        assert_eq!(coding.as_deref(), Some("gzip"));
        assert!(packed.len() < plain.len() / 10, "{}", packed.len());
        let mut unpacked = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
        assert_eq!(answer("/metrics", "gzip").await.0.as_deref(), Some("gzip"));
        for path in ["/small", "/text"] {
            assert_eq!(answer(path, "gzip").await.0, None, "{path}");
        }
        assert_eq!(answer("/large", "gzip;q=0").await.0, None);
    }
}
