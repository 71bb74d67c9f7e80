//! Reads the packets of a trace one after the other, compressed ones too ([`Packets`]), and the fields of a protobuf message ([`fields`]).

use std::io::Read;

use cpumon_model::varint::take as take_varint;
use cpumon_trace::Ending;
use cpumon_trace::limits::Credit;
use flate2::read::ZlibDecoder;

use crate::decoder::read_up_to;

/// Field `packet` of a trace: bytes behind their length.
pub(super) const PACKET: u8 = 1 << 3 | 2;
/// The largest packet that is read. Those of the scheduler's events have less than 1 MB.
const MAX_PACKET_BYTES: u64 = 16 << 20;
/// Most bytes that one compressed packet may unpack to.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
const MAX_VARINT_BYTES: u32 = 5;

pub(super) struct Packets<R> {
    from: R,
    at: u64,
    packet: Vec<u8>,
    /// Packets that a compressed packet contained.
    unpacked: Vec<u8>,
    unpacked_at: usize,
    was_unpacked: bool,
    credit: Credit,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(from: R) -> Self {
        let (packet, unpacked, credit) = (Vec::new(), Vec::new(), Credit::default());
        Self { from, at: 0, packet, unpacked, unpacked_at: 0, was_unpacked: false, credit }
    }

    pub(super) fn into_inner(self) -> R {
        self.from
    }

    /// The next packet. `None`: the file ends here, or `ending` says where it is damaged.
    pub(super) fn next(&mut self, ending: &mut Ending) -> std::io::Result<Option<&[u8]>> {
        if self.unpacked_at < self.unpacked.len() {
            let mut rest = &self.unpacked[self.unpacked_at..];
            if let Some((1, ProtobufValue::Bytes(packet))) = field(&mut rest) {
                self.unpacked_at = self.unpacked.len() - rest.len();
                let begin = self.unpacked_at - packet.len();
                self.was_unpacked = true;
                return Ok(self.unpacked.get(begin..self.unpacked_at));
            }
            // Behind the damage nothing is found in what was compressed together.
            ending.malformed += 1;
            self.unpacked_at = self.unpacked.len();
        }
        self.was_unpacked = false;
        loop {
            let begin = self.at;
            let Some(tag) = self.byte()? else { return Ok(None) };
            let length = if tag == PACKET { self.length()? } else { None };
            let Some(length) = length else {
                ending.damaged_at = Some(begin);
                return Ok(None);
            };
            if length > MAX_PACKET_BYTES {
                ending.malformed += 1;
                let passed = std::io::copy(&mut self.from.by_ref().take(length), &mut std::io::sink())?;
                self.at += passed;
                if passed == length {
                    continue;
                }
                ending.damaged_at = Some(begin);
                return Ok(None);
            }
            self.packet = read_up_to(&mut self.from, length, MAX_PACKET_BYTES)?.unwrap_or_default();
            if self.packet.len() as u64 != length {
                ending.damaged_at = Some(begin);
                return Ok(None);
            }
            self.at += length;
            return Ok(Some(&self.packet));
        }
    }

    /// Hands out the packets in these bytes next, which are compressed with zlib. `None`: they are damaged, or too many.
    pub(super) fn unpack(&mut self, packed: &[u8]) -> Option<()> {
        if self.was_unpacked {
            // A compressed packet in a compressed one could go on for ever.
            return None;
        }
        self.unpacked.clear();
        self.unpacked_at = 0;
        self.credit.add(packed.len());
        let most = self.credit.left().min(MAX_UNPACKED_BYTES);
        let mut decoder = ZlibDecoder::new(packed).take(most + 1);
        let is_sound = decoder.read_to_end(&mut self.unpacked).is_ok();
        if self.credit.take(self.unpacked.len()) && is_sound && self.unpacked.len() as u64 <= most {
            return Some(());
        }
        self.unpacked.clear();
        None
    }

    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        let mut byte = [0];
        let count = loop {
            match self.from.read(&mut byte) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.at += count as u64;
        Ok((count == 1).then_some(byte[0]))
    }

