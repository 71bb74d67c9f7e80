//! [`ServiceCommand`]: unix has no command of its own; the units of systemd start the agent as it is.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error, FromArgMatches, Subcommand};

/// None.
#[derive(Clone, Copy, Debug)]
pub enum ServiceCommand {}

impl ServiceCommand {
    /// Never called.
    #[must_use]
    pub fn run(&self, _program: &'static str) -> ExitCode {
        match *self {}
    }
}

impl FromArgMatches for ServiceCommand {
    fn from_arg_matches(_matches: &ArgMatches) -> Result<Self, Error> {
        Err(Error::new(ErrorKind::InvalidSubcommand))
    }

    fn update_from_arg_matches(&mut self, _matches: &ArgMatches) -> Result<(), Error> {
        match *self {}
    }
}

impl Subcommand for ServiceCommand {
    fn augment_subcommands(command: Command) -> Command {
        command
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command
    }

    fn has_subcommand(_name: &str) -> bool {
        false
    }
}
