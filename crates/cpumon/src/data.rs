//! The commands over a store: `export`, `import`, `sql`, `hosts --store`.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_export::{Compared, ExportError, ExportQuery, Format, Kind, NotStored, Progress, Report};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_model::{Utc, escape};
use cpumon_query::Answers;
use cpumon_query::fields::Field;
use cpumon_store::sql::Sql;
use cpumon_store::{HostRecord, Reader, StoreOptions, TimeRange, Writer, legacy};

use crate::charts;
use crate::cli;
use crate::cli::{ExportArgs, ExportPicture, HostsArgs, ImportArgs, SqlArgs};
use crate::client::{Client, ClientError};
use crate::columns::write_rows;
use crate::damage;
use crate::exit::{Outcome, Usage};
use crate::import_log;
use crate::json::write_json;
use crate::output::to_file;
use crate::past::explained;
use crate::paths::{explain, state_dir, store_for_writing};
use crate::stdout::stdout;
use crate::table::name_text;
use crate::when::{self, Between};

/// Time between two updates of the progress line.
const SHOW_EVERY: Duration = Duration::from_millis(200);

fn query(args: &ExportArgs) -> anyhow::Result<ExportQuery> {
    let kind = args.kind.context("export needs a KIND")?;
    let (since_ns, until_ns) = args.range.range_ns()?;
    let compared = compared(kind, args)?;
    args.check_parts(kind)?;
    let interval_ns = args.interval.map(|interval| u64::try_from(interval.as_nanos())).transpose();
    Ok(ExportQuery {
        kind,
        format: match (args.legacy, args.wanted_format()?) {
            (Some(year), _) => Format::Legacy(year),
            (None, format) => cli::Format::from(format).file().unwrap_or_default(),
        },
        host: args.host.clone(),
        since_ns,
        until_ns,
        process: args.process.clone(),
        interval_ns: interval_ns.context("--interval is too long")?,
        group_by: args.by.unwrap_or_default(),
        pivot_value: args.value.unwrap_or_default(),
        only_active: args.active,
        compared,
    })
}

/// The two ranges of a comparison, which takes no other range; other kinds have none.
fn compared(kind: Kind, args: &ExportArgs) -> anyhow::Result<Option<Compared>> {
    let of = |between: Between| TimeRange::new(between.since.wall_ns, between.until.wall_ns);
    let wrong = |text: &str| Err(Usage(text.to_owned()).into());
    match (kind, args.before, args.after) {
        (Kind::Compare, Some(before), Some(after)) => {
            if args.range.is_given() || args.interval.is_some() {
                return wrong(
                    "`export compare` takes --before and --after, not --since, --until or --interval",
                );
            }
            Ok(Some(Compared { before: of(before), after: of(after) }))
        }
        (Kind::Compare, ..) => wrong("`export compare` needs two ranges: --before 3h..2h --after 1h..now"),
        (_, None, None) => Ok(None),
        _ => wrong("--before and --after are for `cpumon export compare`"),
    }
}

/// `cpumon export`.
pub fn export(args: &ExportArgs) -> anyhow::Result<Outcome> {
    if let Some(ExportPicture::Chart(args)) = &args.picture {
        return charts::export(args);
    }
    let query = query(args)?;
    let path = cli::file_of(args.output.as_deref());
    if query.format == Format::Parquet && path.is_none() && io::stdout().is_terminal() {
        return Err(Usage("Parquet is binary; give a file with -o".to_owned()).into());
    }
    // The progress line and an export on the same terminal would overwrite each other.
    let mut bar = ProgressLine::new(path.is_some() || !io::stdout().is_terminal());
    let written = if let Some(client) = args.past.client()? {
        let report = written(path, |out| client.export(&query, out));
        report.map(|report| damage::report_of_receiver(&client, judge(query.kind, &report)))
    } else {
        let reader = Reader::open(&args.past.store.path()).map_err(explain)?;
        let detail = format!("host {}", query.host.as_deref().unwrap_or("any"));
        let audit = AuditLog::in_dir(&state_dir(None, Some(reader.path())));
        audit.note(AuditEvent::Exported, &this_user(), query.kind.name(), &detail);
        let report = written(path, |out| {
            cpumon_export::export(&reader, &query, out, &mut |progress| bar.show(progress))
        });
        bar.clear();
        report.map(|report| damage::report(&reader, judge(query.kind, &report)))
    };
    match written {
        // The reader closed the output (`cpumon export … | head`): it has what it wanted.
        Err(error) if error.is_broken_pipe() => Ok(Outcome::Done),
        Err(error @ (ExportError::ManyHosts { .. } | ExportError::NoLegacyLayout { .. })) => {
            Err(Usage(error.to_string()).into())
        }
        Err(error) if is_refused_question(&error) => Err(Usage(error.to_string()).into()),
        written => Ok(written?),
    }
}

