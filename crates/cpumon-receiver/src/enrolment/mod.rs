//! Enrolment: the receiver's identity and the certificates that it signs, the enrolled hosts, and devices that ask for admission with a
//! token or without.
//!
//! [`Registry`] has the enrolled hosts, a file each, and decides whether a key is let in. The files are read again when they change, so
//! that a host revoked by another process is refused at once. One that cannot be read closes the receiver to its own host alone.

mod admission;
mod authority;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use cpumon_files::LockFile;
use cpumon_link::tls::TlsError;
use cpumon_link::tls::files::{self, field, unhex};

use crate::{lock, wall_s};

pub(crate) use self::admission::ShownRequest;
pub use self::admission::{BoundHost, Decision, PendingRequest, REQUEST_WAITS, Requests, TokenScope};
pub use self::authority::Authority;
pub(crate) use self::authority::{key_of_request, named_host};

/// An operation on tokens, requests or enrolled hosts that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    /// A file, a key, a certificate or a code cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An entry cannot be read: its host may be enrolled.
    #[error("{0}; restore the file, or remove it and enrol its device again")]
    Unreadable(String),
    #[error("the token {0}; `cpumon token` makes a new one")]
    TokenRefused(&'static str),
    /// No more tokens are made until some are used or have expired.
    #[error("{0} tokens are unused already: use some or let them expire")]
    TooManyTokens(usize),
    /// A host that was revoked, and is not let in again by this token or decision.
    #[error(
        "this host was revoked: on the receiver, `cpumon token --host HOST --again` or `cpumon hosts accept CODE --again` lets it in again"
    )]
    WasRevoked,
    /// A certificate was to be renewed with a key that is not enrolled, or no longer.
    #[error("not enrolled")]
    NotEnrolled,
    #[error("{wanted}: no waiting device has this {by}; `cpumon hosts pending` lists those that wait")]
    NoDeviceWaiting {
        wanted: String,
        /// What the text may be: a code, or also a name or an id.
        by: &'static str,
    },
    #[error("{0}: several waiting devices have it; reject them by id and let them ask again")]
    SeveralWait(String),
    #[error("no receiver acts on it: it must run with this state directory, with --tls and --discovery")]
    NoReceiver,
    #[error("{0}: no enrolled host has this name or id; `cpumon hosts enrolled` lists them")]
    UnknownHost(String),
    #[error("{0}: several enrolled hosts have this name; give the id (`cpumon hosts enrolled` lists them)")]
    AmbiguousHost(String),
}

/// How long a device's certificate is good, on the receiver's clock. It is renewed when a third of this is left.
pub const DEVICE_VALID_FOR: Duration = Duration::from_hours(365 * 24);
/// The directory is checked for changes after this long.
const CHECK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnrolledHost {
    /// Id of the machine, which its records must name.
    pub host: [u8; 16],
    /// Its name when it was enrolled.
    pub name: String,
    /// Hashes of its public keys: the one in use, and a newer one that was signed but not used yet.
    pub keys: Vec<[u8; 32]>,
    /// When it was enrolled, s since the epoch.
    pub enrolled_s: u64,
    /// When its certificate expires, s since the UNIX epoch.
    pub expires_s: u64,
    /// When it was revoked, s since the UNIX epoch; 0: never.
    pub revoked_s: u64,
}

impl EnrolledHost {
    fn text(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(hex::encode).collect();
        format!(
            "name: {}\nkeys: {}\nenrolled: {}\nexpires: {}\nrevoked: {}\n",
            self.name,
            keys.join(" "),
            self.enrolled_s,
            self.expires_s,
            self.revoked_s
        )
    }

    fn parse(host: [u8; 16], text: &str) -> Option<Self> {
        Some(Self {
            host,
            name: field(text, "name")?.to_owned(),
            keys: field(text, "keys")?.split(' ').map(unhex).collect::<Option<_>>()?,
            enrolled_s: field(text, "enrolled")?.parse().ok()?,
            expires_s: field(text, "expires")?.parse().ok()?,
            revoked_s: field(text, "revoked")?.parse().ok()?,
        })
    }

