//! What the thread of an uplink and its handle share: options, counts ([`UplinkStatus`]), what one of the two asks of the other
//! ([`SharedUplink`]), and the comparison of a device's clocks with its receiver's, by pings and their answers ([`Comparing`]).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_wire::connection::{BootReport, ClockReport, Message};

use crate::Target;
use crate::attachments::TraceRequests;
use crate::backlog::{Backlog, BacklogCounts};
use crate::tls::DeviceIdentity;

#[derive(Clone, Debug)]
pub struct Receiver {
    /// `host:port`.
    pub address: String,
    pub identity: DeviceIdentity,
}

impl From<DeviceIdentity> for Receiver {
    /// Uses the address that the receiver had when it enrolled this device.
    fn from(identity: DeviceIdentity) -> Self {
        Self { address: identity.address.clone(), identity }
    }
}

#[derive(Clone, Debug)]
pub struct UplinkOptions {
    /// In the order in which to try them.
    pub receivers: Vec<Receiver>,
    /// Host id of this machine.
    pub host: [u8; 16],
    /// Name and version of the program.
    pub agent: String,
    /// Boot id of this machine.
    pub boot: [u8; 16],
    /// This machine's clocks at one moment: the wall clock, ns since the UNIX epoch, and the time since boot, as in its snapshots, ns.
    pub clocks: fn() -> (i64, u64),
    /// Addresses and groups to ask when no receiver answers at its address ([`groups`](crate::discovery::groups)); empty: do not ask.
    pub ask: Vec<Target>,
    /// Files to send beside the snapshots, if any are written.
    pub attachments: Option<AttachmentOptions>,
}

/// Where files wait to be sent, and who writes them.
#[derive(Clone, Debug)]
pub struct AttachmentOptions {
    /// Directory of the files ([`attachments`](crate::attachments)).
    pub dir: PathBuf,
    /// Says when there is a new one, and takes requests for one.
    pub requests: Arc<TraceRequests>,
}

/// How an uplink is doing. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UplinkStatus {
    /// Address of the receiver that is connected now.
    pub connected_to: Option<String>,
    pub connections: u64,
    /// Attempts that failed, and connections that broke.
    pub failures: u64,
    pub last_error: String,
    /// Records that were sent, those sent again included.
    pub records: u64,
    /// Bytes on the wire, with what TLS adds and without TCP.
    pub wire_bytes: u64,
    pub backlog: BacklogCounts,
    /// Records of the past are being sent beside live ones.
    pub is_backfilling: bool,
    /// Files that a receiver has stored ([`attachments`](crate::attachments)).
    pub attachments_stored: u64,
    pub attachments_refused: u64,
    /// Searches of the subnet for a receiver that did not answer where it should be.
    pub searches: u64,
    /// Answers to searches that no well-behaved receiver sends.
    pub ignored_answers: u64,
}

