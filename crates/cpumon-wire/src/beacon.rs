//! Discovery: what a device asks its subnet, and the beacon with which a receiver answers. In: fields. Out: a datagram, and the way back.
//! Layout: docs/discovery.md. Who signs, who checks, and with which algorithm is the link's matter; what is signed stands here.
//!
//! A query is as long as the longest beacon can be at most, so nobody can turn a receiver into an amplifier.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::{DecodeError, Reason};

/// The first four bytes of both. As a v1 name length they are negative, and no frame begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x62];
/// The version of these layouts.
pub const VERSION: u8 = 1;
/// Length of a query; the longest beacon is shorter.
pub const QUERY_BYTES: usize = 512;
/// Length of a public key: a point on P-256, not compressed (SEC 1).
pub const KEY_BYTES: usize = 65;
/// Length of a signature: r and s.
pub const SIGNATURE_BYTES: usize = 64;
/// Most addresses in a beacon.
pub const MAX_ADDRESSES: usize = 8;
/// Longest name in a beacon, bytes; the rest is cut.
pub const MAX_NAME_BYTES: usize = 64;

const KIND_QUERY: u8 = 1;
const KIND_BEACON: u8 = 2;
/// Stands in front of what is signed, so that no signature over anything else fits.
const CONTEXT: &[u8; 16] = b"cpumon beacon 1\0";
const ADDRESS_BYTES: usize = 18;
/// Everything before the addresses.
const FIXED_BYTES: usize = 106;

/// A device asks: who receives here?
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Random; comes back in the beacon.
    pub nonce: [u8; 16],
    /// Only the receiver with this pin is wanted; `None`: all.
    pub wanted: Option<[u8; 32]>,
}

impl Query {
    /// As a datagram.
    #[must_use]
    pub fn encode(&self) -> [u8; QUERY_BYTES] {
        let mut bytes = [0; QUERY_BYTES];
        let wanted = self.wanted.unwrap_or_default();
        let fields: [&[u8]; 4] = [&MAGIC, &[VERSION, KIND_QUERY, 0, 0], &self.nonce, &wanted];
        let mut at = 0;
        for field in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        bytes
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// It is no query, or too short to be answered.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(datagram, KIND_QUERY)?;
        if datagram.len() < QUERY_BYTES {
            return Err(DecodeError::new(datagram.len(), Reason::Truncated));
        }
        fields.take::<2>()?;
        let (nonce, wanted) = (fields.take()?, fields.take()?);
        Ok(Self { nonce, wanted: (wanted != [0; 32]).then_some(wanted) })
    }
}

/// A receiver says: here I am.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon<'a> {
    /// That of the query: the answer is no older than the question.
    pub nonce: [u8; 16],
    /// Grows with each beacon of a receiver's start.
    pub sequence: u64,
    /// The receiver's wall clock, ns since the UNIX epoch. For people: device clocks lie.
    pub wall_ns: i64,
    /// The receiver's public key; SHA-256 of its `SubjectPublicKeyInfo` is the pin.
    pub key: [u8; KEY_BYTES],
    /// Where the secure stream is, the best first; 1 to [`MAX_ADDRESSES`].
    pub addresses: Vec<SocketAddr>,
    /// The receiver's name, for people.
    pub name: &'a str,
}

impl Beacon<'_> {
    /// The bytes to sign.
    #[must_use]
    pub fn to_sign(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(CONTEXT.len() + QUERY_BYTES);
        message.extend_from_slice(CONTEXT);
        message.extend_from_slice(&MAGIC);
        message.extend_from_slice(&[VERSION, KIND_BEACON, 0, 0]);
        message.extend_from_slice(&self.nonce);
        message.extend_from_slice(&self.sequence.to_le_bytes());
        message.extend_from_slice(&self.wall_ns.to_le_bytes());
        message.extend_from_slice(&self.key);
        let addresses = self.addresses.iter().take(MAX_ADDRESSES);
        message.push(u8::try_from(addresses.len()).unwrap_or(0));
        for address in addresses {
            let ip = match address.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            message.extend_from_slice(&ip.octets());
            message.extend_from_slice(&address.port().to_le_bytes());
        }
        let name = &self.name[..self.name.floor_char_boundary(MAX_NAME_BYTES.min(self.name.len()))];
        message.extend_from_slice(&u16::try_from(name.len()).unwrap_or(0).to_le_bytes());
        message.extend_from_slice(name.as_bytes());
        let signed = u16::try_from(message.len() - CONTEXT.len()).unwrap_or(0);
        let at = CONTEXT.len() + 6;
        message[at..at + 2].copy_from_slice(&signed.to_le_bytes());
        message
    }
}

