//! Values of flags as people write them (sizes, whole numbers, [`To`] a receiver), and environment variables in the place of flags.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{FalseyValueParser, Resettable};
use clap::{Arg, ArgAction, Command};
use cpumon_link::tls::DEFAULT_TLS_PORT;
use cpumon_link::{ParseTargetError, Target};

/// Parses a size in bytes: `500`, `10GB` (10^9), `1.5GiB` (2^30). At most 2^63 bytes.
///
/// # Errors
/// The text is not a size, or is larger than any disk.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_size::parse_size(text) {
        // Sizes are compared with signed columns of the store.
        Ok(bytes) if i64::try_from(bytes).is_ok() => Ok(bytes),
        Ok(_) | Err(parse_size::Error::PosOverflow) => Err(format!("{text:?} is more than any disk holds")),
        Err(_) => Err(format!("{text:?} is not a size; write 500MB, 10GB or 1.5GiB")),
    }
}

/// From here on, a limit comes from a type rather than from a flag's meaning: it is named only for numbers that exceed it.
const TYPE_LIMIT: u64 = u32::MAX as u64;

/// Parses whole numbers in `range`.
///
/// # Errors
/// The text is no number, or one outside of `range`.
pub fn whole_number<T>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + 'static,
{
    move |text| {
        let number = text.trim().parse::<u128>().ok();
        let (least, most) = (*range.start(), *range.end());
        let fits =
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
        fits.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let is_over = number.is_some_and(|number| number > u128::from(most));
            let end = if is_over || most < TYPE_LIMIT { format!("to {most}") } else { "up".to_owned() };
            format!("{text:?} is not a whole number from {least} {end}")
        })
    }
}

const SCHEME: &str = "tls://";
const ENROLLED: &str = "enrolled";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    Udp(Target),
    /// A TLS connection to this `host:port`.
    Tls(String),
    /// A TLS connection to each receiver that this machine is enrolled with.
    Enrolled,
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SCHEME) {
            _ if text == ENROLLED => Ok(Self::Enrolled),
            Some(address) => parse_receiver_address(address).map(Self::Tls),
            None => text.parse().map(Self::Udp).map_err(|error: ParseTargetError| error.to_string()),
        }
    }
}

/// Parses `HOST[:PORT]` of a receiver, with or without `tls://`. The default port is 3002.
///
/// # Errors
/// The text is not the address of one machine.
pub fn parse_receiver_address(text: &str) -> Result<String, String> {
    let text = text.strip_prefix(SCHEME).unwrap_or(text);
    let target = Target::parse(text, DEFAULT_TLS_PORT).map_err(|error| error.to_string())?;
    match target {
        Target::Unicast(_) | Target::Name { .. } => Ok(target.to_string()),
        other => Err(format!("{other}: tls:// needs the address of one machine")),
    }
}

/// An empty one is an error: encryption must not end because a file of settings has a gap.
const NEVER_EMPTY: &str = "CPUMON_GROUP_KEY";

/// Whether an environment variable is set and not empty.
pub fn is_set(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

pub fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Reads the argument from the variable of a former name (a hidden alias), if that variable is set and the current one is not.
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
pub fn with_yes_and_no(arg: Arg) -> Arg {
    if is_flag(&arg) { arg.value_parser(FalseyValueParser::new()) } else { arg }
}

/// The argument without its variable if that says nothing: it is empty, or says no of a flag, which then contradicts nothing.
pub fn without_unset_variable(arg: Arg) -> Arg {
    let Some(name) = arg.get_env() else { return arg };
    // If the variable is not set, the help still shows its name.
    let Some(value) = std::env::var_os(name) else { return arg };
    let is_off = || {
        // The words of `FalseyValueParser`.
        ["n", "no", "f", "false", "off", "0"].contains(&&*value.to_string_lossy().to_lowercase())
    };
    let says_nothing = value.is_empty() && name != NEVER_EMPTY || is_flag(&arg) && is_off();
    if says_nothing { arg.env(Resettable::Reset) } else { arg }
}

/// Environment variable of a flag: `--spool-bytes` is `CPUMON_SPOOL_BYTES`.
pub fn variable_of(long: &str) -> String {
    format!("CPUMON_{}", long.to_ascii_uppercase().replace('-', "_"))
}

/// A command and its subcommands, for a command line to be parsed with the variables as they are set.
pub fn with_variables(command: Command) -> Command {
    let counted = |arg| without_unset_variable(with_yes_and_no(with_old_variable(arg)));
    command.mut_args(counted).mut_subcommands(with_variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_both_systems() {
        for (text, bytes) in [
            ("0", 0),
            ("500", 500),
            ("500B", 500),
            ("10GB", 10_000_000_000),
            ("10g", 10_000_000_000),
            ("1.5 GiB", 1_610_612_736),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "16 EB", "-1GB", "ten", "1.2.3MB", "9999999999999TB", "99999999999999.5TB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_outside_is_refused_with_the_limits() {
        let count = whole_number::<u32>(1..=u64::from(u32::MAX));
        assert_eq!((count("1"), count(" 20 "), count("4294967295")), (Ok(1), Ok(20), Ok(u32::MAX)));
        for text in ["0", "-1", "1.5", "x", ""] {
            assert_eq!(count(text), Err(format!("{text:?} is not a whole number from 1 up")));
        }
        for text in ["4294967296", "99999999999999999999999"] {
            assert_eq!(count(text), Err(format!("{text:?} is not a whole number from 1 to 4294967295")));
        }
        let hops = whole_number::<u8>(1..=255);
        assert_eq!(
            (hops("255"), hops("0").unwrap_err()),
            (Ok(255), "\"0\" is not a whole number from 1 to 255".into())
        );
    }

    #[test]
    fn the_scheme_separates_tls_from_datagrams() {
        assert_eq!("10.0.0.1".parse(), Ok(To::Udp("10.0.0.1:3001".parse().unwrap())));
        for (text, address) in [
            ("tls://10.0.0.1", "10.0.0.1:3002"),
            ("tls://receiver", "receiver:3002"),
            ("tls://[::1]:9", "[::1]:9"),
            ("tls://receiver:443", "receiver:443"),
        ] {
            assert_eq!(text.parse(), Ok(To::Tls(address.to_owned())));
        }
        assert_eq!(
            ("enrolled".parse(), "tls://enrolled".parse()),
            (Ok(To::Enrolled), Ok(To::Tls("enrolled:3002".into())))
        );
        assert!("tls://255.255.255.255".parse::<To>().unwrap_err().contains("one machine"));
        assert!("tls://".parse::<To>().is_err() && "https://receiver".parse::<To>().is_err());
    }
}
