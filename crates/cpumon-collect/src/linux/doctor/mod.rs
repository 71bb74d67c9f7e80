//! The doctor. In: /proc, /sys and, where it may try, the kernel itself. Out: a [`Diagnosis`]: each probe, right, kernel
//! feature and tracepoint; there or not, why, and what it gives. Why: "it does not work here" must come with a reason and
//! a remedy, also for who is not root.
//!
//! What a kernel can do is read from its type information (BTF), which every user may read: each tracepoint is a type
//! `btf_trace_NAME`, each kind of map an enumerator, each option of the configuration that matters a member of a struct.

mod features;
mod kernel;
mod probes;
mod rights;
mod surroundings;

use std::path::Path;

use crate::{Diagnosis, DoctorOptions};

/// Longest file of /proc or /sys that is read, bytes; what is beyond is left out.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Looks at everything.
pub(crate) fn diagnose(options: &DoctorOptions) -> Diagnosis {
    let rights = rights::Rights::read(options);
    let release = kernel::Release::read(options);
    let mut checks = probes::checks(options, &rights);
    checks.extend(rights::checks(options, &rights, release.as_ref()));
    checks.extend(kernel::checks(options, release.as_ref()));
    checks.extend(features::checks(options));
    checks.extend(surroundings::checks(options));
    // Each part adds to more than one topic; people read them one after the other.
    checks.sort_by_key(|check| check.topic as u8);
    Diagnosis { checks }
}

/// A small text file, its end trimmed; `Err` says why not in a word or two.
fn text(root: &Path, file: &str) -> Result<String, String> {
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
fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}
