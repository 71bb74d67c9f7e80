//! A trace as an index for pictures: any window of it, at any width, without reading the file again.
//!
//! [`Timeline::read`] reads a [`TraceSource`](crate::TraceSource) once. A thread is a list of states and a CPU a list of slices, each with
//! its begin only; sums in front of every 32nd entry make the time of any bucket a matter of two searches. So a picture costs
//! its pixels, not the events behind them: [`Timeline::cpu_track`], [`Timeline::thread_track`]. Exact sums of a window
//! ([`Timeline::sums`], [`Timeline::thread_rows`]) read its entries, and equal the [`Report`](crate::Report) of that range.
//!
//! Memory is counted while reading. Where it reaches the limit, the index ends there and says so ([`Timeline::is_cut`]).

mod behind;
mod build;
mod cpus;
mod delays;
mod details;
mod index;
mod overload;
mod queue;
mod rows;
mod sums;
mod threads;
mod tracks;

pub use behind::Behind;
pub use cpus::CpuWho;
pub use delays::{Delay, Delays};
pub use details::{Slice, Wait, Woken};
pub use index::{Overload, ThreadNames, Timeline, TimelineLimits};
pub use rows::{ThreadRow, ThreadTotals};
pub use sums::WindowSums;
pub use tracks::{Buckets, CpuTrack, RunPart, StatePart, ThreadTrack};