    /// A third of its certificate's time or less is left by this machine's clock.
    fn is_nearly_over(&self) -> bool {
        self.expires_s.saturating_sub(wall_s()) < DEVICE_VALID_FOR.as_secs() / 3
    }
}

/// The enrolled hosts in one directory, with a cache that is checked twice a second.
#[derive(Debug)]
pub struct Registry {
    dir: PathBuf,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    entries: Entries,
    modified: Option<SystemTime>,
    checked: Option<Instant>,
    /// Why the entries, or one of them, cannot be read; it is logged once.
    error: String,
}

#[derive(Debug, Default)]
struct Entries {
    hosts: Vec<EnrolledHost>,
    /// Ids of all entries, those that cannot be read included.
    ids: Arc<HashSet<[u8; 16]>>,
    /// Why an entry cannot be read.
    error: Option<TlsError>,
}

impl Registry {
    /// An entry that cannot be read is logged.
    fn open(dir: &Path) -> Result<Self, EnrolmentError> {
        let registry = Self { dir: dir.to_owned(), cache: Mutex::default() };
        registry.with(|_| ())?;
        Ok(registry)
    }

    /// Every host that was ever enrolled, revoked ones included. Without those whose entry cannot be read: [`Registry::error`].
    pub fn hosts(&self) -> Result<Vec<EnrolledHost>, EnrolmentError> {
        Ok(self.with(|cache| cache.entries.hosts.clone())?)
    }

    /// Why entries cannot be read; empty while all can.
    pub fn error(&self) -> String {
        lock(&self.cache).error.clone()
    }

    fn with<T>(&self, read: impl FnOnce(&Cache) -> T) -> Result<T, TlsError> {
        let mut cache = lock(&self.cache);
        let refreshed = self.refresh(&mut cache);
        let error = refreshed.as_ref().err().or(cache.entries.error.as_ref());
        let error = error.map(TlsError::to_string).unwrap_or_default();
        if error != cache.error {
            if !error.is_empty() {
                log::warn!("not all enrolled hosts are known, and those that are not are refused: {error}");
            }
            cache.error = error;
        }
        refreshed.map(|()| read(&cache))
    }

