//! Where a command writes: a file that is there when it is complete, or standard output.

use std::io::Write;
use std::path::Path;

use cpumon_export::{ExportError, OutputFile};

use crate::signals::Unfinished;

/// Writes the file at `path`, which appears when it is complete; after Ctrl-C nothing is left of it.
pub(crate) fn to_file<T, E: From<ExportError>>(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> Result<T, E>,
) -> Result<T, E> {
    // A device or a pipe may block as it is opened, and there is nothing to remove: the signal itself ends that.
    if OutputFile::is_special(path) {
        return finished(OutputFile::create(path)?, write);
    }
    let unfinished = Unfinished::watch(path)
        .inspect_err(|error| log::warn!("Ctrl-C will leave an unfinished file: {error:#}"))
        .ok();
    let mut temporary = unfinished.as_ref().map(Unfinished::lock);
    let file = OutputFile::create(path)?;
    if let Some(temporary) = temporary.as_mut() {
        **temporary = file.temporary().map(Path::to_owned);
    }
    drop(temporary);
    finished(file, write).inspect_err(|_| {
        // A signal that took the file away has the last word.
        let _waits = unfinished.as_ref().map(Unfinished::lock);
    })
}

fn finished<T, E: From<ExportError>>(
    mut file: OutputFile,
    write: impl FnOnce(&mut OutputFile) -> Result<T, E>,
) -> Result<T, E> {
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
