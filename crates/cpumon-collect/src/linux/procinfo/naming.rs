//! Reads the names of programs and of their scripts from the files of one process in /proc, and counts refused files; the cache shares the
//! result. [`UserNames`] has the names of users.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cpumon_model::{Comm, ProcessInfo, ProcessKey};
use rustix::fs::{OFlags, readlinkat_raw};
use rustix::io::Errno;

use super::super::file;
use crate::script::{self, ExecScript, ScriptCommand};
use crate::source::UNKNOWN_UID;
use crate::{SourceOptions, parse, scrub};

/// Longest command line of a program that has long ones before the name that counts: class paths of Java.
const MAX_LONG_BYTES: usize = 64 * 1024;

/// Data about a process that a source has without reading files.
#[derive(Copy, Clone, Debug)]
pub(crate) struct About {
    pub(crate) key: ProcessKey,
    /// The main thread's name.
    pub(crate) comm: Comm,
    pub(crate) is_kernel: bool,
    /// Its real user, if known; otherwise it is read from status.
    pub(crate) uid: Option<u32>,
}

/// The last exec of a process.
pub(crate) struct Exec<'a> {
    /// Base name of the executable.
    pub(crate) program: Cow<'a, str>,
    /// The first 15 bytes of the base name of the file passed to exec, which may be a script.
    pub(crate) comm: Comm,
    /// The script in its arguments.
    pub(crate) script: &'a ExecScript,
    /// It was reported in this pass: earlier data about the process is older than it.
    pub(crate) is_new: bool,
}

/// How a program and the script that it runs get their names.
pub(super) struct Naming<'a> {
    pub(super) about: &'a About,
    pub(super) exec: Option<&'a Exec<'a>>,
    pub(super) known: Option<&'a ProcessInfo>,
    pub(super) with_cmdline: bool,
    pub(super) script_names: bool,
}

impl Naming<'_> {
    pub(super) fn read(&self, files: &mut Files<'_>, buffer: &mut [u8], into: &mut Scratch) {
        let Scratch { name, interpreter, cmdline, .. } = into;
        if let Some(path) = files.link("exe", buffer) {
            name.push_str(&base_name(path));
        } else if let Some(exec) = self.exec {
            name.push_str(&exec.program);
            // The name is known all the same: nothing is missing.
            files.denied = files.others_denied;
        }
        let mut raw: &[u8] = &[];
        // Where the executable is refused, the command line may have its name in full.
        if name.is_empty() || self.with_cmdline || self.asks_for_script(name) {
            let read = files.read("cmdline", buffer);
            if read == Some(&[]) {
                // A process that is ending has neither executable nor arguments: nothing was refused.
                (files.denied, files.others_denied) = (0, 0);
            }
            raw = read.unwrap_or_default();
            if name.is_empty() {
                name.push_str(&longer_name(raw, self.about.comm).unwrap_or(self.about.comm.to_str_lossy()));
            }
            if self.with_cmdline {
                scrub::scrub_cmdline(raw, cmdline);
            }
        }
        if let Some(script) = self.script(files, raw, name) {
            std::mem::swap(name, interpreter);
            name.push_str(&script);
        }
    }

    /// Whether the command line must be read for the name of a script.
    fn asks_for_script(&self, executable: &str) -> bool {
        let is_known = self.known.is_some_and(|info| info.executable() == executable);
        // Other than by the executable and the name, a second script of one interpreter is not noticed.
        let may_have_changed = !is_known || script::is_interpreter(executable);
        self.script_names && may_have_changed && script::may_run_script(executable, self.about.comm)
    }

    fn script(&self, files: &mut Files<'_>, raw: &[u8], executable: &str) -> Option<String> {
        if !self.script_names || !script::may_run_script(executable, self.about.comm) {
            return None;
        }
        if let Some(info) = self.known.filter(|info| raw.is_empty() && info.executable() == executable) {
            return (!info.interpreter.is_empty()).then(|| info.name.to_string());
        }
        // It ended before its command line could be read.
        if let Some(Exec { program, script: ExecScript::Named(name), .. }) = self.exec
            && raw.is_empty()
            && program == executable
        {
            return Some(name.to_string());
        }
        let command =
            ScriptCommand { executable, comm: self.about.comm, cmdline: raw, is_cut: raw.len() == MAX_BYTES };
        if command.is_cut && script::has_long_options(executable) {
            let mut long = vec![0; MAX_LONG_BYTES];
            let cmdline = files.read("cmdline", &mut long)?;
            return ScriptCommand { cmdline, is_cut: cmdline.len() == MAX_LONG_BYTES, ..command }
                .script(|| None);
        }
        command.script(|| directory_name(files.link("cwd", &mut [0; MAX_BYTES])?))
    }
}

/// The last part of a path; the kernel marks a replaced executable with ` (deleted)`.
fn base_name(path: &[u8]) -> Cow<'_, str> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    // For a file in memory alone, such as `/memfd:runc_cloned:/proc/self/exe`, the name that its maker gave it.
    if let Some(in_memory) = path.strip_prefix(b"/memfd:") {
        return String::from_utf8_lossy(
            in_memory.split(|&b| matches!(b, b':' | b'/')).next().unwrap_or_default(),
        );
    }
    String::from_utf8_lossy(path.rsplit(|&b| b == b'/').next().unwrap_or_default())
}

