//! The task iterator's loader. In: tasks.bpf.c, compiled. Out: one [`TaskRecord`] for each thread of the host. Why: one
//! pass over all threads inside the kernel costs a twentieth of reading a file for each.

use std::io::{ErrorKind, Read};

use libbpf_rs::{Iter, Link, Object};

use super::load::{self, Embedded};
use super::records::{TaskRecord, records_in};
use crate::CollectError;

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/tasks.bpf.o")));

/// Bytes asked for in one read. The kernel hands out at most what fits its own buffer of 8 pages (`bpf_seq_read`), so
/// more than that brings no fewer reads.
const READ_BYTES: usize = 64 << 10;

/// A loaded iterator.
pub(crate) struct TaskIterator {
    link: Link,
    buffer: Box<[u8]>,
    /// Keeps the program loaded.
    _object: Object,
}

impl TaskIterator {
    /// Loads it. Nothing runs until [`TaskIterator::read`].
    pub(crate) fn open() -> Result<Self, CollectError> {
        let object = load::load("tasks", load::open("tasks", &OBJECT.0)?)?;
        let link = load::attach("tasks", &object)?.pop();
        let link = link.ok_or_else(|| CollectError::BpfUnavailable {
            reason: "the probe `tasks` holds no program".to_owned(),
        })?;
        Ok(Self { link, buffer: vec![0; READ_BYTES].into(), _object: object })
    }

    /// Replaces `into` by a record for each live thread, in the kernel's order (ascending by tid).
    /// Returns how many bytes made no whole record.
    pub(crate) fn read(&mut self, into: &mut Vec<TaskRecord>) -> Result<usize, CollectError> {
        let failed = |operation| move |error| CollectError::Bpf { operation, error };
        let mut iterator = Iter::new(&self.link)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(failed("start the task iterator"))?;
        into.clear();
        let mut odd_bytes = 0;
        loop {
            match iterator.read(&mut self.buffer) {
                Ok(0) => return Ok(odd_bytes),
                Ok(bytes) => {
                    let (records, odd) =
                        records_in::<TaskRecord>(self.buffer.get(..bytes).unwrap_or_default());
                    into.extend(records);
                    odd_bytes += odd;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read the task iterator")(error)),
            }
        }
    }
}
