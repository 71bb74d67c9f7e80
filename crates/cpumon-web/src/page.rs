//! The page: the receiver's frontend in a browser. Its files are embedded by `build.rs`, or read from a
//! directory while developing. The page loads nothing from other servers, and a strict content security
//! policy prevents that a hostile name becomes code.

use std::path::{Component, Path, PathBuf};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

#[derive(Debug)]
struct File {
    /// Path, e.g. `assets/index-3f2a.js`.
    path: &'static str,
    /// `ETag`, quotes included.
    tag: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
}

/// Every file of the page; empty if it was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Only files of our own run or are shown; nothing is evaluated, framed, or sent elsewhere. Charts are drawn into images
/// (`data:`, `blob:`) and their arithmetic runs in workers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// Files below this directory have their content's hash in their name.
const HASHED: &str = "assets/";

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>cpumon</title>\
    <h1>This cpumon was built without its page</h1>\
    <p>Build it with <code>make</code>, which needs Node.js, or with <code>npm ci</code> and <code>npm run build</code> in \
    <code>web/</code>, and then build cpumon again. The API answers at <a href=\"/api/v1/status\">/api/v1/status</a>; \
    <code>cpumon top --host NAME</code> shows the same in a terminal.</p></html>";

#[derive(Clone, Debug, Default)]
pub(crate) struct WebPage {
    /// A directory to read it from at each request; `None`: the embedded files.
    pub(crate) dir: Option<PathBuf>,
}

impl WebPage {
    /// The answer to a `GET` of `path`. A path that is no file is a view of the page (a deep link): it gets `index.html`.
    pub(crate) async fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        let path = path.trim_start_matches('/');
        let mut response = match &self.dir {
            Some(dir) => from_disk(dir.clone(), path.to_owned()).await,
            None => embedded(path, headers),
        };
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        response
    }
}

fn embedded(path: &str, headers: &HeaderMap) -> Response {
    let find = |path: &str| FILES.iter().find(|file| file.path == path);
    let Some(file) = find(path).or_else(|| find("index.html").filter(|_| is_view(path))) else {
        return if FILES.is_empty() && is_view(path) { html(StatusCode::OK, NOT_BUILT) } else { not_found() };
    };
    let mut response = if is_known(headers, file.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        match file.brotli.filter(|_| takes(headers, "br")) {
            Some(packed) => {
                let mut response = Body::from(Bytes::from_static(packed)).into_response();
                response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
                response
            }
            None => Body::from(Bytes::from_static(file.plain)).into_response(),
        }
    };
    // A file with a hash in its name never changes; the others must be asked about at each load.
    let caching =
        if file.path.starts_with(HASHED) { "private, max-age=31536000, immutable" } else { "no-cache" };
    for (name, value) in [
        (header::CONTENT_TYPE, kind(file.path)),
        (header::ETAG, file.tag),
        // A cache must not give a packed file to a client that cannot unpack it.
        (header::VARY, "accept-encoding"),
        (header::CACHE_CONTROL, caching),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client already has the file with this tag, quotes included (RFC 9110, section 13.1.2).
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // RFC 9110, section 13.1.2, demands the weak comparison: a proxy that packs an answer makes its tag weak.
    known
        .flat_map(|tags| tags.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// Whether a path is a view of the page: `parse` in `web/src/lib/route.svelte.ts` reads the same paths.
fn is_view(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    matches!(
        parts.as_slice(),
        [] | ["history"]
            | ["host" | "trace", _]
            | ["host", _, "live" | "history" | "landscape" | "export"]
            | ["host", _, "process", _]
    )
}

/// Whether the client accepts this coding of an answer.
pub(crate) fn takes(headers: &HeaderMap, wanted: &str) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight.trim().trim_start_matches("q=").trim();
            name.trim().eq_ignore_ascii_case(wanted)
                // `br;q=0` forbids brotli (RFC 9110, section 12.4.2).
                && weight.parse::<f32>().is_ok_and(|q| q > 0.0) | weight.is_empty()
        })
    })
}

/// Plain text: a program that asked for a file or for metrics must not take it for one.
fn not_found() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    let text = "There is no such page. The page is at /, the API at /api/v1/openapi.json.\n";
    (StatusCode::NOT_FOUND, headers, text).into_response()
}

fn html(status: StatusCode, text: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}

