//! [`TimeLines`]: where intervals stand on the receiver's time line. In: intervals as devices stamped them, and what is known of
//! their clocks. Out: the same, moved where a clock is wrong. Why here: what is shown and what is stored must stand at one time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cpumon_model::{
    Arrivals, BootId, ClockEstimate, ClockLine, HostId, HostStatus, Interval, SourceKind, Trust,
};

/// Boots that are remembered; the one that was silent longest gives way.
const MAX_BOOTS: usize = 8_192;

/// The clock line of each boot that sent something lately.
#[derive(Debug, Default)]
pub struct TimeLines(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    boots: HashMap<(HostId, BootId), Boot>,
    count: u64,
}

#[derive(Debug, Default)]
struct Boot {
    line: ClockLine,
    /// Its line goes on from what was kept.
    is_recalled: bool,
    arrivals: Arrivals,
    /// How far its newest interval was moved, ns.
    shift_ns: i64,
    used: u64,
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
        let mut lines = if is_encrypted { self.recalled(interval, recall) } else { self.lines() };
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
        let key = (interval.host, interval.boot);
        let is_recalled = |lines: &Lines| lines.boots.get(&key).is_some_and(|boot| boot.is_recalled);
        let lines = self.lines();
        if is_recalled(&lines) {
            return lines;
        }
        // Without the lock: it reads the disk.
        drop(lines);
        let line = recall();
        let mut lines = self.lines();
        // Another thread may have recalled it meanwhile and placed intervals since: then its line is the
        // newer one.
        if !is_recalled(&lines) {
            let boot = lines.boot(interval);
            (boot.line, boot.is_recalled) = (line, true);
        }
        lines
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the last interval of a host was moved, ns; `None`: it is not known here.
    pub fn shift_ns(&self, host: HostId) -> Option<i64> {
        let lines = self.lines();
        let of_host = lines.boots.iter().filter(|(key, _)| key.0 == host);
        // A host may have several boots here. The hole is beside the intervals that came last.
        of_host.max_by_key(|(_, boot)| boot.used).map(|(_, boot)| boot.shift_ns)
    }
}

impl Lines {
    fn boot(&mut self, interval: &Interval) -> &mut Boot {
        let key = (interval.host, interval.boot);
        if self.boots.len() >= MAX_BOOTS && !self.boots.contains_key(&key) {
            let silent = self.boots.iter().min_by_key(|(_, boot)| boot.used);
            if let Some(key) = silent.map(|(key, _)| *key) {
                self.boots.remove(&key);
            }
        }
        self.count += 1;
        let boot = self.boots.entry(key).or_default();
        boot.used = self.count;
        boot
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{ClockPiece, Moment};

    use super::*;

    #[test]
    fn boots_are_bounded_and_the_silent_one_gives_way() {
        let lines = TimeLines::default();
        let status = HostStatus { received_wall_ns: 1_000_000_000_000, ..HostStatus::default() };
        for number in 0..MAX_BOOTS as u64 + 5 {
            let mut boot = [0; 16];
            boot[..8].copy_from_slice(&number.to_le_bytes());
            let end = Moment { boot_ns: 1, ..Moment::default() };
            let mut one = Interval { boot: BootId(boot), end, ..Interval::default() };
            lines.place_received(&status, &mut one, || panic!("it is not encrypted"));
            assert_eq!(one.end.wall_ns, 1_000_000_000_000, "its clock is in 1970");
            assert_eq!(one.wall_shift_ns, -1_000_000_000_000);
        }
        assert_eq!(lines.0.lock().unwrap().boots.len(), MAX_BOOTS);
        assert_eq!(lines.shift_ns(HostId::default()), Some(-1_000_000_000_000));
        assert_eq!(lines.shift_ns(HostId([1; 16])), None);
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
