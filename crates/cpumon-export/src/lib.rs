//! Room `cpumon-export`.
