//! Commands about a store itself: `cpumon sql`, `cpumon store check` and `backup`, `cpumon hosts --stored` (also of a receiver's store), and
//! `cpumon hosts forget`, which works also while a receiver writes it.

use std::collections::HashMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_model::{HostId, Utc, escape};
use cpumon_query::Answers;
use cpumon_query::fields::{Field, name_text};
use cpumon_store::sql::Sql;
use cpumon_store::{CheckReport, HostRecord, LostRows, Reader, forget_host};
use serde_json::{Value, json};

use crate::cli::{ForgetArgs, HostsArgs, OutputFormat, SqlArgs, StoreBackupArgs, StoreCheckArgs};
use crate::client::Client;
use crate::exit::{Outcome, Signals, Usage, say};
use crate::output::{write_document, write_json, write_rows};
use crate::past::{explained, hole_line, host_names, report_damage_of};
use crate::paths::{explain, state_dir, store_for_reading};
use crate::when;

pub(crate) fn sql(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.query.trim().is_empty() {
        return Err(Usage("the SQL statement is empty".to_owned()).into());
    }
    let session = Sql::open(&args.store.path()).map_err(explain)?;
    match cpumon_export::sql(&session, &args.query, args.format.get().file(), out) {
        Err(error) if !error.is_broken_pipe() => Err(error.into()),
        _ => Ok(report_damage_of(&session.damage(), session.path(), Outcome::Done)),
    }
}

/// Most holes that are printed; JSON has all.
const SHOWN: usize = 100;

pub(crate) fn check(args: &StoreCheckArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let checked = cpumon_store::check(&args.file, args.salvage.as_deref(), &Arc::clone(signals.stop()));
    // The copy can be read where the list of hosts of the original cannot.
    let read = args.salvage.as_deref().unwrap_or(&args.file);
    let copied = args.salvage.as_ref().map(|to| format!("copied     what can be read to {}", to.display()));
    end_check(&signals, checked, &Checked { file: &args.file, read, copied, format: args.format.get() }, out)
}

pub(crate) fn back_up(args: &StoreBackupArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let checked = cpumon_store::back_up(&args.file, &args.to, &Arc::clone(signals.stop()));
    let copied = Some(format!("copied     {} as it was", args.file.display()));
    let checked_file = Checked { file: &args.to, read: &args.to, copied, format: args.format.get() };
    end_check(&signals, checked, &checked_file, out)
}

/// What was checked, and how that is written.
struct Checked<'a> {
    file: &'a Path,
    /// Where names of hosts are read.
    read: &'a Path,
    /// The last line, if something was copied.
    copied: Option<String>,
    format: OutputFormat,
}

fn end_check(
    signals: &Signals,
    checked: cpumon_store::Result<CheckReport>,
    of: &Checked<'_>,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if signals.stop().load(Ordering::Relaxed) {
        return Ok(signals.outcome());
    }
    let report = checked?;
    match of.format {
        OutputFormat::Table => {
            let names = host_names(of.read);
            write_report(&report, of.file, &names, out).context("cannot write the report")?;
            of.copied.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        format => write_document(&document(&report), format, out)?,
    }
    Ok(if report.is_sound() { Outcome::Done } else { Outcome::DataMissing })
}

fn write_report(
    report: &CheckReport,
    path: &Path,
    names: &HashMap<HostId, String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = |table: &str| report.rows.get(table).copied().unwrap_or(0);
    let state = if report.is_sound() { "sound" } else { "DAMAGED" };
    writeln!(out, "{state:<10} {}", path.display())?;
    writeln!(
        out,
        "read       {} hosts, {} chunks, {} fresh intervals",
        rows("host"),
        rows("chunk"),
        rows("interval")
    )?;
    for line in report.pages.iter().flat_map(|text| text.lines()) {
        writeln!(out, "file       {}", escape(line))?;
    }
    for hole in report.damage.holes.iter().take(SHOWN) {
        writeln!(out, "hole       {}", hole_line(hole, names))?;
    }
    let more = report.damage.more + report.damage.holes.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        writeln!(out, "hole       and {more} more")?;
    }
    for LostRows { table, rows, ranges, detail } in &report.lost {
        let mut what = vec![format!("{rows} rows cannot be read")];
        if *ranges > 0 {
            what.push(format!("an unknown number of rows is missing (ranges: {ranges})"));
        }
        if !detail.is_empty() {
            what.push(escape(detail).to_string());
        }
        writeln!(out, "table      {table}: {}", what.join("; "))?;
    }
    Ok(())
}

