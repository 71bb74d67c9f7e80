//! The HTTP client for a receiver: hosts, intervals, status, and [answers](cpumon_query::Answers) about the past. `top --host`, `hosts`,
//! `status` and every command with `--url` use it.

mod answers;

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, Interval, escape};
use cpumon_query::status;
use cpumon_query::{QueryError, Seek, Shown, TraceSources};
use cpumon_web::{LONG_POLL, api};
use serde::de::DeserializeOwned;
use ureq::Timeout;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::cli::AccessArgs;

/// Time to connect; receivers are on loopback or behind a tunnel.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// A receiver that sends nothing for this time is given up: a long poll, and 10 s. An answer as a whole has no limit, because how long a
/// trace takes depends on the network.
const SILENCE: Duration = LONG_POLL.saturating_add(Duration::from_secs(10));
/// The same for a question about the past: it waits for its turn, then as long as the reading takes, and nothing is sent meanwhile.
const PAST_SILENCE: Duration = Duration::from_mins(10);
/// Largest answer. A host with 100,000 threads takes about 20 MB.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

const STATUS: &str = "/api/v1/status";
/// No query parameters.
pub(crate) const NOTHING: &[(&str, &str)] = &[];

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No program answers at the URL.
    #[error(
        "no receiver answers at {url} ({reason}); start one with `cpumon serve`, or choose another with --url"
    )]
    Unreachable { url: String, reason: String },
    #[error("{url}: {detail}")]
    Refused {
        url: String,
        status: u16,
        detail: String,
        /// The reason for programs, of a question about the past.
        error: Option<Box<QueryError>>,
    },
    /// Another program answers there, or another version.
    #[error("{url} does not answer like a cpumon receiver: {reason}")]
    NotAReceiver { url: String, reason: String },
    #[error("the receiver at {url} has no host {wanted:?}; its hosts: {known}")]
    UnknownHost {
        url: String,
        /// Name or id that was given.
        wanted: String,
        /// Names of the receiver's hosts.
        known: String,
    },
    /// Several hosts of this name, or several whose names begin so.
    #[error("{wanted:?} means several hosts; write the whole name or the id: {known}")]
    AmbiguousHost {
        /// Name or id that was given.
        wanted: String,
        /// Ids of the matching hosts.
        known: String,
    },
}

/// A receiver at a URL.
#[derive(Clone, Debug)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    /// Value of the header: `Bearer TOKEN`.
    authorization: Option<String>,
    /// Time without a byte after which it gives up.
    silence: Duration,
}

