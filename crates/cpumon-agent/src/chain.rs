//! [`Chain`]: an error and its causes on one line.

use std::fmt;

/// Prints an error and its causes on one line, each cause once: a cause that the text before it already contains is skipped.
/// The text is escaped, because it can contain names from other machines.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a anyhow::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for cause in self.0.chain() {
            let text = cause.to_string();
            if line.is_empty() {
                line = text;
            } else if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
        }
        // Line breaks are part of our own messages; only the text between them is escaped.
        let lines: Vec<String> = line.lines().map(|line| cpumon_model::escape(line).to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_once_and_escaped() {
        let inner = anyhow::anyhow!("no \u{1b}[31mspace");
        let error = inner.context("cannot write: no \u{1b}[31mspace").context("export");
        assert_eq!(Chain(&error).to_string(), "export: cannot write: no \\x1b[31mspace");
    }
}
