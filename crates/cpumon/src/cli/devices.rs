//! Arguments of the commands that admit and refuse devices: `token`, `key`, and the subcommands of `hosts`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::FormatArgs;
use crate::units::duration;
use crate::when::When;

/// The directory with a receiver's identity and enrolled hosts.
#[derive(Clone, Debug, Args)]
pub struct StateArgs {
    /// Directory with the receiver's identity and enrolled hosts [default: the store's path with .identity added]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The receiver's store [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `cpumon token`.
#[derive(Clone, Debug, Args)]
pub struct TokenArgs {
    /// Time until the enrolment token expires
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub expires: Duration,
    /// Enroll only this host: its id, the name of an enrolled host, or the name under which a new device enrolls
    #[arg(long, value_name = "NAME|ID")]
    pub host: Option<String>,
    /// With --host: even if the host was revoked
    #[arg(long, requires = "host")]
    pub again: bool,
    /// The address at which the device reaches this receiver [default: the address on which it listens]
    #[arg(long, value_name = "ADDR:PORT", value_parser = cpumon_agent::parse_receiver_address)]
    pub address: Option<String>,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon key`.
#[derive(Clone, Debug, Args)]
pub struct KeyArgs {
    /// The action.
    #[command(subcommand)]
    pub action: KeyAction,
    /// File of group keys [default: group.keys in --state]
    #[arg(long, value_name = "FILE", global = true)]
    pub group_key: Option<PathBuf>,
    /// Directory with the receiver's identity and enrolled hosts [default: the store's path with .identity added]
    #[arg(long, value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,
    /// The receiver's store [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE", global = true)]
    pub store: Option<PathBuf>,
}

/// Actions of `cpumon key`.
#[derive(Clone, Debug, Subcommand)]
pub enum KeyAction {
    /// Make a group key that encrypts from now on; older keys still decrypt
    New,
    /// List the group keys by id, the encrypting key first
    List(FormatArgs),
    /// Remove a group key; datagrams encrypted with it are refused
    Retire {
        /// Id of the group key, as `cpumon key list` prints it
        #[arg(value_name = "ID")]
        id: String,
    },
}

impl KeyAction {
    /// Output format, for commands that print rows.
    pub fn format(&self) -> Option<&FormatArgs> {
        if let Self::List(format) = self { Some(format) } else { None }
    }
}

/// Subcommands of `cpumon hosts`.
#[derive(Clone, Debug, Subcommand)]
pub enum HostsCommand {
    /// Refuse an enrolled host from now on, and end its connection
    Revoke(RevokeArgs),
    /// Remove a host and all of its data from a store
    Forget(ForgetArgs),
    /// List the enrolled hosts, including revoked ones
    Enrolled(EnrolledArgs),
    /// List the devices that wait to be enrolled, each with the code that it shows
    Pending(EnrolledArgs),
    /// Enroll a waiting device by the code that it shows
    Accept(AcceptArgs),
    /// Reject a waiting device
    Reject(RejectArgs),
}

impl HostsCommand {
    /// Output format, for commands that print rows.
    pub fn format(&self) -> Option<&FormatArgs> {
        match self {
            Self::Enrolled(args) | Self::Pending(args) => Some(&args.format),
            Self::Revoke(_) | Self::Forget(_) | Self::Accept(_) | Self::Reject(_) => None,
        }
    }
}

/// `cpumon hosts revoke`.
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// Name or id of the host
    #[arg(value_name = "NAME|ID")]
    pub host: String,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts forget`.
#[derive(Clone, Debug, Args)]
pub struct ForgetArgs {
    /// Name or id of the host; the id if several hosts have this name
    #[arg(value_name = "NAME|ID")]
    pub host: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts accept`.
#[derive(Clone, Debug, Args)]
pub struct AcceptArgs {
    /// The code that the device shows; the same code on both sides rules out a machine in between
    #[arg(value_name = "CODE")]
    pub code: String,
    /// Accept it even if the host was revoked
    #[arg(long)]
    pub again: bool,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts reject`.
#[derive(Clone, Debug, Args)]
pub struct RejectArgs {
    /// Code, name or id of the device
    #[arg(value_name = "CODE|NAME|ID")]
    pub device: String,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon hosts enrolled` and `cpumon hosts pending`.
#[derive(Clone, Debug, Args)]
pub struct EnrolledArgs {
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}

/// `cpumon audit`.
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Only what happened since then: `1h`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<When>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Store and state directory of the receiver.
    #[command(flatten)]
    pub place: StateArgs,
}