/// The datagram, from what [`Beacon::to_sign`] gave and the signature over it.
#[must_use]
pub fn seal(to_sign: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Vec<u8> {
    let mut datagram = to_sign.get(CONTEXT.len()..).unwrap_or_default().to_vec();
    datagram.extend_from_slice(signature);
    datagram
}

/// A beacon as it came: well-formed, and not yet believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unverified<'a> {
    /// What it says.
    pub beacon: Beacon<'a>,
    signed: &'a [u8],
    /// The signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl<'a> Unverified<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// It is no beacon, or a field cannot be.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(datagram, KIND_BEACON)?;
        let signed_bytes = usize::from(u16::from_le_bytes(fields.take()?));
        let truncated = DecodeError::new(datagram.len(), Reason::Truncated);
        let (signed, signature) = datagram.split_at_checked(signed_bytes).ok_or(truncated)?;
        let signature = signature.try_into().map_err(|_| DecodeError::new(6, Reason::OutOfRange))?;
        if signed.len() < FIXED_BYTES {
            return Err(DecodeError::new(6, Reason::HeaderTooShort));
        }
        let mut fields = Fields { bytes: signed, at: 8 };
        let (nonce, sequence) = (fields.take()?, u64::from_le_bytes(fields.take()?));
        let (wall_ns, key) = (i64::from_le_bytes(fields.take()?), fields.take()?);
        let addresses = fields.addresses()?;
        let name = fields.name()?;
        // What a later version of this layout says behind is signed too, and not read.
        let beacon = Beacon { nonce, sequence, wall_ns, key, addresses, name };
        Ok(Self { beacon, signed, signature })
    }

    /// The bytes that the signature must be good for.
    #[must_use]
    pub fn signed_message(&self) -> Vec<u8> {
        [CONTEXT, self.signed].concat()
    }
}

/// A datagram that is read field by field.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Behind magic, version and kind.
    fn begin(bytes: &'a [u8], kind: u8) -> Result<Self, DecodeError> {
        let mut fields = Self { bytes, at: 0 };
        if fields.take::<4>()? != MAGIC {
            return Err(DecodeError::new(0, Reason::WrongMagic));
        }
        if fields.take::<2>()? != [VERSION, kind] {
            return Err(DecodeError::new(4, Reason::UnknownVersion));
        }
        Ok(fields)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.get(..length));
        let found = found.ok_or(DecodeError::new(self.at, Reason::Truncated))?;
        self.at += length;
        Ok(found)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        self.slice(N)?.try_into().map_err(|_| DecodeError::new(at, Reason::Truncated))
    }

    fn addresses(&mut self) -> Result<Vec<SocketAddr>, DecodeError> {
        let at = self.at;
        let [count] = self.take()?;
        if count == 0 || usize::from(count) > MAX_ADDRESSES {
            return Err(DecodeError::new(at, Reason::OutOfRange));
        }
        (0..count).map(|_| self.address()).collect()
    }

    fn address(&mut self) -> Result<SocketAddr, DecodeError> {
        let at = self.at;
        let field = self.take::<ADDRESS_BYTES>()?;
        let (ip, port) = field.split_at(16);
        let (ip, port): ([u8; 16], [u8; 2]) = match (ip.try_into(), port.try_into()) {
            (Ok(ip), Ok(port)) => (ip, port),
            _ => return Err(DecodeError::new(at, Reason::Truncated)),
        };
        let (ip, port) = (Ipv6Addr::from(ip).to_canonical(), u16::from_le_bytes(port));
        let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        if port == 0 || ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            return Err(DecodeError::new(at, Reason::OutOfRange));
        }
        Ok(SocketAddr::new(ip, port))
    }

    fn name(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let length = usize::from(u16::from_le_bytes(self.take()?));
        if length > MAX_NAME_BYTES {
            return Err(DecodeError::new(at, Reason::NameTooLong));
        }
        let name = self.slice(length)?;
        std::str::from_utf8(name).map_err(|_| DecodeError::new(at + 2, Reason::OutOfRange))
    }
}
