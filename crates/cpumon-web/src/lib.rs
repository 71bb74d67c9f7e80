//! Room `cpumon-web`.
