//! [`OutputFile`]: a file that a user named. It exists only when it is complete, so that a partial export is never
//! mistaken for a complete one; only its owner may read it, because its data comes from a private file; and neither a
//! link nor a pipe of another user is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::ExportError;

const BUFFER_BYTES: usize = 1 << 18;

/// A file that is written under a temporary name in the same directory and renamed by [`OutputFile::finish`]. If it is dropped
/// before, nothing is left. An existing path that is not a regular file (a device, a pipe) is written directly. A new file has mode 0600;
/// one that is replaced keeps its mode.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// The temporary file; `None` if the path itself is written.
    temporary: Option<PathBuf>,
    file: Option<BufWriter<File>>,
}

impl OutputFile {
    /// Creates the temporary file, or opens a device or a pipe.
    pub fn create(path: &Path) -> Result<Self, ExportError> {
        let path = resolved(path)?;
        if Self::is_special(&path) {
            return Self::open(path, cpumon_files::open_special);
        }
        let temporary = temporary_path(&path);
        // Fails if the name exists: neither the file of another export nor the target of a link is overwritten.
        let file = cpumon_files::create_new(&temporary).map_err(failed("create a file beside", &path))?;
        Ok(Self { path, temporary: Some(temporary), file: Some(buffered(file)) })
    }

    /// Whether a path is written directly: a rename would replace a device or a pipe by a file.
    pub fn is_special(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| !meta.is_file())
    }

    /// Opens the file itself and empties it, for those who read it while it is written.
    pub fn in_place(path: &Path) -> Result<Self, ExportError> {
        let path = resolved(path)?;
        if Self::is_special(&path) {
            return Self::open(path, cpumon_files::open_special);
        }
        Self::open(path, |path| {
            let file = cpumon_files::open_to_write(path)?;
            file.set_len(0).map(|()| file)
        })
    }

    fn open(path: PathBuf, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<Self, ExportError> {
        let file = open(&path).map_err(failed("open", &path))?;
        Ok(Self { path, temporary: None, file: Some(buffered(file)) })
    }

    /// Lets every user read it, for data that is not secret. A file that is replaced keeps its mode all the same.
    pub fn let_others_read(&self) -> Result<(), ExportError> {
        let Some(file) = self.file.as_ref().filter(|_| self.temporary.is_some()) else { return Ok(()) };
        cpumon_files::let_others_read(file.get_ref()).map_err(failed("let others read", &self.path))
    }

    /// Path of the file that is written until [`OutputFile::finish`]; `None` for a device or a pipe.
    pub fn temporary(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// Writes the buffer, syncs, and renames the file to its path.
    pub fn finish(mut self) -> Result<(), ExportError> {
        if let Some(writer) = self.file.take() {
            let file =
                writer.into_inner().map_err(|error| failed("write", &self.path)(error.into_error()))?;
            // Before the rename: after a crash the path must not be an empty file. Pipes cannot be synced.
            if self.temporary.is_some() {
                cpumon_files::keep_mode(&self.path, &file);
                file.sync_all().map_err(failed("write", &self.path))?;
            }
        }
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path).map_err(failed("put in place", &self.path))?;
            // It has its final name now; `Drop` must not remove it.
            self.temporary = None;
        }
        Ok(())
    }

    /// Adds the path to an error of the [`Write`] implementation.
    pub fn with_path(&self, error: ExportError) -> ExportError {
        match error {
            ExportError::Write(source) => failed("write", &self.path)(source),
            other => other,
        }
    }

    fn writer(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the file is closed"))
    }
}

