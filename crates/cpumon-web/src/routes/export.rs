//! Exports as downloads that are made while they are sent, with the bytes of `cpumon export`; and, for them and all other downloads, the
//! command lines for a POSIX shell that write the same files.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_export::{ExportError, ExportQuery, Format, Kind, LegacyYear, PivotValue, QueryPart};
use cpumon_files::AuditEvent;
use cpumon_model::{Utc, with_causes};
use cpumon_query::report::CompareRanges;
use cpumon_query::{GroupBy, Reader};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::params::{Asked, Between, HostProblems, PathPart, bad, choice};
use crate::app::SharedApp;
use crate::login::Peer;
use crate::problem::Problem;
use crate::readers::{Lease, ReaderProgress, Turn};

/// Pieces of a file that wait for the network.
const MAX_WAITING: usize = 4;
const PIECE_BYTES: usize = 64 << 10;

/// The command line that gives the same file.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ExportCommand {
    /// For a POSIX shell. One that names a store is to be run where the store is.
    command: String,
}

/// A command line being written.
pub(super) struct CommandLine(Vec<String>);

impl CommandLine {
    /// `cpumon` and its subcommands.
    pub(super) fn new(subcommands: &[&str]) -> Self {
        Self(std::iter::once(&"cpumon").chain(subcommands).map(|word| quoted(word)).collect())
    }

    pub(super) fn option(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            // The form with `=` also takes values that begin with a dash.
            self.0.push(quoted(&format!("--{name}={value}")));
        }
    }

    /// A binary format needs a file, because no terminal takes it.
    pub(super) fn format(&mut self, format: &str, what: &str) {
        self.option("format", Some(format.to_owned()));
        self.option("output", (format == "parquet").then(|| format!("cpumon-{what}.parquet")));
    }

    pub(super) fn flag(&mut self, name: &str) {
        self.0.push(format!("--{name}"));
    }
}

