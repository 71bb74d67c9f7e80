//! How a program, and the script that it runs, get their names.

use std::borrow::Cow;

use cpumon_model::{Comm, ProcessInfo};

use super::about::{About, Exec};
use super::files::{Files, MAX_BYTES};
use super::scratch::Scratch;
use crate::script::{self, Command, ExecScript};
use crate::scrub;

/// Longest command line of a program that has long ones before the name that counts: class paths of Java.
const MAX_LONG_BYTES: usize = 64 * 1024;

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
            Command { executable, comm: self.about.comm, cmdline: raw, is_cut: raw.len() == MAX_BYTES };
        if command.is_cut && script::has_long_options(executable) {
            let mut long = vec![0; MAX_LONG_BYTES];
            let cmdline = files.read("cmdline", &mut long)?;
            return Command { cmdline, is_cut: cmdline.len() == MAX_LONG_BYTES, ..command }.script(|| None);
        }
        command.script(|| directory_name(files.link("cwd", &mut [0; MAX_BYTES])?))
    }
}

/// The last part of a path; the kernel marks a replaced executable with ` (deleted)`.
fn base_name(path: &[u8]) -> Cow<'_, str> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    // Of a file in memory alone, `/memfd:runc_cloned:/proc/self/exe`, the name that its maker gave it.
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

/// Where the executable may not be seen: the program name out of the command line, if the kernel's 15 bytes are a cut
/// form of it.
pub(super) fn longer_name(cmdline: &[u8], comm: Comm) -> Option<Cow<'_, str>> {
    let program = cmdline.split(|&b| b == 0).next()?;
    let name = program.rsplit(|&b| b == b'/').next()?;
    // A process can write anything into its command line, so it counts only where it goes on from the
    // kernel's name.
    let is_cut = comm.as_bytes().len() == Comm::MAX_BYTES
        && name.starts_with(comm.as_bytes())
        && script::is_path(name);
    is_cut.then(|| String::from_utf8_lossy(name))
}
