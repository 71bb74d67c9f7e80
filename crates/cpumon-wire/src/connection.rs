//! Messages of a secure connection, and their bytes. The records inside are those of [`crate::spool`], byte for byte, or packed
//! ([`crate::packed`]). Layout: docs/connection-format.md. Sockets and TLS are the link's.
//!
//! A message is a length, a type and a body. Unknown types are skipped, and a body may be longer than its known fields.

#[cfg(test)]
mod tests;

use crate::fields::{FieldReader, WireField, in_a_byte, in_order};

/// Highest protocol version that this program speaks.
pub const VERSION: u16 = 4;
/// From this version on a device may send files beside its records, and a receiver ask for one.
pub const ATTACHMENT_VERSION: u16 = 4;
/// From this version on records may come packed ([`crate::packed`]).
pub const PACKED_VERSION: u16 = 3;
/// The version of the first release: all records come as they are.
pub const PLAIN_VERSION: u16 = 1;
/// Packed records of another layout, which no release had.
const DROPPED_VERSION: u16 = 2;

/// The version to speak when the other side speaks `offered` and we speak up to `highest`.
///
/// # Errors
/// Both would speak version 2, which is not spoken any more; the text says so to people.
pub fn agree_on_version(offered: u16, highest: u16) -> Result<u16, &'static str> {
    match offered.min(highest) {
        DROPPED_VERSION => {
            Err("it speaks version 2 of the connection, which only development builds spoke: update it")
        }
        version => Ok(version),
    }
}

/// ALPN of a connection that carries snapshots; the device has shown its certificate.
pub const ALPN_SNAPSHOTS: &[u8] = b"cpumon-stream/1";
/// ALPN of a connection that asks for a certificate; the device has none yet.
pub const ALPN_ENROL: &[u8] = b"cpumon-enrol/1";

/// Bytes of a message's length and type.
pub const MESSAGE_HEADER_BYTES: usize = 5;
/// Longest message of a device with a certificate, bytes: a full snapshot of about 200,000 threads.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Longest message before a certificate was shown, and of a receiver, bytes.
pub const MAX_SMALL_MESSAGE_BYTES: usize = 16 << 10;

/// Longest part of an attachment in one message, bytes: a record never waits for more than this.
pub const MAX_PIECE_BYTES: usize = 16 << 10;

