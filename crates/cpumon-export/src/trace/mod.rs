//! Traces as files of other programs: rows of slices, and Perfetto.
//!
//! A trace is read twice: names may come after the events of a task, and both formats have them in front.

mod error;
mod perfetto;
mod protobuf;
mod slices;
mod survey;

pub use error::TraceExportError;
pub use perfetto::trace_perfetto;
pub use slices::{SLICE_COLUMNS, trace_slices};
pub use survey::TraceSurvey;
