//! The JSON types of the HTTP API, with conversions from and to the model that lose nothing.
//!
//! Times whose name ends in `_ns` are integers in nanoseconds (`wall_ns`: since the UNIX epoch). They can exceed 2^53, so a
//! JavaScript reader needs a parser that keeps 64-bit integers. A value that is absent is zero or empty, unless its
//! own text says otherwise; which counters were measured at all stands in `fields`.

mod convert;
mod host;
mod interval;
mod status;

pub use convert::InvalidInterval;
pub use host::{Host, Hosts, Loss};
pub use interval::{Cpu, Health, Interval, Ledger, Moment, Numbered, Process, ProcessInfo, Task, Thread};
pub use status::{Problem, Receiver, Rejects, Status, Store, StoreState};

/// Whether a value may be left out of the JSON.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
