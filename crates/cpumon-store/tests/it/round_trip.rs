//! A reader gets the intervals that were put: the same active rows, once, in order of time.

use cpumon_model::{HostInfo, Interval, Trust};
use cpumon_store::{ProcessFilter, Put, Query, Reader, StoreError, StoreOptions, What, Writer};

use crate::data;

pub fn read_all(reader: &Reader, query: &Query) -> Vec<Interval> {
    let mut all = Vec::new();
    let mut reading = reader.intervals(query).unwrap();
    while let Some(stored) = reading.read().unwrap() {
        let interval = &stored.interval;
        all.push(interval.clone());
    }
    all
}

#[test]
fn fresh_intervals_come_back_in_order_with_their_active_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (first, second) = (data::host(1), data::host(2));
    let mut days = [data::day(&first, 1, 150, 40), data::day(&second, 2, 70, 12)];
    data::add_faults(&mut days[1]);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (info, day) in [(&first, &days[0]), (&second, &days[1])] {
        for interval in day.iter().rev() {
            assert_eq!(writer.put(info, Trust::Local, Some(&data::loss(3)), interval).unwrap(), Put::Stored);
        }
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    for (info, day) in [(&first, &days[0]), (&second, &days[1])] {
        let expected: Vec<Interval> = day.iter().map(data::active).collect();
        assert_eq!(read_all(&reader, &Query::new(info.host)), expected);
    }
    let hosts = reader.hosts().unwrap();
    assert_eq!(hosts.iter().map(|host| &host.info).collect::<Vec<_>>(), [&first, &second]);
    assert_eq!(hosts[0].first_wall_ns, Some(days[0][0].end.wall_ns));
    assert_eq!(hosts[0].last_wall_ns, Some(days[0][149].end.wall_ns));
}

/// Threads in the order of their ids and not of their processes, a process without a row, a process listed twice and out of
/// order: what a hostile or damaged sender could bring.
#[test]
fn rows_in_an_odd_order_come_back_whole_fresh_and_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let mut day: Vec<Interval> = data::day(&info, 5, 40, 40).iter().map(data::active).collect();
    for interval in &mut day {
        let keys: Vec<_> = interval.processes.iter().map(|row| row.key).collect();
        interval.threads.sort_by_key(|row| (row.key.tid % 10, row.key));
        let absent = keys[0];
        interval.processes.retain(|row| row.key != absent);
        let mut sent = interval.clone();
        sent.processes.extend(interval.processes.first().cloned());
        sent.processes.reverse();
        assert_eq!(writer.put(&info, Trust::Local, None, &sent).unwrap(), Put::Stored);
        interval.threads.sort_by_key(|row| row.key);
    }
    writer.commit().unwrap();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), day);
    data::compact_all(&mut writer);
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), day);
}

#[test]
fn a_resend_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 20, 12);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for expected in [Put::Stored, Put::Duplicate] {
        for interval in &day {
            assert_eq!(writer.put(&info, Trust::Local, None, interval).unwrap(), expected);
        }
        writer.commit().unwrap();
    }
    drop(writer);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    assert_eq!(writer.put(&info, Trust::Local, None, &day[19]).unwrap(), Put::Duplicate);
    writer.commit().unwrap();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)).len(), 20);
}

#[test]
fn ranges_depth_and_filters_restrict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 20, 12);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).range(day[3].end.wall_ns, day[7].end.wall_ns);
    let sequences: Vec<u64> = read_all(&reader, &query).iter().map(|interval| interval.sequence).collect();
    assert_eq!(sequences, [4, 5, 6, 7]);
    let meta = read_all(&reader, &query.clone().what(What::Meta));
    assert!(meta.iter().all(|interval| interval.processes.is_empty() && interval.ledger.capacity_ns > 0));
    let processes = read_all(&reader, &query.clone().what(What::Processes));
    assert!(processes.iter().all(|interval| !interval.processes.is_empty() && interval.threads.is_empty()));
    let wanted = day[0].processes[1].key;
    for filter in [
        ProcessFilter::Key(wanted),
        ProcessFilter::AnyOf([wanted, cpumon_model::ProcessKey::default()].into()),
        ProcessFilter::Pid(wanted.pid),
        ProcessFilter::Name(day[0].processes[1].info.name.clone()),
    ] {
        let filtered = read_all(&reader, &query.clone().filter(filter));
        assert_eq!(filtered.len(), 4);
        let rows = || filtered.iter().flat_map(|interval| &interval.threads);
        assert!(rows().count() > 0 && rows().all(|row| row.process == wanted));
    }
}

