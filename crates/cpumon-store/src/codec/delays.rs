//! A run-delay histogram as bytes. Most of its 256 buckets are empty, and those that are not are close together. Layout:
//! docs/store.md, "Run-delay histograms".

use cpumon_model::DelayHistogram;

use super::varint::{self, Cursor, Malformed};

/// Appends a histogram to `out`.
pub(crate) fn write(out: &mut Vec<u8>, histogram: &DelayHistogram) {
    varint::write(out, histogram.iter().count() as u64);
    let mut before = 0;
    for (bucket, count) in histogram.iter() {
        // Buckets come in ascending order, so this is not negative.
        varint::write(out, u64::from(bucket - before));
        varint::write(out, count);
        before = bucket;
    }
}

/// Reads what [`write`] wrote.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<DelayHistogram, Malformed> {
    let mut histogram = DelayHistogram::default();
    let mut bucket = 0_u8;
    for _ in 0..cursor.count(2)? {
        let step: u8 = cursor.narrow()?;
        bucket = bucket.checked_add(step).ok_or_else(|| cursor.malformed("bucket out of range"))?;
        histogram.add(bucket, cursor.u64()?);
    }
    Ok(histogram)
}

/// Steps over what [`read`] reads.
pub(crate) fn pass(cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    let buckets = cursor.count(2)?;
    cursor.skip(2 * buckets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_comes_back(counts in prop::collection::btree_map(any::<u8>(), 1..u64::MAX, 0..40)) {
            let histogram: DelayHistogram = counts.into_iter().collect();
            let mut bytes = Vec::new();
            write(&mut bytes, &histogram);
            prop_assert_eq!(read(&mut Cursor::new(&bytes)).unwrap(), histogram);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&mut Cursor::new(&bytes));
        }
    }
}
