//! Lists of the threads that waited at the end of an interval. Layout: docs/store.md, "Lists of threads that wait".

use cpumon_model::{TaskState, WaitReason};

use super::varint::{self, Cursor, Malformed, write_section};
use super::zip::{unzip, zip};
use super::{place_code, place_of};

/// First byte of a list.
const FORMAT: u8 = 1;

/// A thread of a list.
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
pub(crate) fn encode(list: &[ListedThread], level: i32) -> std::io::Result<Vec<u8>> {
    let [mut processes, mut ids, mut reasons, mut places] = [const { Vec::new() }; 4];
    let (mut process_id, mut id) = (0_u64, 0_u64);
    for one in list {
        varint::write(&mut processes, one.process_id.wrapping_sub(process_id));
        varint::write_signed(&mut ids, one.id.wrapping_sub(id).cast_signed());
        varint::write(&mut reasons, one.reason.code());
        varint::write(&mut places, place_code(one.last_cpu, TaskState(one.state)));
        (process_id, id) = (one.process_id, one.id);
    }
    let mut plain = vec![FORMAT];
    varint::write(&mut plain, list.len() as u64);
    for section in [&processes, &ids, &reasons, &places] {
        write_section(&mut plain, section);
    }
    zip(&plain, level)
}

/// Unpacks what [`encode`] packed.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<ListedThread>, Malformed> {
    let mut plain = Vec::new();
    unzip(bytes, &mut plain)?;
    let mut cursor = Cursor::new(&plain);
    if cursor.u8()? != FORMAT {
        return Err(cursor.malformed("unknown format"));
    }
    // Each thread has at least a byte in each column, so damage cannot make the list longer than its bytes.
    let count = cursor.count(4)?;
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_thread() -> impl Strategy<Value = ListedThread> {
        let reason = prop_oneof![1_u16..8, 0x1000_u16..0x3001].prop_map(WaitReason);
        (any::<u64>(), any::<u64>(), reason, any::<u16>(), any::<u8>()).prop_map(
            |(process_id, id, reason, last_cpu, state)| ListedThread {
                process_id,
                id,
                reason,
                last_cpu,
                state,
            },
        )
    }

    proptest! {
        #[test]
        fn a_list_comes_back(mut list in proptest::collection::vec(any_thread(), 0..60)) {
            list.sort_unstable();
            prop_assert_eq!(decode(&encode(&list, 3).unwrap()).unwrap(), list);
        }

        #[test]
        fn damage_is_an_error_or_a_short_list(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let block = zip(&bytes, 3).unwrap();
            prop_assert!(decode(&block).map_or(0, |list| list.len()) <= bytes.len());
        }
    }
}
