//! Where a command writes: a file that is there when it is complete, or standard output.

use std::io::Write;
use std::path::Path;

use cpumon_export::{ExportError, OutputFile};

use crate::signals::remove_when_stopped;

/// Writes the file at `path`, which appears when it is complete; after Ctrl-C nothing is left of it.
pub(crate) fn to_file<T, E: From<ExportError>>(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> Result<T, E>,
) -> Result<T, E> {
    let mut file = OutputFile::create(path)?;
    if let Err(error) = remove_when_stopped(file.temporary(), path) {
        log::warn!("Ctrl-C will leave an unfinished file: {error:#}");
    }
    let written = write(&mut file)?;
    file.finish()?;
    Ok(written)
}

/// [`to_file`], or `out` where no path is given.
pub(crate) fn to_file_or<T, E: From<ExportError>>(
    path: Option<&Path>,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    match path {
        Some(path) => to_file(path, |file| write(file)),
        None => write(out),
    }
}
