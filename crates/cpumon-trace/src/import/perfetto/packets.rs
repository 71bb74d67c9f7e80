//! The packets of a trace, one after the other, compressed ones too.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::super::bytes::read_up_to;
use super::wire::{Value, field};
use crate::cost::Credit;
use crate::file::reader::Ending;

/// Field `packet` of a trace: bytes behind their length.
pub(super) const PACKET: u8 = 1 << 3 | 2;
/// The largest packet that is read. Those of the scheduler's events have less than 1 MB.
const MAX_PACKET_BYTES: u64 = 16 << 20;
/// What one compressed packet may become.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
const MAX_VARINT_BYTES: u32 = 5;

/// Reads them.
pub(super) struct Packets<R> {
    from: R,
    at: u64,
    packet: Vec<u8>,
    /// Packets that were in a compressed one.
    unpacked: Vec<u8>,
    unpacked_at: usize,
    /// The last packet was one of them.
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
            if let Some((1, Value::Bytes(packet))) = field(&mut rest) {
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
