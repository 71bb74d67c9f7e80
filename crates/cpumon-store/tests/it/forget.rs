//! A host is forgotten with its data and its names, beside a running writer or without one; nothing of the others changes.

use std::path::Path;
use std::time::Duration;

use cpumon_model::{HostInfo, Interval, Trust};
use cpumon_store::{
    Query, QueueOptions, Queued, Reader, StoreError, StoreOptions, Writer, WriterThread, forget_host,
};

use crate::data;
use crate::round_trip::read_all;

const TIMEOUT: Duration = Duration::from_mins(2);

/// Two hosts of 1,200 threads with names of their own, most names in blocks that the hosts share.
fn filled(path: &Path) -> [(HostInfo, Vec<Interval>); 2] {
    let hosts = [1, 2].map(|number| {
        let info = data::host(number);
        let mut day = data::day(&info, number.into(), 60, 1_200);
        data::add_short_lived(&mut day);
        for process in day.iter_mut().flat_map(|one| &mut one.processes) {
            let named = format!("{}-{}", info.hostname, process.info.name);
            std::sync::Arc::make_mut(&mut process.info).name = named.into();
        }
        (info, day)
    });
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for at in 0..60 {
        for (info, day) in &hosts {
            writer.put(info, Trust::Local, None, &day[at]).unwrap();
        }
    }
    writer.commit().unwrap();
    data::compact_all(&mut writer);
    // Recent, so that only the names are merged.
    writer.maintain(Duration::from_mins(1)).unwrap();
    for (info, day) in &hosts {
        let one = Interval {
            sequence: 1_000,
            end: cpumon_model::Moment { wall_ns: day[59].end.wall_ns + 1, ..day[59].end },
            ..day[59].clone()
        };
        writer.put(info, Trust::Local, None, &one).unwrap();
    }
    hosts
}

fn check(path: &Path, hosts: &[(HostInfo, Vec<Interval>); 2]) {
    let [(gone, _), (left, day)] = hosts;
    let reader = Reader::open(path).unwrap();
    assert!(matches!(reader.find_host(&gone.hostname), Err(StoreError::UnknownHost { .. })));
    assert_eq!(read_all(&reader, &Query::new(gone.host)), []);
    let stored = read_all(&reader, &Query::new(left.host));
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!((stored.len(), &stored[..60]), (61, &expected[..]), "the other host");
    let left_id = "(SELECT id FROM host WHERE name = 'host-2')";
    for table in [
        "interval",
        "chunk",
        "boot",
        "host_change",
        "host_minute",
        "process_hour",
        "thread_hour",
        "process_list",
        "gap",
    ] {
        let text = format!("SELECT count(*) FROM {table} WHERE host_id <> {left_id}");
        assert_eq!(data::number(path, &text), 0, "{table}");
    }
    // Its names, too: in rows, in blocks, and as texts. Sums share what represents short-lived processes.
    let shared = "SELECT info_id FROM short_lived";
    let texts =
        format!("SELECT count(*) FROM process_info WHERE name LIKE 'host-1-%' AND id NOT IN ({shared})");
    assert_eq!(data::number(path, &texts), 0);
    let connection = rusqlite::Connection::open(path).unwrap();
    cpumon_store::sql::register(&connection, path).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let (threads, processes) = (count("threads"), count("processes"));
    let in_blocks = |table: &str| data::number(path, &format!("SELECT coalesce(sum(count), 0) FROM {table}"));
    let rows = |table: &str| data::number(path, &format!("SELECT count(*) FROM {table}"));
    // Some names have a row beside their block; none is of another host.
    assert!(in_blocks("thread_block") > 0 && in_blocks("thread_block") <= threads);
    assert!(threads <= in_blocks("thread_block") + rows("thread"));
    assert!(in_blocks("process_block") <= processes);
    assert!(processes <= in_blocks("process_block") + rows("process"));
    assert_eq!(rows("forget"), 0);
}

#[test]
fn a_host_is_forgotten_without_a_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let hosts = filled(&path);
    assert!(forget_host(&path, hosts[0].0.host, TIMEOUT).unwrap());
    check(&path, &hosts);
    assert!(forget_host(&path, hosts[0].0.host, TIMEOUT).unwrap(), "twice changes nothing");
    check(&path, &hosts);
}

#[test]
fn a_host_is_forgotten_beside_a_writer_and_starts_from_nothing_if_it_sends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let hosts = filled(&path);
    let (gone, day) = &hosts[0];
    let options = QueueOptions { maintain_budget: Duration::from_secs(1), ..QueueOptions::default() };
    let unlimited = StoreOptions { max_age: None, ..StoreOptions::default() };
    let thread = WriterThread::spawn(&path, &unlimited, &options).unwrap();
    // So that the writer knows the host's rows, and has a transaction open.
    let more = data::day(gone, 9, 72, 8).split_off(71);
    assert!(thread.handle().try_put(gone, Trust::Local, None, &more[0]) == Queued::Yes);
    assert!(thread.handle().flush(TIMEOUT));
    assert!(forget_host(&path, gone.host, TIMEOUT).unwrap());
    check(&path, &hosts);
    assert!(thread.handle().try_put(gone, Trust::Local, None, &day[0]) == Queued::Yes);
    let _ = thread.stop();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(gone.host)), [data::active(&day[0])]);
}

#[test]
fn a_name_that_two_hosts_have_means_none_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (good, other) = (data::host(1), HostInfo { hostname: "host-1".into(), ..data::host(2) });
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer.put(&good, Trust::Local, None, &data::day(&good, 1, 1, 4)[0]).unwrap();
    writer.put(&other, Trust::Unauthenticated, None, &data::day(&other, 1, 1, 4)[0]).unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.find_host("host-1").unwrap().info.host, good.host);
    let error = reader.find_only_host("host-1").unwrap_err().to_string();
    assert!(error.contains(&good.host.to_string()) && error.contains(&other.host.to_string()), "{error}");
    assert_eq!(reader.find_only_host(&other.host.to_string()).unwrap().info.host, other.host);
    assert!(matches!(reader.find_only_host("unknown"), Err(StoreError::UnknownHost { .. })));
}
