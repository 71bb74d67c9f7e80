//! All hosts at a glance, as the API gives them. The stream's message is made at most once a second and encoded once for all
//! its readers: ten pages on a fleet of a thousand hosts cost as much as one. The page's tables and the files are made from the same
//! columns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use cpumon_export::Format;
use cpumon_model::{HostStatus, Ledger, Utc};
use cpumon_query::fields::Field;
use cpumon_query::fleet::{
    self, BALANCED_RATIO, FleetBoard, FleetHost, FleetQuery, FleetSpan, Glance, HostState, Minute, SpanHost,
    SpanQuery, TOP, TopProcess, sparks, top,
};
use cpumon_query::history::History;
use cpumon_query::time::to_ms;
use cpumon_query::{HostRecord, Live, TaskKey};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::api::{Fleet, FleetBase, FleetHistory, Limits, ReceiverHealth, Table};
use crate::ask::PastQueries;
use crate::problem::Problem;
use crate::stream::{HEARTBEAT, Messages, body_of, close, head, heartbeat, number_of, open};
use cpumon_query::json::Nanos;

/// Time between two fleet snapshots.
const STEP: Duration = Duration::from_secs(1);
/// The list of the store's hosts is read again after this time: a host that reports is known without it.
const STORED_FOR: Duration = Duration::from_secs(30);
/// A list that takes longer is left for the next time: a busy store must not delay live data.
const STORED_WAIT: Duration = Duration::from_millis(500);
/// Where no list could be read so far, the next try is after this time.
const STORED_RETRY: Duration = Duration::from_secs(5);

/// The message that all readers share until the next one is made.
#[derive(Default)]
struct Encoded {
    number: u64,
    made: Option<Instant>,
    body: Bytes,
}

/// All hosts, as answers, files and messages of the stream.
pub(crate) struct FleetFeed {
    live: Arc<dyn Live>,
    /// When the receiver started: ids of earlier messages are useless now.
    epoch: i64,
    board: FleetBoard,
    last: Mutex<Encoded>,
    past: Arc<PastQueries>,
    stored: tokio::sync::Mutex<Stored>,
}

#[derive(Clone)]
struct Stored {
    /// When it was read, or took too long; `None`: not yet, or it failed.
    read: Option<Instant>,
    hosts: Arc<[HostRecord]>,
    /// Why hosts may be missing; empty: none is.
    error: String,
}

impl Default for Stored {
    fn default() -> Self {
        let error = "The list of the store's hosts could not be read yet: the store is busy.".to_owned();
        Self { read: None, hosts: Arc::default(), error }
    }
}

impl FleetFeed {
    pub(crate) fn new(live: Arc<dyn Live>, epoch: i64, past: Arc<PastQueries>) -> Self {
        let (board, last, stored) = (FleetBoard::default(), Mutex::default(), tokio::sync::Mutex::default());
        Self { live, epoch, board, last, past, stored }
    }

    pub(crate) async fn answer(&self, query: &FleetQuery) -> Fleet {
        let stored = self.stored().await;
        let number = self.last.lock().unwrap_or_else(PoisonError::into_inner).number;
        let fleet = self.board.hosts(&*self.live, &stored.hosts, query);
        let shown = query.page.of(&fleet.hosts).map(|host| &host.status);
        let spark = Some(sparks(&*self.live, shown));
        Fleet { base: self.base(&fleet, query, number, stored.error), skipped: 0, spark }
    }

