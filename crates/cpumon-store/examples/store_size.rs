//! What a recording takes on disk, fresh and sealed: `cargo run --release -p cpumon-store --example store_size -- FILE [MINUTES]`.
//! In: a store; it is only read. MINUTES: how much of each host's beginning to take, else all. Out: one line of JSON with rows
//! and bytes, everything in the file counted. Why: bytes per row are quoted from real recorded data, and a recording of an hour is mostly
//! sealed already: so its intervals are put again into a store of their own, one commit each, measured, then sealed and
//! measured again.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use cpumon_store::{Query, Reader, StoreOptions, StoreStatistics, Writer};

/// Puts the intervals of all hosts again; names are folded as they come, nothing is sealed.
fn put_again(from: &Reader, minutes: i64, into: &mut Writer) -> Result<(), Box<dyn Error>> {
    for host in from.hosts()? {
        let mut failed = None;
        let begin = host.first_wall_ns.unwrap_or(0);
        let until = begin.saturating_add(minutes.saturating_mul(60_000_000_000));
        from.for_each_stored(&Query::new(host.info.host).range(i64::MIN, until), &mut |stored| {
            let info = cpumon_model::HostInfo { boot: stored.interval.boot, ..host.info.clone() };
            let loss = stored.loss.as_ref();
            let done = into
                .put_received(&info, host.trust, loss, &stored.interval, stored.received_wall_ns)
                .and_then(|_| into.commit())
                .and_then(|()| into.maintain_at(Duration::from_secs(1), stored.received_wall_ns));
            match done {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn statistics(path: &Path) -> Result<StoreStatistics, cpumon_store::StoreError> {
    Reader::open(path)?.statistics()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("say which store to measure")?;
    let from = Reader::open(Path::new(&path))?;
    let dir = tempfile::tempdir()?;
    let copy = dir.path().join("copy.sqlite");
    let minutes: i64 = std::env::args().nth(2).map_or(Ok(i64::MAX), |text| text.parse())?;
    let never = Duration::from_hours(1000 * 24);
    let options = StoreOptions {
        compact_after: never,
        compact_partial_after: never,
        max_age: None,
        ..StoreOptions::default()
    };
    let mut writer = Writer::open(&copy, &options)?;
    put_again(&from, minutes, &mut writer)?;
    let fresh = statistics(&copy)?;
    writer.compact_all()?;
    let sealed = statistics(&copy)?;
    println!(
        "{{\"intervals\":{},\"thread_rows\":{},\"processes\":{},\"threads\":{},\"fresh_bytes\":{},\"sealed_bytes\":{}}}",
        sealed.compacted_intervals,
        sealed.compacted_thread_rows,
        sealed.process_names,
        sealed.thread_names,
        fresh.file_bytes - fresh.free_bytes,
        sealed.file_bytes - sealed.free_bytes,
    );
    Ok(())
}
