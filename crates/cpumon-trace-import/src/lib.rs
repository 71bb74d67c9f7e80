//! Traces of other recorders, read as if they were our own: `perf.data`, `trace.dat`, Perfetto and `.etl`.
//!
//! # Overview
//! [`AnyTrace`] opens a trace of any format that is known, by its first bytes, cpumon's own among them. Each foreign format has a decoder,
//! which gives the events of its file with thread ids, out of order; `imported` sorts and numbers these events for any decoder.
//!
//! No size in a file is believed before it is checked: memory is bounded by [`cpumon_trace::limits`] and those of `imported`, `numbering` and
//! the decoders, not by what a file announces.

mod decoder;
mod etl;
mod imported;
mod numbering;
mod perf;
mod perfetto;
mod trace_dat;
mod tracepoints;

use std::io::{Read, Seek, SeekFrom};

use cpumon_model::packing_of;
use cpumon_sched::SchedEvent;
use cpumon_trace::{Ending, FileHeader, ReadError, TraceFacts, TraceReader, TraceSource};

use decoder::Decoder;
use etl::{Etl, MAGIC_BYTES, is_etl};
use imported::Imported;
use perf::{MAGICS, PerfData};
use perfetto::{Perfetto, is_perfetto};
use trace_dat::TraceDat;
use tracepoints::TRACING_DATA_MAGIC;

pub use decoder::UNKNOWN_TID;
#[doc(hidden)]
pub use etl::etl_counts;

/// A trace of our own recorder or of another.
pub struct AnyTrace<'t>(OpenedTrace<'t>);

enum OpenedTrace<'t> {
    Own(Box<TraceReader<Box<dyn Read + Send + 't>>>),
    Foreign(Box<Imported<'t>>),
}

impl<'t> AnyTrace<'t> {
    /// Reads the header of a trace; of another recorder's, all up to its first event.
    ///
    /// # Errors
    /// It cannot be read, has no format that is known or is packed as a whole, or lacks what reading it needs.
    pub fn open(mut from: impl Read + Seek + Send + 't) -> Result<Self, ReadError> {
        let mut magic = Vec::new();
        from.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        let file_bytes = from.seek(SeekFrom::End(0))?;
        from.seek(SeekFrom::Start(0))?;
        let (decoder, header) = if MAGICS.iter().any(|known| magic.starts_with(*known)) {
            boxed(PerfData::open(from)?)
        } else if is_etl(&magic) {
            boxed(Etl::open(from)?)
        } else if magic.starts_with(TRACING_DATA_MAGIC) {
            boxed(TraceDat::open(from)?)
        } else if is_perfetto(&magic) {
            boxed(Perfetto::open(from)?)
        } else if let Some((with, unpack)) = packing_of(&magic) {
            return Err(ReadError::Packed { with, unpack });
        } else {
            let from: Box<dyn Read + Send + 't> = Box::new(from);
            return Ok(Self(OpenedTrace::Own(Box::new(TraceReader::open(from)?))));
        };
        Ok(Self(OpenedTrace::Foreign(Box::new(Imported::new(decoder, header, file_bytes)?))))
    }
}

fn boxed<'t>((decoder, header): (impl Decoder + 't, FileHeader)) -> (Box<dyn Decoder + 't>, FileHeader) {
    (Box::new(decoder), header)
}

impl TraceSource for AnyTrace<'_> {
    fn facts(&self) -> &TraceFacts {
        match &self.0 {
            OpenedTrace::Own(trace) => trace.facts(),
            OpenedTrace::Foreign(trace) => &trace.facts,
        }
    }

    fn facts_mut(&mut self) -> &mut TraceFacts {
        match &mut self.0 {
            OpenedTrace::Own(trace) => trace.facts_mut(),
            OpenedTrace::Foreign(trace) => &mut trace.facts,
        }
    }

    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        match &mut self.0 {
            OpenedTrace::Own(trace) => trace.read(out),
            OpenedTrace::Foreign(trace) => trace.read(out),
        }
    }
}
