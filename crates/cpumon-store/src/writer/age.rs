//! The clock by which old data is deleted. In: this machine's clocks ([`now`]), the times that the store remembers, and those that other
//! devices report. Out: a time that is safe to delete by. Why: a clock that was set wrong (a forged answer of NTP, an empty battery, a
//! restored virtual machine) must not delete a store; nothing brings that back.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cpumon_model::{BootId, Interval, Moment, Trust};
use rusqlite::{Connection, Result as Sql};

use super::receipts::correct;
use crate::rows::{counter, set_counter, signed, value};

/// A clock is doubted where it is this far from the time that is known: a night without the receiver is no reason. All steps of one start
/// together, as long as no witness confirms one: many small steps make as much old as a large one.
const TOLERANCE: Duration = Duration::from_hours(24);
/// Time that a doubted clock must run before it is believed without a witness: a week of reports by log, status and page. One that is
/// behind is not believed then, but ages go on.
const BELIEVED_AFTER: Duration = Duration::from_hours(7 * 24);
/// Time between two writes of the known time into the store.
const SAVE_EVERY: Duration = Duration::from_mins(10);
/// Most difference between the clock of a witness and this machine's.
const WITNESS_WITHIN: Duration = Duration::from_hours(1);
/// Most difference between the starts of a device and of this machine, by their own clocks, if the device runs here with the same clock.
const SAME_START_WITHIN: Duration = Duration::from_secs(10);
/// The boot of this machine (random(4)), which most containers share.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The row of `counter`: the last time that was known, ns since the epoch. Part of the file format.
const NAME: &str = "known wall_ns";

/// The boot of this machine; `None` if it cannot be read.
pub fn boot_id() -> Option<BootId> {
    std::fs::read_to_string(BOOT_ID).ok().and_then(|text| text.parse().ok())
}

/// Nanoseconds since the UNIX epoch on this machine's clock.
pub fn wall_now_ns() -> i64 {
    ns_of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn ns_of(time: Duration) -> i64 {
    signed(time.as_nanos())
}

/// Now on this machine's clocks.
pub(super) fn now() -> Moment {
    let ns = |clock| {
        let time = rustix::time::clock_gettime(clock);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    };
    let mono_ns = ns(rustix::time::ClockId::Monotonic).unsigned_abs();
    let boot_ns = ns(rustix::time::ClockId::Boottime).unsigned_abs();
    Moment { mono_ns, boot_ns, wall_ns: wall_now_ns() }
}

/// This machine's clock differs by more than a day from what the store knows and the time that passed since, by one step or by all together:
/// nothing is deleted by what it shows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClockDoubt {
    /// By how much it is ahead, ns; negative: behind.
    pub ahead_ns: i64,
}

impl fmt::Display for ClockDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = Duration::from_nanos(self.ahead_ns.unsigned_abs()).as_secs() / 3600;
        let (side, until) = if self.ahead_ns > 0 {
            let until =
                "until the clock is set right, an enrolled device's clock agrees, or a week has passed";
            ("ahead of", until)
        } else {
            let until = "for a week, then by the store's time, until the clock is set right or an enrolled device's clock agrees";
            ("behind", until)
        };
        write!(
            f,
            "the receiver's clock is {} d {} h {side} the time that the store knows: nothing is deleted by age {until}",
            hours / 24,
            hours % 24
        )
    }
}

#[derive(Copy, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "the unit is part of a name")]
pub(super) struct AgeTimes {
    /// Now, for the age of data to delete. It does not move while the clock is doubted, for a week.
    pub(super) age_ns: i64,
    /// Now, for the age of data to compact: a wrong clock does no harm there.
    pub(super) wall_ns: i64,
    /// Advances steadily, whatever the clock says: for periodic work.
    pub(super) running_ns: i64,
}

impl AgeTimes {
    /// Times by a clock that is taken to be right.
    pub(super) fn of(now_wall_ns: i64) -> Self {
        Self { age_ns: now_wall_ns, wall_ns: now_wall_ns, running_ns: now_wall_ns }
    }
}

