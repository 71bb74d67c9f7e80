//! [`TimeLines`] places intervals on the receiver's time line. In: intervals as devices stamped them, and estimates of their clocks'
//! errors. Out: the same intervals, moved where a clock is wrong. Why here: frontends and store must have an interval at one time.

use std::sync::{Mutex, MutexGuard};

use cpumon_model::{
    Arrivals, BootId, ClockEstimate, ClockLine, HostId, HostStatus, Interval, Recent, SourceKind, Trust,
};

use crate::lock;

/// Hosts that are remembered, of those whose lines are stored and of the others: these push each other out, and none of the first.
const MAX_HOSTS: usize = 4_096;
/// Boots of a host whose lines are stored; the one that was silent longest gives way. A device sends of more than one boot while
/// it catches up.
const MAX_BOOTS: usize = 8;
/// Boots of any other host: its last, and one with datagrams still on the way.
const MAX_BOOTS_OF_STRANGER: usize = 2;

/// The clock line of each boot that sent something lately.
#[derive(Debug)]
pub struct TimeLines {
    /// Lines of enrolled devices, and of hosts that encrypt.
    stored: Mutex<Lines>,
    /// Lines of all other senders, who choose how many hosts and boots they are.
    strangers: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    /// The boots of each host, the one that sent last in front.
    hosts: Recent<HostId, Vec<Boot>>,
    max_boots: usize,
}

#[derive(Debug)]
struct Boot {
    id: BootId,
    line: ClockLine,
    /// The stored line was read, if there is one.
    is_recalled: bool,
    arrivals: Arrivals,
    /// How far its newest interval was moved, ns.
    shift_ns: i64,
}

impl TimeLines {
    /// Places an interval that came by datagram: its arrival shows how far its clock is off. `recall`: as below, for a host
    /// that encrypts.
    pub fn place_received(
        &self,
        status: &HostStatus,
        interval: &mut Interval,
        recall: impl FnOnce() -> ClockLine,
    ) {
        // v1 intervals stand on the receiver's clock already.
        if interval.source == SourceKind::V1 {
            return;
        }
        // A datagram that is not encrypted may be made up: it causes no read of the disk, and where it was placed is not stored.
        let is_encrypted = status.trust == Trust::Encrypted;
        let mut lines = if is_encrypted { self.recalled(interval, recall) } else { lock(&self.strangers) };
        let boot = lines.boot(interval);
        // A datagram that is late, or a recording that is sent again, says nothing about the clock now.
        let estimate = boot
            .line
            .is_newest(&interval.end)
            .then(|| boot.arrivals.take(status.received_wall_ns, status.info.interval_ns, &interval.end));
        boot.line.place(interval, estimate);
        boot.shift_ns = interval.wall_shift_ns;
        if !is_encrypted {
            interval.clock_piece = None;
        }
    }

    /// Places an interval of a device that compares clocks. `recall`: its line as it was kept, asked once a boot.
    pub fn place_compared(
        &self,
        interval: &mut Interval,
        estimate: Option<ClockEstimate>,
        recall: impl FnOnce() -> ClockLine,
    ) {
        let mut lines = self.recalled(interval, recall);
        let boot = lines.boot(interval);
        boot.line.place(interval, estimate);
        boot.shift_ns = interval.wall_shift_ns;
    }

    /// The lines, with that of an interval's boot as it was kept.
    fn recalled(&self, interval: &Interval, recall: impl FnOnce() -> ClockLine) -> MutexGuard<'_, Lines> {
        let mut lines = lock(&self.stored);
        if lines.boot(interval).is_recalled {
            return lines;
        }
        // Without the lock: it reads the disk.
        drop(lines);
        let line = recall();
        let mut lines = lock(&self.stored);
        let boot = lines.boot(interval);
        // Another thread may have recalled it meanwhile and placed intervals since: then its line is the
        // newer one.
        if !boot.is_recalled {
            (boot.line, boot.is_recalled) = (line, true);
        }
        lines
    }

    /// How far the last interval of an enrolled host was moved, ns; `None`: it is not known here.
    pub fn shift_ns(&self, host: HostId) -> Option<i64> {
        let lines = lock(&self.stored);
        // A host may have several boots here. The hole is beside the intervals that came last.
        lines.hosts.peek(&host)?.first().map(|boot| boot.shift_ns)
    }
}

impl Default for TimeLines {
    fn default() -> Self {
        Self {
            stored: Mutex::new(Lines::new(MAX_BOOTS)),
            strangers: Mutex::new(Lines::new(MAX_BOOTS_OF_STRANGER)),
        }
    }
}

impl Lines {
    fn new(max_boots: usize) -> Self {
        Self { hosts: Recent::new(MAX_HOSTS), max_boots }
    }

