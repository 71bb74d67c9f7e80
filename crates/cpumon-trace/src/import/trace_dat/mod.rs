//! `trace.dat`, as trace-cmd writes it: version 6, where all follows one another, and 7, where options say where each section is.
//!
//! The data of a CPU are the pages of the kernel's ring buffer as they are; version 7 may compress them in chunks.

pub(crate) mod decoder;
mod head;
mod options;
mod pages;
mod unpack;
