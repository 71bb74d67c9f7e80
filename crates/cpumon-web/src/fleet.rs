//! All hosts at a glance. In: every host with its newest interval. Out: [`Fleet`], made at most once a second and encoded
//! once for all who read it. Why: ten pages on a fleet of a thousand hosts must cost what one costs.

mod columns;
mod order;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use cpumon_export::{ExportError, Format};
use cpumon_model::{HostId, HostStatus, Interval, Ledger, ProcessInterval};
use cpumon_query::Live;
use tokio::time::{Instant, sleep, sleep_until};

use columns::{Row, host_table, top_table};
pub use order::HostOrder;
pub(crate) use order::Wanted;

use crate::api::{Fleet, FleetBase, Nanos, ReceiverHealth, Spark, key_of_process};
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

/// What a file of the fleet lists.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOf {
    Hosts,
    /// The 20 busiest processes of each host that reports, the busiest of all first.
    Busiest,
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
pub(crate) fn age_ns(host: &HostStatus, now_ns: i64) -> i64 {
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
        let (base, shown) = fleet_of(&hosts, &made.glances, wanted, (made.number, live.status().into()));
        drop(made);
        Fleet { base, skipped: 0, spark: Some(sparks(live, &shown)) }
    }

    /// The hosts that are wanted as a file, all pages of them; or their busiest processes.
    pub(crate) fn file(
        &self,
        live: &dyn Live,
        (wanted, of): (&Wanted, FileOf),
        format: Format,
    ) -> Result<Vec<u8>, ExportError> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = Self::refresh(&mut made, live);
        let now_ns = now_ns();
        let rows = found(&hosts, &made.glances, wanted, now_ns);
        let columns = match of {
            FileOf::Hosts => columns::file_columns(&rows, now_ns),
            FileOf::Busiest => columns::top_columns(&rows, now_ns, usize::MAX).1,
        };
        drop(made);
        columns::write(&columns, format)
    }

    /// The newest snapshot of all hosts as an open object, made if the last one is older than [`STEP`].
    fn current(&self, live: &dyn Live) -> (u64, Bytes) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers come a little early or late; what is nearly a step old is old.
        let is_old = made.at.is_none_or(|at| at.elapsed() >= STEP.mul_f32(0.9));
        if is_old {
            let hosts = Self::refresh(&mut made, live);
            made.number += 1;
            made.at = Some(Instant::now());
            let of = (made.number, live.status().into());
            let (fleet, _) = fleet_of(&hosts, &made.glances, &Wanted::all(), of);
            made.body = open(&body_of(&fleet));
        }
        (made.number, made.body.clone())
    }
}

/// Those that are wanted, all pages of them, in order.
fn found<'h, 'g>(
    hosts: &'h [HostStatus],
    glances: &'g HashMap<HostId, Glance>,
    wanted: &Wanted,
    now_ns: i64,
) -> Vec<(&'h HostStatus, Option<Row<'g>>)> {
    let search = wanted.search.to_lowercase();
    let rows = hosts.iter().map(|host| (host, glances.get(&host.info.host).map(Row)));
    order::sorted(
        rows.filter(|row| order::matches(row, &search, now_ns)).collect(),
        wanted.sort,
        wanted.reverse,
    )
}

fn fleet_of<'h>(
    hosts: &'h [HostStatus],
    glances: &HashMap<HostId, Glance>,
    wanted: &Wanted,
    (number, receiver): (u64, ReceiverHealth),
) -> (FleetBase, Vec<&'h HostStatus>) {
    let now_ns = now_ns();
    let rows = found(hosts, glances, wanted, now_ns);
    let total = rows.len();
    let top = top_table(&rows, now_ns);
    let page: Vec<_> = rows.into_iter().skip(wanted.offset).take(wanted.limit).collect();
    let hosts = host_table(&page, total, now_ns);
    let base = FleetBase { now_ns: Nanos(now_ns), number, receiver, hosts, top };
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
        let skipped = self.last.map_or(0, |last| number.saturating_sub(last.saturating_add(1)));
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
