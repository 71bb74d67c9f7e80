//! The key file of a group: its holder can encrypt and decrypt datagrams. Only its owner may read it. It is a file so that any
//! tool that copies files can deploy it to devices.
//!
//! One key per line: `cpumon-key1.` and 32 bytes in base64url. The first key encrypts, all keys decrypt. Lines that begin with
//! `#` are comments.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cpumon_wire::encrypted::{GroupKey, KeyId, MAX_KEYS};

use crate::tls::{TlsError, files, random};

const PREFIX: &str = "cpumon-key1.";
const TITLE: &str = "# Keys of a cpumon group: the first encrypts, all decrypt. Anyone who can read this file can impersonate its devices.\n";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error(transparent)]
    File(#[from] TlsError),
    #[error("there is no key file {}; `cpumon key new` makes one", .0.display())]
    Missing(PathBuf),
    #[error("{}, line {line}: this is no key", path.display())]
    NoKey {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    #[error("{} holds no key; `cpumon key new` makes one", .0.display())]
    Empty(PathBuf),
    #[error("{} holds {MAX_KEYS} keys already; `cpumon key retire ID` takes one out", .0.display())]
    Full(PathBuf),
    #[error("{} holds no key {id}", path.display())]
    Unknown { path: PathBuf, id: String },
}

/// Reads the keys of a file, at least one. The first one encrypts.
///
/// # Errors
/// There is no such file, others may read it, or it does not hold keys.
pub fn read_keys(path: &Path) -> Result<Vec<GroupKey>, GroupError> {
    let keys = read(path)?.ok_or_else(|| GroupError::Missing(path.to_owned()))?;
    if keys.is_empty() { Err(GroupError::Empty(path.to_owned())) } else { Ok(keys) }
}

/// Adds a key that encrypts from now on; older keys still decrypt. Creates the file if it is missing.
///
/// # Errors
/// The file cannot be read or written, or is full.
pub fn add_key(path: &Path) -> Result<GroupKey, GroupError> {
    let mut keys = read(path)?.unwrap_or_default();
    if keys.len() >= MAX_KEYS {
        return Err(GroupError::Full(path.to_owned()));
    }
    let key = GroupKey::new(random()?);
    keys.insert(0, key.clone());
    write(path, &keys)?;
    Ok(key)
}

/// Removes a key from the file.
///
/// # Errors
/// There is none of this name, or the file cannot be read or written.
pub fn retire_key(path: &Path, id: &str) -> Result<KeyId, GroupError> {
    let mut keys = read_keys(path)?;
    let at = keys.iter().position(|key| key.id().to_string() == id);
    let unknown = || GroupError::Unknown { path: path.to_owned(), id: id.to_owned() };
    let key = keys.remove(at.ok_or_else(unknown)?);
    write(path, &keys)?;
    Ok(key.id())
}

fn read(path: &Path) -> Result<Option<Vec<GroupKey>>, GroupError> {
    let Some(bytes) = files::read_private(path)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parsed = keys.map(|(at, line)| {
        parse(line).ok_or_else(|| GroupError::NoKey { path: path.to_owned(), line: at + 1 })
    });
    let parsed: Vec<GroupKey> = parsed.collect::<Result<_, _>>()?;
    if parsed.len() > MAX_KEYS {
        return Err(GroupError::Full(path.to_owned()));
    }
    Ok(Some(parsed))
}

fn write(path: &Path, keys: &[GroupKey]) -> Result<(), GroupError> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        files::make_dir(dir)?;
    }
    let lines = keys.iter().map(|key| format!("{PREFIX}{}\n", URL_SAFE_NO_PAD.encode(key.secret())));
    let text: String = std::iter::once(TITLE.to_owned()).chain(lines).collect();
    files::write(path, text.as_bytes(), false)?;
    Ok(())
}

fn parse(line: &str) -> Option<GroupKey> {
    let bytes = URL_SAFE_NO_PAD.decode(line.strip_prefix(PREFIX)?).ok()?;
    Some(GroupKey::new(bytes.try_into().ok()?))
}

/// Stores a receiver's replay state of encrypted datagrams, atomically.
pub fn write_memory(path: &Path, text: &str) -> Result<(), GroupError> {
    files::write(path, text.as_bytes(), false)?;
    Ok(())
}

/// Reads the stored replay state; `None` if there is none.
pub fn read_memory(path: &Path) -> Result<Option<String>, GroupError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => {
            let bytes = read.map_err(files::failed("read", path))?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_and_retired_and_the_newest_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/group.keys");
        assert!(matches!(read_keys(&path), Err(GroupError::Missing(_))));
        let first = add_key(&path).unwrap();
        let second = add_key(&path).unwrap();
        assert_eq!(read_keys(&path).unwrap(), [second.clone(), first.clone()]);
        assert!(cpumon_files::open_private(&path).is_ok());
        assert_eq!(retire_key(&path, &first.id().to_string()).unwrap(), first.id());
        assert_eq!(read_keys(&path).unwrap(), std::slice::from_ref(&second));
        assert!(matches!(retire_key(&path, "00"), Err(GroupError::Unknown { .. })));
        retire_key(&path, &second.id().to_string()).unwrap();
        assert!(matches!(read_keys(&path), Err(GroupError::Empty(_))));
        for _ in 0..MAX_KEYS {
            add_key(&path).unwrap();
        }
        assert!(matches!(add_key(&path), Err(GroupError::Full(_))));
    }
}
