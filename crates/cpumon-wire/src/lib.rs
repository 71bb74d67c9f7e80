//! Room `cpumon-wire`.
