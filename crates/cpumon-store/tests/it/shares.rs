//! Who gives way when the store is full: unauthenticated hosts before this machine and enrolled ones, and of these the largest.

use std::path::Path;
use std::time::Duration;

use cpumon_model::{BootId, Comm, HostId, HostInfo, Interval, Trust};
use cpumon_store::{Query, Reader, StoreOptions, What, Writer};

use crate::data;
use crate::round_trip::read_all;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR_NS: i64 = 3600 * data::SECOND_NS;
/// When retention runs in these tests.
const NOW_NS: i64 = data::START_NS + 4 * HOUR_NS;

fn limited(max_bytes: u64) -> StoreOptions {
    StoreOptions { max_bytes: Some(max_bytes), ..StoreOptions::default() }
}

/// A host that is none of [`data::host`].
fn stranger(number: u32) -> HostInfo {
    let mut id = [0xee; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    HostInfo {
        host: HostId(id),
        boot: BootId(id),
        hostname: format!("stranger-{number}").into(),
        ..data::host(9)
    }
}

fn put(writer: &mut Writer, info: &HostInfo, trust: Trust, day: &[Interval], received_ns: Option<i64>) {
    for one in day {
        writer.put_received(info, trust, None, one, received_ns.unwrap_or(one.end.wall_ns)).unwrap();
    }
    writer.commit().unwrap();
}

/// Intervals that can be read.
fn stored(path: &Path, info: &HostInfo) -> usize {
    read_all(&Reader::open(path).unwrap(), &Query::new(info.host).what(What::Meta)).len()
}

fn counter(path: &Path, name: &str) -> i64 {
    data::number(path, &format!("SELECT coalesce((SELECT value FROM counter WHERE name = '{name}'), 0)"))
}

fn used_bytes(path: &Path) -> u64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    let number = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap();
    let pages = number("PRAGMA page_count") - number("PRAGMA freelist_count");
    (pages * number("PRAGMA page_size")).unsigned_abs()
}

/// A store with an hour of this machine, compacted, and its size.
fn with_local(path: &Path) -> u64 {
    let info = data::host(1);
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    put(&mut writer, &info, Trust::Local, &data::day(&info, 1, 3_600, 40), None);
    data::compact_all(&mut writer);
    drop(writer);
    used_bytes(path)
}

/// Retention until there is nothing more to do.
fn retain(path: &Path, max_bytes: u64) {
    let mut writer = Writer::open(path, &limited(max_bytes)).unwrap();
    writer.maintain_at(MINUTE, NOW_NS).unwrap();
}

fn nothing_of_local_went(path: &Path, max_bytes: u64) {
    assert_eq!(stored(path, &data::host(1)), 3_600, "intervals of this machine");
    let (all, theirs) = ("retired_intervals", "retired_unauthenticated_intervals");
    assert_eq!(counter(path, all), counter(path, theirs));
    assert!(used_bytes(path) <= max_bytes, "{} of {max_bytes}", used_bytes(path));
}

#[test]
fn many_strangers_push_out_nothing_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let local = with_local(&path);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for number in 0..400 {
        let info = stranger(number);
        // Some are old and become chunks; some have just come in.
        let received_ns = if number % 3 == 0 { NOW_NS - data::SECOND_NS } else { data::START_NS };
        put(&mut writer, &info, Trust::Unauthenticated, &data::day(&info, 2, 20, 80), Some(received_ns));
    }
    drop(writer);
    let max_bytes = local * 5 / 2;
    assert!(used_bytes(&path) > max_bytes * 5 / 4, "{} {max_bytes}", used_bytes(&path));
    retain(&path, max_bytes);
    nothing_of_local_went(&path, max_bytes);
    assert!(counter(&path, "retired_unauthenticated_intervals") > 0);
}

#[test]
fn one_stranger_with_much_pushes_out_nothing_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let local = with_local(&path);
    let (much, little) = (stranger(1), stranger(2));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let received_ns = Some(NOW_NS - data::SECOND_NS);
    put(&mut writer, &much, Trust::Unauthenticated, &data::day(&much, 2, 3_000, 160), received_ns);
    put(&mut writer, &little, Trust::Unauthenticated, &data::day(&little, 3, 50, 40), received_ns);
    drop(writer);
    let max_bytes = local * 5 / 2;
    assert!(used_bytes(&path) > max_bytes * 5 / 4, "{} {max_bytes}", used_bytes(&path));
    retain(&path, max_bytes);
    nothing_of_local_went(&path, max_bytes);
    let left = stored(&path, &much);
    assert!(left > 0 && left < 3_000, "what is free is for strangers too: {left}");
    assert_eq!(stored(&path, &little), 50, "the one who has most gives way first");
}