/// A hidden name in the same directory, so that the rename stays within one file system. The process id avoids collisions of
/// two exports at the same time.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// A symbolic link stays one: its target is replaced.
fn resolved(path: &Path) -> Result<PathBuf, ExportError> {
    cpumon_files::resolve(path).map_err(failed("write", path))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::File { operation, path, source }
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(BUFFER_BYTES, file)
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The file is closed before it is removed (Windows requires that); the buffer is discarded, not written.
            if let Some(writer) = self.file.take() {
                let (_file, _unwritten) = writer.into_parts();
            }
            let _best_effort = std::fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shows_up_only_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        std::fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_the_owner_may_read_it_and_a_link_of_another_user_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("out.csv"), dir.path().join("link.csv"));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let write = |path: &Path| -> Result<(), ExportError> {
            let mut file = OutputFile::create(path)?;
            file.write_all(b"new")?;
            file.finish()
        };
        write(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        symlink("out.csv", &link).unwrap();
        write(&link).unwrap();
        assert!(
            link.is_symlink() && mode(&path) == 0o644,
            "a link of our own stays, and the mode of its target"
        );
        std::fs::write(&path, "precious").unwrap();
        if lchown(&link, Some(65_534), None).is_err() {
            assert!(std::env::var_os("CI").is_none(), "this test must run as root in CI");
            println!("skipped: needs root to give a link to another user");
            return;
        }
        for refused in [write(&link), OutputFile::in_place(&link).map(|_| ())] {
            let error = refused.unwrap_err();
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains("link.csv: it is a symbolic link of user 65534"), "{text}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        // Another user's file says nothing about who may read ours.
        let left = dir.path().join("left.csv");
        std::fs::write(&left, "").unwrap();
        std::fs::set_permissions(&left, PermissionsExt::from_mode(0o666)).unwrap();
        std::os::unix::fs::chown(&left, Some(65_534), None).unwrap();
        write(&left).unwrap();
        assert_eq!(mode(&left), 0o600);
    }

    /// In a directory of another user a link in its place gave the mode to the link's target.
    #[test]
    fn the_mode_is_kept_by_the_file_that_was_written() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("out.csv"), dir.path().join("victim"));
        for (name, mode) in [(&path, 0o644), (&victim, 0o600)] {
            std::fs::write(name, "").unwrap();
            std::fs::set_permissions(name, PermissionsExt::from_mode(mode)).unwrap();
        }
        let file = OutputFile::create(&path).unwrap();
        let temporary = file.temporary().unwrap().to_owned();
        std::fs::remove_file(&temporary).unwrap();
        symlink(&victim, &temporary).unwrap();
        file.finish().unwrap();
        assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// A user who left a pipe at the path of root's export read the data that root exported.
    #[test]
    fn a_pipe_of_another_user_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("out.csv");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        let mut file = OutputFile::create(&pipe).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(reader.join().unwrap(), b"new", "a pipe of our own");
        if std::os::unix::fs::chown(&pipe, Some(65_534), None).is_err() {
            assert!(std::env::var_os("CI").is_none(), "this test must run as root in CI");
            println!("skipped: needs root to give a pipe to another user");
            return;
        }
        // Neither waits for a reader.
        for refused in [OutputFile::create(&pipe), OutputFile::in_place(&pipe)] {
            let error = refused.unwrap_err();
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains("out.csv: it is a pipe of user 65534, who could read"), "{text}");
        }
        let opened = File::options().read(true).write(true).open(&pipe).unwrap();
        assert!(OutputFile::create(&pipe).is_ok(), "who started us passed it on");
        drop(opened);
    }

    #[test]
    fn a_full_disk_is_an_error_with_the_path() {
        if !Path::new("/dev/full").exists() {
            assert!(std::env::var_os("CI").is_none(), "/dev/full is missing");
            println!("skipped: no /dev/full");
            return;
        }
        let mut file = OutputFile::create(Path::new("/dev/full")).unwrap();
        let error = file
            .write_all(&vec![b'x'; BUFFER_BYTES + 1])
            .map_err(|error| file.with_path(error.into()))
            .unwrap_err();
        let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        assert!(text.starts_with("cannot write /dev/full: No space left"), "{text}");
        let mut small = OutputFile::create(Path::new("/dev/full")).unwrap();
        small.write_all(b"x").unwrap();
        assert!(small.finish().unwrap_err().to_string().starts_with("cannot write /dev/full"));
    }

    #[test]
    fn a_directory_that_does_not_exist_is_an_error_with_the_path() {
        let text = OutputFile::create(Path::new("/nonexistent/out.csv")).unwrap_err().to_string();
        assert!(text.starts_with("cannot create a file beside /nonexistent/out.csv"), "{text}");
    }
}
