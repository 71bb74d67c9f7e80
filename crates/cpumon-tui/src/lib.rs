//! Room `cpumon-tui`.
