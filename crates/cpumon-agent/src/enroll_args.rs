//! [`EnrollArgs`]: `cpumon-agent enroll` and `cpumon enroll`. In: the line that `cpumon token` printed. Out: an identity.

use std::path::PathBuf;

use clap::Args;
use cpumon_link::tls::Token;

use crate::stream::{default_state_dir, enroll_here};
use crate::to::parse_stream_address;

/// With whom, and where to keep the key.
#[derive(Args, Clone, Debug)]
pub struct EnrollArgs {
    /// The receiver's address; the port is 3002 unless given
    #[arg(value_name = "ADDR:PORT", value_parser = parse_stream_address)]
    pub address: String,
    /// The token: it tells the receiver's key, and is good once
    #[arg(value_name = "TOKEN", env = "CPUMON_TOKEN", hide_env_values = true)]
    pub token: Token,
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
    /// The receiver cannot be reached or does not take the token, or the key cannot be kept.
    pub fn run(&self) -> anyhow::Result<String> {
        let state = self.state.clone().unwrap_or_else(default_state_dir);
        let mut said = enroll_here(&self.address, &self.token, &state, self.host_name.as_deref())?;
        if let Some(state) = &self.state {
            said.push_str(" --state ");
            said.push_str(&state.display().to_string());
        }
        Ok(said)
    }
}
