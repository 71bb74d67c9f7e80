//! Room `cpumon-collect`.
