//! The receiver's side of discovery: devices and browsers on the subnet find it by DNS-SD. Format and rules: docs/discovery.md.

mod responder;
#[cfg(test)]
mod tests;

pub use responder::{Responder, ResponderStats};
