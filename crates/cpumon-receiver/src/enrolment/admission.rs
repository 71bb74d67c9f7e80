//! The two ways to be let in, a file each, so that commands work beside a running receiver: [`Tokens`], named by a hash of the secret, and
//! [`Requests`] of devices that wait for the user's decision.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpumon_link::tls::files::{self, field, unhex};
use cpumon_link::tls::{Code, TlsError, random};
use cpumon_model::BootId;

use super::{EnrolledHost, EnrolmentError};
use crate::{boot_s, wall_s};

/// Most unused tokens at one time.
const MAX_TOKENS: usize = 1000;
const NOT_HERE: EnrolmentError = EnrolmentError::TokenRefused("is not known here or was used");

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenScope {
    /// The only host that the token admits; `None`: any host.
    pub host: Option<BoundHost>,
    /// Admits the host even if it was revoked.
    pub again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundHost {
    Id([u8; 16]),
    /// A machine that was never enrolled, by the name under which it enrols.
    Name(String),
}

impl TokenScope {
    /// How the audit log names the scope.
    pub(super) fn subject(&self) -> String {
        match &self.host {
            None => "any host".to_owned(),
            Some(BoundHost::Id(id)) => hex::encode(id),
            Some(BoundHost::Name(name)) => name.clone(),
        }
    }

    fn includes(&self, host: [u8; 16], name: &str) -> bool {
        match &self.host {
            None => true,
            Some(BoundHost::Id(id)) => *id == host,
            Some(BoundHost::Name(wanted)) => wanted == name,
        }
    }
}

/// Uses a token up that was found good. Of two that come at once only one succeeds.
pub(super) fn use_up(token: &Path) -> Result<(), EnrolmentError> {
    std::fs::remove_file(token).map_err(|_| NOT_HERE)
}

#[derive(Debug)]
pub(super) struct Tokens {
    dir: PathBuf,
    /// The boot of this machine; `None` if it cannot be read.
    boot: Option<BootId>,
}

impl Tokens {
    pub(super) fn open(dir: PathBuf) -> Self {
        Self { dir, boot: cpumon_store::boot_id() }
    }

    /// Makes a token that is good once, for this long. Returns its secret; only a hash of the secret is stored.
    pub(super) fn make(&self, valid_for: Duration, scope: &TokenScope) -> Result<[u8; 32], EnrolmentError> {
        if self.count_valid()? >= MAX_TOKENS {
            return Err(EnrolmentError::TooManyTokens(MAX_TOKENS));
        }
        let secret = random()?;
        let bound = match &scope.host {
            None => String::new(),
            Some(BoundHost::Id(id)) => format!("host: {}\n", hex::encode(id)),
            Some(BoundHost::Name(name)) => format!("name: {}\n", name.escape_debug()),
        };
        let again = if scope.again { "again: yes\n" } else { "" };
        let (made_s, valid_s) = (wall_s(), valid_for.as_secs());
        let of_boot = self.boot.map_or_else(String::new, |boot| {
            format!("boot: {boot}\nends: {}\n", boot_s().saturating_add(valid_s))
        });
        let expires_s = made_s.saturating_add(valid_s);
        let text = format!("expires: {expires_s}\nmade: {made_s}\n{of_boot}{bound}{again}");
        files::write(&self.path(&secret), text.as_bytes(), true)?;
        Ok(secret)
    }

    /// Checks whether a token lets a host in now; gives its file. This reads no other: strangers reach nothing else before it.
    pub(super) fn check(
        &self,
        secret: &[u8; 32],
        host: [u8; 16],
        name: &str,
        known: Option<&EnrolledHost>,
    ) -> Result<PathBuf, EnrolmentError> {
        let path = self.path(secret);
        let token = StoredToken::read(&path)?.ok_or(NOT_HERE)?;
        match token.life(self.boot) {
            TokenLife::Good => {}
            TokenLife::Refused => {
                return Err(EnrolmentError::TokenRefused("has expired, or the receiver's clock is wrong"));
            }
            TokenLife::Ended => {
                // If it stays, it goes with the next ones that have ended.
                let _ = std::fs::remove_file(&path);
                return Err(EnrolmentError::TokenRefused("has expired"));
            }
        }
        if !token.scope.includes(host, &name.escape_debug().to_string()) {
            return Err(EnrolmentError::TokenRefused("is for another host"));
        }
        if known.is_some_and(|known| known.revoked_s > 0) && !token.scope.again {
            return Err(EnrolmentError::WasRevoked);
        }
        Ok(path)
    }

    /// The secret is 256 random bits, so that a plain hash cannot be searched; a slow one would only let strangers keep the
    /// receiver busy.
    fn path(&self, secret: &[u8; 32]) -> PathBuf {
        self.dir.join(hex::encode(cpumon_link::tls::crypto::sha256(secret)))
    }

    /// Removes the tokens that have ended; returns how many are good. Another process may make, use or remove tokens meanwhile.
    pub(super) fn count_valid(&self) -> Result<usize, TlsError> {
        let (mut count, mut refused, mut ended) = (0, Vec::new(), Vec::new());
        // A token that is being made has a temporary name: removing it would make its maker fail.
        for (_, path) in files::list_hex::<32>(&self.dir)? {
            // One that is not there was used since the directory was listed.
            match StoredToken::read(&path)?.map(|token| token.life(self.boot)) {
                None => {}
                Some(TokenLife::Good) => count += 1,
                Some(TokenLife::Refused) => refused.push(path),
                Some(TokenLife::Ended) => ended.push(path),
            }
        }
        // Those of earlier boots would add up for ever.
        if refused.len() > MAX_TOKENS {
            ended.append(&mut refused);
        }
        for path in ended {
            cpumon_files::remove(&path).map_err(files::failed("remove", &path))?;
        }
        Ok(count)
    }
}

#[derive(Default)]
struct StoredToken {
    /// When the token was made and when it expires, s since the UNIX epoch.
    made_s: u64,
    expires_s: u64,
    /// The boot in which it was made, and the time since its start at which it ends, s; `None`: not known, or of an older version.
    boot: Option<BootId>,
    ends_s: u64,
    scope: TokenScope,
}

/// What the clocks say of a token.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum TokenLife {
    Good,
    /// Not good by the wall clock, which may be wrong.
    Refused,
    /// Its time is over for good.
    Ended,
}

