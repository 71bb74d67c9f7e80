//! Environment variables of flags: `CPUMON_LOG` still sets `--record`, an empty variable counts as not set, and `1` and `0` are words for
//! yes and no.

use std::ffi::OsStr;

use clap::builder::{FalseyValueParser, Resettable};
use clap::{Arg, ArgAction, Command};

/// An empty one is an error: encryption must not end because a file of settings has a gap.
const NEVER_EMPTY: &str = "CPUMON_GROUP_KEY";

/// Whether a variable has a value.
#[must_use]
pub fn is_set(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Whether this is a flag without a value.
#[must_use]
pub fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Reads the argument from the variable of a former name (a hidden alias), if that variable is set and the current one is not.
#[must_use]
pub fn with_old_variable(arg: Arg) -> Arg {
    // The variable of the current name wins.
    if arg.get_env().is_none_or(is_set) {
        return arg;
    }
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let mut variables = aliases.iter().map(|alias| variable_of(alias));
    match variables.find(|name| is_set(name.as_ref())) {
        Some(name) => arg.env(name),
        None => arg,
    }
}

/// Flags take more words from their variables than `true` and `false`.
#[must_use]
pub fn with_yes_and_no(arg: Arg) -> Arg {
    if is_flag(&arg) { arg.value_parser(FalseyValueParser::new()) } else { arg }
}

/// The argument without its variable if that says nothing: it is empty, or says no of a flag, which then contradicts nothing.
#[must_use]
pub fn without_unset_variable(arg: Arg) -> Arg {
    let Some(name) = arg.get_env() else { return arg };
    // Of one that is not there, the help still has the name.
    let Some(value) = std::env::var_os(name) else { return arg };
    let is_off = || {
        // The words of `FalseyValueParser`.
        ["n", "no", "f", "false", "off", "0"].contains(&&*value.to_string_lossy().to_lowercase())
    };
    let says_nothing = value.is_empty() && name != NEVER_EMPTY || is_flag(&arg) && is_off();
    if says_nothing { arg.env(Resettable::Reset) } else { arg }
}

/// The variable of a flag: `--spool-bytes` is `CPUMON_SPOOL_BYTES`.
#[must_use]
pub fn variable_of(long: &str) -> String {
    format!("CPUMON_{}", long.to_ascii_uppercase().replace('-', "_"))
}

/// A command and its subcommands, for a command line to be parsed with the variables as they are set.
#[must_use]
pub fn with_variables(command: Command) -> Command {
    let counted = |arg| without_unset_variable(with_yes_and_no(with_old_variable(arg)));
    command.mut_args(counted).mut_subcommands(with_variables)
}
