//! Command lines made of the table's options with a token wherever a secret may be, which must never show in a name. For fuzzers and
//! property tests.

use cpumon_model::Comm;

use super::ScriptCommand;
use super::interpreter::{FirstWord, Interpreter, is_path};
use super::table::INTERPRETERS;

/// A text that must never be shown.
const TOKEN: &str = "hunter2";
/// Forms in which it is most like the name of a script.
const FORMS: [&str; 8] = [
    "hunter2",
    "hunter2.py",
    "/opt/hunter2.js",
    "x.hunter2",
    "./hunter2.jar",
    "hunter2.exe",
    "https://hunter2/",
    "password=hunter2",
];
/// Forms of code that do not resemble a file.
const CODE: [&str; 5] = ["f('hunter2')", "hunter2; x", "k=hunter2", "$hunter2", "a hunter2"];

/// Bytes that decide the next choice.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn next(&mut self) -> Option<usize> {
        self.0.next().map(|&byte| usize::from(byte))
    }

    fn any<'b, T>(&mut self, of: &'b [T]) -> Option<&'b T> {
        let at = self.next()?.checked_rem(of.len())?;
        of.get(at)
    }

    fn letter(&mut self, of: &str) -> Option<char> {
        let at = self.next()?.checked_rem(of.chars().count())?;
        of.chars().nth(at)
    }

    fn word<'b>(&mut self, of: &'b str) -> Option<&'b str> {
        let at = self.next()?.checked_rem(of.split_ascii_whitespace().count())?;
        of.split_ascii_whitespace().nth(at)
    }

    fn token(&mut self) -> Option<String> {
        self.any(&FORMS).map(|&form| form.to_owned())
    }
}

struct InterpreterLine {
    interpreter: &'static Interpreter,
    words: Vec<String>,
}

impl InterpreterLine {
    /// Adds the option that the next byte chooses; `None` at the end of the bytes, or where the interpreter has no such option.
    fn add(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let Interpreter { letters, words, .. } = self.interpreter;
        let added = match choices.next()? % 10 {
            0 => vec![format!("-{}", choices.letter(letters.flags)?)],
            1 => vec![choices.word(words.flags)?.to_owned()],
            2 => vec![format!("-{}", choices.letter(letters.value)?), choices.token()?],
            3 => vec![format!("-{}{}", choices.letter(letters.value)?, choices.token()?)],
            4 => vec![choices.word(words.value)?.to_owned(), choices.token()?],
            5 => vec![format!("{}={}", choices.word(words.value)?, choices.token()?)],
            6 => vec![format!("{}{}", choices.word(words.begin)?, choices.token()?)],
            7 => {
                let (flag, next) = (choices.letter(letters.flags)?, choices.letter(letters.next)?);
                vec![format!("-{flag}{next}{flag}"), choices.token()?]
            }
            8 => vec![choices.word(words.archive)?.to_owned()],
            _ => vec![choices.word(words.next)?.to_owned(), choices.token()?],
        };
        self.words.extend(added);
        Some(())
    }

    /// Ends the options in one of the ways behind which no word is a name but a known script's.
    fn end(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let Interpreter { letters, words, .. } = self.interpreter;
        let last = match choices.next()? % 7 {
            0 => format!("-{}", choices.letter(letters.code)?),
            1 => choices.word(words.code)?.to_owned(),
            2 => format!("{}={}", choices.word(words.code)?, choices.token()?),
            3 => self.unknown(choices)?,
            4 => (*choices.any(&CODE)?).to_owned(),
            5 => "-".to_owned(),
            _ => self.script().to_owned(),
        };
        self.words.push(last);
        Some(())
    }

    fn unknown(&self, choices: &mut Choices<'_>) -> Option<String> {
        let Interpreter { letters, words, .. } = self.interpreter;
        let lists = [
            letters.flags,
            letters.value,
            letters.next,
            letters.last,
            letters.rest,
            letters.letter,
            letters.code,
            letters.script,
        ];
        let letter = char::from(u8::try_from(choices.next()?).ok()?);
        let option = format!("-{letter}{TOKEN}");
        let is_known = lists.iter().any(|list| list.contains(letter))
            || words.begins(option.as_bytes())
            || !letter.is_ascii_alphabetic();
        Some(if is_known { format!("--x{}-{}", choices.next()?, TOKEN) } else { option })
    }

    fn script(&self) -> &'static str {
        match self.interpreter.target {
            FirstWord::File | FirstWord::Program => "/srv/hunter2/job",
            FirstWord::Ending(_) => "hunter2/job.dll.js",
            FirstWord::Class(_) => "/srv/hunter2/Job.java",
        }
    }

    fn check(&self, is_cut: bool) {
        let cmdline = [self.words.join("\0").as_bytes(), b"\0"].concat();
        let executable = self.words.first().map_or("", String::as_str);
        let command = ScriptCommand { executable, comm: executable.into(), cmdline: &cmdline, is_cut };
        let name = command.script(|| None).unwrap_or_default();
        assert!(!name.contains(TOKEN), "{:?} is called {name:?}", self.words);
    }
}

/// Makes a command line of these bytes and checks that its name has no secret; and reads the bytes as a command line. Panics if
/// something does not hold.
#[doc(hidden)]
pub fn exercise(bytes: &[u8]) {
    let mut choices = Choices(bytes.iter());
    if let Some(interpreter) = choices.any(&INTERPRETERS)
        && let Some(name) = choices.any(interpreter.names)
    {
        let mut line = InterpreterLine { interpreter, words: vec![(*name).to_owned()] };
        for _ in 0..choices.next().unwrap_or(0) % 6 {
            line.add(&mut choices);
        }
        let has_end = line.end(&mut choices).is_some();
        if has_end {
            line.words.extend(FORMS.map(str::to_owned));
        }
        line.check(false);
        line.check(true);
        let cmdline = [name.as_bytes(), b"\0", choices.0.as_slice()].concat();
        check_any(&ScriptCommand {
            executable: name,
            comm: (*name).into(),
            cmdline: &cmdline,
            is_cut: false,
        });
    }
    check_any(&ScriptCommand { executable: "x", comm: Comm::new(bytes), cmdline: bytes, is_cut: false });
}

/// A name is the process's own, or one of its words' without anything that names do not have.
fn check_any(command: &ScriptCommand<'_>) {
    if let Some(name) = command.script(|| None) {
        let is_own = name == command.comm.to_str_lossy();
        let is_plain = is_path(name.replace('$', "").as_bytes()) && !name.contains('/');
        assert!(!name.is_empty() && (is_own || is_plain), "{name:?}");
    }
}
