//! [`Serving`]: starts a receiver with its HTTP server, and describes both in lines for people and programs. It also has
//! the options of both: measuring, storing, and access to the web server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use cpumon_agent::SamplerOptions;
use cpumon_files::directory_of;
use cpumon_model::{Probes, escape};
use cpumon_query::traces::{StoredTraces, TIMELINE_BYTES, Timelines};
use cpumon_receiver::{Frontend, Plan, Receiver};
use cpumon_store::StoreOptions;
use cpumon_web::{HttpServer, Tls, TokenFile, WebError, WebOptions};

use crate::access::{in_state_directory, tokens};
use crate::cli::{MeasureArgs, RetentionArgs, WebArgs};
use crate::exit::Usage;

pub fn store_options(retention: &RetentionArgs) -> StoreOptions {
    let (day, usual) = (Duration::from_hours(24), StoreOptions::default());
    let max_age = (retention.retain_days > 0).then(|| day.saturating_mul(retention.retain_days));
    StoreOptions {
        max_age,
        // Never before their samples: a range reads the sums of its whole minutes.
        minute_max_age: max_age.max(usual.minute_max_age).filter(|_| max_age.is_some()),
        max_bytes: (retention.retain_bytes > 0).then_some(retention.retain_bytes),
        ..usual
    }
}

/// The sampler's options; `probes` is the default of --probes.
pub fn sampler_options(measure: &MeasureArgs, probes: Probes) -> SamplerOptions {
    let source = measure.source.source_options(measure.interval, probes);
    SamplerOptions { source, max_cpu: measure.max_cpu, ..SamplerOptions::default() }
}

/// How a server at `http` lets people in: off loopback with login and TLS, always.
pub fn web_options(args: &WebArgs, http: SocketAddr) -> anyhow::Result<WebOptions> {
    if let Some(dir) = args.web_dir.as_ref().filter(|dir| !dir.is_dir()) {
        let say =
            format!("--web-dir {}: there is no such directory; `make page` makes web/dist", dir.display());
        return Err(Usage(say).into());
    }
    let is_near = http.ip().is_loopback();
    let mut names = args.http_name.clone();
    if !is_near {
        names.push(hostname());
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::load(certificate, key)?),
        _ if is_near => None,
        _ => Some(made_certificate(&names, http)?),
    };
    let login = (args.login || !is_near).then(|| tokens(args.login_tokens.as_ref()).path().to_owned());
    Ok(WebOptions { web_dir: args.web_dir.clone(), login, tls, names, ..WebOptions::default() })
}

/// The name of this machine; empty if it has none that is text.
fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A certificate of our own, made once, for the names and addresses by which this machine is reached.
fn made_certificate(names: &[String], http: SocketAddr) -> anyhow::Result<Tls> {
    let mut all: Vec<String> = vec!["localhost".into(), "127.0.0.1".into(), "::1".into()];
    all.extend(names.iter().filter(|name| !name.is_empty()).cloned());
    if !http.ip().is_unspecified() {
        all.push(http.ip().to_string());
    }
    let (certificate, key) = (in_state_directory("http-cert.pem"), in_state_directory("http-key.pem"));
    Ok(Tls::load_or_make(&certificate, &key, &all)?)
}

/// How to log in, a line for each fact.
fn login_lines(options: &WebOptions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(tls) = &options.tls {
        lines.push(format!("certificate SHA-256 {}", tls.fingerprint()));
        // Only the given names: a certificate of one's own need not have this machine's.
        let own = hostname();
        let given: Vec<String> = options.names.iter().filter(|name| **name != own).cloned().collect();
        let missing = tls.names_missing(&given);
        if !missing.is_empty() {
            lines.push(format!(
                "the certificate is not for {}: browsers refuse it there; one made here is made again, for all names, once http-cert.pem in the state directory is removed",
                escape(&missing.join(", "))
            ));
        }
    }
    if let Some(path) = &options.login {
        let count = TokenFile::new(path).list().map_or(0, |tokens| tokens.len());
        lines.push(match count {
            0 => "no user can log in yet; make a login token with: cpumon login-token add NAME".to_owned(),
            count => format!("{count} login tokens in {}", path.display()),
        });
    }
    lines
}

/// A running receiver and its HTTP server. Dropping it stops both.
pub struct Serving {
    receiver: Receiver,
    /// Address of the page and the API; `https` with TLS.
    http_url: String,
    /// Lines about access that people need.
    access: Vec<String>,
}