    fn refresh(&self, cache: &mut Cache) -> Result<(), TlsError> {
        if cache.checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY) {
            let modified = std::fs::metadata(&self.dir).and_then(|meta| meta.modified());
            let modified = modified.map_err(files::failed("read", &self.dir))?;
            // Times of files are coarser than these checks: a change right after one may leave the time as it was. So a
            // directory that changed just now is read a second time.
            let is_settled = modified.elapsed().is_ok_and(|age| age > CHECK_EVERY * 2);
            if cache.modified != Some(modified) || !is_settled || cache.entries.error.is_some() {
                cache.entries = self.load()?;
                cache.modified = Some(modified);
            }
            cache.checked = Some(Instant::now());
        }
        Ok(())
    }

    /// An entry that cannot be read concerns its own host alone.
    fn load(&self) -> Result<Entries, TlsError> {
        let (mut hosts, mut ids, mut error) = (Vec::new(), HashSet::new(), None);
        // A file that is being written has a temporary name, which is no host id.
        for (host, path) in files::list_hex(&self.dir)? {
            match read_host(host, &path) {
                // It was removed since the directory was listed.
                Ok(None) => continue,
                Ok(Some(known)) => hosts.push(known),
                Err(unreadable) => error = error.or(Some(unreadable)),
            }
            ids.insert(host);
        }
        hosts.sort_by(|a, b| (&a.name, a.host).cmp(&(&b.name, b.host)));
        Ok(Entries { hosts, ids: Arc::new(ids), error })
    }

    pub(crate) fn put(&self, host: &EnrolledHost) -> Result<(), TlsError> {
        files::write(&self.dir.join(hex::encode(host.host)), host.text().as_bytes(), false)?;
        // So that this process sees its own change at once.
        lock(&self.cache).checked = None;
        Ok(())
    }

    /// The host with this key, if it is let in.
    ///
    /// # Errors
    /// The files cannot be read: then no device is let in. One cannot be read, and no other has the key.
    pub fn find_key(&self, key: &[u8; 32]) -> Result<Option<EnrolledHost>, EnrolmentError> {
        let is_it = |host: &&EnrolledHost| host.revoked_s == 0 && host.keys.contains(key);
        let find = |cache: &Cache| (cache.entries.hosts.iter().find(is_it).cloned(), cache.error.clone());
        match self.with(find)? {
            (None, error) if !error.is_empty() => Err(EnrolmentError::Unreadable(error)),
            (found, _) => Ok(found),
        }
    }

    /// Whether a key is let in by what the files say now.
    fn has_key_now(&self, key: &[u8; 32]) -> Result<bool, TlsError> {
        Ok(self.load()?.hosts.iter().any(|host| host.revoked_s == 0 && host.keys.contains(key)))
    }

    /// The ids of all hosts that were ever enrolled: no other sender may speak for them.
    pub(crate) fn ids(&self) -> Result<Arc<HashSet<[u8; 16]>>, EnrolmentError> {
        Ok(self.with(|cache| Arc::clone(&cache.entries.ids))?)
    }

    /// The entry of a host, as its file has it now.
    pub fn find(&self, host: [u8; 16]) -> Result<Option<EnrolledHost>, EnrolmentError> {
        Ok(read_host(host, &self.dir.join(hex::encode(host)))?)
    }

    /// Held while an entry is read and changed: of two processes that do so at once, one waits for the other.
    fn lock(&self) -> Result<LockFile, TlsError> {
        let path = self.dir.join("lock");
        LockFile::wait(&path).map_err(|error| files::failed("lock", &path)(std::io::Error::other(error)))
    }

    /// Changes a host's entry as it is in its file now, under the lock. `None` from `change`, or no such host: nothing is written.
    fn update(
        &self,
        host: [u8; 16],
        change: impl FnOnce(EnrolledHost) -> Option<EnrolledHost>,
    ) -> Result<Option<EnrolledHost>, TlsError> {
        let _lock = self.lock()?;
        let known = read_host(host, &self.dir.join(hex::encode(host)))?;
        let changed = known.and_then(change);
        if let Some(changed) = &changed {
            self.put(changed)?;
        }
        Ok(changed)
    }

    /// A device came with this key: keys before it are good no longer.
    pub(crate) fn settle_key(&self, host: [u8; 16], key: &[u8; 32]) -> Result<(), EnrolmentError> {
        let is_newer = |known: &EnrolledHost| known.keys.len() > 1 && known.keys.last() == Some(key);
        if !self.find_key(key)?.is_some_and(|known| is_newer(&known)) {
            return Ok(());
        }
        let settled =
            |known: EnrolledHost| is_newer(&known).then(|| EnrolledHost { keys: vec![*key], ..known });
        self.update(host, settled)?;
        Ok(())
    }

    /// The host with this name or id. A text that is an id is no name: a device could be enrolled under another one's id.
    ///
    /// # Errors
    /// There is no such host, or several have the name. Its entry cannot be read, or no other has the name.
    pub fn named(&self, name_or_id: &str) -> Result<EnrolledHost, EnrolmentError> {
        let unknown = || EnrolmentError::UnknownHost(name_or_id.to_owned());
        if let Some(id) = unhex(&name_or_id.replace('-', "")) {
            let known = self.find(id).map_err(|error| EnrolmentError::Unreadable(error.to_string()))?;
            return known.ok_or_else(unknown);
        }
        let (hosts, error) = self.with(|cache| (cache.entries.hosts.clone(), cache.error.clone()))?;
        let mut found = hosts.into_iter().filter(|host| host.name == name_or_id);
        match (found.next(), found.next()) {
            (Some(host), None) => Ok(host),
            (Some(_), Some(_)) => Err(EnrolmentError::AmbiguousHost(name_or_id.to_owned())),
            (None, _) if error.is_empty() => Err(unknown()),
            (None, _) => Err(EnrolmentError::Unreadable(error)),
        }
    }

    pub fn revoke(&self, name_or_id: &str) -> Result<EnrolledHost, EnrolmentError> {
        let host = self.named(name_or_id)?;
        let revoked =
            self.update(host.host, |known| Some(EnrolledHost { revoked_s: wall_s().max(1), ..known }))?;
        revoked.ok_or_else(|| EnrolmentError::UnknownHost(name_or_id.to_owned()))
    }
}

