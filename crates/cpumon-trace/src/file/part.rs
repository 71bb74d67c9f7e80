//! Files of one recording that follow each other in one file: a part begins with the header of a file and a chunk that says of which
//! recording it is.

use std::io::Read;

use cpumon_model::BootId;

use super::chunk::{self, ChunkHeader, ChunkKind, Packing};
use super::header::{self, FileHeader, array};
use super::input::Input;

const PAYLOAD_BYTES: usize = 16;

/// Which recording. Only within one do the numbers of tasks mean the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Recording {
    /// When it began, ns on the trace's clock.
    pub(super) began_ns: u64,
    pub(super) boot: BootId,
}

impl Recording {
    /// What a chunk says; `None` if it says nothing of that.
    pub(super) fn of(header: &ChunkHeader, payload: &[u8]) -> Option<Self> {
        let is_part = header.kind == ChunkKind::Part && header.packing == Packing::None;
        let boot = BootId(array(payload, 0)?);
        is_part.then_some(Self { began_ns: header.base_ns, boot })
    }
}

/// What begins where a chunk would.
pub(super) enum PartRead {
    /// Neither a part nor another file.
    None,
    /// A part of the same recording, which is passed up to its first chunk. When it began, ns.
    Same(u64),
    /// A file of another recording.
    Other,
}

/// Reads what begins here. `recording`: that of the file, if it says one.
pub(super) fn next<R: Read>(input: &mut Input<R>, recording: Option<Recording>) -> std::io::Result<PartRead> {
    let mut rest = input.peek(header::MAX_BYTES + chunk::HEADER_BYTES + PAYLOAD_BYTES)?;
    if !rest.starts_with(&header::MAGIC) {
        return Ok(PartRead::None);
    }
    let Ok((part, header_bytes)) = FileHeader::read(&mut rest) else { return Ok(PartRead::None) };
    let found = chunk::first_of(rest).and_then(|(header, payload)| Recording::of(&header, payload));
    if found.is_none() || found != recording {
        return Ok(PartRead::Other);
    }
    input.pass(usize::try_from(header_bytes).unwrap_or(usize::MAX));
    Ok(PartRead::Same(part.began.mono_ns))
}
