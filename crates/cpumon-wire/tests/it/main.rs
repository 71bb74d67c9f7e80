//! One binary for this crate's integration tests. In: the shared v1 vectors and generated data. Out: pass or fail.

#[path = "../../../../testing/skip.rs"]
mod skip;

mod carried;
mod cross_version;
mod damage;
mod documented;
mod encrypted;
mod encrypted_agent;
mod hostile;
mod lossless;
mod machine;
mod packed;
mod spool;
mod v1_sets;
mod v1_vectors;
mod v2_frames;
