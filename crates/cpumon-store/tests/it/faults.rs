//! What must not break a store, and what must be reported clearly: kill -9, wrong files, read-only media, hostile names.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{Comm, Interval, ProcessInfo, Trust, Value};
use cpumon_store::sql::Sql;
use cpumon_store::{Query, QueueOptions, Reader, StoreError, StoreOptions, TimeRange, Writer, WriterThread};
use rusqlite::Connection;

use crate::data;
use crate::round_trip::read_all;

/// Set for the child that is to be killed: the store it writes.
const CHILD_STORE: &str = "CPUMON_TEST_CHILD_STORE";

/// Not a test of its own: the child of the next one. Without the variable there is nothing to do.
#[test]
fn child_writer() {
    let Ok(path) = std::env::var(CHILD_STORE) else { return };
    let info = data::host(1);
    let thread =
        WriterThread::spawn(Path::new(&path), &StoreOptions::default(), &QueueOptions::default()).unwrap();
    let handle = thread.handle();
    let day = data::day(&info, 1, 4000, 40);
    let begin = Instant::now();
    for interval in day {
        handle.try_put(&info, Trust::Local, None, &interval);
        println!("put {} {}", interval.sequence, begin.elapsed().as_millis());
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_secs(30));
}

/// How long the writer's thread of a process waited for a CPU, ms: other programs take turns with it.
fn writer_delay_ms(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let is_writer = |task: &Path| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == "store-writer")
    };
    let task = tasks.into_iter().find(|task| is_writer(task)).unwrap();
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    times.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 1_000_000
}

#[test]
fn a_killed_writer_loses_no_more_than_its_last_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["faults::child_writer", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_STORE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // (sequence number, ms since the start) of what was put.
    let mut put: Vec<(u64, u64)> = Vec::new();
    let mut delay_ms = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["put", sequence, at_ms] = words[..] {
            put.push((sequence.parse().unwrap(), at_ms.parse().unwrap()));
        }
        if put.len() >= 400 && put.last().is_some_and(|last| last.1 > 2500) {
            delay_ms = writer_delay_ms(child.id());
            child.kill().unwrap();
            break;
        }
    }
    child.wait().unwrap();
    let stored = read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host));
    let check = Connection::open(&path).unwrap();
    let check: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let killed_ms = put.last().unwrap().1;
    let expected = put.iter().filter(|(_, at_ms)| at_ms + 1000 + delay_ms < killed_ms).count();
    assert!(expected > 100 || delay_ms > 500, "{delay_ms} {put:?}");
    assert!(stored.len() >= expected, "{} stored of at least {expected}", stored.len());
    assert!(stored.iter().map(|interval| interval.sequence).eq(0..stored.len() as u64));
    // The store is taken up again, and a resend fills what was lost.
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in data::day(&data::host(1), 1, 4000, 40) {
        writer.put(&data::host(1), Trust::Local, None, &interval).unwrap();
    }
    drop(writer);
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host)).len(), 4000);
}

fn small_store(path: &Path) {
    let info = data::host(1);
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for interval in data::day(&info, 1, 120, 8) {
        writer.put(&info, Trust::Local, None, &interval).unwrap();
    }
    data::compact_all(&mut writer);
}

#[test]
fn wrong_files_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.sqlite");
    assert!(matches!(Reader::open(&missing), Err(StoreError::Missing { .. })));
    let text = dir.path().join("text");
    std::fs::write(&text, "Dear store, ".repeat(1000)).unwrap();
    // Where the system refuses to say, there may be one.
    assert!(matches!(Reader::open(&text.join("in a file")), Err(StoreError::Io { .. })));
    assert!(matches!(Reader::open(&text), Err(StoreError::Corrupt { .. })));
    assert!(matches!(Writer::open(&text, &StoreOptions::default()), Err(StoreError::Corrupt { .. })));
    let other = dir.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    assert!(matches!(Reader::open(&other), Err(StoreError::NotAStore { .. })));
    assert!(matches!(Writer::open(&other, &StoreOptions::default()), Err(StoreError::NotAStore { .. })));
    let newer = dir.path().join("newer.sqlite");
    small_store(&newer);
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for error in
        [Reader::open(&newer).unwrap_err(), Writer::open(&newer, &StoreOptions::default()).unwrap_err()]
    {
        assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("use a newer cpumon"), "{error}");
    }
}

#[test]
fn damaged_fresh_samples_go_as_a_gap_and_the_rest_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in data::day(&info, 1, 30, 8) {
        writer.put(&info, Trust::Local, None, &interval).unwrap();
    }
    writer.commit().unwrap();
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE interval SET samples = x'ff00' WHERE id = 5", [])
        .unwrap();
    data::compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(info.host)).len(), 29);
    let gaps = reader.gaps(info.host, TimeRange::ALL, 10).unwrap();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((gaps[0].intervals, gaps[0].reason.as_str()), (1, "damaged"));
}

