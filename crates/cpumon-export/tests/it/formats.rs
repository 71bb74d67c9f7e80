//! CSV and JSON lines: the output can be read back, with the same meaning.

use std::fmt::Write as _;
use std::sync::Arc;

use cpumon_export::{ExportQuery, Format, Kind, LegacyYear, export};
use cpumon_model::{
    CgroupInterval, CpuInterval, CpuLimit, CpuSched, CpuTimes, DelayOf, Delays, Delta, Fields, Interval,
    Life, Pressure, SchedDelta, SourceKind, Tables, ThreadInterval, Throttle, WaitReason, columns,
    delay_bucket, delay_range_ns, escape,
};
use cpumon_store::Reader;

use crate::fixture::{SECOND, Store, interval, process, thread};

const HOSTILE: [&str; 10] = [
    "'; DROP TABLE--",
    "=cmd()",
    "+1",
    "-1",
    "@x",
    "\tx",
    "a\r\nb",
    "say \"hi\", ok",
    "\u{1b}[2J\u{7f}",
    "ü日",
];

fn hostile_store() -> Store {
    let mut only = interval(10);
    for (pid, name) in (1_u32..).zip(HOSTILE) {
        only.processes.push(process(pid, name, 7));
    }
    Store::of([("=host", only)])
}

fn parse_csv(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let fields = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let header = fields(reader.headers().unwrap());
    (header, reader.records().map(|record| fields(&record.unwrap())).collect())
}

fn column(table: &(Vec<String>, Vec<Vec<String>>), name: &str) -> Vec<String> {
    let at = table.0.iter().position(|column| column == name).unwrap();
    table.1.iter().map(|row| row[at].clone()).collect()
}

#[test]
fn hostile_names_are_escaped_in_csv_and_formulas_are_defused() {
    let (text, report) = hostile_store().export(&ExportQuery::default());
    let table = parse_csv(&text);
    assert_eq!((report.rows, table.1.len()), (10, 10));
    let expected = HOSTILE.map(|name| {
        let runs = name.starts_with(['=', '+', '-', '@']);
        let escaped = escape(name);
        if runs { format!("'{escaped}") } else { escaped.to_string() }
    });
    assert_eq!(column(&table, "name"), expected);
    assert!(column(&table, "host").iter().all(|host| host == "'=host"));
    assert!(column(&table, "user_ns").iter().all(|user| user == "7"));
    assert!(text.ends_with("\r\n"));
}

#[test]
fn hostile_names_survive_json_unchanged() {
    let query = ExportQuery { format: Format::Jsonl, ..ExportQuery::default() };
    let (text, _) = hostile_store().export(&query);
    let names: Vec<_> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(names, HOSTILE);
}

#[test]
fn hostile_names_are_columns_of_a_pivot() {
    let query = ExportQuery { kind: Kind::Pivot, ..ExportQuery::default() };
    let (text, _) = hostile_store().export(&query);
    let (header, rows) = parse_csv(&text);
    assert_eq!(header.len(), 6 + HOSTILE.len());
    assert!(header.contains(&"'=cmd()".to_owned()) && header.contains(&r"a\r\nb".to_owned()));
    assert!(rows[0][6..].iter().all(|cell| cell == "7"));
}

fn rich_store() -> Store {
    let mut first = interval(10);
    first.cpus = vec![CpuInterval {
        cpu: 0,
        times: CpuTimes { user_ns: 5, ..CpuTimes::default() },
        went_back: false,
        ..CpuInterval::default()
    }];
    let mut web = process(100, "web", 40);
    web.delta.voluntary_switches = 3;
    first.threads = vec![thread(&web, 100)];
    first.processes = vec![web];
    let mut second = interval(11);
    let mut gone = process(100, "web", 0);
    gone.life = Life::Ended;
    second.processes = vec![gone];
    let mut v1 = Interval { v1_ticks: Some(635_327_194_966_680_000), cpus: Vec::new(), ..interval(12) };
    v1.source = SourceKind::V1;
    v1.fields = Fields::USER | Fields::SYSTEM;
    v1.ledger.capacity_ns = 0;
    v1.processes = vec![process(5, "old.exe", 0)];
    v1.processes[0].key.start_ns = 0;
    Store::of([("alpha", first), ("alpha", second), ("pda", v1)])
}

