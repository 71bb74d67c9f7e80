//! Whether what is packed in a row can be decoded.

use cpumon_model::{Interval, Trust};
use rusqlite::types::Value;

use super::tables::Table;
use crate::codec::chunk::Chunk;
use crate::codec::meta::{END_WALL, TRUST, is_trust_code, trust_code};
use crate::codec::names::{ProcessName, ThreadName};
use crate::codec::sched::SchedRows;
use crate::codec::varint::Malformed;
use crate::codec::{PackedInterval, blob, cpus, names, process_list};

/// Reused buffers.
#[derive(Debug, Default)]
pub(super) struct Content {
    chunk: Chunk,
    packed: PackedInterval,
    sched: SchedRows,
    interval: Interval,
}

impl Content {
    /// Decodes all that is packed in a row.
    pub(super) fn check(&mut self, table: &Table, row: &[Value]) -> Result<(), Malformed> {
        let section = |name: &str| table.blob(row, name).unwrap_or_default();
        match table.name.as_str() {
            "chunk" => self.check_chunk(table, row),
            "interval" => {
                blob::decode(section("samples"), &mut self.packed)?;
                self.sched.read(section("sched"))?;
                cpus::decode(section("cpus"), &mut self.interval)
            }
            "thread_block" => names::decode::<ThreadName>(section("names")).map(|_| ()),
            "process_block" => names::decode::<ProcessName>(section("names")).map(|_| ()),
            "process_list" => process_list::decode(section("processes")).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// A row with the trust that its content has, if it has another one; [`Content::check`] has decoded it. By a wrong one the data of
    /// strangers would count as that of an enrolled host.
    pub(super) fn corrected(&self, table: &Table, row: &[Value]) -> Option<Vec<Value>> {
        let trust = table.integer(row, "trust")?;
        let right = match table.name.as_str() {
            "chunk" if self.chunk.metas.iter().any(|meta| meta[TRUST] == trust) => trust,
            "chunk" => self.chunk.metas.first()?[TRUST],
            "interval" if is_trust_code(trust) => trust,
            // Of a fresh interval nothing else says it: no one vouches for it.
            "interval" => trust_code(Some(Trust::Unauthenticated)),
            _ => trust,
        };
        (right != trust).then(|| table.with(row, "trust", Value::Integer(right)))
    }

    fn check_chunk(&mut self, table: &Table, row: &[Value]) -> Result<(), Malformed> {
        let section = |name: &str| table.blob(row, name).unwrap_or_default();
        let chunk = &mut self.chunk;
        chunk.read_meta(section("meta"))?;
        let ends = || chunk.metas.iter().map(|meta| meta[END_WALL]);
        let span = (table.integer(row, "first_end_wall_ns"), table.integer(row, "last_end_wall_ns"));
        if (ends().min(), ends().max()) != span || chunk.metas.is_empty() {
            return Err(Malformed { offset: 0, what: "times of other intervals" });
        }
        chunk.read_processes(section("processes"), &mut |_| Ok::<_, Malformed>(true))?;
        chunk.read_sched(section("sched"))?;
        chunk.read_threads(section("threads"))?;
        for at in 0..chunk.metas.len() {
            self.sched.read(chunk.sched(at))?;
            cpus::decode(chunk.cpus(at), &mut self.interval)?;
        }
        Ok(())
    }
}
