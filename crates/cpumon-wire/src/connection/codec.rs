//! Encodes and decodes a [`Message`] field by field as in docs/connection-format.md. The bytes come from the
//! other side and are not trusted.

use super::{
    AttachmentState, BootReport, ByeReason, ChannelKind, ClockReport, MAX_PIECE_BYTES, Message, MessageError,
    TraceAnswer,
};
use crate::fields::Fields;

/// Longest text, bytes; the rest is cut.
const MAX_TEXT_BYTES: usize = 255;

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const BEGIN: u8 = 2;
    pub(super) const RECORD: u8 = 3;
    pub(super) const PING: u8 = 4;
    pub(super) const RENEW: u8 = 5;
    pub(super) const ENROL: u8 = 6;
    pub(super) const ASK: u8 = 7;
    pub(super) const REVEAL: u8 = 8;
    pub(super) const PACKED: u8 = 9;
    pub(super) const OFFER: u8 = 10;
    pub(super) const PIECE: u8 = 11;
    pub(super) const TRACE_ANSWER: u8 = 12;
    pub(super) const WELCOME: u8 = 65;
    pub(super) const ACK: u8 = 66;
    pub(super) const PONG: u8 = 67;
    pub(super) const BYE: u8 = 68;
    pub(super) const CERTIFICATE: u8 = 69;
    pub(super) const CHALLENGE: u8 = 70;
    pub(super) const WAITING: u8 = 71;
    pub(super) const ATTACHMENT: u8 = 72;
    pub(super) const TAKE_TRACE: u8 = 73;
}