#[test]
fn the_interval_at_a_moment_covers_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 20, 12);
    day.remove(10);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let at =
        |ns: i64| reader.interval_at(info.host, data::START_NS + ns).unwrap().map(|found| found.sequence);
    assert_eq!(at(0), None);
    assert_eq!(at(1), Some(0));
    assert_eq!(at(data::SECOND_NS), Some(0));
    assert_eq!(at(9 * data::SECOND_NS + 500), Some(9));
    assert_eq!(at(10 * data::SECOND_NS + 500), None);
    assert_eq!(at(20 * data::SECOND_NS), Some(19));
    assert_eq!(at(20 * data::SECOND_NS + 1), None);
}

#[test]
fn hosts_are_found_by_name_and_by_the_first_digits_of_their_id() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for number in [1, 2] {
        let info = data::host(number);
        writer.put(&info, Trust::Unauthenticated, None, &data::day(&info, 1, 1, 4)[0]).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.find_host("host-2").unwrap().info, data::host(2));
    assert_eq!(reader.find_host("0101").unwrap().info, data::host(1));
    assert_eq!(reader.find_host("host-2").unwrap().trust, Trust::Unauthenticated);
    assert!(
        matches!(reader.find_host("host-"), Err(StoreError::AmbiguousHost { .. })),
        "both names begin so"
    );
    assert!(matches!(reader.find_host(""), Err(StoreError::UnknownHost { .. })));
    let error = reader.find_host("kitchen").unwrap_err().to_string();
    assert!(error.contains("host-1") && error.contains("host-2"), "{error}");
}

#[test]
fn the_begin_of_a_name_is_enough_to_read_and_not_to_remove() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (number, name) in [(1, "device1@10.77.0.2"), (2, "board"), (3, "board5")] {
        let info = HostInfo { hostname: name.into(), ..data::host(number) };
        writer.put(&info, Trust::Unauthenticated, None, &data::day(&info, 1, 1, 4)[0]).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let found = |wanted: &str| reader.find_host(wanted).unwrap().info.host;
    assert_eq!((found("device1"), found("board")), (data::host(1).host, data::host(2).host));
    assert!(matches!(reader.find_only_host("device1"), Err(StoreError::UnknownHost { .. })));
}

#[test]
fn an_id_wins_over_a_name_and_of_equal_names_the_most_trusted_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let good = data::host(1);
    let id = good.host.to_string();
    let named_like_its_id = HostInfo { hostname: id.as_str().into(), ..data::host(2) };
    let of_its_name = HostInfo { hostname: good.hostname.clone(), ..data::host(3) };
    for (info, trust) in [
        (&good, Trust::Local),
        (&named_like_its_id, Trust::Unauthenticated),
        (&of_its_name, Trust::Unauthenticated),
    ] {
        writer.put(info, trust, None, &data::day(info, 1, 1, 4)[0]).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.find_host(&id).unwrap().info.host, good.host);
    assert_eq!(reader.find_host(&good.hostname).unwrap().info.host, good.host);
    let other = named_like_its_id.host.to_string();
    assert_eq!(reader.find_host(&other).unwrap().info.host, named_like_its_id.host);
}

#[test]
fn an_import_adds_to_a_host_that_reports_and_does_not_rename_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let good = data::host(1);
    let imported = HostInfo { hostname: "someone".into(), ..good.clone() };
    let day = data::day(&good, 1, 2, 4);
    writer.put(&good, Trust::Authenticated, None, &day[0]).unwrap();
    writer.put(&imported, Trust::Imported, None, &day[1]).unwrap();
    writer.commit().unwrap();
    let found = Reader::open(&path).unwrap().hosts().unwrap();
    assert_eq!((&*found[0].info.hostname, found[0].trust), ("host-1", Trust::Authenticated));
}
