//! All hosts at a glance. In: every host with its newest interval. Out: [`Fleet`], made at most once a second and encoded
//! once for all who read it. Why: ten pages on a fleet of a thousand hosts must cost what one costs.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use cpumon_model::{HostId, HostStatus, Interval, Ledger, ProcessInterval};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Live;
use crate::api::{Cell, Fleet, FleetBase, Nanos, Spark, Table, key_of_process, to_ms};
use crate::app::Shared;
use crate::stream::{HEARTBEAT, Messages, body_of, close, head, heartbeat, number_of, open};

/// Time between two fleet snapshots.
const STEP: Duration = Duration::from_secs(1);
/// Processes in the top of tops.
const TOP: usize = 20;
/// Values in a spark line.
const SPARKS: i64 = 120;
/// Time between two values of a spark line, ns.
const SPARK_NS: i64 = 1_000_000_000;
/// A ledger is closed if at most this share of the capacity is not attributed.
pub(crate) const CLOSED_RATIO: f64 = 0.005;

/// What one interval says about a host.
#[derive(Clone, Debug, Default)]
struct Glance {
    number: u64,
    busy_ratio: Option<f64>,
    ledger: Ledger,
    flags: String,
    top: Vec<Busy>,
}

/// A busy process.
#[derive(Clone, Debug)]
struct Busy {
    key: String,
    name: String,
    container: String,
    run_ns: i64,
    cpu_pct: Option<f64>,
    host_pct: Option<f64>,
}

/// The fleet as it was made last.
#[derive(Default)]
struct Made {
    number: u64,
    at: Option<Instant>,
    body: Bytes,
    glances: HashMap<HostId, Glance>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct FleetBoard(Mutex<Made>);

/// Share of all CPUs that was busy; `None` if the CPUs are not known.
pub(crate) fn busy_ratio(interval: &Interval) -> Option<f64> {
    let ledger = &interval.ledger;
    let idle_ns = ledger.idle_ns.saturating_add(ledger.steal_ns);
    let knows_cpus = ledger.capacity_ns > 0 && !interval.cpus.is_empty();
    knows_cpus.then(|| (1.0 - idle_ns as f64 / ledger.capacity_ns as f64).clamp(0.0, 1.0))
}

impl Glance {
    fn new(number: u64, interval: &Interval) -> Self {
        let mut rows: Vec<&ProcessInterval> =
            interval.processes.iter().filter(|row| row.delta.run_ns > 0).collect();
        if rows.len() > TOP {
            rows.select_nth_unstable_by_key(TOP, |row| Reverse(row.delta.run_ns));
            rows.truncate(TOP);
        }
        rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
        let busy = |row: &&ProcessInterval| Busy {
            key: key_of_process(row.key),
            name: row.info.name.to_string(),
            container: row.info.container.to_string(),
            run_ns: row.delta.run_ns,
            cpu_pct: interval.cpu_pct(row.delta.run_ns),
            host_pct: interval.host_pct(row.delta.run_ns),
        };
        Self {
            number,
            busy_ratio: busy_ratio(interval),
            ledger: interval.ledger,
            flags: cpumon_model::flag_names(interval.flags),
            top: rows.iter().map(busy).collect(),
        }
    }
}

/// How long ago a host's last interval arrived.
fn age_ns(host: &HostStatus, now_ns: i64) -> i64 {
    now_ns.saturating_sub(host.received_wall_ns).max(0)
}

const REPORTING: &str = "reporting";

/// `reporting`, `late` or `silent`.
fn state_of(age_ns: i64, interval_ns: u64) -> &'static str {
    let interval_ns = i64::try_from(interval_ns).unwrap_or(i64::MAX);
    if age_ns <= interval_ns.saturating_mul(5).saturating_div(2).max(3_000_000_000) {
        REPORTING
    } else if age_ns <= interval_ns.saturating_mul(10).max(15_000_000_000) {
        "late"
    } else {
        "silent"
    }
}

/// The receiver's clock, ns since the UNIX epoch.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn real(value: Option<f64>) -> Cell {
    Cell::or_null(value, Cell::real)
}

