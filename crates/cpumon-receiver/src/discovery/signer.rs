//! [`BeaconSigner`]: signs beacons with the receiver's identity, so that a device can tell its receiver from others.

use cpumon_link::tls::TlsError;
use cpumon_wire::beacon::{KEY_BYTES, SIGNATURE_BYTES};

/// Signs a receiver's beacons with its identity.
pub struct BeaconSigner {
    key: ring::signature::EcdsaKeyPair,
    random: ring::rand::SystemRandom,
    point: [u8; KEY_BYTES],
}

impl std::fmt::Debug for BeaconSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BeaconSigner").finish_non_exhaustive()
    }
}

impl BeaconSigner {
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, TlsError> {
        use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
        let failed =
            |reason: String| TlsError::Crypto { operation: "sign beacons with the identity", reason };
        let random = ring::rand::SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|error| failed(error.to_string()))?;
        let point = key.public_key().as_ref().try_into();
        let point = point.map_err(|_| failed("its key is not on P-256".to_owned()))?;
        Ok(Self { key, random, point })
    }

    /// The public key.
    #[must_use]
    pub fn point(&self) -> [u8; KEY_BYTES] {
        self.point
    }

    /// Signs what [`Beacon::to_sign`](cpumon_wire::beacon::Beacon::to_sign) gives. `None`: the system has no random bytes.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
        self.key.sign(&self.random, message).ok()?.as_ref().try_into().ok()
    }
}