/// Writes the file that appears when it is complete, else to standard output.
fn written(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> Result<Report, ExportError>,
) -> Result<Report, ExportError> {
    match path {
        Some(path) => to_file(path, |file| write(file).map_err(|error| file.with_path(error))),
        None => write(&mut stdout()),
    }
}

/// Whether a receiver refuses what is asked for.
fn is_refused_question(error: &ExportError) -> bool {
    let ExportError::Receiver(error) = error else { return false };
    matches!(error.downcast_ref(), Some(ClientError::Refused { status: 400, .. }))
}

/// `cpumon sql`.
pub fn sql(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.query.trim().is_empty() {
        return Err(Usage("the SQL statement is empty".to_owned()).into());
    }
    let session = Sql::open(&args.store.path()).map_err(explain)?;
    match cpumon_export::sql(&session, &args.query, args.format.get().file(), out) {
        Err(error) if !error.is_broken_pipe() => Err(error.into()),
        _ => Ok(damage::report_of(&session.damage(), session.path(), Outcome::Done)),
    }
}

/// Reports requested data that the export does not contain.
fn judge(kind: Kind, report: &Report) -> Outcome {
    let mut err = io::stderr();
    for NotStored { host, intervals, since_ns, reason } in &report.not_stored {
        let (host, reason, since) = (escape(host), escape(reason), when::show(*since_ns));
        let _ = writeln!(
            err,
            "cpumon: {intervals} intervals of {host} were not stored, the first after {since} ({reason})"
        );
    }
    if report.folded > 0 {
        let _ = writeln!(
            err,
            "cpumon: {} columns or groups did not fit and are summed up in (other)",
            report.folded
        );
    }
    if report.rows == 0 && report.intervals > 0 && kind == Kind::Cgroups {
        let _ = writeln!(err, "cpumon: no control group had a CPU limit or waited for a CPU");
    } else if report.rows == 0 {
        let _ = writeln!(
            err,
            "cpumon: the store has no data for this query; `cpumon hosts --stored` lists its hosts and times"
        );
        return Outcome::DataMissing;
    }
    if report.not_stored.is_empty() { Outcome::Done } else { Outcome::DataMissing }
}

/// `exporting: 42 %, 12345 rows`, on a terminal only, over itself.
struct ProgressLine {
    is_on: bool,
    next: Instant,
    is_shown: bool,
}

impl ProgressLine {
    fn new(wanted: bool) -> Self {
        Self {
            is_on: wanted && io::stderr().is_terminal(),
            next: Instant::now() + SHOW_EVERY,
            is_shown: false,
        }
    }

