//! Which sources can be asked for by name: those of this system.

use std::str::FromStr;

use crate::SourceChoice;
use crate::source::platform::SOURCES;

/// A text that names no source of this system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a source: expected {}", one_of(SOURCES))]
pub struct ParseSourceError {
    text: String,
}

/// Joins names: `auto, procfs or bpf`.
fn one_of(sources: &[(&str, SourceChoice)]) -> String {
    let names: Vec<_> = sources.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, first @ [_, ..])) => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

impl FromStr for SourceChoice {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        let named = SOURCES.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        named.ok_or_else(|| ParseSourceError { text: text.chars().take(64).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_survives_its_text() {
        for (name, choice) in SOURCES.iter().copied() {
            assert_eq!((choice.to_string().as_str(), name.parse()), (name, Ok(choice)));
        }
        let refused = "ebpf".parse::<SourceChoice>().unwrap_err();
        assert_eq!(refused.to_string(), format!("\"ebpf\" is not a source: expected {}", one_of(SOURCES)));
        let three =
            [("auto", SourceChoice::Auto), ("procfs", SourceChoice::Procfs), ("bpf", SourceChoice::Bpf)];
        assert_eq!((one_of(&three), one_of(&three[..1])), ("auto, procfs or bpf".into(), "auto".into()));
    }
}