#[test]
fn the_tables_as_csv_and_json() {
    let store = rich_store();
    let mut all = String::new();
    for kind in [Kind::Processes, Kind::Threads, Kind::Ledger, Kind::Pivot] {
        for format in [Format::Csv, Format::Jsonl] {
            let (text, report) = store.export(&ExportQuery { kind, format, ..ExportQuery::default() });
            writeln!(all, "# {kind:?} {format:?}: {report:?}\n{}", text.replace('\r', "")).unwrap();
        }
    }
    insta::assert_snapshot!(all);
}

/// Two seconds: a limit that was reached, a group that only waited, one seen for the first time.
fn limited_store() -> Store {
    let group = |path: &str, limit, throttle| CgroupInterval {
        path: path.into(),
        limit,
        limiter_bytes: 4,
        throttle,
        ..CgroupInterval::default()
    };
    let half = CpuLimit::Millionths(500_000);
    let throttle = |throttled_ns| Some(Throttle { periods: 10, throttled_periods: 4, throttled_ns });
    let waited = CgroupInterval {
        pressure: Some(Pressure { some_ns: 9, full_ns: 0 }),
        ..group("/=waited", CpuLimit::Unlimited, None)
    };
    let seconds = [
        vec![waited.clone(), group("/pod/a", half, None)],
        vec![waited, group("/pod/a", half, throttle(300)), group("/pod/b", half, throttle(300))],
        vec![group("/pod/a", half, throttle(0))],
    ];
    let seconds = (10..).zip(seconds);
    Store::of(seconds.map(|(second, cgroups)| ("alpha", Interval { cgroups, ..interval(second) })))
}

#[test]
fn control_groups_as_csv_and_json_and_added_up() {
    let store = limited_store();
    let mut all = String::new();
    let minute = Some(60 * SECOND.cast_unsigned());
    for (format, interval_ns) in [(Format::Csv, None), (Format::Jsonl, None), (Format::Csv, minute)] {
        let query = ExportQuery { kind: Kind::Cgroups, format, interval_ns, ..ExportQuery::default() };
        let (text, report) = store.export(&query);
        writeln!(all, "# {format:?} {interval_ns:?}: {report:?}\n{}", text.replace('\r', "")).unwrap();
    }
    insta::assert_snapshot!(all);
    let unknown = Interval { fields: Fields::empty(), ..interval(10) };
    let query = ExportQuery { kind: Kind::Cgroups, ..ExportQuery::default() };
    let intervals = |only| Store::of([("alpha", only)]).export(&query).1.intervals;
    assert_eq!((intervals(interval(10)), intervals(unknown)), (1, 0), "nothing has a limit, and not known");
    let legacy = Some(LegacyYear::Y2013);
    let query = ExportQuery { kind: Kind::Cgroups, legacy, ..ExportQuery::default() };
    let error = store.try_export(&query).unwrap_err().to_string();
    assert!(error.starts_with("no legacy layout for cgroups"), "{error}");
}

#[test]
fn no_data_zero_and_exited_are_three_things() {
    let store = rich_store();
    let table = parse_csv(&store.export(&ExportQuery::default()).0);
    assert_eq!(column(&table, "name"), ["web", "web", "old.exe"]);
    assert_eq!(column(&table, "run_ns"), ["41", "1", ""], "a v1 device measures no run time");
    assert_eq!(column(&table, "user_ns"), ["40", "0", "0"]);
    assert_eq!(column(&table, "life"), ["alive", "ended", ""]);
    assert_eq!(column(&table, "start_ns"), ["5", "5", ""]);
}

#[test]
fn headers_are_the_table_of_columns() {
    for (kind, table) in [
        (Kind::Processes, Tables::PROCESS_INTERVAL),
        (Kind::Threads, Tables::THREAD_INTERVAL),
        (Kind::Cgroups, Tables::CGROUP_INTERVAL),
        (Kind::Ledger, Tables::HOST_INTERVAL),
    ] {
        let (text, report) = Store::of([]).export(&ExportQuery { kind, ..ExportQuery::default() });
        let expected: Vec<_> = columns(table).map(|column| column.name).collect();
        assert_eq!(text, expected.join(",") + "\r\n", "an empty store gives the header only");
        assert_eq!(report, cpumon_export::Report::default());
    }
}

