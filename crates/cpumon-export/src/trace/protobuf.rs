//! Writes protobuf messages: the few kinds of fields that a Perfetto trace needs.

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Fields of a message, as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    /// A number. Negative ones are not needed.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        push(&mut self.0, field << 3 | VARINT);
        push(&mut self.0, value);
        self
    }

    /// A text, bytes, another message, or packed numbers.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        push(&mut self.0, field << 3 | BYTES);
        push(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Another message.
    pub(super) fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }
}

/// Seven bits a byte, the lowest first.
pub(super) fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 0x80")]
    out.push(value as u8);
}
