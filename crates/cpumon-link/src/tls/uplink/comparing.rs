//! [`Comparing`]: compares a device's clocks with its receiver's, by pings and their answers.

use std::time::{Duration, Instant};

use cpumon_wire::connection::{BootReport, ClockReport, Message};

/// After so much silence the receiver is asked whether it is there,
pub(super) const PING_AFTER: Duration = Duration::from_secs(5);
/// The clocks are compared this often,
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// and quicker for the first few times, so that something is known soon.
const COMPARE_FIRST: Duration = Duration::from_millis(100);
const FIRST_COMPARISONS: u32 = 4;
/// Records wait so long for the first comparison to be reported, so that the receiver knows where on its time line they belong.
const FIRST_REPORT_WITHIN: Duration = Duration::from_millis(500);

/// The comparison of the clocks over one connection.
pub(super) struct Comparing {
    clocks: fn() -> (i64, u64),
    boot: [u8; 16],
    begun: Instant,
    /// The last question: its token, and when it went, by both clocks.
    asked: Option<(u64, (i64, u64), Instant)>,
    pub(super) next: Instant,
    /// Questions so far.
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
        let Some(times) = times else {
            // No comparison will ever come from such a receiver, so records need not wait.
            self.is_reported = true;
            return;
        };
        // Measured by the monotonic clock: the wall clock may have been set since.
        let passed_ns = i64::try_from(asked.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let times = ReceiverTimes { received_ns: times.0, sent_ns: times.1 };
        // Clamped, because the receiver's wall clock may have been set between its two stamps.
        let there_ns = times.sent_ns.saturating_sub(times.received_ns).clamp(0, passed_ns);
        let boot_ns = i64::try_from(boot_ns).unwrap_or(i64::MAX);
        self.report = Some(ClockReport {
            offset_ns: offset_ns(wall_ns, passed_ns, times),
            round_trip_ns: passed_ns.saturating_sub(there_ns).unsigned_abs(),
            boot: Some(BootReport { boot: self.boot, offset_ns: offset_ns(boot_ns, passed_ns, times) }),
        });
        // The report goes with the next ping, and records wait for it: so that one goes at once.
        if !self.is_reported {
            self.next = Instant::now();
        }
    }
}

/// The receiver's clock when a ping arrived and when its answer left.
#[derive(Copy, Clone)]
struct ReceiverTimes {
    received_ns: i64,
    sent_ns: i64,
}

/// A clock that stood at `asked_ns` when the question went, and `passed_ns` later when the answer came, less the receiver's.
fn offset_ns(asked_ns: i64, passed_ns: i64, there: ReceiverTimes) -> i64 {
    let forth = i128::from(asked_ns) - i128::from(there.received_ns);
    let back = i128::from(asked_ns.saturating_add(passed_ns)) - i128::from(there.sent_ns);
    i64::try_from(i128::midpoint(forth, back)).unwrap_or(i64::MAX)
}
