//! Numbers and texts from bytes of either order, and reading no more than a limit.

use std::io::Read;

pub(crate) use cpumon_events::{Bytes, Name, Order, ProgramName, name, up_to_zero};

/// Reads so many bytes, or fewer where the file ends; more than `most` are none.
pub(super) fn read_up_to(from: &mut dyn Read, length: u64, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    if length > most {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
