//! Interpreters and how their command lines name a script. Of an option that is not known it is not known either whether it takes a
//! value: what follows it counts only if it ends as a script of that language does, so that no value is taken for a name.

/// What a command line says about the script.
pub(super) enum Found<'a> {
    Name(&'a [u8]),
    /// It runs code of the command line, a console, or something that has no name.
    Nothing,
}

/// How an interpreter reads its command line.
pub(super) struct Interpreter {
    /// Its names, without a version.
    names: &'static [&'static str],
    /// Letters of options that take a value: the rest of the word, or else the next one.
    with_value: &'static str,
    /// The value is always the next word (`bash -eou pipefail`).
    value_is_next: bool,
    /// Letters of options whose value is the rest of the word, also where that is empty.
    with_rest: &'static str,
    /// Letters that are followed by code: there is no script.
    code: &'static str,
    /// A letter whose value is the script.
    script: Option<char>,
    /// Words with one or two dashes that take the next word.
    long_with_value: &'static [&'static str],
    /// How words with two dashes begin that take no value; those with one come first.
    flags: &'static [&'static str],
    /// Words that mean code, or a console.
    long_code: &'static [&'static str],
    /// Words before the script that are no options.
    commands: &'static [&'static str],
    /// How scripts end.
    endings: &'static [&'static str],
    kind: Kind,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    /// Options are letters, several in a word; the first other word is the script.
    Letters,
    /// Options are words, as `-jar`; the first other word is a class.
    Java,
    /// Only a word with one of the endings is a script.
    OnlyEndings,
}

/// No long option takes a value but those that are listed.
const ALL_FLAGS: &[&str] = &["--"];

const PLAIN: Interpreter = Interpreter {
    names: &[],
    with_value: "",
    value_is_next: false,
    with_rest: "",
    code: "",
    script: None,
    long_with_value: &[],
    flags: ALL_FLAGS,
    long_code: &[],
    commands: &[],
    endings: &[],
    kind: Kind::Letters,
};

