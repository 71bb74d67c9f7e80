//! Reads a store while a writer writes: hosts, intervals in order of time, sums, gaps.

mod begin;
mod build;
mod chunks;
mod clock;
mod cursor;
mod damage;
mod dims;
mod error;
mod gaps;
mod host_sums;
pub(crate) mod hosts;
mod idle;
mod intervals;
#[cfg(feature = "import")]
mod legacy;
mod open;
mod plan;
mod query;
mod resting;
mod segment;
mod tasks;
mod thread_sums;

pub(crate) use self::damage::SharedDamage;
pub use self::damage::{Damage, DamageReport};
pub use self::open::Reader;
#[cfg(feature = "bundled")]
pub(crate) use self::open::open_to_read;
pub use self::plan::Plan;
pub use self::query::{BootSpan, HostRecord, ProcessFilter, Query, StoredInterval, What};
pub use self::segment::Segment;
pub use self::tasks::StoredProcess;
pub use self::thread_sums::ThreadRows;
