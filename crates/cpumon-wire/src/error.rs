//! [`DecodeError`]: why some bytes are no datagram of ours. Both decoders share it, because a receiver counts
//! and shows their errors in the same way.

use std::fmt;

use crate::v2::columns::properties;

/// Why a datagram was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// A field reaches beyond the end of the datagram.
    #[error("the datagram ends inside this field")]
    Truncated,
    /// v1: the name length is below zero.
    #[error("the name length is negative")]
    NegativeNameLength,
    /// v1: more bytes than the smallest process datagram, all zero.
    #[error("all bytes are zero")]
    AllZero,
    /// A name longer than a datagram can say (v1: 32,767 bytes).
    #[error("the name is too long")]
    NameTooLong,
    /// v1: more threads than a datagram's count field can say.
    #[error("more than 32,767 threads")]
    TooManyThreads,
    /// v2: the first four bytes are not the magic.
    #[error("not a v2 frame")]
    WrongMagic,
    /// v2: a version this program cannot read.
    #[error("a frame version that is not known here")]
    UnknownVersion,
    /// v2: the header says that it is shorter than the known fields.
    #[error("the header is too short")]
    HeaderTooShort,
    /// v2: fragment number not below the number of fragments, or that number is zero or too large.
    #[error("the fragment number does not fit the number of fragments")]
    BadFragment,
    /// v2: a number that needs more than 64 bits.
    #[error("a number of more than 64 bits")]
    Overflow,
    /// v2: a value is more than its column may have.
    #[error("a value out of range")]
    OutOfRange,
    /// v2: keys do not ascend, or one comes twice.
    #[error("keys are not in ascending order")]
    Unsorted,
    /// v2: a table announces more rows than its bytes can hold.
    #[error("more rows than the section can hold")]
    TooManyRows,
    /// v2: a table describes its columns in a way that cannot be.
    #[error("a malformed column description")]
    BadColumn,
    /// v2: a text that must repeat the row before has no row before.
    #[error("a text repeats a row that is not there")]
    NothingToRepeat,
}

/// Bytes that are no datagram of ours: where and why.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// Byte offset of the field that is at fault.
    pub offset: usize,
    /// Why the datagram was refused.
    pub reason: Reason,
    /// v2: number of the column of the table, where one is at fault.
    pub column: Option<u8>,
}

impl DecodeError {
    /// An error at a byte offset.
    pub fn new(offset: usize, reason: Reason) -> Self {
        Self { offset, reason, column: None }
    }

    /// Text of the fault without the place: the same for all datagrams with the same fault.
    pub fn fault(&self) -> String {
        match self.column.map(|id| (id, properties(id).called)) {
            Some((id, Some(name))) => format!("{name} (column {id}): {}", self.reason),
            Some((id, None)) => format!("column {id}: {}", self.reason),
            None => self.reason.to_string(),
        }
    }

    pub(crate) fn in_column(self, id: u8) -> Self {
        Self { column: Some(id), ..self }
    }
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.column.is_some() { ", " } else { ": " };
        write!(f, "decoding a datagram, byte {}{part}{}", self.offset, self.fault())
    }
}
