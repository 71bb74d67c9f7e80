//! Every CSV that the program writes, read by other programs without options: they find the rows and numbers that JSON
//! Lines have. Names are hostile, and come after more rows than a reader needs to guess a column's type.
//!
//! Python's own module always reads them; `scripts/test-csv.sh` names more readers in `CSV_READERS`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, Comm, CpuLimit, Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, Pressure,
    ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey, Throttle, Trust,
};
use cpumon_store::{StoreOptions, Writer};

use crate::support::ok;
use crate::trace_analyses::write as write_trace;

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-01-01 00:00:00 UTC.
const BEGIN_NS: i64 = 1_767_225_600 * SECOND_NS;
/// Readers guess types from the first rows, at most 20,480: this many seconds have only plain names.
const PLAIN_SECONDS: i64 = 110;
const PLAIN_PROCESSES: u32 = 190;
const SECONDS: i64 = PLAIN_SECONDS + 4;

/// Texts that break a table: quotes, separators, line ends, formulas, numbers and dates, blanks, nothing, other scripts,
/// control characters.
const NAMES: [&str; 24] = [
    "=cmd()",
    "+1",
    "-1",
    "@x",
    "'; DROP TABLE process--",
    "\"",
    "\"\"",
    "a,b",
    "a;b\tc",
    "a\nb",
    "a\r\nb",
    "a\rb",
    "\u{1b}[31m",
    "\u{202e}gnp.exe",
    "",
    "   ",
    "NULL",
    "nan",
    "1e5",
    "2026-01-01",
    "\\",
    "\\\"",
    "#x",
    "日本語\u{301}",
];

fn process(pid: u32, name: &str) -> (ProcessInterval, ThreadInterval) {
    let info = ProcessInfo {
        name: name.into(),
        comm: name.into(),
        cgroup: format!("/system.slice/{name}.service").into(),
        container: name.into(),
        uid: pid,
        user: name.into(),
        cmdline: name.into(),
        ..ProcessInfo::default()
    };
    let run_ns = 1_000_003 + i64::from(pid);
    let delta = Delta { user_ns: run_ns, run_ns, run_delay_ns: 17, ..Delta::default() };
    let key = ProcessKey { pid, start_ns: 42 };
    let row =
        ProcessInterval { key, info: Arc::new(info), thread_rows: 1, delta, ..ProcessInterval::default() };
    let thread = ThreadInterval {
        key: ThreadKey { tid: pid, start_ns: 42 },
        process: key,
        comm: Comm::from(name),
        delta,
        ..ThreadInterval::default()
    };
    (row, thread)
}

fn cgroup(name: &str) -> CgroupInterval {
    let path: Arc<str> = format!("/system.slice/{name}.service").into();
    CgroupInterval {
        limiter_bytes: u16::try_from(path.len()).unwrap(),
        path,
        limit: CpuLimit::of_quota(50_000, 100_000),
        throttle: Some(Throttle { periods: 10, throttled_periods: 3, throttled_ns: 123_456_789 }),
        pressure: Some(Pressure { some_ns: 5, full_ns: 3 }),
        ..CgroupInterval::default()
    }
}

fn interval(host: u8, second: i64) -> Interval {
    let at = |second: i64| {
        let ns = (second * SECOND_NS).unsigned_abs();
        Moment { wall_ns: BEGIN_NS + second * SECOND_NS, mono_ns: ns, boot_ns: ns }
    };
    let is_plain = second <= PLAIN_SECONDS;
    let (processes, threads): (Vec<_>, Vec<_>) = if is_plain {
        (1_000..1_000 + PLAIN_PROCESSES).map(|pid| process(pid, &format!("plain-{pid}"))).unzip()
    } else {
        (100..).zip(NAMES).map(|(pid, name)| process(pid, name)).unzip()
    };
    let threads_ns = processes.iter().map(|row| row.delta.run_ns).sum();
    Interval {
        host: HostId([host; 16]),
        fields: Fields::all() - Fields::HISTOGRAMS - Fields::IRQ,
        sequence: second.unsigned_abs(),
        begin: at(second - 1),
        end: at(second),
        ledger: Ledger {
            capacity_ns: 2 * SECOND_NS,
            threads_ns,
            idle_ns: 2 * SECOND_NS - threads_ns,
            ..Ledger::default()
        },
        processes,
        threads,
        cgroups: if is_plain { Vec::new() } else { NAMES.map(cgroup).to_vec() },
        ..Interval::default()
    }
}

