//! Stored traces of a host for the screens: where they are marked, which command shows them, and how a new one is made.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_query::time::TimeRange;
use cpumon_query::{TraceRecord, trace_file};
use cpumon_store::{Reader, StoreError};
use cpumon_tui::{FeedError, StoredTrace};

use crate::client::{Client, ClientError};

/// How long the key records.
pub(super) const LENGTH: Duration = Duration::from_secs(10);
pub(super) const RECORDING: &str = "recording every context switch for 10 s; then go back and press v";
pub(super) const TAKING: &str =
    "the host writes its last seconds; go back and press v when they have arrived";
/// More than a store has.
const MAX_TRACES: usize = 10_000;

/// Those of a store; the command plays the file.
pub(super) fn of_store(
    store: &Path,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let reader = Reader::open(store);
    reader
        .and_then(|reader| of_reader(&reader, host, wall_ns))
        .map_err(|error| FeedError(error.with_causes()))
}

pub(super) fn of_reader(
    reader: &Reader,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, StoreError> {
    let range = TimeRange { since_ns: wall_ns.start, until_ns: wall_ns.end };
    let shown = |trace: TraceRecord| StoredTrace {
        wall_ns: trace.wall_ns,
        command: format!("cpumon trace top {}", trace_file(reader.path(), trace.id).display()),
        reason: trace.reason,
    };
    Ok(reader.traces(Some(host), range, MAX_TRACES)?.into_iter().map(shown).collect())
}

fn failed(error: &ClientError) -> FeedError {
    FeedError(error.to_string())
}

/// Those of a receiver; the command fetches the file.
pub(super) fn of_receiver(
    client: &Client,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let range = TimeRange { since_ns: wall_ns.start, until_ns: wall_ns.end };
    let url = client.url();
    let traces = client.traces(host, range).map_err(|error| failed(&error))?.traces;
    Ok(traces
        .into_iter()
        .map(|trace| StoredTrace {
            wall_ns: trace.at_ns.0,
            command: format!("cpumon trace get {} --url {url} -o {0}.trace", trace.id),
            reason: trace.reason,
        })
        .collect())
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
