//! What a recorded store takes on disk, fresh and sealed: `cargo run --release -p cpumon-store --example store_size -- FILE`.
//! In: a store that nobody writes. Out: one line of JSON with rows and bytes before and after sealing *the file itself*,
//! so give it a copy. Why: bytes per row are quoted from real recorded data, not from made-up numbers.

use cpumon_store::{Reader, StoreOptions, Writer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("say which store to measure (it is sealed in place)")?;
    let path = std::path::PathBuf::from(path);
    let fresh = Reader::open(&path)?.statistics()?;
    let mut writer = Writer::open(&path, &StoreOptions::default())?;
    writer.seal_all()?;
    drop(writer);
    let sealed = Reader::open(&path)?.statistics()?;
    println!(
        "{{\"intervals\":{},\"thread_rows\":{},\"fresh_bytes\":{},\"sealed_bytes\":{}}}",
        sealed.sealed_intervals,
        sealed.sealed_thread_rows,
        fresh.file_bytes - fresh.free_bytes,
        sealed.file_bytes - sealed.free_bytes,
    );
    Ok(())
}
