//! `cpumon export chart`. In: a store. Out: a picture, the same bytes that the receiver's API serves.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_export::OutputFile;
use cpumon_export::chart::{ChartQuery, PictureForm, RenderOptions};
use cpumon_store::Reader;
use cpumon_web::{Picture, chart_of_store};

use crate::cli::ChartArgs;
use crate::exit::{Outcome, Usage};
use crate::paths::explain;

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
        by: args.by.into(),
        cells: args.cells.into(),
        rows: args.rows,
        offset: args.offset,
        order: args.sort.map(Into::into),
        is_reverse: args.reverse,
        with_blocked: args.blocked,
        is_finest: args.finest,
        percent: args.percent.into(),
        options: RenderOptions {
            width: args.width,
            height: args.height,
            theme: args.theme.into(),
            zone: args.zone.clone(),
        },
        form: form_of(args.output.as_deref())?,
        ..ChartQuery::new(args.view.into())
    })
}

/// `cpumon export chart`.
pub fn export(args: &ChartArgs) -> anyhow::Result<Outcome> {
    let query = query(args)?;
    let store = args.store.path();
    // A missing store is reported with what to do about it.
    drop(Reader::open(&store).map_err(explain)?);
    let Picture { bytes, empty } = match chart_of_store(&store, &query) {
        Ok(picture) => picture,
        Err(error) if error.is_usage => return Err(Usage(error.to_string()).into()),
        Err(error) => return Err(error.into()),
    };
    match &args.output {
        Some(path) => {
            let mut file = OutputFile::create(path)?;
            file.write_all(&bytes).map_err(|error| file.with_path(error.into()))?;
            file.finish()?;
        }
        None => io::stdout().lock().write_all(&bytes).context("cannot write the picture")?,
    }
    let Some(empty) = empty else { return Ok(Outcome::Done) };
    // Standard error may be closed; the exit code still reports missing data.
    let _ = writeln!(io::stderr(), "cpumon: {empty}; `cpumon hosts --store FILE` lists its hosts and times");
    Ok(Outcome::DataMissing)
}
