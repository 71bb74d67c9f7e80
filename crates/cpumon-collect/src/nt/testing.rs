//! Makes answers of the system for tests, by the documented layout.

use super::records::{PROCESS_BYTES, THREAD_BYTES};

/// Address that made answers claim to have in memory.
pub(crate) const ADDRESS: u64 = 0x1_2340_0000;

#[derive(Clone, Debug, Default)]
pub(crate) struct MadeThread {
    pub(crate) tid: u64,
    pub(crate) created: u64,
    pub(crate) user: u64,
    pub(crate) kernel: u64,
    pub(crate) priority: i32,
    pub(crate) state: u32,
    pub(crate) wait_reason: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MadeProcess {
    pub(crate) pid: u64,
    pub(crate) parent: u64,
    pub(crate) session: u32,
    pub(crate) base_priority: i32,
    pub(crate) created: u64,
    pub(crate) user: u64,
    pub(crate) kernel: u64,
    pub(crate) cycles: u64,
    pub(crate) faults: u32,
    pub(crate) hard_faults: u32,
    pub(crate) name: &'static str,
    pub(crate) threads: Vec<MadeThread>,
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A chain of records, each followed by its threads and its name.
pub(crate) fn answer(processes: &[MadeProcess]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        let begin = bytes.len();
        let name: Vec<u8> = process.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let name_at = begin + PROCESS_BYTES + process.threads.len() * THREAD_BYTES;
        let end = (name_at + name.len()).next_multiple_of(8);
        let next = if index + 1 == processes.len() { 0 } else { u32::try_from(end - begin).unwrap() };
        let mut record = [0_u8; PROCESS_BYTES];
        put(&mut record, 0x00, &next.to_le_bytes());
        put(&mut record, 0x04, &u32::try_from(process.threads.len()).unwrap().to_le_bytes());
        put(&mut record, 0x10, &process.hard_faults.to_le_bytes());
        put(&mut record, 0x18, &process.cycles.to_le_bytes());
        put(&mut record, 0x20, &process.created.to_le_bytes());
        put(&mut record, 0x28, &process.user.to_le_bytes());
        put(&mut record, 0x30, &process.kernel.to_le_bytes());
        put(&mut record, 0x38, &u16::try_from(name.len()).unwrap().to_le_bytes());
        put(&mut record, 0x40, &(ADDRESS + name_at as u64).to_le_bytes());
        put(&mut record, 0x48, &process.base_priority.to_le_bytes());
        put(&mut record, 0x50, &process.pid.to_le_bytes());
        put(&mut record, 0x58, &process.parent.to_le_bytes());
        put(&mut record, 0x64, &process.session.to_le_bytes());
        put(&mut record, 0x80, &process.faults.to_le_bytes());
        bytes.extend_from_slice(&record);
        bytes.extend(process.threads.iter().flat_map(|thread| thread_bytes(process.pid, thread)));
        bytes.extend_from_slice(&name);
        // No padding behind the last name, so that every byte of the answer is needed.
        if next != 0 {
            bytes.resize(end, 0);
        }
    }
    bytes
}

fn thread_bytes(pid: u64, thread: &MadeThread) -> [u8; THREAD_BYTES] {
    let mut record = [0_u8; THREAD_BYTES];
    put(&mut record, 0x00, &thread.kernel.to_le_bytes());
    put(&mut record, 0x08, &thread.user.to_le_bytes());
    put(&mut record, 0x10, &thread.created.to_le_bytes());
    put(&mut record, 0x28, &pid.to_le_bytes());
    put(&mut record, 0x30, &thread.tid.to_le_bytes());
    put(&mut record, 0x38, &(thread.priority + 2).to_le_bytes());
    put(&mut record, 0x3c, &thread.priority.to_le_bytes());
    put(&mut record, 0x44, &thread.state.to_le_bytes());
    put(&mut record, 0x48, &thread.wait_reason.to_le_bytes());
    record
}
