//! The answer to class `SystemProcessorPerformanceInformation`: 48 bytes for each CPU, with its times by mode.

use cpumon_model::{CpuSample, CpuSched, CpuTimes};

use super::{NtError, ns, u64_at};

/// Length of a CPU's record.
pub const CPU_BYTES: usize = 48;

/// Adds the times of each CPU to `into`; the first has number `first`.
///
/// Idle time is part of the kernel's, as are deferred procedure calls (DPC) and interrupts. The system does not charge those two to
/// threads. A DPC is what a soft interrupt is on Linux. Times that cannot be are no data; returns how many there are.
///
/// Errors: a cut answer.
pub fn read_cpus(bytes: &[u8], first: u32, into: &mut Vec<CpuSample>) -> Result<u64, NtError> {
    let (records, rest) = bytes.as_chunks::<CPU_BYTES>();
    if !rest.is_empty() {
        return Err(NtError::Cpus { bytes: bytes.len() });
    }
    let mut odd = 0;
    for (cpu, record) in (first..).zip(records) {
        let (times, modes) = CpuTimes::bounded(times(record).to_array().map(Some), CpuTimes::default());
        odd += u64::from(modes.count_ones());
        into.push(CpuSample { cpu, times, sched: CpuSched::default() });
    }
    Ok(odd)
}

fn times(record: &[u8; CPU_BYTES]) -> CpuTimes {
    let [idle, kernel, user, dpc, interrupt] = [0, 8, 16, 24, 32].map(|at| u64_at(record, at).map_or(0, ns));
    // The five are not read at one instant, so the difference can fall below 0 by a tick.
    let system_ns = [idle, dpc, interrupt].into_iter().fold(kernel, u64::saturating_sub);
    CpuTimes {
        user_ns: user,
        system_ns,
        idle_ns: idle,
        irq_ns: interrupt,
        softirq_ns: dpc,
        ..CpuTimes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: [u64; 5]) -> Vec<u8> {
        let mut bytes: Vec<u8> = times.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(&77_u32.to_le_bytes());
        bytes.resize(CPU_BYTES, 0);
        bytes
    }

    #[test]
    fn kernel_time_is_split_into_its_modes() {
        let bytes = [record([1_000, 1_500, 300, 20, 30]), record([5, 4, 0, 0, 0])].concat();
        let mut cpus = Vec::new();
        assert_eq!(read_cpus(&bytes, 64, &mut cpus), Ok(0));
        assert_eq!((cpus[0].cpu, cpus[1].cpu), (64, 65), "the second processor group goes on counting");
        let times = cpus[0].times;
        assert_eq!((times.idle_ns, times.system_ns, times.user_ns), (100_000, 45_000, 30_000));
        assert_eq!((times.softirq_ns, times.irq_ns), (2_000, 3_000));
        assert_eq!(times.total_ns(), 180_000, "kernel and user, nothing twice");
        assert_eq!(cpus[1].times.system_ns, 0);
        assert_eq!(read_cpus(&bytes[..95], 0, &mut cpus), Err(NtError::Cpus { bytes: 95 }));
    }

    #[test]
    fn a_time_that_cannot_be_leaves_the_others() {
        let mut cpus = Vec::new();
        assert_eq!(read_cpus(&record([1, 30, 2, u64::MAX, 4]), 0, &mut cpus), Ok(1));
        let CpuTimes { idle_ns, user_ns, irq_ns, softirq_ns, .. } = cpus[0].times;
        assert_eq!((idle_ns, user_ns, irq_ns, softirq_ns), (100, 200, 400, 0));
    }
}
