//! [`Authority`]: a receiver's identity and the devices that it lets in: its key (the pin in every token is
//! its hash), tokens, enrolled hosts and requests. They are files so that `cpumon token` and
//! `cpumon hosts revoke` work beside a running receiver.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_link::tls::crypto::{RECEIVER_NAME, key_hash, provider, sha256};
use cpumon_link::tls::{TlsError, Token, files, random};
use cpumon_store::{ClockDoubt, EARLIEST_NS};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::admission::{Decision, PendingRequest, Requests, TokenScope, Tokens, use_up};
use super::{DEVICE_VALID_FOR, EnrolledHost, EnrolmentError, Registry};
use crate::wall_s;

/// Asks whether this machine's clock can be right; `None`: it can.
type AskForDoubt = Box<dyn Fn() -> Option<ClockDoubt> + Send + Sync>;

/// The receiver's identity in its state directory, with its tokens, requests and enrolled hosts.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// The hosts that were ever enrolled, revoked ones included.
    pub registry: Registry,
    pub requests: Requests,
    tokens: Tokens,
    /// Where it is written down who was let in and who was refused.
    pub audit: AuditLog,
    doubt_of_clock: AskForDoubt,
}

impl Authority {
    /// Opens the receiver's identity in `dir`; makes one if there is none.
    ///
    /// # Errors
    /// Files cannot be read or written, or are damaged.
    pub fn open(dir: &Path) -> Result<Self, EnrolmentError> {
        for dir in [dir, &dir.join("tokens"), &dir.join("hosts"), &dir.join("requests")] {
            files::make_dir(dir)?;
        }
        let path = dir.join("receiver.identity");
        let text = if let Some(text) = files::read_private(&path)? {
            text
        } else {
            // Of two processes that come here at once one makes the identity, both read it.
            files::write(&path, make_identity()?.as_bytes(), true)?;
            files::read_private(&path)?.unwrap_or_default()
        };
        let damaged = |reason: String| TlsError::Damaged { path: path.clone(), reason };
        let key =
            KeyPair::from_pem(std::str::from_utf8(&text).map_err(|_| damaged("it is no text".to_owned()))?)
                .map_err(|error| damaged(format!("its key cannot be read: {error}")))?;
        let certificate = CertificateDer::from_pem_slice(&text)
            .map_err(|error| damaged(format!("its certificate cannot be read: {error:?}")))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|error| damaged(format!("its certificate cannot be used: {error}")))?;
        let registry = Registry::open(&dir.join("hosts"))?;
        let (requests, tokens) = (Requests { dir: dir.join("requests") }, Tokens::open(dir.join("tokens")));
        let (audit, doubt_of_clock) = (AuditLog::in_dir(dir), Box::new(|| None));
        Ok(Self { issuer, certificate, registry, requests, tokens, audit, doubt_of_clock })
    }

    /// With someone who knows whether this machine's clock can be right.
    #[must_use]
    pub fn with_doubt_of_clock(self, ask: impl Fn() -> Option<ClockDoubt> + Send + Sync + 'static) -> Self {
        Self { doubt_of_clock: Box::new(ask), ..self }
    }

    /// Lets a device in that waits, by the code that it shows, or does not; beside a running receiver.
    ///
    /// # Errors
    /// No device waits like this, its host was revoked and the decision is not [`Decision::AcceptAgain`], or the device has gone
    /// meanwhile.
    pub fn decide(&self, wanted: &str, decision: Decision) -> Result<PendingRequest, EnrolmentError> {
        let request = self.requests.find(wanted, decision)?;
        if decision == Decision::Accept
            && self.registry.find(request.host)?.is_some_and(|host| host.revoked_s > 0)
        {
            return Err(EnrolmentError::WasRevoked);
        }
        self.requests.decide(&request, decision)?;
        // The receiver has acted, but the device may have gone in the same moment: only the registry proves
        // it.
        if decision != Decision::Reject && !self.registry.has_key_now(&request.key)? {
            return Err(decision.no_device(wanted));
        }
        let event = if decision == Decision::Reject {
            AuditEvent::RequestRejected
        } else {
            AuditEvent::RequestAccepted
        };
        let detail = format!("code {}, from {}", request.code, request.source);
        self.audit.note(event, &this_user(), &named_host(request.host, &request.name), &detail);
        Ok(request)
    }

    /// Hash of the key that signs: the pin.
    pub fn pin(&self) -> Result<[u8; 32], EnrolmentError> {
        Ok(key_hash(&self.certificate)?)
    }

    pub fn revoke(&self, name_or_id: &str) -> Result<EnrolledHost, EnrolmentError> {
        let host = self.registry.revoke(name_or_id)?;
        self.audit.note(AuditEvent::Revoked, &this_user(), &named_host(host.host, &host.name), "");
        Ok(host)
    }

    /// Makes a token that is good once, for this long, for the hosts of a scope. Only a hash of its secret is kept.
    ///
    /// # Errors
    /// It cannot be kept, or too many wait already.
    pub fn make_token(&self, valid_for: Duration, scope: &TokenScope) -> Result<Token, EnrolmentError> {
        let token = Token { pin: self.pin()?, secret: self.tokens.make(valid_for, scope)? };
        let detail =
            format!("for {} s{}", valid_for.as_secs(), if scope.again { ", also if revoked" } else { "" });
        self.audit.note(AuditEvent::TokenMade, &this_user(), &scope.subject(), &detail);
        Ok(token)
    }

    /// Removes the tokens whose time is over. Not only when others are made: once the machine has started again, one could be good again by
    /// a clock that is behind.
    pub(crate) fn remove_ended_tokens(&self) {
        if let Err(error) = self.tokens.count_valid() {
            log::warn!("cannot remove the enrolment tokens that have expired: {error}");
        }
    }

    /// Enrols a device: checks the token, signs the device's key, uses the token up, remembers the device. A host that was enrolled
    /// before gets the new key only.
    ///
    /// # Errors
    /// The token or the request is no good.
    pub fn enroll(
        &self,
        secret: &[u8; 32],
        host: [u8; 16],
        name: &str,
        request: &[u8],
    ) -> Result<Vec<u8>, EnrolmentError> {
        // A host that is revoked meanwhile stays revoked.
        let _lock = self.registry.lock()?;
        // First: without a token no stranger reaches the parser of requests or the key that signs.
        let token = self.tokens.check(secret, host, name, self.registry.find(host)?.as_ref())?;
        let validity = self.validity();
        let (certificate, key) = self.sign(request, host, validity.ends_s)?;
        // After signing: a request that is no good must not use the token up.
        use_up(&token)?;
        self.keep(host, name, key, validity)?;
        Ok(certificate)
    }

    /// Enrols a device that the user lets in.
    pub(crate) fn let_in(&self, host: [u8; 16], name: &str, request: &[u8]) -> Result<Vec<u8>, TlsError> {
        let _lock = self.registry.lock()?;
        let validity = self.validity();
        let (certificate, key) = self.sign(request, host, validity.ends_s)?;
        self.keep(host, name, key, validity)?;
        Ok(certificate)
    }

    fn keep(&self, host: [u8; 16], name: &str, key: [u8; 32], validity: Validity) -> Result<(), TlsError> {
        let Validity { now_s: enrolled_s, expires_s, .. } = validity;
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let before = self.registry.find(host).unwrap_or_else(|error| {
            log::warn!("{error}: replaced by the entry of {}", name.escape_debug());
            None
        });
        self.registry.put(&EnrolledHost {
            host,
            name: name.clone(),
            keys: vec![key],
            enrolled_s,
            expires_s,
            revoked_s: 0,
        })?;
        if let Some(before) = before.filter(|before| before.revoked_s == 0 && before.keys != [key]) {
            self.note_replaced(&before, &name);
        }
        Ok(())
    }

    /// Two machines made from one image have one id, often one name too, and the second takes the place of the first: its user must
    /// learn why it is refused from now on. A machine that was renamed or enrolled again cannot be distinguished from it.
    fn note_replaced(&self, before: &EnrolledHost, name: &str) {
        let is_same = before.name == name;
        let detail = if is_same {
            "enrolled again; the key that it had is refused from now on".to_owned()
        } else {
            format!("{name} was enrolled with its machine id")
        };
        self.audit.note(AuditEvent::Revoked, &this_user(), &named_host(before.host, &before.name), &detail);
        log::log!(
            if is_same { log::Level::Info } else { log::Level::Warn },
            "{} has the machine id of {}, whose key is refused from now on; if these are two machines, give one of them a new /etc/machine-id",
            name.escape_debug(),
            before.name.escape_debug()
        );
    }

    /// Whether a device should have its key renewed. Not by a clock that can be wrong: devices would throw away good certificates.
    pub(crate) fn is_renewal_due(&self, known: &EnrolledHost) -> bool {
        known.is_nearly_over() && (self.doubt_of_clock)().is_none()
    }

    /// Times of a certificate that is made now. By a clock that is behind the time that is known, it would have ended when the clock is
    /// right.
    fn validity(&self) -> Validity {
        let behind_ns = (self.doubt_of_clock)().map_or(0, |doubt| doubt.ahead_ns.min(0).unsigned_abs());
        Validity::at(wall_s().saturating_add(behind_ns / 1_000_000_000))
    }

    /// Signs a new key of an enrolled device. The old one stays good until the new one is used.
    ///
    /// # Errors
    /// The request is no good, or the host is not enrolled.
    pub fn renew(&self, host: [u8; 16], used: [u8; 32], request: &[u8]) -> Result<Vec<u8>, EnrolmentError> {
        let Validity { expires_s, ends_s, .. } = self.validity();
        let (certificate, key) = self.sign(request, host, ends_s)?;
        let renewed = self.registry.update(host, |known| {
            let is_let_in = known.revoked_s == 0 && known.keys.contains(&used);
            // Two keys at most: a renewal that was never used is replaced by the next one.
            is_let_in.then(|| EnrolledHost { keys: vec![used, key], expires_s, ..known })
        })?;
        renewed.map(|_| certificate).ok_or(EnrolmentError::NotEnrolled)
    }

    /// Signs a device's key until `ends_s`, s since the epoch; gives the certificate and the key's hash.
    pub(crate) fn sign(
        &self,
        request: &[u8],
        host: [u8; 16],
        ends_s: u64,
    ) -> Result<(Vec<u8>, [u8; 32]), TlsError> {
        let request = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(request))
            .map_err(TlsError::crypto("read a certificate request"))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&hex::encode(host));
        params.serial_number = Some(SerialNumber::from_slice(&random::<16>()?));
        // Since ever: only this receiver believes its certificates, and it knows their keys, so no one can use one before it was made. A
        // beginning would only refuse those that were made while the clock was ahead, once it is right.
        params.not_before = UNIX_EPOCH.into();
        params.not_after = (UNIX_EPOCH + Duration::from_secs(ends_s)).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params
            // Only the key of the request is used: what the certificate says is for the receiver to decide.
            .signed_by(&request.public_key, &self.issuer)
            .map_err(TlsError::crypto("sign a certificate"))?;
        let key = key_hash(certificate.der())?;
        Ok((certificate.der().to_vec(), key))
    }

    /// How to listen: TLS 1.3, a key made just now and signed by the pinned one, devices by certificates of this receiver.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let key = KeyPair::generate().map_err(TlsError::crypto("make a key"))?;
        let mut params = CertificateParams::new(vec![RECEIVER_NAME.to_owned()])
            .map_err(TlsError::crypto("make a certificate"))?;
        params.distinguished_name = named("cpumon receiver");
        params.serial_number = Some(SerialNumber::from_slice(&random::<16>()?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let own = params.signed_by(&key, &self.issuer).map_err(TlsError::crypto("sign a certificate"))?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            // For devices that come to enroll; without a certificate they can do nothing else.
            .allow_unauthenticated()
            .build()
            .map_err(TlsError::crypto("check certificates"))?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            // A device knows a hash of the identity's key only, so the certificate with that key goes along.
            .with_single_cert(vec![own.der().clone(), self.certificate.clone()], key)?;
        config.alpn_protocols = vec![
            cpumon_wire::connection::ALPN_SNAPSHOTS.to_vec(),
            cpumon_wire::connection::ALPN_ENROL.to_vec(),
        ];
        // A resumed connection would skip the check of the certificate.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }
}

/// When a certificate is made and ends, s since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "all are times in seconds")]
struct Validity {
    now_s: u64,
    /// What the registry has: it is renewed when a third of the time up to this is left.
    expires_s: u64,
    /// What the certificate has.
    ends_s: u64,
}

impl Validity {
    fn at(now_s: u64) -> Self {
        const EARLIEST_S: u64 = EARLIEST_NS.unsigned_abs() / 1_000_000_000;
        // Of a clock that no one has set, where no store knows a time. A certificate of that year would have ended when the clock is right,
        // and its device could not come to renew it. So it ends much later, and is renewed as soon as the clock is right.
        const LONG_S: u64 = 20 * DEVICE_VALID_FOR.as_secs();
        let since_s = now_s.max(EARLIEST_S);
        let expires_s = since_s + DEVICE_VALID_FOR.as_secs();
        let ends_s = if now_s < since_s { since_s + LONG_S } else { expires_s };
        Self { now_s: since_s, expires_s, ends_s }
    }
}

/// Hash of the key that a certificate is requested for; the request is signed by it.
pub(crate) fn key_of_request(request: &[u8]) -> Result<[u8; 32], TlsError> {
    let request = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(request))
        .map_err(TlsError::crypto("read a certificate request"))?;
    Ok(sha256(&request.public_key.subject_public_key_info()))
}

