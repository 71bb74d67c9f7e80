//! `cpumon report`: who used the CPU in a range. `cpumon find`: when and how much a program, a user or a container ever ran.

mod columns;
mod screen;
mod show;

pub(crate) use columns::{Column, Columns};
pub(crate) use screen::for_screen;

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_model::Value;
use cpumon_query::fields::{cells, names};
use cpumon_query::history::History;
use cpumon_query::report::{self, FOUND_FIELDS, ReportFilter, ReportQuery, ReportSort};
use cpumon_query::time::Page;
use cpumon_query::{GroupBy, QueryError};
use cpumon_store::Reader;

use crate::cli::{FindArgs, Format, ReportArgs};
use crate::damage;
use crate::exit::{Outcome, Usage};
use crate::paths::explain;
use crate::records::JsonArray;
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
    if args.format.get() == Format::Table {
        show::report(&report, &show::Terminal::of_terminal(terminal_columns()), out)
            .context("cannot write the report")?;
    } else {
        let fields = report.fields();
        write_rows(args.format.get(), &names(&fields), cells(&fields, &report.rows), out)?;
    }
    Ok(damage::report_of(&history.damage(), &store, Outcome::Done))
}

/// `cpumon find`.
pub fn find(args: &FindArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let store = args.store.path();
    let history = open(&store)?;
    let found = report::hosts(&history, &args.host, args.host.is_empty())
        .and_then(|hosts| report::find(&history, &hosts, &args.text, Page::ALL));
    let Some(found) = answered(found)? else { return Ok(Outcome::DataMissing) };
    if args.format.get() == Format::Table {
        show::found(&found.rows, &args.text, &show::Terminal::of_terminal(terminal_columns()), out)
            .context("cannot write what was found")?;
    } else {
        let fields: Vec<_> = FOUND_FIELDS.iter().collect();
        write_rows(args.format.get(), &names(&fields), cells(&fields, &found.rows), out)?;
    }
    let outcome = if found.rows.is_empty() { Outcome::NothingFound } else { Outcome::Done };
    Ok(damage::report_of(&history.damage(), &store, outcome))
}

/// The same rows and names as those of the API.
pub(crate) fn write_rows<'v>(
    format: Format,
    names: &[&'static str],
    rows: impl Iterator<Item = Vec<Value<'v>>>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let lines = cpumon_export::Format::Jsonl;
    match format {
        Format::Csv => cpumon_export::table(cpumon_export::Format::Csv, names, rows, out),
        Format::Json => {
            let mut array = JsonArray::new(out);
            cpumon_export::table(lines, names, rows, &mut array)?;
            array.finish()?;
            Ok(())
        }
        Format::Jsonl | Format::Table => cpumon_export::table(lines, names, rows, out),
    }
    .context("cannot write the rows")
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