impl Serving {
    /// Starts the receiver, and HTTP at `http`; the store of HTTP is that of the plan.
    pub fn start(plan: &Plan, http: SocketAddr, web: WebOptions) -> anyhow::Result<Self> {
        let store = plan.store.as_ref().map(|(path, _)| path.clone());
        let timelines = store
            .clone()
            .map(|store| Arc::new(Timelines::new(Arc::new(StoredTraces { store }), TIMELINE_BYTES)));
        let web = WebOptions { store, timelines, ..web };
        let (scheme, access) = (if web.tls.is_some() { "https" } else { "http" }, login_lines(&web));
        // The login file is replaced as a whole, so the sandbox must allow its directory, not the file.
        let reads =
            web.login.iter().map(|path| directory_of(path).to_owned()).chain(web.web_dir.clone()).collect();
        let server = HttpServer::bind(http, web).map_err(|error| anyhow!("{error}{}", bind_hint(&error)))?;
        // The server's thread consumes it, so the parts that are used later are taken out before.
        let (address, shutdown) = (server.local_addr(), server.shutdown());
        let frontend = Frontend {
            address,
            reads,
            run: Box::new(move |hub| Ok(server.run(hub)?)),
            stop: Box::new(move || shutdown.stop()),
        };
        let receiver = Receiver::start(plan, frontend)?;
        Ok(Self { receiver, http_url: format!("{scheme}://{address}"), access })
    }

    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The settings of the receiver for people, a line each.
    pub fn start_lines(&self) -> Vec<String> {
        let state = &self.receiver.state;
        let status = state.status();
        let store = match self.receiver.store_path() {
            Some(path) => format!("store {}", path.display()),
            None => "store none: nothing is kept".to_owned(),
        };
        let measured = match &self.receiver.measured_by {
            Some(reason) => format!("measuring this machine by {reason}"),
            None => "not measuring this machine".to_owned(),
        };
        let tls = state.tls_address().map(|address| {
            format!("receiving on tls {address}; hosts that report there are authenticated: `cpumon token` prints the command that enrolls one")
        });
        let mut lines = vec![
            format!("cpumon {}, pid {}", status.version, status.pid),
            if self.receiver.receives_datagrams {
                format!("receiving on udp {}; {}", status.udp.join(", "), self.receiver.taken)
            } else {
                "receiving no datagrams (--no-udp)".to_owned()
            },
        ];
        lines.extend(tls);
        lines.extend(state.discovery_key().map(|key| {
            format!(
                "answering devices that search for a receiver (DNS-SD, udp 5353); this one's key is {key}"
            )
        }));
        lines.push(format!("answering on {}", self.http_url));
        lines.extend(self.access.iter().cloned());
        lines.extend([store, measured, format!("sandbox: {}", self.receiver.sandbox)]);
        lines
    }

    pub fn http_url(&self) -> &str {
        &self.http_url
    }

    /// One line for programs, with the addresses that it listens on.
    pub fn ready_line(&self) -> String {
        let state = &self.receiver.state;
        let (status, tls) = (state.status(), state.tls_address());
        let tls = tls.map_or_else(String::new, |address| format!(" tls={address}"));
        format!("ready udp={} http={}{tls} pid={}", status.udp.join(","), status.http, status.pid)
    }

    /// Stops every thread, writes the queue to the store, and returns the first error.
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(self.receiver.finish()?)
    }
}

/// The remedy for an address that cannot be listened on.
fn bind_hint(error: &WebError) -> &'static str {
    let WebError::Bind { error, .. } = error else { return "" };
    match error.kind() {
        ErrorKind::AddrInUse => "; another receiver may be running: choose another port with --http",
        ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE: choose another port with --http"
        }
        _ => "; choose another address with --http",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_stored_as_long_as_their_samples_at_least() {
        let days = |n: u32| Some(Duration::from_hours(24) * n);
        for (retain_days, samples, minutes) in [
            (0, None, None),
            (1, days(1), days(366)),
            (30, days(30), days(366)),
            (1000, days(1000), days(1000)),
        ] {
            let options = store_options(&RetentionArgs { retain_days, retain_bytes: 0, trace_bytes: 0 });
            let ages = (options.max_age, options.minute_max_age, options.hour_max_age);
            assert_eq!(ages, (samples, minutes, None), "{retain_days} days");
        }
    }
}