#[test]
fn host_range_and_process_choose() {
    let store = rich_store();
    let all = ExportQuery::default();
    let rows = |query: ExportQuery| store.export(&query).1.rows;
    assert_eq!(rows(all.clone()), 3);
    assert_eq!(rows(ExportQuery { host: Some("pda".to_owned()), ..all.clone() }), 1);
    assert_eq!(rows(ExportQuery { since_ns: Some(10 * SECOND), ..all.clone() }), 2);
    assert_eq!(rows(ExportQuery { until_ns: Some(10 * SECOND), ..all.clone() }), 1);
    assert_eq!(rows(ExportQuery { process: Some("web".to_owned()), ..all.clone() }), 2);
    assert_eq!(rows(ExportQuery { process: Some("5".to_owned()), ..all.clone() }), 1);
    let text =
        store.try_export(&ExportQuery { host: Some("beta".to_owned()), ..all }).unwrap_err().to_string();
    insta::assert_snapshot!(text);
}

#[test]
fn windows_add_up_exactly() {
    let intervals = (1..=10).map(|second| {
        let mut one = interval(second);
        one.processes = vec![process(7, "x", second)];
        one.threads = vec![thread(&one.processes[0], 70)];
        ("h", one)
    });
    let store = Store::of(intervals);
    let by_four = ExportQuery { interval_ns: Some(4_000_000_000), ..ExportQuery::default() };
    let table = parse_csv(&store.export(&by_four).0);
    assert_eq!(column(&table, "user_ns"), ["10", "26", "19"]);
    assert_eq!(column(&table, "duration_ns"), ["4000000000", "4000000000", "2000000000"]);
    assert_eq!(column(&table, "end_ns"), ["4000000000", "8000000000", "10000000000"]);
    assert!(column(&table, "life").iter().all(|life| life == "alive"));
    let threads = ExportQuery { kind: Kind::Threads, ..by_four.clone() };
    assert_eq!(column(&parse_csv(&store.export(&threads).0), "user_ns"), ["10", "26", "19"]);
    let ledger = ExportQuery { kind: Kind::Ledger, ..by_four };
    let table = parse_csv(&store.export(&ledger).0);
    assert_eq!(column(&table, "capacity_ns"), ["8000000000", "8000000000", "4000000000"]);
    assert_eq!(column(&table, "unattributed_ns"), ["4000", "4000", "2000"]);
}

/// They were those of one of the intervals, with the length of all.
#[test]
fn scheduler_counters_add_up_in_windows_too() {
    let intervals = (1..=10_i64).map(|second| {
        let mut one = interval(second);
        let mut row = process(7, "x", second);
        row.sched = sched(second);
        one.threads = vec![ThreadInterval { sched: sched(second), ..thread(&row, 70) }];
        let waited = if second == 2 { delay_bucket(1 << 30) } else { delay_bucket(1 << 10) };
        one.delays = [DelayOf::Cpu(0), DelayOf::Process(row.key)]
            .map(|of| Delays { of, histogram: Arc::new([(waited, 1)].into_iter().collect()) })
            .into();
        let events = CpuSched {
            unknown_ns: 5,
            run_queue_ns: 2 * SECOND.cast_unsigned(),
            run_queue_max: u32::try_from(second).unwrap(),
            switches: 3,
            softirq_ns: [second.cast_unsigned(); 10],
        };
        one.cpus = vec![CpuInterval { sched: events, ..CpuInterval::default() }];
        one.ledger.unknown_ns = 5;
        one.processes = vec![row];
        ("h", one)
    });
    let store = Store::of(intervals);
    let exported = |kind| {
        let query =
            ExportQuery { kind, interval_ns: Some(4 * SECOND.cast_unsigned()), ..ExportQuery::default() };
        parse_csv(&store.export(&query).0)
    };
    for kind in [Kind::Processes, Kind::Threads] {
        let table = exported(kind);
        assert_eq!(column(&table, "blocked_ns"), ["10000", "26000", "19000"], "{kind:?}");
        assert_eq!(column(&table, "wakeups"), ["4", "4", "2"], "{kind:?}");
        // A process's is no less than its histogram has, however long the delays of its threads were.
        let first = if matches!(kind, Kind::Processes) { "1073741824" } else { "4000" };
        assert_eq!(column(&table, "longest_run_delay_ns"), [first, "8000", "10000"], "{kind:?}");
        assert_eq!(column(&table, "wait_ns"), ["10000", "26000", "19000"], "{kind:?}");
    }
    let range = delay_range_ns(delay_bucket(1 << 30));
    let processes = exported(Kind::Processes);
    assert_eq!(column(&processes, "run_delays"), ["4", "4", "2"]);
    // The longest delay is less than the bucket has, which caps the percentile at the bucket's begin.
    assert_eq!(column(&processes, "run_delay_max_ns")[0], range.start().to_string());
    let ledger = exported(Kind::Ledger);
    assert_eq!(column(&ledger, "unknown_ns"), ["20", "20", "10"]);
    assert_eq!(column(&ledger, "switches"), ["12", "12", "6"]);
    assert_eq!(column(&ledger, "run_queue_mean"), ["2", "2", "2"]);
    assert_eq!(column(&ledger, "run_queue_max"), ["4", "8", "10"]);
    assert_eq!(column(&ledger, "softirq_rcu_ns"), ["10", "26", "19"]);
    assert_eq!(column(&ledger, "run_delays"), ["4", "4", "2"]);
}

