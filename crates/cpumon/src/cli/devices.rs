//! Commands that let devices in and keep them out: `token`, `key`, `hosts revoke`, `hosts enrolled`,
//! `hosts pending`, `hosts accept`, `hosts reject`.
//! In: nothing. Out: what the user may say of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::units::duration;

/// Where a receiver keeps its identity and its enrolled hosts.
#[derive(Clone, Debug, Args)]
pub struct StateArgs {
    /// The receiver's state directory [default: beside the store, its name with .identity]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The receiver's store [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `cpumon token`.
#[derive(Clone, Debug, Args)]
pub struct TokenArgs {
    /// How long the token is good
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub expires: Duration,
    /// Under which address the device reaches this receiver [default: where it listens]
    #[arg(long, value_name = "ADDR:PORT", value_parser = cpumon_agent::parse_receiver_address)]
    pub address: Option<String>,
    /// Which receiver
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon key`.
#[derive(Clone, Debug, Args)]
pub struct KeyArgs {
    /// What to do
    #[command(subcommand)]
    pub action: KeyAction,
    /// The key file [default: group.keys in the receiver's state directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub group_key: Option<PathBuf>,
    /// The receiver's state directory [default: beside the store, its name with .identity]
    #[arg(long, value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,
    /// The receiver's store [default: the state directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub store: Option<PathBuf>,
}

/// What `cpumon key` does.
#[derive(Clone, Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key that seals from now on; those before it still open
    New,
    /// List the keys by name, the one that seals first
    List,
    /// Take a key out: what is sealed with it is refused
    Retire {
        /// Its name
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What else can be done with hosts.
#[derive(Clone, Debug, Subcommand)]
pub enum HostsCommand {
    /// Refuse an enrolled host from now on; a live connection is cut
    Revoke(RevokeArgs),
    /// List the hosts that were enrolled, revoked ones included
    Enrolled(EnrolledArgs),
    /// List the devices that found this receiver and wait to be let in, each with the code that it shows
    Pending(EnrolledArgs),
    /// Let a device in that waits, by the code that it shows
    Accept(AcceptArgs),
    /// Send a device away that waits
    Reject(RejectArgs),
}

/// `cpumon hosts revoke`.
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// Name or id
    #[arg(value_name = "NAME|ID")]
    pub host: String,
    /// Which receiver
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts accept`.
#[derive(Clone, Debug, Args)]
pub struct AcceptArgs {
    /// The code on the device: that it is the same here shows that nobody stands between
    #[arg(value_name = "CODE")]
    pub code: String,
    /// Which receiver
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts reject`.
#[derive(Clone, Debug, Args)]
pub struct RejectArgs {
    /// Its code, name or id
    #[arg(value_name = "CODE|NAME|ID")]
    pub device: String,
    /// Which receiver
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts enrolled` and `cpumon hosts pending`.
#[derive(Clone, Debug, Args)]
pub struct EnrolledArgs {
    /// Which receiver
    #[command(flatten)]
    pub place: StateArgs,
}
