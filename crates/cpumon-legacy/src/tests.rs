//! The import as a whole: the real sample, and files that mean harm.

use std::path::{Path, PathBuf};

use cpumon_model::{Flags, HostInfo, Interval, SourceKind, Trust};
use cpumon_store::{Query, Reader, StoreOptions, StoredInterval};
use rusqlite::Connection;

use super::*;
use crate::cpu_time::cpu_ns;
use crate::held_memory::taken_by;

const SCHEMA_2012: &str = "
    CREATE TABLE [Processes] ([ProcID] INTEGER NOT NULL, [Process] TEXT NOT NULL, [User] INTEGER NOT NULL,
        [Kernel] INTEGER NOT NULL, [Time] INTEGER NOT NULL, [Duration] INTEGER NOT NULL,
        [idx] INTEGER PRIMARY KEY AUTOINCREMENT);
    CREATE TABLE [Threads] ([ThreadID] INTEGER NOT NULL, [ProcID] INTEGER NOT NULL, [user] INTEGER NOT NULL,
        [kernel] INTEGER NOT NULL, [duration] INTEGER NOT NULL, [timestamp] INTEGER NOT NULL, [idx] INTEGER NOT NULL);";
/// 2014-04-10 09:38:16.668
const TICKS: i64 = 635_327_194_966_680_000;

fn schema_2013() -> String {
    SCHEMA_2012.replace("[Processes] (", "[Processes] ([RemoteIP] TEXT NOT NULL, ")
}

struct Fixture {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn fixture(sql: &str) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("Process Usage?#%.sqlite");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    Fixture { path, _dir: dir }
}

type Imported = (ImportReport, Vec<(HostInfo, Interval)>);

fn import_all(path: &Path, options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut out = Vec::new();
    let report = import_sets(path, options, &mut |host, interval, _| {
        out.push((host.clone(), interval.clone()));
        Ok(())
    })?;
    Ok((report, out))
}

fn error_of(path: &Path) -> String {
    import_all(path, &ImportOptions::default())
        .unwrap_err()
        .to_string()
        .replace(&*path.to_string_lossy(), "FILE")
}

