//! What all parts of a frame agree on.

use cpumon_model::Fields;

/// What frames carry; the rest of what a source measures is no data to a receiver.
pub(super) const CARRIED: Fields = Fields::FIRST_RELEASE
    .union(Fields::SCHED)
    .union(Fields::WAITS)
    .union(Fields::IRQ)
    .union(Fields::HISTOGRAMS)
    .union(Fields::CGROUPS);

/// The first four bytes of each frame. As a v1 name length they are negative, so no v1 datagram begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x32];

/// Longest text sent apart from the command line, bytes.
pub(super) const MAX_TEXT_BYTES: usize = 255;
/// Longest reason for the choice of a source, bytes: it says what is not measured and what to do about it. 0.1.0 cuts it after
/// 255.
pub(super) const MAX_REASON_BYTES: usize = 512;