fn document(report: &CheckReport) -> Value {
    let holes: Vec<_> = report
        .damage
        .holes
        .iter()
        .map(|hole| {
            json!({
                "host": hole.host.to_string(),
                "first_end_ns": hole.first_end_wall_ns,
                "last_end_ns": hole.last_end_wall_ns,
                "intervals": hole.intervals,
                "detail": hole.detail,
            })
        })
        .collect();
    let lost: Vec<_> = report
        .lost
        .iter()
        .map(|lost| json!({ "table": lost.table, "rows": lost.rows, "ranges": lost.ranges, "detail": lost.detail }))
        .collect();
    json!({
        "is_sound": report.is_sound(),
        "rows": report.rows,
        "pages": report.pages,
        "holes": holes,
        "more_holes": report.damage.more,
        "lost": lost,
    })
}

/// `cpumon hosts --stored`, and `--store FILE`.
pub(crate) fn hosts(args: &HostsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let records = match &args.store {
        Some(path) => Reader::open(path).map_err(explain)?.hosts()?,
        None => Client::new(&args.url, &args.access).map_err(Usage)?.hosts().map_err(explained)?,
    };
    if records.is_empty() {
        say("the store holds no host");
    }
    let format = args.format.get();
    if format == OutputFormat::Json {
        let rows: Vec<Value> = records
            .iter()
            .map(|record| {
                json!({
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
        write_json(&json!({ "hosts": rows }), out)?;
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

/// A receiver removes most hosts at once; one with months of data takes it longer, beside storing.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn forget(args: &ForgetArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = store_for_reading(args.place.store.as_deref());
    let reader = Reader::open(&path).map_err(explain)?;
    let host = reader.find_only_host(&args.host)?;
    drop(reader);
    let named = format!("{} ({})", escape(&host.info.hostname), host.info.host);
    if !args.yes {
        confirm(&format!("Remove {named} and {} from {}?", data_of(&host), path.display()))?;
    }
    let is_done = forget_host(&path, host.info.host, TIMEOUT).map_err(explain)?;
    let audit = AuditLog::in_dir(&state_dir(args.place.state.as_deref(), Some(&path)));
    audit.note(AuditEvent::HostForgotten, &this_user(), &named, &path.display().to_string());
    let result = if is_done {
        format!("removed {named}; if it still sends, it is recorded as a new host")
    } else {
        format!("the receiver is removing {named}; this takes a while because it has much data")
    };
    writeln!(out, "{result}").context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// The host's data, for the question.
fn data_of(host: &HostRecord) -> String {
    match (host.first_wall_ns, host.last_wall_ns) {
        (Some(first), Some(last)) => {
            format!("all of its data from {} to {}", when::show(first), when::show(last))
        }
        _ => "what is left of its data".to_owned(),
    }
}

fn confirm(question: &str) -> anyhow::Result<()> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Usage(
            "hosts forget without a terminal needs --yes: removed data cannot be restored".to_owned(),
        )
        .into());
    }
    eprint!("{question} This cannot be undone. [y/N] ");
    let mut answer = String::new();
    input.lock().read_line(&mut answer).context("cannot read the answer")?;
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was removed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cpumon_store::{Damage, DamageReport};

    use super::*;

    #[test]
    fn a_report_names_what_is_damaged_and_is_safe_to_print() {
        let mut report = CheckReport { rows: [("chunk".to_owned(), 5)].into(), ..CheckReport::default() };
        let text = |report: &CheckReport| {
            let mut out = Vec::new();
            write_report(report, Path::new("s.db"), &HashMap::new(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&report), "sound      s.db\nread       0 hosts, 5 chunks, 0 fresh intervals\n");
        report.pages = vec!["Tree 5 page 9\nrow \u{1b}[2J".to_owned()];
        report.damage =
            DamageReport { holes: vec![Damage::default(); 120], more: 2, ..DamageReport::default() };
        report.lost = vec![LostRows { table: "thread".into(), rows: 3, ranges: 1, detail: String::new() }];
        let text = text(&report);
        for expected in [
            "DAMAGED    s.db\n",
            "file       row \\x1b[2J\n",
            "hole       and 22 more\n",
            "table      thread: 3 rows cannot be read; an unknown number of rows is missing (ranges: 1)\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(document(&report)["holes"].as_array().unwrap().len(), 120);
    }
}
