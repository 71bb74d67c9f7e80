//! Who is let in: the receiver's identity and the certificates that it signs, tokens, enrolled hosts, and devices that ask the user.

mod authority;
pub(crate) mod consent;
mod error;
mod registry;
mod requests;
mod tokens;

pub use authority::Authority;
pub(crate) use authority::named_host;
pub use error::EnrollmentError;
pub use registry::{DEVICE_VALID_FOR, EnrolledHost, Registry};
pub use requests::{Decision, PendingRequest, REQUEST_WAITS, Requests};
pub use tokens::{BoundHost, TokenScope};
