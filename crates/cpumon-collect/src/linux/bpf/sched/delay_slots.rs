//! How many run-delay histograms the probe has space for.

/// Slots: twice the processes there are, within these. A slot takes 1 KiB in the kernel.
const MIN_SLOTS: usize = 2_048;
const MAX_SLOTS: usize = 16_384;

/// Size of the arrays for so many processes.
pub(crate) fn slots_for(processes: usize) -> u32 {
    let slots = processes.saturating_mul(2).next_power_of_two().clamp(MIN_SLOTS, MAX_SLOTS);
    u32::try_from(slots).unwrap_or(u32::MAX)
}

/// Processes there are, roughly: entries of /proc that are numbers.
pub(crate) fn count_processes() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_pid = |name: std::ffi::OsString| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    entries.filter_map(Result::ok).filter(|entry| is_pid(entry.file_name())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_slots_for_twice_the_processes() {
        assert_eq!([10, 1_500, 9_000_000].map(slots_for), [2_048, 4_096, 16_384]);
    }
}
