//! Encodes and decodes a [`Message`] field by field as in docs/connection-format.md. The bytes come from the
//! other side and are not trusted.

use super::{BootReport, ChannelKind, ClockReport, MAX_PIECE_BYTES, Message, MessageError};
use crate::fields::{FieldReader, WireField, in_a_byte, in_order};

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

/// The last field of a message. Devices and receivers of the first release end before it: what is missing is `None` and no error.
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
