//! [`Requests`]: devices that wait to be let in by the user, a file each. They are files so that `cpumon
//! hosts accept` works beside a running receiver, which checks them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpumon_link::tls::files::{self, field, unhex};
use cpumon_link::tls::{Code, TlsError, random};

use super::error::EnrollmentError;
use crate::clock::wall_s;

/// How long a request may wait.
pub const REQUEST_WAITS: Duration = Duration::from_mins(10);

/// A device that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// What the device shows, too.
    pub code: Code,
    /// The machine, as it says.
    pub host: [u8; 16],
    /// Its name, as it says.
    pub name: String,
    /// Where it connects from.
    pub source: String,
    /// When it ends, s since the epoch.
    pub until_s: u64,
    /// Hash of its key.
    pub key: [u8; 32],
    id: [u8; 16],
}

/// What the user decided.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The device gets a certificate, unless its host was revoked.
    Accept,
    /// The device gets a certificate, also if its host was revoked.
    AcceptAgain,
    /// The device is refused; it may ask again.
    Reject,
}

impl Decision {
    pub(super) fn no_device(self, wanted: &str) -> EnrollmentError {
        let by = if self == Self::Reject { "code, name or id" } else { "code" };
        EnrollmentError::NoDeviceWaiting { wanted: wanted.chars().take(80).collect(), by }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Accept | Self::AcceptAgain => "accept",
            Self::Reject => "reject",
        }
    }
}

impl PendingRequest {
    pub(crate) fn new(
        code: Code,
        host: [u8; 16],
        name: &str,
        source: String,
        key: [u8; 32],
    ) -> Result<Self, TlsError> {
        let name = name.chars().filter(|c| !c.is_control()).collect();
        let until_s = wall_s() + REQUEST_WAITS.as_secs();
        Ok(Self { code, host, name, source, until_s, key, id: random()? })
    }

    fn text(&self) -> String {
        let Self { code, name, source, until_s, .. } = self;
        let (host, key) = (hex::encode(self.host), hex::encode(self.key));
        format!("code: {code}\nhost: {host}\nname: {name}\nsource: {source}\nuntil: {until_s}\nkey: {key}\n")
    }

    fn parse(id: [u8; 16], text: &str) -> Option<Self> {
        Some(Self {
            code: field(text, "code")?.parse().ok()?,
            host: unhex(field(text, "host")?)?,
            name: field(text, "name")?.to_owned(),
            source: field(text, "source")?.to_owned(),
            until_s: field(text, "until")?.parse().ok()?,
            key: unhex(field(text, "key")?)?,
            id,
        })
    }
}

/// The pending requests in one directory, shared with `cpumon hosts accept` and `reject`.
#[derive(Clone, Debug)]
pub struct Requests {
    dir: PathBuf,
}

impl Requests {
    pub(super) fn open(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Those that wait now, the oldest first. What a receiver that was killed left behind goes when its time is over.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn list(&self) -> Result<Vec<PendingRequest>, EnrollmentError> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(files::failed("read", &self.dir))? {
            let path = entry.map_err(files::failed("read", &self.dir))?.path();
            let Some(id) = path.file_name().and_then(|name| unhex(name.to_str()?)) else { continue };
            let Some(bytes) = files::read(&path)? else { continue };
            all.extend(PendingRequest::parse(id, &String::from_utf8_lossy(&bytes)));
        }
        let now = wall_s();
        all.retain(|request| request.until_s > now);
        all.sort_by_key(|request| (request.until_s, request.id));
        Ok(all)
    }

    /// The one that waits with this code. To say no its name or id will do: to say yes the user must have seen the code on the device.
    ///
    /// # Errors
    /// No device waits like this, or several do.
    pub(super) fn find(&self, wanted: &str, decision: Decision) -> Result<PendingRequest, EnrollmentError> {
        let code = match (wanted.parse::<Code>(), decision) {
            (Err(error), Decision::Accept | Decision::AcceptAgain) => return Err(error.into()),
            (code, _) => code.ok(),
        };
        let id: Option<[u8; 16]> = unhex(&wanted.replace('-', ""));
        let named = decision == Decision::Reject;
        // A text that is an id is no name: a device could ask under another one's id.
        let is_named = |one: &PendingRequest| id.map_or(one.name == wanted, |id| one.host == id);
        let is_it = |one: &PendingRequest| Some(one.code) == code || (named && is_named(one));
        let mut found = self.list()?.into_iter().filter(is_it);
        let (Some(request), other) = (found.next(), found.next()) else {
            return Err(decision.no_device(wanted));
        };
        if other.is_some() {
            return Err(EnrollmentError::SeveralWait(wanted.chars().take(80).collect()));
        }
        Ok(request)
    }

    /// Decides about a request, and waits until the receiver has acted.
    ///
    /// # Errors
    /// It cannot be written, or no receiver is there to act.
    pub(super) fn decide(&self, request: &PendingRequest, decision: Decision) -> Result<(), EnrollmentError> {
        // The file's name is the decision. The receiver removes the request once it has acted.
        files::write(&self.path(request, decision.ending()), b"", true)?;
        let end = Instant::now() + Duration::from_secs(5);
        while self.path(request, "").exists() {
            if Instant::now() >= end {
                return Err(EnrollmentError::NoReceiver);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn path(&self, request: &PendingRequest, ending: &str) -> PathBuf {
        let path = self.dir.join(hex::encode(request.id));
        if ending.is_empty() { path } else { path.with_extension(ending) }
    }

    /// Shows a request to the user for as long as what is returned lives.
    pub(crate) fn put(&self, request: PendingRequest) -> Result<Shown<'_>, TlsError> {
        files::write(&self.path(&request, ""), request.text().as_bytes(), true)?;
        Ok(Shown { requests: self, request })
    }

    /// Removes what the receiver before this one left behind: those devices are not connected any more.
    pub(crate) fn clear(&self) -> Result<(), TlsError> {
        for entry in std::fs::read_dir(&self.dir).map_err(files::failed("read", &self.dir))? {
            let path = entry.map_err(files::failed("read", &self.dir))?.path();
            std::fs::remove_file(&path).map_err(files::failed("remove", &path))?;
        }
        Ok(())
    }
}

/// A request that the user can see.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    requests: &'a Requests,
    pub(super) request: PendingRequest,
}

impl Shown<'_> {
    /// What the user decided, if anything. If there are both a yes and a no, the no counts.
    pub(super) fn decision(&self) -> Option<Decision> {
        let is_made = |decision: &Decision| self.requests.path(&self.request, decision.ending()).exists();
        [Decision::Reject, Decision::Accept].into_iter().find(is_made)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        // The decision last: who made it waits for the request to go. What stays goes with the next start.
        for ending in ["", Decision::Accept.ending(), Decision::Reject.ending()] {
            let _ = std::fs::remove_file(self.requests.path(&self.request, ending));
        }
    }
}
