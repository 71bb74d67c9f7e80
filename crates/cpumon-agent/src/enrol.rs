//! The commands that bring a device to a receiver. `enroll` ([`EnrollArgs`]) takes the command that `cpumon token` printed, or asks a
//! receiver on the subnet, whose user accepts the device; the result is an identity, keys in the state directory. `discover`
//! ([`DiscoverArgs`]) lists the receivers on the subnet.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use cpumon_collect::parse_interval;
use cpumon_link::discovery::{FoundReceiver, Ignored, Search, SearchOptions, groups, search};
use cpumon_link::tls::{Code, Token, ask, enroll, fingerprint};
use cpumon_model::{HostInfo, counted, escape};

use crate::error::{DiscoverError, EnrollError};
use crate::platform::{STATE_HELP, default_state_dir};
use crate::values::parse_receiver_address;

/// Hexadecimal digits of a fingerprint.
const KEY_DIGITS: usize = 32;

/// The receiver to enrol with, and where to store the key.
#[derive(Args, Clone, Debug)]
pub struct EnrollArgs {
    /// The receiver's address [default port: 3002]
    #[arg(value_name = "ADDR:PORT", value_parser = parse_receiver_address, required_unless_present = "discover", conflicts_with = "discover")]
    pub address: Option<String>,
    /// The enrolment token from `cpumon token`: it names the receiver's key and works once
    #[arg(
        value_name = "TOKEN",
        env = "CPUMON_TOKEN",
        hide_env_values = true,
        required_unless_present = "discover"
    )]
    pub token: Option<Token>,
    /// Find the receiver on the subnet, print a code and wait until the receiver's user enters it (instead of ADDR:PORT and TOKEN)
    #[arg(long, env = "CPUMON_DISCOVER")]
    pub discover: bool,
    /// With --discover: only the receiver with this key, which it prints when it starts; needed when several answer, and without a terminal
    #[arg(long, value_name = "KEY", env = "CPUMON_KEY", value_parser = parse_key, requires = "discover", conflicts_with = "address")]
    pub key: Option<String>,
    /// With --discover: the interfaces to ask on, and how long to wait.
    #[command(flatten)]
    pub discovery: DiscoverArgs,
    /// Directory of this machine's keys.
    #[arg(long, value_name = "DIR", env = "CPUMON_STATE", help = STATE_HELP)]
    pub state: Option<PathBuf>,
    /// Enroll under this name instead of the machine's own
    #[arg(long, value_name = "NAME", env = "CPUMON_HOST_NAME")]
    pub host_name: Option<String>,
}

impl EnrollArgs {
    /// Enrolls this machine. Returns the text for the user.
    ///
    /// # Errors
    /// The receiver cannot be found or reached, rejects this machine, or the key cannot be stored.
    pub fn run(&self) -> Result<String, EnrollError> {
        let state = self.state.clone().unwrap_or_else(default_state_dir);
        let mut message = match (&self.address, &self.token) {
            (Some(address), Some(token)) if !self.discover => {
                enroll_here(address, token, &state, self.host_name.as_deref())?
            }
            _ => self.ask_on_the_subnet(&state)?,
        };
        if let Some(state) = &self.state {
            message.push_str(" --state ");
            message.push_str(&state.display().to_string());
        }
        Ok(message)
    }

    fn ask_on_the_subnet(&self, state: &Path) -> Result<String, EnrollError> {
        // The answer may come from anyone on the subnet: either the user compares the code, or names the key.
        if self.key.is_none() && !std::io::stdin().is_terminal() {
            return Err(EnrollError::NoTerminal);
        }
        let receiver = self.find()?;
        let info = this_machine()?;
        let name = self.host_name.as_deref().unwrap_or(&info.hostname);
        let shown = escape(&receiver.name).to_string();
        let addresses: Vec<String> = receiver.addresses.iter().map(ToString::to_string).collect();
        let identity = ask(
            state,
            &addresses,
            receiver.pin,
            info.host.0,
            name,
            &mut |code| show(code, &shown, &receiver.pin),
            // With --key the user has named the receiver already, so there is nothing left to compare.
            &mut |code| self.key.is_some() || agrees(code),
        )
        .map_err(EnrollError::Enroll)?;
        let (address, path) = (&identity.address, &identity.path);
        Ok(format!(
            "enrolled with {shown} at {address} as {name}; the key is in {}\nnow run: cpumon-agent --to enrolled",
            path.display()
        ))
    }

    /// The receiver with the wanted key, or the only one that answers.
    fn find(&self) -> Result<FoundReceiver, EnrollError> {
        let mut search = self.discovery.search()?;
        if let Some(key) = &self.key {
            search.found.retain(|found| fingerprint(&found.pin) == *key);
            if search.found.is_empty() {
                return Err(EnrollError::UnknownKey(key.clone()));
            }
        }
        let answers = || describe(&search).trim_end().to_owned();
        match search.found.len() {
            0 => Err(EnrollError::NoAnswer(answers())),
            1 => Ok(search.found.swap_remove(0)),
            _ => Err(EnrollError::Ambiguous(answers())),
        }
    }
}

/// Enrolls this machine with a receiver by its token. Returns the text for the user.
///
/// # Errors
/// This machine has no host id, or the receiver refuses the token.
pub fn enroll_here(
    address: &str,
    token: &Token,
    state: &Path,
    host_name: Option<&str>,
) -> Result<String, EnrollError> {
    let info = this_machine()?;
    let name = host_name.unwrap_or(&info.hostname);
    let identity = enroll(state, address, token, info.host.0, name).map_err(EnrollError::Enroll)?;
    Ok(format!(
        "enrolled with {address} as {name}; the key is in {}\nnow run: cpumon-agent --to tls://{address}",
        identity.path.display()
    ))
}

