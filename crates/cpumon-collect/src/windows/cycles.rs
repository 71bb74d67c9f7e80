//! A pass over all processes with their cycles, for the comparison of ticks with cycles.

use super::answers::{FIRST_BYTES, PROCESSES, failed, read_cpus};
use super::sys;
use crate::CollectError;
use crate::nt::{self, CycleSnapshot};

/// Replaces `into`.
pub fn read_cycles(into: &mut CycleSnapshot) -> Result<(), CollectError> {
    let (mut buffer, mut cpu_buffer) = (vec![0; FIRST_BYTES], vec![0; 64 * nt::CPU_BYTES]);
    // Once before: the first call makes the memory grow, which would lie between the clocks and the list.
    sys::query(PROCESSES, &mut buffer).map_err(failed("read processes"))?;
    let (stamp, mono_ns) = sys::stamp_and_counter_ns();
    let length = sys::query(PROCESSES, &mut buffer).map_err(failed("read processes"))?;
    *into = CycleSnapshot { stamp, mono_ns, ..CycleSnapshot::new() };
    read_cpus(&mut cpu_buffer, &mut into.cpus)?;
    let answer = &buffer[..length.min(buffer.len())];
    into.add(answer, answer.as_ptr() as u64).map_err(CollectError::Nt)
}
