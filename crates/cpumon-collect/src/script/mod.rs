//! The name of the script that an interpreter runs, out of a command line. Nothing else of the command line leaves this module: no
//! code (`-c`, `-e`), no other argument, no directory. Pure, so that a fuzzer can drive it.

mod exercise;
mod interpreter;
mod table;

use cpumon_model::Comm;

pub use self::exercise::exercise;
pub use self::interpreter::is_path;
use self::interpreter::{Interpreter, ScriptName, base_name};
use self::table::INTERPRETERS;

/// Longest name, bytes; names on the wire are cut there, too.
const MAX_NAME_BYTES: usize = 255;
/// Names of main threads that a runtime sets, and that say nothing of the program.
const RUNTIME_NAMES: [&[u8]; 3] = [b"MainThread", b"node-MainThread", b"main"];

/// Executables that have a shell among other programs, and are called by its name.
const WITH_SHELL: [&str; 3] = ["busybox", "toybox", "coreutils"];

/// The script in the arguments of an exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExecScript {
    /// They were not read, or end before the script.
    #[default]
    Unread,
    /// None is run, or none that has a name.
    None,
    Named(Box<str>),
}

/// Known data of a process whose name is sought.
#[derive(Copy, Clone, Debug)]
pub struct ScriptCommand<'a> {
    /// Base name of the executable.
    pub executable: &'a str,
    /// The main thread's name.
    pub comm: Comm,
    /// /proc/PID/cmdline or its beginning; empty if it is not known.
    pub cmdline: &'a [u8],
    /// Whether `cmdline` is only the beginning.
    pub is_cut: bool,
}

/// How the names of all executables begin whose arguments may name a script, whatever they were called.
pub fn executables() -> impl Iterator<Item = &'static str> {
    interpreter_names().chain(WITH_SHELL)
}

pub fn is_interpreter(executable: &str) -> bool {
    interpreter_of(executable).is_some()
}

/// Whether it has long command lines before the name that counts.
pub fn has_long_options(executable: &str) -> bool {
    interpreter_of(executable).is_some_and(Interpreter::is_java)
}

/// Whether the command line can hold the name of a script: of any other process it need not be read.
pub fn may_run_script(executable: &str, comm: Comm) -> bool {
    is_interpreter(executable) || Comm::new(executable.as_bytes()) != comm
}

impl ScriptCommand<'_> {
    /// The script in the arguments that were read at an exec.
    pub fn at_exec(&self) -> ExecScript {
        match self.script(|| None) {
            Some(name) => ExecScript::Named(name.into()),
            None if self.is_cut || self.cmdline.is_empty() => ExecScript::Unread,
            None => ExecScript::None,
        }
    }

    /// Base name of the script, `None` if it is not known that one is run. `directory` gives the base name of the working directory,
    /// for `node .`.
    pub fn script(&self, directory: impl FnOnce() -> Option<String>) -> Option<String> {
        let by_options = || match interpreter_of(self.executable) {
            Some(interpreter) => self.of_interpreter(interpreter, directory),
            None => self.of_shell(),
        };
        let mut name = self.of_first_line().or_else(by_options).filter(|name| name != self.executable)?;
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        (!name.is_empty()).then_some(name)
    }

    fn of_interpreter(
        &self,
        interpreter: &Interpreter,
        directory: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        match interpreter.script(self.words()) {
            ScriptName::Is(name) => Some(String::from_utf8_lossy(name).into_owned()),
            ScriptName::Here => directory(),
            // Code or a console: the name that the program gave itself, if any, is all there is.
            ScriptName::Unknown => self.own_name(),
        }
    }

    /// Any interpreter: the kernel names a script that it starts by its first line (`#!`) after the script, and puts
    /// its path behind the interpreter and at most one argument.
    fn of_first_line(&self) -> Option<String> {
        if Comm::new(self.executable.as_bytes()) == self.comm {
            return None;
        }
        // Beyond the part of the name in `comm`, only a path with a directory is trusted: the kernel's nearly always has one.
        let is_long = |word: &[u8]| base_name(word).len() > self.comm.as_bytes().len();
        let is_named = |word: &&[u8]| Comm::new(base_name(word)) == self.comm && is_path(word);
        let mut words = self.words().skip(1).take(2).filter(is_named);
        let word = words.find(|word| word.contains(&b'/') || !is_long(word))?;
        let name = base_name(word);
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// A shell that is part of a larger executable (busybox), found by the name under which it was called.
    fn of_shell(&self) -> Option<String> {
        if !WITH_SHELL.contains(&self.executable) {
            return None;
        }
        let called = self.words().next().map(base_name).unwrap_or_default();
        let called = std::str::from_utf8(called).unwrap_or_default();
        match interpreter_of(called).map(|shell| shell.script(self.words())) {
            Some(ScriptName::Is(name)) => Some(String::from_utf8_lossy(name).into_owned()),
            _ => self.own_name(),
        }
    }

    /// The main thread's name, where that is not the executable's and not another interpreter's.
    fn own_name(&self) -> Option<String> {
        let name = self.comm.to_str_lossy();
        let is_own = Comm::new(self.executable.as_bytes()) != self.comm
            && !RUNTIME_NAMES.contains(&self.comm.as_bytes())
            && interpreter_of(&name).is_none();
        is_own.then(|| name.into_owned())
    }

    /// Program name and arguments; an argument that is cut is left out.
    fn words(&self) -> impl Iterator<Item = &[u8]> {
        let whole = match self.cmdline.iter().rposition(|&b| b == 0) {
            Some(end) if self.is_cut => self.cmdline.get(..end).unwrap_or_default(),
            None if self.is_cut => &[],
            _ => self.cmdline.strip_suffix(&[0]).unwrap_or(self.cmdline),
        };
        whole.split(|&b| b == 0)
    }
}

/// The interpreter of this name; `python3.11`, `python3.13t` and `ruby3.1` are versions.
fn interpreter_of(executable: &str) -> Option<&'static Interpreter> {
    INTERPRETERS.iter().find(|interpreter| {
        let is_loader = interpreter.names.iter().any(|name| is_loader(name, executable));
        is_loader
            || interpreter.names.iter().any(|name| executable.strip_prefix(name).is_some_and(is_version))
    })
}

/// Their names, without versions.
fn interpreter_names() -> impl Iterator<Item = &'static str> {
    INTERPRETERS.iter().flat_map(|interpreter| interpreter.names.iter().copied())
}

/// A version, with a letter for the kind of build.
fn is_version(rest: &str) -> bool {
    let number = rest.trim_end_matches(['d', 'm', 't', 'u']);
    (rest.is_empty() || number.ends_with(|c: char| c.is_ascii_digit()))
        && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'))
}

/// `ld-linux-x86-64.so.2`, `ld-musl-aarch64.so.1`, `ld-2.31.so`: behind the name comes the processor or the version.
fn is_loader(name: &str, executable: &str) -> bool {
    let rest = name.starts_with("ld").then(|| executable.strip_prefix(name)).flatten();
    rest.is_some_and(|rest| rest.contains(".so"))
}

#[cfg(test)]
mod tests;
