//! JSON documents on standard output.

use std::io::Write;

use anyhow::Context;

/// Writes a value, indented.
pub fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{text}").context("cannot write JSON")
}
