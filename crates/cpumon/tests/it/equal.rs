//! The figures of a range are the same from every source: `cpumon report`, `cpumon sql`, `cpumon export compare`, and the
//! API's report, sum and comparison; and the terminal has every digit that `cpumon report` prints. Ranges end within
//! intervals, minutes and hours, mostly compacted into sums.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use cpumon::cli::AccessArgs;
use cpumon::client::Client;
use cpumon::feeds::{RemoteFeed, StoreFeed};
use cpumon_model::{
    BootId, CgroupInterval, CpuLimit, Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment,
    Pressure, ProcessInfo, ProcessInterval, ProcessKey, SourceKind, ThreadInterval, ThreadKey, Throttle,
    Trust,
};
use cpumon_query::report::{ReportBy, ReportQuery};
use cpumon_store::{StoreOptions, Writer};
use cpumon_tui::Feed;
use serde_json::Value;

use crate::screen_report::{answered, cells, printed};
use crate::support::{Serve, cpumon, ok};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;
/// Neither a minute nor an hour is a multiple of this.
pub const LENGTH_NS: i64 = 37 * SECOND_NS;
/// 18.5 hours.
const COUNT: i64 = 1_800;
const PAIRS: i64 = 20;
const WEB_CGROUP: &str = "/system.slice/web.service";
const DB_CGROUP: &str = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Yesterday, because a receiver deletes old sums: some minutes after an hour's begin.
pub fn begin_ns() -> i64 {
    static BEGIN_NS: LazyLock<i64> =
        LazyLock::new(|| (cpumon_store::wall_now_ns() / HOUR_NS - 24) * HOUR_NS + 1_234 * SECOND_NS);
    *BEGIN_NS
}

pub fn mixed(seed: i64) -> i64 {
    let mut z = seed.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 2).cast_signed()
}

fn process(at: i64, number: u32, infos: &[Arc<ProcessInfo>]) -> ProcessInterval {
    // The last one is another process in each interval.
    let is_short = number == 5;
    let start_ns = if is_short { at.unsigned_abs() } else { 7 };
    let run_ns = mixed(at * 100 + i64::from(number)) % (LENGTH_NS / 4);
    ProcessInterval {
        key: ProcessKey { pid: 100 + number, start_ns },
        info: Arc::clone(&infos[number as usize % infos.len()]),
        life: if is_short { Life::BornEnded } else { Life::Alive },
        thread_rows: 1,
        delta: Delta {
            user_ns: run_ns / 3,
            system_ns: run_ns / 2,
            run_ns,
            run_delay_ns: run_ns / 7,
            voluntary_switches: run_ns % 13,
            involuntary_switches: run_ns % 5,
            minor_faults: run_ns % 11,
            major_faults: run_ns % 3,
        },
        ..ProcessInterval::default()
    }
}

pub fn interval(at: i64, infos: &[Arc<ProcessInfo>]) -> Interval {
    let moment = |at: i64| Moment {
        mono_ns: (at * LENGTH_NS).unsigned_abs(),
        boot_ns: (at * LENGTH_NS).unsigned_abs(),
        wall_ns: begin_ns() + at * LENGTH_NS,
    };
    let limited = |path: &str, parts: u64, salt: i64| {
        let part = |most: i64| (mixed(at * 7 + salt) % most).unsigned_abs();
        let throttle = Throttle { periods: 370, throttled_periods: part(370), throttled_ns: part(LENGTH_NS) };
        CgroupInterval {
            path: path.into(),
            limit: CpuLimit::Millionths(parts),
            limiter_bytes: u16::try_from(path.len()).unwrap(),
            throttle: Some(throttle),
            pressure: Some(Pressure { some_ns: part(LENGTH_NS / 2), full_ns: 0 }),
            ..CgroupInterval::default()
        }
    };
    let is_there = |number: &u32| mixed(at * 31 + i64::from(*number)) % 5 > 0;
    let processes: Vec<_> = (0..6).filter(is_there).map(|number| process(at, number, infos)).collect();
    let thread = |row: &ProcessInterval| ThreadInterval {
        key: ThreadKey { tid: row.key.pid, start_ns: row.key.start_ns },
        process: row.key,
        comm: "worker".into(),
        life: row.life,
        delta: row.delta,
        ..ThreadInterval::default()
    };
    Interval {
        host: HostId([7; 16]),
        boot: BootId([8; 16]),
        sequence: at.unsigned_abs(),
        source: SourceKind::Bpf,
        fields: Fields::USER
            | Fields::SYSTEM
            | Fields::RUN
            | Fields::RUN_DELAY
            | Fields::SWITCHES
            | Fields::CGROUPS,
        cgroups: vec![limited(WEB_CGROUP, 1_250_000, 1), limited(DB_CGROUP, 333_333, 2)],
        begin: moment(at - 1),
        end: moment(at),
        threads: processes.iter().map(thread).collect(),
        ledger: Ledger {
            capacity_ns: 4 * LENGTH_NS,
            threads_ns: processes.iter().map(|row| row.delta.run_ns).sum(),
            ..Ledger::default()
        },
        processes,
        ..Interval::default()
    }
}