/// Columns of hosts.
pub(crate) fn host_table(rows: &[(&HostStatus, Option<Row<'_>>)], total: usize, now_ns: i64) -> Table {
    let mut table = Table::new(rows.len(), total);
    let mut status = |name: &'static str, cell: &dyn Fn(&HostStatus) -> Cell| {
        table.push(name, rows.iter().map(|(host, _)| cell(host)));
    };
    let text = |text: &str| Cell::from(text);
    let age_ns = |host: &HostStatus| age_ns(host, now_ns);
    status("id", &|host| host.info.host.to_string().into());
    status("hostname", &|host| text(&host.info.hostname));
    status("trust", &|host| text(host.trust.name()));
    status("source", &|host| text(host.source.name()));
    status("address", &|host| text(&host.address));
    status("agent", &|host| text(&host.info.agent));
    status("kernel", &|host| text(&host.info.kernel));
    status("arch", &|host| text(&host.info.arch));
    status("cpu_count", &|host| match host.info.cpu_count {
        0 => Cell::Null,
        count => Cell::Int(count.into()),
    });
    status("interval_ns", &|host| match host.info.interval_ns {
        0 => Cell::Null,
        ns => Cell::count(ns),
    });
    status("state", &|host| text(state_of(age_ns(host), host.info.interval_ns)));
    status("age_ns", &|host| Cell::Int(age_ns(host)));
    status("clock_offset_ns", &|host| Cell::Int(host.clock_offset_ns()));
    status("clock_round_trip_ns", &|host| {
        host.clock.map_or(Cell::Null, |clock| Cell::count(clock.round_trip_ns))
    });
    status("clock_drift_ppb", &|host| {
        host.clock.and_then(|clock| clock.drift_ppb).map_or(Cell::Null, Cell::Int)
    });
    status("end_ms", &|host| Cell::real(to_ms(host.last.wall_ns)));
    status("threads", &|host| Cell::Int(host.thread_count.into()));
    status("processes", &|host| Cell::Int(host.process_count.into()));
    status("lost", &|host| Cell::count(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial)));
    status("rejected", &|host| Cell::count(host.loss.rejected));
    status("store_dropped", &|host| Cell::count(host.loss.store_dropped));
    let mut glance = |name: &'static str, cell: &dyn Fn(&Glance) -> Cell| {
        table.push(name, rows.iter().map(|(_, row)| row.as_ref().map_or(Cell::Null, |row| cell(row.0))));
    };
    let ledger = |glance: &Glance, cell: &dyn Fn(&Ledger) -> Cell| match glance.ledger.capacity_ns {
        0 => Cell::Null,
        _ => cell(&glance.ledger),
    };
    glance("busy_ratio", &|glance| real(glance.busy_ratio));
    glance("top_key", &|glance| Cell::or_null(glance.top.first(), |top| text(&top.key)));
    glance("top_name", &|glance| Cell::or_null(glance.top.first(), |top| text(&top.name)));
    glance("top_cpu_pct", &|glance| real(glance.top.first().and_then(|top| top.cpu_pct)));
    glance("capacity_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.capacity_ns)));
    glance("unattributed_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.unattributed_ns())));
    glance("unattributed_ratio", &|glance| ledger(glance, &|ledger| Cell::real(ledger.unattributed_ratio())));
    glance("ledger_closed", &|glance| {
        ledger(glance, &|ledger| Cell::Bool(ledger.unattributed_ratio().abs() <= CLOSED_RATIO))
    });
    glance("flags", &|glance| text(&glance.flags));
    table
}

/// A host's glance, opaque outside.
#[derive(Copy, Clone)]
pub(crate) struct Row<'a>(&'a Glance);

