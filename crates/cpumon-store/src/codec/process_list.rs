//! Lists of the processes that were there at the end of an interval, idle ones too. Layout: docs/store.md, "Lists of processes".

use super::varint::{self, Cursor, Malformed, write_section};
use super::zip::{unzip, zip};

/// First byte of a list.
const FORMAT: u8 = 1;

/// A process of a list.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Row of `process`.
    pub(crate) id: u64,
    /// Its threads at that time.
    pub(crate) thread_rows: u32,
}

/// Packs processes, given in order of id.
pub(crate) fn encode(list: &[Listed], level: i32) -> std::io::Result<Vec<u8>> {
    let (mut ids, mut threads, mut before) = (Vec::new(), Vec::new(), 0);
    for one in list {
        varint::write(&mut ids, one.id.wrapping_sub(before));
        varint::write(&mut threads, one.thread_rows.into());
        before = one.id;
    }
    let mut plain = vec![FORMAT];
    varint::write(&mut plain, list.len() as u64);
    write_section(&mut plain, &ids);
    write_section(&mut plain, &threads);
    zip(&plain, level)
}

/// Unpacks what [`encode`] packed.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Listed>, Malformed> {
    let mut plain = Vec::new();
    unzip(bytes, &mut plain)?;
    let mut cursor = Cursor::new(&plain);
    if cursor.u8()? != FORMAT {
        return Err(cursor.malformed("unknown format"));
    }
    // Each process has at least a byte in both columns, so damage cannot make the list longer than its bytes.
    let count = cursor.count(2)?;
    let (mut ids, mut threads) = (cursor.section()?, cursor.section()?);
    let mut list = Vec::with_capacity(count);
    let mut id = 0_u64;
    for _ in 0..count {
        id = id.wrapping_add(ids.u64()?);
        list.push(Listed { id, thread_rows: threads.narrow()? });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_comes_back(rows in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..60)) {
            let mut list: Vec<Listed> =
                rows.into_iter().map(|(id, thread_rows)| Listed { id, thread_rows }).collect();
            list.sort_by_key(|one| one.id);
            prop_assert_eq!(decode(&encode(&list, 3).unwrap()).unwrap(), list);
        }

        #[test]
        fn damage_is_an_error_or_a_short_list(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let block = zip(&bytes, 3).unwrap();
            prop_assert!(decode(&block).map_or(0, |list| list.len()) <= bytes.len());
        }
    }
}
