//! unix: files of mode 0600, opened without following a link, and only if a trusted user owns them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::platform::directory_of;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
/// Mode of files that are not secret.
const SHARED_FILE_MODE: u32 = 0o644;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Devices that keep nothing or are this process's own, by number: null, zero, full, tty. In a container their owner may be unknown.
const PLAIN_DEVICES: [(u32, u32); 4] = [(1, 3), (1, 5), (1, 7), (5, 0)];

/// Creates a directory and its missing parents, all with mode 0700. An existing one keeps its mode.
///
/// # Errors
/// The directory cannot be created.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
}

/// Creates a directory as [`create_dir`] does, for files that no other user may exchange. A link to one is followed if this user or root made it.
///
/// # Errors
/// It is there and belongs to a user who is neither this process's, nor root, nor the owner of the directory above; or it cannot be
/// created.
pub fn create_own_dir(dir: &Path) -> io::Result<()> {
    let dir = resolve(dir)?;
    create_dir(&dir)?;
    let owner = dir.metadata()?.uid();
    // The owner of the directory above can replace any directory in it anyway.
    if is_us_or_root(owner) || owner == directory_of(&dir).metadata()?.uid() {
        return Ok(());
    }
    Err(io::Error::other(format!("it belongs to user {owner}, who could change what is in it: remove it")))
}

/// The user and group of a file or directory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// Owner and group of an existing file or directory.
    pub fn of(path: &Path) -> Option<Self> {
        path.metadata().ok().map(|meta| Self { uid: meta.uid(), gid: meta.gid() })
    }
}

/// Creates a directory as [`create_dir`] does. If it is new, and this process may, it belongs to `owner`.
///
/// # Errors
/// The directory cannot be created, or another user made it meanwhile.
pub fn create_dir_for(dir: &Path, owner: Option<Owner>) -> io::Result<()> {
    if dir.exists() {
        return Ok(());
    }
    create_own_dir(dir)?;
    if let Some(owner) = owner.filter(|_| rustix::process::geteuid().is_root()) {
        let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
        let made = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(dir)?;
        fchown(&made, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(())
}

/// Gives a file that root has just made to the owner of its directory, whose service must be able to use it.
pub fn give_to_owner_of_directory(file: &File, path: &Path) {
    let give = || {
        let meta = file.metadata()?;
        let owner = Owner::of(directory_of(path)).filter(|owner| owner.uid != 0);
        // Another name of the file may be elsewhere, where it is not his.
        let is_ours = meta.uid() == 0 && meta.nlink() <= 1 && rustix::process::geteuid().is_root();
        match owner.filter(|_| is_ours) {
            Some(owner) => fchown(file, Some(owner.uid), Some(owner.gid)),
            None => Ok(()),
        }
    };
    if let Err(error) = give() {
        log::debug!("cannot give {} to the owner of its directory: {error}", path.display());
    }
}

/// Creates a file of mode 0600 for writing.
///
/// # Errors
/// Something has this name already (`AlreadyExists`), or the file cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// The path that is to be written where a user named this one: a symbolic link is followed if this user or root made it.
///
/// # Errors Another user made the link: its target might be precious. Or there are too many links.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some(link) = std::fs::symlink_metadata(&at).ok().filter(Metadata::is_symlink) else {
            return Ok(at);
        };
        check_link(&link)?;
        let target = directory_of(&at).join(std::fs::read_link(&at)?);
        // Links to open files in /proc have a text that is no path.
        if at.exists() && std::fs::symlink_metadata(&target).is_err() {
            return Ok(at);
        }
        at = target;
    }
    Err(io::Error::other("too many symbolic links"))
}

fn check_link(link: &Metadata) -> io::Result<()> {
    if is_us_or_root(link.uid()) {
        return Ok(());
    }
    Err(io::Error::other(format!("it is a symbolic link of user {}", link.uid())))
}

