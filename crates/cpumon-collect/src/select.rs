//! [`ThreadPattern`]: the threads that a user selects on the command line. It is no regular expression,
//! because thread names have fifteen bytes: `*` is all that is needed, and costs no dependency.

use std::str::FromStr;

use cpumon_model::Comm;

/// Names threads: a thread id, or a name in which `*` matches any text, the empty one too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPattern {
    text: String,
}

/// A text that names no thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a thread's name (15 bytes at most, * matches any text) or its id")]
pub struct ParseThreadPatternError;

/// Longest pattern, bytes: twice a name, for its stars.
const MAX_BYTES: usize = 30;

impl FromStr for ThreadPattern {
    type Err = ParseThreadPatternError;

    fn from_str(text: &str) -> Result<Self, ParseThreadPatternError> {
        let literal = text.bytes().filter(|&byte| byte != b'*').count();
        let is_one = !text.is_empty() && text.len() <= MAX_BYTES && literal <= 15;
        if is_one { Ok(Self { text: text.to_owned() }) } else { Err(ParseThreadPatternError) }
    }
}

impl std::fmt::Display for ThreadPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl ThreadPattern {
    /// Whether it names this thread.
    #[must_use]
    pub fn matches(&self, tid: u32, name: &Comm) -> bool {
        // A thread may have a number for a name, so both are tried.
        self.text.parse() == Ok(tid) || is_match(self.text.as_bytes(), name.as_bytes())
    }
}

/// Goes back to the last star when what follows it does not fit.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|&byte| byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids() {
        let named = |pattern: &str, name: &str| {
            pattern.parse::<ThreadPattern>().unwrap().matches(77, &Comm::from(name))
        };
        for (pattern, name) in [
            ("nginx", "nginx"),
            ("tokio*", "tokio-runtime-w"),
            ("*w", "tokio-runtime-w"),
            ("*", ""),
            ("k*r*/1", "kworker/1"),
            ("77", "any"),
            ("*aab", "aaab"),
        ] {
            assert!(named(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("nginx", "nginx2"), ("nginx", ""), ("78", "any"), ("a*b", "abc"), ("*x*", "abc")]
        {
            assert!(!named(pattern, name), "{pattern} {name}");
        }
        for wrong in ["", "a-name-of-16-byte", &"*".repeat(31)] {
            assert_eq!(wrong.parse::<ThreadPattern>(), Err(ParseThreadPatternError), "{wrong}");
        }
    }
}
