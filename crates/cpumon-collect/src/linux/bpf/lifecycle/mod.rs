//! Threads that end, execute another program or change their id, as the events report them, and the control groups of processes that ended.

pub(crate) mod exits;
pub(crate) mod groups;
pub(crate) mod renames;