impl From<CommandLine> for ExportCommand {
    fn from(line: CommandLine) -> Self {
        Self { command: line.0.join(" ") }
    }
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else if word.contains(char::is_control) {
        // A terminal acts on them while they are pasted, quoted or not: printf makes them.
        format!("\"$(printf %b '{}')\"", word.chars().map(spelled).collect::<String>())
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A character for `printf %b` between apostrophes.
fn spelled(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => {
            let octal = |byte| format!("\\0{byte:03o}");
            c.encode_utf8(&mut [0; 4]).bytes().map(octal).collect::<Vec<_>>().concat()
        }
        c => c.to_string(),
    }
}

/// A body that the browser keeps as `cpumon-WHAT.csv`. `what` is one of few words of ours.
pub(super) fn as_download(what: &str, format: Format, body: Body) -> Response {
    let kind = match format {
        Format::Jsonl => "application/jsonl",
        Format::Json => "application/json",
        Format::Parquet => "application/vnd.apache.parquet",
        Format::Csv => "text/csv; charset=utf-8",
    };
    let ending = format.name();
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"cpumon-{what}.{ending}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only this host, by name or id.
    host: Option<String>,
    /// Start: intervals that end after this, ns since the UNIX epoch.
    since: Option<i64>,
    /// End: intervals that end at this or before.
    until: Option<i64>,
    /// Only processes of this name, or of this pid.
    process: Option<String>,
    /// Adds up over this long instead of each interval, ns.
    #[param(minimum = 1)]
    interval_ns: Option<u64>,
    /// First span of a comparison, `SINCE..UNTIL` in ns since the UNIX epoch.
    #[param(value_type = Option<String>, pattern = r"^-?\d+\.\.-?\d+$")]
    before: Option<Between>,
    /// Second span of a comparison, likewise.
    #[param(value_type = Option<String>, pattern = r"^-?\d+\.\.-?\d+$")]
    after: Option<Between>,
    /// Columns of a pivot, or rows of a comparison: `name`, `process`, `program`, `user`, `service`, `container`,
    /// `cgroup`.
    by: Option<String>,
    /// Values of a pivot: `user`, `system`, `run`, `pct`.
    value: Option<String>,
    /// `csv` (the default), `jsonl`, `json` or `parquet`.
    format: Option<String>,
    /// For `threads`: `true` leaves out threads that only waited, which have neither run time nor run delay nor switches.
    active: Option<bool>,
    /// The layout of the original receiver instead: `2012` or `2013`.
    legacy: Option<String>,
    /// `true`: the file is followed by a report of missing data, for programs: JSON, then its length as 32 bits,
    /// little-endian.
    report: Option<bool>,
}

impl Wanted {
    fn query(&self, kind: &str) -> Result<ExportQuery, Problem> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            return Err(bad(format!("since={since} is not before until={until}.")));
        }
        if self.interval_ns == Some(0) {
            return Err(bad("interval_ns=0 is no interval."));
        }
        let legacy = self.legacy.as_deref().map(str::parse::<LegacyYear>);
        let legacy = legacy.transpose().map_err(|error| bad(error.to_string()))?;
        // The original's layouts are texts with separators, whatever the format.
        let format = if legacy.is_some() { Format::Csv } else { choice(self.format.as_deref())? };
        let kind = kind.parse::<Kind>().map_err(|error| bad(error.to_string()))?;
        let ranges = self.before.as_ref().zip(self.after.as_ref());
        let compared = ranges.map(|(before, after)| CompareRanges { before: before.0, after: after.0 });
        if kind == Kind::Compare {
            if compared.is_none() {
                return Err(bad("A comparison needs two spans: before=SINCE..UNTIL and after=SINCE..UNTIL."));
            }
            if self.since.is_some() || self.until.is_some() || self.interval_ns.is_some() {
                return Err(bad("A comparison has two spans, and no since, until or interval_ns."));
            }
        } else if self.before.is_some() || self.after.is_some() {
            return Err(bad("Only a comparison has before and after."));
        }
        self.check_parts(kind)?;
        Ok(ExportQuery {
            kind,
            format,
            legacy,
            host: self.host.clone(),
            since_ns: self.since,
            until_ns: self.until,
            process: self.process.clone(),
            interval_ns: self.interval_ns,
            group_by: choice::<GroupBy>(self.by.as_deref())?,
            pivot_value: choice::<PivotValue>(self.value.as_deref())?,
            only_active: self.active.unwrap_or(false),
            compared,
        })
    }

    /// Refuses options without effect.
    fn check_parts(&self, kind: Kind) -> Result<(), Problem> {
        let parts = [
            ("by", self.by.is_some(), QueryPart::GroupBy),
            ("value", self.value.is_some(), QueryPart::PivotValue),
            ("process", self.process.is_some(), QueryPart::Process),
            ("interval_ns", self.interval_ns.is_some(), QueryPart::Interval),
            ("active", self.active.is_some(), QueryPart::Active),
        ];
        let is_legacy = self.legacy.is_some();
        for (name, _, part) in parts.iter().filter(|(_, is_given, _)| *is_given) {
            if !part.kinds().contains(&kind) {
                return Err(bad(format!("{name} has no effect on {}.", kind.name())));
            }
            if is_legacy && !part.is_in_legacy() {
                return Err(bad(format!("{name} has no effect on the original's layouts.")));
            }
        }
        Ok(())
    }

    /// The command line that gives the same file.
    fn command(&self, kind: &str, store: &str) -> CommandLine {
        let mut line = CommandLine::new(&["export", kind]);
        line.option("store", Some(store.to_owned()));
        line.option("host", self.host.clone());
        line.option("since", self.since.map(|ns| Utc(ns).to_string()));
        line.option("until", self.until.map(|ns| Utc(ns).to_string()));
        line.option("before", self.before.as_ref().map(Between::for_shell));
        line.option("after", self.after.as_ref().map(Between::for_shell));
        line.option("process", self.process.clone());
        line.option("interval", self.interval_ns.map(length));
        line.option("by", self.by.clone());
        line.option("value", self.value.clone());
        if self.active == Some(true) {
            line.flag("active");
        }
        if let Some(format) = &self.format {
            line.format(format, kind);
        }
        line.option("legacy", self.legacy.clone());
        line
    }
}

/// `60s`, or ns where it is not whole seconds.
fn length(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) { format!("{}s", ns / 1_000_000_000) } else { format!("{ns}ns") }
}

/// The store's file, or why there is none.
pub(super) fn store_of(app: &SharedApp) -> Result<PathBuf, Problem> {
    app.options.store.clone().ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "This receiver keeps nothing, so there is nothing to export.")
            .how("Start it without --no-store.")
    })
}

/// A part of a file, or why there are no more.
type Piece = Result<Bytes, ExportError>;

/// Gives pieces to the network, waiting when it is slow.
struct Pieces {
    sender: mpsc::Sender<Piece>,
    piece: Vec<u8>,
    turn: Turn,
    runtime: Handle,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES)));
        self.turn.send(&self.runtime, &self.sender, Ok(piece))
    }
}

/// The rest of a file that is being sent.
struct ExportRest {
    first: Option<Bytes>,
    receiver: mpsc::Receiver<Piece>,
    lease: Option<Extension<Lease>>,
    /// `None`: it has ended.
    progress: Option<Arc<ReaderProgress>>,
}

