//! Answers questions about hosts: what they do now, and what they did.
//!
//! The present comes from a receiver, behind [`Live`]; the past from the store. The answers are plain structs: the web API
//! turns them into JSON, the command line prints them, and `cpumon-export` draws and writes them.

mod error;
mod live;
pub mod status;
mod stored;

pub use error::QueryError;
pub use live::{Bell, Live, Seek, Shown};
pub use stored::seek;