/// The busiest processes over all hosts that report.
fn top_table(hosts: &[(&HostStatus, Option<Row<'_>>)], now_ns: i64) -> Table {
    let mut all: Vec<(&HostStatus, &Busy)> = hosts
        .iter()
        .filter(|(host, _)| state_of(age_ns(host, now_ns), host.info.interval_ns) == REPORTING)
        .flat_map(|(host, row)| row.iter().flat_map(|row| &row.0.top).map(|busy| (*host, busy)))
        .collect();
    all.sort_by(|a, b| b.1.cpu_pct.unwrap_or(0.0).total_cmp(&a.1.cpu_pct.unwrap_or(0.0)));
    let total = all.len();
    all.truncate(TOP);
    let mut table = Table::new(all.len(), total);
    let mut push = |name: &'static str, cell: &dyn Fn(&HostStatus, &Busy) -> Cell| {
        table.push(name, all.iter().map(|(host, busy)| cell(host, busy)));
    };
    push("host_id", &|host, _| host.info.host.to_string().into());
    push("hostname", &|host, _| Cell::from(&*host.info.hostname));
    push("key", &|_, busy| Cell::from(&*busy.key));
    push("name", &|_, busy| Cell::from(&*busy.name));
    push("container", &|_, busy| Cell::from(&*busy.container));
    push("cpu_pct", &|_, busy| real(busy.cpu_pct));
    push("host_pct", &|_, busy| real(busy.host_pct));
    push("run_ns", &|_, busy| Cell::Int(busy.run_ns));
    table
}

/// How a list of hosts is ordered.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    /// By name.
    #[default]
    Name,
    /// Busiest first.
    Busy,
    /// Most threads first.
    Threads,
    /// Longest silent first.
    LastSeen,
    /// Most losses first.
    Loss,
}

/// Which hosts are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) search: String,
    pub(crate) sort: Sort,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

fn sort(rows: &mut [(&HostStatus, Option<Row<'_>>)], by: Sort) {
    rows.sort_by(|a, b| (&a.0.info.hostname, a.0.info.host).cmp(&(&b.0.info.hostname, b.0.info.host)));
    match by {
        Sort::Name => {}
        Sort::Busy => rows.sort_by(|a, b| {
            let busy = |row: &Option<Row<'_>>| row.and_then(|row| row.0.busy_ratio).unwrap_or(-1.0);
            busy(&b.1).total_cmp(&busy(&a.1))
        }),
        Sort::Threads => rows.sort_by_key(|(host, _)| Reverse(host.thread_count)),
        Sort::LastSeen => rows.sort_by_key(|(host, _)| host.received_wall_ns),
        Sort::Loss => rows.sort_by_key(|(host, _)| {
            Reverse(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial))
        }),
    }
}

/// Whether a host's name, id or address holds the text, whatever its case.
fn matches(host: &HostStatus, text: &str) -> bool {
    let holds = |field: &str| field.to_lowercase().contains(text);
    text.is_empty()
        || holds(&host.info.hostname)
        || holds(&host.info.host.to_string())
        || holds(&host.address)
}

impl FleetBoard {
    fn refresh(made: &mut Made, live: &dyn Live) -> Vec<HostStatus> {
        let fleet = live.fleet();
        let mut glances = std::mem::take(&mut made.glances);
        made.glances.reserve(fleet.len());
        fleet
            .into_iter()
            .map(|(host, shown)| {
                let id = host.info.host;
                if let Some(shown) = shown {
                    let known = glances.remove(&id).filter(|glance| glance.number == shown.number);
                    let glance = known.unwrap_or_else(|| Glance::new(shown.number, &shown.interval));
                    made.glances.insert(id, glance);
                }
                host
            })
            .collect()
    }

    /// The hosts that are wanted, now.
    pub(crate) fn ask(&self, live: &dyn Live, wanted: &Wanted) -> Fleet {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = Self::refresh(&mut made, live);
        let (base, shown) = fleet_of(&hosts, &made.glances, wanted, made.number);
        drop(made);
        Fleet { base, skipped: 0, spark: Some(sparks(live, &shown)) }
    }

    /// The newest snapshot of all hosts as an open object, made if the last one is older than [`STEP`].
    fn current(&self, live: &dyn Live) -> (u64, Bytes) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers come a little early or late; what is nearly a step old is old.
        let is_old = made.at.is_none_or(|at| at.elapsed() >= STEP.mul_f32(0.9));
        if is_old {
            let hosts = Self::refresh(&mut made, live);
            let all = Wanted { search: String::new(), sort: Sort::Name, offset: 0, limit: usize::MAX };
            made.number += 1;
            made.at = Some(Instant::now());
            let (fleet, _) = fleet_of(&hosts, &made.glances, &all, made.number);
            made.body = open(&body_of(&fleet));
        }
        (made.number, made.body.clone())
    }
}

