//! `cpumon export`: recorded data as a file, and `cpumon export chart`: a chart of a store, whose bytes are those that the receiver's API
//! serves.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_export::chart::{PictureForm, RenderOptions, draw};
use cpumon_export::{ExportError, ExportQuery, Format, Kind, NotStored, Progress, Report};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_model::escape;
use cpumon_query::charts::{self, ChartQuery};
use cpumon_query::history::History;
use cpumon_query::report::CompareRanges;
use cpumon_store::Reader;

use crate::cli::{ChartArgs, ExportArgs, ExportPicture, file_of};
use crate::client::ClientError;
use crate::exit::{Outcome, Usage, say};
use crate::output::{ProgressLine, needs_file, stdout, to_file};
use crate::past::{answered, explained, report_damage, report_damage_of, report_damage_of_receiver};
use crate::paths::{explain, state_dir};
use crate::report::filter_of;
use crate::when;

fn query(args: &ExportArgs) -> anyhow::Result<ExportQuery> {
    let kind = args.kind.context("export needs a KIND")?;
    let (since_ns, until_ns) = args.range.range_ns()?;
    let compared = compared(kind, args)?;
    args.check_parts(kind)?;
    let interval_ns = args.interval.map(|interval| u64::try_from(interval.as_nanos())).transpose();
    Ok(ExportQuery {
        kind,
        format: args.wanted_format()?.file().unwrap_or_default(),
        legacy: args.legacy,
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
fn compared(kind: Kind, args: &ExportArgs) -> anyhow::Result<Option<CompareRanges>> {
    let wrong = |text: &str| Err(Usage(text.to_owned()).into());
    match (kind, args.before, args.after) {
        (Kind::Compare, Some(before), Some(after)) => {
            if args.range.is_given() || args.interval.is_some() {
                return wrong(
                    "`export compare` takes --before and --after, not --since, --until or --interval",
                );
            }
            Ok(Some(CompareRanges { before, after }))
        }
        (Kind::Compare, ..) => wrong("`export compare` needs two ranges: --before 3h..2h --after 1h..now"),
        (_, None, None) => Ok(None),
        _ => wrong("--before and --after are for `cpumon export compare`"),
    }
}

pub fn export(args: &ExportArgs) -> anyhow::Result<Outcome> {
    if let Some(ExportPicture::Chart(args)) = &args.picture {
        return chart(args);
    }
    let query = query(args)?;
    let path = file_of(args.output.as_deref());
    if query.format == Format::Parquet {
        needs_file(path, "Parquet")?;
    }
    // The progress line and an export on the same terminal would overwrite each other.
    let mut bar = ProgressLine::new(path.is_some() || !io::stdout().is_terminal());
    let written = if let Some(client) = args.past.client()? {
        let report = written(path, |out| client.export(&query, out));
        report.map(|report| report_damage_of_receiver(&client, judge(query.kind, &report)))
    } else {
        let reader = Reader::open(&args.past.store.path()).map_err(explain)?;
        let detail = format!("host {}", query.host.as_deref().unwrap_or("any"));
        let audit = AuditLog::in_dir(&state_dir(None, Some(reader.path())));
        audit.note(AuditEvent::Exported, &this_user(), query.kind.name(), &detail);
        let report = written(path, |out| {
            cpumon_export::export(&reader, &query, out, &mut |Progress { ratio, rows, .. }| {
                bar.show(|| {
                    let part = ratio.map_or_else(String::new, |ratio| format!("{:.0} %, ", ratio * 100.0));
                    format!("exporting: {part}{rows} rows")
                });
            })
        });
        bar.clear();
        report.map(|report| report_damage(&reader, judge(query.kind, &report)))
    };
    match written {
        // The reader closed the output (`cpumon export … | head`).
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

/// Whether a receiver refuses the request.
fn is_refused_question(error: &ExportError) -> bool {
    let ExportError::Receiver(error) = error else { return false };
    matches!(error.downcast_ref(), Some(ClientError::Refused { status: 400, .. }))
}

/// Reports requested data that the export does not contain.
fn judge(kind: Kind, report: &Report) -> Outcome {
    for NotStored { host, intervals, since_ns, reason } in &report.not_stored {
        let (host, reason, since) = (escape(host), escape(reason), when::show(*since_ns));
        say(&format!("{intervals} intervals of {host} were not stored, the first after {since} ({reason})"));
    }
    if report.folded > 0 {
        say(&format!("{} columns or groups did not fit and are summed up in (other)", report.folded));
    }
    if report.rows == 0 {
        let has_no_groups = report.intervals > 0 && kind == Kind::Cgroups;
        say(if has_no_groups {
            "no control group had a CPU limit or waited for a CPU"
        } else {
            "the store has no data for this query; `cpumon hosts --stored` lists its hosts and times"
        });
        return Outcome::DataMissing;
    }
    if report.not_stored.is_empty() { Outcome::Done } else { Outcome::DataMissing }
}

/// The format by the file name's ending; SVG without a path.
fn form_of(path: Option<&Path>) -> Result<PictureForm, Usage> {
    let Some(path) = path else { return Ok(PictureForm::Svg) };
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ending.parse().map_err(|_| {
        let path = path.display();
        Usage(format!("--output {path}: a picture's name ends in .svg or .png"))
    })
}

fn chart_query(args: &ChartArgs) -> Result<ChartQuery, Usage> {
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

fn chart(args: &ChartArgs) -> anyhow::Result<Outcome> {
    let output = file_of(args.output.as_deref());
    let (query, form) = (chart_query(args)?, form_of(output)?);
    let store = args.store.path();
    let history = History::of_store(&store).map_err(explained)?;
    let Some(chart) = answered(charts::chart(&history, &query))? else {
        return Ok(report_damage_of(&history.damage(), &store, Outcome::DataMissing));
    };
    let options =
        RenderOptions { width: args.width, height: args.height, theme: args.theme, zone: args.zone.clone() };
    let bytes = draw(&chart, &options, form)?;
    match output {
        Some(path) => {
            to_file(path, |file| file.write_all(&bytes).map_err(|error| file.with_path(error.into())))?;
        }
        None => io::stdout().lock().write_all(&bytes).context("cannot write the picture")?,
    }
    let outcome = report_damage_of(&history.damage(), &store, Outcome::Done);
    let Some(empty) = &chart.empty else { return Ok(outcome) };
    let empty = in_lower_case(empty);
    say(&format!("{empty}; `cpumon hosts --store FILE` lists its hosts and times"));
    Ok(Outcome::DataMissing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For control groups it was 0.
    #[test]
    fn an_export_without_rows_has_an_exit_code_of_its_own() {
        let report = |rows| Report { intervals: 3, rows, ..Report::default() };
        for kind in [Kind::Cgroups, Kind::Threads] {
            assert_eq!(judge(kind, &report(0)), Outcome::DataMissing, "{kind:?}");
            assert_eq!(judge(kind, &report(1)), Outcome::Done, "{kind:?}");
        }
    }

    #[test]
    fn labels_begin_as_messages_do() {
        let shown = ["No thread of it ran", "CPU use is not known", "", "Überall nichts"].map(in_lower_case);
        assert_eq!(shown, ["no thread of it ran", "CPU use is not known", "", "überall nichts"]);
    }
}
