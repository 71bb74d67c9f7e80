//! What writing and reading of chunks agree on.

/// First byte of each section.
pub(super) const FORMAT: u8 = 1;

/// Longest time between the first and the last end in a chunk. Compaction begins another chunk beyond it, and readers find
/// the chunks of a range by their last end plus this.
pub(crate) const MAX_CHUNK_SPAN_NS: i64 = 6 * 3_600_000_000_000;