fn lost() -> ExportError {
    io::Error::new(io::ErrorKind::TimedOut, "its reader took too little, and another export had its turn")
        .into()
}

/// A body that is made while it is sent, one of few at once; an error breaks the transfer off, so that a truncated file
/// never seems complete. An error before the first byte is answered with its own status.
pub(super) async fn stream(
    app: &SharedApp,
    lease: Option<Extension<Lease>>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError> + Send + 'static,
) -> Result<Body, Problem> {
    let turn = app.exports.begin().await.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Other exports are running.")
            .how("Try again when they are done.")
    })?;
    let (progress, runtime) = (Arc::clone(turn.progress()), Handle::current());
    let (sender, mut receiver) = mpsc::channel(MAX_WAITING);
    tokio::task::spawn_blocking(move || {
        // Moved into this thread: the turn ends with the export, not with the request.
        let mut out = Pieces { sender, piece: Vec::new(), turn, runtime };
        let done = write(&mut out).and_then(|()| out.flush().map_err(ExportError::from));
        if let Err(error) = done
            && !error.is_broken_pipe()
        {
            // The client may be gone: then the error has no reader.
            let _ = out.turn.send(&out.runtime, &out.sender, Err(error));
        }
    });
    let first = match receiver.recv().await {
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(first)) => first,
        None => Bytes::new(),
    };
    let rest = ExportRest { first: Some(first), receiver, lease, progress: Some(progress) };
    let rest = unfold(rest, |rest| async move {
        let ExportRest { first, mut receiver, lease, progress } = rest;
        if let Some(Extension(lease)) = &lease {
            // This runs when the client has taken the piece before.
            lease.renew();
        }
        if let Some(first) = first {
            return Some((Ok(first), ExportRest { first: None, receiver, lease, progress }));
        }
        let progress = progress?;
        let (next, progress) = match receiver.recv().await {
            Some(next) => (next, Some(progress)),
            // Sends the rest of the buffer; a file that ends here must not seem complete.
            None if progress.is_lost() => (Err(lost()), None),
            None => return None,
        };
        if let Err(error) = &next {
            log::warn!("HTTP: an export broke off: {}", with_causes(error));
        }
        Some((next, ExportRest { first: None, receiver, lease, progress }))
    });
    Ok(Body::from_stream(rest))
}

/// Recorded data as a file, made while it is sent. If it cannot be finished, the transfer breaks off.
#[utoipa::path(get, path = "/api/v1/export/{kind}",
    params(("kind" = String, Path, description = "`processes`, `threads`, `cgroups`, `pivot`, `ledger` or `compare`."), Wanted),
    responses((status = 200, content((String = "text/csv"), (String = "application/jsonl"), (String = "application/json"), (String = "application/vnd.apache.parquet"))), HostProblems))]
pub(super) async fn export(
    State(app): State<SharedApp>,
    PathPart(kind): PathPart<String>,
    lease: Option<Extension<Lease>>,
    peer: Option<Extension<Peer>>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Response, Problem> {
    let (query, path) = (wanted.query(&kind)?, store_of(&app)?);
    let detail = format!("host {}", query.host.as_deref().unwrap_or("any"));
    let (format, has_report) = (query.format, wanted.report == Some(true));
    let past = Arc::clone(&app.past);
    let body = stream(&app, lease, move |out| {
        let reader = Reader::open(&path)?;
        let written = cpumon_export::export(&reader, &query, out, &mut |_| {});
        // Before its end: who has all of it asks what it lacks.
        past.add_damage(reader.damage());
        let report = written?;
        if has_report {
            report.write_behind(out)?;
        }
        Ok(())
    });
    let body = body.await?;
    app.note(peer, AuditEvent::Exported, &kind, &detail);
    // `kind` is one of a few words: it was parsed.
    Ok(as_download(&kind, format, body))
}

/// The command line that gives the same file as `/api/v1/export/{kind}`; requests that are refused there are refused
/// here.
#[utoipa::path(get, operation_id = "export_command", path = "/api/v1/export/{kind}/command",
    params(("kind" = String, Path, description = "`processes`, `threads`, `cgroups`, `pivot`, `ledger` or `compare`."), Wanted),
    responses((status = 200, body = ExportCommand), HostProblems))]
pub(super) async fn command(
    State(app): State<SharedApp>,
    PathPart(kind): PathPart<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<ExportCommand>, Problem> {
    let (query, store) = (wanted.query(&kind)?, store_of(&app)?);
    let line = wanted.command(&kind, &store.display().to_string());
    let check = move || cpumon_export::check(&Reader::open(&store)?, &query);
    let checked = tokio::task::spawn_blocking(check).await;
    checked.map_err(|error| Problem::fault(&error))??;
    Ok(Json(line.into()))
}
