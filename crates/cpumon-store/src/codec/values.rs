//! The six counters of a row as six small numbers. Run time is the sum of user and system time where the source scales them (the
//! usual case), so only the difference is stored, which is mostly 0. All arithmetic wraps: any six numbers come back as they were.

use cpumon_model::Delta;

/// Clock tick of /proc in ns: sources that split by ticks give multiples of it.
pub(crate) const TICK_NS: i64 = 10_000_000;

/// Parts of a row, one for each counter of [`Delta`].
pub(crate) const PARTS: usize = 6;

/// How the values of a section are written; one for all its rows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coding {
    /// User and system time are multiples of [`TICK_NS`] and written divided by it.
    pub(crate) in_ticks: bool,
    /// Run time is 0 in every row and not written.
    pub(crate) no_run: bool,
}

impl Coding {
    /// Fits rows of zeros.
    pub(crate) const TIGHTEST: Self = Self { in_ticks: true, no_run: true };

    /// The coding that fits all these rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a Delta>) -> Self {
        let mut coding = Self::TIGHTEST;
        rows.for_each(|row| coding.widen(row));
        coding
    }

    /// Makes it fit `row` too.
    #[inline]
    pub(crate) fn widen(&mut self, row: &Delta) {
        self.no_run &= row.run_ns == 0;
        // A row that does not fit decides for all: the divisions of later rows are saved.
        if self.in_ticks {
            self.in_ticks = is_small_tick(row.user_ns) && is_small_tick(row.system_ns);
        }
    }

    /// The coding byte in front of a section's values.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.in_ticks) | u8::from(self.no_run) << 1
    }

    /// The reverse of [`Coding::bits`]; other bits have no meaning.
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { in_ticks: bits & 1 != 0, no_run: bits & 2 != 0 }
    }

    /// user, system, run − user − system, run delay, voluntary, involuntary switches.
    #[inline]
    pub(crate) fn parts(self, row: &Delta) -> [i64; PARTS] {
        let rest =
            // Without run time the difference would be −user − system in every row.
            if self.no_run { 0 } else { row.run_ns.wrapping_sub(row.user_ns).wrapping_sub(row.system_ns) };
        let (user, system) = if self.in_ticks {
            (row.user_ns / TICK_NS, row.system_ns / TICK_NS)
        } else {
            (row.user_ns, row.system_ns)
        };
        [user, system, rest, row.run_delay_ns, row.voluntary_switches, row.involuntary_switches]
    }

    /// The reverse of [`Coding::parts`].
    #[inline]
    pub(crate) fn delta(self, parts: &[i64; PARTS]) -> Delta {
        let unit = if self.in_ticks { TICK_NS } else { 1 };
        let (user_ns, system_ns) = (parts[0].wrapping_mul(unit), parts[1].wrapping_mul(unit));
        Delta {
            user_ns,
            system_ns,
            run_ns: if self.no_run { 0 } else { parts[2].wrapping_add(user_ns).wrapping_add(system_ns) },
            run_delay_ns: parts[3],
            voluntary_switches: parts[4],
            involuntary_switches: parts[5],
        }
    }
}

/// A multiple of [`TICK_NS`] so small (below 18 minutes) that sums of four million such rows cannot wrap, so that they
/// are multiples too.
#[inline]
fn is_small_tick(ns: i64) -> bool {
    ns % TICK_NS == 0 && ns.unsigned_abs() < 1 << 40
}

/// `a + b`, wrapping: the reverse of [`difference`] for any values.
#[inline]
pub(crate) fn sum(a: &Delta, b: &Delta) -> Delta {
    Delta {
        user_ns: a.user_ns.wrapping_add(b.user_ns),
        system_ns: a.system_ns.wrapping_add(b.system_ns),
        run_ns: a.run_ns.wrapping_add(b.run_ns),
        run_delay_ns: a.run_delay_ns.wrapping_add(b.run_delay_ns),
        voluntary_switches: a.voluntary_switches.wrapping_add(b.voluntary_switches),
        involuntary_switches: a.involuntary_switches.wrapping_add(b.involuntary_switches),
    }
}

/// `a − b`, wrapping.
#[inline]
pub(crate) fn difference(a: &Delta, b: &Delta) -> Delta {
    Delta {
        user_ns: a.user_ns.wrapping_sub(b.user_ns),
        system_ns: a.system_ns.wrapping_sub(b.system_ns),
        run_ns: a.run_ns.wrapping_sub(b.run_ns),
        run_delay_ns: a.run_delay_ns.wrapping_sub(b.run_delay_ns),
        voluntary_switches: a.voluntary_switches.wrapping_sub(b.voluntary_switches),
        involuntary_switches: a.involuntary_switches.wrapping_sub(b.involuntary_switches),
    }
}
