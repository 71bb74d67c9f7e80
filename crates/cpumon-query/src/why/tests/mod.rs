//! The twelve blind cases of a slow program, and those where nothing is wrong or nothing can be known, as made-up intervals.

mod bounds;
mod causes;
mod commands;
mod cpus;
mod disk;
mod peers;
mod ready;
mod scene;
mod shares;
mod stored;
mod sums;