/// Whether the text after the host's colon, if there is one, is a port.
fn has_valid_port(authority: &str) -> bool {
    // An IPv6 address in brackets contains colons of its own.
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    behind_host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

impl Client {
    /// A client for a URL; no request is sent yet.
    ///
    /// # Errors
    /// The text is not a URL; the error has an example.
    pub fn new(url: &str, access: &AccessArgs) -> Result<Self, String> {
        Self::with_silence(url, access, SILENCE)
    }

    /// A client for questions about the past, which take their time.
    pub fn of_past(url: &str, access: &AccessArgs) -> Result<Self, String> {
        Self::with_silence(url, access, PAST_SILENCE)
    }

    /// `silence`: time after which a receiver that sends nothing is given up.
    fn with_silence(url: &str, access: &AccessArgs, silence: Duration) -> Result<Self, String> {
        let base = url.trim_end_matches('/');
        let is_tls = base.starts_with("https://");
        let is_url = base.strip_prefix(if is_tls { "https://" } else { "http://" }).is_some_and(|rest| {
            !rest.is_empty() && !rest.contains(['/', '?', '#', ' ']) && has_valid_port(rest)
        });
        if !is_url {
            return Err(format!(
                "{url:?} is not a receiver's URL; write one such as {}",
                crate::cli::HTTP_URL
            ));
        }
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIME))
            .timeout_recv_response(Some(silence))
            .timeout_per_read(Some(silence))
            .timeout_per_write(Some(silence))
            .http_status_as_error(false)
            // The API has no redirects, so one comes from something that is no receiver.
            .max_redirects(0)
            // Receivers are on loopback or behind a tunnel, which a proxy does not reach.
            .proxy(None)
            .tls_config(tls_config(is_tls, access)?)
            .user_agent(concat!("cpumon/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = access.login_token.as_ref().map(|token| format!("Bearer {}", token.trim()));
        Ok(Self { agent: config.into(), base: base.to_owned(), authorization, silence })
    }

    pub fn url(&self) -> &str {
        &self.base
    }

    /// Sends a request; `None` if the answer is 204: nothing new.
    fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, impl AsRef<str>)],
    ) -> Result<Option<T>, ClientError> {
        Ok(self.ask_sized(path, query)?.map(|(answer, _)| answer))
    }

    /// Asks, and returns the length of the answer in bytes too.
    fn ask_sized<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, impl AsRef<str>)],
    ) -> Result<Option<(T, usize)>, ClientError> {
        let (url, response) = self.get(path, query)?;
        let Some((url, body)) = self.body(url, response)? else { return Ok(None) };
        // The error names the field that it does not understand, a text of the answer's own.
        let not_a_receiver = |error: serde_json::Error| ClientError::NotAReceiver {
            url,
            reason: escape(&error.to_string()).to_string(),
        };
        serde_json::from_slice(&body).map(|answer| Some((answer, body.len()))).map_err(not_a_receiver)
    }

    fn get(
        &self,
        path: &str,
        query: &[(&str, impl AsRef<str>)],
    ) -> Result<(String, ureq::http::Response<ureq::Body>), ClientError> {
        let url = format!("{}{path}", self.base);
        let pairs = query.iter().map(|(name, value)| (*name, value.as_ref()));
        let mut request = self.agent.get(&url).query_pairs(pairs);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.call().map_err(|error| self.unreachable(&error))?;
        Ok((url, response))
    }

    /// Downloads a file, which is read as it arrives.
    fn download(&self, path: &str, query: &[(&str, &str)]) -> Result<impl Read + use<>, ClientError> {
        let (url, response) = self.get(path, query)?;
        if response.status() == 200 {
            return Ok(Download { body: response.into_body().into_reader(), silence: self.silence });
        }
        self.body(url, response)?;
        Err(self.empty(path))
    }

    /// The error for an answer that is not of a receiver.
    fn wrong(&self, path: &str, reason: impl Into<String>) -> ClientError {
        ClientError::NotAReceiver { url: format!("{}{path}", self.base), reason: reason.into() }
    }

    fn empty(&self, path: &str) -> ClientError {
        self.wrong(path, "an empty answer")
    }

    fn unreachable(&self, error: &ureq::Error) -> ClientError {
        let reason = without_tls(error).unwrap_or_else(|| words(error, self.silence));
        ClientError::Unreachable { url: self.base.clone(), reason }
    }

    /// The answer to `url`, or why it is refused.
    fn body(
        &self,
        url: String,
        mut response: ureq::http::Response<ureq::Body>,
    ) -> Result<Option<(String, Vec<u8>)>, ClientError> {
        let status = response.status().as_u16();
        // A long poll that ran out of time: nothing is wrong.
        if status == 204 {
            return Ok(None);
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let not_a_receiver = |reason: String| ClientError::NotAReceiver { url: url.clone(), reason };
        let body = body.map_err(|error| not_a_receiver(words(&error, self.silence)))?;
        if matches!(status, 200 | 202) {
            return Ok(Some((url, body)));
        }
        match serde_json::from_slice::<api::Problem>(&body) {
            Ok(problem) if status == 401 => {
                let how = "give --login-token TOKEN or CPUMON_LOGIN_TOKEN; `cpumon login-token add NAME` on the receiver makes one";
                Err(ClientError::Refused {
                    url,
                    status,
                    detail: format!("{} To log in, {how}", escape(&problem.detail)),
                    error: None,
                })
            }
            Ok(problem) => {
                let text = format!("{} {}", problem.detail, problem.how);
                // A newer receiver may have errors that this program does not know.
                let error = problem.error.and_then(|error| serde_json::from_value(error).ok());
                // On one line: it must not pass for a message of this program.
                let detail = escape(text.trim_end()).to_string();
                Err(ClientError::Refused { url, status, detail, error })
            }
            Err(_) => Err(not_a_receiver(format!("HTTP status {status}"))),
        }
    }

    /// The answer to a GET request that always has one.
    pub(crate) fn must<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, impl AsRef<str>)],
    ) -> Result<T, ClientError> {
        self.ask(path, query)?.ok_or_else(|| self.empty(path))
    }

    /// The receiver's own state, its hosts included.
    pub fn status(&self) -> Result<status::Status, ClientError> {
        self.must(STATUS, NOTHING)
    }

    /// The hosts as a file, as the page's download.
    pub fn fleet_file(&self, query: &[(&str, &str)]) -> Result<Vec<u8>, ClientError> {
        let path = "/api/v1/fleet/export";
        let (url, response) = self.get(path, query)?;
        self.body(url, response)?.map(|(_, body)| body).ok_or_else(|| self.empty(path))
    }

    /// The file of a trace, which is read as it arrives.
    pub fn trace_file(&self, id: i64) -> Result<impl Read + use<>, ClientError> {
        self.download(&format!("/api/v1/traces/{id}/file"), NOTHING)
    }

    /// How a trace of a host can be had now.
    pub fn trace_sources(&self, host: HostId) -> Result<TraceSources, ClientError> {
        self.must(&format!("/api/v1/hosts/{host}/recording"), NOTHING)
    }

    /// Asks the receiver to record a trace of its own machine.
    pub fn record_trace(&self, host: HostId, length: Duration) -> Result<(), ClientError> {
        self.post(&format!("/api/v1/hosts/{host}/recording?seconds={}", length.as_secs()))
    }

    /// Asks a host for a trace of the last seconds.
    pub fn take_trace(&self, host: HostId) -> Result<(), ClientError> {
        self.post(&format!("/api/v1/hosts/{host}/traces"))
    }

    fn post(&self, path: &str) -> Result<(), ClientError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.post(&url);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.send_empty().map_err(|error| self.unreachable(&error))?;
        self.body(url, response).map(|_| ())
    }

    /// The newest interval of a host with a serial above `after`; waits for one up to [`LONG_POLL`].
    pub fn newer(&self, host: HostId, after: u64) -> Result<Option<Shown>, ClientError> {
        self.ask(&format!("/api/v1/hosts/{host}/interval?newer_than={after}"), NOTHING)
    }

    /// An interval of the host's past; `None` if there is none.
    pub fn seek(&self, host: HostId, to: Seek) -> Result<Option<Arc<Interval>>, ClientError> {
        let question = match to {
            Seek::At(ns) => format!("at={ns}"),
            Seek::Before(ns) => format!("before={ns}"),
            Seek::After(ns) => format!("after={ns}"),
        };
        match self.ask::<Shown>(&format!("/api/v1/hosts/{host}/interval?{question}"), NOTHING) {
            Ok(found) => Ok(found.map(|shown| shown.interval)),
            // The store has no interval there, which is not a failure. With an error for programs it is another 404, such as an unknown host.
            Err(ClientError::Refused { status: 404, error: None, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// An answer that is read as it arrives.
struct Download {
    body: ureq::BodyReader<'static>,
    silence: Duration,
}

impl Read for Download {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let described =
            |error: io::Error| io::Error::new(error.kind(), words(&ureq::Error::from(error), self.silence));
        self.body.read(bytes).map_err(described)
    }
}

fn words(error: &ureq::Error, silence: Duration) -> String {
    match error {
        ureq::Error::Timeout(Timeout::PerRead | Timeout::RecvResponse) => {
            format!("it sent nothing for {} s", silence.as_secs())
        }
        other => other.to_string(),
    }
}

/// The remedy where the other side answers without TLS.
fn without_tls(error: &ureq::Error) -> Option<String> {
    let is_plain = error.to_string().contains("InvalidContentType");
    is_plain.then(|| "it answers without TLS: write http:// in place of https://".to_owned())
}

/// TLS with the one certificate that the user trusts: receivers make their own.
fn tls_config(is_tls: bool, access: &AccessArgs) -> Result<TlsConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    if !is_tls {
        return Ok(builder.build());
    }
    let Some(path) = &access.ca else {
        return Err(
            "https needs the receiver's certificate: copy its http-cert.pem here and name it with --ca"
                .into(),
        );
    };
    let pem = std::fs::read(path).map_err(|error| format!("--ca {}: {error}", path.display()))?;
    let certificate =
        Certificate::from_pem(&pem).map_err(|error| format!("--ca {}: {error}", path.display()))?;
    Ok(builder.root_certs(RootCerts::from([certificate])).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_receivers_are_taken() {
        for url in ["http://127.0.0.1:3080", "http://localhost:3080/", "http://[::1]:3080"] {
            assert!(Client::new(url, &AccessArgs::default()).is_ok(), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:3080",
            "http://",
            "http://h/path",
            "ftp://x",
            "http://a b",
            "http://h:99999",
            "http://h:",
            "http://[::1]:x",
        ] {
            assert!(
                Client::new(url, &AccessArgs::default()).unwrap_err().contains("http://127.0.0.1:3080"),
                "{url}"
            );
        }
        assert!(Client::new("https://receiver:3080", &AccessArgs::default()).unwrap_err().contains("--ca"));
    }

    #[test]
    fn an_unreachable_receiver_is_reported_with_what_to_do() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Client::new(&url, &AccessArgs::default()).unwrap().status().unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("cpumon serve"), "{error}");
    }

    #[test]
    fn another_program_at_the_url_is_reported() {
        let (url, server) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let error = Client::new(&url, &AccessArgs::default()).unwrap().status().unwrap_err().to_string();
        server.join().unwrap();
        assert!(error.contains("does not answer like a cpumon receiver"), "{error}");
    }

    /// A server that answers one request with these bytes, and keeps the connection until the client closes it.
    fn answering(answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = Read::read(&mut stream, &mut request).unwrap();
            io::Write::write_all(&mut stream, answer).unwrap();
            while Read::read(&mut stream, &mut request).is_ok_and(|bytes| bytes > 0) {}
        });
        (url, server)
    }

    #[test]
    fn an_answer_ends_by_silence_and_not_by_how_long_it_takes() {
        let timeouts = Client::new("http://127.0.0.1:1", &AccessArgs::default()).unwrap().agent;
        let (all, per_call) = (timeouts.config().timeouts().global, timeouts.config().timeouts().per_call);
        assert_eq!((all, per_call, timeouts.config().timeouts().recv_body), (None, None, None));
        assert_eq!(timeouts.config().timeout_per_read(), Some(SILENCE));
        // A receiver lets a question about the past wait for up to 30 s before it reads anything.
        let past = Client::of_past("http://127.0.0.1:1", &AccessArgs::default()).unwrap().agent;
        let of_past = (past.config().timeouts().recv_response, past.config().timeout_per_read());
        assert_eq!(of_past, (Some(PAST_SILENCE), Some(PAST_SILENCE)));

        let (url, server) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        let silence = Duration::from_secs(1);
        let client = Client::with_silence(&url, &AccessArgs::default(), silence).unwrap();
        // Both ways to read an answer, each on a connection of its own.
        let mut bytes = Vec::new();
        let error = client.trace_file(1).unwrap().read_to_end(&mut bytes).unwrap_err().to_string();
        assert_eq!((&bytes[..], &error[..]), (&b"half"[..], "it sent nothing for 1 s"));
        drop(client);
        server.join().unwrap();
        let (url, server) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        let client = Client::with_silence(&url, &AccessArgs::default(), silence).unwrap();
        let error = client.status().unwrap_err().to_string();
        assert!(error.ends_with("it sent nothing for 1 s"), "{error}");
        drop(client);
        server.join().unwrap();
    }
}
