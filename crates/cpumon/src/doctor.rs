//! `cpumon doctor`. In: what this machine lets cpumon measure. Out: text that fits the terminal, or JSON. Exit status 3
//! where something is missing.

use std::io::Write;

use anyhow::Context;
use cpumon_agent::doctor::write_text;
use cpumon_collect::{Check, Diagnosis, DoctorOptions, diagnose};
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::exit::Outcome;
use crate::json::write_json;

/// `cpumon doctor`.
pub fn doctor(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let options = DoctorOptions {
        proc_root: args.proc_root.clone(),
        sys_root: args.sys_root.clone(),
        load: !args.no_load,
        ..DoctorOptions::default()
    };
    let diagnosis = diagnose(&options);
    if args.json {
        write_json(&Report::from(&diagnosis), out)?;
    } else {
        write_text(&diagnosis, terminal_columns(), out).context("cannot write the findings")?;
    }
    Ok(if diagnosis.is_complete() { Outcome::Done } else { Outcome::DataMissing })
}

/// The JSON form.
#[derive(Serialize)]
struct Report<'a> {
    /// Nothing is missing.
    is_complete: bool,
    checks: Vec<ReportCheck<'a>>,
}

#[derive(Serialize)]
struct ReportCheck<'a> {
    topic: &'static str,
    name: &'a str,
    state: &'static str,
    finding: &'a str,
    gives: &'a str,
    help: &'a str,
}

impl<'a> From<&'a Diagnosis> for Report<'a> {
    fn from(diagnosis: &'a Diagnosis) -> Self {
        let check = |check: &'a Check| ReportCheck {
            topic: check.topic.name(),
            name: &check.name,
            state: check.state.name(),
            finding: &check.finding,
            gives: &check.gives,
            help: &check.help,
        };
        Self { is_complete: diagnosis.is_complete(), checks: diagnosis.checks.iter().map(check).collect() }
    }
}

/// Width of the terminal; of `COLUMNS` where output goes elsewhere, else what most terminals have.
pub(crate) fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(80)
}
