//! Questions about the past of hosts. `cpumon report`: who used the CPU in a range. `cpumon find`: when
//! and how much a program, a user or a container ever ran. `cpumon gaps`: the holes in the time of hosts, with their reasons.

use std::io::Write;

use anyhow::Context;
use cpumon_model::escape;
use cpumon_query::fields::{Field, Screen, decimal, name_text};
use cpumon_query::json::Gaps;
use cpumon_query::report::{Found, Report, ReportBy, ReportFilter, ReportQuery, ReportSort};
use cpumon_query::time::Page;
use cpumon_query::{Gap, GroupBy};
use cpumon_tui::{report_head, report_notes};

use crate::cli::{FindArgs, GapsArgs, OutputFormat, ReportArgs};
use crate::exit::{Outcome, Usage, say};
use crate::output::{paragraph, terminal_columns, write_rows};
use crate::past::{Past, answered};
use crate::when;

/// The filter of `--filter` and `--within`.
pub(crate) fn filter_of(text: Option<&str>, within: Option<&(GroupBy, String)>) -> ReportFilter {
    ReportFilter {
        text: text.filter(|text| !text.is_empty()).map(Into::into),
        within: within.map(|(by, name)| (*by, name.as_str().into())),
    }
}

fn query(args: &ReportArgs) -> Result<ReportQuery, Usage> {
    let (since_ns, until_ns) = args.range.range_ns()?;
    let usual = if args.compare.is_some() { ReportSort::Change } else { ReportSort::Cpu };
    let sort = args.sort.unwrap_or(usual);
    if sort == ReportSort::Change && args.compare.is_none() {
        return Err(Usage("--sort change needs --compare".to_owned()));
    }
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = filter_of(args.name.as_deref().or(args.filter.as_deref()), args.within.as_ref());
    let usual = if args.name.is_some() { ReportBy::Process } else { ReportBy::Program };
    let (by, compare) = (args.by.unwrap_or(usual), args.compare);
    Ok(ReportQuery { since_ns, until_ns, by, sort, limit, compare, filter, ..ReportQuery::default() })
}

pub fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let query = query(args)?;
    let past = Past::open(&args.past)?;
    let hosts = if args.all_hosts || !args.host.is_empty() {
        Ok(args.host.clone())
    } else {
        past.usual_host("a report").map(|host| vec![host.to_string()])
    };
    let made = hosts.and_then(|hosts| past.report(&hosts, &query));
    let Some(report) = answered(made)? else { return Ok(past.end(Outcome::DataMissing)) };
    let format = args.format.get();
    write(&report, format, out).context("cannot write the report")?;
    let Some(words) = report.unmatched() else { return Ok(past.end(Outcome::Done)) };
    if format != OutputFormat::Table {
        say(&format!("nothing in this range matches {words}"));
    }
    Ok(past.end(Outcome::NothingFound))
}

fn write(report: &Report, format: OutputFormat, out: &mut dyn Write) -> anyhow::Result<()> {
    let (columns, is_table) = (terminal_columns(), format == OutputFormat::Table);
    if is_table {
        report_head(report, when::show).iter().try_for_each(|text| paragraph(text, columns, out))?;
        writeln!(out)?;
    }
    write_rows(format, &report.fields(screen()), &report.rows, out)?;
    let notes = report_notes(report);
    if is_table && !notes.is_empty() {
        writeln!(out)?;
        notes.iter().try_for_each(|note| paragraph(note, columns, out))?;
    }
    Ok(())
}

pub fn find(args: &FindArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let past = Past::open(&args.past)?;
    let Some(found) = answered(past.find(&args.host, &args.text, Page::ALL))? else {
        return Ok(past.end(Outcome::DataMissing));
    };
    let nothing = format!("nothing in the store matches {}", escape(&args.text));
    if found.rows.is_empty() && args.format.get() == OutputFormat::Table {
        writeln!(out, "{nothing}").context("cannot write what was found")?;
    } else {
        write_rows(args.format.get(), &Found::fields(screen()), &found.rows, out)
            .context("cannot write what was found")?;
        if found.rows.is_empty() {
            say(&nothing);
        }
    }
    let outcome = if found.rows.is_empty() { Outcome::NothingFound } else { Outcome::Done };
    Ok(past.end(outcome))
}

/// Capabilities of this terminal: the locale says whether it shows more than ASCII.
pub(crate) fn screen() -> Screen {
    Screen { clock: when::show_clock, is_ascii: !cpumon_tui::is_utf8_locale() }
}

struct Hole<'g> {
    host: &'g Gaps,
    gap: &'g Gap,
}

pub(crate) fn gaps(args: &GapsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let past = Past::open(&args.past)?;
    let found = past.gaps(&args.host, args.range.time_range()?, Page::ALL);
    let Some(hosts) = answered(found)? else { return Ok(past.end(Outcome::DataMissing)) };
    let holes: Vec<Hole<'_>> =
        hosts.iter().flat_map(|host| host.gaps.iter().map(move |gap| Hole { host, gap })).collect();
    if holes.is_empty() && args.format.get() == OutputFormat::Table {
        writeln!(out, "no gaps").context("cannot write the gaps")?;
    } else {
        write_rows(args.format.get(), &hole_fields(), &holes, out).context("cannot write the gaps")?;
    }
    Ok(past.end(Outcome::Done))
}

/// A length of time for people: `1.3 s`, `12 min`.
fn length(ns: i64) -> String {
    let seconds = ns.max(0).unsigned_abs() / 1_000_000_000;
    if seconds < 120 { format!("{} s", decimal(ns as f64 / 1e9, 1)) } else { cpumon_tui::ago(seconds) }
}

fn hole_fields<'g>() -> Vec<Field<'static, Hole<'g>>> {
    let length_ns = |gap: &Gap| gap.end_wall_ns.saturating_sub(gap.begin_wall_ns);
    vec![
        Field::text("host", |hole: &Hole<'g>| Some((&*hole.host.name).into()))
            .titled("HOST", 0)
            .shows(|hole| name_text(&hole.host.name)),
        Field::text("host_id", |hole: &Hole<'g>| Some(hole.host.host.to_string().into())),
        Field::int("begin_ns", |hole: &Hole<'g>| hole.gap.begin_wall_ns)
            .titled("BEGIN", 0)
            .shows(|hole| when::show(hole.gap.begin_wall_ns))
            .or_short(|hole| when::show_clock(hole.gap.begin_wall_ns, false)),
        Field::int("end_ns", |hole: &Hole<'g>| hole.gap.end_wall_ns)
            .titled("END", 3)
            .shows(|hole| when::show(hole.gap.end_wall_ns)),
        Field::int("length_ns", move |hole: &Hole<'g>| length_ns(hole.gap))
            .titled("LENGTH", 0)
            .shows(move |hole| length(length_ns(hole.gap))),
        Field::int("wall_shift_ns", |hole: &Hole<'g>| hole.gap.wall_shift_ns),
        // 0: they were not counted.
        Field::count("missing_intervals", |hole: &Hole<'g>| {
            Some(hole.gap.intervals).filter(|count| *count > 0)
        })
        .titled("MISSING", 1),
        Field::text("reason", |hole: &Hole<'g>| Some((&*hole.gap.reason).into()))
            .titled("REASON", 2)
            .shows(|hole| escape(&hole.gap.reason).to_string()),
    ]
}
