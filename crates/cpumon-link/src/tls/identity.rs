//! [`DeviceIdentity`]: a device's key and certificate for one receiver. In: a state directory. Out: files of mode 0600, and
//! the TLS settings made from these files. The key is made here and never leaves the device. A renewed key gets a file of its own, and
//! replaces the key in use when the receiver has accepted it: a useless renewed key must not lock this device out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;
use super::crypto::{Pinned, provider, sha256};
use super::files::{self, field, unhex};

/// A key that was made, and the request to sign it.
pub struct NewKey {
    pub(super) key_pem: String,
    pub request_der: Vec<u8>,
    /// SHA-256 of the public key, as in a pin.
    pub hash: [u8; 32],
}

impl NewKey {
    /// Makes a key on P-256.
    pub fn make() -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(TlsError::crypto("make a key"))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request =
            params.serialize_request(&key).map_err(TlsError::crypto("make a certificate request"))?;
        let hash = sha256(&key.subject_public_key_info());
        Ok(Self { key_pem: key.serialize_pem(), request_der: request.der().to_vec(), hash })
    }
}

/// A key, and what a receiver signed for it.
#[derive(Clone)]
struct Signed {
    key_pem: String,
    certificate: CertificateDer<'static>,
}

impl Signed {
    fn new(key: NewKey, certificate: &[u8]) -> Self {
        Self { key_pem: key.key_pem, certificate: CertificateDer::from(certificate.to_vec()) }
    }
}

/// The key and certificate that a receiver issued to this device, in a file of mode 0600.
#[derive(Clone)]
pub struct DeviceIdentity {
    pub path: PathBuf,
    /// Where the receiver was when it enrolled this device.
    pub address: String,
    /// Hash of the receiver's key.
    pub pin: [u8; 32],
    /// Key and certificate that are in use.
    used: Signed,
    /// A renewed pair, which takes over once the receiver has accepted it.
    renewed: Option<Signed>,
    /// The renewed one was refused last: the other one has its turn.
    is_refused: bool,
}

