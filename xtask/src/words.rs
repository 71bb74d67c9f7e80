//! Holds the project's vocabulary: words that no reader of the field uses are refused in identifiers, comments, docs, help
//! and user interface. `words.toml` has the words, what to write instead, and the exceptions with their reasons.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::Deserialize;

use crate::repository::{root, tracked};

const LIST: &str = "xtask/words.toml";
const MOST_SHOWN: usize = 200;

#[derive(clap::Args)]
pub struct WordsArgs {
    /// Only files whose path begins with one of these [default: all]
    paths: Vec<String>,

    /// Print a count per file in place of each line
    #[arg(long)]
    count: bool,
}

/// `words.toml` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Endings or names of the files that are read.
    files: Vec<String>,
    /// Beginnings of paths that are not read, each with its reason.
    skip: BTreeMap<String, String>,
    /// Forbidden word, in lower case, to what to write instead.
    words: BTreeMap<String, String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// A place where a forbidden word has its plain meaning.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// A regular expression; a forbidden word inside a match passes.
    text: String,
    /// Beginning of the paths in which it holds; everywhere when absent.
    #[serde(default)]
    path: String,
    reason: String,
}

struct Vocabulary {
    list: List,
    exceptions: Vec<(Regex, String)>,
}

/// Fails with every place of a forbidden word.
pub fn check(args: &WordsArgs) -> Result<()> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let vocabulary = Vocabulary::parse(&text)?;
    let mut found = Vec::new();
    let mut counts = Vec::new();
    for path in tracked(&root)?.iter().filter(|path| vocabulary.reads(path) && args.wants(path)) {
        let in_file = vocabulary.in_file(&root, path)?;
        if !in_file.is_empty() {
            counts.push(format!("{:5} {path}", in_file.len()));
        }
        found.extend(in_file);
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut shown = if args.count { counts } else { found.clone() };
    shown.truncate(MOST_SHOWN);
    bail!("{} forbidden words ({LIST} says what to write instead):\n{}", found.len(), shown.join("\n"));
}

impl WordsArgs {
    fn wants(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|wanted| path.starts_with(wanted.as_str()))
    }
}

impl Vocabulary {
    fn parse(text: &str) -> Result<Self> {
        let list: List = toml::from_str(text).with_context(|| format!("cannot parse {LIST}"))?;
        let mut exceptions = Vec::new();
        for exception in &list.exceptions {
            if exception.reason.is_empty() {
                bail!("{LIST}: the exception {:?} has no reason", exception.text);
            }
            let pattern =
                Regex::new(&exception.text).with_context(|| format!("{LIST}: {:?}", exception.text))?;
            exceptions.push((pattern, exception.path.clone()));
        }
        Ok(Self { list, exceptions })
    }

    fn reads(&self, path: &str) -> bool {
        self.list.files.iter().any(|ending| path.ends_with(ending.as_str()))
            && !self.list.skip.keys().any(|skipped| path.starts_with(skipped.as_str()))
    }

    fn in_file(&self, root: &Path, path: &str) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate() {
            for (word, instead) in self.in_line(path, line) {
                found.push(format!("{path}:{}: {word}: write {instead}", at + 1));
            }
        }
        Ok(found)
    }

    fn in_line(&self, path: &str, line: &str) -> Vec<(String, &str)> {
        let mut excused: Option<Vec<std::ops::Range<usize>>> = None;
        let mut found = Vec::new();
        for (begin, word) in words(line) {
            let word = word.to_lowercase();
            let Some(instead) = self.list.words.get(&word) else { continue };
            let spans = excused.get_or_insert_with(|| self.excused(path, line));
            if !spans.iter().any(|span| span.contains(&begin)) {
                found.push((word, instead.as_str()));
            }
        }
        found
    }

    fn excused(&self, path: &str, line: &str) -> Vec<std::ops::Range<usize>> {
        let here = self.exceptions.iter().filter(|(_, prefix)| path.starts_with(prefix.as_str()));
        here.flat_map(|(pattern, _)| pattern.find_iter(line).map(|found| found.range())).collect()
    }
}

/// The words of a line and where they begin; `readLine`, `read_line` and `ReadLine` are two words each.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut begin: Option<usize> = None;
    let mut previous = ' ';
    for (at, letter) in line.char_indices() {
        let hump = letter.is_uppercase() && previous.is_lowercase();
        if let Some(from) = begin
            && (!letter.is_alphabetic() || hump)
        {
            words.push((from, &line[from..at]));
            begin = None;
        }
        if letter.is_alphabetic() && begin.is_none() {
            begin = Some(at);
        }
        previous = letter;
    }
    if let Some(from) = begin {
        words.push((from, &line[from..]));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        files = [".rs"]
        [skip]
        "docs/old" = "history"
        [words]
        desk = "receiver"
        look = "poll"
        [[exceptions]]
        text = "look up"
        reason = "the plain verb"
    "#;

    fn found(line: &str) -> Vec<String> {
        Vocabulary::parse(TEXT).unwrap().in_line("a.rs", line).into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn words_are_found_in_identifiers_of_all_styles_and_in_prose() {
        assert_eq!(
            found("let desk_state = DeskOptions::new(the_Desk, nextLook); // A desk."),
            ["desk", "desk", "desk", "look", "desk"]
        );
    }

    #[test]
    fn parts_of_longer_words_and_exceptions_pass() {
        assert!(found("lookup(desktop); // look up the name").is_empty());
        assert_eq!(found("look up, then look"), ["look"]);
    }

    #[test]
    fn only_listed_files_are_read() {
        let vocabulary = Vocabulary::parse(TEXT).unwrap();
        assert!(
            vocabulary.reads("crates/a.rs")
                && !vocabulary.reads("a.bin")
                && !vocabulary.reads("docs/old/a.rs")
        );
    }

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        let text = TEXT.replace("the plain verb", "");
        assert!(Vocabulary::parse(&text).is_err());
    }

    #[test]
    fn the_list_of_the_project_is_well_formed() {
        Vocabulary::parse(include_str!("../words.toml")).unwrap();
    }
}