    fn length(&mut self) -> std::io::Result<Option<u64>> {
        let mut length = 0;
        for at in 0..MAX_VARINT_BYTES {
            let Some(byte) = self.byte()? else { return Ok(None) };
            length |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(Some(length));
            }
        }
        Ok(None)
    }
}

const NUMBER: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const SIZED: u64 = 2;
const FOUR_BYTES: u64 = 5;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ProtobufValue<'b> {
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(&'b [u8]),
    /// A kind that none of the fields that are read has.
    Other,
}

/// Takes a field from the front. `None`: there is no sound one.
fn field<'b>(bytes: &mut &'b [u8]) -> Option<(u64, ProtobufValue<'b>)> {
    let tag = take_varint(bytes)?;
    let take = |bytes: &mut &'b [u8], length: u64| {
        let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        *bytes = rest;
        Some(taken)
    };
    let value = match tag & 7 {
        EIGHT_BYTES => take(bytes, 8).map(|_| ProtobufValue::Other)?,
        FOUR_BYTES => take(bytes, 4).map(|_| ProtobufValue::Other)?,
        SIZED => {
            let length = take_varint(bytes)?;
            ProtobufValue::Bytes(take(bytes, length)?)
        }
        NUMBER => ProtobufValue::Number(take_varint(bytes)?),
        _ => return None,
    };
    (tag >> 3 != 0).then_some((tag >> 3, value))
}

/// Visits all fields. `None`: the message is damaged, or `visit` says so.
pub(super) fn fields<'b>(
    mut bytes: &'b [u8],
    mut visit: impl FnMut(u64, ProtobufValue<'b>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let (number, value) = field(&mut bytes)?;
        visit(number, value)?;
    }
    Some(())
}

/// Fields of this and lower numbers are those that events have.
const FIELDS: usize = 9;

/// The last value of each field of a small message.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Small<'b> {
    numbers: [u64; FIELDS],
    texts: [&'b [u8]; FIELDS],
}

impl<'b> Small<'b> {
    pub(super) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let mut small = Self::default();
        fields(bytes, |number, value| {
            let at = usize::try_from(number).unwrap_or(FIELDS);
            match value {
                ProtobufValue::Number(value) if at < FIELDS => small.numbers[at] = value,
                ProtobufValue::Bytes(text) if at < FIELDS => small.texts[at] = text,
                _ => {}
            }
            Some(())
        })?;
        Some(small)
    }

    /// Number in a field; 0 if it is missing.
    pub(super) fn number(&self, field: usize) -> u64 {
        self.numbers.get(field).copied().unwrap_or(0)
    }

    /// Bytes of a field; empty if it is missing.
    pub(super) fn text(&self, field: usize) -> &'b [u8] {
        self.texts.get(field).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds_are_passed_and_unsound_ones_refused() {
        let sound = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0xf8, 7, 9,
        ];
        let mut found = Vec::new();
        fields(&sound, |number, value| {
            found.push((number, value));
            Some(())
        })
        .unwrap();
        let expected = [
            (1, ProtobufValue::Number(150)),
            (2, ProtobufValue::Bytes(b"hi")),
            (3, ProtobufValue::Other),
            (4, ProtobufValue::Other),
            (127, ProtobufValue::Number(9)),
        ];
        assert_eq!(found, expected);
        let small = Small::parse(&sound).unwrap();
        assert_eq!(
            (small.number(1), small.text(2), small.number(7), small.text(8)),
            (150, &b"hi"[..], 0, &b""[..])
        );
        for bad in [
            &[0x08][..],
            &[0x12, 3, 1, 2],
            &[0x19, 1],
            &[0x25, 1],
            &[0x0b],
            &[0x00, 1],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert!(Small::parse(bad).is_none(), "{bad:?}");
        }
    }
}
