//! Writes a store: [`Writer`] and its parts, each in a file of its own.

mod age;
mod cgroup_sums;
mod clock;
mod compact;
mod copy;
mod counters;
mod dims;
mod fresh_boots;
mod gaps;
mod gone;
mod ids;
mod infos;
mod insert;
#[cfg(feature = "import")]
mod legacy;
mod lock;
mod losses;
mod merge_names;
mod merged;
mod naming;
mod pack;
mod process_lists;
mod prune;
mod purge;
mod remove_host;
mod retain;
mod rollup;
mod samples;
mod source;
mod store_writer;
mod sweep;
mod thread_sums;
mod transaction;
mod usage;
mod wipe;

pub(crate) use self::age::known_ns;
pub(crate) use self::copy::ActiveCopy;
pub use self::gaps::ReportedGap;
pub(crate) use self::ids::{keep_last_id, next_id};
pub use self::insert::Put;
pub(crate) use self::losses::{LostByHost, RolledBack};
pub(crate) use self::naming::Seeded;
pub(crate) use self::process_lists::{
    LONGEST_NS as LONGEST_LIST_NS, ListSchedule, has_all as has_all_processes, knows_resting,
};
pub use self::source::SourcePosition;
pub use self::store_writer::Writer;