/// The time that is known, and whether this machine's clock agrees.
#[derive(Debug, Default)]
pub(super) struct AgeClock {
    /// A time that was reached; `None`: nothing is known yet, so any clock is right.
    known_ns: Option<i64>,
    /// From where steps count; `None`: no clock was read yet.
    base: Option<ClockBase>,
    saved_ns: Option<i64>,
    /// A clock that was doubted was confirmed since then: the known time made a step.
    has_stepped: bool,
    doubt: Option<Doubt>,
    /// Boot of this machine; `None` if it cannot be read.
    boot: Option<BootId>,
    /// The clocks at the last reading.
    last: Moment,
}

/// A time, and `CLOCK_BOOTTIME` then, by which it has gone on since. It is what the store knew at the start, and moves only when a witness
/// or a week confirms the clock: by a step it does not.
#[derive(Copy, Clone, Debug)]
struct ClockBase {
    wall_ns: i64,
    boot_ns: i64,
}

#[derive(Copy, Clone, Debug)]
struct Doubt {
    since_boot_ns: i64,
    /// The time by the store and by what passed since.
    expected_ns: i64,
    is_ahead: bool,
}

impl AgeClock {
    /// Starts from the time that the store knows: the saved one, or in an older store the newest receipt.
    pub(super) fn load(connection: &Connection) -> Sql<Self> {
        let saved_ns = known_ns(connection)?;
        let known_ns = if saved_ns.is_some() {
            saved_ns
        } else {
            let text = "SELECT max(newest) FROM (SELECT max(received_wall_ns) AS newest FROM interval
                                UNION ALL SELECT max(last_received_wall_ns) FROM chunk)";
            value(connection, text, [])?
        };
        // Without a boot id, times show what runs on this machine.
        Ok(Self { known_ns, saved_ns, boot: boot_id(), ..Self::default() })
    }

    /// Decides whether this machine's clock is believed, and returns the times to use.
    pub(super) fn read(&mut self, now: Moment) -> AgeTimes {
        let (wall_ns, boot_ns) = (now.wall_ns, now.boot_ns.cast_signed());
        self.last = now;
        let known_ns = *self.known_ns.get_or_insert(wall_ns);
        let base = *self.base.get_or_insert(ClockBase { wall_ns: known_ns, boot_ns });
        let expected_ns = base.wall_ns.saturating_add(boot_ns.saturating_sub(base.boot_ns));
        let ahead_ns = wall_ns.saturating_sub(expected_ns);
        let (is_near, is_ahead) = (ahead_ns.saturating_abs() <= ns_of(TOLERANCE), ahead_ns > 0);
        // A clock that was behind for a week is no reason to believe it once it is ahead.
        let before = self.doubt.filter(|doubt| doubt.is_ahead == is_ahead);
        let since_boot_ns = before.map_or(boot_ns, |doubt| doubt.since_boot_ns);
        let is_old = boot_ns.saturating_sub(since_boot_ns) >= ns_of(BELIEVED_AFTER);
        if is_near {
            self.believe();
        } else if is_old && is_ahead {
            self.confirm();
        } else {
            self.doubt = Some(Doubt { since_boot_ns, expected_ns, is_ahead });
            if before.is_none()
                && let Some(doubt) = self.doubt()
            {
                log::error!("{doubt}");
            }
            if is_old {
                // At least as much time has passed. By a clock that is behind, all that it stored would be too old once it is right.
                self.known_ns = Some(expected_ns);
            }
        }
        AgeTimes {
            age_ns: self.known_ns.unwrap_or(wall_ns),
            wall_ns: self.receipt_ns(wall_ns),
            running_ns: boot_ns,
        }
    }

    /// The receipt to store. While the clock is behind, the expected time: else the data would be too old once the clock is right.
    pub(super) fn receipt_ns(&self, received_wall_ns: i64) -> i64 {
        self.doubt.map_or(received_wall_ns, |doubt| received_wall_ns.max(doubt.expected_ns))
    }

    /// A device on another machine whose clock agrees with ours confirms it, and ends the doubt. One that has the expected time contradicts
    /// a clock that is ahead: its week begins again.
    pub(super) fn hear(&mut self, trust: Trust, interval: &Interval, received_wall_ns: i64) {
        let device_ns = interval.end.wall_ns.saturating_add(interval.wall_shift_ns);
        if !matches!(trust, Trust::Authenticated | Trust::Encrypted) || self.is_of_here(interval, device_ns) {
            return;
        }
        // Its own clock and ours, not what was sent of the past.
        let is_witness = device_ns.abs_diff(received_wall_ns) <= ns_of(WITNESS_WITHIN).unsigned_abs()
            && received_wall_ns.abs_diff(self.last.wall_ns) <= ns_of(WITNESS_WITHIN).unsigned_abs();
        // A device that is slow by hours is nearer to a clock that is a day ahead and right.
        let from_clock_ns = device_ns.abs_diff(self.last.wall_ns);
        let is_expected = |doubt: &&mut Doubt| {
            let off_ns = device_ns.abs_diff(doubt.expected_ns);
            doubt.is_ahead && off_ns <= ns_of(TOLERANCE).unsigned_abs() && off_ns < from_clock_ns
        };
        if is_witness {
            self.confirm();
        } else if let Some(doubt) = self.doubt.as_mut().filter(is_expected) {
            doubt.since_boot_ns = self.last.boot_ns.cast_signed();
        }
    }

    /// Whether it was measured on this machine, such as by an agent in a container: its clock is ours. Some containers have a boot id of
    /// their own (LXC), but the time since the boot is the machine's.
    fn is_of_here(&self, interval: &Interval, device_ns: i64) -> bool {
        let started_ns = device_ns.saturating_sub(interval.end.boot_ns.cast_signed());
        let own_ns = self.last.wall_ns.saturating_sub(self.last.boot_ns.cast_signed());
        self.boot == Some(interval.boot)
            || started_ns.abs_diff(own_ns) <= ns_of(SAME_START_WITHIN).unsigned_abs()
    }

    /// What people should know; `None`: the clock is right, as far as is known.
    pub(super) fn doubt(&self) -> Option<ClockDoubt> {
        self.doubt.map(|doubt| ClockDoubt { ahead_ns: self.last.wall_ns.saturating_sub(doubt.expected_ns) })
    }

    /// A time to save, if the one in the store is old.
    pub(super) fn unsaved(&self) -> Option<Unsaved> {
        let is_old = |known: &i64| {
            self.saved_ns.is_none_or(|saved| known.abs_diff(saved) >= ns_of(SAVE_EVERY).unsigned_abs())
        };
        let known_ns = self.known_ns.filter(is_old)?;
        Some(Unsaved { known_ns, before_ns: self.saved_ns.filter(|_| self.has_stepped) })
    }

    /// Notes that this time is in the store.
    pub(super) fn saved(&mut self, known_ns: i64) {
        (self.saved_ns, self.has_stepped) = (Some(known_ns), false);
    }

    fn believe(&mut self) {
        if self.doubt.take().is_some() {
            log::warn!("the receiver's clock is believed again: data is deleted by age as before");
        }
        self.known_ns = Some(self.last.wall_ns);
    }

    /// Not by the clock alone: steps count from here.
    fn confirm(&mut self) {
        self.has_stepped |= self.doubt.is_some();
        self.believe();
        let Moment { wall_ns, boot_ns, .. } = self.last;
        self.base = Some(ClockBase { wall_ns, boot_ns: boot_ns.cast_signed() });
    }
}

