//! [`UplinkOptions`]: the receivers of an uplink, and who this machine is to them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::Target;
use crate::attachments::TraceRequests;
use crate::tls::DeviceIdentity;

/// A receiver and who we are to it.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// `host:port`.
    pub address: String,
    /// What was enrolled there.
    pub identity: DeviceIdentity,
}

impl From<DeviceIdentity> for Receiver {
    /// Where it was when it enrolled this device.
    fn from(identity: DeviceIdentity) -> Self {
        Self { address: identity.place().0.to_owned(), identity }
    }
}

/// What an uplink needs to know.
#[derive(Clone, Debug)]
pub struct UplinkOptions {
    /// In the order in which to try them.
    pub receivers: Vec<Receiver>,
    /// This machine.
    pub host: [u8; 16],
    /// Program and version.
    pub agent: String,
    /// Its boot.
    pub boot: [u8; 16],
    /// This machine's clocks at one moment: the wall clock, ns since the UNIX epoch, and the time since boot, as in its snapshots, ns.
    pub clocks: fn() -> (i64, u64),
    /// Whom to ask when no receiver answers where it should be ([`groups`](crate::discovery::groups)); empty: do not ask.
    pub ask: Vec<Target>,
    /// Files to send beside the snapshots, if any are written.
    pub attachments: Option<AttachmentOptions>,
}

/// Where files wait to be sent, and who writes them.
#[derive(Clone, Debug)]
pub struct AttachmentOptions {
    /// Directory of the files ([`attachments`](crate::attachments)).
    pub dir: PathBuf,
    /// Says when there is a new one, and takes requests for one.
    pub requests: Arc<TraceRequests>,
}
