//! The virtual tables over small stores: columns, bounds, and what must not be possible.

use std::ops::ControlFlow;
use std::sync::Arc;

use cpumon_model::{
    BootId, CgroupInterval, CpuInterval, CpuLimit, Delta, Fields, HostId, HostInfo, Interval, IrqInterval,
    Ledger, Life, Moment, Pressure, ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, SourceKind,
    ThreadInterval, ThreadKey, Throttle, Trust, Value, WaitFor, WaitKind, WaitReason, WaitedOn, columns,
};

use super::{Sql, tables};
use crate::{StoreError, StoreOptions, Writer};

struct Store {
    sql: Sql,
    path: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

const SECOND: i64 = 1_000_000_000;

fn interval(host: u8, second: i64) -> Interval {
    let moment = |second: i64| {
        let ns = (second * SECOND).cast_unsigned();
        Moment { mono_ns: ns, boot_ns: ns, wall_ns: second * SECOND }
    };
    let mut one = Interval {
        host: HostId([host; 16]),
        boot: BootId([9; 16]),
        sequence: second.cast_unsigned(),
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(second - 1),
        end: moment(second),
        cpus: vec![CpuInterval::default(), CpuInterval { cpu: 1, ..CpuInterval::default() }],
        ledger: Ledger { capacity_ns: 2 * SECOND, ..Ledger::default() },
        ..Interval::default()
    };
    for pid in [10, 20] {
        let process = ProcessKey { pid, start_ns: 5 };
        let delta = Delta { user_ns: second, run_ns: second, ..Delta::default() };
        let info = ProcessInfo { name: format!("p{pid}").into(), uid: 7, ..ProcessInfo::default() };
        let life = if second == 1 { Life::Born } else { Life::Alive };
        one.processes.push(ProcessInterval {
            key: process,
            parent_pid: 1,
            info: Arc::new(info),
            thread_rows: 1,
            life,
            delta,
            ..ProcessInterval::default()
        });
        let key = ThreadKey { tid: pid + 1, start_ns: 6 };
        let mut sched = SchedDelta { wakeups: second, ..SchedDelta::default() };
        sched.waits.add(WaitReason::syscall(202), 5_000 * second.cast_unsigned());
        if pid == 20 {
            sched.waits.add(WaitReason::DISK, 1_000);
        }
        one.threads.push(ThreadInterval {
            key,
            process,
            comm: "t".into(),
            delta,
            sched,
            ..ThreadInterval::default()
        });
    }
    one.fields |= Fields::CGROUPS;
    one.pressure = Some(Pressure { some_ns: 3, full_ns: 0 });
    one.cgroups.push(CgroupInterval {
        path: "/a/b'; DROP TABLE host --".into(),
        limit: CpuLimit::Millionths(500_000),
        limiter_bytes: 2,
        throttle: Some(Throttle { periods: 10, throttled_periods: 4, throttled_ns: 5 }),
        ..CgroupInterval::default()
    });
    let key = |pid| ProcessKey { pid, start_ns: 5 };
    let waits = [
        (10, WaitKind::Blocked(WaitReason::syscall(202)), WaitedOn::Process(key(20))),
        (10, WaitKind::Blocked(WaitReason::syscall(202)), WaitedOn::Process(key(99))),
        (20, WaitKind::Ready, WaitedOn::Thread(ThreadKey { tid: 21, start_ns: 6 })),
        (20, WaitKind::Throttled, WaitedOn::Interrupt),
    ];
    one.waits_for =
        waits.map(|(pid, kind, on)| WaitFor { waiter: key(pid), kind, on, ns: 2_000_000, count: 3 }).into();
    one.irqs.push(IrqInterval { irq: 25, name: "virtio0".into(), time_ns: 7, count: second.cast_unsigned() });
    one
}

/// Two hosts, `seconds` intervals each, two processes with one thread each.
fn store(seconds: i64) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpumon.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (host, name) in [(1, "alpha"), (2, "Beta")] {
        for second in 1..=seconds {
            let one = interval(host, second);
            let info =
                HostInfo { host: one.host, boot: one.boot, hostname: name.into(), ..HostInfo::default() };
            writer.put(&info, Trust::Local, None, &one).unwrap();
        }
    }
    writer.commit().unwrap();
    drop(writer);
    Store { sql: Sql::open(&path).unwrap(), path, _dir: dir }
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.to_string(),
    }
}

impl Store {
    fn try_ask(&self, sql: &str) -> Result<Vec<String>, StoreError> {
        let mut answer = Vec::new();
        self.sql.query(sql, &mut |_| ControlFlow::Continue(()), &mut |row| {
            answer.push(row.iter().map(show).collect::<Vec<_>>().join("|"));
            ControlFlow::Continue(())
        })?;
        Ok(answer)
    }