impl StoredToken {
    /// `None`: no such token. One that cannot be read has ended.
    fn read(path: &Path) -> Result<Option<Self>, TlsError> {
        let Some(bytes) = files::read(path)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let seconds = |name: &str| field(&text, name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let id = field(&text, "host").map(unhex);
        let host = match id {
            // A binding that cannot be read must not become a token for any host.
            Some(None) => return Ok(Some(Self::default())),
            Some(Some(id)) => Some(BoundHost::Id(id)),
            None => field(&text, "name").map(|name| BoundHost::Name(name.to_owned())),
        };
        let scope = TokenScope { host, again: field(&text, "again").is_some() };
        let boot = field(&text, "boot").and_then(|boot| boot.parse().ok());
        let (made_s, expires_s, ends_s) = (seconds("made"), seconds("expires"), seconds("ends"));
        Ok(Some(Self { made_s, expires_s, boot, ends_s, scope }))
    }

    /// As long as the machine has not started again, the time that passed counts, whatever the wall clock shows: set ahead for a moment, it
    /// must end no token, and set back, revive none.
    fn life(&self, boot: Option<BootId>) -> TokenLife {
        if self.expires_s == 0 {
            return TokenLife::Ended;
        }
        if self.boot.is_some() && self.boot == boot {
            return if boot_s() < self.ends_s { TokenLife::Good } else { TokenLife::Ended };
        }
        if (self.made_s..self.expires_s).contains(&wall_s()) { TokenLife::Good } else { TokenLife::Refused }
    }
}

/// How long a request may wait.
pub const REQUEST_WAITS: Duration = Duration::from_mins(10);

/// A device that waits for the user's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// The code that the device shows as well.
    pub code: Code,
    /// Host id that the device claims.
    pub host: [u8; 16],
    /// Name that the device claims.
    pub name: String,
    pub source: String,
    /// When the request expires, s since the UNIX epoch.
    pub until_s: u64,
    /// Hash of the device's public key.
    pub key: [u8; 32],
    id: [u8; 16],
}

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
    pub(super) fn no_device(self, wanted: &str) -> EnrolmentError {
        let by = if self == Self::Reject { "code, name or id" } else { "code" };
        EnrolmentError::NoDeviceWaiting { wanted: wanted.chars().take(80).collect(), by }
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
    pub(super) dir: PathBuf,
}

