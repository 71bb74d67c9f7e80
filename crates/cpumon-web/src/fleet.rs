//! All hosts at a glance, as the API gives them. The stream's message is made at most once a second and encoded once for all
//! its readers: ten pages on a fleet of a thousand hosts cost as much as one.

mod columns;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use cpumon_export::{ExportError, Format};
use cpumon_query::Live;
use cpumon_query::fleet::{self, FleetBoard, FleetQuery, SPARK_STEP_NS, SparkLine, sparks};
use tokio::time::{Instant, sleep, sleep_until};

use columns::{host_table, top_table};

use crate::api::{Fleet, FleetBase, Limits, Nanos, Spark};
use crate::stream::{HEARTBEAT, Messages, body_of, close, head, heartbeat, number_of, open};

/// Time between two fleet snapshots.
const STEP: Duration = Duration::from_secs(1);

/// The message that all readers share until the next one is made.
#[derive(Default)]
struct Encoded {
    number: u64,
    made: Option<Instant>,
    body: Bytes,
}

/// What a file of the fleet lists.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOf {
    Hosts,
    /// The 20 busiest processes of each host that reports, the busiest of all first.
    Busiest,
}

/// All hosts, as answers, files and messages of the stream.
#[derive(Clone)]
pub(crate) struct FleetFeed(Arc<Feed>);

struct Feed {
    live: Arc<dyn Live>,
    /// When the receiver started: ids of messages from before are of no use now.
    epoch: i64,
    board: FleetBoard,
    last: Mutex<Encoded>,
}

impl FleetFeed {
    pub(crate) fn new(live: Arc<dyn Live>, epoch: i64) -> Self {
        Self(Arc::new(Feed { live, epoch, board: FleetBoard::default(), last: Mutex::default() }))
    }

    /// The hosts that are asked for, now.
    pub(crate) fn answer(&self, query: &FleetQuery) -> Fleet {
        let feed = &*self.0;
        let number = feed.last.lock().unwrap_or_else(PoisonError::into_inner).number;
        let fleet = feed.board.hosts(&*feed.live, query);
        let shown = query.page.of(&fleet.hosts).map(|host| &host.status);
        let spark = Some(spark(sparks(&*feed.live, shown)));
        Fleet { base: feed.base(&fleet, query, number), skipped: 0, spark }
    }

    /// The hosts that are asked for as a file, all pages of them; or their busiest processes.
    pub(crate) fn file(
        &self,
        query: &FleetQuery,
        of: FileOf,
        format: Format,
    ) -> Result<Vec<u8>, ExportError> {
        let fleet = self.0.board.hosts(&*self.0.live, query);
        let columns = match of {
            FileOf::Hosts => columns::file_columns(&fleet.hosts),
            FileOf::Busiest => columns::top_columns(&fleet::top(&fleet.hosts)),
        };
        columns::write(&columns, format)
    }
}

impl Feed {
    fn base(&self, fleet: &fleet::Fleet, query: &FleetQuery, number: u64) -> FleetBase {
        let page: Vec<_> = query.page.of(&fleet.hosts).collect();
        FleetBase {
            now_ns: Nanos(fleet.now_ns),
            number,
            receiver: self.live.status().into(),
            limits: Limits::default(),
            hosts: host_table(&page, fleet.hosts.len()),
            top: top_table(&fleet.hosts),
        }
    }

    /// The newest message as an open object, made if the last one is older than [`STEP`].
    fn current(&self) -> (u64, Bytes) {
        // Held while encoding: readers that come meanwhile get this message instead of making their own.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers come a little early or late: what is nearly a step old is old.
        let is_old = last.made.is_none_or(|made| made.elapsed() >= STEP.mul_f32(0.9));
        if is_old {
            last.number += 1;
            last.made = Some(Instant::now());
            let query = FleetQuery::all();
            let fleet = self.board.hosts(&*self.live, &query);
            last.body = open(&body_of(&self.base(&fleet, &query, last.number)));
        }
        (last.number, last.body.clone())
    }
}

fn spark(lines: Vec<SparkLine>) -> Spark {
    let host_ids = lines.iter().map(|line| line.host.to_string()).collect();
    let busy_ratio = lines.into_iter().map(|line| line.busy_ratio).collect();
    Spark { step_ns: SPARK_STEP_NS.unsigned_abs(), host_ids, busy_ratio }
}

/// One reader of the fleet's stream.
pub(crate) struct FleetReader {
    feed: FleetFeed,
    last: Option<u64>,
    is_first: bool,
    next: Instant,
}

impl FleetReader {
    /// `last_id`: the id of the last message it got, on an earlier connection.
    pub(crate) fn new(feed: FleetFeed, last_id: Option<&str>) -> Self {
        let last = last_id.and_then(|id| number_of(id, feed.0.epoch));
        Self { feed, last, is_first: true, next: Instant::now() }
    }

    fn message(&mut self, number: u64, body: Bytes) -> VecDeque<Bytes> {
        let feed = &*self.feed.0;
        let skipped = self.last.map_or(0, |last| number.saturating_sub(last.saturating_add(1)));
        let mut pieces = VecDeque::from([head("fleet", feed.epoch, number), body]);
        if std::mem::take(&mut self.is_first) {
            let spark = spark(sparks(&*feed.live, &feed.live.hosts()));
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
            let (number, body) = self.feed.0.current();
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
