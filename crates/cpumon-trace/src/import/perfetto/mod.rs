//! Traces of Perfetto: packets of protobuf, of which those with scheduler events, processes and clocks are read.
//!
//! Packets are read with the few lines of `wire` and not with a crate: `prost` makes of an event of two bytes a structure of hundreds,
//! `quick-protobuf` is not maintained. Field numbers are those of Perfetto's public schema.

mod bundle;
mod compact;
pub(crate) mod decoder;
mod packets;
mod processes;
mod wire;
