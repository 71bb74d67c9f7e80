//! Scheduler and interrupt events are stored beside the samples, and take no space where they are not measured.

use cpumon_model::{DelayOf, Delays, Fields, Interval, SchedDelta, Trust};
use cpumon_store::{ProcessFilter, Query, Reader, StoreOptions, What, Writer};

use crate::data;
use crate::round_trip::read_all;

fn query(what: What) -> Query {
    Query { what, ..Query::new(data::host(1).host).without_resting() }
}

/// 130 intervals, every third without scheduler events, as after a step down.
fn mixed_day() -> Vec<Interval> {
    let mut day = data::day(&data::host(1), 6, 130, 12);
    // Drops are counted whatever is measured.
    data::add_drops(&mut day[60..]);
    let plain = day.clone();
    data::add_sched(&mut day);
    data::add_delays(&mut day);
    day.iter_mut().zip(plain).step_by(3).for_each(|(interval, plain)| *interval = plain);
    day
}

#[test]
fn scheduler_events_come_back_fresh_and_compacted_at_every_depth() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let day = mixed_day();
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&data::host(1), Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert!(expected.iter().flat_map(|one| &one.processes).any(|row| row.sched.blocked_ns > 1_000_000_000));
    for is_compacted in [false, true] {
        if is_compacted {
            data::compact_all(&mut writer);
        }
        let reader = Reader::open(&path).unwrap();
        assert_eq!(read_all(&reader, &query(What::Threads)), expected, "compacted: {is_compacted}");
        let processes = read_all(&reader, &query(What::Processes));
        let hosts = read_all(&reader, &query(What::Meta));
        for ((processes, host), expected) in processes.iter().zip(&hosts).zip(&expected) {
            assert_eq!(processes.processes, expected.processes);
            let is_of = |row: &&Delays, deep| match row.of {
                DelayOf::Cpu(_) => true,
                DelayOf::Process(_) => deep,
                DelayOf::Thread(..) => false,
            };
            let of_depth =
                |deep| expected.delays.iter().filter(|row| is_of(row, deep)).cloned().collect::<Vec<_>>();
            assert_eq!((&processes.delays, &host.delays), (&of_depth(true), &of_depth(false)));
            assert_eq!((&host.irqs, &host.cpus), (&expected.irqs, &expected.cpus));
            assert_eq!(
                (host.ledger, host.health, host.fields),
                (expected.ledger, expected.health, expected.fields)
            );
        }
    }
}

#[test]
fn one_process_has_its_scheduler_events_and_without_them_its_counters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let day = mixed_day();
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&data::host(1), Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let wanted = day[1].processes[1].key;
    let only = |mut interval: Interval| {
        interval.processes.retain(|row| row.key == wanted);
        interval.threads.retain(|row| row.process == wanted);
        interval.delays.retain(|row| match row.of {
            DelayOf::Cpu(_) => true,
            DelayOf::Process(key) | DelayOf::Thread(key, _) => key == wanted,
        });
        interval
    };
    let expected: Vec<Interval> = day.iter().map(data::active).map(only).collect();
    assert!(expected.iter().any(|one| !one.threads.is_empty() && !one.delays.is_empty()));
    for is_compacted in [false, true] {
        if is_compacted {
            data::compact_all(&mut writer);
        }
        let reader = Reader::open(&path).unwrap();
        let of_one = query(What::Threads).filter(ProcessFilter::Key(wanted));
        // Each of these finds the chunks that the one before took apart, and must not be content with less than it asks for.
        let plain = read_all(&reader, &of_one.clone().without_sched());
        assert_eq!(read_all(&reader, &of_one), expected, "compacted: {is_compacted}");
        let all: Vec<Interval> = day.iter().map(data::active).collect();
        assert_eq!(read_all(&reader, &query(What::Threads)), all, "compacted: {is_compacted}");
        for (plain, expected) in plain.iter().zip(&expected) {
            assert_eq!(plain.fields, expected.fields - Fields::SCHED - Fields::WAITS - Fields::HISTOGRAMS);
            assert!(plain.threads.iter().all(|row| row.sched == SchedDelta::default()));
            let counters =
                |one: &Interval| one.threads.iter().map(|row| (row.key, row.delta)).collect::<Vec<_>>();
            assert_eq!(counters(plain), counters(expected));
        }
    }
}

#[test]
fn where_no_events_are_measured_they_take_no_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut day = data::day(&data::host(1), 6, 120, 12);
    // Values that were not measured are not stored.
    for row in day.iter_mut().flat_map(|interval| &mut interval.threads) {
        row.sched = SchedDelta { blocked_ns: 5, ..SchedDelta::default() };
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (at, interval) in day.iter().enumerate() {
        writer.put(&data::host(1), Trust::Local, None, interval).unwrap();
        if at == 100 {
            data::compact_all(&mut writer);
        }
    }
    writer.commit().unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    for table in ["interval", "chunk"] {
        let text = format!("SELECT count(*) > 0 AND max(length(sched)) = 0 FROM {table}");
        assert!(connection.query_row(&text, [], |row| row.get::<_, bool>(0)).unwrap(), "{table}");
    }
    let back = read_all(&Reader::open(&path).unwrap(), &query(What::Threads));
    assert!(back.iter().all(|interval| !interval.fields.contains(Fields::SCHED)));
    assert!(back.iter().flat_map(|interval| &interval.threads).all(|row| row.sched == SchedDelta::default()));
}
