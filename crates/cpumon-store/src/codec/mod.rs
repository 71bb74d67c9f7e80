//! Bytes of the store: packed samples of one interval ([`blob`]), chunks ([`chunk`]), what is known of a host ([`host`]), scheduler events
//! of tasks ([`sched`]), lists of tasks ([`lists`]). Rows have integer ids here; keys and names are in tables. The layouts are documented in
//! docs/store.md.
//!
//! The six counters of a row are six small numbers. Run time is the sum of user and system time where the source scales them (the usual
//! case), so only the difference is stored, which is mostly 0. All arithmetic wraps: any six numbers come back as they were.

pub(crate) mod blob;
pub(crate) mod chunk;
#[cfg(all(test, feature = "bundled"))]
mod costs;
pub(crate) mod exercise;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod lists;
pub(crate) mod meta;
pub(crate) mod sched;
pub(crate) mod varint;
pub(crate) mod zip;

use cpumon_model::{Delta, Flags, Life, TaskState};

/// One thread row; `id` is a row of table `thread`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedThread {
    pub(crate) id: u64,
    pub(crate) state: TaskState,
    pub(crate) last_cpu: u16,
    pub(crate) life: Life,
    pub(crate) flags: Flags,
    pub(crate) delta: Delta,
}

/// One process row; `id` is a row of table `process`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedProcess {
    pub(crate) id: u64,
    /// Threads in the interval as it was put, idle ones included.
    pub(crate) thread_rows: u32,
    pub(crate) life: Life,
    pub(crate) flags: Flags,
    /// The interval had threads of this process, but no row for the process itself.
    pub(crate) is_absent: bool,
    /// Sum over its stored threads and over those that ended without a row.
    pub(crate) delta: Delta,
    /// How many rows of [`PackedInterval::threads`] are its own.
    pub(crate) stored_rows: u32,
}

/// The active rows of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedInterval {
    /// In any order, each id once.
    pub(crate) processes: Vec<PackedProcess>,
    /// Grouped by process in the order of `processes`, within a process in any order.
    pub(crate) threads: Vec<PackedThread>,
}

/// Each process with its threads, of a [`PackedInterval`]'s lists.
pub(crate) fn groups<'p>(
    processes: &'p [PackedProcess],
    threads: &'p [PackedThread],
) -> impl Iterator<Item = (&'p PackedProcess, &'p [PackedThread])> {
    let mut rest = threads;
    processes.iter().map(move |process| {
        let (own, later) = rest.split_at(rest.len().min(process.stored_rows as usize));
        rest = later;
        (process, own)
    })
}

impl PackedInterval {
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&PackedProcess, &[PackedThread])> {
        groups(&self.processes, &self.threads)
    }

    /// Empties both lists but not their memory.
    pub(crate) fn clear(&mut self) {
        self.processes.clear();
        self.threads.clear();
    }
}

/// Two bits for [`Life`].
#[inline]
pub(crate) fn life_code(life: Life) -> u8 {
    match life {
        Life::Alive => 0,
        Life::Born => 1,
        Life::Ended => 2,
        Life::BornEnded => 3,
    }
}

/// The reverse of [`life_code`]; only the two low bits count.
pub(crate) fn life_of(code: u8) -> Life {
    // Callers pass a whole head byte: the bits above are flags.
    match code & 3 {
        0 => Life::Alive,
        1 => Life::Born,
        2 => Life::Ended,
        _ => Life::BornEnded,
    }
}

/// Letters of proc(5) by code; any other byte follows above the CPU number.
const STATES: [u8; 10] = *b"?RSDZTtXIP";
/// Code of a state that is not one of [`STATES`].
const OTHER_STATE: u8 = 15;

/// The code of each letter.
const STATE_CODES: [u8; 256] = {
    let mut codes = [OTHER_STATE; 256];
    let mut code = 0_u8;
    while (code as usize) < STATES.len() {
        codes[STATES[code as usize] as usize] = code;
        code += 1;
    }
    codes
};

/// Last CPU and state as one number: state in the low 4 bits, CPU in the next 16, another state's byte above them.
#[inline]
pub(crate) fn place_code(last_cpu: u16, state: TaskState) -> u64 {
    let code = STATE_CODES[usize::from(state.0)];
    let other = if code == OTHER_STATE { u64::from(state.0) << 20 } else { 0 };
    // With a letter of STATES and a CPU below 8 the result is below 128: one byte as a varint.
    other | u64::from(last_cpu) << 4 | u64::from(code)
}

/// The reverse of [`place_code`]; `None` for a number that it never gives.
pub(crate) fn place_of(code: u64) -> Option<(u16, TaskState)> {
    let state = match STATES.get((code & 15) as usize) {
        Some(&letter) if code >> 20 == 0 => letter,
        // The encoder writes a byte above the CPU only for states without a letter. Anything else is damage.
        Some(_) => return None,
        None => u8::try_from(code >> 20).ok()?,
    };
    Some(((code >> 4 & 0xffff) as u16, TaskState(state)))
}

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
    with_each(a, b, i64::wrapping_add)
}

/// `a − b`, wrapping.
#[inline]
pub(crate) fn difference(a: &Delta, b: &Delta) -> Delta {
    with_each(a, b, i64::wrapping_sub)
}

#[inline]
fn with_each(a: &Delta, b: &Delta, of: impl Fn(i64, i64) -> i64) -> Delta {
    Delta {
        user_ns: of(a.user_ns, b.user_ns),
        system_ns: of(a.system_ns, b.system_ns),
        run_ns: of(a.run_ns, b.run_ns),
        run_delay_ns: of(a.run_delay_ns, b.run_delay_ns),
        voluntary_switches: of(a.voluntary_switches, b.voluntary_switches),
        involuntary_switches: of(a.involuntary_switches, b.involuntary_switches),
    }
}