/// A file of the directory that a developer named, read again at each request.
async fn from_disk(dir: PathBuf, path: String) -> Response {
    let read = tokio::task::spawn_blocking(move || {
        // `join` would replace the directory by an absolute path, and `..` would leave it.
        let is_file = is_inside(&path) && dir.join(&path).is_file();
        if !is_file && !is_view(&path) {
            return Ok(None);
        }
        let wanted = if is_file { path } else { "index.html".to_owned() };
        let read = std::fs::read(dir.join(&wanted));
        read.map(|bytes| Some((kind(&wanted), bytes))).map_err(|error| (dir, error))
    });
    match read.await {
        Ok(Ok(None)) => not_found(),
        Ok(Ok(Some((kind, bytes)))) => {
            ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], bytes).into_response()
        }
        Ok(Err((dir, error))) => {
            log::warn!("cannot read the page from {}: {error}", dir.display());
            html(StatusCode::NOT_FOUND, "The directory of --web-dir has no such file; the log says more.\n")
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether a path stays below the directory it is joined to.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// The content type of a file, by its ending.
fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/vnd.microsoft.icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    async fn get(
        page: &WebPage,
        path: &str,
        headers: &[(header::HeaderName, &str)],
    ) -> (u16, HeaderMap, Bytes) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let response = page.answer(path, &headers).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, to_bytes(response.into_body(), 1 << 24).await.unwrap())
    }

    #[tokio::test]
    async fn every_view_gets_html_under_the_strict_policy() {
        for path in [
            "/",
            "/history",
            "/host/vm",
            "/host/my.host/history",
            "/host/vm/process/12-5",
            "/host/a%2Fb/export/",
            "/trace/file",
        ] {
            let (status, headers, body) = get(&WebPage::default(), path, &[]).await;
            assert_eq!(status, 200, "{path}");
            let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert!(
                String::from_utf8_lossy(&body).to_ascii_lowercase().contains("<!doctype html>"),
                "{path}"
            );
        }
        for path in ["/assets/gone-123.js", "/metrics", "/nosuch", "/host", "/host/vm/nosuch", "/hosts/vm"] {
            let (status, headers, body) = get(&WebPage::default(), path, &[]).await;
            assert_eq!(
                (status, &headers[header::CONTENT_TYPE]),
                (404, &HeaderValue::from_static("text/plain; charset=utf-8")),
                "{path}"
            );
            assert!(!String::from_utf8_lossy(&body).contains('<'), "{path}");
        }
    }

    #[tokio::test]
    async fn embedded_files_have_tags_and_are_sent_packed() {
        for file in FILES {
            let path = format!("/{}", file.path);
            let (status, headers, body) = get(&WebPage::default(), &path, &[]).await;
            assert_eq!((status, &body[..]), (200, file.plain), "{path}");
            let known = [(header::IF_NONE_MATCH, headers[header::ETAG].to_str().unwrap())];
            let (status, _, body) = get(&WebPage::default(), &path, &known).await;
            assert_eq!((status, body.len()), (304, 0), "{path}");
            let (_, headers, body) =
                get(&WebPage::default(), &path, &[(header::ACCEPT_ENCODING, "gzip, br")]).await;
            assert_eq!(headers.contains_key(header::CONTENT_ENCODING), file.brotli.is_some());
            assert_eq!(&body[..], file.brotli.unwrap_or(file.plain), "{path}");
        }
    }

    #[test]
    fn brotli_is_sent_only_to_those_who_take_it() {
        for (value, is_taken) in
            [("br", true), ("gzip, br;q=0.5", true), ("gzip, deflate", false), ("br;q=0", false), ("", false)]
        {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]);
            assert_eq!(takes(&headers, "br"), is_taken, "{value}");
        }
    }

    #[tokio::test]
    async fn a_directory_is_served_and_not_left() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dist");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(root.path().join("secret.txt"), "secret").unwrap();
        std::fs::write(dir.join("index.html"), "<!doctype html>one").unwrap();
        std::fs::write(dir.join("a.css"), "b{}").unwrap();
        let page = WebPage { dir: Some(dir.clone()) };
        let (status, headers, body) = get(&page, "/a.css", &[]).await;
        assert_eq!((status, &body[..]), (200, &b"b{}"[..]));
        assert_eq!(headers[header::CONTENT_TYPE], "text/css; charset=utf-8");
        for path in ["/../secret.txt", "//etc/passwd", "/..%2fsecret.txt", "/./../secret.txt", "/x/y"] {
            assert_eq!(get(&page, path, &[]).await.0, 404, "{path}");
        }
        assert_eq!(&get(&page, "/host/vm", &[]).await.2[..], b"<!doctype html>one");
        std::fs::write(dir.join("index.html"), "<!doctype html>two").unwrap();
        assert_eq!(&get(&page, "/", &[]).await.2[..], b"<!doctype html>two", "read again");
    }
}
