//! `check` and its copy: damage is found, and all that is not damaged is in the new store.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cpumon_model::{HostId, HostInfo, Interval, Trust};
use cpumon_store::{CheckReport, Query, Reader, Result, StoreError, StoreOptions, TimeRange, Writer, check};
use rusqlite::Connection;

use crate::data;
use crate::round_trip::read_all;

const PAGE: usize = 8_192;

struct Stored {
    dir: tempfile::TempDir,
    path: PathBuf,
    info: HostInfo,
    all: Vec<Interval>,
}

/// Received as it ends: the same store in each run, so the same bits are damaged.
fn put(writer: &mut Writer, info: &HostInfo, trust: Trust, interval: &Interval) {
    writer.put_received(info, trust, None, interval, interval.end.wall_ns).unwrap();
}

/// 100 intervals in five chunks, ten fresh ones, and another host; no log beside the file.
fn stored() -> Stored {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), data::host(1));
    let options = StoreOptions { compact_intervals: 20, ..StoreOptions::default() };
    let day = data::day(&info, 1, 110, 40);
    let mut writer = Writer::open(&path, &options).unwrap();
    for interval in &day[..100] {
        put(&mut writer, &info, Trust::Local, interval);
    }
    data::compact_all(&mut writer);
    for interval in &day[100..] {
        put(&mut writer, &info, Trust::Local, interval);
    }
    for interval in data::day(&data::host(2), 2, 5, 8) {
        put(&mut writer, &data::host(2), Trust::Unauthenticated, &interval);
    }
    drop(writer);
    // The only user closes it: the log is put into the file.
    drop(Connection::open(&path).unwrap());
    assert!(!dir.path().join("s.db-wal").exists());
    let all = day.iter().map(data::active).collect();
    Stored { dir, path, info, all }
}

/// Gives an answer or an error.
fn read_to_the_end(reader: &Reader, host: HostId) {
    if let Ok(mut reading) = reader.intervals(&Query::new(host)) {
        while matches!(reading.read(), Ok(Some(_))) {}
    }
}

fn check_only(path: &Path) -> Result<CheckReport> {
    check(path, None, &Arc::default())
}

impl Stored {
    fn salvage(&self, from: &Path, name: &str) -> (Result<CheckReport>, PathBuf) {
        let to = self.dir.path().join(name);
        (check(from, Some(&to), &Arc::default()), to)
    }

    /// Each interval is in the new store as it was, or in a hole that the report names and that is a gap there.
    fn assert_rest_is_there(&self, report: &CheckReport, to: &Path, what: &str) {
        let reader = Reader::open(to).unwrap();
        let read = read_all(&reader, &Query::new(self.info.host));
        assert!(reader.damage().is_empty(), "{what}: {:?}", reader.damage());
        let gaps = reader.gaps(self.info.host, TimeRange::ALL, 100).unwrap();
        for interval in &self.all {
            let end = interval.end.wall_ns;
            let mut holes = report.damage.holes.iter().filter(|hole| hole.host == self.info.host);
            let is_lost = holes.any(|hole| (hole.first_end_wall_ns..=hole.last_end_wall_ns).contains(&end));
            let found = read.iter().find(|one| one.sequence == interval.sequence);
            assert_eq!(found.is_some(), !is_lost, "{what}: {} {report:?}", interval.sequence);
            let is_gap = gaps
                .iter()
                .any(|gap| gap.reason == "damaged" && (gap.begin_wall_ns..=gap.end_wall_ns).contains(&end));
            assert_eq!(is_gap, is_lost, "{what}: {} {gaps:?}", interval.sequence);
            if let Some(found) = found.filter(|_| report.lost.is_empty()) {
                assert_eq!(found, interval, "{what}");
            }
        }
        assert!(check_only(to).unwrap().is_sound(), "{what}");
    }
}

