//! The checkout: where it is and which files it has.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask is in a folder of the repository")
}

/// Paths, relative to the root, of all files that git tracks and of new ones that it does not ignore.
pub fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    // A file that was deleted but not yet committed is still listed.
    Ok(names.split_terminator('\0').filter(|name| root.join(name).is_file()).map(ToOwned::to_owned).collect())
}
