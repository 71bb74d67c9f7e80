//! The slim agent.
fn main() {}
