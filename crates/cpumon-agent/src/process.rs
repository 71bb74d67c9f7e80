//! The agent as a process: signals, messages on standard error, exit codes, whether it is alive, and its sandbox: a Landlock domain for
//! the threads that read from the network, and a seccomp filter for all threads. The measuring thread is in no Landlock domain, because it
//! could not read the names of other programs from one. The slim binary and `cpumon` use it.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cpumon_collect::{AllowedPaths, Calls, confine_calls, confine_files};
use cpumon_model::{escape, with_causes};

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
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// 0 ok, 1 failed, 3 finished but data is missing, 130 interrupted. Prints an error with its causes on standard error.
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

/// Prints an error and its causes on one line, escaped, because the text can contain names from other machines.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Line breaks are part of our own messages; only the text between them is escaped.
        let lines: Vec<String> = with_causes(self.0).lines().map(|line| escape(line).to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The time on the monotonic clock until which a thread counts as alive.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Marks the thread as alive for `within`.
    pub fn beat(&self, within: Duration) {
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(cpumon_collect::now().mono_ns.saturating_add(within_ns), Ordering::Relaxed);
    }

    pub fn is_alive(&self) -> bool {
        cpumon_collect::now().mono_ns <= self.0.load(Ordering::Relaxed)
    }
}

/// Port of name servers, for answers that are too long for a datagram.
const NAME_SERVERS: u16 = 53;

/// Runs `work` in a Landlock domain, which threads started by it inherit. Returns its result and the domain as text.
pub fn in_domain<T: Send>(
    mut allowed: AllowedPaths,
    work: impl FnOnce() -> T + Send,
) -> io::Result<(T, String)> {
    if allowed.resolves {
        // Landlock restricts TCP only: UDP queries to name servers need no rule.
        allowed.connect.push(NAME_SERVERS);
    }
    let confined = move || {
        let domain = confine_files(&allowed).unwrap_or_else(|error| {
            log::warn!("cannot restrict the files of network threads: {error}");
            "no Landlock".to_owned()
        });
        (work(), domain)
    };
    // A Landlock domain cannot be left. It restricts a thread of its own, so the calling thread stays free.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("domain".to_owned()).spawn_scoped(scope, confined)?;
        thread.join().map_err(|_| io::Error::other("a thread panicked"))
    })
}

/// Blocks the system calls that this process no longer needs. Returns the filter as text. A kernel without seccomp is only logged.
pub fn give_up_calls(calls: Calls) -> String {
    confine_calls(calls).unwrap_or_else(|error| {
        log::warn!("cannot give up system calls: {error}");
        "no seccomp".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use cpumon_collect::CollectError;

    use super::*;
    use crate::AgentError;

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

    #[test]
    fn causes_are_printed_once_and_escaped() {
        let path = std::path::PathBuf::from("\u{1b}[31mkey");
        let operation = "read";
        let error = CollectError::File { operation, path, error: io::Error::other("damaged") };
        let error = AgentError::Measure(error);
        let expected = "cannot measure this machine: cannot read \\x1b[31mkey: damaged";
        assert_eq!(Chain(&error).to_string(), expected);
        // An error that has its cause in its own text does not return it as a cause too.
        let path = std::path::PathBuf::from("key");
        let error = io::Error::other("damaged");
        let error = cpumon_link::tls::TlsError::File { operation: "read", path, error };
        assert_eq!(Chain(&error).to_string(), "cannot read key: damaged");
    }
}
