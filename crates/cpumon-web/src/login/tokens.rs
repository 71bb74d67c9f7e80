//! Login tokens in a file of hashes: made, listed, revoked, verified. A file outlives the receiver, and everyone who can write it can
//! give access. A line is `ID CREATED HASH LABEL`; the token itself is not stored. Other secrets are also found by their digests.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use sha2::{Digest, Sha256};

/// Tokens begin with this, so that one that leaked is recognized.
const PREFIX: &str = "cpumon-login";
/// Longest label, in characters.
const MAX_LABEL: usize = 64;
/// A file larger than this is not one of ours.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    #[error("cannot {operation} login tokens in {path}: {error}", path = path.display())]
    File { operation: &'static str, path: PathBuf, error: io::Error },
    /// A line of the file is not one that was written here.
    #[error("{path}, line {line}: not a login token", path = path.display())]
    Malformed {
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    #[error(
        "{0:?} is no label: it has 1 to {MAX_LABEL} characters, no control characters, no space at its ends"
    )]
    Label(String),
    #[error("there is a token {0:?} already; revoke it first, or choose another label")]
    Taken(String),
    /// No randomness, or no memory to hash.
    #[error("cannot make a token: {0}")]
    Make(String),
}

/// A line of the token file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// The part of the token that its line is found by.
    pub id: String,
    /// When it was made, s since the UNIX epoch.
    pub created_s: u64,
    pub label: String,
    hash: String,
}

impl TokenEntry {
    fn parse(line: &str) -> Option<Self> {
        // The label is last because it may contain spaces.
        let mut parts = line.splitn(4, ' ');
        let (id, created_s, hash, label) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // A broken hash is reported when the file is read; at a login it would only be a wrong token.
        PasswordHash::new(hash).ok()?;
        Some(Self {
            id: id.into(),
            created_s: created_s.parse().ok()?,
            label: label.into(),
            hash: hash.into(),
        })
    }

    fn line(&self) -> String {
        format!("{} {} {} {}\n", self.id, self.created_s, self.hash, self.label)
    }

    /// Whether `token` has the id of this entry; the secret is not checked.
    pub(super) fn is_for(&self, token: &str) -> bool {
        token
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|rest| rest.split_once('_'))
            .is_some_and(|(id, _)| id == self.id)
    }

    /// Whether a token is this one. Slow on purpose (argon2id, RFC 9106).
    pub fn verify(&self, token: &str) -> bool {
        PasswordHash::new(&self.hash)
            .is_ok_and(|hash| Argon2::default().verify_password(token.as_bytes(), &hash).is_ok())
    }
}