fn fleet_of<'h>(
    hosts: &'h [HostStatus],
    glances: &HashMap<HostId, Glance>,
    wanted: &Wanted,
    number: u64,
) -> (FleetBase, Vec<&'h HostStatus>) {
    let search = wanted.search.to_lowercase();
    let mut rows: Vec<(&HostStatus, Option<Row<'_>>)> = hosts
        .iter()
        .filter(|host| matches(host, &search))
        .map(|host| (host, glances.get(&host.info.host).map(Row)))
        .collect();
    sort(&mut rows, wanted.sort);
    let (total, now_ns) = (rows.len(), now_ns());
    let top = top_table(&rows, now_ns);
    let page: Vec<_> = rows.into_iter().skip(wanted.offset).take(wanted.limit).collect();
    let base = FleetBase { now_ns: Nanos(now_ns), number, hosts: host_table(&page, total, now_ns), top };
    (base, page.into_iter().map(|(host, _)| host).collect())
}

/// Utilization of the newest minutes, by the receiver's clock.
fn sparks(live: &dyn Live, hosts: &[&HostStatus]) -> Spark {
    let now_ns = now_ns();
    let line = |host: &&HostStatus| {
        // What was moved to the receiver's time stands there already.
        let moved_ns = live.newest(host.info.host).map_or(0, |shown| shown.interval.wall_shift_ns);
        let offset_ns = host.clock_offset_ns().saturating_sub(moved_ns);
        let begin_ns = now_ns.saturating_sub(SPARKS * SPARK_NS);
        let mut line = vec![None; usize::try_from(SPARKS).unwrap_or(0)];
        for shown in live.recent(host.info.host, begin_ns.saturating_add(offset_ns)) {
            let interval = &shown.interval;
            let Some(busy) = busy_ratio(interval) else { continue };
            let place = |wall_ns: i64| {
                let at = wall_ns.saturating_sub(offset_ns).saturating_sub(begin_ns).div_euclid(SPARK_NS);
                usize::try_from(at.clamp(0, SPARKS)).unwrap_or(0)
            };
            let (from, to) = (place(interval.begin.wall_ns), place(interval.end.wall_ns));
            let end = line.len().min(to.max(from + 1));
            if let Some(part) = line.get_mut(from..end) {
                part.fill(Some((busy * 1e4).round() / 1e4));
            }
        }
        line
    };
    Spark {
        step_ns: SPARK_NS.unsigned_abs(),
        host_ids: hosts.iter().map(|host| host.info.host.to_string()).collect(),
        busy_ratio: hosts.iter().map(line).collect(),
    }
}

/// One reader of the fleet's stream.
pub(crate) struct FleetReader {
    app: Shared,
    last: Option<u64>,
    is_first: bool,
    next: Instant,
}

impl FleetReader {
    /// `last_id`: the id of the last message it got, on an earlier connection.
    pub(crate) fn new(app: Shared, last_id: Option<&str>) -> Self {
        let last = last_id.and_then(|id| number_of(id, app.epoch));
        Self { app, last, is_first: true, next: Instant::now() }
    }

    fn message(&mut self, number: u64, body: Bytes) -> VecDeque<Bytes> {
        let skipped = self.last.map_or(0, |last| number.saturating_sub(last + 1));
        let mut pieces = VecDeque::from([head("fleet", self.app.epoch, number), body]);
        if std::mem::take(&mut self.is_first) {
            let hosts: Vec<HostStatus> = self.app.live.hosts();
            let spark = sparks(&*self.app.live, &hosts.iter().collect::<Vec<_>>());
            pieces.push_back(Bytes::from_static(b",\"spark\":"));
            pieces.push_back(body_of(&spark));
        }
        pieces.push_back(format!(",\"skipped\":{skipped}").into());
        pieces.push_back(close());
        self.last = Some(number);
        pieces
    }
}

impl Messages for FleetReader {
    async fn next(&mut self) -> Option<VecDeque<Bytes>> {
        let deadline = Instant::now() + HEARTBEAT;
        loop {
            sleep_until(self.next).await;
            let (number, body) = self.app.fleet.current(&*self.app.live);
            if self.last.is_none_or(|last| last != number) {
                self.next = Instant::now() + STEP;
                return Some(self.message(number, body));
            }
            if Instant::now() >= deadline {
                return Some(heartbeat());
            }
            sleep(STEP / 10).await;
        }
    }
}