/// The sample, or `None` where it is not (which is a failure in CI).
fn sample() -> Option<PathBuf> {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/v1/legacy/ProcessUsage.sqlite"));
    if path.exists() {
        return Some(path.to_owned());
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing", path.display());
    println!("skipped: {} is missing", path.display());
    None
}

#[test]
fn the_sample_is_taken_over_row_by_row() {
    let Some(path) = sample() else { return };
    let (report, all) = import_all(&path, &ImportOptions::default()).unwrap();
    assert_eq!((report.process_rows_read, report.process_rows), (1716, 1716));
    assert_eq!((report.thread_rows_read, report.thread_rows), (41_557, 41_557));
    assert_eq!((report.sets, report.hosts.len(), all.len()), (117, 1, 117));
    assert!(report.is_complete() && report.odd == OddRows::default(), "{report:?}");
    assert_eq!(report.schema, Schema::Y2012);
    insta::assert_snapshot!(report.lines().join("\n"));

    assert!(all.windows(2).all(|pair| pair[0].1.end.wall_ns < pair[1].1.end.wall_ns));
    let user_ns: i64 = all.iter().flat_map(|(_, set)| &set.processes).map(|row| row.delta.user_ns).sum();
    let thread_ns: i64 = all.iter().flat_map(|(_, set)| &set.threads).map(|row| row.delta.user_ns).sum();
    assert_eq!((user_ns, thread_ns), (104_649_000_000, 104_611_000_000));
    let set = &all.iter().find(|(_, set)| set.v1_ticks == Some(TICKS)).unwrap().1;
    assert_eq!(set.source, SourceKind::Legacy);
    assert_eq!(set.end.wall_ns, 1_397_122_696_668_000_000);
    for (_, set) in &all {
        assert!(set.processes.windows(2).all(|pair| pair[0].key < pair[1].key));
        assert!(set.threads.windows(2).all(|pair| pair[0].key < pair[1].key));
        assert!(set.threads.iter().all(|thread| set.process(thread.process).is_some()));
    }
}

#[test]
fn the_order_of_the_samples_rows_can_be_restored() {
    let Some(path) = sample() else { return };
    let mut idx = Vec::new();
    let report = import_sets(&path, &ImportOptions::default(), &mut |_, interval, order| {
        assert_eq!(order.process_idx.len(), interval.processes.len());
        let mut positions = order.thread_position.clone();
        positions.sort_unstable();
        assert!(positions.iter().copied().eq(0..u32::try_from(interval.threads.len()).unwrap()));
        idx.extend_from_slice(&order.process_idx);
        Ok(())
    });
    idx.sort_unstable();
    assert!(report.is_ok() && idx.into_iter().eq(1..=1716));
}

#[test]
fn the_schema_of_2013_names_devices() {
    let sql = schema_2013()
        + &format!(
            "INSERT INTO Processes VALUES ('10.0.0.2', 7, 'a.exe', 5, 1, {TICKS}, 3000, 1),
             ('10.0.0.1', 7, 'a.exe', 9, 0, {TICKS}, 3000, 2), ('10.0.0.2', 8, 'a.exe', 2, 0, {TICKS}, 3000, 3);
             INSERT INTO Threads VALUES (70, 7, 4, 1, 3000, {TICKS}, 1), (70, 7, 9, 0, 3000, {TICKS}, 2);"
        );
    let file = fixture(&sql);
    let (report, all) = import_all(&file.path, &ImportOptions::default()).unwrap();
    assert_eq!(
        (report.schema, report.sets, report.process_rows, report.thread_rows),
        (Schema::Y2013, 2, 3, 2)
    );
    assert_eq!(&*all[0].0.hostname, "10.0.0.1");
    assert_eq!(&*all[1].0.hostname, "10.0.0.2");
    assert_ne!(all[0].0.host, all[1].0.host);
    assert_eq!(all[1].1.processes.len(), 2, "same-named processes stay apart");
    assert_eq!(all[1].1.processes[0].delta.run_ns, 6_000_000);
    assert_eq!(all[1].1.threads[0].process.pid, 7);
    let named = ImportOptions { host: Some("pda".to_owned()), ..ImportOptions::default() };
    assert!(matches!(import_all(&file.path, &named), Err(ImportError::HostForMany { count: 2, .. })));
}

#[test]
fn a_second_import_meets_the_first_and_the_zone_shifts_it() {
    let sql = format!("{SCHEMA_2012} INSERT INTO Processes VALUES (7, 'a', 5, 0, {TICKS}, 3000, 1);");
    let file = fixture(&sql);
    let options = ImportOptions { host: Some("pda".to_owned()), zone: "+02:00".parse().unwrap() };
    let (first, second) =
        (import_all(&file.path, &options).unwrap(), import_all(&file.path, &options).unwrap());
    assert_eq!(first, second);
    let (host, set) = &first.1[0];
    assert_eq!(&*host.hostname, "pda");
    assert_eq!(set.end.wall_ns, 1_397_122_696_668_000_000 - 7_200_000_000_000);
    assert_eq!((set.duration_ns(), set.v1_ticks), (3_000_000_000, Some(TICKS)));
    assert!(first.0.guesses.is_empty());
}

#[test]
fn every_odd_row_is_counted() {
    let sql = format!(
        "{SCHEMA_2012}
         INSERT INTO Processes VALUES (1, 'plain', 5, 0, {TICKS}, 3000, 1), (1, 'plain', 5, 0, {TICKS}, 3000, 2),
            (1, 'plain', 6, 0, {TICKS}, 3000, 3), (2, 'text', 'x', 0, {TICKS}, 3000, 4),
            (-3, 'pid', 0, 0, {TICKS}, 3000, 5), (4, 'when', 0, 0, -1, 3000, 6),
            (5, 'negative', -5, 0, {TICKS}, 3000, 7), (6, '', 0, 0, {TICKS}, 2999, 8),
            (7, 'long', 0, 0, {TICKS}, -1, 9), (1, 'other', 1, 0, {TICKS}, 3000, 11), (8, 'huge', {max}, {max}, {TICKS}, 3000, 10);
         INSERT INTO Threads VALUES (10, 1, 5, 0, 3000, {TICKS}, 1), (10, 1, 5, 0, 3000, {TICKS}, 2),
            (10, 1, 6, 0, 3000, {TICKS}, 3), (11, 2, 0, 0, 3000, {TICKS}, 4), (12, 9, 0, 0, 3000, {TICKS}, 99),
            (-1, 5, 0, 0, 3000, {TICKS}, 7), (13, 5, x'00', 0, 3000, {TICKS}, 7);",
        max = i64::MAX,
    );
    let file = fixture(&sql);
    let (report, all) = import_all(&file.path, &ImportOptions::default()).unwrap();
    let expected = OddRows {
        wrong_type: 2,
        out_of_range: 3,
        bad_time: 1,
        orphan_threads: 1,
        threads_of_left_out: 1,
        duplicates: 2,
        merged: 2,
        impossible: 2,
        other_duration: 1,
        nameless: 1,
        ambiguous_time: 0,
    };
    assert_eq!(report.odd, expected);
    assert!(!report.is_complete());
    assert_eq!((report.process_rows_read, report.process_rows), (11, 5));
    assert_eq!((report.thread_rows_read, report.thread_rows), (7, 1));
    let set = &all[0].1;
    assert_eq!(set.processes[0].delta.user_ns, 11_000_000);
    assert_eq!(
        (&*set.processes[1].info.name, set.processes[1].key.pid),
        ("other", 1),
        "two names stay apart"
    );
    assert_eq!(set.processes[2].delta.user_ns, -5_000_000, "shown, not clamped");
    assert_eq!(set.processes[2].flags, Flags::IMPOSSIBLE);
    assert!(set.flags.contains(Flags::IMPOSSIBLE));
    insta::assert_snapshot!(report.lines().join("\n"));
}

#[test]
fn hostile_names_come_through_unchanged() {
    let names = ["'; DROP TABLE Processes--", "=cmd()", "a\nb", "\"q\"", "\u{1b}[2J", "ü日"];
    let file = fixture(SCHEMA_2012);
    let writer = Connection::open(&file.path).unwrap();
    for (pid, name) in (1_i64..).zip(names) {
        let insert = "INSERT INTO Processes VALUES (?1, ?2, 1, 0, ?3, 3000, NULL)";
        writer.execute(insert, rusqlite::params![pid, name, TICKS]).unwrap();
    }
    writer.close().unwrap();
    let (_, all) = import_all(&file.path, &ImportOptions::default()).unwrap();
    assert!(all[0].1.processes.iter().map(|row| &*row.info.name).eq(names));
}

#[test]
fn a_set_that_would_fill_the_memory_is_refused() {
    // A million rows of one time took 1 GB, of a file of 31 MB.
    let rows = |count: u32| {
        format!(
            "{SCHEMA_2012} INSERT INTO Processes (ProcID, Process, User, Kernel, Time, Duration)
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count})
                 SELECT i, 'p', 5, 0, {TICKS}, 10000000 FROM n"
        )
    };
    let (report, all) = import_all(&fixture(&rows(65_536)).path, &ImportOptions::default()).unwrap();
    assert_eq!((report.process_rows, all[0].1.processes.len()), (65_536, 65_536));
    let error = error_of(&fixture(&rows(65_537)).path);
    assert!(error.contains("more than 65536 rows of one time stamp"), "{error}");
}