/// Intervals in which all threads have new names.
fn with_new_names(mut day: Vec<Interval>) -> Vec<Interval> {
    let mut random = data::Random::new(7);
    for thread in day.iter_mut().flat_map(|one| &mut one.threads) {
        thread.comm = Comm::new(format!("{:015x}", random.below(1 << 60)).as_bytes());
        thread.delta.run_ns += 1;
    }
    day
}

#[test]
fn a_flood_of_names_goes_and_who_comes_later_is_named_right() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let local = with_local(&path);
    let info = stranger(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let day = with_new_names(data::day(&info, 2, 200, 1_600));
    put(&mut writer, &info, Trust::Unauthenticated, &day, Some(NOW_NS - data::SECOND_NS));
    drop(writer);
    let names = "SELECT (SELECT count(*) FROM thread WHERE id > 1 << 45) + (SELECT count(*) FROM thread_block WHERE first_id > 1 << 45)";
    assert!(data::number(&path, names) > 300_000, "{}", data::number(&path, names));
    let max_bytes = local * 5 / 2;
    let mut writer = Writer::open(&path, &limited(max_bytes)).unwrap();
    writer.maintain_at(MINUTE, NOW_NS).unwrap();
    nothing_of_local_went(&path, max_bytes);
    assert_eq!(data::number(&path, names), 0);
    let later = data::day(&info, 5, 401, 8).split_off(400);
    put(&mut writer, &info, Trust::Unauthenticated, &later, Some(NOW_NS));
    let expected = Interval { trust: Some(Trust::Unauthenticated), ..data::active(&later[0]) };
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(info.host)), [expected]);
}

#[test]
fn who_sends_while_all_names_go_keeps_those_of_his_processes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let local = with_local(&path);
    let info = stranger(1);
    let mut writer = Writer::open(&path, &limited(local * 5 / 2)).unwrap();
    let day = with_new_names(data::day(&info, 2, 200, 1_600));
    put(&mut writer, &info, Trust::Unauthenticated, &day, Some(NOW_NS - data::SECOND_NS));
    let names = "SELECT (SELECT count(*) FROM thread WHERE id > 1 << 45) + (SELECT coalesce(sum(count), 0) FROM thread_block WHERE first_id > 1 << 45)";
    let all = data::number(&path, names);
    let mut steps = 0;
    // A step at a time, until some names are gone. A longer budget is enough for all names on a fast machine.
    while data::number(&path, names) == all {
        writer.maintain_at(Duration::from_micros(100), NOW_NS).unwrap();
        steps += 1;
        assert!(steps < 2_000, "the names stay");
    }
    assert!(
        data::number(&path, "SELECT count(*) FROM process_info WHERE id > 1 << 45") > 0,
        "of his processes"
    );
    let later = data::day(&info, 5, 401, 1_600).split_off(400);
    put(&mut writer, &info, Trust::Unauthenticated, &later, Some(NOW_NS));
    writer.maintain_at(MINUTE, NOW_NS).unwrap();
    let expected = Interval { trust: Some(Trust::Unauthenticated), ..data::active(&later[0]) };
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), [expected]);
}

#[test]
fn of_trusted_hosts_the_largest_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    with_local(&path);
    let (large, small) = (data::host(2), data::host(3));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put(&mut writer, &large, Trust::Authenticated, &data::day(&large, 2, 3_600, 160), None);
    put(&mut writer, &small, Trust::Encrypted, &data::day(&small, 3, 300, 40), None);
    data::compact_all(&mut writer);
    drop(writer);
    retain(&path, used_bytes(&path) * 3 / 4);
    assert_eq!((stored(&path, &data::host(1)), stored(&path, &small)), (3_600, 300));
    let left = stored(&path, &large);
    assert!(left > 0 && left < 3_600, "{left}");
    assert_eq!(counter(&path, "retired_unauthenticated_intervals"), 0);
}

