//! One binary for this room's integration tests. In: the shared v1 vectors and generated data. Out: pass or fail.

mod v1_vectors;
