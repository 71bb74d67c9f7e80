//! Lists of the processes that were there at the end of an interval, idle ones too, and of the threads that waited then. Layout:
//! docs/store.md, "Lists of processes" and "Lists of threads that wait".

use cpumon_model::{TaskState, WaitReason};

use super::limits::MAX_ROWS;
use super::varint::{self, Cursor, Malformed};
use super::zip::{unzip, zip_columns};
use super::{place_code, place_of};

/// First byte of a list.
const FORMAT: u8 = 1;
/// Most processes of a list; longer ones are not written: idle processes of such a host stay unknown.
pub(crate) const MAX_PROCESSES: usize = 1 << 15;
/// Most idle threads of a list; beside them it has those with a row in its interval that wait.
pub(crate) const MAX_IDLE_THREADS: usize = 1 << 17;
/// Most threads of a list.
const MAX_THREADS: usize = MAX_IDLE_THREADS + MAX_ROWS;
/// Plain bytes of lists: the longest numbers of a process take 15 bytes, those of a thread 27.
const MAX_PROCESS_BYTES: usize = MAX_PROCESSES * 16;
const MAX_THREAD_BYTES: usize = MAX_THREADS * 28;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedProcess {
    /// Row of `process`.
    pub(crate) id: u64,
    /// Its threads at that time.
    pub(crate) thread_rows: u32,
}

/// Packs processes, given in order of id.
pub(crate) fn encode_processes(list: &[ListedProcess], level: i32) -> std::io::Result<Vec<u8>> {
    let (mut ids, mut threads, mut before) = (Vec::new(), Vec::new(), 0);
    for one in list {
        varint::write(&mut ids, one.id.wrapping_sub(before));
        varint::write(&mut threads, one.thread_rows.into());
        before = one.id;
    }
    zip_columns(FORMAT, list.len(), &[ids, threads], level)
}

/// Unpacks what [`encode_processes`] packed.
pub(crate) fn decode_processes(bytes: &[u8]) -> Result<Vec<ListedProcess>, Malformed> {
    let mut plain = Vec::new();
    unzip(bytes, &mut plain, MAX_PROCESS_BYTES)?;
    let mut cursor = Cursor::open(&plain, FORMAT)?;
    // Each process has at least a byte in both columns, so damage cannot make the list longer than its bytes.
    let count = cursor.count_to(2, MAX_PROCESSES, "more processes than a list has")?;
    let (mut ids, mut threads) = (cursor.section()?, cursor.section()?);
    let mut list = Vec::with_capacity(count);
    let mut id = 0_u64;
    for _ in 0..count {
        id = id.wrapping_add(ids.u64()?);
        list.push(ListedProcess { id, thread_rows: threads.narrow()? });
    }
    Ok(list)
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedThread {
    /// Row of `process`.
    pub(crate) process_id: u64,
    /// Row of `thread`.
    pub(crate) id: u64,
    pub(crate) reason: WaitReason,
    pub(crate) last_cpu: u16,
    /// A letter of proc(5).
    pub(crate) state: u8,
}

/// Packs threads, given in order of process and thread.
pub(crate) fn encode_threads(list: &[ListedThread], level: i32) -> std::io::Result<Vec<u8>> {
    let [mut processes, mut ids, mut reasons, mut places] = [const { Vec::new() }; 4];
    let (mut process_id, mut id) = (0_u64, 0_u64);
    for one in list {
        varint::write(&mut processes, one.process_id.wrapping_sub(process_id));
        varint::write_signed(&mut ids, one.id.wrapping_sub(id).cast_signed());
        varint::write(&mut reasons, one.reason.code());
        varint::write(&mut places, place_code(one.last_cpu, TaskState(one.state)));
        (process_id, id) = (one.process_id, one.id);
    }
    zip_columns(FORMAT, list.len(), &[processes, ids, reasons, places], level)
}

/// Unpacks what [`encode_threads`] packed.
pub(crate) fn decode_threads(bytes: &[u8]) -> Result<Vec<ListedThread>, Malformed> {
    let mut plain = Vec::new();
    unzip(bytes, &mut plain, MAX_THREAD_BYTES)?;
    let mut cursor = Cursor::open(&plain, FORMAT)?;
    // Each thread has at least a byte in each column, so damage cannot make the list longer than its bytes.
    let count = cursor.count_to(4, MAX_THREADS, "more threads than a list has")?;
    let (mut processes, mut ids) = (cursor.section()?, cursor.section()?);
    let (mut reasons, mut places) = (cursor.section()?, cursor.section()?);
    let mut list = Vec::with_capacity(count);
    let (mut process_id, mut id) = (0_u64, 0_u64);
    for _ in 0..count {
        process_id = process_id.wrapping_add(processes.u64()?);
        id = id.wrapping_add(ids.i64()?.cast_unsigned());
        let reason = WaitReason::from_code(reasons.u64()?);
        let place = places.u64()?;
        let (last_cpu, TaskState(state)) =
            place_of(place).ok_or_else(|| places.malformed("no such state"))?;
        list.push(ListedThread { process_id, id, reason, last_cpu, state });
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
