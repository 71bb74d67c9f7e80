//! Compiles the BPF programs. In: `src/linux/bpf/*/*.bpf.c`. Out: one object file each in `OUT_DIR`, which the loaders
//! embed. Needs clang (14 or newer) and the C headers of the kernel's API.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Each probe: `src/linux/bpf/NAME/NAME.bpf.c`.
const PROBES: [&str; 2] = ["sched", "trace"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/linux/bpf");
    #[cfg(target_os = "linux")]
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let out = PathBuf::from(env::var("OUT_DIR")?);
        for probe in PROBES {
            compile(probe, &out.join(format!("{probe}.bpf.o")))?;
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn compile(probe: &str, object: &Path) -> Result<(), Box<dyn Error>> {
    let source = Path::new("src/linux/bpf").join(probe).join(format!("{probe}.bpf.c"));
    // v3: atomic operations that return the old value.
    let mut arguments = vec!["-Wall".to_owned(), "-Werror".to_owned(), "-mcpu=v3".to_owned()];
    arguments.extend(kernel_api_headers().map(|dir| format!("-I{}", dir.display())));
    let mut builder = libbpf_cargo::SkeletonBuilder::new();
    builder.source(&source).obj(object).clang_args(arguments);
    // All of clang's messages are in the error's chain of causes, on one line each.
    builder.build().map_err(|error| format!("cannot compile {}: {error:#}", source.display()).into())
}

/// Debian and Ubuntu keep `asm/` below a directory named after the machine, which clang leaves out for BPF.
#[cfg(target_os = "linux")]
fn kernel_api_headers() -> Option<PathBuf> {
    let machine = Command::new("gcc").arg("-dumpmachine").output().ok().filter(|out| out.status.success());
    let named = machine.and_then(|out| String::from_utf8(out.stdout).ok()).map(|name| name.trim().to_owned());
    let fallback = format!("{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default());
    let dir = Path::new("/usr/include").join(named.unwrap_or(fallback));
    fs::exists(dir.join("asm")).unwrap_or(false).then_some(dir)
}
