//! Compiles the BPF programs, and makes Rust of the structs that they share with this crate. In: `src/linux/bpf/*/*.bpf.c`. Out, in
//! `OUT_DIR`, for each probe: `NAME.bpf.o`, which the loader embeds, and `NAME.rs`, which lists the layouts for the macros of
//! `records/mod.rs`. Needs clang (14 or newer) and the C headers of the kernel's API.

use std::error::Error;

#[cfg(target_os = "linux")]
#[path = "build/probes.rs"]
mod probes;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/linux/bpf");
    #[cfg(target_os = "linux")]
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        probes::build()?;
    }
    Ok(())
}
