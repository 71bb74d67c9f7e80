//! Private files: mode 0600 in directories of mode 0700, replaced atomically.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::TlsError;

/// Longest file that is read, bytes.
const MAX_BYTES: u64 = 64 << 10;

pub fn failed(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> TlsError {
    let path = path.to_owned();
    move |error| TlsError::File { operation, path: path.clone(), error }
}

/// Makes a directory and those above it.
pub fn make_dir(dir: &Path) -> Result<(), TlsError> {
    let owner = dir.parent().and_then(cpumon_files::Owner::of);
    cpumon_files::create_dir_for(dir, owner).map_err(failed("create", dir))
}

/// Writes a file that replaces what was there, or, with `is_new`, that must not be there yet (false: it was).
pub fn write(path: &Path, bytes: &[u8], is_new: bool) -> Result<bool, TlsError> {
    let suffix = hex::encode(super::random::<8>()?);
    let temporary: PathBuf = path.with_extension(format!("tmp-{suffix}"));
    let written = write_then_name(path, &temporary, bytes, is_new);
    if !matches!(written, Ok(true)) || is_new {
        // It has another name now, or none is wanted; a leftover file does no harm.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_then_name(path: &Path, temporary: &Path, bytes: &[u8], is_new: bool) -> Result<bool, TlsError> {
    let write = || -> std::io::Result<()> {
        let mut file = cpumon_files::create_new(temporary)?;
        cpumon_files::give_to_owner_of_directory(&file, temporary);
        file.write_all(bytes)?;
        // Before it gets its name: otherwise a power cut could leave a file with the name and without the
        // bytes.
        file.sync_all()
    };
    write().map_err(failed("write", temporary))?;
    if is_new {
        // link(2) fails where the name exists; rename(2) would replace it.
        match fs::hard_link(temporary, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
            named => named.map_err(failed("create", path))?,
        }
    } else {
        fs::rename(temporary, path).map_err(failed("replace", path))?;
    }
    sync_name(path)?;
    Ok(true)
}

pub(super) fn replace(path: &Path, by: &Path) -> Result<(), TlsError> {
    fs::rename(by, path).map_err(failed("replace", path))?;
    sync_name(path)
}

/// A new name is in the directory, which needs a sync of its own (fsync(2)).
fn sync_name(path: &Path) -> Result<(), TlsError> {
    let Some(dir) = path.parent().and_then(|dir| File::open(dir).ok()) else { return Ok(()) };
    dir.sync_all().map_err(failed("write", path))
}

/// Reads at most 64 KiB of a file; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    read_opened(path, File::open(path))
}

/// Reads a file that holds a secret, as [`read`]; `None` if there is none.
///
/// # Errors
/// It cannot be read, is a link, belongs to another user than this one and root, or gives others any right.
pub fn read_private(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    read_opened(path, cpumon_files::open_private(path))
}

fn read_opened(path: &Path, opened: std::io::Result<File>) -> Result<Option<Vec<u8>>, TlsError> {
    let file = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(Some(bytes))
}

/// The files of a directory that are named by `N` bytes in hexadecimal digits.
pub fn list_hex<const N: usize>(dir: &Path) -> Result<Vec<([u8; N], PathBuf)>, TlsError> {
    let mut named = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let path = entry.map_err(failed("read", dir))?.path();
        let name = path.file_name().and_then(|name| unhex(name.to_str()?));
        named.extend(name.map(|name| (name, path)));
    }
    Ok(named)
}

/// The value of `name: value` in a text of such lines.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Bytes from hexadecimal digits; `None` if they are not `N` bytes.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
}