#[test]
fn threads_of_one_process_row_that_would_fill_the_memory_are_refused() {
    // They were counted only after the last one: 224 bytes for each.
    let sql = format!(
        "{SCHEMA_2012} INSERT INTO Processes VALUES (1, 'p', 5, 0, {TICKS}, 3000, 1);
         INSERT INTO Threads WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500000)
             SELECT i, 1, 5, 0, 3000, {TICKS}, 1 FROM n"
    );
    let file = fixture(&sql);
    let (error, taken) = taken_by(|| error_of(&file.path));
    assert!(error.contains("more than 65536 rows of one time stamp"), "{error}");
    assert!(taken.most < 64 << 20, "{taken:?}");
}

#[test]
fn names_that_would_fill_the_memory_are_refused() {
    let sql = format!(
        "{SCHEMA_2012} INSERT INTO Processes (ProcID, Process, User, Kernel, Time, Duration)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000)
             SELECT 7, i || printf('%.*c', 32000, 'x'), 5, 0, {TICKS}, 3000 FROM n"
    );
    let file = fixture(&sql);
    let (error, taken) = taken_by(|| error_of(&file.path));
    assert!(error.contains("more than 33554432 bytes of names of one time stamp"), "{error}");
    assert!(taken.most < 96 << 20, "{taken:?}");
}

