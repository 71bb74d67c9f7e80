//! `cpumon ledger`: where the CPU time of a range went, from a store or measured live: in sum, CPU by CPU, and in the intervals
//! with the largest unattributed share. It shows whether the ledger is balanced, and how each line is known.

mod show;

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use anyhow::Context;
use cpumon_agent::{Sampler, SamplerOptions};
use cpumon_collect::{RetainedCapabilities, SourceOptions};
use cpumon_model::escape;
use cpumon_query::ledger::LedgerSum;
use cpumon_query::{QueryError, Shown};

use crate::cli::LedgerArgs;
use crate::exit::{Outcome, Usage};
use crate::known_hosts::KnownHosts;
use crate::past::{Past, explained};
use crate::signals::Signals;
use crate::table::terminal_columns;

/// `cpumon ledger`.
pub fn ledger(args: &LedgerArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (all, outcome) = match (args.live, &args.host) {
        (Some(length), Some(host)) => received(args, host, length)?,
        (Some(_), None) if args.past.url.is_some() => {
            return Err(Usage("--live of a receiver's host needs --host".to_owned()).into());
        }
        (Some(length), None) => measured(args, length)?,
        (None, _) => stored(args)?,
    };
    if all.iter().all(|sum| sum.intervals == 0) {
        eprintln!("cpumon: there is no interval with CPU times in that range");
        return Ok(Outcome::DataMissing);
    }
    let all: Vec<&LedgerSum> = all.iter().filter(|sum| sum.intervals > 0).collect();
    match args.format.get().file() {
        None => show::tables(&all, terminal_columns(), out).map_err(anyhow::Error::from),
        Some(format) => show::rows(&all, format, out).map_err(anyhow::Error::from),
    }
    .context("cannot write the ledger")?;
    Ok(outcome)
}

/// Why much of a host's time is unattributed, if it is.
fn say_what_is_hidden(host: &str, hidden: Option<&str>) {
    if let Some(hidden) = hidden {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "cpumon: {}: {hidden}", escape(host));
    }
}

fn stored(args: &LedgerArgs) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    let past = Past::open(&args.past)?;
    let hosts: Vec<String> = args.host.iter().cloned().collect();
    let all = match past.ledger(&hosts, args.range.time_range()?, args.worst) {
        Err(QueryError::NoHost) => Vec::new(),
        all => all.map_err(explained)?,
    };
    for sum in &all {
        say_what_is_hidden(&sum.host, sum.hidden.as_deref());
    }
    Ok((all, past.end(Outcome::Done)))
}

/// A live host of a receiver, for so long.
fn received(
    args: &LedgerArgs,
    wanted: &str,
    length: std::time::Duration,
) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    /// Long polls without an answer before the host counts as silent.
    const PATIENCE: u32 = 2;
    let client = args.past.receiver()?;
    let known = KnownHosts::read(&client)?;
    let host = known.find(&client, wanted)?;
    say_what_is_hidden(&host.info.hostname, host.info.hidden_processes());
    let signals = Signals::install()?;
    let mut sum = LedgerSum::new(&host.info.hostname, args.worst);
    let mut left_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    // What ended before now is not asked for.
    let (mut last, mut missed, mut silent, mut sequence) = (0, 0_u64, 0, None);
    if known.is_reporting(host.info.host) {
        last = client.newer(host.info.host, 0)?.map_or(0, |newest| newest.serial);
    } else {
        silent = PATIENCE;
    }
    while left_ns > 0 && silent < PATIENCE && !signals.stop().load(Ordering::Relaxed) {
        let Some(Shown { serial, interval, .. }) = client.newer(host.info.host, last)? else {
            silent += 1;
            continue;
        };
        missed += sequence.map_or(0, |before| interval.sequence.saturating_sub(before).saturating_sub(1));
        (last, sequence, silent) = (serial, Some(interval.sequence), 0);
        sum.add(&interval);
        left_ns = left_ns.saturating_sub(interval.duration_ns().max(1));
    }
    if silent == PATIENCE {
        eprintln!("cpumon: {} sends nothing any more", escape(&host.info.hostname));
    }
    if missed > 0 {
        eprintln!("cpumon: {missed} intervals in between are missing");
    }
    let is_whole = missed == 0 && silent < PATIENCE;
    let outcome = if is_whole { signals.outcome() } else { Outcome::DataMissing };
    Ok((vec![sum], outcome))
}

/// This machine, for so long.
fn measured(args: &LedgerArgs, length: std::time::Duration) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    let source = SourceOptions {
        choice: args.source,
        interval: args.interval,
        probes: args.probes,
        ..SourceOptions::default()
    };
    let options = SamplerOptions { source, ..SamplerOptions::default() };
    let mut sampler = Sampler::open(&options).context("cannot measure this machine")?;
    cpumon_agent::give_up_rights(sampler.kind(), RetainedCapabilities::NAMES);
    say_what_is_hidden(&sampler.info().hostname, sampler.info().hidden_processes());
    let signals = Signals::install()?;
    let mut sum = LedgerSum::new(&sampler.info().hostname, args.worst);
    let mut left_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    while left_ns > 0 {
        let Some(step) = sampler.step(signals.stop())? else { break };
        if !step.is_first {
            sum.add(step.interval);
            left_ns = left_ns.saturating_sub(step.interval.duration_ns().max(1));
        }
    }
    Ok((vec![sum], signals.outcome()))
}
