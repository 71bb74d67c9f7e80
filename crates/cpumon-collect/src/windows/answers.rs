//! Which answers of the system are read, the one about CPUs, which takes several calls, and a pass over all processes with their cycles.

use std::io;

use cpumon_model::CpuSample;

use super::sys;
use crate::CollectError;
use crate::nt::{self, CycleSnapshot};

/// `SystemProcessInformation`, `SystemProcessorPerformanceInformation`.
pub(super) const PROCESSES: i32 = 5;
const CPUS: i32 = 8;
/// First size of an answer's memory; it grows as the machine needs, and stays.
pub(super) const FIRST_BYTES: usize = 256 << 10;

/// Adds all CPUs: one answer for each group of up to 64; the numbers go on from group to group. Returns how many times cannot be.
pub(super) fn read_cpus(buffer: &mut Vec<u8>, into: &mut Vec<CpuSample>) -> Result<u64, CollectError> {
    let (groups, mut odd) = (sys::cpu_groups(), 0);
    for group in 0..groups {
        // Wine has only the call without groups.
        let length =
            if groups == 1 { sys::query(CPUS, buffer) } else { sys::query_group(CPUS, group, buffer) };
        let length = length.map_err(failed("read times of CPUs"))?;
        let first = u32::try_from(into.len()).unwrap_or(u32::MAX);
        odd += nt::read_cpus(&buffer[..length.min(buffer.len())], first, into).map_err(CollectError::Nt)?;
    }
    Ok(odd)
}

/// A closure for `map_err` on calls of the system.
pub(super) fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> CollectError {
    move |error| CollectError::System { operation, error }
}

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