/// 65,535 names of one id took two billion comparisons, and each row that repeats the last name as many as there are names. The measure
/// is a file of as many ids, because a test knows neither machine nor optimization.
#[test]
fn names_of_one_id_are_not_compared_with_each_other() {
    const NAMES: u32 = 20_000;
    let rows = |id: &str| {
        format!(
            "{SCHEMA_2012} INSERT INTO Processes (ProcID, Process, User, Kernel, Time, Duration)
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 70000)
                 SELECT {id}, 'p' || min(i, {NAMES}), 5, 0, {TICKS}, 3000 FROM n"
        )
    };
    let (usual, worst) = (fixture(&rows(&format!("min(i, {NAMES})"))), fixture(&rows("7")));
    let import = |file: &Fixture| import_all(&file.path, &ImportOptions::default()).unwrap();
    let (report, all) = import(&worst);
    assert_eq!((report.process_rows, report.odd.duplicates), (NAMES.into(), 50_000));
    let keys = all[0].1.processes.iter().map(|row| (row.key.pid, row.key.start_ns));
    assert!(keys.eq((0..u64::from(NAMES)).map(|number| (7, number))), "each name is a process of its own");
    let (usual_ns, worst_ns) = (cpu_ns(|| import(&usual)), cpu_ns(|| import(&worst)));
    assert!(worst_ns <= 5 * usual_ns, "{worst_ns} of {usual_ns} ns");
}

#[test]
fn an_empty_database_of_the_receiver_is_fine() {
    let (report, all) = import_all(&fixture(SCHEMA_2012).path, &ImportOptions::default()).unwrap();
    assert!(all.is_empty() && report.sets == 0 && report.span.is_none());
    assert!(report.lines().iter().any(|line| line.contains("0 intervals")));
}

#[test]
fn files_that_are_something_else_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    assert!(error_of(&path).starts_with("cannot open FILE for import"));
    for bytes in [&b""[..], b"SQLite format 3", b"MZ\x90\0 and so on, not a database at all"] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(error_of(&path), "FILE is not a SQLite database");
    }
    assert!(matches!(
        import_all(dir.path(), &ImportOptions::default()),
        Err(ImportError::NotADatabase { .. })
    ));
    std::fs::write(&path, b"\x1f\x8b\x08\0 and so on, a database below").unwrap();
    assert!(error_of(&path).starts_with("FILE is packed with gzip; unpack it first"));
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(error_of(&pipe), "FILE is not a SQLite database", "it has no writer");
    let garbage: Vec<_> = b"SQLite format 3\0".iter().copied().chain((0..=255).cycle().take(8192)).collect();
    std::fs::write(&path, garbage).unwrap();
    let text = error_of(&path);
    assert!(text.contains("not a SQLite database") || text.contains("cannot read"), "{text}");

    let wrong = [
        ("CREATE TABLE t (a);", "it has no table Processes"),
        ("CREATE TABLE Processes (a);", "it has no table Threads"),
        ("CREATE TABLE t (a); CREATE VIEW Processes AS SELECT * FROM t;", "Processes is a view, not a table"),
    ];
    for (sql, reason) in wrong {
        let expected = format!("FILE is no database of the original receiver: {reason}");
        assert_eq!(error_of(&fixture(sql).path), expected);
    }
    let no_kernel = SCHEMA_2012.replace("[Kernel] INTEGER NOT NULL,", "");
    assert!(error_of(&fixture(&no_kernel).path).ends_with("table Processes has no column Kernel"));
    let no_key = SCHEMA_2012.replace("PRIMARY KEY AUTOINCREMENT", "");
    assert!(error_of(&fixture(&no_key).path).ends_with("Processes.idx is not its primary key"));
}