/// What the thread of an uplink and its handle share.
pub(super) struct SharedUplink {
    pub(super) backlog: Mutex<Box<dyn Backlog>>,
    pub(super) status: Mutex<UplinkStatus>,
    pub(super) full_wanted: AtomicBool,
    pub(super) last_full: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl SharedUplink {
    pub(super) fn new(backlog: Box<dyn Backlog>) -> Self {
        Self {
            backlog: Mutex::new(backlog),
            status: Mutex::default(),
            full_wanted: AtomicBool::new(false),
            last_full: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn backlog(&self) -> MutexGuard<'_, Box<dyn Backlog>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> MutexGuard<'_, UplinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Silence after which the receiver is asked whether it is there.
pub(super) const PING_AFTER: Duration = Duration::from_secs(5);
/// Time from one comparison of the clocks to the next.
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// The same for the first few comparisons, so that something is known soon.
const COMPARE_FIRST: Duration = Duration::from_millis(100);
const FIRST_COMPARISONS: u32 = 4;
/// Longest wait of records for the first report of a comparison, so that the receiver knows where on its time line they belong.
const FIRST_REPORT_WITHIN: Duration = Duration::from_millis(500);

/// Compares this device's clocks with the receiver's over one connection.
pub(super) struct Comparing {
    clocks: fn() -> (i64, u64),
    boot: [u8; 16],
    begun: Instant,
    /// The last question: its token, and when it went, by both clocks.
    asked: Option<(u64, (i64, u64), Instant)>,
    pub(super) next: Instant,
    count: u32,
    report: Option<ClockReport>,
    /// A comparison was reported, or none can be expected.
    is_reported: bool,
}

impl Comparing {
    pub(super) fn new(clocks: fn() -> (i64, u64), boot: [u8; 16]) -> Self {
        let begun = Instant::now();
        Self { clocks, boot, begun, asked: None, next: begun, count: 0, report: None, is_reported: false }
    }

    /// Whether the receiver knows this machine's clocks, or records have waited for it long enough.
    pub(super) fn has_reported(&mut self) -> bool {
        self.is_reported |= self.begun.elapsed() >= FIRST_REPORT_WITHIN;
        self.is_reported
    }

    /// Sends a ping if one is due. It reports the result of the one before.
    pub(super) fn ask(&mut self, silence: Duration, out: &mut Vec<u8>) {
        let now = Instant::now();
        let last = self.asked.map(|asked| asked.2);
        let is_silent = silence >= PING_AFTER && last.is_none_or(|last| last.elapsed() >= PING_AFTER);
        if now < self.next && !is_silent {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.next = now + if self.count < FIRST_COMPARISONS { COMPARE_FIRST } else { COMPARE_EVERY };
        let token = u64::from(self.count);
        self.is_reported |= self.report.is_some();
        Message::Ping { token, clock: self.report.take() }.push(out);
        self.asked = Some((token, (self.clocks)(), Instant::now()));
    }

    /// The answer came: the receiver's clock when it got the question and when it answered; older receivers do not report it.
    pub(super) fn answered(&mut self, token: u64, times: Option<(i64, i64)>) {
        // A late answer to an earlier question would be compared with the wrong moment.
        let Some((_, (wall_ns, boot_ns), asked)) = self.asked.filter(|asked| asked.0 == token) else {
            return;
        };
        let Some((received_ns, sent_ns)) = times else {
            // No comparison will ever come from such a receiver, so records need not wait.
            self.is_reported = true;
            return;
        };
        // Measured by the monotonic clock: the wall clock may have been set since.
        let passed_ns = i64::try_from(asked.elapsed().as_nanos()).unwrap_or(i64::MAX);
        // Clamped, because the receiver's wall clock may have been set between its two stamps.
        let there_ns = sent_ns.saturating_sub(received_ns).clamp(0, passed_ns);
        let boot_ns = i64::try_from(boot_ns).unwrap_or(i64::MAX);
        self.report = Some(ClockReport {
            offset_ns: offset_ns(wall_ns, passed_ns, received_ns, sent_ns),
            round_trip_ns: passed_ns.saturating_sub(there_ns).unsigned_abs(),
            boot: Some(BootReport {
                boot: self.boot,
                offset_ns: offset_ns(boot_ns, passed_ns, received_ns, sent_ns),
            }),
        });
        // The report goes with the next ping, and records wait for it: so that one goes at once.
        if !self.is_reported {
            self.next = Instant::now();
        }
    }
}

/// A clock that showed `asked_ns` when the ping left, and `passed_ns` more when the answer came, less the receiver's clock, which showed
/// `received_ns` when the ping arrived and `sent_ns` when the answer left.
fn offset_ns(asked_ns: i64, passed_ns: i64, received_ns: i64, sent_ns: i64) -> i64 {
    let forth = i128::from(asked_ns) - i128::from(received_ns);
    let back = i128::from(asked_ns.saturating_add(passed_ns)) - i128::from(sent_ns);
    i64::try_from(i128::midpoint(forth, back)).unwrap_or(i64::MAX)
}
