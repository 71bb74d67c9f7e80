//! Names of users, out of passwd(5). Not out of getpwuid(3): that loads plugins (NSS), which a static program does not have, and which may ask a
//! server on the network while the processes are measured. Users that only a server knows have no name here.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::file;
use crate::{SourceOptions, parse};

/// Largest part of the file that is read; users behind it have no names.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Longest name of a user, bytes. `useradd` allows 32.
const MAX_NAME_BYTES: usize = 64;

/// Identity and state of a file, to notice changes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// The users of the host whose processes are measured.
pub(crate) struct UserNames {
    path: PathBuf,
    stamp: Option<FileStamp>,
    is_checked: bool,
    names: HashMap<u32, Box<str>>,
}

impl UserNames {
    pub(crate) fn new(options: &SourceOptions) -> Self {
        // A container that sees the host's processes elsewhere has users of its own; those of the host are where init sees them.
        let is_of_other = options.proc_root != Path::new("/proc") && options.fs_root == Path::new("/");
        let root = if is_of_other { options.proc_root.join("1/root") } else { options.fs_root.clone() };
        Self { path: root.join("etc/passwd"), stamp: None, is_checked: false, names: HashMap::new() }
    }

    /// The name of a user. The file is checked once a pass at most, and read again only if it was changed.
    pub(crate) fn name(&mut self, uid: u32) -> Option<&str> {
        if !self.is_checked {
            self.is_checked = true;
            self.renew();
        }
        self.known(uid)
    }

    /// The name of a user in the file as last read.
    pub(crate) fn known(&self, uid: u32) -> Option<&str> {
        // User 0 is root on every Linux, whatever the file has.
        if uid == 0 { Some("root") } else { self.names.get(&uid).map(|name| &**name) }
    }

    /// Ends a pass: the file may change from here on.
    pub(crate) fn end_pass(&mut self) {
        self.is_checked = false;
    }

    fn renew(&mut self) {
        let Ok((file, stamp)) = self.open() else { return };
        if self.stamp == Some(stamp) {
            return;
        }
        let mut text = Vec::new();
        if let Ok(length) = file::read_whole(&file, &mut text, MAX_FILE_BYTES) {
            text.truncate(length);
            self.names = parse_passwd(&text);
            self.stamp = Some(stamp);
        }
    }

    fn open(&self) -> io::Result<(File, FileStamp)> {
        // Without waiting, should something else than a file have the name.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.path)?;
        let meta = file.metadata()?;
        let changed = (meta.mtime(), meta.mtime_nsec());
        Ok((file, FileStamp { inode: meta.ino(), size: meta.size(), changed }))
    }
}

/// The names of passwd(5) by id; of two with one id the first, as getpwuid(3) has it.
fn parse_passwd(text: &[u8]) -> HashMap<u32, Box<str>> {
    let mut names = HashMap::new();
    for line in text.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b':');
        let (name, uid) = (fields.next().unwrap_or_default(), fields.nth(1));
        let uid = uid.and_then(parse::parse_u64).and_then(|uid| u32::try_from(uid).ok());
        let Some(uid) = uid.filter(|_| !name.is_empty() && !name.starts_with(b"#")) else { continue };
        let name = String::from_utf8_lossy(name);
        names.entry(uid).or_insert_with(|| name[..name.floor_char_boundary(MAX_NAME_BYTES)].into());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd_are_names() {
        let text =
            b"root:x:0:0:root:/root:/bin/bash\n#old:x:7:7::/:\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n\
            twin:x:1000:1::/:/bin/sh\nbroken:x\nneg:x:-1:1::/:\n\xff\x1b[2J:x:8:8::/:\nlast:x:9:9::/:";
        let names = parse_passwd(text);
        let name = |uid| names.get(&uid).map(AsRef::as_ref);
        assert_eq!((name(0), name(1000), name(9)), (Some("root"), Some("ann"), Some("last")));
        assert_eq!((name(7), name(8), names.len()), (None, Some("\u{fffd}\u{1b}[2J"), 4));
        let long = format!("{}:x:5:5::/:\n", "ä".repeat(100));
        assert_eq!(parse_passwd(long.as_bytes())[&5].len(), 64);
    }

    #[test]
    fn a_changed_file_is_read_again_in_the_next_pass() {
        let root = tempfile::tempdir().unwrap();
        let options = SourceOptions { fs_root: root.path().into(), ..SourceOptions::default() };
        let mut users = UserNames::new(&options);
        assert_eq!((users.name(0).map(str::to_owned), users.name(5)), (Some("root".into()), None), "no file");
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let write = |text: &str| std::fs::write(root.path().join("etc/passwd"), text).unwrap();
        write("ann:x:5:5::/:\n");
        assert_eq!(users.name(5), None, "the same pass");
        users.end_pass();
        assert_eq!(users.name(5), Some("ann"));
        write("annabel:x:5:5::/:\n");
        users.end_pass();
        assert_eq!(users.name(5), Some("annabel"));
        std::fs::remove_file(root.path().join("etc/passwd")).unwrap();
        users.end_pass();
        assert_eq!(users.name(5), Some("annabel"), "a file that is being replaced");
    }
}