/// Each of these computed for as long as its file wanted, in memory without a limit.
#[test]
fn tables_that_compute_are_refused() {
    let virtual_table = SCHEMA_2012.split("CREATE TABLE [Threads]").next().unwrap().to_owned()
        + "CREATE VIRTUAL TABLE Threads USING fts5(ThreadID, ProcID, user, kernel, duration, timestamp, idx);
           PRAGMA writable_schema = ON;
           UPDATE sqlite_schema SET sql = replace(sql, 'CREATE VIRTUAL', 'CREATE  VIRTUAL') WHERE name = 'Threads';";
    let generated = SCHEMA_2012.replace(
        "[idx] INTEGER NOT NULL)",
        "[idx] INTEGER NOT NULL, [_rowid_] AS (length(zeroblob(900000000))))",
    );
    for (sql, reason) in [
        (virtual_table, "Threads is no ordinary table"),
        (generated, "column \"_rowid_\" of table Threads is generated"),
    ] {
        let expected = format!("FILE is no database of the original receiver: {reason}");
        assert_eq!(error_of(&fixture(&sql).path), expected);
    }
    let own_answers = SCHEMA_2012.to_owned()
        + "CREATE VIRTUAL TABLE pragma_table_xinfo USING fts5(name, pk, type, hidden);
           INSERT INTO pragma_table_xinfo VALUES ('x', '1', 'INTEGER', '0');";
    import_all(&fixture(&own_answers).path, &ImportOptions::default()).unwrap();
}