/// Opens a file that a user named, if [`resolve`] found it to be no regular file: a device or a pipe.
///
/// # Errors Another user made it, and could read the output; a terminal or pipe with which this process was started is allowed. Or it
/// cannot be opened.
pub fn open_special(path: &Path) -> io::Result<File> {
    let named = std::fs::symlink_metadata(path)?;
    let mut options = OpenOptions::new();
    options.write(true);
    if named.is_symlink() {
        // To an open file, in /proc: no other link is left.
        check_link(&named)?;
    } else {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let meta = path.metadata()?;
    // Before it is opened: a pipe waits for its other end.
    check_special(&meta)?;
    let file = options.open(path)?;
    if is_same(&file.metadata()?, &meta) {
        return Ok(file);
    }
    Err(io::Error::other("another file took its place meanwhile"))
}

fn check_special(meta: &Metadata) -> io::Result<()> {
    let (kind, owner) = (meta.file_type(), meta.uid());
    let number = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let is_plain = kind.is_char_device() && PLAIN_DEVICES.contains(&number);
    // An unwritable directory is reported when it is opened.
    if is_us_or_root(owner) || is_plain || kind.is_dir() || is_open_here(meta) {
        return Ok(());
    }
    let kind = if kind.is_fifo() { "pipe" } else { "device" };
    Err(io::Error::other(format!("it is a {kind} of user {owner}, who could read what is written")))
}

/// Whether this process has it open: its parent passed it on, as sudo does with another user's terminal.
fn is_open_here(meta: &Metadata) -> bool {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let mut open = open.filter_map(|entry| entry.ok()?.path().metadata().ok());
    open.any(|open| is_same(&open, meta))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Gives `to` the mode of `from`, if that is there and belongs to this user or root. Otherwise `to` stays as it is.
pub fn keep_mode(from: &Path, to: &File) {
    if let Some(meta) =
        std::fs::symlink_metadata(from).ok().filter(|meta| meta.is_file() && is_us_or_root(meta.uid()))
    {
        let _best_effort = to.set_permissions(meta.permissions());
    }
}

/// Lets every user read a file that this process has made: its mode becomes 0644.
///
/// # Errors
/// The file system has no modes.
pub fn let_others_read(file: &File) -> io::Result<()> {
    file.set_permissions(PermissionsExt::from_mode(SHARED_FILE_MODE))
}

/// Opens a file for reading and writing, and creates it with mode 0600 if it is missing. Its content stays.
///
/// # Errors
/// It is a symbolic link or no regular file, belongs to a user who is neither this process's, nor root, nor the owner of its
/// directory, or cannot be opened.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let (file, meta) = open_no_link(&mut options, path)?;
    check_owner(path, &meta)?;
    Ok(file)
}

/// Checks an existing file as [`open_to_write`] does, but opens nothing: a process that closes a file of SQLite's loses the locks that
/// SQLite has on it.
///
/// # Errors
/// Those of [`open_to_write`].
pub fn check_to_write(path: &Path) -> io::Result<()> {
    let meta = std::fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    check_owner(path, &meta)
}

/// The owner of the directory can replace any file in it anyway. Without this, root could not import into the store of a
/// service that has a user of its own.
fn check_owner(path: &Path, meta: &Metadata) -> io::Result<()> {
    let owner = meta.uid();
    if is_us_or_root(owner) || owner == directory_of(path).metadata()?.uid() {
        Ok(())
    } else {
        Err(foreign(owner))
    }
}

/// Opens a file that holds a secret for reading.
///
/// # Errors
/// It is a symbolic link or no regular file, belongs to a user who is neither this process's nor root, gives rights to others,
/// or cannot be opened; `NotFound` if there is none.
pub fn open_private(path: &Path) -> io::Result<File> {
    let (file, meta) = open_no_link(OpenOptions::new().read(true), path)?;
    if !is_us_or_root(meta.uid()) {
        return Err(foreign(meta.uid()));
    }
    let mode = meta.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(io::Error::other(format!(
            "others may use it (mode {mode:03o}): chmod 600 it, and replace it if they did"
        )));
    }
    Ok(file)
}

/// Whether a file has other names (hard links).
///
/// # Errors
/// The system does not know the file.
pub(crate) fn has_other_names(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 1)
}

/// Whether reading failed because another process has locked the file: here locks stop no reader.
pub(crate) fn is_locked(_error: &io::Error) -> bool {
    false
}

/// Makes renames and new files of a directory last over a power cut.
///
/// # Errors
/// The directory cannot be opened or written.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Whether this process has every right to files: root.
pub fn is_privileged() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user who runs this process as `uid N`, for the audit log.
pub fn this_user() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}

/// The mode of an existing file that users other than its owner can open; `None` if they cannot, or there is no such file.
pub fn readable_by_others(path: &Path) -> Option<u32> {
    let mode = path.metadata().ok()?.mode() & 0o777;
    let directory = directory_of(path).metadata().ok()?.mode();
    // A file's mode does not matter where others may not enter its directory.
    (mode & OTHERS != 0 && directory & 0o011 != 0).then_some(mode)
}

fn open_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    // Without NONBLOCK, opening a FIFO that somebody left here would wait for its other end for ever.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::Error::other("it is a symbolic link"),
        _ => error,
    })?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok((file, meta))
}

