//! Writes protobuf messages: the few kinds of fields that a Perfetto trace needs.

use cpumon_trace::push_varint;

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Fields of a message, as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    /// A number. Negative ones are not needed.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        push_varint(&mut self.0, field << 3 | VARINT);
        push_varint(&mut self.0, value);
        self
    }

    /// A text, bytes, another message, or packed numbers.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        push_varint(&mut self.0, field << 3 | BYTES);
        push_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Another message.
    pub(super) fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }
}
