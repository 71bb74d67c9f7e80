//! Environment variables of renamed flags: `CPUMON_LOG` still sets `--record`.

use clap::Arg;

/// Reads the argument from the variable of a former name (a hidden alias), if that variable is set and the current one is not.
#[must_use]
pub fn with_old_variable(arg: Arg) -> Arg {
    let is_set = |name: &std::ffi::OsStr| std::env::var_os(name).is_some();
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

/// The variable of a flag: `--spool-bytes` is `CPUMON_SPOOL_BYTES`.
#[must_use]
pub fn variable_of(long: &str) -> String {
    format!("CPUMON_{}", long.to_ascii_uppercase().replace('-', "_"))
}
