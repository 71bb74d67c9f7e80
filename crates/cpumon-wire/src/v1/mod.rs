//! Protocol v1: the datagrams of the original programs (2012), byte for byte, in both directions. Layout:
//! docs/wire-format.md.
//!
//! Where the original receiver takes garbage (a negative name length, nothing but zeros or FF) this decoder refuses it;
//! where it is lenient about something harmless (bytes behind the last thread, a negative thread count) so is this one.

mod assembler;
mod sets;

use crate::fields::{FieldReader, WireField, in_order};
use crate::{DecodeError, Reason};

pub use self::assembler::{Assembler, AssemblerLimits, SetCounts};
pub use self::sets::{SetEncoder, SetReport};

/// The end-of-transfer datagram: these 8 bytes and no other.
pub const END_OF_TRANSFER: [u8; 8] = [0x01, 0x24, 0x15, 0x40, 0x52, 0x01, 0x24, 0x05];

/// Length of a process datagram without its name and threads, bytes.
pub const PROCESS_BYTES: usize = 36;

/// Length of one thread entry, bytes.
pub const THREAD_BYTES: usize = 36;

/// Longest datagram that an original receiver takes, bytes (its receive buffer).
pub const MAX_ORIGINAL_DATAGRAM: usize = 32_768;

/// Ticks (100 ns) from 0001-01-01 to the UNIX epoch.
pub const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

/// A v1 datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// One process and its threads over an interval.
    Process(ProcessDatagram),
    /// End marker: the set is complete.
    EndOfTransfer,
}

/// One process over an interval, as the original sends it. Times are deltas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessDatagram {
    /// Process name. Bytes that are no UTF-8 arrive as U+FFFD.
    pub name: String,
    /// End of the interval on the device's clock: 100 ns ticks since 0001-01-01, device local time, no zone.
    pub timestamp_ticks: i64,
    /// Length of the interval, ms.
    pub duration_ms: u32,
    /// Kernel time (system time in our words) in the interval, ms.
    pub kernel_ms: i64,
    /// User time in the interval, ms.
    pub user_ms: i64,
    /// Process id.
    pub process_id: u32,
    /// Threads of the process.
    pub threads: Vec<ThreadEntry>,
}

/// One thread over an interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ThreadEntry {
    /// Process id of the owner; the original repeats the datagram's.
    pub owner_process_id: u32,
    /// Kernel time in the interval, ms.
    pub kernel_ms: i64,
    /// User time in the interval, ms.
    pub user_ms: i64,
    /// Thread id.
    pub thread_id: u32,
    /// Length of the interval, ms; the original repeats the datagram's.
    pub duration_ms: u32,
    /// End of the interval in ticks; the original repeats the datagram's.
    pub timestamp_ticks: i64,
}

/// A wall-clock time as v1 ticks in local time.
///
/// `utc_offset_s`: local time less UTC, seconds. Times longer than ticks can hold saturate.
pub fn ticks_from_wall(wall_ns: i64, utc_offset_s: i32) -> i64 {
    wall_ns
        .div_euclid(100)
        .saturating_add(UNIX_EPOCH_TICKS)
        .saturating_add(i64::from(utc_offset_s) * 10_000_000)
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
    let mut fields = FieldReader { rest: bytes };
    // The field that is not there in full is the one that begins with `rest`.
    let truncated = |rest: &[u8]| DecodeError::new(bytes.len() - rest.len(), Reason::Truncated);
    let name_length = fields.i16().ok_or_else(|| truncated(bytes))?;
    let name_length =
        usize::try_from(name_length).map_err(|_| DecodeError::new(0, Reason::NegativeNameLength))?;
    // This is a cleared buffer. Exactly 36 zero bytes are a legal process without a name, so only longer ones
    // are refused.
    if bytes.len() > PROCESS_BYTES && bytes.iter().all(|&byte| byte == 0) {
        return Err(DecodeError::new(0, Reason::AllZero));
    }
    let mut process = process(&mut fields, name_length).ok_or_else(|| truncated(fields.rest))?;
    let thread_count = fields.i16().ok_or_else(|| truncated(fields.rest))?;
    let thread_count = usize::try_from(thread_count).unwrap_or(0);
    let fitting = fields.rest.len() / THREAD_BYTES;
    if fitting < thread_count {
        // The first entry that is not there in full.
        return Err(truncated(&fields.rest[fitting * THREAD_BYTES..]));
    }
    // The count was checked against the bytes that are there, so a forged one reserves no memory.
    process.threads.reserve_exact(thread_count);
    for _ in 0..thread_count {
        process.threads.push(WireField::take(&mut fields).ok_or_else(|| truncated(fields.rest))?);
    }
    Ok(Datagram::Process(process))
}

/// Parses a process without its threads.
fn process(fields: &mut FieldReader<'_>, name_length: usize) -> Option<ProcessDatagram> {
    Some(ProcessDatagram {
        name: text(fields.bytes(name_length)?),
        timestamp_ticks: fields.i64()?,
        duration_ms: fields.u32()?,
        kernel_ms: fields.i64()?,
        user_ms: fields.i64()?,
        process_id: fields.u32()?,
        threads: Vec::new(),
    })
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

in_order!(ThreadEntry { owner_process_id, kernel_ms, user_ms, thread_id, duration_ms, timestamp_ticks });

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
    process.threads.iter().for_each(|thread| thread.push(out));
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