impl Requests {
    /// Those that wait now, the oldest first. What a receiver that was killed left behind goes when its time is over.
    pub fn list(&self) -> Result<Vec<PendingRequest>, EnrolmentError> {
        let mut all = Vec::new();
        for (id, path) in files::list_hex(&self.dir)? {
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
    pub(super) fn find(&self, wanted: &str, decision: Decision) -> Result<PendingRequest, EnrolmentError> {
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
            return Err(EnrolmentError::SeveralWait(wanted.chars().take(80).collect()));
        }
        Ok(request)
    }

    /// Decides about a request, and waits until the receiver has acted.
    ///
    /// # Errors
    /// It cannot be written, or no receiver is there to act.
    pub(super) fn decide(&self, request: &PendingRequest, decision: Decision) -> Result<(), EnrolmentError> {
        // The file's name is the decision. The receiver removes the request once it has acted.
        files::write(&self.path(request, decision.ending()), b"", true)?;
        let end = Instant::now() + Duration::from_secs(5);
        while self.path(request, "").exists() {
            if Instant::now() >= end {
                return Err(EnrolmentError::NoReceiver);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn path(&self, request: &PendingRequest, ending: &str) -> PathBuf {
        let path = self.dir.join(hex::encode(request.id));
        if ending.is_empty() { path } else { path.with_extension(ending) }
    }

    /// Shows a request to the user until the returned value is dropped.
    pub(crate) fn put(&self, request: PendingRequest) -> Result<ShownRequest<'_>, TlsError> {
        files::write(&self.path(&request, ""), request.text().as_bytes(), true)?;
        Ok(ShownRequest { requests: self, request })
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
pub(crate) struct ShownRequest<'a> {
    requests: &'a Requests,
    pub(crate) request: PendingRequest,
}

impl ShownRequest<'_> {
    /// What the user decided, if anything. If there are both a yes and a no, the no counts.
    pub(crate) fn decision(&self) -> Option<Decision> {
        let is_made = |decision: &Decision| self.requests.path(&self.request, decision.ending()).exists();
        [Decision::Reject, Decision::Accept].into_iter().find(is_made)
    }
}

impl Drop for ShownRequest<'_> {
    fn drop(&mut self) {
        // The decision last: who made it waits for the request to go. What stays goes with the next start.
        for ending in ["", Decision::Accept.ending(), Decision::Reject.ending()] {
            let _ = std::fs::remove_file(self.requests.path(&self.request, ending));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[test]
    fn a_bound_token_is_for_its_host_only_and_a_revoked_host_needs_one_that_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path().to_owned());
        let make = |host, again| tokens.make(LONG, &TokenScope { host, again }).unwrap();
        let by_id = make(Some(BoundHost::Id([7; 16])), false);
        assert!(tokens.check(&by_id, [7; 16], "any", None).is_ok());
        assert!(matches!(tokens.check(&by_id, [8; 16], "any", None), Err(EnrolmentError::TokenRefused(_))));
        let by_name = make(Some(BoundHost::Name("w\u{e4}b\n1".to_owned())), false);
        assert!(tokens.check(&by_name, [8; 16], "w\u{e4}b\n1", None).is_ok());
        assert!(matches!(tokens.check(&by_name, [8; 16], "w", None), Err(EnrolmentError::TokenRefused(_))));
        let revoked = EnrolledHost { host: [7; 16], revoked_s: 5, ..EnrolledHost::default() };
        for refused in [&by_id, &make(None, false)] {
            let checked = tokens.check(refused, [7; 16], "any", Some(&revoked));
            assert!(matches!(checked, Err(EnrolmentError::WasRevoked)), "{checked:?}");
        }
        let again = make(Some(BoundHost::Id([7; 16])), true);
        use_up(&tokens.check(&again, [7; 16], "any", Some(&revoked)).unwrap()).unwrap();
        assert!(tokens.check(&again, [7; 16], "any", Some(&revoked)).is_err(), "it was used");
    }

    /// A clock that was ahead for a moment deleted the tokens; one that went back made those good again whose time was over.
    #[test]
    fn a_token_ends_by_the_time_that_passes_and_not_by_the_clock() {
        const DAY_S: u64 = 86_400;
        const HOUR_S: u64 = 3_600;
        let dir = tempfile::tempdir().unwrap();
        let (this, other) = (BootId([1; 16]), BootId([2; 16]));
        let tokens = Tokens { dir: dir.path().to_owned(), boot: Some(this) };
        let (now_s, since_boot_s) = (wall_s(), boot_s());
        // Good for an hour by the wall clock. Gives whether it lets a host in, and whether its file is left.
        let try_one = |made_s: u64, boot: BootId, ends_s: u64| {
            let (secret, expires_s) = (random().unwrap(), made_s + HOUR_S);
            let text = format!("expires: {expires_s}\nmade: {made_s}\nboot: {boot}\nends: {ends_s}\n");
            std::fs::write(tokens.path(&secret), text).unwrap();
            tokens.count_valid().unwrap();
            (tokens.check(&secret, [7; 16], "any", None).is_ok(), tokens.path(&secret).exists())
        };
        let later_s = since_boot_s + HOUR_S;
        assert_eq!(try_one(now_s - 400 * DAY_S, this, later_s), (true, true), "the clock went ahead since");
        assert_eq!(try_one(now_s + DAY_S, this, later_s), (true, true), "or back");
        assert_eq!(try_one(now_s, this, since_boot_s), (false, false), "its hour is over");
        // The machine has started again since: its clock is all there is.
        assert_eq!(try_one(now_s - 60, other, 0), (true, true));
        for made_s in [now_s - DAY_S, now_s + DAY_S] {
            assert_eq!(try_one(made_s, other, later_s), (false, true), "the clock may be wrong now");
        }
        let secret = tokens.make(LONG, &TokenScope::default()).unwrap();
        assert!(tokens.check(&secret, [7; 16], "any", None).is_ok());
    }

    #[test]
    fn a_token_that_another_process_makes_or_removes_meanwhile_disturbs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let tokens = Tokens::open(dir.path().to_owned());
                    for _ in 0..100 {
                        // Expired at once: the next one, here or there, removes it.
                        tokens.make(Duration::ZERO, &TokenScope::default()).unwrap();
                    }
                });
            }
        });
        let tokens = Tokens::open(dir.path().to_owned());
        assert_eq!(tokens.count_valid().unwrap(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
