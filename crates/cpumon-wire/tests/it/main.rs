//! One binary for this room's integration tests. In: the shared v1 vectors and generated data. Out: pass or fail.

#[path = "../../../../testing/skip.rs"]
mod skip;

mod beacon;
mod cross_version;
mod delays;
mod demux;
mod documented;
mod hostile;
mod lossless;
mod machine;
mod packed;
mod sealed;
mod spool;
mod spool_snapshots;
mod summed;
mod unwatched;
mod v1_sets;
mod v1_vectors;
mod v2_frames;