#[derive(Clone, Debug)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn error(&self, operation: &'static str) -> impl FnOnce(io::Error) -> TokenError {
        let path = self.0.clone();
        move |error| TokenError::File { operation, path, error }
    }

    /// Every token, oldest first; none if there is no file.
    pub fn list(&self) -> Result<Vec<TokenEntry>, TokenError> {
        let size = match std::fs::metadata(&self.0) {
            Ok(meta) => meta.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.error("read")(error)),
        };
        if size > MAX_BYTES {
            return Err(TokenError::Malformed { path: self.0.clone(), line: 1 });
        }
        let text = std::fs::read_to_string(&self.0).map_err(self.error("read"))?;
        let parse = |(at, line): (usize, &str)| {
            TokenEntry::parse(line)
                .ok_or_else(|| TokenError::Malformed { path: self.0.clone(), line: at + 1 })
        };
        text.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(parse).collect()
    }

    /// Makes a token and returns it; the file gets only its hash.
    pub fn add(&self, label: &str) -> Result<String, TokenError> {
        let is_good = !label.is_empty()
            && label.chars().count() <= MAX_LABEL
            && label.trim() == label
            && !label.contains(char::is_control);
        if !is_good {
            return Err(TokenError::Label(label.chars().take(MAX_LABEL).collect()));
        }
        let mut entries = self.list()?;
        if entries.iter().any(|entry| entry.label == label) {
            return Err(TokenError::Taken(label.to_owned()));
        }
        let mut random = [0_u8; 36];
        getrandom::fill(&mut random).map_err(|error| TokenError::Make(error.to_string()))?;
        // The id is not secret: it finds the line, so that a token is hashed against one entry, not against
        // all.
        let (id, secret) = random.split_at(4);
        let (id, secret) = (hex::encode(id), hex::encode(secret));
        let token = format!("{PREFIX}_{id}_{secret}");
        let hash = Argon2::default()
            .hash_password(token.as_bytes())
            .map_err(|error| TokenError::Make(error.to_string()))?
            .to_string();
        let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        entries.push(TokenEntry { id, created_s: created.as_secs(), label: label.to_owned(), hash });
        self.write(&entries)?;
        Ok(token)
    }

    /// Revokes a token; returns whether there was one of this label.
    pub fn revoke(&self, label: &str) -> Result<bool, TokenError> {
        let mut entries = self.list()?;
        let before = entries.len();
        entries.retain(|entry| entry.label != label);
        let was_there = entries.len() < before;
        if was_there {
            self.write(&entries)?;
        }
        Ok(was_there)
    }

    fn write(&self, entries: &[TokenEntry]) -> Result<(), TokenError> {
        let text: String = entries.iter().map(TokenEntry::line).collect();
        write_private(&self.0, &text).map_err(self.error("write"))
    }
}

/// Writes a file all at once, readable by its owner only (tempfile makes it so).
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let dir = cpumon_files::directory_of(path);
    cpumon_files::create_dir(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    cpumon_files::give_to_owner_of_directory(file.as_file(), file.path());
    file.write_all(text.as_bytes())?;
    // Before the rename: after a crash the name must not belong to an empty file.
    file.as_file().sync_all()?;
    // A rename: a running receiver reads the old file or the new one, never a part.
    file.persist(path)?;
    Ok(())
}

/// SHA-256 of a secret, the key under which a session or a verified token is found.
pub(crate) type Digest256 = [u8; 32];

pub(super) fn digest(secret: &str) -> Digest256 {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new secret of 256 random bits, in hexadecimal.
///
/// # Errors
/// The system has no random numbers.
pub fn random_key() -> io::Result<String> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    Ok(hex::encode(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_verified_and_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("sub/login-tokens"));
        assert_eq!(file.list().unwrap(), []);
        let (anna, bob) = (file.add("anna's laptop").unwrap(), file.add("bob").unwrap());
        assert!(matches!(file.add("bob"), Err(TokenError::Taken(_))));
        let entries = file.list().unwrap();
        let verify = |at: usize, token: &str| entries[at].is_for(token) && entries[at].verify(token);
        assert!(verify(0, &anna) && verify(1, &bob) && !verify(0, &bob) && !verify(1, &anna));
        assert!(!entries[0].verify(&anna[..anna.len() - 1]) && !entries[0].verify(""));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("$argon2id$") && !text.contains(anna.rsplit('_').next().unwrap()));
        assert!(file.revoke("anna's laptop").unwrap() && !file.revoke("anna's laptop").unwrap());
        assert_eq!(file.list().unwrap(), entries[1..]);
    }

    #[test]
    fn the_file_is_its_owners_and_damage_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("login-tokens"));
        file.add("one").unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o077, 0);
        for label in ["", " x", "a\nb", &"x".repeat(65)] {
            assert!(matches!(file.add(label), Err(TokenError::Label(_))), "{label:?}");
        }
        let good = std::fs::read_to_string(file.path()).unwrap();
        for line in ["x", "id 1 hash label", "id x $argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA label"] {
            std::fs::write(file.path(), format!("{good}{line}\n")).unwrap();
            assert!(file.list().unwrap_err().to_string().contains("line 2"), "{line}");
        }
    }
}
