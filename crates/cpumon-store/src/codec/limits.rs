//! What the store's blobs may become. A few bytes of zstd can be any number of rows, and a file may come from anywhere: each number of rows or
//! bytes is compared with the most that a writer here makes, before memory is reserved for it.

/// Rows of processes and threads, of a chunk or of an interval: those of the largest host that a receiver takes (466,000 threads). Compaction
/// begins another chunk before it has more; one of an older version may have as many as its packed bytes.
pub(crate) const MAX_ROWS: usize = 1 << 19;
/// Intervals of a chunk, ten times as many as a full one has.
pub(crate) const MAX_INTERVALS: usize = 1 << 10;
/// Plain bytes of a section of a chunk: [`MAX_ROWS`] rows of the longest numbers take 54 MB. Beside rows, compaction puts at most half of it into
/// one.
pub(crate) const MAX_SECTION_BYTES: usize = 64 << 20;
/// CPUs of an interval; Linux knows 8,192.
pub(crate) const MAX_CPUS: usize = 1 << 16;
/// Interrupt lines of an interval; a receiver takes 1,024.
pub(crate) const MAX_IRQS: usize = 1 << 14;
/// Run-delay histograms of an interval; the agent's map in the kernel has 16,384 places at most.
pub(crate) const MAX_HISTOGRAMS: usize = 1 << 17;
/// Buckets of all histograms of an interval, 16 bytes each.
pub(crate) const MAX_BUCKETS: usize = 1 << 21;
/// Bytes of the control groups of a blob: for each of its bytes so many, because a path is written as the part that it does not share with the
/// one before; beyond them as much as 256 paths of 4,096 bytes take with ease, which is what an interval can have.
pub(crate) const GROUP_TIMES: usize = 64;
pub(crate) const FREE_GROUP_BYTES: usize = 4 << 20;
/// Most bytes that the groups of a blob take, whatever its length.
pub(crate) const MAX_GROUP_BYTES: usize = 64 << 20;
