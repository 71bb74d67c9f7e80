//! Exit codes, and error messages on standard error.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use cpumon_agent::Chain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The end of a command that did not fail.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// Finished, but some of the requested data is missing. The command has reported which.
    DataMissing,
    /// A search without a match, as grep reports it. The command has printed it.
    NothingFound,
    /// The user stopped it before it was done.
    Interrupted,
    /// The command that it ran ended with this exit code.
    Code(u8),
}

/// A usage error that clap cannot detect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// The exit code of a result. Prints the error on standard error.
#[must_use]
pub fn finish(result: &anyhow::Result<Outcome>) -> ExitCode {
    let code = code_of(result, has_lost_reader);
    if let (Err(error), true) = (result, code != 0) {
        let hint = if code == 2 { "\nTry --help." } else { "" };
        // Standard error may be closed; the exit code still reports the error.
        let _ = writeln!(io::stderr(), "cpumon: {}{hint}", Chain(error.as_ref()));
    }
    ExitCode::from(code)
}

/// `has_lost_reader`: whether standard output has lost its reader.
fn code_of(result: &anyhow::Result<Outcome>, has_lost_reader: impl FnOnce() -> bool) -> u8 {
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::DataMissing) => 3,
        Ok(Outcome::Interrupted) => 130,
        Ok(Outcome::Code(code)) => *code,
        Err(error) if is_broken_pipe(error) && has_lost_reader() => 0,
        Err(error) if error.is::<Usage>() => 2,
        Ok(Outcome::NothingFound) | Err(_) => 1,
    }
}

/// The reader of the output closed it (`cpumon export … | head`), which is not a failure. A connection breaks in the same words, so the
/// output itself is asked (poll(2): `POLLERR` on the writing end of such a pipe).
fn has_lost_reader() -> bool {
    let stdout = io::stdout();
    let mut output = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut output, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && output[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn each_end_has_its_code() {
        let io = |kind| Err::<Outcome, _>(io::Error::from(kind));
        let code = |result: &_| code_of(result, || true);
        assert_eq!(code(&Ok(Outcome::Done)), 0);
        assert_eq!(code(&Ok(Outcome::NothingFound)), 1);
        assert_eq!(code(&Ok(Outcome::DataMissing)), 3);
        assert_eq!(code(&Ok(Outcome::Interrupted)), 130);
        assert_eq!(code(&Err(Usage("no".into()).into())), 2);
        assert_eq!(code(&io(io::ErrorKind::NotFound).context("opening x")), 1);
        let broken = io(io::ErrorKind::BrokenPipe).context("writing rows");
        assert_eq!(code(&broken), 0);
        assert_eq!(code_of(&broken, || false), 1, "a connection broke, not the output");
    }
}