    /// The hosts as they were at a moment, ns since the UNIX epoch.
    pub(crate) async fn at(self: &Arc<Self>, at_ns: i64, query: FleetQuery) -> Result<Fleet, Problem> {
        let (stored, feed) = (self.stored().await, Arc::clone(self));
        let answer = self.past.ask(move |past| {
            let fleet = FleetBoard::at(&*feed.live, &stored.hosts, at_ns, &query, &|| past.is_cancelled());
            let base = fleet.map(|fleet| feed.base(&fleet, &query, 0, stored.error));
            Ok(base.map(|base| Fleet { base, skipped: 0, spark: None }))
        });
        answer.await?.map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error))
    }

    pub(crate) async fn span(&self, query: SpanQuery) -> Result<FleetHistory, Problem> {
        let range = query.range.time();
        let span = self.past.ask(move |past| fleet::span(past, &query)).await?;
        let FleetSpan { times, total, hosts } = span;
        let table = Table::of(span_fields(), &hosts, total);
        let (busy_ratio, peak_ratio) =
            hosts.into_iter().map(|host| (rounded(host.points), rounded(host.peaks))).unzip();
        let (since_ns, until_ns) = (Nanos(range.since_ns), Nanos(range.until_ns));
        Ok(FleetHistory { since_ns, until_ns, times, hosts: table, busy_ratio, peak_ratio })
    }

    /// The requested hosts as a file, all pages; or the 20 busiest processes of each that reports, the busiest of all first.
    pub(crate) async fn file(
        &self,
        query: &FleetQuery,
        is_of_busiest: bool,
        format: Format,
    ) -> Result<Vec<u8>, Problem> {
        let stored = self.stored().await;
        if !is_of_busiest && !stored.error.is_empty() {
            // A file has no place for it: without these hosts it would seem complete.
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, stored.error));
        }
        let fleet = self.board.hosts(&*self.live, &stored.hosts, query);
        let mut file = Vec::new();
        if is_of_busiest {
            cpumon_export::rows(format, &top_fields(), top(&fleet.hosts), &mut file)?;
        } else {
            let fields: Vec<_> = host_fields().into_iter().chain(moment_fields()).collect();
            cpumon_export::rows(format, &fields, &fleet.hosts, &mut file)?;
        }
        Ok(file)
    }

    /// The hosts of the store, as they were half a minute ago at most, or as long as the store is too busy.
    async fn stored(&self) -> Stored {
        let mut stored = self.stored.lock().await;
        let is_new_for = if stored.error.is_empty() { STORED_FOR } else { STORED_RETRY };
        if stored.read.is_none_or(|read| read.elapsed() >= is_new_for) {
            let asked = Some(Instant::now());
            // A request that is dropped meanwhile has read nothing.
            match timeout(STORED_WAIT, self.past.ask(History::stored)).await {
                Ok(Ok(hosts)) => {
                    (stored.read, stored.hosts) = (asked, hosts.into());
                    stored.error.clear();
                }
                Ok(Err(problem)) => (stored.read, stored.error) = (None, problem.detail),
                Err(_) => stored.read = asked,
            }
        }
        stored.clone()
    }

    /// `stored_error`: why hosts of the store may be missing.
    fn base(&self, fleet: &fleet::Fleet, query: &FleetQuery, number: u64, stored_error: String) -> FleetBase {
        let page: Vec<_> = query.page.of(&fleet.hosts).collect();
        let all = top(&fleet.hosts);
        let busiest = &all[..all.len().min(TOP)];
        let fields = host_fields().into_iter().chain(age_fields());
        FleetBase {
            now_ns: Nanos(fleet.now_ns),
            number,
            receiver: ReceiverHealth { stored_error, ..ReceiverHealth::from(self.live.status()) },
            limits: Limits::default(),
            hosts: Table::of(fields, &page, fleet.hosts.len()),
            top: Table::of(top_fields(), busiest, all.len()),
        }
    }

    /// The newest message as an open object, made if the last one is older than [`STEP`].
    async fn current(&self) -> (u64, Bytes) {
        let stored = self.stored().await;
        // Held while encoding: readers that come meanwhile get this message instead of making their own.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers come a little early or late: data that is nearly a step old counts as old.
        let is_old = last.made.is_none_or(|made| made.elapsed() >= STEP.mul_f32(0.9));
        if is_old {
            last.number += 1;
            last.made = Some(Instant::now());
            let query = FleetQuery::all();
            let fleet = self.board.hosts(&*self.live, &stored.hosts, &query);
            last.body = open(&body_of(&self.base(&fleet, &query, last.number, stored.error)));
        }
        (last.number, last.body.clone())
    }
}

/// Values of the page's pictures: a ten-thousandth is less than a pixel.
fn rounded(values: Vec<Option<f64>>) -> Vec<Option<f64>> {
    values.into_iter().map(|value| value.map(|value| (value * 1e4).round() / 1e4)).collect()
}

pub(crate) struct FleetReader {
    feed: Arc<FleetFeed>,
    last: Option<u64>,
    is_first: bool,
    next: Instant,
}

impl FleetReader {
    /// `last_id`: the id of the last message it got, on an earlier connection.
    pub(crate) fn new(feed: Arc<FleetFeed>, last_id: Option<&str>) -> Self {
        let last = last_id.and_then(|id| number_of(id, feed.epoch));
        Self { feed, last, is_first: true, next: Instant::now() }
    }