fn read_host(host: [u8; 16], path: &Path) -> Result<Option<EnrolledHost>, TlsError> {
    let Some(bytes) = files::read(path)? else { return Ok(None) };
    let damaged = || TlsError::Damaged { path: path.to_owned(), reason: "a line is missing".to_owned() };
    EnrolledHost::parse(host, &String::from_utf8_lossy(&bytes)).map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One empty file made every datagram host one of another name, and its series began again.
    #[test]
    fn an_entry_that_cannot_be_read_concerns_its_own_host_alone() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let known = EnrolledHost {
            host: [7; 16],
            name: "web".to_owned(),
            keys: vec![[1; 32]],
            ..EnrolledHost::default()
        };
        registry.put(&known).unwrap();
        let damaged = dir.path().join(hex::encode([9; 16]));
        std::fs::write(&damaged, "").unwrap();
        assert_eq!(*registry.ids().unwrap(), HashSet::from([[7; 16], [9; 16]]));
        assert_eq!(registry.find_key(&[1; 32]).unwrap(), Some(known));
        // It may be the key of that host, so it is not refused as a revoked one.
        assert!(matches!(registry.find_key(&[2; 32]), Err(EnrolmentError::Unreadable(_))));
        assert_eq!(registry.hosts().unwrap().len(), 1);
        assert!(registry.error().contains(&damaged.display().to_string()), "{}", registry.error());
        // A receiver that starts, and commands beside it, did nothing at all.
        let beside = Registry::open(dir.path()).unwrap();
        assert_eq!(beside.error(), registry.error());
        assert!(beside.revoke("web").unwrap().revoked_s > 0);
        for unreadable in ["other", &hex::encode([9; 16])] {
            let refused = beside.revoke(unreadable).unwrap_err();
            assert!(matches!(refused, EnrolmentError::Unreadable(_)), "{unreadable}: {refused}");
        }
        assert!(matches!(beside.revoke(&hex::encode([8; 16])), Err(EnrolmentError::UnknownHost(_))));
        std::fs::remove_file(&damaged).unwrap();
        lock(&registry.cache).checked = None;
        assert_eq!(registry.hosts().unwrap().len(), 1);
        assert!(registry.find_key(&[2; 32]).unwrap().is_none() && registry.error().is_empty());
    }

    #[test]
    fn a_device_enrolled_under_the_id_of_another_one_does_not_hide_it() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let id = hex::encode([7; 16]);
        for (host, name) in [([7; 16], "web"), ([8; 16], id.as_str())] {
            let host = EnrolledHost {
                host,
                name: name.to_owned(),
                keys: vec![host.repeat(2).try_into().unwrap()],
                ..EnrolledHost::default()
            };
            registry.put(&host).unwrap();
        }
        assert_eq!(registry.named(&id).unwrap().host, [7; 16]);
        assert!(registry.revoke(&id).unwrap().revoked_s > 0);
        assert_eq!(registry.find([8; 16]).unwrap().unwrap().revoked_s, 0);
    }
}
