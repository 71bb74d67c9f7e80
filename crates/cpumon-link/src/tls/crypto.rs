//! Keys, hashes and random bytes. Only this file chooses algorithms: TLS 1.3 of rustls with ring, keys on P-256, SHA-256.

use std::sync::Arc;

use ring::rand::SecureRandom;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsError;

/// The name in every receiver's certificate: receivers are identified by their keys.
pub const RECEIVER_NAME: &str = "receiver.cpumon.internal";

/// TLS algorithms of both sides, implemented by ring.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::default();
    hash.update(bytes);
    hash.finish()
}

#[derive(Clone)]
pub struct Sha256(ring::digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }
}

impl Sha256 {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}

/// Random bytes of the operating system.
pub fn random<const N: usize>() -> Result<[u8; N], TlsError> {
    let mut bytes = [0; N];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| TlsError::Crypto {
        operation: "get random bytes",
        reason: "the system has none".to_owned(),
    })?;
    Ok(bytes)
}

/// SHA-256 of a certificate's public key (`SubjectPublicKeyInfo`, DER).
pub fn key_hash(certificate: &CertificateDer<'_>) -> Result<[u8; 32], TlsError> {
    let parsed =
        webpki::EndEntityCert::try_from(certificate).map_err(TlsError::crypto("read a certificate"))?;
    Ok(sha256(parsed.subject_public_key_info().as_ref()))
}

/// Accepts a receiver whose certificate was signed by the key with this hash, and no other.
#[derive(Debug)]
pub(super) struct Pinned {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    pub(super) fn new(pin: [u8; 32]) -> Self {
        Self { pin, provider: provider() }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_pinned = |ca: &&CertificateDer<'_>| key_hash(ca).is_ok_and(|hash| hash == self.pin);
        let ca = intermediates.iter().find(is_pinned);
        let ca = ca.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            // The other certificates are left out: only the pinned key itself may have signed this one.
            .verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