#[test]
fn a_sound_store_is_sound_and_its_copy_is_the_same() {
    let stored = stored();
    let before = std::fs::read(&stored.path).unwrap();
    let (report, to) = stored.salvage(&stored.path, "new.db");
    let report = report.unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.rows["chunk"], report.rows["interval"], report.rows["host"]), (5, 15, 2));
    stored.assert_rest_is_there(&report, &to, "sound");
    let (old, new) = (Reader::open(&stored.path).unwrap(), Reader::open(&to).unwrap());
    assert_eq!(old.hosts().unwrap(), new.hosts().unwrap());
    assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(&stored.path).unwrap(), before, "it is only read");
    // Nothing is replaced.
    let error = stored.salvage(&stored.path, "new.db").0.unwrap_err();
    assert!(
        error.to_string().contains("cannot salvage into") && error.to_string().contains("new.db"),
        "{error}"
    );
    let writer = Writer::open(&to, &StoreOptions::default());
    writer.unwrap().put(&stored.info, Trust::Local, None, &stored.all[0]).unwrap();
}

#[test]
fn a_flipped_bit_in_a_chunk_is_a_hole_of_that_chunk_alone() {
    let stored = stored();
    let mut random = data::Random::new(7);
    let mut without_effect = 0;
    for round in 0..40 {
        let damaged = stored.dir.path().join(format!("d{round}.db"));
        std::fs::copy(&stored.path, &damaged).unwrap();
        let connection = Connection::open(&damaged).unwrap();
        let section = ["meta", "processes", "threads"][round % 3];
        let id = 1 + random.below(5).cast_signed();
        let select = format!("SELECT {section} FROM chunk WHERE id = ?1");
        let mut bytes: Vec<u8> = connection.query_row(&select, [id], |row| row.get(0)).unwrap();
        let bit = usize::try_from(random.below(bytes.len() as u64 * 8)).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let update = format!("UPDATE chunk SET {section} = ?2 WHERE id = ?1");
        connection.execute(&update, rusqlite::params![id, bytes]).unwrap();
        drop(connection);
        let (report, to) = stored.salvage(&damaged, &format!("n{round}.db"));
        let report = report.unwrap();
        let holes: Vec<_> = report.damage.holes.iter().map(|hole| hole.intervals).collect();
        assert!(matches!(&holes[..], [] | [Some(20)]), "{section} bit {bit}: {report:?}");
        assert_eq!((report.pages.is_empty(), report.is_sound()), (true, holes.is_empty()));
        // Without a hole, everything is as it was: some bits of zstd have no meaning.
        stored.assert_rest_is_there(&report, &to, section);
        without_effect += usize::from(holes.is_empty());
    }
    // Of 10,000 bits, 5 to 50 are without effect.
    assert!(without_effect < 4, "{without_effect}");
}

#[test]
fn a_page_of_zeros_costs_what_was_on_it() {
    let stored = stored();
    let sound = std::fs::read(&stored.path).unwrap();
    let (mut found, mut holes, mut without_tables) = (0, 0, 0);
    for page in 1..sound.len() / PAGE {
        let damaged = stored.dir.path().join(format!("d{page}.db"));
        let mut bytes = sound.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        std::fs::write(&damaged, &bytes).unwrap();
        let (report, to) = stored.salvage(&damaged, &format!("n{page}.db"));
        let report = report.unwrap();
        // The list of tables continues on some pages.
        without_tables += usize::from(report.pages.iter().any(|line| line.contains("list of tables")));
        found += usize::from(!report.is_sound());
        holes += usize::from(!report.damage.is_empty());
        stored.assert_rest_is_there(&report, &to, &format!("page {}", page + 1));
        // Reading the damaged one itself gives an answer or an error.
        if let Ok(reader) = Reader::open(&damaged) {
            read_to_the_end(&reader, stored.info.host);
        }
    }
    assert!((1..=2).contains(&without_tables), "{without_tables}");
    assert!(found > 20 && holes >= 3, "{found} {holes} of {}", sound.len() / PAGE);
}

