//! Recordings: directories of segments, as agents write them. All of one is read in order for an import, any moment of it is found for
//! the screens.

mod moments;
mod read;

pub(crate) use moments::{Position, Recording};
pub(crate) use read::{Reading, RecordingEvent, read};
