//! [`Chain`]: an error and its causes on one line.

use std::error::Error;
use std::fmt::{self, Write as _};

/// Prints an error and its causes on one line, escaped, because the text can contain names from other machines.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            // Writing to a String cannot fail.
            let _ = write!(line, ": {error}");
            cause = error.source();
        }
        // Line breaks are part of our own messages; only the text between them is escaped.
        let lines: Vec<String> = line.lines().map(|line| cpumon_model::escape(line).to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use cpumon_collect::CollectError;

    use super::*;
    use crate::AgentError;

    #[test]
    fn causes_are_printed_once_and_escaped() {
        let path = std::path::PathBuf::from("\u{1b}[31mkey");
        let operation = "read";
        let error = CollectError::File { operation, path, error: std::io::Error::other("damaged") };
        let error = AgentError::Measure(error);
        let expected = "cannot measure this machine: cannot read \\x1b[31mkey: damaged";
        assert_eq!(Chain(&error).to_string(), expected);
        // An error that has its cause in its own text does not return it as a cause too.
        let path = std::path::PathBuf::from("key");
        let error = std::io::Error::other("damaged");
        let error = cpumon_link::tls::TlsError::File { operation: "read", path, error };
        assert_eq!(Chain(&error).to_string(), "cannot read key: damaged");
    }
}
