//! `cpumon report`: who used the CPU in a range. `cpumon find`: when and how much a program, a user or a container ever ran.

mod screen;
mod show;

pub(crate) use screen::for_screen;

use std::io::Write;

use anyhow::Context;
use cpumon_model::escape;
use cpumon_query::GroupBy;
use cpumon_query::report::{Found, Report, ReportFilter, ReportQuery, ReportSort};
use cpumon_query::text::Screen;
use cpumon_query::time::Page;

use crate::cli::{FindArgs, Format, ReportArgs};
use crate::columns::write_rows;
use crate::exit::{Outcome, Usage};
use crate::past::{Past, answered};
use crate::table::terminal_columns;
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
    let filter = filter_of(args.filter.as_deref(), args.within.as_ref());
    let (by, compare) = (args.by, args.compare);
    Ok(ReportQuery { since_ns, until_ns, by, sort, limit, compare, filter, ..ReportQuery::default() })
}

/// `cpumon report`.
pub fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let query = query(args)?;
    let past = Past::open(&args.past)?;
    let hosts = if args.all_hosts || !args.host.is_empty() {
        Ok(args.host.clone())
    } else {
        past.usual_host("a report").map(|host| vec![host.to_string()])
    };
    let made = hosts.and_then(|hosts| past.report(&hosts, &query));
    let Some(report) = answered(made)? else { return Ok(Outcome::DataMissing) };
    write(&report, args.format.get(), out).context("cannot write the report")?;
    Ok(past.end(Outcome::Done))
}

fn write(report: &Report, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
    let (columns, is_table) = (terminal_columns(), format == Format::Table);
    if is_table {
        show::head(report, columns, out)?;
    }
    write_rows(format, &report.fields(screen()), &report.rows, out)?;
    if is_table {
        show::notes(report, columns, out)?;
    }
    Ok(())
}

/// `cpumon find`.
pub fn find(args: &FindArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let past = Past::open(&args.past)?;
    let Some(found) = answered(past.find(&args.host, &args.text, Page::ALL))? else {
        return Ok(Outcome::DataMissing);
    };
    if found.rows.is_empty() && args.format.get() == Format::Table {
        writeln!(out, "nothing in the store matches {}", escape(&args.text))
            .context("cannot write what was found")?;
    } else {
        write_rows(args.format.get(), &Found::fields(screen()), &found.rows, out)
            .context("cannot write what was found")?;
    }
    let outcome = if found.rows.is_empty() { Outcome::NothingFound } else { Outcome::Done };
    Ok(past.end(outcome))
}

/// What this terminal shows: the locale says whether that is more than ASCII.
pub(crate) fn screen() -> Screen {
    Screen { clock: when::show_clock, is_ascii: !cpumon_tui::is_utf8_locale() }
}
