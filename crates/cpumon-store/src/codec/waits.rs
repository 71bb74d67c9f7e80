//! What a task of a sum was blocked by: pairs of a reason's code and its time in µs, ascending by code, to the end of the bytes.
//! Layout: docs/store.md, "Wait reasons of sums".

use cpumon_model::{WaitReason, Waits};

use super::varint::{self, Cursor, Malformed};

/// The bytes of a sum; none where it was never blocked.
pub(crate) fn to_bytes(waits: &Waits) -> Vec<u8> {
    let mut reasons: Vec<_> = waits.iter().map(|(reason, ns)| (reason.code(), ns / 1_000)).collect();
    reasons.sort_unstable();
    let mut out = Vec::new();
    for (code, us) in reasons {
        varint::write(&mut out, code);
        varint::write(&mut out, us);
    }
    out
}

/// Reads what [`to_bytes`] wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<Waits, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let mut waits = Waits::default();
    while cursor.remaining() > 0 {
        let reason = WaitReason::from_code(cursor.u64()?);
        waits.add(reason, cursor.u64()?.saturating_mul(1_000));
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_come_back(times in prop::collection::btree_map(1_u64..500, 1..u64::from(u32::MAX), 0..6)) {
            let waits: Waits = times.into_iter().map(|(code, us)| (WaitReason::from_code(code), us * 1_000)).collect();
            prop_assert_eq!(read(&to_bytes(&waits)).unwrap(), waits);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(&bytes);
        }
    }
}
