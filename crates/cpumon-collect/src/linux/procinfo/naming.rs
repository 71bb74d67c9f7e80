//! How a program gets its name.

use std::borrow::Cow;

use cpumon_model::Comm;

/// The last part of a path; the kernel marks a replaced executable with ` (deleted)`.
pub(super) fn base_name(path: &[u8]) -> Cow<'_, str> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    String::from_utf8_lossy(path.rsplit(|&b| b == b'/').next().unwrap_or_default())
}

/// Where the executable may not be seen: the program name out of the command line, if the kernel's 15 bytes are a cut
/// form of it.
pub(super) fn longer_name(cmdline: &[u8], comm: Comm) -> Option<Cow<'_, str>> {
    let program = cmdline.split(|&b| b == 0).next()?;
    let name = program.rsplit(|&b| b == b'/').next()?;
    // A process can write anything into its command line, so it counts only where it goes on from the
    // kernel's name.
    let is_cut = comm.as_bytes().len() == Comm::MAX_BYTES && name.starts_with(comm.as_bytes());
    is_cut.then(|| String::from_utf8_lossy(name))
}
