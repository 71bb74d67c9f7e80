//! The agent as a process: signals, messages on standard error, exit codes. The slim binary and `cpumon` use it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_model::escape;

use crate::chain::Chain;
use crate::error::AgentError;
use crate::platform::catch_stop;

/// SIGINT and SIGTERM as flags; on Windows Ctrl-C, Ctrl-Break, and the end of the console or the session.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    /// From now on the first SIGINT or SIGTERM (Windows: Ctrl-C and the like) asks to stop and wakes the calling thread; a second one ends the process at
    /// once.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install() -> io::Result<Self> {
        let (stop, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        catch_stop(&stop, &interrupted)?;
        Ok(Self { stop, interrupted })
    }

    /// Set once the process is to end.
    #[must_use]
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// 0 ok, 1 failed, 3 finished but data is missing, 130 interrupted. Prints an error with its causes on standard error.
    #[must_use]
    pub fn exit_code(&self, program: &str, result: &Result<(), AgentError>) -> ExitCode {
        let code = match result {
            Err(error) => {
                // Standard error may be closed; the exit code reports the failure all the same.
                let _ = writeln!(io::stderr(), "{program}: {}", Chain(error));
                if matches!(error, AgentError::DataMissing(_)) { 3 } else { 1 }
            }
            // 128 + SIGINT is the convention of shells. SIGTERM is how a service manager stops it, which is
            // no failure.
            Ok(()) if self.interrupted.load(Ordering::Relaxed) => 130,
            Ok(()) => 0,
        };
        ExitCode::from(code)
    }
}

/// Logs messages of this level and above to standard error, each with the program's name. Does nothing if a logger is already
/// installed.
pub fn log_to_stderr(program: &'static str, level: log::LevelFilter) {
    // Fails only if a logger is already installed.
    let _ = logger(program, level).try_init();
}

fn logger(program: &'static str, level: log::LevelFilter) -> env_logger::Builder {
    let format =
        move |to: &mut env_logger::fmt::Formatter, record: &log::Record<'_>| write_line(to, program, record);
    let mut builder = env_logger::Builder::new();
    builder.filter_level(level).format(format);
    // The renderer of charts warns of each character that its font lacks: a line a name, each time that a chart is drawn.
    builder.filter_module("usvg", log::LevelFilter::Error.min(level));
    builder
}

/// Writes a record as one line. Its text may come from another machine (a name, a version, a path), so whatever could move a
/// terminal's cursor or begin a line of its own is escaped here, for every message.
fn write_line(to: &mut dyn Write, program: &str, record: &log::Record<'_>) -> io::Result<()> {
    let level = match record.level() {
        log::Level::Error => "error: ",
        log::Level::Warn => "warning: ",
        _ => "",
    };
    let text = record.args().to_string();
    writeln!(to, "{program}: {level}{}", escape(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of programs with an emoji filled a receiver's log, 27 lines a picture.
    #[test]
    fn the_renderer_of_charts_does_not_log_each_character_without_a_glyph() {
        let logger = logger("cpumon", log::LevelFilter::Info).build();
        let is_shown = |target: &str, level| {
            let record = log::Record::builder().target(target).level(level).args(format_args!("")).build();
            logger.matches(&record)
        };
        assert!(!is_shown("usvg::text", log::Level::Warn) && is_shown("usvg::text", log::Level::Error));
        assert!(is_shown("cpumon_store", log::Level::Info) && !is_shown("cpumon_store", log::Level::Debug));
    }

    #[test]
    fn a_message_with_text_of_another_machine_is_one_line_without_escape_sequences() {
        let mut line = Vec::new();
        let message = format_args!("the agent is \x1b[2Jevil\ncpumon: error: made up");
        let record = log::Record::builder().level(log::Level::Warn).args(message).build();
        write_line(&mut line, "cpumon", &record).unwrap();
        let expected = "cpumon: warning: the agent is \\x1b[2Jevil\\ncpumon: error: made up\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
