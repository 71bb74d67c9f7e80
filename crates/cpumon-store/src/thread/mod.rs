//! A [`Writer`](crate::Writer) in a thread of its own, behind a bounded queue: receiving goes on while the disk is slow, full or
//! gone.

mod handle;
mod queue;
mod receipt;
mod status;
mod worker;

pub use self::handle::{WriterHandle, WriterThread};
pub use self::receipt::{Receipt, ReceiptRequest};
pub use self::status::{StoreState, StoreStatus};
