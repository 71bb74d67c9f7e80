//! What the Windows kernel (ETW) says: payloads of events and ticks of its clock. Files (`.etl`) and live sessions have the same.

mod clock;
mod payload;

pub use clock::TickClock;
pub use payload::{Change, Damaged, Hook, KernelEvent, PACKED_SWITCH, Payload, Provider, hook_of};
