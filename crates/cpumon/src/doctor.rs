//! `cpumon doctor`: what cpumon can measure on this machine. Exit code 3 if something is missing.

use std::io::Write;

use anyhow::Context;
use cpumon_agent::doctor::{write_details, write_summary};
use cpumon_collect::{Check, Diagnosis, DoctorOptions, diagnose};
use cpumon_model::escape;
use cpumon_query::json::Named;
use serde::Serialize;

use crate::cli::{DoctorArgs, OutputFormat};
use crate::exit::Outcome;
use crate::output::{terminal_columns, write_json, write_texts};

pub fn doctor(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let options = DoctorOptions {
        proc_root: args.proc_root.clone(),
        sys_root: args.sys_root.clone(),
        load: !args.no_load,
        ..DoctorOptions::default()
    };
    let diagnosis = diagnose(&options);
    match args.format.get() {
        OutputFormat::Table => {
            let write = if args.verbose { write_details } else { write_summary };
            write(&diagnosis, report_columns(), out).context("cannot write the report")?;
        }
        OutputFormat::Json => write_json(&DoctorReport::from(&diagnosis), out)?,
        format => {
            let shown = |check: &Check| texts(check).map(|text| escape(text).to_string());
            write_texts(NAMES, diagnosis.checks.iter().map(shown), format, out)?;
        }
    }
    Ok(if diagnosis.is_complete() { Outcome::Done } else { Outcome::DataMissing })
}

const NAMES: [&str; 6] = ["topic", "name", "state", "finding", "gives", "help"];

fn texts(check: &Check) -> [&str; 6] {
    let Check { topic, name, state, finding, gives, help, .. } = check;
    [topic.name(), name, state.name(), finding, gives, help]
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    is_complete: bool,
    checks: Vec<Named<&'a str>>,
}

impl<'a> From<&'a Diagnosis> for DoctorReport<'a> {
    fn from(diagnosis: &'a Diagnosis) -> Self {
        let checks = diagnosis.checks.iter().map(|check| NAMES.into_iter().zip(texts(check)).collect());
        Self { is_complete: diagnosis.is_complete(), checks: checks.collect() }
    }
}

/// Width of the terminal, or of the variable `COLUMNS`; 80 for a file or a pipe.
fn report_columns() -> usize {
    match terminal_columns() {
        usize::MAX => 80,
        width => width,
    }
}