    fn show(&mut self, progress: Progress) {
        if !self.is_on || Instant::now() < self.next {
            return;
        }
        (self.next, self.is_shown) = (Instant::now() + SHOW_EVERY, true);
        let part = progress.ratio.map_or_else(String::new, |ratio| format!("{:.0} %, ", ratio * 100.0));
        let _ = write!(io::stderr(), "\r\x1b[Kexporting: {part}{} rows", progress.rows);
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// `cpumon import`.
pub fn import(args: &ImportArgs) -> anyhow::Result<Outcome> {
    let path = store_for_writing(args.store.as_deref());
    if args.file.is_dir() {
        if args.host.is_some() || args.time_zone.is_some() {
            let text = "--host and --time-zone are for databases of the original receiver; a recording contains both";
            return Err(Usage(text.to_owned()).into());
        }
        return import_log::import(&args.file, &mut open_writer(&path)?);
    }
    let zone = args.time_zone.as_deref().map(str::parse).transpose();
    let zone = zone.map_err(|error: legacy::ImportError| Usage(error.to_string()))?.unwrap_or_default();
    let options = legacy::ImportOptions { host: args.host.clone(), zone };
    // Checked before the store is opened, so that a misspelled name does not create a store.
    if !args.file.exists() {
        return Err(legacy::ImportError::Open {
            path: args.file.clone(),
            source: io::Error::other("there is no such file or directory"),
        }
        .into());
    }
    let mut writer = open_writer(&path)?;
    let report = writer.import_legacy(&args.file, &options)?;
    let mut out = io::stdout().lock();
    for line in report.lines() {
        writeln!(out, "{line}").context("cannot write the report")?;
    }
    writeln!(out, "stored in {}", path.display()).context("cannot write the report")?;
    Ok(if report.is_complete() { Outcome::Done } else { Outcome::DataMissing })
}

/// Opens a store without limits: imported data is old, and must not be deleted because of its age.
fn open_writer(path: &Path) -> anyhow::Result<Writer> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        cpumon_files::create_dir(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let options =
        StoreOptions { max_age: None, minute_max_age: None, max_bytes: None, ..StoreOptions::default() };
    Writer::open(path, &options).context("cannot open the store")
}

/// `cpumon hosts --stored`, and `--store FILE`.
pub fn hosts(args: &HostsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let records = match &args.store {
        Some(path) => Reader::open(path).map_err(explain)?.hosts()?,
        None => Client::new(&args.url, &args.access).map_err(Usage)?.hosts().map_err(explained)?,
    };
    let format = args.format.get();
    if format == cli::Format::Json {
        let rows: Vec<serde_json::Value> = records
            .iter()
            .map(|record| {
                serde_json::json!({
                    "id": record.info.host.to_string(),
                    "hostname": record.info.hostname,
                    "trust": record.trust.name(),
                    "kernel": record.info.kernel,
                    "agent": record.info.agent,
                    "first_wall_ns": record.first_wall_ns,
                    "last_wall_ns": record.last_wall_ns,
                })
            })
            .collect();
        write_json(&serde_json::json!({ "hosts": rows }), out)?;
    } else {
        write_rows(format, &host_fields(), &records, out).context("cannot write the hosts")?;
    }
    Ok(Outcome::Done)
}

fn host_fields() -> Vec<Field<'static, HostRecord>> {
    let utc = |ns: Option<i64>| Some(Utc(ns?).to_string().into());
    let moment = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), when::show);
    vec![
        Field::text("id", |host: &HostRecord| Some(host.info.host.to_string().into())),
        Field::text("hostname", |host: &HostRecord| Some((&*host.info.hostname).into()))
            .titled("HOST", 0)
            .shows(|host| name_text(&host.info.hostname)),
        Field::shown("ID", 3, |host: &HostRecord| host.info.host.to_string()).whole(),
        Field::text("trust", |host: &HostRecord| Some(host.trust.name().into())).titled("TRUST", 1).whole(),
        Field::text("kernel", |host: &HostRecord| Some((&*host.info.kernel).into())),
        Field::text("agent", |host: &HostRecord| Some((&*host.info.agent).into())),
        Field::text("first_utc", move |host: &HostRecord| utc(host.first_wall_ns))
            .titled("FIRST", 2)
            .right()
            .shows(move |host| moment(host.first_wall_ns)),
        Field::int("first_ns", |host: &HostRecord| host.first_wall_ns),
        Field::text("last_utc", move |host: &HostRecord| utc(host.last_wall_ns))
            .titled("LAST", 0)
            .right()
            .shows(move |host| moment(host.last_wall_ns)),
        Field::int("last_ns", |host: &HostRecord| host.last_wall_ns),
    ]
}
