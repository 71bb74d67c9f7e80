//! A [`Writer`](crate::Writer) in a thread of its own, behind a bounded queue: receiving goes on while the disk is slow, full or
//! gone.

mod boots;
mod handle;
mod queue;
mod receipt;
mod share;
mod status;
mod worker;

pub use self::handle::{WriterHandle, WriterThread};
pub use self::queue::Queued;
pub use self::receipt::{Receipt, ReceiptRequest};
pub use self::status::{StoreState, StoreStatus};
