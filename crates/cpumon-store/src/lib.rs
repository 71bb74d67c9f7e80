//! Room `cpumon-store`.