const INTERPRETERS: [Interpreter; 14] = [
    Interpreter {
        names: &["python", "pypy"],
        with_value: "WXQ",
        code: "c",
        script: Some('m'),
        long_with_value: &["--check-hash-based-pycs"],
        endings: &[".py", ".pyz", ".pyw", ".pyc"],
        ..PLAIN
    },
    Interpreter {
        names: &["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "rbash"],
        with_value: "oO",
        value_is_next: true,
        code: "cs",
        long_with_value: &["--rcfile", "--init-file"],
        endings: &[".sh", ".bash", ".zsh", ".ksh"],
        ..PLAIN
    },
    Interpreter { names: &["fish"], with_value: "CdDfo", code: "c", endings: &[".fish"], ..PLAIN },
    Interpreter {
        names: &["perl"],
        with_value: "I",
        with_rest: "FMmiDCxdV",
        code: "eE",
        endings: &[".pl", ".t", ".pm"],
        ..PLAIN
    },
    Interpreter {
        names: &["ruby"],
        with_value: "ICEr",
        with_rest: "FiKTWx",
        code: "e",
        long_with_value: &[
            "--encoding",
            "--external-encoding",
            "--internal-encoding",
            "--enable",
            "--disable",
            "--parser",
        ],
        endings: &[".rb", ".ru"],
        ..PLAIN
    },
    Interpreter {
        names: &["php"],
        with_value: "dctz",
        code: "rBREFSia",
        script: Some('f'),
        endings: &[".php", ".phar"],
        ..PLAIN
    },
    Interpreter {
        names: &["node", "nodejs"],
        with_value: "rC",
        code: "ep",
        long_with_value: &[
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "--conditions",
            "--env-file",
            "--env-file-if-exists",
            "--title",
            "--input-type",
            "--inspect-port",
            "--debug-port",
            "--diagnostic-dir",
            "--openssl-config",
            "--icu-data-dir",
            "--redirect-warnings",
            "--unhandled-rejections",
            "--disable-warning",
            "--max-http-header-size",
            "--tls-cipher-list",
            "--watch-path",
            "--trace-event-categories",
            "--trace-event-file-pattern",
            "--experimental-default-type",
            "--experimental-sea-config",
            "--test-reporter",
            "--test-name-pattern",
        ],
        flags: &[
            "--no-",
            "--trace-",
            "--inspect",
            "--experimental-",
            "--harmony",
            "--enable-",
            "--expose",
            "--preserve-",
            "--watch",
            "--test",
            "--throw-",
            "--pending-",
            "--abort-",
        ],
        long_code: &["--eval", "--print", "--run", "--interactive"],
        commands: &["inspect"],
        endings: &[".js", ".mjs", ".cjs", ".ts", ".mts"],
        ..PLAIN
    },
    Interpreter {
        names: &["deno", "bun"],
        flags: &[],
        long_code: &["eval"],
        endings: &[".js", ".mjs", ".cjs", ".ts", ".mts", ".jsx", ".tsx"],
        kind: Kind::OnlyEndings,
        ..PLAIN
    },
    Interpreter {
        names: &["java"],
        long_with_value: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--upgrade-module-path",
            "--add-modules",
            "--limit-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
            "--patch-module",
            "--enable-native-access",
            "--source",
        ],
        flags: &["--enable-preview", "--show-", "--dry-run", "--validate-modules", "--disable-@files"],
        endings: &[".java", ".jar"],
        kind: Kind::Java,
        ..PLAIN
    },
    Interpreter {
        names: &["dotnet", "mono"],
        flags: &[],
        endings: &[".dll", ".exe"],
        kind: Kind::OnlyEndings,
        ..PLAIN
    },
    Interpreter { names: &["lua", "luajit"], with_value: "l", code: "e", endings: &[".lua"], ..PLAIN },
    Interpreter { names: &["tclsh"], endings: &[".tcl"], ..PLAIN },
    Interpreter { names: &["expect"], code: "c", script: Some('f'), endings: &[".exp"], ..PLAIN },
    Interpreter {
        names: &["julia"],
        with_value: "JptLCHO",
        code: "eE",
        long_code: &["--eval", "--print"],
        endings: &[".jl"],
        ..PLAIN
    },
];

/// The interpreter of this name; `python3.11`, `python3.13t` and `ruby3.1` are versions.
pub(super) fn find(executable: &str) -> Option<&'static Interpreter> {
    INTERPRETERS.iter().find(|interpreter| {
        interpreter.names.iter().any(|name| executable.strip_prefix(name).is_some_and(is_version))
    })
}

/// Their names, without versions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    INTERPRETERS.iter().flat_map(|interpreter| interpreter.names.iter().copied())
}

/// A version, with a letter for the kind of build.
fn is_version(rest: &str) -> bool {
    let number = rest.trim_end_matches(['d', 'm', 't', 'u']);
    (rest.is_empty() || number.ends_with(|c: char| c.is_ascii_digit()))
        && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'))
}

/// What a word of the command line is.
enum Word {
    /// An option that is done with.
    Option,
    /// An option of which it is not known whether the next word is its value.
    Unknown,
    /// The next word is its value.
    TakesNext,
    /// The next word is the script.
    NextIsScript,
    /// The next word is the script, or a module and its class.
    NextIsModule,
    /// No option any more.
    EndOfOptions,
    /// It is code, or a console.
    Code,
    /// The letter's value is in the same word.
    ScriptAt(usize),
    Other,
}

impl Interpreter {
    pub(super) fn is_java(&self) -> bool {
        self.kind == Kind::Java
    }

