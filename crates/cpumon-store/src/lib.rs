//! Room `cpumon-store`.

#[cfg(feature = "import")]
pub mod legacy;
