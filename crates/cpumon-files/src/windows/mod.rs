//! Windows: files that only their owner, SYSTEM and administrators may use, by an access list that is set when they are made. An existing
//! file is opened without following a link, and its owner and its access list decide whether it is used.

mod security;

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use self::security::{Access, Descriptor, Sid};
use crate::platform::directory_of;

/// The owner of a new file follows from the directory's access list; nothing is given away here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Owner(());

impl Owner {
    /// `None`: files need not be given to their directory's owner, because its access list admits the owner.
    pub fn of(_path: &Path) -> Option<Self> {
        None
    }
}

/// Creates a directory and its missing parents. New directories are for this user, SYSTEM and administrators, and so are
/// later entries. An existing one keeps its access list.
///
/// # Errors
/// The directory cannot be created, or another user made it in `%ProgramData%`.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    let Some(shared) = std::env::var_os("ProgramData") else { return create_missing(dir) };
    let us = security::this_user()?;
    let check = || check_makers(dir, Path::new(&shared), &us, security::owner_of);
    // Before, for a link would lead to where directories are made; and behind, for one may have been made meanwhile.
    check()?;
    create_missing(dir)?;
    check()
}

fn create_missing(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        create_missing(parent)?;
    }
    match security::create_dir(dir, &Descriptor::private(&security::this_user()?)?) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    }
}

/// Every user may make directories in `shared`. One that existed before a service belongs to its maker, who may replace
/// the files in it, or lead the service elsewhere by a link.
fn check_makers(
    dir: &Path,
    shared: &Path,
    us: &Sid,
    owner_of: impl Fn(&Path) -> io::Result<Sid>,
) -> io::Result<()> {
    for made in dir.ancestors().take_while(|dir| is_below(dir, shared)) {
        match made.symlink_metadata() {
            Ok(made_as) if made_as.file_type().is_symlink() => {
                return Err(io::Error::other(format!("{} is a link", made.display())));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        let owner = owner_of(made)?;
        if !owner.is_trusted(us) {
            let made = made.display();
            return Err(io::Error::other(format!(
                "{made} belongs to user {owner}, who could change what is in it: remove it"
            )));
        }
    }
    Ok(())
}

/// Compares names without regard to the case of ASCII letters. Short names (`PROGRA~3`) and paths of `\\?\` are not
/// recognised: their user chose them.
fn is_below(dir: &Path, shared: &Path) -> bool {
    let mut names = dir.components();
    let is_same = |name: Component<'_>| {
        names.next().is_some_and(|one| one.as_os_str().eq_ignore_ascii_case(name.as_os_str()))
    };
    shared.components().all(is_same) && names.next().is_some()
}

/// Creates a directory as [`create_dir`] does.
///
/// # Errors
/// The directory cannot be created.
pub fn create_dir_for(dir: &Path, _owner: Option<Owner>) -> io::Result<()> {
    create_dir(dir)
}

/// Creates a directory as [`create_dir`] does.
///
/// # Errors
/// The directory cannot be created, or another user made it in `%ProgramData%`.
pub fn create_own_dir(dir: &Path) -> io::Result<()> {
    create_dir(dir)
}

/// Does nothing: a service finds its files through the access list of their directory.
pub fn give_to_owner_of_directory(_file: &File, _path: &Path) {}

/// Creates a private file for writing.
///
/// # Errors
/// Something has this name already (`AlreadyExists`), or the file cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    security::open(path, Access::CreateNew, Some(&Descriptor::private(&security::this_user()?)?))
}

/// The path that is to be written where a user named this one.
///
/// # Errors
/// None here: making links needs rights that others do not have.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    Ok(path.to_owned())
}

/// Opens a file that a user named and that is no regular file.
///
/// # Errors
/// It cannot be opened.
pub fn open_special(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

/// Does nothing: a file has the access list of its directory, or one of its own.
pub fn keep_mode(_from: &Path, _to: &File) {}

/// Does nothing: a file's access list decides who may read it.
///
/// # Errors
/// None.
pub fn let_others_read(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Opens a file for reading and writing, and creates a private one if it is missing. Its content stays.
///
/// # Errors
/// It is a link or no regular file, belongs to a user who is neither this process's, nor SYSTEM, nor an administrator, nor the owner
/// of its directory, or cannot be opened.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    let us = security::this_user()?;
    let file = security::open(path, Access::Write, Some(&Descriptor::private(&us)?))?;
    check_kind(&file)?;
    let owner = security::rights_of(&file)?.owner;
    if !owner.is_trusted(&us) && owner != security::owner_of(directory_of(path))? {
        return Err(foreign(&owner));
    }
    Ok(file)
}

/// Checks an existing file as [`open_to_write`] does.
///
/// # Errors
/// Those of [`open_to_write`].
pub fn check_to_write(path: &Path) -> io::Result<()> {
    open_to_write(path).map(drop)
}

/// Opens a file that holds a secret for reading.
///
/// # Errors
/// It is a link or no regular file, belongs to a user who is neither this process's, nor SYSTEM, nor an administrator, gives rights to
/// others, or cannot be opened; `NotFound` if there is none.
pub fn open_private(path: &Path) -> io::Result<File> {
    let us = security::this_user()?;
    let file = security::open(path, Access::Read, None)?;
    check_kind(&file)?;
    let rights = security::rights_of(&file)?;
    if !rights.owner.is_trusted(&us) {
        return Err(foreign(&rights.owner));
    }
    match rights.others(&us) {
        None => Ok(file),
        Some(other) => Err(io::Error::other(format!(
            "others may use it ({other}): icacls FILE /inheritance:r /grant:r *S-1-5-18:F *S-1-5-32-544:F *{us}:F, and replace it if \
             they did"
        ))),
    }
}

/// None: Windows has no modes. An access list that lets others read a spool was given to its directory.
pub fn readable_by_others(_path: &Path) -> Option<u32> {
    None
}

/// Whether a file has other names (hard links).
///
/// # Errors
/// The system does not know the file.
pub(crate) fn has_other_names(file: &File) -> io::Result<bool> {
    Ok(security::link_count(file)? > 1)
}

/// Whether reading failed because another process has locked the file: locks of Windows keep others from reading.
pub(crate) fn is_locked(error: &io::Error) -> bool {
    error.raw_os_error() == Some(security::LOCK_VIOLATION)
}

/// Nothing: NTFS logs names before it answers, and a directory cannot be written to the disk by a program without rights.
///
/// # Errors
/// None.
pub fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether this process has the rights of an administrator, or is a service of the system.
pub fn is_privileged() -> bool {
    security::is_elevated().unwrap_or(false)
}

/// The user who runs this process as `sid S-…`, or `unknown`.
pub fn this_user() -> String {
    security::this_user().map_or_else(|_| "unknown".to_owned(), |sid| format!("sid {sid}"))
}

fn check_kind(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    if kind.is_file() { Ok(()) } else { Err(io::Error::other("it is no regular file")) }
}

fn foreign(owner: &Sid) -> io::Error {
    io::Error::other(format!("it belongs to user {owner}"))
}

#[cfg(test)]
mod tests;
