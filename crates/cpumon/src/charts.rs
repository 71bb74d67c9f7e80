//! `cpumon export chart`: draws a chart of a store. The bytes are those that the receiver's API serves.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_export::chart::{PictureForm, RenderOptions, draw};
use cpumon_query::charts::{self, ChartQuery};
use cpumon_query::history::History;

use crate::cli::{ChartArgs, file_of};
use crate::damage;
use crate::exit::{Outcome, Usage};
use crate::output::to_file;
use crate::past::explained;
use crate::report::filter_of;

/// The format of a file name's ending.
fn form_of(path: Option<&Path>) -> Result<PictureForm, Usage> {
    let Some(path) = path else { return Ok(PictureForm::Svg) };
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ending.parse().map_err(|_| {
        let path = path.display();
        Usage(format!("--output {path}: a picture's name ends in .svg or .png"))
    })
}

fn query(args: &ChartArgs) -> Result<ChartQuery, Usage> {
    let (since_ns, until_ns) = args.range.range_ns()?;
    Ok(ChartQuery {
        hosts: args.host.clone(),
        since_ns,
        until_ns,
        processes: args.process.clone(),
        threads: args.thread.clone(),
        by: args.by,
        filter: filter_of(args.filter.as_deref(), args.within.as_ref()),
        cells: args.cells,
        rows: args.rows,
        offset: args.offset,
        order: args.sort,
        is_reverse: args.reverse,
        with_blocked: args.blocked,
        is_finest: args.finest,
        percent: args.percent,
        ..ChartQuery::new(args.view)
    })
}

fn options(args: &ChartArgs) -> RenderOptions {
    RenderOptions { width: args.width, height: args.height, theme: args.theme, zone: args.zone.clone() }
}

/// A label of a picture as a message, which begins in lower case on the command line; `CPU` stays.
fn in_lower_case(label: &str) -> String {
    let mut chars = label.chars();
    match chars.next() {
        Some(first) if !chars.clone().next().is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => label.to_owned(),
    }
}

/// `cpumon export chart`.
pub fn export(args: &ChartArgs) -> anyhow::Result<Outcome> {
    let (query, form) = (query(args)?, form_of(file_of(args.output.as_deref()))?);
    let store = args.store.path();
    let history = History::of_store(&store).map_err(explained)?;
    let chart = charts::chart(&history, &query).map_err(explained)?;
    let bytes = draw(&chart, &options(args), form)?;
    match file_of(args.output.as_deref()) {
        Some(path) => {
            to_file(path, |file| file.write_all(&bytes).map_err(|error| file.with_path(error.into())))?;
        }
        None => io::stdout().lock().write_all(&bytes).context("cannot write the picture")?,
    }
    let outcome = damage::report_of(&history.damage(), &store, Outcome::Done);
    let Some(empty) = &chart.empty else { return Ok(outcome) };
    let empty = in_lower_case(empty);
    // Standard error may be closed; the exit code still reports missing data.
    let _ = writeln!(io::stderr(), "cpumon: {empty}; `cpumon hosts --store FILE` lists its hosts and times");
    Ok(Outcome::DataMissing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_begin_as_messages_do() {
        let shown = ["No thread of it ran", "CPU use is not known", "", "Überall nichts"].map(in_lower_case);
        assert_eq!(shown, ["no thread of it ran", "CPU use is not known", "", "überall nichts"]);
    }
}