/// A time that is known and not saved yet.
#[derive(Copy, Clone, Debug)]
pub(super) struct Unsaved {
    pub(super) known_ns: i64,
    /// The saved one, if a step led from it to this one.
    before_ns: Option<i64>,
}

/// Saves the time that is known, and corrects in the same transaction what came in before a step of it.
pub(super) fn save(connection: &Connection, Unsaved { known_ns, before_ns }: Unsaved) -> Sql<()> {
    if let Some(before_ns) = before_ns.filter(|before_ns| *before_ns < known_ns) {
        correct(connection, before_ns, known_ns, ns_of(TOLERANCE))?;
    }
    set_counter(connection, NAME, known_ns)
}

/// The last time that was known, for deletion by age beside the writer; `None`: there is none yet.
pub(crate) fn known_ns(connection: &Connection) -> Sql<Option<i64>> {
    counter(connection, NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_NS: i64 = 86_400_000_000_000;
    const BEGIN_NS: i64 = 1_795_000_000_000_000_000;

    fn known(known_ns: i64) -> AgeClock {
        AgeClock { known_ns: Some(known_ns), ..AgeClock::default() }
    }

    /// The clock shows `wall_ns` when the receiver has run for `running`.
    fn at(wall_ns: i64, running: Duration) -> Moment {
        let boot_ns = 5_000_000_000 + ns_of(running).unsigned_abs();
        Moment { mono_ns: boot_ns, boot_ns, wall_ns }
    }

    /// A device of another machine, which runs for three days already.
    fn agrees(clock: &mut AgeClock, trust: Trust, device_ns: i64) -> bool {
        agrees_from(clock, trust, device_ns, BootId([3; 16]), 3 * DAY_NS.unsigned_abs())
    }

    fn agrees_from(clock: &mut AgeClock, trust: Trust, device_ns: i64, boot: BootId, boot_ns: u64) -> bool {
        // The receiver moved it to its own time line by a minute.
        let end = Moment { wall_ns: device_ns + 60, boot_ns, ..Moment::default() };
        let interval = Interval { boot, end, wall_shift_ns: -60, ..Interval::default() };
        clock.hear(trust, &interval, clock.last.wall_ns);
        clock.doubt().is_none()
    }

    #[test]
    fn ages_run_with_a_clock_that_is_right() {
        let mut clock = AgeClock::default();
        for days in [0, 1, 40] {
            let running = Duration::from_hours(24 * days);
            let wall_ns = BEGIN_NS + days.cast_signed() * DAY_NS;
            assert_eq!(clock.read(at(wall_ns, running)).age_ns, wall_ns);
        }
        assert_eq!((clock.doubt(), clock.receipt_ns(7)), (None, 7));
        // A night without the receiver.
        assert_eq!(known(BEGIN_NS).read(at(BEGIN_NS + DAY_NS, Duration::ZERO)).age_ns, BEGIN_NS + DAY_NS);
    }

    #[test]
    fn a_clock_that_is_far_ahead_makes_nothing_old() {
        let mut clock = known(BEGIN_NS);
        let wrong_ns = BEGIN_NS + 400 * DAY_NS;
        for hours in [0, 1, 100] {
            let running = Duration::from_hours(hours);
            let times = clock.read(at(wrong_ns + ns_of(running), running));
            assert_eq!((times.age_ns, times.running_ns), (BEGIN_NS, 5_000_000_000 + ns_of(running)));
        }
        let words = clock.doubt().unwrap().to_string();
        assert!(words.starts_with("the receiver's clock is 400 d 0 h ahead of the time"), "{words}");
        assert_eq!(clock.receipt_ns(wrong_ns), wrong_ns, "no receipt is made older than it may be");
        // It is set right.
        let running = Duration::from_hours(101);
        assert_eq!(clock.read(at(BEGIN_NS + ns_of(running), running)).age_ns, BEGIN_NS + ns_of(running));
        assert_eq!(clock.doubt(), None);
    }

    #[test]
    fn a_clock_that_jumps_while_it_runs_is_doubted_too() {
        let mut clock = known(BEGIN_NS);
        let hour = Duration::from_hours(1);
        assert_eq!(clock.read(at(BEGIN_NS, Duration::ZERO)).age_ns, BEGIN_NS);
        assert_eq!(clock.read(at(BEGIN_NS + 2 * DAY_NS, hour)).age_ns, BEGIN_NS);
        let back = clock.read(at(7, 2 * hour));
        assert_eq!((back.age_ns, back.wall_ns), (BEGIN_NS, BEGIN_NS + ns_of(2 * hour)));
        assert_eq!(clock.receipt_ns(7), BEGIN_NS + ns_of(2 * hour), "what comes now is not too old later");
        let words = clock.doubt().unwrap().to_string();
        assert!(
            words.contains(" behind the time that the store knows: nothing is deleted by age for a week"),
            "{words}"
        );
    }

    /// Each step was believed for itself: 23 h every ten minutes made a month old in five hours.
    #[test]
    fn small_steps_make_no_more_old_than_a_day() {
        let mut clock = known(BEGIN_NS);
        let step_ns = ns_of(Duration::from_hours(23));
        let mut age_after = |steps: i64| {
            let running = Duration::from_mins(10 * steps.unsigned_abs());
            let times = clock.read(at(BEGIN_NS + ns_of(running) + steps * step_ns, running));
            times.age_ns - BEGIN_NS - ns_of(running)
        };
        assert_eq!((age_after(0), age_after(1)), (0, step_ns), "one step is no reason to doubt");
        for steps in 2..32 {
            assert!(age_after(steps) <= step_ns, "after {steps} steps");
        }
        let words = clock.doubt().unwrap().to_string();
        assert!(words.starts_with("the receiver's clock is 29 d 17 h ahead of the time"), "{words}");
        let wall_ns = clock.last.wall_ns;
        assert!(agrees(&mut clock, Trust::Authenticated, wall_ns), "a witness ends it, as ever");
    }

    /// Of a virtual machine that is paused each night, for example.
    #[test]
    fn steps_that_a_device_confirms_do_not_add_up() {
        let mut clock = known(BEGIN_NS);
        for steps in 0..10 {
            let wall_ns = BEGIN_NS + steps * ns_of(Duration::from_hours(20));
            assert_eq!(clock.read(at(wall_ns, Duration::ZERO)).age_ns, wall_ns);
            assert!(agrees(&mut clock, Trust::Encrypted, wall_ns));
        }
    }

    #[test]
    fn a_device_whose_clock_agrees_ends_the_doubt() {
        let wall_ns = BEGIN_NS + 30 * DAY_NS;
        let mut clock = known(BEGIN_NS);
        clock.read(at(wall_ns, Duration::ZERO));
        assert!(!agrees(&mut clock, Trust::Unauthenticated, wall_ns), "anyone could have sent it");
        assert!(!agrees(&mut clock, Trust::Local, wall_ns), "it has the same clock");
        assert!(!agrees(&mut clock, Trust::Authenticated, BEGIN_NS), "it has another time");
        assert_eq!(clock.read(at(wall_ns, Duration::ZERO)).age_ns, BEGIN_NS);
        assert!(agrees(&mut clock, Trust::Authenticated, wall_ns));
        assert_eq!(clock.read(at(wall_ns, Duration::ZERO)).age_ns, wall_ns);
    }

    /// An agent in a container is enrolled as any other, but it has this machine's clock: it ended the doubt within a second.
    #[test]
    fn a_device_on_this_machine_is_no_witness() {
        let (wall_ns, running) = (BEGIN_NS + 400 * DAY_NS, Duration::from_hours(5));
        let mut clock = AgeClock { boot: Some(BootId([1; 16])), ..known(BEGIN_NS) };
        clock.read(at(wall_ns, running));
        let now = clock.last;
        let mut agrees = |boot: u8, boot_ns: u64| {
            agrees_from(&mut clock, Trust::Authenticated, now.wall_ns, BootId([boot; 16]), boot_ns)
        };
        assert!(!agrees(1, now.boot_ns), "the same boot");
        assert!(!agrees(1, 40), "even where its time since the boot is another one");
        assert!(!agrees(2, now.boot_ns - 1_000_000_000), "of LXC: another boot id, started at the same time");
        assert!(agrees(2, now.boot_ns + 60_000_000_000), "another machine");
    }

    /// Of a machine without a battery that finds no NTP server: all that it stored was of 1970, and was deleted once the clock was right.
    #[test]
    fn a_clock_that_is_behind_is_not_believed_after_a_week() {
        let mut clock = known(BEGIN_NS);
        for (hours, age_ns) in
            [(0, BEGIN_NS), (7 * 24, BEGIN_NS + 7 * DAY_NS), (10 * 24, BEGIN_NS + 10 * DAY_NS)]
        {
            let running = Duration::from_hours(hours);
            let times = clock.read(at(7 + ns_of(running), running));
            assert_eq!(times.age_ns, age_ns, "after {hours} h");
            assert_eq!(clock.receipt_ns(7), BEGIN_NS + ns_of(running));
            assert!(clock.doubt().is_some_and(|doubt| doubt.ahead_ns < 0));
        }
        // Set two months ahead, it is doubted for a week of its own.
        let mut age_after = |hours: u64| {
            let running = Duration::from_hours(hours);
            clock.read(at(BEGIN_NS + 60 * DAY_NS + ns_of(running), running)).age_ns
        };
        assert_eq!((age_after(240), age_after(240 + 167)), (BEGIN_NS + 10 * DAY_NS, BEGIN_NS + 10 * DAY_NS));
        assert_eq!(age_after(240 + 168), BEGIN_NS + 77 * DAY_NS);
    }

    #[test]
    fn a_device_that_has_the_expected_time_starts_the_week_again() {
        let wall_ns = BEGIN_NS + 30 * DAY_NS;
        for (trust, believed_after) in [(Trust::Unauthenticated, 7), (Trust::Authenticated, 13)] {
            let mut clock = known(BEGIN_NS);
            for days in 0..=13 {
                let running = Duration::from_hours(24 * days);
                let days = days.cast_signed();
                let age_ns = clock.read(at(wall_ns + days * DAY_NS, running)).age_ns;
                let expected_ns = if days < believed_after { BEGIN_NS } else { wall_ns + days * DAY_NS };
                assert_eq!(age_ns, expected_ns, "after {days} days with {trust:?}");
                if days == 6 {
                    assert!(!agrees(&mut clock, trust, BEGIN_NS + days * DAY_NS));
                }
            }
        }
    }

    /// It had the expected time within a day, so that the doubt never ended.
    #[test]
    fn a_device_that_is_slow_by_hours_does_not_contradict_a_clock() {
        let hour_ns = ns_of(Duration::from_hours(1));
        // The receiver was off for 25 hours.
        let wall_ns = BEGIN_NS + 25 * hour_ns;
        let mut clock = known(BEGIN_NS);
        for days in 0..7_i64 {
            let now_ns = wall_ns + days * DAY_NS;
            clock.read(at(now_ns, Duration::from_hours(24 * days.unsigned_abs())));
            assert!(!agrees(&mut clock, Trust::Authenticated, now_ns - 2 * hour_ns));
        }
        let running = Duration::from_hours(7 * 24);
        assert_eq!(clock.read(at(wall_ns + 7 * DAY_NS, running)).age_ns, wall_ns + 7 * DAY_NS);
        assert_eq!(clock.doubt(), None);
    }

    #[test]
    fn after_a_week_the_clock_is_believed() {
        let wall_ns = BEGIN_NS + 30 * DAY_NS;
        let mut clock = known(BEGIN_NS);
        let mut age_after = |hours: u64| {
            let running = Duration::from_hours(hours);
            clock.read(at(wall_ns + ns_of(running), running)).age_ns
        };
        assert_eq!((age_after(0), age_after(7 * 24 - 1)), (BEGIN_NS, BEGIN_NS));
        assert_eq!(age_after(7 * 24), wall_ns + 7 * DAY_NS);
    }
}