fn this_machine() -> Result<HostInfo, EnrollError> {
    cpumon_collect::host_info(&cpumon_collect::SourceOptions::default()).map_err(EnrollError::Machine)
}

fn show(code: Code, receiver: &str, pin: &[u8; 32]) {
    let text = format!(
        "code {code}\nreceiver {receiver}, key {}\nEnter the code there: cpumon hosts accept {code}\nIf the code is not \
         listed there (cpumon hosts pending), another machine has answered: press Ctrl-C.\n",
        fingerprint(pin)
    );
    let mut out = std::io::stdout().lock();
    // Standard output may be closed; then no user can enter the code, and the wait ends by its timeout.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Asks the user to confirm: another machine on the subnet could have answered as the receiver.
fn agrees(code: Code) -> bool {
    let mut input = std::io::stdin().lock();
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "The receiver accepts this machine. Was the code {code} entered there? [y/N] ")
        .and_then(|()| out.flush());
    let mut answer = String::new();
    input.read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn parse_key(text: &str) -> Result<String, String> {
    let key = text.to_ascii_lowercase();
    let is_key = key.len() == KEY_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_key { Ok(key) } else { Err(format!("a key has {KEY_DIGITS} hexadecimal digits")) }
}

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

const NO_RECEIVER: &str =
    "no receiver answers; start one on this subnet with: cpumon serve --tls 0.0.0.0:3002 --discovery";

/// One line for each receiver, then the counts of ignored answers.
pub(crate) fn describe(search: &Search) -> String {
    let mut text = String::new();
    if !search.found.is_empty() {
        let addresses: Vec<String> = search.found.iter().map(address).collect();
        let width = addresses.iter().map(String::len).max().unwrap_or(0).max("ADDRESS".len());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:32}  {:width$}  NAME", "KEY", "ADDRESS");
        for (found, address) in search.found.iter().zip(&addresses) {
            let _ = writeln!(text, "{}  {address:width$}  {}", fingerprint(&found.pin), escape(&found.name));
        }
    }
    text + &search_notes(search)
}

/// Lines about a search beside what it found: that nothing answers and why that may be, and the counts of ignored answers.
pub fn search_notes(search: &Search) -> String {
    let mut notes = String::new();
    if search.found.is_empty() {
        notes = format!("{NO_RECEIVER}\n");
        if let Some(unsent) = &search.unsent {
            // Writing to a String cannot fail.
            let _ = writeln!(notes, "cannot ask {unsent}");
        }
    }
    notes + &ignored(&search.ignored)
}

fn ignored(ignored: &Ignored) -> String {
    let shown = counted([
        (ignored.malformed, "malformed"),
        (ignored.stale, "to another question"),
        (ignored.too_many, "too many"),
    ]);
    if shown.is_empty() { String::new() } else { format!("ignored answers: {}\n", shown.join(", ")) }
}

/// The address that this machine reaches best.
fn address(found: &FoundReceiver) -> String {
    let best = found.addresses.first().map(ToString::to_string);
    best.unwrap_or_else(|| "none that this machine reaches".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        enroll: EnrollArgs,
    }

    fn parse(line: &str) -> Result<EnrollArgs, String> {
        let words = std::iter::once("enroll").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.enroll).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_or_discovery_but_not_a_mixture() {
        let token = Token { pin: [1; 32], secret: [2; 32] }.to_string();
        assert!(parse(&format!("receiver {token}")).unwrap().token.is_some());
        let key = "AB".repeat(16);
        let found = parse(&format!("--discover --key {key} --interface eth0 --wait 3s")).unwrap();
        assert_eq!((found.key, found.discovery.interfaces), (Some("ab".repeat(16)), vec!["eth0".to_owned()]));
        for (line, expected) in [
            ("", "required"),
            ("receiver", "TOKEN"),
            ("receiver --discover", "cannot be used with"),
            ("--discover --key abc", "32 hexadecimal digits"),
            (&format!("receiver {token} --key {key}"), "cannot be used with"),
            (&format!("--key {key}"), "--discover"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

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
        let found = vec![found(0xab, "receiver"), found(1, "\u{1b}[2J")];
        let unsent = Some("[ff02::fb]:5353: Cannot assign requested address (os error 99)".to_owned());
        let search = Search { found, ignored, asked: 2, unsent };
        let text = describe(&search);
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{}  10.0.0.2:3002  receiver", "ab".repeat(16)));
        assert_eq!(lines[3], "ignored answers: 3 to another question");
        assert_eq!(lines[0].find("ADDRESS"), lines[1].find("10.0.0.2"));
        assert_eq!(lines.len(), 4, "another network does not matter");
        assert!(describe(&Search::default()).contains("--discovery"));
    }

    /// The advice to start a receiver was all there was.
    #[test]
    fn without_an_answer_it_says_what_could_not_be_asked() {
        let unsent = Some("224.0.0.251:5353: Network is unreachable (os error 101)".to_owned());
        let text = describe(&Search { unsent, ..Search::default() });
        assert_eq!(
            text.lines().nth(1),
            Some("cannot ask 224.0.0.251:5353: Network is unreachable (os error 101)")
        );
    }
}