fn is_us_or_root(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn foreign(owner: u32) -> io::Error {
    io::Error::other(format!("it belongs to user {owner}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    const STRANGER: u32 = 4242;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_its_owner_only_and_what_is_there_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b");
        create_dir(&new).unwrap();
        assert_eq!((mode(&new), mode(&dir.path().join("a"))), (0o700, 0o700));
        let (first, second) = (new.join("first"), new.join("second"));
        assert!(crate::create_empty(&first).unwrap());
        drop(open_to_write(&second).unwrap());
        assert_eq!((mode(&first), mode(&second)), (0o600, 0o600));
        std::fs::set_permissions(&first, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(readable_by_others(&first), None, "its directory is closed");
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(!crate::create_empty(&first).unwrap(), "it was there");
        create_dir(&new).unwrap();
        assert_eq!((mode(&first), mode(&new)), (0o644, 0o755));
        assert_eq!((readable_by_others(&first), readable_by_others(&second)), (Some(0o644), None));
    }

    #[test]
    fn links_directories_and_fifos_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let errors = [open_to_write(&link).map(drop), open_private(&link).map(drop), check_to_write(&link)];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.to_string(), "it is a symbolic link");
        }
        assert!(open_private(dir.path()).unwrap_err().to_string().contains("regular file"));
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for error in [open_to_write(&fifo).map(drop), check_to_write(&fifo)].map(Result::unwrap_err) {
            assert_eq!(error.to_string(), "it is no regular file");
        }
    }

    #[test]
    fn a_file_of_another_user_is_not_used_unless_he_owns_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("planted");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        drop(open_private(&path).unwrap());
        if chown(&path, Some(STRANGER), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        let errors = [open_to_write(&path).map(drop), open_private(&path).map(drop), check_to_write(&path)];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.to_string(), "it belongs to user 4242");
        }
        chown(dir.path(), Some(STRANGER), None).unwrap();
        assert!(open_to_write(&path).is_ok() && check_to_write(&path).is_ok(), "his directory");
        let made = dir.path().join("made");
        give_to_owner_of_directory(&open_to_write(&made).unwrap(), &made);
        assert_eq!(Owner::of(&made).unwrap().uid, STRANGER);
        let (shared, other) = (dir.path().join("shared"), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("file"), "").unwrap();
        std::fs::hard_link(other.path().join("file"), &shared).unwrap();
        give_to_owner_of_directory(&open_to_write(&shared).unwrap(), &shared);
        assert_eq!(Owner::of(&shared).unwrap().uid, 0, "a file with another name stays as it is");
        assert!(open_private(&path).is_err(), "a secret is never taken from him");
    }

    #[test]
    fn a_directory_of_another_user_is_not_used_unless_he_owns_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        let (planted, link) = (dir.path().join("planted"), dir.path().join("link"));
        create_own_dir(&planted).unwrap();
        symlink("planted", &link).unwrap();
        create_own_dir(&link).unwrap();
        assert_eq!(mode(&planted), 0o700);
        if chown(&planted, Some(STRANGER), None).is_err() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        for used in [&planted, &link] {
            let error = create_own_dir(used).unwrap_err().to_string();
            assert_eq!(error, "it belongs to user 4242, who could change what is in it: remove it");
        }
        chown(dir.path(), Some(STRANGER), None).unwrap();
        create_own_dir(&planted).unwrap();
    }

    /// Renamed to a lock file, root's export became the file of the user in whose directory it was.
    #[test]
    fn only_a_new_file_is_given_to_the_owner_of_its_directory() {
        use crate::{AuditEvent, AuditLog, LockFile};
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        if chown(dir.path(), Some(STRANGER), None).is_err() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        for name in ["old-writer", "audit.jsonl"] {
            std::fs::write(path(name), "an export\n").unwrap();
        }
        assert!(LockFile::take(&path("old-writer")).is_err());
        drop(LockFile::take(&path("new-writer")).unwrap());
        let log = AuditLog::in_dir(dir.path());
        log.note(AuditEvent::Enrolled, "10.0.0.7", "web1", "");
        log.note(AuditEvent::Refused, "10.0.0.7", "web1", "");
        let owner = |name: &str| Owner::of(&path(name)).unwrap().uid;
        assert_eq!(["old-writer", "audit.jsonl"].map(owner), [0; 2]);
        assert_eq!(["new-writer", "audit-refused.jsonl"].map(owner), [STRANGER; 2]);
    }

    #[test]
    fn a_secret_that_others_may_read_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        assert_eq!(open_private(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(open_private(&path).unwrap_err().to_string().contains("mode 640"));
    }

    #[test]
    fn a_planted_link_keeps_its_target_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join("lock"));
        std::fs::write(&victim, "precious").unwrap();
        for plant in [|a: &Path, b: &Path| symlink(a, b), |a: &Path, b: &Path| std::fs::hard_link(a, b)] {
            plant(&victim, &path).unwrap();
            assert!(matches!(crate::LockFile::take(&path), Err(crate::LockError::Io { .. })));
            assert!(matches!(crate::LockFile::wait(&path), Err(crate::LockError::Io { .. })));
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