/// Blocked in futex for `us` µs, with as long a run delay.
fn sched(us: i64) -> SchedDelta {
    let ns = us * 1000;
    let waits = [(WaitReason::syscall(202), ns.cast_unsigned())].into_iter().collect();
    SchedDelta { blocked_ns: ns, wakeups: 1, longest_delay_ns: ns, waits, ..SchedDelta::default() }
}

#[test]
fn progress_ends_at_one() {
    let store = Store::of((1..=2000).map(|second| ("h", interval(second))));
    let mut reported = Vec::new();
    let query = ExportQuery { kind: Kind::Ledger, ..ExportQuery::default() };
    let reader = Reader::open(&store.path).unwrap();
    export(&reader, &query, &mut std::io::sink(), &mut |progress| reported.push(progress)).unwrap();
    let ratios: Vec<_> = reported.iter().map(|progress| progress.ratio.unwrap()).collect();
    assert!(ratios.len() >= 4 && ratios.is_sorted() && ratios.last() == Some(&1.0), "{ratios:?}");
    assert_eq!(reported.last().unwrap().rows, 2000);
}

#[test]
fn a_closed_pipe_is_an_error_of_its_own() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let store = rich_store();
    let reader = Reader::open(&store.path).unwrap();
    for format in [Format::Csv, Format::Jsonl] {
        let query = ExportQuery { format, ..ExportQuery::default() };
        let error = export(&reader, &query, &mut Closed, &mut |_| {}).unwrap_err();
        assert!(error.is_broken_pipe(), "{error}");
    }
}

#[test]
fn active_threads_are_those_that_did_more_than_to_wait() {
    let mut only = interval(10);
    let parent = process(100, "web", 40);
    let doing = |tid, delta| ThreadInterval { delta, ..thread(&parent, tid) };
    only.threads = vec![
        doing(100, Delta::default()),
        doing(101, Delta { run_ns: 1, ..Delta::default() }),
        doing(102, Delta { run_delay_ns: 1, ..Delta::default() }),
        doing(103, Delta { voluntary_switches: 1, ..Delta::default() }),
        doing(104, Delta { involuntary_switches: 1, ..Delta::default() }),
    ];
    // A thread that was born is stored without having done anything.
    only.threads[0].life = Life::Born;
    only.processes = vec![parent];
    let store = Store::of([("alpha", only)]);
    let all = ExportQuery { kind: Kind::Threads, ..ExportQuery::default() };
    let active = ExportQuery { only_active: true, ..all.clone() };
    let tids = |query| column(&parse_csv(&store.export(query).0), "tid");
    assert_eq!(tids(&all), ["100", "101", "102", "103", "104"]);
    assert_eq!(
        (tids(&active), store.export(&active).1.rows),
        (vec!["101".into(), "102".into(), "103".into(), "104".into()], 4)
    );
}

#[test]
fn words_are_parsed_or_refused_with_the_choices() {
    assert_eq!("pivot".parse::<Kind>().unwrap(), Kind::Pivot);
    let text = "xml".parse::<Format>().unwrap_err().to_string();
    assert_eq!(text, "unknown format \"xml\": expected one of csv, jsonl, json, parquet");
}
