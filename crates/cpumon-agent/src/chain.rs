//! [`Chain`]: an error and its causes on one line.

use std::fmt;

/// Prints an error and its causes on one line, escaped, because the text can contain names from other machines.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a anyhow::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("{:#}", self.0);
        // Line breaks are part of our own messages; only the text between them is escaped.
        let lines: Vec<String> = line.lines().map(|line| cpumon_model::escape(line).to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_printed_once_and_escaped() {
        let error = anyhow::anyhow!("no \u{1b}[31mspace").context("cannot write").context("export");
        assert_eq!(Chain(&error).to_string(), "export: cannot write: no \\x1b[31mspace");
        // An error that has its cause in its own text does not return it as a cause too.
        let path = std::path::PathBuf::from("key");
        let error = std::io::Error::other("damaged");
        let error = cpumon_link::tls::TlsError::File { operation: "read", path, error };
        assert_eq!(Chain(&error.into()).to_string(), "cannot read key: damaged");
    }
}
