//! Login tokens, and the login and TLS options of the web server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_model::escape;
use cpumon_web::{Tls, TokenFile, WebOptions};

use crate::cli::{LoginTokenAction, LoginTokenArgs, WebArgs};
use crate::exit::{Outcome, Usage};
use crate::paths::{state_dir, store_for_writing};
use crate::records::Records;
use crate::when;

/// A file beside the default store.
fn in_state_directory(name: &str) -> PathBuf {
    store_for_writing(None).with_file_name(name)
}

fn tokens(given: Option<&PathBuf>) -> TokenFile {
    TokenFile::new(given.cloned().unwrap_or_else(|| in_state_directory("login-tokens")))
}

/// `cpumon login-token`.
pub fn login_token(args: &LoginTokenArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let file = tokens(args.login_tokens.as_ref());
    // Beside the default store, as the tokens are: a receiver with another store reads these tokens too.
    let audit = AuditLog::in_dir(&state_dir(None, None));
    let mut say = |text: String| writeln!(out, "{text}").context("cannot write to standard output");
    match &args.action {
        LoginTokenAction::Add { label } => {
            let token = file.add(label)?;
            audit.note(AuditEvent::LoginTokenMade, &this_user(), label, "");
            say(token)?;
        }
        LoginTokenAction::Revoke { label } => {
            if !file.revoke(label)? {
                bail!("{} has no login token {:?}", file.path().display(), escape(label).to_string());
            }
            audit.note(AuditEvent::LoginTokenRevoked, &this_user(), label, "");
        }
        LoginTokenAction::List(format) => {
            let mut records = Records::new(&["label", "id", "created"]);
            for entry in file.list()? {
                let created_ns = i64::try_from(entry.created_s).unwrap_or(0).saturating_mul(1_000_000_000);
                records.push([escape(&entry.label).to_string(), entry.id, when::show(created_ns)]);
            }
            records.write(format.get(), out).context("cannot write the login tokens")?;
        }
    }
    Ok(Outcome::Done)
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

/// What people must know to get in, a line each.
pub fn start_lines(options: &WebOptions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(tls) = &options.tls {
        lines.push(format!("certificate SHA-256 {}", tls.fingerprint()));
        // Of the names that were given: a certificate of one's own need not have this machine's.
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
