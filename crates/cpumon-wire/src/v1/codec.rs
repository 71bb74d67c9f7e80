//! Decodes and encodes one v1 [`Datagram`]. An error has the offset of the field.
//!
//! Where the original receiver takes garbage (a negative name length, nothing but zeros or FF) this decoder refuses it;
//! where it is lenient about something harmless (bytes behind the last thread, a negative thread count) so is this one.

use super::{Datagram, END_OF_TRANSFER, PROCESS_BYTES, ProcessDatagram, THREAD_BYTES, ThreadEntry};
use crate::{DecodeError, Reason};

/// Reads little-endian fields one after the other.
struct Fields<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let error = DecodeError::new(self.offset, Reason::Truncated);
        let end = self.offset.checked_add(count).ok_or(error)?;
        let field = self.bytes.get(self.offset..end).ok_or(error)?;
        self.offset = end;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let offset = self.offset;
        self.take(N)?.try_into().map_err(|_| DecodeError::new(offset, Reason::Truncated))
    }

    fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }
}

/// Reads one datagram.
///
/// Bytes behind the last thread are ignored and a negative thread count means no threads, as in the original.
///
/// # Errors
/// With the offset of the field: a datagram that ends early, a negative name length, or one that is longer than the
/// smallest process datagram and all zero.
pub fn decode(bytes: &[u8]) -> Result<Datagram, DecodeError> {
    if bytes == END_OF_TRANSFER {
        return Ok(Datagram::EndOfTransfer);
    }
    let mut fields = Fields { bytes, offset: 0 };
    let name_length = fields.i16()?;
    let name_length =
        usize::try_from(name_length).map_err(|_| DecodeError::new(0, Reason::NegativeNameLength))?;
    // This is a cleared buffer. Exactly 36 zero bytes are a legal process without a name, so only longer ones
    // are refused.
    if bytes.len() > PROCESS_BYTES && bytes.iter().all(|&byte| byte == 0) {
        return Err(DecodeError::new(0, Reason::AllZero));
    }
    let name = text(fields.take(name_length)?);
    let mut process = ProcessDatagram {
        name,
        timestamp_ticks: fields.i64()?,
        duration_ms: fields.u32()?,
        kernel_ms: fields.i64()?,
        user_ms: fields.i64()?,
        process_id: fields.u32()?,
        threads: Vec::new(),
    };
    let thread_count = usize::try_from(fields.i16()?).unwrap_or(0);
    let fitting = (bytes.len() - fields.offset) / THREAD_BYTES;
    if fitting < thread_count {
        // The first entry that is not there in full.
        return Err(DecodeError::new(fields.offset + fitting * THREAD_BYTES, Reason::Truncated));
    }
    // The count was checked against the bytes that are there, so a forged one reserves no memory.
    process.threads.reserve_exact(thread_count);
    for _ in 0..thread_count {
        process.threads.push(thread(&mut fields)?);
    }
    Ok(Datagram::Process(process))
}

/// A name as text. Each byte sequence that is no UTF-8 becomes one U+FFFD; as in the original's decoder the first two bytes
/// of a UTF-16 surrogate (ED A0..BF) are one such sequence.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut begins_surrogate = false;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        // `utf8_chunks` reports ED and A0..BF as two invalid chunks; the original's decoder makes one U+FFFD
        // of both.
        let ends_surrogate = begins_surrogate && chunk.valid().is_empty() && matches!(invalid, [0xa0..=0xbf]);
        if !invalid.is_empty() && !ends_surrogate {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        begins_surrogate = invalid == [0xed];
    }
    text
}

fn thread(fields: &mut Fields<'_>) -> Result<ThreadEntry, DecodeError> {
    Ok(ThreadEntry {
        owner_process_id: fields.u32()?,
        kernel_ms: fields.i64()?,
        user_ms: fields.i64()?,
        thread_id: fields.u32()?,
        duration_ms: fields.u32()?,
        timestamp_ticks: fields.i64()?,
    })
}

/// Appends one datagram to `out`.
///
/// # Errors
/// A name of more than 32,767 bytes or more than 32,767 threads: the format's length fields hold no more. `out` is unchanged.
pub fn encode(datagram: &Datagram, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    match datagram {
        Datagram::EndOfTransfer => out.extend_from_slice(&END_OF_TRANSFER),
        Datagram::Process(process) => encode_process(process, out)?,
    }
    Ok(())
}

fn encode_process(process: &ProcessDatagram, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let name_length =
        i16::try_from(process.name.len()).map_err(|_| DecodeError::new(0, Reason::NameTooLong))?;
    let thread_count = i16::try_from(process.threads.len())
        .map_err(|_| DecodeError::new(34 + process.name.len(), Reason::TooManyThreads))?;
    out.reserve(PROCESS_BYTES + process.name.len() + process.threads.len() * THREAD_BYTES);
    out.extend_from_slice(&name_length.to_le_bytes());
    out.extend_from_slice(process.name.as_bytes());
    out.extend_from_slice(&process.timestamp_ticks.to_le_bytes());
    out.extend_from_slice(&process.duration_ms.to_le_bytes());
    out.extend_from_slice(&process.kernel_ms.to_le_bytes());
    out.extend_from_slice(&process.user_ms.to_le_bytes());
    out.extend_from_slice(&process.process_id.to_le_bytes());
    out.extend_from_slice(&thread_count.to_le_bytes());
    for thread in &process.threads {
        out.extend_from_slice(&thread.owner_process_id.to_le_bytes());
        out.extend_from_slice(&thread.kernel_ms.to_le_bytes());
        out.extend_from_slice(&thread.user_ms.to_le_bytes());
        out.extend_from_slice(&thread.thread_id.to_le_bytes());
        out.extend_from_slice(&thread.duration_ms.to_le_bytes());
        out.extend_from_slice(&thread.timestamp_ticks.to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_eight_bytes_end_a_transfer() {
        assert_eq!(decode(&END_OF_TRANSFER), Ok(Datagram::EndOfTransfer));
        assert!(decode(&END_OF_TRANSFER[..7]).is_err());
        assert!(decode(&[&END_OF_TRANSFER[..], &[0]].concat()).is_err());
        let mut reversed = END_OF_TRANSFER;
        reversed.reverse();
        assert!(decode(&reversed).is_err());
    }

    #[test]
    fn what_the_format_cannot_say_is_an_error_and_writes_nothing() {
        let mut out = vec![7];
        let long = ProcessDatagram { name: "n".repeat(32_768), ..ProcessDatagram::default() };
        assert_eq!(encode(&Datagram::Process(long), &mut out), Err(DecodeError::new(0, Reason::NameTooLong)));
        let many =
            ProcessDatagram { threads: vec![ThreadEntry::default(); 32_768], ..ProcessDatagram::default() };
        assert_eq!(
            encode(&Datagram::Process(many), &mut out),
            Err(DecodeError::new(34, Reason::TooManyThreads))
        );
        assert_eq!(out, [7]);
    }

    #[test]
    fn a_missing_thread_is_named_by_its_offset() {
        let process = ProcessDatagram {
            name: "ab".into(),
            threads: vec![ThreadEntry::default(); 2],
            ..ProcessDatagram::default()
        };
        let mut out = Vec::new();
        encode(&Datagram::Process(process), &mut out).unwrap();
        out.pop();
        assert_eq!(decode(&out), Err(DecodeError::new(38 + 36, Reason::Truncated)));
    }
}
