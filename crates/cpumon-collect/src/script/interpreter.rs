//! How an interpreter's command line names the script. Only options that the [table](super::table) lists are stepped over; behind
//! any other one nothing is taken, because it may take a value or be code itself.

pub(super) struct Interpreter {
    /// Its names, without a version.
    pub(super) names: &'static [&'static str],
    pub(super) letters: Letters,
    pub(super) words: Words,
    /// Words before the script that are not options.
    pub(super) commands: &'static [&'static str],
    /// A word of two dashes ends the options, and the script follows.
    pub(super) dashes_end_options: bool,
    pub(super) target: FirstWord,
}

/// Options of one letter; a word may have several.
pub(super) struct Letters {
    /// Options that take no value.
    pub(super) flags: &'static str,
    /// Their value is the rest of the word or, where that is empty, the next word.
    pub(super) value: &'static str,
    /// Their value is the next word, and letters may follow (`bash -eou pipefail`).
    pub(super) next: &'static str,
    /// Their value is the next word; the meaning of a letter behind them depends on the program of this name (`sh`).
    pub(super) last: &'static str,
    /// Their value is the rest of the word, also where that is empty.
    pub(super) rest: &'static str,
    /// Options whose value is the next letter.
    pub(super) letter: &'static str,
    /// They are followed by code, or start a console: there is no script.
    pub(super) code: &'static str,
    /// Options whose value is the script.
    pub(super) script: &'static str,
    /// Whether options may begin with `+`, too.
    pub(super) plus: bool,
}

/// Options that are whole words, with one or two dashes; a list has spaces between them.
pub(super) struct Words {
    /// Options that take no value, or a value after `=`.
    pub(super) flags: &'static str,
    /// Their value is behind `=`, or else the next word.
    pub(super) value: &'static str,
    /// Their value is the next word, and never behind `=`; the script follows at once, or there is none.
    pub(super) next: &'static str,
    /// How options begin that have their value in the same word.
    pub(super) begin: &'static str,
    /// Options that are followed by code, or start a console.
    pub(super) code: &'static str,
    /// Options whose next word is the script.
    pub(super) script: &'static str,
    /// The next word is a module and its class.
    pub(super) module: &'static str,
    /// Options whose next word is the script, as a file instead of a class.
    pub(super) archive: &'static str,
}

/// Meaning of the first word that is no option.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum FirstWord {
    /// A file, or the directory of a program.
    File,
    /// A file if it ends in one of these ways; else a command of the interpreter.
    Ending(&'static [&'static str]),
    /// A class, or a file if it ends in one of these ways.
    Class(&'static [&'static str]),
    /// The program's own name takes the place of the interpreter's (Wine).
    Program,
}

pub(super) const NO_LETTERS: Letters = Letters {
    flags: "",
    value: "",
    next: "",
    last: "",
    rest: "",
    letter: "",
    code: "",
    script: "",
    plus: false,
};

pub(super) const NO_WORDS: Words =
    Words { flags: "", value: "", next: "", begin: "", code: "", script: "", module: "", archive: "" };

pub(super) const PLAIN: Interpreter = Interpreter {
    names: &[],
    letters: NO_LETTERS,
    words: NO_WORDS,
    commands: &[],
    dashes_end_options: true,
    target: FirstWord::File,
};

enum Word {
    /// An option, with its value if it takes one.
    Option,
    /// The next word is its value.
    TakesNext,
    /// The next word is its value, and the script the one after that.
    TakesNextAndScript,
    NextIsScript,
    /// The next word is a module and its class.
    NextIsModule,
    /// The script is a file.
    IsArchive,
    EndOfOptions,
    /// It is code, a console, or an unknown option: the following words may be anything.
    Nothing,
    /// The script begins at this byte of the word.
    ScriptAt(usize),
    Other,
}

impl Interpreter {
    pub(super) fn is_java(&self) -> bool {
        matches!(self.target, FirstWord::Class(_))
    }