/// How the audit log names a host.
pub(crate) fn named_host(host: [u8; 16], name: &str) -> String {
    format!("{name} ({})", hex::encode(host))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// A key and a certificate that it signed itself. It does not end: devices pin the key, and their clocks lie.
fn make_identity() -> Result<String, TlsError> {
    let key = KeyPair::generate().map_err(TlsError::crypto("make a key"))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named("cpumon receiver identity");
    // 0: it may sign devices, but nothing that signs in turn.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key).map_err(TlsError::crypto("make a certificate"))?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        CertificateParams::default().serialize_request(&key).unwrap().der().to_vec()
    }

    /// Issued before NTP had set the clock, it ended in 1971, and the device could not come back to have it renewed.
    #[test]
    fn a_certificate_of_1970_is_good_and_renewed_when_the_clock_is_right() {
        let (now_s, year_s) = (wall_s(), DEVICE_VALID_FOR.as_secs());
        let usual = Validity::at(now_s);
        assert_eq!((usual.now_s, usual.expires_s, usual.ends_s), (now_s, now_s + year_s, now_s + year_s));
        let Validity { now_s: enrolled_s, expires_s, ends_s } = Validity::at(60);
        assert!(ends_s > now_s + 5 * year_s && enrolled_s < now_s, "{ends_s}");
        let known = EnrolledHost { enrolled_s, expires_s, ..EnrolledHost::default() };
        assert!(known.is_nearly_over());
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path()).unwrap();
        assert!(authority.is_renewal_due(&known));
        let authority = authority.with_doubt_of_clock(|| Some(ClockDoubt { ahead_ns: 1 }));
        assert!(!authority.is_renewal_due(&known), "not before the clock is known to be right");
    }

    /// The entry was written from what was read before: the revocation was undone.
    #[test]
    fn a_host_that_is_revoked_while_it_enrols_stays_revoked() {
        const HOST: [u8; 16] = [7; 16];
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path()).unwrap();
        let token = || authority.make_token(Duration::from_mins(1), &TokenScope::default()).unwrap().secret;
        authority.enroll(&token(), HOST, "web", &request()).unwrap();
        let (secret, request) = (token(), request());
        let revoked = EnrolledHost { revoked_s: 5, ..authority.registry.find(HOST).unwrap().unwrap() };
        std::thread::scope(|scope| {
            let lock = authority.registry.lock().unwrap();
            let again = scope.spawn(|| authority.enroll(&secret, HOST, "web", &request));
            for _ in 0..50 {
                assert!(!again.is_finished(), "it does not wait for who changes the entry");
                std::thread::sleep(Duration::from_millis(1));
            }
            authority.registry.put(&revoked).unwrap();
            drop(lock);
            let refused = again.join().unwrap();
            assert!(matches!(refused, Err(EnrolmentError::WasRevoked)), "{refused:?}");
        });
        assert_eq!(authority.registry.find(HOST).unwrap(), Some(revoked));
    }
}