impl<'a> Message<'a> {
    /// Appends the message.
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

    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => kind::HELLO,
            Self::Begin { .. } => kind::BEGIN,
            Self::Record { .. } => kind::RECORD,
            Self::Packed { .. } => kind::PACKED,
            Self::Ping { .. } => kind::PING,
            Self::Renew { .. } => kind::RENEW,
            Self::Enrol { .. } => kind::ENROL,
            Self::Ask { .. } => kind::ASK,
            Self::Reveal { .. } => kind::REVEAL,
            Self::Welcome { .. } => kind::WELCOME,
            Self::Ack { .. } => kind::ACK,
            Self::Pong { .. } => kind::PONG,
            Self::Bye { .. } => kind::BYE,
            Self::Certificate { .. } => kind::CERTIFICATE,
            Self::Challenge { .. } => kind::CHALLENGE,
            Self::Waiting { .. } => kind::WAITING,
            Self::Offer { .. } => kind::OFFER,
            Self::Piece { .. } => kind::PIECE,
            Self::TraceAnswer { .. } => kind::TRACE_ANSWER,
            Self::Attachment { .. } => kind::ATTACHMENT,
            Self::TakeTrace { .. } => kind::TAKE_TRACE,
        }
    }

    fn push_body(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Hello { version, host, spool, agent } => {
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&host);
                out.extend_from_slice(&spool);
                push_text(out, agent);
            }
            Self::Begin { channel, kind } => {
                out.extend_from_slice(&channel.to_le_bytes());
                out.push(u8::from(kind == ChannelKind::Live));
            }
            Self::Record { channel, record: bytes } | Self::Packed { channel, packed: bytes } => {
                out.extend_from_slice(&channel.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Ping { token, clock } => {
                out.extend_from_slice(&token.to_le_bytes());
                if let Some(clock) = clock {
                    out.extend_from_slice(&clock.offset_ns.to_le_bytes());
                    out.extend_from_slice(&clock.round_trip_ns.to_le_bytes());
                    if let Some(boot) = clock.boot {
                        out.extend_from_slice(&boot.boot);
                        out.extend_from_slice(&boot.offset_ns.to_le_bytes());
                    }
                }
            }
            Self::Pong { token, times } => {
                out.extend_from_slice(&token.to_le_bytes());
                if let Some((received, sent)) = times {
                    out.extend_from_slice(&received.to_le_bytes());
                    out.extend_from_slice(&sent.to_le_bytes());
                }
            }
            Self::Renew { request: bytes } | Self::Certificate { der: bytes } => out.extend_from_slice(bytes),
            Self::Reveal { nonce } | Self::Challenge { nonce } => out.extend_from_slice(&nonce),
            Self::Waiting { left_s } => out.extend_from_slice(&left_s.to_le_bytes()),
            Self::Enrol { secret, host, name, request }
            | Self::Ask { commitment: secret, host, name, request } => {
                out.extend_from_slice(&secret);
                out.extend_from_slice(&host);
                push_text(out, name);
                out.extend_from_slice(request);
            }
            Self::Welcome { version, window_bytes, is_renewal_due } => {
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&window_bytes.to_le_bytes());
                out.push(u8::from(is_renewal_due));
            }
            Self::Ack { channel, received, committed } => {
                out.extend_from_slice(&channel.to_le_bytes());
                out.extend_from_slice(&received.to_le_bytes());
                out.extend_from_slice(&committed.to_le_bytes());
            }
            Self::Bye { reason, text } => {
                out.push(reason.code());
                push_text(out, text);
            }
            Self::Offer { number, hash, bytes, wall_ns, reason } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&hash);
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&wall_ns.to_le_bytes());
                push_text(out, reason);
            }
            Self::Piece { number, offset, bytes } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::TraceAnswer { token, answer } => {
                out.extend_from_slice(&token.to_le_bytes());
                out.push(answer.code());
            }
            Self::Attachment { number, state, received, text } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.push(state.code());
                out.extend_from_slice(&received.to_le_bytes());
                push_text(out, text);
            }
            Self::TakeTrace { token } => out.extend_from_slice(&token.to_le_bytes()),
        }
    }

    /// Length of the message at the beginning of `bytes`, header included; `None`: not all of it is there.
    ///
    /// # Errors
    /// It says that it is longer than `most`: nothing behind it can be read.
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
        let is_known = matches!(kind, kind::HELLO..=kind::TRACE_ANSWER | kind::WELCOME..=kind::TAKE_TRACE);
        if !is_known {
            return Ok(None);
        }
        Self::decode_body(kind, Fields { rest: body }).map(Some).ok_or(MessageError::Malformed { kind })
    }

    fn decode_body(kind: u8, mut body: Fields<'a>) -> Option<Self> {
        let body = &mut body;
        Some(match kind {
            kind::HELLO => Self::Hello {
                version: body.u16()?,
                host: body.take()?,
                spool: body.take()?,
                agent: text(body)?,
            },
            kind::BEGIN => Self::Begin {
                channel: body.u32()?,
                kind: if body.take::<1>()? == [0] { ChannelKind::Backfill } else { ChannelKind::Live },
            },
            kind::RECORD => Self::Record { channel: body.u32()?, record: body.rest },
            kind::PACKED => Self::Packed { channel: body.u32()?, packed: body.rest },
            // Devices and receivers of the first release end here: what is missing is `None` and no error.
            kind::PING => Self::Ping { token: body.u64()?, clock: clock(body) },
            kind::PONG => Self::Pong { token: body.u64()?, times: body.i64().zip(body.i64()) },
            kind::RENEW => Self::Renew { request: body.rest },
            kind::CERTIFICATE => Self::Certificate { der: body.rest },
            kind::ENROL => Self::Enrol {
                secret: body.take()?,
                host: body.take()?,
                name: text(body)?,
                request: body.rest,
            },
            kind::ASK => Self::Ask {
                commitment: body.take()?,
                host: body.take()?,
                name: text(body)?,
                request: body.rest,
            },
            kind::REVEAL => Self::Reveal { nonce: body.take()? },
            kind::CHALLENGE => Self::Challenge { nonce: body.take()? },
            kind::WAITING => Self::Waiting { left_s: body.u32()? },
            kind::WELCOME => Self::Welcome {
                version: body.u16()?,
                window_bytes: body.u32()?,
                is_renewal_due: body.take::<1>()? != [0],
            },
            kind::ACK => Self::Ack { channel: body.u32()?, received: body.u64()?, committed: body.u64()? },
            kind::BYE => {
                let [code] = body.take()?;
                Self::Bye { reason: ByeReason::from_code(code), text: text(body)? }
            }
            kind::OFFER..=kind::TRACE_ANSWER | kind::ATTACHMENT..=kind::TAKE_TRACE => {
                return Self::decode_attachment(kind, body);
            }
            _ => return None,
        })
    }

    /// The messages of attachments and of requests for them.
    fn decode_attachment(kind: u8, body: &mut Fields<'a>) -> Option<Self> {
        Some(match kind {
            kind::OFFER => Self::Offer {
                number: body.u32()?,
                hash: body.take()?,
                bytes: body.u64()?,
                wall_ns: body.i64()?,
                reason: text(body)?,
            },
            kind::PIECE => {
                let (number, offset) = (body.u32()?, body.u64()?);
                let bytes = Some(body.rest).filter(|bytes| bytes.len() <= MAX_PIECE_BYTES)?;
                Self::Piece { number, offset, bytes }
            }
            kind::TRACE_ANSWER => {
                let token = body.u64()?;
                Self::TraceAnswer { token, answer: TraceAnswer::from_code(body.take::<1>()?[0]) }
            }
            kind::ATTACHMENT => {
                let number = body.u32()?;
                let state = AttachmentState::from_code(body.take::<1>()?[0]);
                Self::Attachment { number, state, received: body.u64()?, text: text(body)? }
            }
            kind::TAKE_TRACE => Self::TakeTrace { token: body.u64()? },
            _ => return None,
        })
    }
}

/// A text with its length in two bytes, cut at a character.
fn push_text(out: &mut Vec<u8>, text: &str) {
    let kept = &text[..text.floor_char_boundary(MAX_TEXT_BYTES.min(text.len()))];
    out.extend_from_slice(&u16::try_from(kept.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(kept.as_bytes());
}

fn text<'a>(body: &mut Fields<'a>) -> Option<&'a str> {
    let length = usize::from(body.u16()?);
    let text = body.bytes(length)?;
    std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_TEXT_BYTES)
}

fn clock(body: &mut Fields<'_>) -> Option<ClockReport> {
    let (offset_ns, round_trip_ns) = (body.i64()?, body.u64()?);
    let boot = |body: &mut Fields<'_>| Some(BootReport { boot: body.take()?, offset_ns: body.i64()? });
    Some(ClockReport { offset_ns, round_trip_ns, boot: boot(body) })
}