#[test]
fn with_other_content_it_is_no_store() {
    let stored = stored();
    let sound = std::fs::read(&stored.path).unwrap();
    let bad = stored.dir.path().join("bad");
    for (bytes, expected) in [
        (vec![0; sound.len()], "damaged or not a cpumon store"),
        (b"Dear store, ".repeat(2_000), "damaged or not a cpumon store"),
        (Vec::new(), "the file is empty"),
    ] {
        std::fs::write(&bad, &bytes).unwrap();
        let (report, to) = stored.salvage(&bad, "new.db");
        let error = report.unwrap_err();
        assert!(
            matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains(expected),
            "{error}"
        );
        assert!(!to.exists());
    }
    let other = stored.dir.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    assert!(matches!(check_only(&other), Err(StoreError::NotAStore { .. })));
    assert!(matches!(check_only(&stored.dir.path().join("none")), Err(StoreError::Missing { .. })));
    assert!(matches!(check_only(stored.dir.path()), Err(StoreError::Directory { .. })));
}

/// `find --store PIPE` waited for a writer without end.
#[test]
fn what_is_no_regular_file_is_refused_before_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.db");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [socket.as_path(), Path::new("/dev/zero")] {
        assert!(matches!(Reader::open(path), Err(StoreError::NoFile { .. })), "{}", path.display());
        assert!(matches!(check_only(path), Err(StoreError::NoFile { .. })), "{}", path.display());
    }
    let written = Writer::open(&socket, &StoreOptions::default());
    assert!(matches!(written, Err(StoreError::NoFile { .. })), "{written:?}");
}

/// What may be on a damaged page.
fn fill(pages: &mut [u8], with: u8) {
    let mut random = data::Random::new(with.into());
    for byte in pages {
        *byte = if with == 0 { 0 } else { random.below(256).to_le_bytes()[0] };
    }
}