    fn message(&mut self, number: u64, body: Bytes) -> VecDeque<Bytes> {
        let feed = &*self.feed;
        let skipped = self.last.map_or(0, |last| number.saturating_sub(last.saturating_add(1)));
        let mut pieces = VecDeque::from([head("fleet", feed.epoch, number), body]);
        if std::mem::take(&mut self.is_first) {
            let spark = sparks(&*feed.live, &feed.live.hosts());
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
            let (number, body) = self.feed.current().await;
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

type HostField = Field<'static, FleetHost>;

/// Counts of this receiver's run say nothing of a host that did not report in it.
fn reported(host: &FleetHost) -> Option<&HostStatus> {
    (host.state != HostState::Stored).then_some(&host.status)
}

fn ledger(host: &FleetHost) -> Option<&Ledger> {
    host.glance.as_ref().map(|glance| &glance.ledger).filter(|ledger| ledger.capacity_ns != 0)
}

fn host_fields() -> Vec<HostField> {
    let text = |name, get: fn(&HostStatus) -> &str| {
        Field::text(name, move |host: &FleetHost| Some(get(&host.status).into()))
    };
    let some = |number: u64| Some(number).filter(|number| *number != 0);
    let count = |name, get: fn(&HostStatus) -> Option<u64>| {
        Field::count(name, move |host: &FleetHost| get(reported(host)?))
    };
    let int = |name, get: fn(&HostStatus) -> Option<i64>| {
        Field::int(name, move |host: &FleetHost| get(reported(host)?))
    };
    let ratio = |name, get: fn(&Glance) -> Option<f64>| {
        Field::real(name, move |host: &FleetHost| get(host.glance.as_deref()?))
    };
    let booked =
        |name, get: fn(&Ledger) -> i64| Field::int(name, move |host: &FleetHost| ledger(host).map(get));
    let minute = |name, get: fn(&Minute) -> u64| {
        Field::count(name, move |host: &FleetHost| Some(get(&host.glance.as_ref()?.minute)))
    };
    vec![
        Field::text("id", |host: &FleetHost| Some(host.status.info.host.to_string().into())),
        text("hostname", |host| &host.info.hostname),
        text("trust", |host| host.trust.name()),
        Field::text("source", |host: &FleetHost| Some(reported(host)?.source.name().into())),
        text("address", |host| &host.address),
        text("agent", |host| &host.info.agent),
        text("kernel", |host| &host.info.kernel),
        text("arch", |host| &host.info.arch),
        Field::count("cpu_count", move |host: &FleetHost| some(host.status.info.cpu_count.into())),
        Field::count("interval_ns", move |host: &FleetHost| some(host.status.info.interval_ns)),
        Field::text("state", |host: &FleetHost| Some(host.state.name().into())),
        Field::text("health", |host: &FleetHost| Some(host.health().into())),
        int("clock_offset_ns", |host| Some(host.clock_offset_ns())),
        count("clock_round_trip_ns", |host| Some(host.clock?.round_trip_ns)),
        int("clock_drift_ppb", |host| host.clock?.drift_ppb),
        count("threads", |host| Some(host.thread_count.into())),
        count("processes", |host| Some(host.process_count.into())),
        count("lost", |host| Some(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial))),
        count("rejected", |host| Some(host.loss.rejected)),
        count("store_dropped", |host| Some(host.loss.store_dropped)),
        ratio("busy_ratio", |glance| glance.busy_ratio),
        ratio("minute_busy_ratio", |glance| glance.minute.busy_ratio),
        ratio("minute_peak_ratio", |glance| glance.minute.peak_ratio),
        ratio("minute_ready", |glance| glance.minute.ready_mean),
        ratio("minute_run_queue_per_cpu", |glance| glance.minute.run_queue_per_cpu),
        ratio("minute_unattributed_ratio", |glance| glance.minute.unattributed_ratio),
        minute("minute_intervals", |minute| minute.intervals.into()),
        minute("minute_incomplete", |minute| minute.incomplete.into()),
        Field::text("top_key", |host: &FleetHost| {
            Some(TaskKey::Process(host.glance.as_ref()?.top.first()?.key).to_string().into())
        }),
        Field::text("top_name", |host: &FleetHost| Some((&*host.glance.as_ref()?.top.first()?.name).into())),
        ratio("top_cpu_pct", |glance| glance.top.first()?.cpu_pct),
        ratio("top_host_pct", |glance| glance.top.first()?.host_pct),
        booked("capacity_ns", |ledger| ledger.capacity_ns),
        booked("unattributed_ns", Ledger::unattributed_ns),
        Field::real("unattributed_ratio", |host: &FleetHost| ledger(host).map(Ledger::unattributed_ratio)),
        booked("ledger_closed", |ledger| i64::from(ledger.unattributed_ratio().abs() <= BALANCED_RATIO)),
        Field::text("flags", |host: &FleetHost| Some((&*host.glance.as_ref()?.flags).into())),
    ]
}

/// Behind them in the page's table: ages, which are newer in each message.
fn age_fields() -> [HostField; 2] {
    [
        Field::int("age_ns", |host: &FleetHost| host.age_ns),
        Field::real("end_ms", |host: &FleetHost| to_ms(host.status.last.wall_ns)),
    ]
}

/// And in a file: moments, so that it says the same whenever it is read. A host that never sent an interval has none.
fn moment_fields() -> [HostField; 4] {
    let end = |host: &FleetHost| Some(host.status.last.wall_ns).filter(|ns| *ns != 0);
    let received = |host: &FleetHost| Some(host.status.received_wall_ns).filter(|ns| *ns != 0);
    [
        Field::text("end_utc", move |host: &FleetHost| Some(Utc(end(host)?).to_string().into())),
        Field::int("end_ns", end),
        Field::text("received_utc", move |host: &FleetHost| Some(Utc(received(host)?).to_string().into())),
        Field::int("received_ns", received),
    ]
}

fn span_fields() -> [Field<'static, SpanHost>; 8] {
    [
        Field::text("id", |host: &SpanHost| Some(host.status.info.host.to_string().into())),
        Field::text("hostname", |host: &SpanHost| Some((&*host.status.info.hostname).into())),
        Field::text("trust", |host: &SpanHost| Some(host.status.trust.name().into())),
        Field::int("covered_ns", |host: &SpanHost| host.covered_ns),
        Field::real("busy_ratio", |host: &SpanHost| host.busy_ratio),
        Field::real("peak_ratio", |host: &SpanHost| host.peak_ratio),
        Field::real("peak_ms", |host: &SpanHost| host.peak_ns.map(to_ms)),
        Field::real("run_queue_per_cpu", |host: &SpanHost| host.run_queue_per_cpu),
    ]
}

fn top_fields<'t>() -> [Field<'static, TopProcess<'t>>; 8] {
    type Top<'t> = TopProcess<'t>;
    [
        Field::text("host_id", |top: &Top<'t>| Some(top.host.info.host.to_string().into())),
        Field::text("hostname", |top: &Top<'t>| Some((&*top.host.info.hostname).into())),
        Field::text("key", |top: &Top<'t>| Some(TaskKey::Process(top.busy.key).to_string().into())),
        Field::text("name", |top: &Top<'t>| Some((&*top.busy.name).into())),
        Field::text("container", |top: &Top<'t>| Some((&*top.busy.container).into())),
        Field::real("cpu_pct", |top: &Top<'t>| top.busy.cpu_pct),
        Field::real("host_pct", |top: &Top<'t>| top.busy.host_pct),
        Field::int("run_ns", |top: &Top<'t>| top.busy.run_ns),
    ]
}

#[cfg(test)]
mod tests {
    use cpumon_query::ReaderPool;
    use cpumon_store::{StoreOptions, Writer};

    use super::*;
    use crate::routes::fake;

    /// It seemed to have no host.
    #[tokio::test(start_paused = true)]
    async fn a_store_whose_hosts_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.db");
        let pool = ReaderPool::new(Some(store.clone()));
        let past = Arc::new(PastQueries::new(fake(), pool));
        let feed = FleetFeed::new(fake(), 0, past);
        let all = FleetQuery::all();
        let name = store.display().to_string();
        let error = feed.answer(&all).await.base.receiver.stored_error;
        assert!(error.contains(&name), "{error}");
        let message = feed.current().await.1;
        assert!(String::from_utf8_lossy(&message).contains(&name), "{message:?}");
        let file = feed.file(&all, false, Format::Csv).await.unwrap_err();
        assert_eq!((file.status, file.detail), (StatusCode::SERVICE_UNAVAILABLE, error));
        assert!(feed.file(&all, true, Format::Csv).await.is_ok(), "only hosts that report have processes");
        drop(Writer::open(&store, &StoreOptions::default()).unwrap());
        assert_eq!(feed.answer(&all).await.base.receiver.stored_error, "");
        assert!(feed.file(&all, false, Format::Csv).await.is_ok());
    }

    /// The file had no host of the store, and the list was empty for half a minute, without a word.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_busy_from_the_start_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.db");
        drop(Writer::open(&store, &StoreOptions::default()).unwrap());
        let pool = ReaderPool::new(Some(store));
        let turns = Arc::clone(&pool.turns);
        let feed = FleetFeed::new(fake(), 0, Arc::new(PastQueries::new(fake(), pool)));
        let all = FleetQuery::all();
        let every_turn = u32::try_from(turns.available_permits()).unwrap();
        let held = turns.acquire_many(every_turn).await.unwrap();
        let error = feed.answer(&all).await.base.receiver.stored_error;
        assert!(error.contains("the store is busy"), "{error}");
        let file = feed.file(&all, false, Format::Csv).await.unwrap_err();
        assert_eq!((file.status, file.detail), (StatusCode::SERVICE_UNAVAILABLE, error));
        drop(held);
        sleep(STORED_RETRY).await;
        assert_eq!(feed.answer(&all).await.base.receiver.stored_error, "");
        // A known list stays as it is for as long as the store is busy.
        let _held = turns.acquire_many(every_turn).await.unwrap();
        sleep(STORED_FOR).await;
        assert!(feed.file(&all, false, Format::Csv).await.is_ok());
    }
}
