//! Stored traces of a host for the screens: where they are marked, which command shows them, and how a new one is made.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_query::history::History;
use cpumon_query::time::{Page, TimeRange};
use cpumon_query::{Answers, TraceRecord, trace_file};
use cpumon_tui::{FeedError, StoredTrace};

use crate::client::{Client, ClientError};

/// How long the key records.
pub(super) const LENGTH: Duration = Duration::from_secs(10);
pub(super) const RECORDING: &str = "recording every context switch for 10 s; then go back and press v";
pub(super) const TAKING: &str =
    "the host writes its last seconds; go back and press v when they have arrived";
/// Those of a store; the command plays the file.
pub(super) fn of_store(
    store: &Path,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let history = History::of_store(store).map_err(|error| FeedError(error.to_string()))?;
    stored(&history, host, wall_ns, |id| format!("cpumon trace top {}", trace_file(store, id).display()))
}

/// Those of a receiver; the command fetches the file.
pub(super) fn of_receiver(
    client: &Client,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let url = client.url();
    stored(client, host, wall_ns, |id| format!("cpumon trace get {id} --url {url} -o {id}.trace"))
}

fn stored(
    answers: &dyn Answers,
    host: HostId,
    wall_ns: &Range<i64>,
    command: impl Fn(i64) -> String,
) -> Result<Vec<StoredTrace>, FeedError> {
    let range = TimeRange { since_ns: wall_ns.start, until_ns: wall_ns.end };
    let found = answers.traces(&[host.to_string()], range, Page::ALL);
    let found = found.map_err(|error| FeedError(error.to_string()))?;
    let shown = |trace: TraceRecord| StoredTrace {
        wall_ns: trace.wall_ns,
        command: command(trace.id),
        reason: trace.reason,
    };
    Ok(found.into_iter().flat_map(|host| host.traces).map(shown).collect())
}

fn failed(error: &ClientError) -> FeedError {
    FeedError(error.to_string())
}

/// Has a receiver record its own machine, or take the last seconds of a device.
pub(super) fn take_from(client: &Client, host: HostId) -> Result<String, FeedError> {
    let sources = client.trace_sources(host).map_err(|error| failed(&error))?;
    if sources.can_record {
        client.record_trace(host, LENGTH).map_err(|error| failed(&error))?;
        Ok(RECORDING.to_owned())
    } else if sources.can_take {
        client.take_trace(host).map_err(|error| failed(&error))?;
        Ok(TAKING.to_owned())
    } else {
        Err(FeedError(sources.how))
    }
}
