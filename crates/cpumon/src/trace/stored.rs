//! `cpumon trace list`, `get` and `take`: the traces that devices sent to a receiver, from its store or over HTTP.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use anyhow::{Context, bail};
use cpumon_model::{HostId, escape};
use cpumon_query::{TraceRecord, trace_file};
use cpumon_store::{Reader, TimeRange};
use cpumon_trace::summarise;
use cpumon_web::api;

use crate::cli::{TraceGetArgs, TraceListArgs, TraceSourceArgs, TraceTakeArgs, file_of};
use crate::client::Client;
use crate::exit::{Outcome, Usage};
use crate::known_hosts::KnownHosts;
use crate::output::to_file_or;
use crate::records::Records;
use crate::when;

/// More than a store has.
const MAX_TRACES: usize = 10_000;

const NAMES: [&str; 8] = ["id", "host", "time", "seconds", "events", "lost", "bytes", "reason"];

fn client(source: &TraceSourceArgs) -> anyhow::Result<Option<Client>> {
    let client = source.url.as_ref().map(|url| Client::new(url, &source.access).map_err(Usage));
    Ok(client.transpose()?)
}

/// `cpumon trace list`.
pub(crate) fn list(args: &TraceListArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (since_ns, until_ns) = args.range.range_ns()?;
    let range = TimeRange { since_ns: since_ns.unwrap_or(0), until_ns: until_ns.unwrap_or(i64::MAX) };
    let mut records = Records::new(&NAMES);
    let mut push = |trace: &api::StoredTrace, host: &str| {
        let seconds = (trace.last_ns.0.saturating_sub(trace.first_ns.0)) as f64 / 1e9;
        records.push([
            trace.id.clone(),
            escape(host).to_string(),
            when::show(trace.at_ns.0),
            format!("{seconds:.1}"),
            trace.events.to_string(),
            trace.lost.to_string(),
            trace.bytes.to_string(),
            escape(&trace.reason).to_string(),
        ]);
    };
    if let Some(client) = client(&args.source)? {
        for (host, name) in hosts_of(&client, args.host.as_deref())? {
            for trace in &client.traces(host, range)?.traces {
                push(trace, &name);
            }
        }
    } else {
        let reader = Reader::open(&args.source.store.path())?;
        let wanted = args.host.as_deref().map(|host| reader.find_host(host)).transpose()?;
        let hosts = reader.hosts()?;
        let name = |trace: &TraceRecord| {
            let host = hosts.iter().find(|host| host.info.host == trace.host);
            host.map_or_else(|| trace.host.to_string(), |host| host.info.hostname.to_string())
        };
        for trace in reader.traces(wanted.map(|host| host.info.host), range, MAX_TRACES)? {
            push(&(&trace).into(), &name(&trace));
        }
    }
    records.write(args.format.get(), out).context("cannot write the list")?;
    Ok(Outcome::Done)
}

/// Ids and names of the hosts of a receiver that are wanted.
fn hosts_of(client: &Client, wanted: Option<&str>) -> anyhow::Result<Vec<(HostId, String)>> {
    let known = KnownHosts::read(client)?;
    let hosts = match wanted {
        Some(wanted) => vec![known.find(client, wanted)?],
        None => known.all().cloned().collect(),
    };
    Ok(hosts.into_iter().map(|host| (host.info.host, host.info.hostname.to_string())).collect())
}

/// `cpumon trace get`.
pub(crate) fn get(args: &TraceGetArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let output = file_of(args.output.as_deref());
    if output.is_none() && io::stdout().is_terminal() {
        return Err(Usage("a trace is binary; give a file with -o".to_owned()).into());
    }
    let mut from: Box<dyn Read> = if let Some(client) = client(&args.source)? {
        Box::new(client.trace_file(args.id)?)
    } else {
        let store = args.source.store.path();
        if Reader::open(&store)?.trace(args.id)?.is_none() {
            bail!("the store has no trace {}; `cpumon trace list` shows those that there are", args.id);
        }
        let path = trace_file(&store, args.id);
        Box::new(File::open(&path).with_context(|| format!("cannot open {}", path.display()))?)
    };
    to_file_or(output, out, |out| copy_whole(&mut from, out))?;
    Ok(Outcome::Done)
}

/// Copies a trace, and reads it as one meanwhile: what is none, or not whole, is an error.
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

/// Writes what is read.
struct Copied<'t> {
    from: &'t mut dyn Read,
    to: &'t mut dyn Write,
    /// Why it could not be written.
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

/// `cpumon trace take`.
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