#[test]
fn a_store_on_a_medium_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("with space & 100%.sqlite");
    small_store(&path);
    // Opened and closed once as the only user, SQLite puts the log into the file and takes it away.
    drop(Writer::open(&path, &StoreOptions::default()).unwrap());
    for extra in ["-wal", "-shm", "-writer"] {
        let mut name = path.as_os_str().to_owned();
        name.push(extra);
        let _ = std::fs::remove_file(name);
    }
    let mut permissions = std::fs::metadata(dir.path()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(dir.path(), permissions.clone()).unwrap();
    // As root permissions do not hold; a read-only file system does, and any user finds the same code.
    let mounted = Command::new("mount").args(["--bind", "-o", "ro"]).arg(dir.path()).arg(dir.path()).output();
    let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
    let count = Reader::open(&path).map(|reader| read_all(&reader, &Query::new(data::host(1).host)).len());
    let ask = |text| {
        let mut answer = None;
        let session = Sql::open(&path)?;
        session.query(text, &mut |_| ControlFlow::Continue(()), &mut |row| {
            if let Value::Int(count) = row[0] {
                answer = Some(count);
            }
            ControlFlow::Continue(())
        })?;
        Ok::<_, StoreError>(answer)
    };
    let answers = ["SELECT 1", "SELECT count(*) FROM host", "SELECT count(*) FROM host_interval"].map(ask);
    if is_mounted {
        assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    }
    #[expect(
        clippy::permissions_set_readonly_false,
        reason = "a directory of the test's own, about to be removed"
    )]
    permissions.set_readonly(false);
    std::fs::set_permissions(dir.path(), permissions).unwrap();
    assert_eq!(count.unwrap(), 120);
    assert_eq!(answers.map(Result::unwrap), [Some(1), Some(1), Some(120)], "as any other reader");
}

/// Of a log that has to be taken over, only "unable to open database file" was reported; beside a journal, half of a transaction was shown.
#[test]
fn a_log_that_only_a_writer_can_take_over_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("s.sqlite"), dir.path().join("copy.sqlite"));
    small_store(&path);
    let journal = dir.path().join("s.sqlite-journal");
    std::fs::write(&journal, "x").unwrap();
    let words = Reader::open(&path).unwrap_err().with_causes();
    assert!(words.contains("s.sqlite-journal, which only a writer can take over"), "{words}");
    std::fs::remove_file(&journal).unwrap();
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer.put(&info, Trust::Local, None, &data::day(&info, 1, 121, 8)[120]).unwrap();
    writer.commit().unwrap();
    for ending in ["", "-wal"] {
        let named = |name: &str| dir.path().join(format!("{name}.sqlite{ending}"));
        std::fs::copy(named("s"), named("copy")).unwrap();
    }
    // SQLite follows no link there, so it can make no index of the log, as in a directory that cannot be written.
    std::os::unix::fs::symlink("none", dir.path().join("copy.sqlite-shm")).unwrap();
    let words = Reader::open(&copy).unwrap_err().with_causes();
    assert!(words.contains("copy.sqlite-wal, which only a writer can take over"), "{words}");
}

#[test]
fn hostile_names_are_values() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut info = data::host(1);
    info.hostname = "'; DROP TABLE host; --".into();
    let mut interval = data::day(&info, 1, 1, 8).remove(0);
    let hostile = ProcessInfo {
        name: "Robert'); DROP TABLE process;--\n\x1b[2J".into(),
        comm: "a\"b'c\0d".into(),
        cmdline: "%s%n ${jndi} ../../ \u{202e}".repeat(2000).into(),
        cgroup: "\0".into(),
        container: "=cmd|' /C calc'!A0".into(),
        uid: u32::MAX,
        interpreter: "\u{1b}]0;x\u{7}".into(),
        user: "'; DROP TABLE process_info; --".into(),
        session: Some(u32::MAX),
        base_priority: Some(u8::MAX),
        product: "\u{202e}\0".repeat(60).into(),
        is_kernel: true,
    };
    interval.processes[0].info = Arc::new(hostile);
    interval.threads[0].comm = Comm::new(b"\xff\xfe';--");
    interval.threads[0].delta.run_ns = i64::MIN;
    interval.threads[1].delta.user_ns = -5;
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer.put(&info, Trust::Unauthenticated, None, &interval).unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let expected = Interval { trust: Some(Trust::Unauthenticated), ..data::active(&interval) };
    assert_eq!(read_all(&reader, &Query::new(info.host)), std::slice::from_ref(&expected));
    data::compact_all(&mut writer);
    assert_eq!(read_all(&reader, &Query::new(info.host)), [expected]);
    assert_eq!(reader.find_host(&info.hostname).unwrap().info, info);
    let error = reader.find_host("x' OR 'a'='a").unwrap_err().to_string();
    assert!(error.contains("DROP TABLE"), "{error}");
}

#[test]
fn a_reader_sees_every_interval_once_while_the_writer_writes_and_compacts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 1500, 8);
    let options =
        StoreOptions { compact_after: Duration::ZERO, compact_intervals: 20, ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    writer.put(&info, Trust::Local, None, &day[0]).unwrap();
    writer.commit().unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let reader = Reader::open(&path).unwrap();
            let mut seen = 0;
            while seen < day.len() {
                let sequences: Vec<u64> = read_all(&reader, &Query::new(info.host))
                    .iter()
                    .map(|interval| interval.sequence)
                    .collect();
                assert!(sequences.iter().copied().eq(0..sequences.len() as u64), "{sequences:?}");
                assert!(sequences.len() >= seen);
                seen = sequences.len();
            }
        });
        for batch in day.chunks(7) {
            for interval in batch {
                writer.put(&info, Trust::Local, None, interval).unwrap();
            }
            writer.commit().unwrap();
            writer.maintain(Duration::from_millis(5)).unwrap();
        }
        reading.join().unwrap();
    });
}
