//! `perf.data`, as `perf sched record` writes it: to a file or a pipe, plain or compressed.
//!
//! The container is read here and not with a crate: `linux-perf-data` 0.13.0 allocates what a file's sections, AUX records and
//! zstd frames announce, and holds all records of a file whose rounds never end.

pub(crate) mod decoder;
mod header;
mod layout;
mod records;
mod unpack;