    fn ask(&self, sql: &str) -> Vec<String> {
        self.try_ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// In any order: IN is answered value by value.
    fn assert_same_rows(&self, one: &str, other: &str) {
        let (mut one_rows, mut other_rows) = (self.ask(one), self.ask(other));
        one_rows.sort();
        other_rows.sort();
        assert!(one_rows == other_rows, "{} rows of {one}; {} of {other}", one_rows.len(), other_rows.len());
    }

    fn one(&self, sql: &str) -> String {
        self.ask(sql).join("\n")
    }
}

/// Three hosts named `web`, one trusted; one named by the id of the first, and one named `5`.
fn namesakes() -> Store {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpumon.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let id_of_first = HostId([1; 16]).to_string();
    let hosts = [
        (1, "web", Trust::Unauthenticated),
        (2, "web", Trust::Authenticated),
        (3, "web", Trust::Unauthenticated),
        (4, id_of_first.as_str(), Trust::Local),
        (5, "5", Trust::Local),
    ];
    for (host, name, trust) in hosts {
        let one = interval(host, i64::from(host));
        let info = HostInfo { host: one.host, boot: one.boot, hostname: name.into(), ..HostInfo::default() };
        writer.put(&info, trust, None, &one).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    Store { sql: Sql::open(&path).unwrap(), path, _dir: dir }
}

#[test]
fn of_equal_names_the_most_trusted_host_is_meant_and_an_id_wins() {
    let store = namesakes();
    // Each interval ends in the second of its host's number.
    let of = |condition: &str| {
        store
            .ask(&format!("SELECT host_id FROM hosts WHERE {condition} ORDER BY 1"))
            .iter()
            .map(|id| id[..2].to_owned())
            .collect::<Vec<_>>()
    };
    let ends = |condition: &str| {
        store.ask(&format!("SELECT end_ns / {SECOND} FROM host_interval WHERE {condition} ORDER BY 1"))
    };
    let [first, third] = [1, 3].map(|id| HostId([id; 16]).to_string());
    assert_eq!((of("host = 'web'"), ends("host = 'web'")), (vec!["02".to_owned()], vec!["2".to_owned()]));
    assert_eq!(ends(&format!("host = '{first}'")), ["1"], "not the one that is named like it");
    assert_eq!(ends(&format!("host = '{third}'")), ["3"], "the only way to an untrusted namesake");
    assert_eq!(ends(&format!("host = 'web' AND host = '{third}'")), [""; 0]);
    assert_eq!(ends("host IN ('web', '5')"), ["2", "5"]);
    assert_eq!(ends("host = 5"), ["5"], "a column of texts compares a number as a text");
    assert_eq!((ends("host = NULL"), ends("host = x'35'"), ends("host = 'db'")), (vec![], vec![], vec![]));
    let joined = "SELECT hosts.trust, end_ns / 1000000000 FROM hosts JOIN host_interval ON host_interval.host = host_id";
    assert_eq!(
        store.ask(&format!("{joined} WHERE hosts.host LIKE 'web' ORDER BY 2")),
        ["unauthenticated|1", "authenticated|2", "unauthenticated|3"]
    );
}

#[test]
fn every_table_has_the_columns_of_the_model() {
    let store = store(1);
    for (name, table) in tables() {
        let mut names = Vec::new();
        let mut keep = |columns: &[&str]| {
            names = columns.iter().map(|&column| column.to_owned()).collect();
            ControlFlow::Continue(())
        };
        let rows =
            store.sql.query(&format!("SELECT * FROM {name}"), &mut keep, &mut |_| ControlFlow::Continue(()));
        assert!(rows.unwrap() > 0, "{name} is empty");
        assert!(names.iter().map(String::as_str).eq(columns(table).map(|column| column.name)), "{name}");
    }
}

#[test]
fn tables_hold_what_was_put() {
    let store = store(300);
    assert_eq!(store.one("SELECT count(*), sum(user_ns) FROM process_interval"), "1200|180600");
    assert_eq!(store.one("SELECT count(*), min(tid), max(name) FROM thread_interval"), "1200|11|t");
    assert_eq!(store.one("SELECT count(*), max(cpu) FROM cpu_interval"), "1200|1");
    assert_eq!(store.one("SELECT count(*), sum(capacity_ns) FROM host_interval"), "600|1200000000000");
    assert_eq!(
        store.ask("SELECT host, trust, first_ns, last_ns FROM hosts ORDER BY host DESC"),
        ["alpha|local|1000000000|300000000000", "Beta|local|1000000000|300000000000"]
    );
    assert_eq!(
        store.ask("SELECT host, pid, parent_pid, name, uid, start_ns FROM processes WHERE pid = 20 ORDER BY host DESC"),
        ["alpha|20|1|p20|7|5", "Beta|20|1|p20|7|5"]
    );
    assert_eq!(
        store.ask("SELECT pid, tid, name, process_name, start_ns FROM threads WHERE host = 'Beta'"),
        ["10|11|t|p10|6", "20|21|t|p20|6"]
    );
    let row = "SELECT host, end_utc, pid, name, duration_ns, user_ns, cpu_pct, life, source FROM process_interval WHERE host = 'alpha' LIMIT 1";
    assert_eq!(store.one(row), "alpha|1970-01-01T00:00:01.000000000Z|10|p10|1000000000|1|0.0000001|born|bpf");
}

#[test]
fn bounds_change_the_time_it_takes_but_not_the_answer() {
    let store = store(40);
    let conditions = [
        "host = 'alpha'",
        "host = 'ALPHA'",
        "host = 'beta' COLLATE NOCASE",
        "host = 5",
        "host IS NULL",
        "host = NULL",
        "end_ns > 20000000000",
        "end_ns >= 20000000000 AND end_ns < 22000000000",
        "end_ns = 7000000000",
        "end_ns BETWEEN 3e9 AND 5.5e9",
        "end_ns > '20000000000'",
        "end_ns > 'x'",
        "end_ns > NULL",
        "begin_ns >= 20000000000",
        "begin_ns = 20000000000 AND host = 'Beta'",
        "begin_ns < 3000000000",
        "end_ns > 9223372036854775807",
        "end_ns >= -9223372036854775808",
        "pid = 10",
        "pid = '10'",
        "pid = 10.0",
        "pid = 10.5",
        "pid = -1",
        "pid IN (10, 20, 30)",
        "name = 'p20'",
        "name = 't' OR pid = 20",
        "host = 'alpha' AND pid = 10 AND end_ns > 3000000000 AND end_ns <= 30000000000",
        "host IN (SELECT host FROM hosts) AND pid = 20",
    ];
    for table in ["process_interval", "thread_interval"] {
        for condition in conditions {
            // A subquery with a limit is a wall that no bound passes.
            let all = format!("SELECT * FROM (SELECT * FROM {table} LIMIT -1 OFFSET 0) WHERE {condition}");
            let some = format!("SELECT * FROM {table} WHERE {condition}");
            store.assert_same_rows(&some, &all);
        }
    }
    for table in ["processes", "threads"] {
        for condition in ["pid = 10", "host = 'alpha'", "name = 't'", "pid = '20' AND host = 'Beta'"] {
            let all = format!("SELECT * FROM (SELECT * FROM {table} LIMIT -1 OFFSET 0) WHERE {condition}");
            store.assert_same_rows(&format!("SELECT * FROM {table} WHERE {condition}"), &all);
        }
    }
}

#[test]
fn waits_and_interrupt_lines_are_rows() {
    let store = store(3);
    let waits = store.ask(
        "SELECT reason, tid, count(*), sum(blocked_ns), min(process_name) FROM wait_interval WHERE host = 'alpha'
         GROUP BY 1, 2 ORDER BY 1, 2",
    );
    assert_eq!(waits, ["disk|21|3|3000|p20", "futex|11|3|30000|p10", "futex|21|3|30000|p20"]);
    let longest = store.ask("SELECT wait_reason, wait_ns, blocked_ns, wakeups FROM thread_interval WHERE tid = 21 AND host = 'alpha' LIMIT 1");
    assert_eq!(longest, ["futex|5000|6000|1"]);
    let irqs = store.ask("SELECT irq, name, sum(time_ns), sum(count) FROM irq_interval GROUP BY 1, 2");
    assert_eq!(irqs, ["25|virtio0|42|12"]);
    let limits = "SELECT cgroup, cpu_limit, limited_by, sum(throttled_ns), sum(throttled_periods), sum(periods), max(pressure_some_ns)
                  FROM cgroup_interval WHERE host = 'alpha' GROUP BY 1, 2, 3";
    assert_eq!(store.ask(limits), ["/a/b'; DROP TABLE host --|0.5|/a|15|12|30|NULL"]);
    let host = "SELECT sum(pressure_some_ns), max(cgroups_left_out) FROM host_interval WHERE host = 'alpha'";
    assert_eq!(store.ask(host), ["9|0"]);
    let one = "SELECT tid FROM wait_interval WHERE pid = 10 AND host = 'alpha' AND end_ns <= 1000000000";
    assert_eq!(store.ask(one), ["11"]);
}

#[test]
fn waits_by_who_ended_them_are_rows() {
    let store = store(3);
    let columns = "pid, name, start_ns, kind, reason, waited_on, on_pid, on_tid, on_name";
    let sql = format!(
        "SELECT {columns}, sum(wait_ns), sum(count) FROM wait_for_interval WHERE host = 'alpha'
         GROUP BY {columns} ORDER BY pid, kind, on_pid"
    );
    let expected = [
        "10|p10|5|blocked|futex|process|20|NULL|p20|6000000|9",
        "10|p10|5|blocked|futex|process|99|NULL|NULL|6000000|9",
        "20|p20|5|ready|NULL|thread|20|21|p20|6000000|9",
        "20|p20|5|throttled|NULL|interrupt|NULL|NULL|NULL|6000000|9",
    ];
    assert_eq!(store.ask(&sql), expected);
    let some =
        "SELECT on_name FROM wait_for_interval WHERE pid = 10 AND name = 'p10' AND on_pid = 20 LIMIT 1";
    assert_eq!(store.ask(some), ["p20"], "a condition on who waited leaves the others their names");
}

#[test]
fn tables_join() {
    let store = store(20);
    let sql = "SELECT h.host, p.name, sum(i.user_ns) FROM hosts h
               JOIN process_interval i ON i.host = h.host AND i.end_ns > h.last_ns - 2000000000
               JOIN processes p ON p.host = i.host AND p.pid = i.pid GROUP BY 1, 2 ORDER BY 1, 2";
    assert_eq!(store.ask(sql), ["Beta|p10|39", "Beta|p20|39", "alpha|p10|39", "alpha|p20|39"]);
}

#[test]
fn nothing_can_be_written_attached_or_loaded() {
    let store = store(1);
    let other = store.path.with_file_name("other.sqlite");
    let attempts = [
        "DELETE FROM interval",
        "INSERT INTO hosts VALUES (1)",
        "DELETE FROM process_interval",
        "UPDATE host SET name = 'x'",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "DROP TABLE host",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "VACUUM",
        "REINDEX",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE t USING process_interval",
        &format!("ATTACH '{}' AS o", other.display()),
        &format!("VACUUM INTO '{}'", other.display()),
    ];
    for sql in attempts {
        let error = store.try_ask(sql).expect_err(sql).with_causes();
        let is_reported =
            error.ends_with("; a query may only read the store") || error.contains("may not be modified");
        assert!(is_reported, "{sql}: {error}");
    }
    assert!(!other.exists());
    let refusal = |sql: &str| store.try_ask(sql).unwrap_err().to_string();
    for (sql, what) in [
        ("DELETE FROM interval", "DELETE FROM interval"),
        ("UPDATE host SET name = 'x'", "UPDATE host"),
        ("PRAGMA query_only = OFF", "PRAGMA query_only"),
        ("SELECT load_extension('x')", "load_extension()"),
        ("ATTACH 'x' AS o", "ATTACH or VACUUM"),
        ("CREATE TABLE t (a)", "a change of the schema"),
        ("BEGIN", "a transaction"),
    ] {
        assert_eq!(refusal(sql), format!("refused: {what}; a query may only read the store"));
    }
    let two = refusal("SELECT 1; DELETE FROM host");
    assert!(two.starts_with("one statement at a time") || two.starts_with("refused: DELETE"), "{two}");
    assert_eq!(store.one("SELECT count(*) FROM process_interval"), "4");
    assert_eq!(store.one("PRAGMA table_info(host)").lines().count(), 4);
    assert_eq!(store.ask(""), Vec::<String>::new());
    assert_eq!(store.one("SELECT x'0aff', NULL, 1.5, 'a;b' -- c;"), "x'0aff'|NULL|1.5|a;b");
}

#[test]
fn a_file_that_is_no_store_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    assert!(matches!(Sql::open(&path), Err(StoreError::Missing { .. })));
    std::fs::write(&path, b"not a database, certainly not one of ours").unwrap();
    assert!(matches!(Sql::open(&path), Err(StoreError::Corrupt { .. })));
}

#[test]
fn the_writer_goes_on_while_a_query_reads() {
    let store = store(5);
    let mut writer = Writer::open(&store.path, &StoreOptions::default()).unwrap();
    let mut seen = 0;
    let answered = store.sql.query(
        "SELECT end_ns FROM process_interval WHERE host = 'alpha'",
        &mut |_| ControlFlow::Continue(()),
        &mut |_| {
            seen += 1;
            if seen <= 3 {
                let one = interval(1, 5 + seen);
                let info = HostInfo {
                    host: one.host,
                    boot: one.boot,
                    hostname: "alpha".into(),
                    ..HostInfo::default()
                };
                writer.put(&info, Trust::Local, None, &one).unwrap();
                writer.commit().unwrap();
            }
            ControlFlow::Continue(())
        },
    );
    assert_eq!(answered.unwrap(), 16, "what came in meanwhile is read too");
}
