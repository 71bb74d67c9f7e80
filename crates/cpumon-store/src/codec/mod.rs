//! Bytes of the store: packed samples of one interval ([`blob`]), chunks ([`chunk`]), what is known of a host ([`host`]), scheduler events
//! of tasks ([`sched`]), lists of tasks ([`lists`]). Rows have integer ids here; keys and names are in tables. The layouts are documented in
//! docs/store.md.

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
mod values;
pub(crate) mod varint;
pub(crate) mod zip;

use cpumon_model::{Delta, Flags, Life, TaskState};

pub(crate) use self::values::{Coding, TICK_NS, difference, sum};

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
    u8::from(life.is_born()) | u8::from(life.has_ended()) << 1
}

/// The reverse of [`life_code`]; only the two low bits count.
pub(crate) fn life_of(code: u8) -> Life {
    // Callers pass a whole head byte: the bits above are flags.
    Life::of(code & 1 != 0, code & 2 != 0)
}

/// Letters of proc(5) by code; any other byte follows above the CPU number.
const STATES: [u8; 10] = *b"?RSDZTtXIP";
/// Code of a state that is not one of [`STATES`].
const OTHER_STATE: u8 = 15;

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
