//! How many events of each kind a file has: to compare the reading of buffers with what other programs count.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::decoder::Etl;
use crate::file::ReadError;
use crate::file::reader::Ending;

/// Counts events of the kernel by group and type (`0x0503`), and how many of those that cpumon decodes are sound.
pub fn etl_counts<R: Read + Seek>(from: R) -> Result<BTreeMap<u16, (u64, u64)>, ReadError> {
    let (mut etl, _) = Etl::open(from)?;
    let (mut counts, mut ending) = (BTreeMap::new(), Ending::default());
    for entry in etl.entries().to_vec() {
        let count = &mut |event: &super::event::Event<'_>| {
            let (all, decoded) = counts.entry(event.payload.hook).or_insert((0, 0));
            *all += 1;
            *decoded += u64::from(matches!(event.payload.read(), Ok(Some(_))));
        };
        let mut buffer = etl.load(&entry)?;
        while !etl.read(&mut buffer, &entry, count, &mut ending) {}
    }
    Ok(counts)
}
