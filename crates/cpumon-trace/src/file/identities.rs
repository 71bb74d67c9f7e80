//! Identities of tasks and names of control groups as bytes, out of band: once for each, and again when it changes.

use cpumon_model::{Comm, ProcessKey, ThreadKey, TraceGroup, TraceIdentity, TraceTask};

use super::varint::{push, take};

const IS_KERNEL: u64 = 1;
const IS_EXECUTABLE: u64 = 2;
/// Names of executables have at most 255 bytes.
const MAX_PROGRAM_BYTES: usize = 255;
/// Names of directories have at most 255 bytes.
const MAX_GROUP_BYTES: usize = 255;

pub(super) fn push_identity(out: &mut Vec<u8>, identity: &TraceIdentity) {
    let flags =
        (u64::from(identity.is_kernel) * IS_KERNEL) | (u64::from(identity.is_executable) * IS_EXECUTABLE);
    let (thread, process) = (identity.thread, identity.process);
    for value in [
        identity.task.0.into(),
        identity.at_ns,
        flags,
        thread.tid.into(),
        thread.start_ns,
        process.pid.into(),
        process.start_ns,
        identity.group,
    ] {
        push(out, value);
    }
    let program = &identity.program[..identity.program.len().min(MAX_PROGRAM_BYTES)];
    for text in [identity.comm.as_bytes(), program] {
        push(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

/// Takes one from the front of `bytes`; `None` if there is none.
pub(super) fn take_identity(bytes: &mut &[u8]) -> Option<TraceIdentity> {
    let task = TraceTask(u32::try_from(take(bytes)?).ok()?);
    let (at_ns, flags) = (take(bytes)?, take(bytes)?);
    let thread = ThreadKey { tid: u32::try_from(take(bytes)?).ok()?, start_ns: take(bytes)? };
    let process = ProcessKey { pid: u32::try_from(take(bytes)?).ok()?, start_ns: take(bytes)? };
    let group = take(bytes)?;
    let comm = Comm::new(take_text(bytes, Comm::MAX_BYTES)?);
    let program = take_text(bytes, MAX_PROGRAM_BYTES)?.into();
    let (is_kernel, is_executable) = (flags & IS_KERNEL != 0, flags & IS_EXECUTABLE != 0);
    Some(TraceIdentity { task, at_ns, thread, process, group, comm, program, is_executable, is_kernel })
}

pub(super) fn push_group(out: &mut Vec<u8>, group: &TraceGroup) {
    push(out, group.group);
    push(out, group.parent);
    let name = &group.name[..group.name.len().min(MAX_GROUP_BYTES)];
    push(out, name.len() as u64);
    out.extend_from_slice(name);
}

/// Takes one from the front of `bytes`; `None` if there is none.
pub(super) fn take_group(bytes: &mut &[u8]) -> Option<TraceGroup> {
    let (group, parent) = (take(bytes)?, take(bytes)?);
    Some(TraceGroup { group, parent, name: take_text(bytes, MAX_GROUP_BYTES)?.into() })
}

fn take_text<'b>(bytes: &mut &'b [u8], most: usize) -> Option<&'b [u8]> {
    let length = usize::try_from(take(bytes)?).ok().filter(|length| *length <= most)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}
