//! Decodes the results of Windows' own call `NtQuerySystemInformation`: byte layouts, no system calls. It is compiled
//! everywhere, so that its tests and its fuzz target run on every machine.
//!
//! Layouts are those of 64-bit Windows 7 and later. All times are in units of 100 ns; times of day count from 1601 (FILETIME).

mod cycles;
mod names;
mod pass;
mod products;
mod records;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cycles::{
    CPU_BYTES, CycleComparison, CycleRow, CycleSnapshot, NoComparison, ProcessCycles, read_cpus,
};
pub use names::{SERVICE_BYTES, Services, ThreadNames, scrubbed_command_line};
pub(crate) use pass::comm_of;
pub use pass::{Passes, SystemStart};
pub use products::{Images, Products, is_plain_path, product_text};
pub use records::{
    NtError, PROCESS_BYTES, ProcessRecord, Processes, ReportedProcess, ReportedThread, THREAD_BYTES,
    counted_text, name_of_thread, priority, text,
};

/// A little-endian part of `bytes`, if it is there.
fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    part(bytes, at).map(u64::from_le_bytes)
}

/// Nanoseconds of a time in units of 100 ns.
fn ns(units: u64) -> u64 {
    units.saturating_mul(100)
}
