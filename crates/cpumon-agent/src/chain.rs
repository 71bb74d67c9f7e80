//! How an error is said. In: an error with its causes. Out: one line. Why: whoever reads it reads each cause once.

use std::fmt;

/// The causes of an error on one line, each said once: many of our errors tell their cause in their own text.
/// Escaped, because they can hold names that came from elsewhere.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a anyhow::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for cause in self.0.chain() {
            let text = cause.to_string();
            if said.is_empty() {
                said = text;
            } else if !said.contains(&text) {
                said = format!("{said}: {text}");
            }
        }
        let lines: Vec<String> = said.lines().map(|line| cpumon_model::escape(line).to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_safely() {
        let inner = anyhow::anyhow!("no \u{1b}[31mroom");
        let error = inner.context("cannot write: no \u{1b}[31mroom").context("export");
        assert_eq!(Chain(&error).to_string(), "export: cannot write: no \\x1b[31mroom");
    }
}