/// Enums by the numbers of their variants; any other number is an unknown one.
macro_rules! codes {
    ($($(#[doc = $doc:tt])+ $of:ident { $($(#[doc = $variant_doc:tt])+ $variant:ident = $code:literal,)+ })+) => { $(
        $(#[doc = $doc])+
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $of {
            $($(#[doc = $variant_doc])+ $variant,)+
            /// One that is not known here.
            Unknown(u8),
        }

        in_a_byte! {
            $of: |of| match of {
                    $($of::$variant => $code,)+
                    $of::Unknown(code) => code,
                },
                |code| match code {
                    $($code => $of::$variant,)+
                    _ => $of::Unknown(code),
                };
        }
    )+ };
}

codes! {
    /// What a receiver does with an attachment that it was offered.
    AttachmentState {
        /// It takes it, from a byte on.
        Taking = 1,
        /// It is on the receiver's disk.
        Stored = 2,
        /// It never takes it: it is too large, or no trace.
        Refused = 3,
        /// Not now: the device offers it again later.
        Later = 4,
    }

    /// What a device does when it is asked for a trace.
    TraceAnswer {
        /// It writes one, and sends it as an attachment.
        Writing = 1,
        /// No flight recorder runs there.
        NoRecorder = 2,
        /// It wrote one a short time ago.
        TooSoon = 3,
    }

    /// Why the receiver ends a connection.
    ByeReason {
        /// It stops, or starts again.
        Stopping = 1,
        /// Its store takes records again after failures, or the certificate is to be renewed: the device comes back and sends the
        /// unacknowledged records.
        Resume = 2,
        /// The device is not enrolled here any more.
        Revoked = 3,
        /// What the device sent cannot be used.
        Protocol = 4,
        /// More connections than it takes.
        Busy = 5,
        /// The token is not known, was used, or has expired.
        Token = 6,
        /// The same device has connected again.
        Replaced = 7,
        /// It asked to be let in without a token, and is not: it is not allowed here, too many ask, or the user refused or did not answer.
        NotLetIn = 8,
    }
}

/// Which records a channel carries.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// Snapshots made while no receiver was connected: stored, not shown as the present.
    Backfill,
    /// Snapshots that are being made now.
    #[default]
    Live,
}

/// The result of an exchange of times: a device's wall clock beside the receiver's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// The device's wall clock less the receiver's, ns, if both ways took as long.
    pub offset_ns: i64,
    /// Round-trip time of the exchange, ns.
    pub round_trip_ns: u64,
    /// The same of its time since boot, which is never set; devices of the first release do not send it.
    pub boot: Option<BootReport>,
}

/// The result of an exchange of times for a device's time since boot (it runs on while suspended).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BootReport {
    /// Id of the device's boot.
    pub boot: [u8; 16],
    /// The device's time since boot less the receiver's wall clock, ns.
    pub offset_ns: i64,
}

/// Messages by their types, each with its fields in their order: one list for the enum and both directions.
macro_rules! messages {
    (<$a:lifetime> $(
        $(#[doc = $doc:tt])+
        $kind:literal $message:ident { $($(#[doc = $field_doc:tt])+ $field:ident: $type:ty,)+ }
    )+) => {
        /// A message.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Message<$a> {
            $($(#[doc = $doc])+ $message { $($(#[doc = $field_doc])+ $field: $type,)+ },)+
        }

        impl<$a> Message<$a> {
            fn kind(&self) -> u8 {
                match self {
                    $(Self::$message { .. } => $kind,)+
                }
            }

            fn push_body(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$message { $($field),+ } => { $(WireField::push($field, out);)+ })+
                }
            }

            fn decode_body(kind: u8, mut body: FieldReader<$a>) -> Result<Option<Self>, MessageError> {
                let malformed = MessageError::Malformed { kind };
                Ok(Some(match kind {
                    $($kind => Self::$message { $($field: WireField::take(&mut body).ok_or(malformed)?),+ },)+
                    _ => return Ok(None),
                }))
            }
        }
    };
}

messages! { <'a>
    /// Device: its identity. The first message of a connection.
    1 Hello {
        /// Highest version that the device speaks.
        version: u16,
        /// The machine; must be the one that was enrolled.
        host: [u8; 16],
        /// Id of the spool, which numbers the records.
        spool: [u8; 16],
        /// Program and version of the agent.
        agent: &'a str,
    }
    /// Device: a channel begins. Its first snapshot has every task.
    2 Begin {
        /// Number of the channel, greater than all before on this connection.
        channel: u32,
        /// Which records the channel carries.
        kind: ChannelKind,
    }
    /// Device: a record of the spool.
    3 Record {
        /// Number of the channel.
        channel: u32,
        /// The record as it lies in a segment.
        record: &'a [u8],
    }
    /// Device: a record of the spool, by those before it on the channel; from version 3 on.
    9 Packed {
        /// Number of the channel.
        channel: u32,
        /// The packed record.
        packed: &'a [u8],
    }
    /// Device: is anyone there, and what time is it there?
    4 Ping {
        /// Repeated in the answer.
        token: u64,
        /// The result of the exchange before; devices of the first release do not send it.
        clock: Option<ClockReport>,
    }
    /// Device: asks for a certificate for a new key (PKCS#10, DER).
    5 Renew {
        /// Certificate request (PKCS#10, DER).
        request: &'a [u8],
    }
    /// Device without a certificate: asks for one.
    6 Enrol {
        /// Secret of the enrolment token.
        secret: [u8; 32],
        /// Id of the machine.
        host: [u8; 16],
        /// Name of the machine, for people.
        name: &'a str,
        /// Certificate request (PKCS#10, DER).
        request: &'a [u8],
    }
    /// Device without a certificate and without a token: asks the user of the receiver for one (docs/discovery.md).
    7 Ask {
        /// Hash of the nonce that the device reveals later.
        commitment: [u8; 32],
        /// Id of the machine.
        host: [u8; 16],
        /// Name of the machine, for people.
        name: &'a str,
        /// Certificate request (PKCS#10, DER).
        request: &'a [u8],
    }
    /// Device: the answer to [`Message::Challenge`].
    8 Reveal {
        /// The nonce that [`Message::Ask`] committed to.
        nonce: [u8; 32],
    }
    /// Device: it has a file for the receiver; from version 4 on.
    10 Offer {
        /// Number of the attachment, greater than all before on this connection.
        number: u32,
        /// SHA-256 of the file.
        hash: [u8; 32],
        /// Length of the file, bytes.
        bytes: u64,
        /// Time of the event that the file was written for, by the device's wall clock, ns since the UNIX epoch.
        wall_ns: i64,
        /// Why the file was written, for people.
        reason: &'a str,
    }
    /// Device: a part of the attachment that the receiver takes.
    11 Piece {
        /// Number of the attachment.
        number: u32,
        /// Byte offset of the part in the file.
        offset: u64,
        /// The part, at most [`MAX_PIECE_BYTES`].
        bytes: &'a [u8],
    }
    /// Device: the answer to [`Message::TakeTrace`].
    12 TraceAnswer {
        /// Token of the request.
        token: u64,
        /// What the device does about the request.
        answer: TraceAnswer,
    }
    /// Receiver: the answer to [`Message::Hello`].
    65 Welcome {
        /// The version to speak: the lower of the two.
        version: u16,
        /// Bytes of records that may be under way before the receiver says that it took them.
        window_bytes: u32,
        /// The device should ask for a new certificate now.
        is_renewal_due: bool,
    }
    /// Receiver: how far it is with a channel. Numbers never fall.
    66 Ack {
        /// Number of the channel.
        channel: u32,
        /// Every record up to this number has been taken in: its bytes are off the window.
        received: u64,
        /// Every record up to this number is on the receiver's disk.
        committed: u64,
    }
    /// Receiver: the answer to [`Message::Ping`].
    67 Pong {
        /// The ping's token.
        token: u64,
        /// The receiver's wall clock when the ping came and when this went, ns since the UNIX epoch; receivers of the first release
        /// do not send them.
        times: Option<(i64, i64)>,
    }
    /// Receiver: it will close the connection.
    68 Bye {
        /// Why the connection ends, for the program.
        reason: ByeReason,
        /// The reason, for people.
        text: &'a str,
    }
    /// Receiver: the device's certificate (X.509, DER).
    69 Certificate {
        /// The certificate (X.509, DER).
        der: &'a [u8],
    }
    /// Receiver: the answer to [`Message::Ask`].
    70 Challenge {
        /// 32 random bytes from the receiver.
        nonce: [u8; 32],
    }
    /// Receiver: the user has not decided yet.
    71 Waiting {
        /// Time that the user has left to decide, s.
        left_s: u32,
    }
    /// Receiver: how far it is with an attachment. The answer to [`Message::Offer`], and again as pieces arrive.
    72 Attachment {
        /// Number of the attachment.
        number: u32,
        /// What the receiver does with the attachment.
        state: AttachmentState,
        /// Number of bytes that the receiver has.
        received: u64,
        /// Why the attachment is not taken, for people.
        text: &'a str,
    }
    /// Receiver: a user asks for a trace of the last seconds.
    73 TakeTrace {
        /// Repeated in the answer.
        token: u64,
    }
}

/// Bytes that are no message of a version known here.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length of the message exceeds the limit.
    #[error("a message of {length} bytes; at most {most} are taken here")]
    TooLong {
        /// Length that the message claims, bytes.
        length: usize,
        /// Longest message that is accepted, bytes.
        most: usize,
    },
    /// The body ends inside a field, or a field cannot be.
    #[error("a malformed message of type {kind}")]
    Malformed {
        /// Type of the message.
        kind: u8,
    },
}

/// Longest text, bytes; a longer one is cut.
const MAX_TEXT_BYTES: usize = 255;

impl<'a> Message<'a> {
    /// Appends the encoded message, with its length and type.
    pub fn push(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(self.kind());
        self.push_body(out);
        let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
        if let Some(field) = out.get_mut(begin..begin + 4) {
            field.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Length of the message at the beginning of `bytes`, header included; `None` if the message is incomplete.
    ///
    /// # Errors
    /// The message claims a length above `most`, or of 0: nothing behind it can be read.
    pub fn length(bytes: &[u8], most: usize) -> Result<Option<usize>, MessageError> {
        let Some(length) = bytes.first_chunk() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > most {
            return Err(MessageError::TooLong { length, most });
        }
        // The type is part of the length, so a message of 0 bytes cannot be.
        if length == 0 {
            return Err(MessageError::Malformed { kind: 0 });
        }
        Ok((bytes.len() >= 4 + length).then_some(4 + length))
    }

    /// Reads one whole message ([`Message::length`]); `None`: a type that is not known here, to be skipped.
    ///
    /// # Errors
    /// It is malformed.
    pub fn decode(message: &'a [u8]) -> Result<Option<Self>, MessageError> {
        let Some((&kind, body)) = message.get(4..).and_then(<[u8]>::split_first) else {
            return Err(MessageError::Malformed { kind: 0 });
        };
        let decoded = Self::decode_body(kind, FieldReader { rest: body })?;
        match decoded {
            Some(Self::Piece { bytes, .. }) if bytes.len() > MAX_PIECE_BYTES => {
                Err(MessageError::Malformed { kind })
            }
            decoded => Ok(decoded),
        }
    }
}

/// A text with its length in two bytes, cut at a character.
impl<'a> WireField<'a> for &'a str {
    fn push(&self, out: &mut Vec<u8>) {
        let kept = &self[..self.floor_char_boundary(MAX_TEXT_BYTES.min(self.len()))];
        out.extend_from_slice(&u16::try_from(kept.len()).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(kept.as_bytes());
    }

    fn take(body: &mut FieldReader<'a>) -> Option<Self> {
        let length = usize::from(body.u16()?);
        let text = body.bytes(length)?;
        std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_TEXT_BYTES)
    }
}

/// All remaining bytes.
impl<'a> WireField<'a> for &'a [u8] {
    fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(body: &mut FieldReader<'a>) -> Option<Self> {
        body.bytes(body.rest.len())
    }
}

in_a_byte! {
    ChannelKind: |kind| u8::from(kind == ChannelKind::Live), |byte| if byte == 0 { ChannelKind::Backfill } else { ChannelKind::Live };
}

in_order!(ClockReport { offset_ns, round_trip_ns, boot });
in_order!(BootReport { boot, offset_ns });

/// The last field of a message. Devices and receivers of the first release end before it: a missing field is `None` and no error.
impl<'a, T: WireField<'a>> WireField<'a> for Option<T> {
    fn push(&self, out: &mut Vec<u8>) {
        if let Some(field) = self {
            field.push(out);
        }
    }

    fn take(body: &mut FieldReader<'a>) -> Option<Self> {
        Some(T::take(body))
    }
}

impl<'a> WireField<'a> for (i64, i64) {
    fn push(&self, out: &mut Vec<u8>) {
        self.0.push(out);
        self.1.push(out);
    }

    fn take(body: &mut FieldReader<'a>) -> Option<Self> {
        body.i64().zip(body.i64())
    }
}
