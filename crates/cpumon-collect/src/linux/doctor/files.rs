//! Small text files of /proc and /sys, as the checks read them.

use std::path::Path;

/// Longest file of /proc or /sys that is read, bytes; what is beyond is left out.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A small text file, its end trimmed; `Err` says why not in a word or two.
pub(super) fn text(root: &Path, file: &str) -> Result<String, String> {
    use std::io::Read;
    let path = root.join(file);
    let read = |path: &Path| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!("no {}", path.display())),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// The value behind `key:` in a file of such lines.
pub(super) fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}
