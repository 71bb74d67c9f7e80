//! `cpumon report`: who used the CPU in a range. `cpumon find`: when and how much a program, a user or a container ever ran.

mod screen;
mod show;

pub(crate) use screen::for_screen;

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_model::escape;
use cpumon_query::history::History;
use cpumon_query::report::{self, Found, Report, ReportFilter, ReportQuery, ReportSort};
use cpumon_query::text::Screen;
use cpumon_query::time::Page;
use cpumon_query::{GroupBy, QueryError};
use cpumon_store::Reader;

use crate::cli::{FindArgs, Format, ReportArgs};
use crate::columns::write_rows;
use crate::damage;
use crate::exit::{Outcome, Usage};
use crate::paths::explain;
use crate::table::terminal_columns;
use crate::when;

/// What is wrong with a question is wrong usage, with what to do about it; no data is reported and ends with code 3.
fn answered<T>(result: Result<T, QueryError>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ QueryError::NoData { .. }) => {
            // Standard error may be closed; the exit code still reports missing data.
            let _ = writeln!(io::stderr(), "cpumon: {}", error.with_clock(&when::show));
            Ok(None)
        }
        Err(QueryError::Store(error)) => Err(explain(error)),
        Err(error) => Err(explained(error)),
    }
}

/// Wrong questions are wrong usage here, with what to do about them. Moments are in the time zone of this machine.
pub(crate) fn explained(error: QueryError) -> anyhow::Error {
    if !error.is_usage() {
        return error.into();
    }
    let hint = error.hint().map_or_else(String::new, |hint| format!(". {hint}"));
    Usage(format!("{}{hint}", error.with_clock(&when::show))).into()
}

fn open(path: &Path) -> anyhow::Result<History> {
    // A missing store is reported with what to do about it.
    drop(Reader::open(path).map_err(explain)?);
    Ok(History::of_store(path)?)
}

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
    let store = args.store.path();
    let history = open(&store)?;
    let made = report::hosts(&history, &args.host, args.all_hosts)
        .and_then(|hosts| report::report(&history, &hosts, &query));
    let Some(report) = answered(made)? else { return Ok(Outcome::DataMissing) };
    write(&report, args.format.get(), out).context("cannot write the report")?;
    Ok(damage::report_of(&history.damage(), &store, Outcome::Done))
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
    let store = args.store.path();
    let history = open(&store)?;
    let found = report::hosts(&history, &args.host, args.host.is_empty())
        .and_then(|hosts| report::find(&history, &hosts, &args.text, Page::ALL));
    let Some(found) = answered(found)? else { return Ok(Outcome::DataMissing) };
    if found.rows.is_empty() && args.format.get() == Format::Table {
        writeln!(out, "nothing in the store matches {}", escape(&args.text))
            .context("cannot write what was found")?;
    } else {
        write_rows(args.format.get(), &Found::fields(screen()), &found.rows, out)
            .context("cannot write what was found")?;
    }
    let outcome = if found.rows.is_empty() { Outcome::NothingFound } else { Outcome::Done };
    Ok(damage::report_of(&history.damage(), &store, outcome))
}

/// What this terminal shows: the locale says whether that is more than ASCII.
pub(crate) fn screen() -> Screen {
    Screen { clock: when::show_clock, is_ascii: !cpumon_tui::is_utf8_locale() }
}

#[cfg(test)]
mod tests {
    use cpumon_query::{ProcessChoice, TaskKey};

    use super::*;

    /// They were in UTC beside tables in local time.
    #[test]
    fn a_wrong_question_is_answered_in_the_time_zone_of_this_machine() {
        let key = TaskKey::Process(cpumon_model::ProcessKey { pid: 7, start_ns: 9 });
        let began_ns = Some(1_795_000_000_000_000_000);
        let newest = vec![ProcessChoice { key, began_ns, run_ns: 0, command: String::new() }];
        let error = explained(QueryError::WhichProcess { process: "sh".into(), count: 1, newest });
        let began = format!(
            "(began {}, 0.000 s of CPU). Use one of these keys.",
            when::show(1_795_000_000_000_000_000)
        );
        assert!(error.is::<Usage>() && error.to_string().ends_with(&began), "{error}");
    }
}
