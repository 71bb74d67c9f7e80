//! What the agent costs.
fn main() {}
