//! All hosts at a glance: their state, their newest interval and their last minute in short, and the last minutes of CPU use; the
//! same at a moment of the past ([`FleetBoard::at`]) and over a range ([`span()`]).

mod board;
mod host;
mod order;
mod span;

pub use board::{Fleet, FleetBoard, Spark, TopProcess, sparks, top};
pub use host::{
    BALANCED_RATIO, Busy, FleetHost, Glance, HostState, LATE_INTERVALS, LATE_NS, Minute, Oddity,
    SILENT_INTERVALS, SILENT_NS, TOP, age_ns, busy_ratio,
};
pub(crate) use order::known_first;
pub use order::{FleetQuery, HostOrder};
pub use span::{FleetSpan, SpanHost, SpanOrder, SpanQuery, span};
