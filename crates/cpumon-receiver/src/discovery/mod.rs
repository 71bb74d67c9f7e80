//! The receiver's side of discovery: signed answers to devices that search for a receiver. Layout and rules: docs/discovery.md.

mod server;
mod signer;
#[cfg(test)]
mod tests;

pub use server::{BeaconServer, BeaconStats};
pub use signer::BeaconSigner;
