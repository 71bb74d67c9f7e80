//! Puts the built page into the program. In: `web/dist`, which Vite makes (`make page`). Out: `page_files.rs`, a table of
//! its files, each as it is and as brotli. Why: one file to install, and nothing is compressed while serving.
//! Without `web/dist` the table is empty, and the program says how to build the page.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    // scripts/build-page.sh holds this lock while it builds the page, which takes less time than all that is compiled before this crate.
    if let Ok(lock) = fs::File::open(root.join("target/page.lock")) {
        lock.lock_shared()?;
    }
    let dist = root.join("web/dist");
    // Cargo watches a directory only if it is there; a source tree that cannot be written has no page to come.
    let _ = fs::create_dir_all(&dist);
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut paths = Vec::new();
    if dist.join("index.html").exists() {
        list(&dist, &mut paths)?;
    }
    paths.sort();
    let mut table = String::from("&[\n");
    for (number, path) in paths.iter().enumerate() {
        table += &entry(&dist, path, &out.join(format!("page_{number}.br")))?;
    }
    table += "]\n";
    fs::write(out.join("page_files.rs"), table)?;
    Ok(())
}

fn list(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), into)?;
        } else {
            into.push(entry.path());
        }
    }
    Ok(())
}

/// One line of the table; `packed_path` is where the brotli goes.
fn entry(dist: &Path, path: &Path, packed_path: &Path) -> Result<String, Box<dyn Error>> {
    let plain = fs::read(path)?;
    let mut packed = Vec::new();
    // Quality 11, window 2^22: slow to make, as quick as any to read.
    let mut writer = brotli::CompressorWriter::new(&mut packed, 1 << 16, 11, 22);
    writer.write_all(&plain)?;
    drop(writer);
    let name = path.strip_prefix(dist)?.to_str().ok_or("a file name of the page is not UTF-8")?;
    let mut tag = String::new();
    for byte in &Sha256::digest(&plain)[..12] {
        write!(tag, "{byte:02x}")?;
    }
    let is_smaller = packed.len() < plain.len();
    let brotli = if is_smaller {
        fs::write(packed_path, packed)?;
        format!("Some(include_bytes!({}))", literal(packed_path)?)
    } else {
        "None".to_owned()
    };
    let plain = literal(&path.canonicalize()?)?;
    Ok(format!(
        "File {{ path: {name:?}, tag: \"\\\"{tag}\\\"\", plain: include_bytes!({plain}), brotli: {brotli} }},\n"
    ))
}

/// A path as Rust source.
fn literal(path: &Path) -> Result<String, Box<dyn Error>> {
    Ok(format!("{:?}", path.to_str().ok_or("the path of the checkout is not UTF-8")?))
}
