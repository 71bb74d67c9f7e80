//! `cpumon trace export`: a trace as a file of other programs.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, bail};
use cpumon_export::{Format, TraceSurvey, trace_perfetto, trace_slices};
use cpumon_trace::TraceSource;

use super::trace_file::{missing, open, range};
use crate::cli::{TraceExportArgs, TraceExportFormat, file_of};
use crate::exit::{Outcome, Usage};
use crate::output::to_file_or;

/// `cpumon trace export`.
pub(crate) fn export(args: &TraceExportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let is_binary = args.format != TraceExportFormat::Csv;
    if is_binary && file_of(args.output.as_deref()).is_none() && io::stdout().is_terminal() {
        return Err(Usage("this format is binary; give a file with -o".to_owned()).into());
    }
    if args.format == TraceExportFormat::Perfetto && (args.from.is_some() || args.to.is_some()) {
        return Err(Usage("--from and --to are for --format csv and parquet".to_owned()).into());
    }
    let range = range(args.from, args.to)?;
    let survey = TraceSurvey::new(open(&args.file)?)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let mut trace = open(&args.file)?;
    let length_ns = survey.ending().known_until_ns.saturating_sub(trace.header().began.mono_ns);
    if survey.events() == 0 || range.from_ns > length_ns {
        bail!("{} has no event, or none behind --from", args.file.display());
    }
    let mut write = |out: &mut dyn Write| match args.format {
        TraceExportFormat::Perfetto => trace_perfetto(&survey, &mut trace, out),
        TraceExportFormat::Csv => trace_slices(Format::Csv, &survey, &mut trace, range, out),
        TraceExportFormat::Parquet => trace_slices(Format::Parquet, &survey, &mut trace, range, out),
    };
    let ending =
        to_file_or(file_of(args.output.as_deref()), out, |out| write(out).map_err(anyhow::Error::from))?;
    out.flush()?;
    Ok(missing(&ending, ending.lost))
}
