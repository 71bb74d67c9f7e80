//! Counts the kernel's events in an `.etl` by group and type, to compare them with what other programs count:
//! `cargo run -p cpumon-trace-import --example etl_counts -- FILE`.

use std::fs::File;
use std::io::{self, BufReader, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: etl_counts FILE")?;
    let counts = cpumon_trace_import::etl_counts(BufReader::new(File::open(path)?))?;
    let mut out = io::stdout().lock();
    writeln!(out, "group+type     events    decoded")?;
    for (hook, (all, decoded)) in counts {
        writeln!(out, "0x{hook:04x} {all:14} {decoded:10}")?;
    }
    Ok(())
}
