//! How much memory rows take. Limits count what input becomes, not its bytes on the wire, and all of them count it the same way.

use crate::{
    CgroupInterval, CpuInterval, Delays, Interval, IrqInterval, ProcessInfo, ProcessInterval, ThreadInterval,
};

/// Memory of an interrupt line beside its row: its name.
const IRQ_NAME_BYTES: usize = 64;
/// Memory of a control group's path beside its bytes: counts of the `Arc`, the allocator's share.
pub const CGROUP_PATH_BYTES: usize = 32;
/// Memory of a histogram beside its place in the list and its buckets: counts of the `Arc`, the list, the allocator's share.
pub const HISTOGRAM_BYTES: usize = 80;
/// Memory of one bucket of a delay histogram, bytes.
pub const DELAY_BUCKET_BYTES: usize = size_of::<(u8, u64)>();

/// Memory of a process's description without its texts, bytes: with the counts of the `Arc`, and the allocator's share of its
/// allocations.
pub const INFO_BYTES: usize = size_of::<ProcessInfo>() + 64;

/// Memory of a process's description with its texts, bytes.
pub fn bytes_of_info(info: &ProcessInfo) -> usize {
    let texts = [
        &info.name,
        &info.interpreter,
        &info.comm,
        &info.cmdline,
        &info.cgroup,
        &info.container,
        &info.user,
        &info.product,
    ];
    INFO_BYTES + texts.iter().map(|text| text.len()).sum::<usize>()
}

/// Memory of a histogram, bytes: its place in the list, the shared part, and the buckets.
pub fn bytes_of_delays(row: &Delays) -> usize {
    size_of::<Delays>() + HISTOGRAM_BYTES + row.histogram.iter().count() * DELAY_BUCKET_BYTES
}

fn bytes_of_cgroup(row: &CgroupInterval) -> usize {
    size_of::<CgroupInterval>() + CGROUP_PATH_BYTES + row.path.len()
}

/// Memory of an interval's rows, bytes, without the descriptions of its processes, which intervals share.
pub fn bytes_of_rows(interval: &Interval) -> usize {
    size_of::<Interval>()
        + interval.threads.len() * size_of::<ThreadInterval>()
        + interval.processes.len() * size_of::<ProcessInterval>()
        + interval.cpus.len() * size_of::<CpuInterval>()
        + interval.irqs.len() * (size_of::<IrqInterval>() + IRQ_NAME_BYTES)
        + interval.cgroups.iter().map(bytes_of_cgroup).sum::<usize>()
        + interval.delays.iter().map(bytes_of_delays).sum::<usize>()
        + interval.resting.as_deref().map_or(0, size_of_val)
        + interval.idle_processes.as_deref().map_or(0, size_of_val)
}
