//! One binary for this room's integration tests. In: the shared v1 vectors and generated data. Out: pass or fail.

#[path = "../../../../testing/skip.rs"]
mod skip;

mod carried;
mod cross_version;
mod damage;
mod documented;
mod hostile;
mod lossless;
mod machine;
mod packed;
mod sealed;
mod sealed_agent;
mod spool;
mod v1_sets;
mod v1_vectors;
mod v2_frames;
