//! The store as its users see it: stored intervals can be read, whatever happens in between.

#[path = "../../../../testing/held_memory.rs"]
mod held_memory;
#[path = "../../../../testing/skip.rs"]
mod skip;
#[path = "../../../../testing/small_disk.rs"]
mod small_disk;

mod backup;
mod check;
mod clock;
mod compact;
mod damage;
mod data;
mod endless;
mod faults;
mod fixture;
mod foreign;
mod forget;
mod full_disk;
mod idle;
mod names;
mod private_files;
mod resting;
mod retain;
mod round_trip;
mod sched;
mod segments;
mod shares;
mod sleepers;
mod source;
mod thread;
mod trust;
mod waits_for;
