//! All hosts at a glance: their state, their newest interval and their last minute in short, and the last minutes of CPU use; the
//! same at a moment of the past ([`FleetBoard::at`]) and over a range ([`span()`]).

mod board;
mod busy;
mod glance;
mod health;
mod host;
mod minute;
mod order;
mod span;
mod spark;
mod state;

pub use board::{Fleet, FleetBoard, TopProcess, top};
pub use busy::busy_ratio;
pub use glance::{Busy, Glance, TOP};
pub use health::Oddity;
pub use host::FleetHost;
pub use minute::Minute;
pub use order::{FleetQuery, HostOrder};
pub use span::{FleetSpan, SpanHost, SpanOrder, SpanQuery, span};
pub use spark::{SPARK_STEP_NS, SparkLine, sparks};
pub use state::{BALANCED_RATIO, HostState, LATE_INTERVALS, LATE_NS, SILENT_INTERVALS, SILENT_NS, age_ns};