#[test]
fn strangers_alone_have_the_whole_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = stranger(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put(&mut writer, &info, Trust::Unauthenticated, &data::day(&info, 1, 3_600, 40), None);
    data::compact_all(&mut writer);
    drop(writer);
    let max_bytes = used_bytes(&path) * 4 / 5;
    retain(&path, max_bytes);
    let left = stored(&path, &info);
    assert!((1_500..3_600).contains(&left), "{left}");
    assert!(used_bytes(&path) <= max_bytes && used_bytes(&path) > max_bytes * 9 / 10);
}

#[test]
fn data_of_a_store_before_trust_was_recorded_is_as_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let local = with_local(&path);
    let info = stranger(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put(&mut writer, &info, Trust::Unauthenticated, &data::day(&info, 2, 3_600, 80), None);
    data::compact_all(&mut writer);
    drop(writer);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE chunk SET trust = 0", []).unwrap();
    let max_bytes = local + local / 2;
    retain(&path, max_bytes);
    assert_eq!(stored(&path, &data::host(1)), 3_600);
    assert!(stored(&path, &info) < 3_600);
}

#[test]
fn hosts_and_boots_go_with_their_data_and_no_id_is_given_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions {
        max_age: Some(Duration::from_hours(24)),
        minute_max_age: Some(Duration::from_hours(24)),
        hour_max_age: Some(Duration::from_hours(24)),
        ..StoreOptions::default()
    };
    let mut writer = Writer::open(&path, &options).unwrap();
    let put_boots = |writer: &mut Writer, info: &HostInfo, trust: Trust, boots: std::ops::Range<u32>| {
        let day = data::day(info, 1, boots.end, 4);
        for at in boots {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&(at + 1).to_be_bytes());
            let one = Interval { boot: BootId(id), ..day[at as usize].clone() };
            writer.put_received(info, trust, None, &one, one.end.wall_ns).unwrap();
        }
    };
    let (enrolled, plain) = (data::host(2), stranger(1));
    put_boots(&mut writer, &enrolled, Trust::Authenticated, 0..30);
    put_boots(&mut writer, &plain, Trust::Unauthenticated, 0..300);
    data::compact_all(&mut writer);
    let rows = |table: &str| data::number(&path, &format!("SELECT count(*) FROM {table}"));
    assert_eq!((rows("host"), rows("boot"), rows("host_change")), (2, 330, 330));
    let last_ids =
        [data::number(&path, "SELECT max(id) FROM host"), data::number(&path, "SELECT max(id) FROM boot")];
    writer.maintain_at(MINUTE, data::START_NS + 30 * HOUR_NS).unwrap();
    assert_eq!(rows("chunk"), 0);
    writer.maintain_at(MINUTE, data::START_NS + 60 * HOUR_NS).unwrap();
    // Who was enrolled stays known, by its last boot.
    assert_eq!((rows("host"), rows("boot"), rows("host_change")), (1, 1, 1));
    let known = &Reader::open(&path).unwrap().hosts().unwrap()[0];
    assert_eq!((&*known.info.hostname, known.trust), ("host-2", Trust::Authenticated));
    put_boots(&mut writer, &plain, Trust::Unauthenticated, 300..301);
    writer.commit().unwrap();
    let new_ids =
        [data::number(&path, "SELECT max(id) FROM host"), data::number(&path, "SELECT max(id) FROM boot")];
    assert!(new_ids[0] > last_ids[0] && new_ids[1] > last_ids[1], "{new_ids:?} {last_ids:?}");
    assert_eq!(stored(&path, &plain), 1);
}

#[test]
fn a_host_that_changes_its_name_all_the_time_has_a_hundred_descriptions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let info = stranger(1);
    for (at, one) in data::day(&info, 1, 300, 4).iter().enumerate() {
        let info = HostInfo { hostname: format!("name-{at}").into(), ..info.clone() };
        writer.put_received(&info, Trust::Unauthenticated, None, one, one.end.wall_ns).unwrap();
    }
    writer.maintain_at(MINUTE, NOW_NS).unwrap();
    assert_eq!(data::number(&path, "SELECT count(*) FROM host_change"), 100);
    assert_eq!(&*Reader::open(&path).unwrap().hosts().unwrap()[0].info.hostname, "name-299");
}