    /// Finds the script among the words of the command line; the first word is the interpreter.
    pub(super) fn script<'a>(&self, mut words: impl Iterator<Item = &'a [u8]>) -> ScriptName<'a> {
        let called = words.next().unwrap_or_default();
        if self.target == FirstWord::Program {
            return windows_program(called);
        }
        let (mut target, mut commands) = (self.target, self.commands);
        while let Some(word) = words.next() {
            match self.word(word, commands) {
                Word::Option => {}
                Word::TakesNext => {
                    // Some take no value that begins like an option (`-o` of ksh93), and read it as one.
                    if words.next().is_some_and(|value| value.starts_with(b"-")) {
                        return ScriptName::Unknown;
                    }
                }
                Word::TakesNextAndScript => {
                    let script = words.nth(1).filter(|word| !word.starts_with(b"-"));
                    return script.map_or(ScriptName::Unknown, file);
                }
                Word::IsArchive => target = FirstWord::File,
                Word::NextIsScript => return words.next().map_or(ScriptName::Unknown, file),
                Word::NextIsModule => return words.next().map_or(ScriptName::Unknown, class),
                Word::ScriptAt(at) => return file(word.get(at..).unwrap_or_default()),
                Word::Nothing => return ScriptName::Unknown,
                Word::EndOfOptions => {
                    return words.next().map_or(ScriptName::Unknown, |word| target.named(word));
                }
                // One command at most: `dotnet exec`, `node inspect`.
                Word::Other if commands.iter().any(|command| command.as_bytes() == word) => commands = &[],
                Word::Other => return target.named(word),
            }
        }
        ScriptName::Unknown
    }

    fn word(&self, word: &[u8], commands: &[&str]) -> Word {
        match word {
            // Standard input, and the file from which Java reads more arguments, the class too.
            b"-" | [b'@', ..] => Word::Nothing,
            // Behind `dotnet run` and the like are a program's own arguments.
            b"--" if self.dashes_end_options && commands.len() == self.commands.len() => Word::EndOfOptions,
            [b'-', ..] => self.words.find(word).unwrap_or_else(|| self.letters.find(word)),
            [b'+', letters @ ..] if self.letters.plus && !letters.is_empty() => self.letters.find(word),
            _ => Word::Other,
        }
    }
}

impl FirstWord {
    fn named(self, word: &[u8]) -> ScriptName<'_> {
        let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending.as_bytes()));
        match self {
            Self::File => file(word),
            Self::Ending(endings) | Self::Class(endings) if ends(endings) => file(word),
            Self::Class(_) => class(word),
            Self::Ending(_) | Self::Program => ScriptName::Unknown,
        }
    }
}

impl Words {
    /// Whether it begins like an option that has its value in the same word.
    pub(super) fn begins(&self, word: &[u8]) -> bool {
        self.begin.split_ascii_whitespace().any(|begin| word.starts_with(begin.as_bytes()))
    }

    /// Kind of a word with dashes; `None` if it is not in these lists.
    fn find(&self, word: &[u8]) -> Option<Word> {
        let (key, has_value) = match word.iter().position(|&b| b == b'=') {
            Some(at) => (word.get(..at)?, true),
            None => (word, false),
        };
        let is = |list: &str| list.split_ascii_whitespace().any(|known| is_same(known.as_bytes(), key));
        let word = if is(self.code) {
            Word::Nothing
        } else if is(self.flags) || self.begins(word) {
            Word::Option
        } else if is(self.value) {
            if has_value { Word::Option } else { Word::TakesNext }
        } else if is(self.next) {
            if has_value { Word::Nothing } else { Word::TakesNextAndScript }
        } else if is(self.script) {
            if has_value { Word::ScriptAt(key.len() + 1) } else { Word::NextIsScript }
        } else if is(self.module) {
            // Java has `--module=x` too; it is not worth a case.
            if has_value { Word::Nothing } else { Word::NextIsModule }
        } else if is(self.archive) {
            Word::IsArchive
        } else {
            return None;
        };
        Some(word)
    }
}