pub fn infos() -> [Arc<ProcessInfo>; 4] {
    let info = |name: &str, uid: u32, cgroup: &str, container: &str| {
        let (name, cgroup, container) = (name.into(), cgroup.into(), container.into());
        Arc::new(ProcessInfo { name, uid, cgroup, container, ..ProcessInfo::default() })
    };
    [
        info("web", 33, WEB_CGROUP, "web.service"),
        info("db", 70, DB_CGROUP, "0123456789ab"),
        info("'; DROP TABLE--", 0, "/", ""),
        info("web", 34, WEB_CGROUP, "web.service"),
    ]
}

pub fn store(path: &Path) {
    let infos = infos();
    let host = HostInfo { host: HostId([7; 16]), hostname: "equal".into(), ..HostInfo::default() };
    let options = StoreOptions { max_age: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options).unwrap();
    for at in 1..=COUNT {
        writer.put(&host, Trust::Local, None, &interval(at, &infos)).unwrap();
        // Later intervals stay fresh.
        if at == COUNT - 150 {
            writer.commit().unwrap();
            writer.compact_host(host.host).unwrap();
        }
    }
    writer.commit().unwrap();
}

/// A group's run time, user time, run delay and voluntary switches.
type Figures = BTreeMap<String, Vec<i64>>;
const FIGURES: [&str; 4] = ["run_ns", "user_ns", "run_delay_ns", "voluntary_switches"];

fn figures(rows: &[Value], name: &str, columns: &[&str]) -> Figures {
    let mut all = Figures::new();
    for row in rows {
        let text = row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
        // A process has its pid beside its name; short-lived ones are one row for each name.
        let pid = row.get("pid").and_then(Value::as_i64).map_or_else(String::new, |pid| format!(" {pid}"));
        let values: Vec<i64> = columns.iter().map(|column| row[*column].as_i64().unwrap()).collect();
        assert!(all.insert(text + &pid, values).is_none(), "{row} twice");
    }
    all
}

/// The rows of a table of the API, each with its cells by name.
fn rows_of(table: &Value) -> Vec<Value> {
    let count = usize::try_from(table["rows"].as_u64().unwrap()).unwrap();
    let cell = |column: &Value, at: usize| match column {
        Value::Array(cells) => cells[at].clone(),
        Value::Object(coded) => {
            coded["values"][usize::try_from(coded["index"][at].as_u64().unwrap()).unwrap()].clone()
        }
        all => all.clone(),
    };
    let row = |at: usize| {
        let cells = table["columns"].as_object().unwrap().iter();
        Value::Object(cells.map(|(name, column)| (name.clone(), cell(column, at))).collect())
    };
    (0..count).map(row).collect()
}

fn groups(rows: Vec<Value>) -> Vec<Value> {
    let is_group = |row: &Value| ["group", "short-lived"].contains(&row["kind"].as_str().unwrap());
    rows.into_iter().filter(is_group).collect()
}

fn json(text: &str) -> Vec<Value> {
    serde_json::from_str::<Vec<Value>>(text).unwrap()
}

fn get(serve: &Serve, path: &str) -> Value {
    let mut answer = ureq::get(format!("{}/api/v1/hosts/equal/{path}", serve.url)).call().unwrap();
    serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap()
}

/// A range of minutes to a day that ends anywhere, and a group.
fn pair(seed: i64) -> ([i64; 2], &'static str) {
    let longest = [3_000, 20_000, 45_000, 66_000][usize::try_from(seed % 4).unwrap()] * SECOND_NS;
    let length_ns = mixed(seed + 9) % longest + 3 * LENGTH_NS;
    let since_ns = begin_ns() + mixed(seed + 77) % (COUNT * LENGTH_NS - length_ns).max(1);
    let by = ["name", "user", "container", "process"][usize::try_from(mixed(seed) % 4).unwrap()];
    ([since_ns, since_ns + length_ns], by)
}

/// SQL of the same question over single intervals.
fn sql(store: &str, [since_ns, until_ns]: [i64; 2], by: &str) -> Figures {
    let group = match by {
        // The only user with the same name on every host.
        "user" => "iif(uid = 0, 'root', CAST(uid AS TEXT)) AS name",
        "container" => "iif(coalesce(container, '') = '', '(none)', container) AS name",
        "process" => "name, iif(pid = 105, NULL, pid) AS pid",
        _ => "name",
    };
    let keys = if by == "process" { "1, 2" } else { "1" };
    let text = format!(
        "SELECT {group}, sum(run_ns) AS run_ns, sum(user_ns) AS user_ns, sum(run_delay_ns) AS run_delay_ns,
                sum(voluntary_switches) AS voluntary_switches
         FROM process_interval WHERE host = 'equal' AND end_ns > {since_ns} AND end_ns <= {until_ns} GROUP BY {keys}"
    );
    figures(&json(&ok(&["sql", "--store", store, "--format", "json", &text])), "name", &FIGURES)
}

