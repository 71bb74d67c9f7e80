//! Where intervals go: to the store's queue and to the hub, each at its place on the receiver's time line.

mod claims;
mod earlier;
mod sink;
mod store_handle;
mod time_line;

pub use sink::Sink;
pub use store_handle::{StoreHandle, hosts_of_store, past_of_store};
