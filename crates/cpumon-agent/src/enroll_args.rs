//! [`EnrollArgs`]: `cpumon-agent enroll` and `cpumon enroll`. In: the line that `cpumon token` printed, or a receiver on the subnet whose
//! user lets this machine in. Out: an identity.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use cpumon_link::discovery::FoundReceiver;
use cpumon_link::tls::{Code, Token, ask, fingerprint};
use cpumon_model::escape;

use crate::DiscoverArgs;
use crate::discover::describe;
use crate::stream::{default_state_dir, enroll_here};
use crate::to::parse_stream_address;

/// Digits of a fingerprint.
const KEY_DIGITS: usize = 32;

/// With whom, and where to keep the key.
#[derive(Args, Clone, Debug)]
pub struct EnrollArgs {
    /// The receiver's address; the port is 3002 unless given
    #[arg(value_name = "ADDR:PORT", value_parser = parse_stream_address, required_unless_present = "discover", conflicts_with = "discover")]
    pub address: Option<String>,
    /// The token: it tells the receiver's key, and is good once
    #[arg(
        value_name = "TOKEN",
        env = "CPUMON_TOKEN",
        hide_env_values = true,
        required_unless_present = "discover"
    )]
    pub token: Option<Token>,
    /// Without address and token: find the receiver on the subnet, show a code, and wait until its user has entered it there
    #[arg(long, env = "CPUMON_DISCOVER")]
    pub discover: bool,
    /// With --discover: only the receiver with this key, as it says at its start; needed when several answer
    #[arg(long, value_name = "KEY", env = "CPUMON_KEY", value_parser = parse_key, requires = "discover", conflicts_with = "address")]
    pub key: Option<String>,
    /// With --discover: where and how long to look
    #[command(flatten)]
    pub look: DiscoverArgs,
    /// Keep this machine's keys here [default: the state directory]
    #[arg(long, value_name = "DIR", env = "CPUMON_STATE")]
    pub state: Option<PathBuf>,
    /// Enrol under this name instead of the machine's own
    #[arg(long, value_name = "NAME", env = "CPUMON_HOST_NAME")]
    pub host_name: Option<String>,
}

impl EnrollArgs {
    /// Does it. Gives what to say about it.
    ///
    /// # Errors
    /// The receiver cannot be found or reached, does not let this machine in, or the key cannot be kept.
    pub fn run(&self) -> anyhow::Result<String> {
        let state = self.state.clone().unwrap_or_else(default_state_dir);
        let mut said = match (&self.address, &self.token) {
            (Some(address), Some(token)) if !self.discover => {
                enroll_here(address, token, &state, self.host_name.as_deref())?
            }
            _ => self.ask_on_the_subnet(&state)?,
        };
        if let Some(state) = &self.state {
            said.push_str(" --state ");
            said.push_str(&state.display().to_string());
        }
        Ok(said)
    }

    fn ask_on_the_subnet(&self, state: &Path) -> anyhow::Result<String> {
        let receiver = self.find()?;
        let info = cpumon_collect::host_info(&cpumon_collect::SourceOptions::default())
            .context("cannot tell who this machine is")?;
        let name = self.host_name.as_deref().unwrap_or(&info.hostname);
        let shown = escape(&receiver.name).to_string();
        let addresses: Vec<String> = receiver.addresses.iter().map(ToString::to_string).collect();
        let identity = ask(
            state,
            (&addresses, receiver.pin),
            (info.host.0, name),
            &mut |code| show(code, &shown, &receiver.pin),
            &mut |code| self.key.is_some() || agrees(code),
        )
        .context("cannot enrol")?;
        let (address, path) = identity.place();
        Ok(format!(
            "enrolled with {shown} at {address} as {name}; the key is in {}\nnow run: cpumon-agent --to enrolled",
            path.display()
        ))
    }

    /// The receiver that is wanted, or the only one.
    fn find(&self) -> anyhow::Result<FoundReceiver> {
        let mut search = self.look.look()?;
        if let Some(key) = &self.key {
            search.found.retain(|found| fingerprint(&found.pin) == *key);
            if search.found.is_empty() {
                bail!("no receiver with key {key} answers; `cpumon-agent discover` lists those that do");
            }
        }
        match search.found.len() {
            0 => bail!("{}", describe(&search).trim_end()),
            1 => Ok(search.found.swap_remove(0)),
            _ => {
                bail!("several receivers answer; choose one with --key KEY\n{}", describe(&search).trim_end())
            }
        }
    }
}

fn show(code: Code, receiver: &str, pin: &[u8; 32]) {
    let said = format!(
        "code {code}\nreceiver {receiver}, key {}\nEnter the code there: cpumon hosts accept {code}\nIf it does not wait there \
         (cpumon hosts pending), somebody else has answered: end this with Ctrl-C.\n",
        fingerprint(pin)
    );
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; then nobody enters the code.
    let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
}

/// Somebody else could have said yes. Who sits here knows; where nobody does, the receiver's list of hosts tells.
fn agrees(code: Code) -> bool {
    let mut input = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        return true;
    }
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "It lets this machine in. Was the code {code} entered there? [y/N] ")
        .and_then(|()| out.flush());
    let mut answer = String::new();
    input.read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn parse_key(text: &str) -> Result<String, String> {
    let key = text.to_ascii_lowercase();
    let is_key = key.len() == KEY_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_key { Ok(key) } else { Err(format!("a key has {KEY_DIGITS} hexadecimal digits")) }
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
    fn with_a_token_or_by_discovery_and_nothing_in_between() {
        let token = Token { pin: [1; 32], secret: [2; 32] }.to_string();
        assert!(parse(&format!("desk {token}")).unwrap().token.is_some());
        let key = "AB".repeat(16);
        let found = parse(&format!("--discover --key {key} --interface eth0 --wait 3s")).unwrap();
        assert_eq!((found.key, found.look.interfaces), (Some("ab".repeat(16)), vec!["eth0".to_owned()]));
        for (line, said) in [
            ("", "required"),
            ("desk", "TOKEN"),
            ("desk --discover", "cannot be used with"),
            ("--discover --key abc", "32 hexadecimal digits"),
            (&format!("desk {token} --key {key}"), "cannot be used with"),
            (&format!("--key {key}"), "--discover"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