/// The terminal's report (`R`) has the cells that `cpumon report` prints. It has neither names nor single processes: those are programs.
fn same_on_screen(feed: &dyn Feed, path: &Path, [since_ns, until_ns]: [i64; 2], by: &str) {
    let (by, word) = match by {
        "user" => (ReportBy::User, "user"),
        "service" => (ReportBy::Service, "service"),
        "container" => (ReportBy::Container, "container"),
        _ => (ReportBy::Program, "program"),
    };
    let query = ReportQuery {
        since_ns: Some(since_ns),
        until_ns: Some(until_ns),
        by,
        limit: 100,
        ..ReportQuery::default()
    };
    let made = answered(feed, &query).unwrap();
    let [since, until] = [since_ns, until_ns].map(|ns| ns.to_string());
    let (_, table) = printed(path, &["--since", &since, "--until", &until, "--by", word]);
    assert_eq!(cells(&made), table, "{word} {since} {until}: terminal");
    let has_limits = matches!(by, ReportBy::Program | ReportBy::Service | ReportBy::Container);
    for title in ["LIMIT", "THROTTLED", "PRESSURE"] {
        let is_shown = table.iter().any(|word| word == title);
        assert_eq!(is_shown, has_limits, "{word} {since} {until}: {title}");
    }
}

#[test]
fn every_frontend_has_the_same_figures_for_any_range_and_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let store = path.to_str().unwrap();
    let serve = Serve::start_with(cpumon(), &path, &["--no-agent", "--retain-days", "0"]);
    let client = Client::new(&serve.url, &AccessArgs::default()).unwrap();
    let feeds: [Box<dyn Feed>; 2] = [
        Box::new(StoreFeed::open(&path, None, "").unwrap()),
        Box::new(RemoteFeed::start(client, HostId([7; 16])).unwrap()),
    ];
    for seed in 0..PAIRS {
        let (range, by) = pair(seed);
        for feed in &feeds {
            same_on_screen(&**feed, &path, range, by);
            same_on_screen(&**feed, &path, range, "service");
        }
        let [since, until] = range.map(|ns| ns.to_string());
        let what = format!("{by} {range:?}");
        let command = ["report", "--store", store, "--since", &since, "--until", &until, "--by", by];
        let report = json(&ok(&[&command[..], &["--limit", "1000", "--json"]].concat()));
        let query = format!("since={since}&until={until}&by={by}&limit=1000");
        let api = get(&serve, &format!("report?{query}"));
        let run_ns: i64 = report.iter().map(|row| row["run_ns"].as_i64().unwrap()).sum();
        assert_eq!(Some(run_ns), api["used_ns"].as_i64(), "{what}");
        let (report, api_rows) = (groups(report), groups(api["rows"].as_array().unwrap().clone()));
        let by_report = figures(&report, "name", &FIGURES);
        assert_eq!(by_report, figures(&api_rows, "name", &FIGURES), "{what}: API");
        for (row, of_api) in report.iter().zip(&api_rows) {
            for column in ["cpu_pct", "share_pct", "ready_mean", "blocked_mean"] {
                assert_eq!(row[column], of_api[column], "{what}: {column} of {row}");
            }
            let peak_pct = of_api["peak"]["ns_per_s"].as_i64().map(|ns| ns as f64 / 1e7);
            assert_eq!(row["peak_cpu_pct"].as_f64(), peak_pct, "{what}: {row}");
        }
        assert_eq!(by_report, sql(store, range, by), "{what}: SQL");
        if by == "name" {
            let sum = get(&serve, &format!("sum?{query}"));
            assert_eq!(by_report, figures(&rows_of(&sum["processes"]), "name", &FIGURES), "{what}: sum");
            assert_eq!(sum["covered_ns"], api["hosts"][0]["covered_ns"], "{what}: sum");
        }
        if by != "process" {
            let before = range[0] - 1;
            let compared =
                format!("before={}..{before}&after={since}..{until}&by={by}&limit=1000", before - LENGTH_NS);
            let compared = get(&serve, &format!("compare?{compared}"));
            let columns = ["after_run_ns", "after_user_ns", "after_run_delay_ns"];
            let after = figures(&rows_of(&compared["rows"]), "name", &columns);
            for (name, values) in &by_report {
                assert_eq!(values[..3], after[name], "{what}: compare, {name}");
            }
            assert_eq!(compared["after_covered_ns"], api["hosts"][0]["covered_ns"], "{what}: compare");
        }
    }
    serve.stop();
}