    /// The script among the arguments behind the interpreter.
    pub(super) fn script<'a>(&self, arguments: impl Iterator<Item = &'a [u8]>) -> Found<'a> {
        let mut arguments = arguments;
        let (mut after_unknown, mut needs_ending) = (false, false);
        while let Some(word) = arguments.next() {
            let is_value = std::mem::take(&mut after_unknown);
            match self.word(word) {
                Word::Option => {}
                Word::Unknown => after_unknown = true,
                Word::TakesNext => {
                    arguments.next();
                }
                Word::NextIsScript => return arguments.next().map_or(Found::Nothing, named),
                Word::NextIsModule => return arguments.next().map_or(Found::Nothing, class),
                Word::ScriptAt(at) => return named(word.get(at..).unwrap_or_default()),
                Word::Code => return Found::Nothing,
                Word::EndOfOptions => {
                    return arguments.next().map_or(Found::Nothing, |word| self.named(word));
                }
                // A value, or a script whose arguments follow: only an ending shows which.
                Word::Other if (is_value || needs_ending) && !self.ends_as_script(word) => {
                    needs_ending = true;
                }
                Word::Other => return self.named(word),
            }
        }
        Found::Nothing
    }

    fn named<'a>(&self, word: &'a [u8]) -> Found<'a> {
        match self.kind {
            Kind::Java if !self.ends_as_script(word) => class(word),
            Kind::OnlyEndings if !self.ends_as_script(word) => Found::Nothing,
            _ => named(word),
        }
    }

    fn ends_as_script(&self, word: &[u8]) -> bool {
        self.endings.iter().any(|ending| word.ends_with(ending.as_bytes()))
    }

    fn word(&self, word: &[u8]) -> Word {
        let is = |list: &[&str]| list.iter().any(|known| known.as_bytes() == word);
        if is(self.long_code) || word == b"-" {
            return Word::Code;
        }
        if is(self.commands) {
            return Word::Option;
        }
        match (self.kind, word) {
            (_, b"--") => Word::EndOfOptions,
            (Kind::Java, b"-jar") => Word::NextIsScript,
            (Kind::Java, b"-m" | b"--module") => Word::NextIsModule,
            _ if is(self.long_with_value) => Word::TakesNext,
            // Words of a launcher (`dotnet exec`, `bun run`) come before the script.
            (Kind::OnlyEndings, b"exec" | b"run") => Word::Option,
            (Kind::OnlyEndings, _) if word.starts_with(b"-") => Word::Unknown,
            // Its options have their value in the same word, behind `:` or `=`; `@file` holds more of them.
            _ if self.is_flag(word) => Word::Option,
            (Kind::Java, _) if word.starts_with(b"--") && !word.contains(&b'=') => Word::Unknown,
            (Kind::Java, _) if word.starts_with(b"-") || word.starts_with(b"@") => Word::Option,
            (Kind::Letters, [b'-', b'-', rest @ ..]) => {
                if rest.contains(&b'=') {
                    Word::Option
                } else {
                    Word::Unknown
                }
            }
            // Shells switch options off by a plus.
            (Kind::Letters, [b'-' | b'+', letters @ ..]) if !letters.is_empty() => self.letters(letters),
            _ => Word::Other,
        }
    }

    fn is_flag(&self, word: &[u8]) -> bool {
        self.flags.iter().any(|begin| word.starts_with(begin.as_bytes()))
    }

    /// Several letters of one word: `-Eum module`.
    fn letters(&self, letters: &[u8]) -> Word {
        let mut takes_next = false;
        for (at, letter) in letters.iter().enumerate() {
            let letter = char::from(*letter);
            let is_last = at + 1 == letters.len();
            if self.code.contains(letter) {
                return Word::Code;
            }
            if self.script == Some(letter) {
                return if is_last { Word::NextIsScript } else { Word::ScriptAt(at + 2) };
            }
            if self.with_rest.contains(letter) {
                return Word::Option;
            }
            if self.with_value.contains(letter) {
                takes_next = is_last || self.value_is_next;
                if !self.value_is_next {
                    break;
                }
            }
        }
        if takes_next { Word::TakesNext } else { Word::Option }
    }
}

fn named(word: &[u8]) -> Found<'_> {
    match base_name(word) {
        [] => Found::Nothing,
        name => Found::Name(name),
    }
}

/// `org.example.Main`, `module/org.example.Main` and `org/example/Main` are `Main`.
fn class(word: &[u8]) -> Found<'_> {
    match base_name(word).rsplit(|&b| b == b'.').next() {
        None | Some([]) => Found::Nothing,
        Some(name) => Found::Name(name),
    }
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