    fn boot(&mut self, interval: &Interval) -> &mut Boot {
        let boots = self.hosts.get_or_insert_with(interval.host, Vec::new);
        let id = interval.boot;
        if let Some(at) = boots.iter().position(|boot| boot.id == id) {
            boots[..=at].rotate_right(1);
        } else {
            boots.truncate(self.max_boots.saturating_sub(1));
            let (line, arrivals) = (ClockLine::default(), Arrivals::default());
            boots.insert(0, Boot { id, line, is_recalled: false, arrivals, shift_ns: 0 });
        }
        &mut boots[0]
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{ClockPiece, Moment};

    use super::*;

    fn boot_id(number: u64) -> BootId {
        BootId(u128::from(number).to_le_bytes())
    }

    #[test]
    fn boots_of_a_host_and_hosts_are_bounded() {
        let lines = TimeLines::default();
        let status = HostStatus { received_wall_ns: 1_000_000_000_000, ..HostStatus::default() };
        for number in 0..20_000 {
            let end = Moment { boot_ns: 1, ..Moment::default() };
            let mut one = Interval { boot: boot_id(number), end, ..Interval::default() };
            lines.place_received(&status, &mut one, || panic!("it is not encrypted"));
            assert_eq!(one.end.wall_ns, 1_000_000_000_000, "its clock is in 1970");
            assert_eq!(one.wall_shift_ns, -1_000_000_000_000);
            let host = HostId(u128::from(number).to_le_bytes());
            let mut one = Interval { host, end, ..Interval::default() };
            lines.place_received(&status, &mut one, || panic!("it is not encrypted"));
        }
        let strangers = lock(&lines.strangers);
        assert!(strangers.hosts.len() <= MAX_HOSTS && lock(&lines.stored).hosts.is_empty());
        assert_eq!(strangers.hosts.peek(&HostId::default()).unwrap().len(), MAX_BOOTS_OF_STRANGER);
    }

    #[test]
    fn strangers_push_no_line_of_an_enrolled_device_out() {
        let (lines, status) = (TimeLines::default(), HostStatus::default());
        let mut asked = 0;
        for number in 0..20_000_u64 {
            let host = HostId(u128::from(number).to_le_bytes());
            let mut stranger = Interval { host, boot: boot_id(number), ..Interval::default() };
            lines.place_received(&status, &mut stranger, || panic!("it is not encrypted"));
            if number % 5_000 == 0 {
                // Otherwise each of its intervals would wait for a read of the disk, behind those of all others.
                lines.place_compared(&mut Interval::default(), None, || {
                    asked += 1;
                    ClockLine::default()
                });
            }
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn the_shift_is_that_of_the_boot_that_sent_last() {
        let lines = TimeLines::default();
        let place = |boot, offset_ns| {
            let end = Moment { boot_ns: 1_000, wall_ns: offset_ns, ..Moment::default() };
            let mut one = Interval { boot: boot_id(boot), end, ..Interval::default() };
            let piece = ClockPiece { from_boot_ns: 0, before_ns: 0, anchor_ns: 0, tolerance_ns: 0 };
            lines.place_compared(&mut one, None, || ClockLine::recall(vec![piece], Some(0)));
            one.wall_shift_ns
        };
        assert_eq!(lines.shift_ns(HostId::default()), None);
        for (boot, offset_ns) in [(1, 1_000_000_000_000), (2, 2_000_000_000_000), (1, 1_000_000_000_000)] {
            let shift_ns = place(boot, offset_ns);
            assert_ne!(shift_ns, 0);
            assert_eq!(lines.shift_ns(HostId::default()), Some(shift_ns));
        }
    }

    #[test]
    fn the_same_ids_unencrypted_do_not_hide_what_was_stored() {
        let lines = TimeLines::default();
        let mut status = HostStatus { received_wall_ns: 5_000_000_000_000, ..HostStatus::default() };
        let end = Moment { boot_ns: 7, ..Moment::default() };
        let mut one = Interval { end, ..Interval::default() };
        lines.place_received(&status, &mut one, || panic!("it is not encrypted"));
        let piece = ClockPiece { from_boot_ns: 0, before_ns: 1_000, anchor_ns: 1_000, tolerance_ns: 0 };
        status.trust = Trust::Encrypted;
        let mut one = Interval { end, ..Interval::default() };
        lines.place_received(&status, &mut one, || ClockLine::recall(vec![piece], Some(7)));
        assert_eq!((one.end.wall_ns, one.clock_piece), (1_007, Some(piece)), "where it was, and kept");
    }

    #[test]
    fn a_line_is_recalled_once() {
        let lines = TimeLines::default();
        let mut asked = 0;
        for _ in 0..3 {
            lines.place_compared(&mut Interval::default(), None, || {
                asked += 1;
                ClockLine::default()
            });
        }
        assert_eq!(asked, 1);
    }
}
