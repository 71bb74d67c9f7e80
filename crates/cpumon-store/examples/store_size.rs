//! What a recording takes on disk, fresh and compacted:
//! `cargo run --release -p cpumon-store --example store_size -- FILE [MINUTES]`. FILE is a store and is only read; MINUTES is
//! how much of each host's beginning to take (default: all). Prints one line of JSON with rows and bytes, everything in the
//! file counted. A recording of an hour is mostly compacted already, so its intervals are put again into a new store, one
//! commit each, measured, then compacted and measured again.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use cpumon_store::{Query, Reader, StoreOptions, Writer};

/// Puts the intervals of all hosts again; names are merged as they come, nothing is compacted.
fn put_again(from: &Reader, minutes: i64, into: &mut Writer) -> Result<(), Box<dyn Error>> {
    for host in from.hosts()? {
        let begin = host.first_wall_ns.unwrap_or(0);
        let until = begin.saturating_add(minutes.saturating_mul(60_000_000_000));
        let query = Query::new(host.info.host).range(i64::MIN, until).without_resting();
        let mut intervals = from.intervals(&query)?;
        while let Some(stored) = intervals.read()? {
            let info = cpumon_model::HostInfo { boot: stored.interval.boot, ..host.info.clone() };
            let loss = stored.loss.as_ref();
            into.put_received(&info, host.trust, loss, &stored.interval, stored.received_wall_ns)?;
            into.commit()?;
            into.maintain_at(Duration::from_secs(1), stored.received_wall_ns)?;
        }
    }
    Ok(())
}

fn number(path: &Path, text: &str) -> rusqlite::Result<i64> {
    rusqlite::Connection::open(path)?.query_row(text, [], |row| row.get(0))
}

/// Bytes of the file that are in use.
fn used_bytes(path: &Path) -> rusqlite::Result<i64> {
    let pages = number(path, "PRAGMA page_count")? - number(path, "PRAGMA freelist_count")?;
    Ok(pages * number(path, "PRAGMA page_size")?)
}

/// Names of tasks, rows and those in blocks.
fn names(path: &Path, table: &str) -> rusqlite::Result<i64> {
    let rows = number(path, &format!("SELECT count(*) FROM {table}"))?;
    Ok(rows + number(path, &format!("SELECT coalesce(sum(count), 0) FROM {table}_block"))?)
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
    let fresh_bytes = used_bytes(&copy)?;
    for host in from.hosts()? {
        writer.compact_host(host.info.host)?;
    }
    println!(
        "{{\"intervals\":{},\"thread_rows\":{},\"processes\":{},\"threads\":{},\"fresh_bytes\":{fresh_bytes},\"compacted_bytes\":{}}}",
        number(&copy, "SELECT coalesce(sum(intervals), 0) FROM chunk")?,
        number(&copy, "SELECT coalesce(sum(thread_rows), 0) FROM chunk")?,
        names(&copy, "process")?,
        names(&copy, "thread")?,
        used_bytes(&copy)?,
    );
    Ok(())
}
