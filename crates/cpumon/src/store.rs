//! `cpumon store check`.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use cpumon_model::{HostId, escape};
use cpumon_store::{CheckReport, LostRows};

use crate::cli::{Format, StoreCheckArgs};
use crate::damage;
use crate::exit::Outcome;
use crate::json::write_json;
use crate::records::flattened;
use crate::signals::Signals;

/// Holes that are printed; JSON has all.
const SHOWN: usize = 100;

/// `cpumon store check`.
pub(crate) fn check(args: &StoreCheckArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let checked = cpumon_store::check(&args.file, args.salvage.as_deref(), &Arc::clone(signals.stop()));
    if signals.stop().load(Ordering::Relaxed) {
        return Ok(signals.outcome());
    }
    let report = checked?;
    // The copy can be read where the list of hosts of the original cannot.
    let names = damage::names(args.salvage.as_deref().unwrap_or(&args.file));
    match args.format.get() {
        Format::Json => write_json(&json(&report), out)?,
        Format::Jsonl => writeln!(out, "{}", serde_json::to_string(&json(&report))?)?,
        format @ (Format::Csv | Format::Parquet) => flattened(&json(&report)).write(format, out)?,
        Format::Table => {
            write_report(&report, &args.file, &names, out).context("cannot write the report")?;
            if let Some(salvage) = &args.salvage {
                writeln!(out, "copied     what can be read to {}", salvage.display())?;
            }
        }
    }
    Ok(if report.is_sound() { Outcome::Done } else { Outcome::DataMissing })
}

fn write_report(
    report: &CheckReport,
    path: &Path,
    names: &HashMap<HostId, String>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
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
        writeln!(out, "hole       {}", damage::line(hole, names))?;
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

fn json(report: &CheckReport) -> serde_json::Value {
    let holes: Vec<_> = report
        .damage
        .holes
        .iter()
        .map(|hole| {
            serde_json::json!({
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
        .map(|lost| serde_json::json!({ "table": lost.table, "rows": lost.rows, "ranges": lost.ranges, "detail": lost.detail }))
        .collect();
    serde_json::json!({
        "is_sound": report.is_sound(),
        "rows": report.rows,
        "pages": report.pages,
        "holes": holes,
        "more_holes": report.damage.more,
        "lost": lost,
    })
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
        report.damage = DamageReport { holes: vec![Damage::default(); 120], more: 2, nameless: 0 };
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
        assert_eq!(json(&report)["holes"].as_array().unwrap().len(), 120);
    }
}