fn store(path: &Path) {
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for (host, name) in [(1, "here"), (2, "=host(\"\n\")")] {
        let first = if host == 1 { 1 } else { PLAIN_SECONDS + 1 };
        for second in first..=SECONDS {
            let info = HostInfo {
                host: HostId([host; 16]),
                hostname: name.into(),
                cpu_count: 2,
                ..HostInfo::default()
            };
            writer.put(&info, Trust::Local, None, &interval(host, second)).unwrap();
        }
    }
    writer.commit().unwrap();
}

/// Every command that writes rows of a store or of a trace, without the format.
fn commands(store: &str, trace: &str) -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let of_store = |line: &str| [words(line.to_owned()), words(format!("--store {store}"))].concat();
    let groups = ["name", "program", "process", "user", "service", "container", "cgroup"];
    let mut all: Vec<Vec<String>> = ["processes", "threads", "cgroups", "ledger"]
        .iter()
        .flat_map(|what| [format!("export {what}"), format!("export {what} --interval 2s")])
        .map(|line| of_store(&line))
        .collect();
    let range =
        "--before 2026-01-01T00:00Z..2026-01-01T00:01:50Z --after 2026-01-01T00:01:50Z..2026-01-01T00:02Z";
    for by in groups {
        all.push(of_store(&format!("export pivot --host here --by {by}")));
        all.push(of_store(&format!("export compare --by {by} {range}")));
    }
    all.push(of_store("export pivot --host here --value pct --interval 10s"));
    for by in groups.into_iter().chain(["thread", "host"]) {
        let report = format!("report --all-hosts --since 2026-01-01T00:00Z --limit 1000 --by {by}");
        all.push(of_store(&report));
        all.push(of_store(&format!("{report} --compare before")));
    }
    all.extend(["find a", "hosts", "ledger --host here --since 2026-01-01T00:00Z"].map(of_store));
    all.push([of_store("sql"), vec!["SELECT * FROM process".to_owned()]].concat());
    for line in [
        "delays",
        "wakers",
        "path --thread app",
        "histogram",
        "report",
        "report --by cpu",
        "report --every 1ms",
    ] {
        let (command, flags) =
            line.split_once(' ').map_or((line, None), |(command, flags)| (command, Some(flags)));
        all.push(
            [
                words(format!("trace {command} {trace}")),
                flags.map_or_else(Vec::new, |flags| words(flags.to_owned())),
            ]
            .concat(),
        );
    }
    all
}

#[test]
fn other_programs_read_every_csv_as_json_lines_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (store_path, trace) = (path("s.db"), path("story.trace"));
    store(Path::new(&store_path));
    write_trace(Path::new(&trace));
    let mut files = Vec::new();
    for (nth, command) in commands(&store_path, &trace).iter().enumerate() {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let file = path(&format!("{nth:02} {}.csv", command[..2].join(" ")));
        let written = |format| ok(&[&command[..], &["--format", format]].concat());
        let lines = written("jsonl");
        assert!(!lines.is_empty(), "no rows: {command:?}");
        std::fs::write(file.replace(".csv", ".jsonl"), lines).unwrap();
        std::fs::write(&file, written("csv")).unwrap();
        files.push(file);
    }
    let slices = path("slices.csv");
    ok(&["trace", "export", &trace, "--format", "csv", "-o", &slices]);
    files.push(slices);
    let readers = std::env::var("CSV_READERS").unwrap_or_else(|_| "csv".to_owned());
    let python = std::env::var_os("CSV_PYTHON").unwrap_or_else(|| "python3".into());
    for reader in readers.split(',') {
        let mut command = Command::new(&python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/read_csv.py")).arg(reader).args(&files);
        let read = command.output().unwrap();
        println!("{}", String::from_utf8_lossy(&read.stdout));
        assert!(read.status.success(), "{read:?}");
    }
}
