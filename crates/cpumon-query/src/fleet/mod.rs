//! All hosts at a glance: their state, their newest interval in short, and the last minutes of CPU use.

mod board;
mod glance;
mod order;
mod spark;
mod state;

pub use board::{Fleet, FleetBoard, TopProcess, top};
pub use glance::{Busy, Glance, TOP, busy_ratio};
pub use order::{FleetHost, FleetQuery, HostOrder};
pub use spark::{SPARK_STEP_NS, SparkLine, sparks};
pub use state::{BALANCED_RATIO, HostState, LATE_INTERVALS, LATE_NS, SILENT_INTERVALS, SILENT_NS, age_ns};