impl std::fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceIdentity")
            .field("path", &self.path)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl DeviceIdentity {
    /// Stores a new identity in `dir`; one for the same address is replaced.
    pub fn create(
        dir: &Path,
        address: &str,
        pin: [u8; 32],
        key: NewKey,
        certificate: &[u8],
    ) -> Result<Self, TlsError> {
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
        let name: String = address.chars().map(safe).collect();
        let identity = Self {
            path: dir.join(format!("{name}.identity")),
            address: address.to_owned(),
            pin,
            used: Signed::new(key, certificate),
            renewed: None,
            is_refused: false,
        };
        files::make_dir(dir)?;
        identity.save(&identity.path, &identity.used)?;
        // Of the enrolment before. If it stays, the receiver refuses it, and the new one has its turn.
        let _ = std::fs::remove_file(identity.renewed_path());
        Ok(identity)
    }

    /// The identity for the receiver at `address`: the one that was enrolled there, or else the only one there is (a receiver
    /// may move; its key identifies it).
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn find(dir: &Path, address: &str) -> Result<Self, TlsError> {
        let mut all = Self::load_all(dir)?;
        let at = all.iter().position(|identity| identity.address == address);
        match (at, all.len()) {
            (Some(at), _) => Ok(all.swap_remove(at)),
            // TLS checks the key, so a wrong receiver at this address is refused all the same.
            (None, 1) => Ok(all.swap_remove(0)),
            _ => Err(TlsError::NotEnrolled { address: address.to_owned(), dir: dir.to_owned() }),
        }
    }

    /// All that this device is enrolled with, by address.
    ///
    /// # Errors
    /// There is none, or one is damaged.
    pub fn all(dir: &Path) -> Result<Vec<Self>, TlsError> {
        let mut all = Self::load_all(dir)?;
        all.sort_by(|a, b| a.address.cmp(&b.address));
        if all.is_empty() {
            return Err(TlsError::NotEnrolled { address: "any receiver".to_owned(), dir: dir.to_owned() });
        }
        Ok(all)
    }

    fn load_all(dir: &Path) -> Result<Vec<Self>, TlsError> {
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(files::failed("read", dir))?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(files::failed("read", dir))?.path();
            if path.extension().is_some_and(|ending| ending == "identity") {
                all.push(Self::load(&path)?);
            }
        }
        Ok(all)
    }

    fn load(path: &Path) -> Result<Self, TlsError> {
        let identity = Self::load_alone(path)?;
        Ok(Self { renewed: identity.load_renewed(), ..identity })
    }

    /// What was issued and not taken before this start. The one in use is good: a renewed one that is damaged is no reason to refuse it.
    fn load_renewed(&self) -> Option<Signed> {
        let path = self.renewed_path();
        if !path.exists() {
            return None;
        }
        let renewed = Self::load_alone(&path).and_then(|renewed| renewed.client_config().map(|_| renewed));
        let renewed = renewed.inspect_err(|error| log::warn!("the renewed certificate is not used: {error}"));
        renewed.ok().filter(|renewed| renewed.pin == self.pin).map(|renewed| renewed.used)
    }

    fn renewed_path(&self) -> PathBuf {
        self.path.with_extension("renewed")
    }

    fn load_alone(path: &Path) -> Result<Self, TlsError> {
        let damaged = |reason: &str| TlsError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
        let bytes = files::read(path)?.ok_or_else(|| damaged("it has gone"))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is no text"))?;
        let key_at = text.find("-----BEGIN PRIVATE KEY").ok_or_else(|| damaged("it has no key"))?;
        let (head, rest) = text.split_at(key_at);
        let certificate_at =
            rest.find("-----BEGIN CERTIFICATE").ok_or_else(|| damaged("it has no certificate"))?;
        let (key_pem, certificate) = rest.split_at(certificate_at);
        Ok(Self {
            path: path.to_owned(),
            address: field(head, "receiver").ok_or_else(|| damaged("it names no receiver"))?.to_owned(),
            pin: field(head, "pin").and_then(unhex).ok_or_else(|| damaged("it has no pin"))?,
            used: Signed {
                key_pem: key_pem.to_owned(),
                certificate: CertificateDer::from_pem_slice(certificate.as_bytes())
                    .map_err(|error| damaged(&format!("its certificate cannot be read: {error:?}")))?,
            },
            renewed: None,
            is_refused: false,
        })
    }

    fn save(&self, path: &Path, signed: &Signed) -> Result<(), TlsError> {
        let certificate = pem("CERTIFICATE", &signed.certificate);
        let text = format!(
            "receiver: {}\npin: {}\n{}\n{certificate}",
            self.address,
            hex::encode(self.pin),
            signed.key_pem.trim_end()
        );
        files::write(path, text.as_bytes(), false).map(|_| ())
    }

    /// Stores a new key and its certificate, for the next connection.
    pub(super) fn renew(&mut self, key: NewKey, certificate: &[u8]) -> Result<(), TlsError> {
        let renewed = Signed::new(key, certificate);
        // Only what can be used.
        self.config_of(&renewed)?;
        self.save(&self.renewed_path(), &renewed)?;
        (self.renewed, self.is_refused) = (Some(renewed), false);
        Ok(())
    }

    /// The receiver has let this device in. With a renewed certificate, the one before it is needed no longer.
    pub(super) fn was_taken(&mut self) {
        if self.is_refused {
            return;
        }
        let Some(renewed) = self.renewed.take() else { return };
        self.used = renewed;
        if let Err(error) = files::replace(&self.path, &self.renewed_path()) {
            // The next start finds both, and tries the renewed one first.
            log::warn!("the renewed certificate keeps its own file: {error}");
        }
    }

    /// The receiver has not let this device in: of two certificates the other one has its turn.
    pub(super) fn was_refused(&mut self) {
        if self.renewed.is_some() {
            self.is_refused = !self.is_refused;
        }
    }

    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let renewed = self.renewed.as_ref().filter(|_| !self.is_refused);
        self.config_of(renewed.unwrap_or(&self.used))
    }

    fn config_of(&self, signed: &Signed) -> Result<ClientConfig, TlsError> {
        let damaged = |reason: String| TlsError::Damaged { path: self.path.clone(), reason };
        let key = PrivateKeyDer::from_pem_slice(signed.key_pem.as_bytes())
            .map_err(|error| damaged(format!("its key cannot be read: {error:?}")))?;
        let mut config =
            pinned_builder(self.pin)?.with_client_auth_cert(vec![signed.certificate.clone()], key)?;
        config.alpn_protocols = vec![cpumon_wire::connection::ALPN_SNAPSHOTS.to_vec()];
        Ok(config)
    }
}

/// TLS 1.3 settings that accept the receiver with this pin and no other.
pub fn pinned_builder(
    pin: [u8; 32],
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, TlsError> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(pin))))
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let coded = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        coded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
