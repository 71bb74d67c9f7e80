//! The store as its users see it: what is put is read, whatever happens in between.

mod data;
mod line;
mod retain;
mod round_trip;
mod seal;
mod thread;
