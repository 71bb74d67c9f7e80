//! `cpumon trace list`, `get` and `take`: the traces that devices sent to a receiver, from its store or over HTTP.

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::{Context, bail};
use cpumon_model::escape;
use cpumon_query::time::Page;
use cpumon_query::{QueryError, TraceRecord, trace_file};
use cpumon_store::Reader;
use cpumon_trace::summarise;

use crate::cli::{TraceGetArgs, TraceListArgs, TraceTakeArgs, file_of};
use crate::client::Client;
use crate::exit::{Outcome, Usage, say};
use crate::known_hosts::KnownHosts;
use crate::output::{needs_file, to_file_or, write_texts};
use crate::past::{Past, explained};
use crate::paths::explain;
use crate::when;

pub(crate) fn list(args: &TraceListArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let past = Past::open(&args.past)?;
    let wanted: Vec<String> = args.host.iter().cloned().collect();
    let hosts = match past.traces(&wanted, args.range.time_range()?, Page::ALL) {
        Err(QueryError::NoHost) => Vec::new(),
        hosts => hosts.map_err(explained)?,
    };
    let mut all: Vec<(&TraceRecord, &str)> =
        hosts.iter().flat_map(|host| host.traces.iter().map(move |trace| (trace, &*host.name))).collect();
    all.sort_by_key(|(trace, _)| (trace.wall_ns, trace.id));
    // As with `find`: standard error has the reason.
    let outcome = if all.is_empty() { Outcome::NothingFound } else { Outcome::Done };
    if all.is_empty() {
        say(if args.host.is_some() || args.range.is_given() {
            "no trace of this host and time is stored"
        } else {
            "no trace is stored; `cpumon trace take` asks a device for one"
        });
    }
    let rows = all.into_iter().map(|(trace, host)| {
        let seconds = trace.last_wall_ns.saturating_sub(trace.first_wall_ns) as f64 / 1e9;
        [
            trace.id.to_string(),
            escape(host).to_string(),
            when::show(trace.wall_ns),
            format!("{seconds:.1}"),
            trace.events.to_string(),
            trace.lost.to_string(),
            trace.bytes.to_string(),
            escape(&trace.reason).to_string(),
        ]
    });
    let names = ["id", "host", "time", "seconds", "events", "lost", "bytes", "reason"];
    write_texts(names, rows, args.format.get(), out)?;
    Ok(past.end(outcome))
}

pub(crate) fn get(args: &TraceGetArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let output = file_of(args.output.as_deref());
    needs_file(output, "a trace")?;
    let mut from: Box<dyn Read> = if let Some(client) = args.past.client()? {
        Box::new(client.trace_file(args.id)?)
    } else {
        let store = args.past.store.path();
        if Reader::open(&store).map_err(explain)?.trace(args.id)?.is_none() {
            bail!("the store has no trace {}; `cpumon trace list` shows those that there are", args.id);
        }
        let path = trace_file(&store, args.id);
        Box::new(File::open(&path).with_context(|| format!("cannot open {}", path.display()))?)
    };
    to_file_or(output, out, |out| copy_whole(&mut from, out))?;
    Ok(Outcome::Done)
}

/// Copies a trace and parses it meanwhile: a file that is no trace, or not whole, is an error.
fn copy_whole(from: &mut dyn Read, to: &mut dyn Write) -> anyhow::Result<()> {
    let mut copied = Copied { from, to, unwritten: None };
    let summary = summarise(&mut copied);
    if let Some(error) = copied.unwritten {
        return Err(error).context("cannot copy the trace");
    }
    if summary.context("what came is no trace")?.is_none() {
        bail!("the trace came damaged or cut off");
    }
    Ok(())
}

struct Copied<'t> {
    from: &'t mut dyn Read,
    to: &'t mut dyn Write,
    /// Error of the writer.
    unwritten: Option<io::Error>,
}

impl Read for Copied<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        self.to.write_all(bytes.get(..count).unwrap_or_default()).map_err(|error| {
            let kind = error.kind();
            self.unwritten = Some(error);
            kind
        })?;
        Ok(count)
    }
}

pub(crate) fn take(args: &TraceTakeArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let client = Client::new(&args.url, &args.access).map_err(Usage)?;
    let known = KnownHosts::read(&client)?;
    client.take_trace(known.find(&client, &args.host)?.info.host)?;
    let host = escape(&args.host);
    writeln!(
        out,
        "{host} writes a trace; `cpumon trace list --host {host} --url {}` shows it when it has arrived",
        client.url()
    )
    .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}