/// Compares options; Node takes underscores for dashes.
fn is_same(known: &[u8], word: &[u8]) -> bool {
    known.len() == word.len()
        && known.iter().zip(word).all(|(known, byte)| known == byte || (*known == b'-' && *byte == b'_'))
}

impl Letters {
    /// Meaning of a word of letters, such as `-Eum` before `module`.
    fn find(&self, word: &[u8]) -> Word {
        let mut takes_next = false;
        let mut letters = word.iter().copied().enumerate().skip(1);
        while let Some((at, letter)) = letters.next() {
            let letter = char::from(letter);
            let is_last = at + 1 == word.len();
            let is = |list: &str| list.contains(letter);
            if is(self.flags) {
            } else if is(self.code) {
                return Word::Nothing;
            } else if is(self.rest) {
                return Word::Option;
            } else if is(self.letter) {
                letters.next();
            } else if is(self.script) {
                return if is_last { Word::NextIsScript } else { Word::ScriptAt(at + 1) };
            } else if is(self.value) {
                return if is_last { Word::TakesNext } else { Word::Option };
            } else if (is(self.next) || (is(self.last) && is_last)) && !takes_next {
                takes_next = true;
            } else {
                return Word::Nothing;
            }
        }
        if takes_next { Word::TakesNext } else { Word::Option }
    }
}

// The part of a command line that may be a name: the base name of a word with only the characters that files, modules and classes have.
// Code and settings hardly ever are such words, which is the second line of defence behind the known options.

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptName<'a> {
    Is(&'a [u8]),
    /// The working directory is the program.
    Here,
    /// It has no name, or one that may be something else.
    Unknown,
}

/// A file or a module: the name without its directories.
fn file(word: &[u8]) -> ScriptName<'_> {
    match path_of(word) {
        None => ScriptName::Unknown,
        Some(b"." | b"./") => ScriptName::Here,
        Some(path) => known(base_name(path)),
    }
}

/// `org.example.Main`, `module/org.example.Main` and `org/example/Main` are `Main`.
fn class(word: &[u8]) -> ScriptName<'_> {
    let is_class = |b: &u8| is_plain(*b) || *b == b'$';
    if !word.iter().all(is_class) {
        return ScriptName::Unknown;
    }
    known(base_name(word).rsplit(|&b| b == b'.').next().unwrap_or_default())
}

/// A program of Windows as Wine writes it to the command line: `C:\windows\system32\notepad.exe`, or the path of the file.
fn windows_program(word: &[u8]) -> ScriptName<'_> {
    let name = word.rsplit(|&b| b == b'\\' || b == b'/').next().unwrap_or_default();
    let is_program = name.to_ascii_lowercase().ends_with(b".exe") && name.iter().all(|&b| is_plain(b));
    if is_program { known(name) } else { ScriptName::Unknown }
}

fn known(name: &[u8]) -> ScriptName<'_> {
    match name {
        // A word that begins like an option or a variable is more likely one.
        [] | [b'-' | b'$', ..] | b"." | b".." => ScriptName::Unknown,
        name => ScriptName::Is(name),
    }
}

/// Whether the whole word may be the path of a file.
pub fn is_path(word: &[u8]) -> bool {
    word.iter().all(|&b| is_plain(b)) && !word.starts_with(b"-")
}

/// The path in a word; for an address, the part behind the host without the query.
fn path_of(word: &[u8]) -> Option<&[u8]> {
    let Some(at) = word.windows(3).position(|three| three == b"://") else {
        return is_path(word).then_some(word);
    };
    let address = word.get(at + 3..)?.split(|b| matches!(b, b'?' | b'#')).next()?;
    let path = address.get(address.iter().position(|&b| b == b'/')?..)?;
    is_path(path).then_some(path)
}

/// Characters that names have and code is not written with alone: no space, no quote, no bracket, no `=`, no `;`, no `$`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"._-+@%~/".contains(&byte)
}

/// The name without its directories; empty for descriptors such as `/dev/fd/63`, which are no file. `/dev/shm` is a directory
/// of files like any other.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    let is_device = path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/");
    if is_device || path.starts_with(b"/proc/") {
        return &[];
    }
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}
