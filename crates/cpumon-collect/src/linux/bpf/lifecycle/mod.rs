//! Threads that end, execute another program or change their id, as the events report them.

pub(crate) mod exits;
pub(crate) mod names;
pub(crate) mod renames;
pub(crate) mod summed;
