//! TLS with a certificate that is given, or made here: a receiver at home or in a lab has no authority to
//! ask. A person who connects compares the fingerprint once, or gets the certificate another way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use webpki::EndEntityCert;

use crate::login::write_private;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("cannot {operation} {path}: {reason}", path = path.display())]
    File { operation: &'static str, path: PathBuf, reason: String },
    #[error("cannot make a certificate: {0}")]
    Make(rcgen::Error),
    /// Certificate and key do not fit.
    #[error("the certificate {path} cannot be used: {reason}", path = path.display())]
    Unusable { path: PathBuf, reason: String },
}

/// A certificate with its key, ready to be used.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    fingerprint: String,
    certificate: CertificateDer<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration is left out: it holds the private key.
        f.debug_struct("Tls").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

fn failed(operation: &'static str, path: &Path, reason: &impl ToString) -> TlsError {
    TlsError::File { operation, path: path.to_owned(), reason: reason.to_string() }
}

impl Tls {
    /// Reads a chain of certificates and its key, both PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| failed("read the certificate", certificate, &error))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed("read the key", key, &error))?;
        let unusable = |reason: String| TlsError::Unusable { path: certificate.to_owned(), reason };
        let certificate_der =
            chain.first().cloned().ok_or_else(|| unusable("it holds no certificate".to_owned()))?;
        let fingerprint =
            Sha256::digest(&certificate_der).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>();
        // TLS 1.3 alone (RFC 8446): every browser since 2018 speaks it.
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(error.to_string()))?;
        // The server speaks HTTP/1 only.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let fingerprint = fingerprint.join(":");
        Ok(Self { config: Arc::new(config), fingerprint, certificate: certificate_der })
    }

    /// The certificate in these files; without one, a new one is made with a key of its own, for these names and addresses.
    pub fn load_or_make(certificate: &Path, key: &Path, names: &[String]) -> Result<Self, TlsError> {
        if !certificate.exists() {
            let made = rcgen::generate_simple_self_signed(names).map_err(TlsError::Make)?;
            // The key first: where this is cut off there is no certificate, and both are made again.
            write_secret(key, &made.signing_key.serialize_pem())?;
            write_secret(certificate, &made.cert.pem())?;
        }
        Self::load(certificate, key)
    }

    /// Those of `names` (host names or addresses; others are left out) that the certificate does not cover: browsers refuse it there.
    pub fn names_missing<'n>(&self, names: &'n [String]) -> Vec<&'n str> {
        let Ok(certificate) = EndEntityCert::try_from(&self.certificate) else { return Vec::new() };
        let is_for = |name: &str| {
            ServerName::try_from(name)
                .map_or(true, |name| certificate.verify_is_valid_for_subject_name(&name).is_ok())
        };
        names.iter().map(String::as_str).filter(|name| !is_for(name)).collect()
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

fn write_secret(path: &Path, text: &str) -> Result<(), TlsError> {
    write_private(path, text).map_err(|error| failed("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("a/cert.pem"), dir.path().join("a/key.pem"));
        let names = ["localhost".to_owned(), "10.1.2.3".to_owned(), "::1".to_owned()];
        let first = Tls::load_or_make(&certificate, &key, &names).unwrap();
        assert_eq!(first.fingerprint().len(), 32 * 3 - 1);
        assert_eq!(Tls::load_or_make(&certificate, &key, &[]).unwrap().fingerprint(), first.fingerprint());
        assert_eq!(first.names_missing(&names), [""; 0]);
        let more = ["box.lan".to_owned(), "LOCALHOST".to_owned(), "10.1.2.4".to_owned()];
        assert_eq!(first.names_missing(&more), ["box.lan", "10.1.2.4"]);
        std::fs::remove_file(&certificate).unwrap();
        let again = Tls::load_or_make(&certificate, &key, &more).unwrap();
        assert_ne!(again.fingerprint(), first.fingerprint(), "a key that was left alone is no obstacle");
        assert_eq!(again.names_missing(&more), [""; 0]);
        let other = dir.path().join("b/key.pem");
        Tls::load_or_make(&dir.path().join("b/cert.pem"), &other, &names).unwrap();
        assert!(Tls::load(&certificate, &other).is_err(), "another certificate's key");
        std::fs::write(&certificate, "no certificate").unwrap();
        let error = Tls::load(&certificate, &key).unwrap_err().to_string();
        assert!(error.contains("cert.pem"), "{error}");
        assert!(Tls::load(&dir.path().join("none"), &key).is_err());
    }
}
