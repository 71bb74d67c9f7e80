//! How each interval came in: intervals from before a host was enrolled keep their trust, and a lesser sender of a host's id
//! changes nothing of the host.

use std::path::Path;

use cpumon_model::{HostInfo, Interval, Trust};
use cpumon_store::{Query, Reader, StoreOptions, Writer, sql};

use crate::data;
use crate::round_trip::read_all;

fn trusts(path: &Path, info: &HostInfo) -> Vec<Option<Trust>> {
    read_all(&Reader::open(path).unwrap(), &Query::new(info.host)).iter().map(|one| one.trust).collect()
}

/// Each trust of `host_interval` with its intervals.
fn sql_trusts(path: &Path) -> Vec<(String, i64)> {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    sql::register(&connection, path).unwrap();
    let text = "SELECT trust, count(*) FROM host_interval GROUP BY trust ORDER BY trust";
    let mut select = connection.prepare(text).unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn what_came_before_enrolment_stays_unauthenticated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 150, 8);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (at, interval) in day.iter().enumerate() {
        let trust = if at < 50 { Trust::Unauthenticated } else { Trust::Authenticated };
        writer.put(&info, trust, Some(&data::loss(1)), interval).unwrap();
    }
    writer.commit().unwrap();
    let mut expected = vec![Some(Trust::Unauthenticated); 50];
    expected.resize(150, Some(Trust::Authenticated));
    assert_eq!(trusts(&path, &info), expected, "fresh");
    data::compact_all(&mut writer);
    assert_eq!(trusts(&path, &info), expected, "compacted");
    // One trust a chunk: 50 and 100, not 100 and 50.
    let mixed = "SELECT count(*) FROM chunk WHERE (trust, intervals) NOT IN (VALUES (1, 50), (4, 100))";
    assert_eq!((data::number(&path, "SELECT count(*) FROM chunk"), data::number(&path, mixed)), (2, 0));
    assert_eq!(sql_trusts(&path), [("authenticated".to_owned(), 100), ("unauthenticated".to_owned(), 50)]);
    let host = &Reader::open(&path).unwrap().hosts().unwrap()[0];
    assert_eq!(host.trust, Trust::Authenticated);
}

#[test]
fn a_lesser_sender_of_the_same_id_changes_nothing_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let lesser = HostInfo { hostname: "other".into(), kernel: "Linux 2.6".into(), ..info.clone() };
    let day = data::day(&info, 1, 58, 8);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let mut put = |at: usize, one: &Interval| {
        let (info, trust) = if at.is_multiple_of(2) {
            (&info, Trust::Authenticated)
        } else {
            (&lesser, Trust::Unauthenticated)
        };
        writer.put(info, trust, None, one).unwrap();
    };
    for (at, one) in day.iter().enumerate() {
        put(at, one);
        assert_eq!(one.trust, None);
    }
    writer.commit().unwrap();
    let host = Reader::open(&path).unwrap().hosts().unwrap().remove(0);
    assert_eq!((&*host.info.hostname, host.trust), ("host-1", Trust::Authenticated));
    assert_eq!(&*host.info.kernel, "Linux 6.18.4");
    assert_eq!(data::number(&path, "SELECT count(*) FROM host_change"), 1);
    let expected: Vec<_> =
        [Trust::Authenticated, Trust::Unauthenticated].into_iter().cycle().take(58).map(Some).collect();
    assert_eq!(trusts(&path, &data::host(1)), expected);
    // Also after a restart, when the lesser sender is first.
    drop(writer);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 58..60 {
        let one = &data::day(&lesser, 1, second + 1, 8)[second as usize];
        writer.put(&lesser, Trust::Encrypted, None, one).unwrap();
    }
    writer.commit().unwrap();
    assert_eq!(data::number(&path, "SELECT count(*) FROM host_change"), 1);
    assert_eq!(
        data::number(&path, "SELECT count(*) FROM host WHERE (name, trust) = ('host-1', 'authenticated')"),
        1
    );
}

#[test]
fn a_host_is_described_by_its_best_sender() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 3, 4);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let renamed = |name: &str| HostInfo { hostname: name.into(), ..info.clone() };
    let names =
        [("plain", Trust::Unauthenticated), ("group", Trust::Encrypted), ("tls", Trust::Authenticated)];
    for ((name, trust), one) in names.into_iter().zip(&day) {
        writer.put(&renamed(name), trust, None, one).unwrap();
        writer.commit().unwrap();
        let host = Reader::open(&path).unwrap().hosts().unwrap().remove(0);
        assert_eq!((&*host.info.hostname, host.trust), (name, trust));
    }
    assert_eq!(data::number(&path, "SELECT count(*) FROM host_change"), 3);
}
