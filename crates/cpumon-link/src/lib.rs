//! Room `cpumon-link`.
