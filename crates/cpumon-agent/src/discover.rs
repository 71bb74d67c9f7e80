//! [`DiscoverArgs`]: `cpumon-agent discover` and `cpumon discover`. They list the receivers that answer on the subnet, and
//! count the answers that were ignored.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use cpumon_collect::parse_interval;
use cpumon_link::discovery::{FoundReceiver, Ignored, Search, SearchOptions, groups, search};
use cpumon_link::tls::fingerprint;
use cpumon_model::escape;

use crate::error::DiscoverError;

/// The interfaces to ask on, and how long to wait for answers.
#[derive(Args, Clone, Debug)]
pub struct DiscoverArgs {
    /// Ask on this interface only; may be repeated [default: all that are up, except loopback]
    #[arg(long = "interface", value_name = "NAME", env = "CPUMON_INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,
    /// How long to wait for answers
    #[arg(long, value_name = "TIME", env = "CPUMON_WAIT", default_value = "1s", value_parser = parse_interval)]
    pub wait: Duration,
}

impl DiscoverArgs {
    /// Asks on each subnet and collects the answers.
    ///
    /// # Errors
    /// This machine is on no network, or has no socket left.
    pub fn search(&self) -> Result<Search, DiscoverError> {
        let options = SearchOptions { to: groups(&self.interfaces), wanted: None, wait: self.wait };
        let search = search(&options, &|| false).map_err(DiscoverError::Search)?;
        if search.asked == 0 {
            return Err(DiscoverError::NoInterface);
        }
        Ok(search)
    }

    /// Searches, and returns the list as text, and whether a receiver was found.
    ///
    /// # Errors
    /// As [`DiscoverArgs::search`].
    pub fn run(&self) -> Result<(String, bool), DiscoverError> {
        let search = self.search()?;
        Ok((describe(&search), !search.found.is_empty()))
    }
}

/// One line for each receiver, then the counts of ignored answers.
pub(crate) fn describe(search: &Search) -> String {
    let mut text = String::new();
    if search.found.is_empty() {
        text.push_str(
            "no receiver answers; start one on this subnet with: cpumon serve --tls 0.0.0.0:3002 --discovery\n",
        );
    } else {
        let addresses: Vec<String> = search.found.iter().map(address).collect();
        let width = addresses.iter().map(String::len).max().unwrap_or(0).max("ADDRESS".len());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:32}  {:width$}  NAME", "KEY", "ADDRESS");
        for (found, address) in search.found.iter().zip(&addresses) {
            let _ = writeln!(text, "{}  {address:width$}  {}", fingerprint(&found.pin), escape(&found.name));
        }
    }
    text.push_str(&ignored(&search.ignored));
    text
}

fn ignored(ignored: &Ignored) -> String {
    let counts = [
        (ignored.malformed, "malformed"),
        (ignored.stale, "to another question"),
        (ignored.too_many, "too many"),
    ];
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if shown.is_empty() { String::new() } else { format!("ignored answers: {}\n", shown.join(", ")) }
}

/// The address that this machine reaches best.
fn address(found: &FoundReceiver) -> String {
    let best = found.addresses.first().map(ToString::to_string);
    best.unwrap_or_else(|| "none that this machine reaches".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(byte: u8, name: &str) -> FoundReceiver {
        FoundReceiver {
            pin: [byte; 32],
            name: name.to_owned(),
            addresses: vec!["10.0.0.2:3002".parse().unwrap()],
            from: "10.0.0.2:3003".parse().unwrap(),
            after: Duration::ZERO,
        }
    }

    #[test]
    fn what_was_found_reads_well_and_is_safe_to_print() {
        let ignored = Ignored { stale: 3, other_key: 9, ..Ignored::default() };
        let search =
            Search { found: vec![found(0xab, "receiver"), found(1, "\u{1b}[2J")], ignored, asked: 1 };
        let text = describe(&search);
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{}  10.0.0.2:3002  receiver", "ab".repeat(16)));
        assert_eq!(lines[3], "ignored answers: 3 to another question");
        assert_eq!(lines[0].find("ADDRESS"), lines[1].find("10.0.0.2"));
        assert!(describe(&Search::default()).contains("--discovery"));
    }
}