#[test]
fn without_its_header_and_list_of_tables_all_the_rest_is_salvaged() {
    let stored = stored();
    let sound = std::fs::read(&stored.path).unwrap();
    let damaged = stored.dir.path().join("damaged.db");
    for (bytes, with) in [(PAGE, 0), (PAGE, 7), (100, 3), (28, 0), (2 * PAGE, 0)] {
        let mut file = sound.clone();
        fill(&mut file[..bytes], with);
        std::fs::write(&damaged, &file).unwrap();
        let error = check_only(&damaged).unwrap_err().to_string();
        assert!(error.contains("but the rest can be salvaged"), "{error}");
        let name = format!("new{bytes}-{with}.db");
        let (report, to) = stored.salvage(&damaged, &name);
        let report = report.unwrap();
        assert!(report.damage.is_empty() && report.lost.is_empty() && !report.is_sound(), "{report:?}");
        assert!(report.pages[0].contains("list of tables"), "{report:?}");
        assert_eq!((report.rows["chunk"], report.rows["interval"], report.rows["host"]), (5, 15, 2));
        stored.assert_rest_is_there(&report, &to, &name);
        assert_eq!(std::fs::read(&damaged).unwrap(), file, "it is only read");
    }
    let left = std::fs::read_dir(stored.dir.path()).unwrap().map(|file| file.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn without_its_first_pages_samples_are_salvaged_under_an_id_of_ours() {
    let stored = stored();
    let mut file = std::fs::read(&stored.path).unwrap();
    // Header, list of tables, hosts, boots and their indexes.
    fill(&mut file[..6 * PAGE], 0);
    let damaged = stored.dir.path().join("damaged.db");
    std::fs::write(&damaged, &file).unwrap();
    let (report, to) = stored.salvage(&damaged, "new.db");
    let report = report.unwrap();
    let lost = |table: &str| {
        report.lost.iter().filter(|lost| lost.table == table).map(|lost| lost.rows).sum::<u64>()
    };
    assert_eq!((lost("host"), lost("boot")), (2, 2), "{report:?}");
    let reader = Reader::open(&to).unwrap();
    let hosts = reader.hosts().unwrap();
    let read: usize = hosts.iter().map(|host| read_all(&reader, &Query::new(host.info.host)).len()).sum();
    assert_eq!((hosts.len(), read), (2, 115));
    assert!(hosts.iter().all(|host| host.trust == Trust::Unauthenticated), "no one vouches for it");
    assert!(check_only(&to).unwrap().is_sound());
}

#[test]
fn a_store_of_any_earlier_version_is_salvaged_without_its_first_page() {
    for version in 1..=9 {
        for is_migrated in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (path, to) = (dir.path().join("old.db"), dir.path().join("new.db"));
            crate::fixture::unpack(version, &path);
            if is_migrated {
                drop(Writer::open(&path, &StoreOptions::default()).unwrap());
                drop(Connection::open(&path).unwrap());
            }
            let sound = check_only(&path).unwrap();
            let mut file = std::fs::read(&path).unwrap();
            fill(&mut file[..PAGE], 0);
            std::fs::write(&path, &file).unwrap();
            let report = check(&path, Some(&to), &Arc::default()).unwrap();
            let what = format!("version {version}, migrated: {is_migrated}: {report:?}");
            for (table, rows) in &sound.rows {
                assert_eq!(report.rows.get(table), Some(rows), "{table} of {what}");
            }
            assert!(report.damage.is_empty() && report.lost.is_empty(), "{what}");
            assert!(!Reader::open(&to).unwrap().hosts().unwrap().is_empty());
        }
    }
}

#[test]
fn requests_and_trusts_that_cannot_be_are_not_copied() {
    let stored = stored();
    let connection = Connection::open(&stored.path).unwrap();
    let damage = "INSERT INTO forget VALUES (2), (77); UPDATE chunk SET trust = 0 WHERE id = 1;
                  UPDATE chunk SET trust = 1 WHERE id = 2; UPDATE interval SET trust = 99 WHERE host_id = 1";
    connection.execute_batch(damage).unwrap();
    drop(connection);
    let (report, to) = stored.salvage(&stored.path, "new.db");
    let report = report.unwrap();
    assert_eq!((report.lost[0].table.as_str(), report.lost[0].rows), ("forget", 1), "{report:?}");
    let expected = ["table chunk: 2 rows have a trust", "table interval: 10 rows have a trust"];
    for (line, expected) in report.pages.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert_eq!(report.pages.len(), 2);
    let count = |text: &str| data::number(&to, text);
    assert_eq!(count("SELECT count(*) FROM forget WHERE host_id = 2"), 1);
    assert_eq!(count("SELECT count(*) FROM forget"), 1);
    assert_eq!(count("SELECT count(*) FROM chunk WHERE trust = 5"), 5, "as their intervals");
    assert_eq!(count("SELECT count(*) FROM interval WHERE host_id = 1 AND trust = 1"), 10);
    assert!(check_only(&to).unwrap().is_sound());
}

/// Four pages over one another that lead to one child 900 times each were 656 billion rows in a file of 700 kB.
#[test]
fn a_page_that_many_lead_to_is_read_once() {
    let stored = stored();
    let mut file = std::fs::read(&stored.path).unwrap();
    let root = data::number(&stored.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'host'");
    let root = (usize::try_from(root).unwrap() - 1) * PAGE;
    let child = u32::try_from(file.len() / PAGE + 1).unwrap().to_be_bytes();
    // SQLite's file format, section 1.6: a page of cells, each with a child and the largest key there.
    let (cells, begin) = (900_u16, 8_192 - 900 * 5_u16);
    let mut page = vec![0; PAGE];
    page[0] = 5;
    page[3..5].copy_from_slice(&cells.to_be_bytes());
    page[5..7].copy_from_slice(&begin.to_be_bytes());
    page[8..12].copy_from_slice(&child);
    for (place, begin) in (12..).step_by(2).zip((begin..8_192).step_by(5)) {
        page[place..place + 2].copy_from_slice(&begin.to_be_bytes());
        let cell = &mut page[usize::from(begin)..][..5];
        cell[..4].copy_from_slice(&child);
        cell[4] = 1;
    }
    let leaf = file[root..root + PAGE].to_vec();
    file[root..root + PAGE].copy_from_slice(&page);
    file.extend(leaf);
    let pages = u32::try_from(file.len() / PAGE).unwrap();
    file[28..32].copy_from_slice(&pages.to_be_bytes());
    let damaged = stored.dir.path().join("damaged.db");
    std::fs::write(&damaged, &file).unwrap();
    let (report, to) = stored.salvage(&damaged, "new.db");
    let report = report.unwrap();
    assert_eq!(report.rows["host"], 2, "{report:?}");
    assert!(report.lost.iter().any(|lost| lost.table == "host" && lost.ranges == 1), "{report:?}");
    assert_eq!(data::number(&to, "SELECT count(*) FROM host"), 2);
}

/// A page with 500 cells that lead to one child, each with this key (SQLite's file format, section 1.6); `head`: where it begins.
fn page_over(child: usize, kind: u8, key: &[u8], head: usize) -> Vec<u8> {
    let (child, bytes) = (u32::try_from(child).unwrap().to_be_bytes(), 4 + key.len());
    let begin = PAGE - 500 * bytes;
    let mut page = vec![0; PAGE];
    page[head] = kind;
    page[head + 3..head + 5].copy_from_slice(&500_u16.to_be_bytes());
    page[head + 5..head + 7].copy_from_slice(&u16::try_from(begin).unwrap().to_be_bytes());
    page[head + 8..head + 12].copy_from_slice(&child);
    for (place, cell) in (head + 12..).step_by(2).zip((begin..PAGE).step_by(bytes)) {
        page[place..place + 2].copy_from_slice(&u16::try_from(cell).unwrap().to_be_bytes());
        page[cell..cell + 4].copy_from_slice(&child);
        page[cell + 4..cell + bytes].copy_from_slice(key);
    }
    page
}

/// Where keys have two parts, SQLite itself passes over rows in front of the last one: here 63 billion times the same row.
#[test]
fn rows_that_are_passed_over_without_an_end_are_lost() {
    let stored = stored();
    let mut file = std::fs::read(&stored.path).unwrap();
    let root = data::number(
        &stored.path,
        "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'process_block_info'",
    );
    let root = (usize::try_from(root).unwrap() - 1) * PAGE;
    // SQLite's file format, section 2.1: the key (1, 1) in 4 bytes.
    let key = [3, 3, 9, 9];
    let first = page_over(file.len() / PAGE + 1, 2, &key, 0);
    file[root..root + PAGE].copy_from_slice(&first);
    for _ in 0..3 {
        let next = page_over(file.len() / PAGE + 2, 2, &key, 0);
        file.extend(next);
    }
    let mut leaf = vec![0; PAGE];
    leaf[0] = 10;
    leaf[3..5].copy_from_slice(&1_u16.to_be_bytes());
    for place in [5, 8] {
        leaf[place..place + 2].copy_from_slice(&8_188_u16.to_be_bytes());
    }
    leaf[8_188..].copy_from_slice(&key);
    file.extend(leaf);
    let pages = u32::try_from(file.len() / PAGE).unwrap();
    file[28..32].copy_from_slice(&pages.to_be_bytes());
    let damaged = stored.dir.path().join("damaged.db");
    std::fs::write(&damaged, &file).unwrap();
    let report = check_only(&damaged).unwrap();
    assert_eq!(report.rows["process_block_info"], 1, "{report:?}");
    let lost = report.lost.iter().find(|lost| lost.table == "process_block_info").unwrap();
    assert_eq!((lost.rows, lost.ranges), (0, 1), "{report:?}");
}

/// Its rows were counted in one step of SQLite's machine, which nothing could end.
#[test]
fn a_list_of_tables_without_an_end_is_an_error() {
    let stored = stored();
    let mut file = std::fs::read(&stored.path).unwrap();
    assert_eq!(file[100], 5, "it has more than a page");
    let child = usize::try_from(u32::from_be_bytes(file[108..112].try_into().unwrap())).unwrap();
    let first = page_over(file.len() / PAGE + 1, 5, &[1], 100);
    file[100..PAGE].copy_from_slice(&first[100..]);
    for child in [file.len() / PAGE + 2, file.len() / PAGE + 3, child] {
        file.extend(page_over(child, 5, &[1], 0));
    }
    let pages = u32::try_from(file.len() / PAGE).unwrap();
    file[28..32].copy_from_slice(&pages.to_be_bytes());
    let damaged = stored.dir.path().join("damaged.db");
    std::fs::write(&damaged, &file).unwrap();
    check_only(&damaged).unwrap_err();
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_there() {
    let stored = stored();
    let sound = std::fs::read(&stored.path).unwrap();
    let pages = sound.len() / PAGE;
    for kept in [pages - 1, pages - 3, pages - 5] {
        let cut = stored.dir.path().join(format!("cut{kept}.db"));
        std::fs::write(&cut, &sound[..kept * PAGE + 100]).unwrap();
        let (report, to) = stored.salvage(&cut, &format!("n{kept}.db"));
        let report = report.unwrap();
        assert!(!report.is_sound(), "{kept} of {pages}");
        let read = read_all(&Reader::open(&to).unwrap(), &Query::new(stored.info.host));
        assert!(read.iter().all(|one| stored.all.iter().any(|interval| interval.end == one.end)));
        assert!(check_only(&to).unwrap().is_sound());
    }
    let cut = stored.dir.path().join("cut.db");
    std::fs::write(&cut, &sound[..10 * PAGE]).unwrap();
    let (report, to) = stored.salvage(&cut, "new.db");
    assert!(matches!(report, Err(StoreError::Corrupt { .. })) && !to.exists(), "without its list of tables");
}

#[test]
fn any_flipped_bits_end_in_a_report_or_an_error() {
    let stored = stored();
    let sound = std::fs::read(&stored.path).unwrap();
    let mut random = data::Random::new(3);
    let mut salvaged = 0;
    for round in 0..60_u64 {
        let damaged = stored.dir.path().join("damaged.db");
        let mut bytes = sound.clone();
        for _ in 0..=random.below(1 + round) {
            let bit = usize::try_from(random.below(bytes.len() as u64 * 8)).unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        std::fs::write(&damaged, &bytes).unwrap();
        let (report, to) = stored.salvage(&damaged, &format!("n{round}.db"));
        if let Ok(reader) = Reader::open(&damaged) {
            let _ = reader.gaps(stored.info.host, TimeRange::ALL, 100);
            read_to_the_end(&reader, stored.info.host);
        }
        if report.is_ok() {
            salvaged += 1;
            let pages = check_only(&to).unwrap();
            assert!(pages.pages.is_empty() && pages.damage.is_empty(), "round {round}: {pages:?}");
        } else {
            assert!(!to.exists(), "round {round}");
        }
    }
    assert!(salvaged > 30, "{salvaged}");
}

#[test]
fn a_check_that_is_stopped_leaves_nothing_behind() {
    let stored = stored();
    let to = stored.dir.path().join("new.db");
    assert!(check(&stored.path, Some(&to), &Arc::new(AtomicBool::new(true))).is_err());
    let names = std::fs::read_dir(stored.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    // SQLite's own files beside the one that is read may stay.
    assert!(names.iter().all(|name| name.starts_with("s.db")), "{names:?}");
}

#[test]
fn a_store_of_any_earlier_version_is_copied_and_brought_up_to_date() {
    for version in 1..=9 {
        let dir = tempfile::tempdir().unwrap();
        let (path, to) = (dir.path().join("old.db"), dir.path().join("new.db"));
        crate::fixture::unpack(version, &path);
        let report = check(&path, Some(&to), &Arc::default()).unwrap();
        assert!(report.is_sound(), "version {version}: {report:?}");
        assert!(!Reader::open(&to).unwrap().hosts().unwrap().is_empty());
        assert!(matches!(Reader::open(&path), Err(StoreError::OlderSchema { .. })), "it is only read");
    }
}