/// Four pages over one another that lead to one child 501 times each were 63 billion rows in a file of 32 kB.
#[test]
fn a_file_whose_rows_come_again_and_again_has_an_end() {
    const PAGE: usize = 4_096;
    for table in ["Processes", "Threads"] {
        let file = fixture(&format!(
            "PRAGMA page_size = {PAGE}; {SCHEMA_2012} INSERT INTO Processes VALUES (7, 'p', 5, 0, {TICKS}, 3000, 1);
             INSERT INTO Threads VALUES (8, 7, 5, 0, 3000, {TICKS}, 1)"
        ));
        let root: u32 = Connection::open(&file.path)
            .unwrap()
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
            .unwrap();
        let root = (usize::try_from(root).unwrap() - 1) * PAGE;
        let mut bytes = std::fs::read(&file.path).unwrap();
        let leaf = bytes[root..root + PAGE].to_vec();
        let begin_of_new = bytes.len() / PAGE;
        // SQLite's file format, section 1.6: a page of cells, each with a child and the largest key there.
        let page = |child: usize| {
            let (child, begin) = (u32::try_from(child).unwrap().to_be_bytes(), PAGE - 500 * 5);
            let mut page = vec![0; PAGE];
            page[0] = 5;
            page[3..5].copy_from_slice(&500_u16.to_be_bytes());
            page[5..7].copy_from_slice(&u16::try_from(begin).unwrap().to_be_bytes());
            page[8..12].copy_from_slice(&child);
            for (place, begin) in (12..).step_by(2).zip((begin..PAGE).step_by(5)) {
                page[place..place + 2].copy_from_slice(&u16::try_from(begin).unwrap().to_be_bytes());
                page[begin..begin + 4].copy_from_slice(&child);
                page[begin + 4] = 1;
            }
            page
        };
        bytes[root..root + PAGE].copy_from_slice(&page(begin_of_new + 1));
        for next in 2..=4 {
            bytes.extend(page(begin_of_new + next));
        }
        bytes.extend(leaf);
        let pages = u32::try_from(bytes.len() / PAGE).unwrap();
        bytes[28..32].copy_from_slice(&pages.to_be_bytes());
        std::fs::write(&file.path, bytes).unwrap();
        let error = import_all(&file.path, &ImportOptions::default()).unwrap_err();
        let error = cpumon_model::with_causes(&error);
        let expected = "it takes more steps than a sound file of this length needs";
        assert!(
            error.starts_with(&format!("cannot read {table} of ")) && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn a_journal_beside_the_file_is_reported() {
    let file = fixture(SCHEMA_2012);
    let mut journal = file.path.clone().into_os_string();
    journal.push("-journal");
    std::fs::write(&journal, b"x").unwrap();
    assert!(error_of(&file.path).contains("its writer did not finish"));
}

#[test]
fn into_a_store_and_out_again_nothing_is_lost() {
    let Some(path) = sample() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("cpumon.sqlite");
    let mut writer = Writer::open(&store, &StoreOptions::default()).unwrap();
    let report = import(&mut writer, &path, &ImportOptions::default()).unwrap();
    assert_eq!((report.sets, report.sets_known), (117, 0));
    let again = import(&mut writer, &path, &ImportOptions::default()).unwrap();
    assert_eq!((again.sets, again.sets_known), (117, 117));
    let (_, imported) = import_all(&path, &ImportOptions::default()).unwrap();
    let reader = Reader::open(&store).unwrap();
    let connection = Connection::open(&store).unwrap();
    let number = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT sum(intervals) FROM chunk"), 117);
    assert_eq!(number("SELECT count(*) FROM interval"), 0);
    let host = reader.find_host("device").unwrap();
    assert_eq!(host.trust, Trust::Imported);
    let mut stored = Vec::new();
    let mut reading = reader.intervals(&Query::new(host.info.host)).unwrap();
    while let Some(StoredInterval { interval, .. }) = reading.read().unwrap() {
        let order = reader.legacy_order(interval.host, interval.end.wall_ns).unwrap().unwrap();
        assert_eq!(order.process_idx.len(), interval.processes.len());
        stored.push(interval.clone());
    }
    let read = |(_, interval): &(_, Interval)| Interval { trust: Some(Trust::Imported), ..interval.clone() };
    assert!(stored.into_iter().eq(imported.iter().map(read)), "idle rows included");
}

#[test]
fn a_file_that_names_no_device_does_it_by_its_own_name() {
    let Some(sample) = sample() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (name, host, expected) in [
        ("line 3.sqlite", "line 3", "the host is named 'line 3' after the file,"),
        ("processusage.db", "device", "the host is named 'device',"),
    ] {
        let path = dir.path().join(name);
        std::fs::copy(&sample, &path).unwrap();
        let (report, _) = import_all(&path, &ImportOptions::default()).unwrap();
        assert_eq!(report.hosts[0].name, host);
        assert!(report.guesses[0].starts_with(expected), "{:?}", report.guesses);
    }
}

#[test]
fn a_damaged_file_gives_an_error_or_rows_but_no_panic() {
    let Some(path) = sample() else { return };
    let good = std::fs::read(path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.sqlite");
    let mut failed = 0;
    for step in 0..24 {
        let mut bytes = good.clone();
        let at = 100 + step * 90_001;
        bytes[at..].iter_mut().take(700).for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7));
        bytes.truncate(good.len() - step * 4096);
        std::fs::write(&path, bytes).unwrap();
        match import_all(&path, &ImportOptions::default()) {
            Ok((report, _)) => assert!(report.process_rows <= 1716 && report.thread_rows <= 41_557 + 1),
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("damaged.sqlite"), "{error}");
            }
        }
    }
    assert!(failed > 0, "no damage was noticed");
}