/// The name of the directory that is the program; none for the root directory.
fn directory_name(path: &[u8]) -> Option<String> {
    let name = script::is_path(path).then(|| base_name(path))?;
    (!name.is_empty()).then(|| name.into_owned())
}

/// Where the executable is not readable: the program name from the command line, if it begins with the kernel's 15 bytes.
pub(super) fn longer_name(cmdline: &[u8], comm: Comm) -> Option<Cow<'_, str>> {
    let program = cmdline.split(|&b| b == 0).next()?;
    let name = program.rsplit(|&b| b == b'/').next()?;
    // A process can write anything into its command line, so the name counts only where it extends the kernel's name.
    let is_cut = comm.as_bytes().len() == Comm::MAX_BYTES
        && name.starts_with(comm.as_bytes())
        && script::is_path(name);
    is_cut.then(|| String::from_utf8_lossy(name))
}

/// Longest command line, cgroup path and executable path that are read.
pub(super) const MAX_BYTES: usize = 4096;

/// Files of one process while it is read.
pub(super) struct Files<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) pid: u32,
    pub(super) denied: u64,
    /// Refused files other than the executable's link.
    pub(super) others_denied: u64,
    pub(super) vanished: bool,
}

impl Files<'_> {
    pub(super) fn read<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let result = file::with_path(self.pid, name, |path| file::read_at(self.dir, path, buffer));
        let before = self.denied;
        let content = self.note(result);
        self.others_denied += self.denied - before;
        content
    }

    pub(super) fn link<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        match file::with_path(self.pid, name, |path| readlinkat_raw(self.dir, path, &mut *buffer)) {
            // A process without an executable of its own (kernel thread, zombie) says ENOENT: that is not "gone".
            Err(Errno::NOENT) => None,
            result => self.note(result).and_then(|length| buffer.get(..length)),
        }
    }

    fn note<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Errno::ACCESS | Errno::PERM) => self.denied += 1,
            // Mostly ENOENT or ESRCH: the process has ended. Its earlier data stays.
            Err(_) => self.vanished = true,
        }
        None
    }
}

/// A [`ProcessInfo`] in kept buffers, so that reading it again allocates only when something changed.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) name: String,
    pub(super) interpreter: String,
    pub(super) comm: String,
    pub(super) cmdline: String,
    pub(super) cgroup: String,
    pub(super) user: String,
    pub(super) uid: u32,
    pub(super) is_kernel: bool,
    pub(super) is_gone: bool,
}

impl Scratch {
    pub(super) fn clear(&mut self, about: &About) {
        let Self { name, interpreter, comm, cmdline, cgroup, user, .. } = self;
        for text in [name, interpreter, comm, cmdline, cgroup, user] {
            text.clear();
        }
        (self.uid, self.is_kernel, self.is_gone) = (UNKNOWN_UID, about.is_kernel, false);
    }

    pub(super) fn says(&self, info: &ProcessInfo) -> bool {
        *self.name == *info.name
            && *self.interpreter == *info.interpreter
            && *self.user == *info.user
            && *self.comm == *info.comm
            && *self.cmdline == *info.cmdline
            && *self.cgroup == *info.cgroup
            && self.uid == info.uid
            && self.is_kernel == info.is_kernel
    }

    pub(super) fn to_info(&self) -> ProcessInfo {
        ProcessInfo {
            name: self.name.as_str().into(),
            interpreter: self.interpreter.as_str().into(),
            comm: self.comm.as_str().into(),
            cmdline: self.cmdline.as_str().into(),
            cgroup: self.cgroup.as_str().into(),
            container: parse::container_name(&self.cgroup).into(),
            uid: self.uid,
            user: self.user.as_str().into(),
            is_kernel: self.is_kernel,
            ..ProcessInfo::default()
        }
    }
}

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

/// The users of the host whose processes are measured, out of passwd(5). Not out of getpwuid(3): that loads plugins (NSS), which a static
/// program does not have, and which may ask a server on the network while the processes are measured. Users that only a server knows have
/// no name here.
pub(super) struct UserNames {
    path: PathBuf,
    stamp: Option<FileStamp>,
    is_checked: bool,
    names: HashMap<u32, Box<str>>,
}

impl UserNames {
    pub(super) fn new(options: &SourceOptions) -> Self {
        let own = options.fs_root.join("etc/passwd");
        let of_init = options.proc_root.join("1/root/etc/passwd");
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        // A container that sees the host's processes has users of its own; those of the host are where init sees them.
        let is_other = || identity(&of_init).is_some_and(|theirs| Some(theirs) != identity(&own));
        let is_of_other =
            options.fs_root == Path::new("/") && (options.proc_root != Path::new("/proc") || is_other());
        let path = if is_of_other { of_init } else { own };
        Self { path, stamp: None, is_checked: false, names: HashMap::new() }
    }

    /// The name of a user. The file is checked once a pass at most, and read again only if it was changed.
    pub(super) fn name(&mut self, uid: u32) -> Option<&str> {
        if !self.is_checked {
            self.is_checked = true;
            self.renew();
        }
        self.known(uid)
    }

    /// The name of a user in the file as last read.
    pub(super) fn known(&self, uid: u32) -> Option<&str> {
        // User 0 is root on every Linux, whatever the file has.
        if uid == 0 { Some("root") } else { self.names.get(&uid).map(|name| &**name) }
    }

    /// Ends a pass: the file may change from here on.
    pub(super) fn end_pass(&mut self) {
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
