//! The kernel's type information (BTF), which the probes need: where it is, and why it is not there.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Below /sys.
const FILE: &str = "kernel/btf/vmlinux";

/// Why there is no type information, and what to do about it.
#[derive(Debug)]
pub(super) struct NoBtf {
    pub(super) finding: String,
    pub(super) help: &'static str,
}

/// The file with the kernel's type information, which can be read.
pub(super) fn find(sys_root: &Path) -> Result<PathBuf, NoBtf> {
    let path = sys_root.join(FILE);
    match File::open(&path).and_then(|mut file| file.read(&mut [0])) {
        Ok(1..) => Ok(path),
        Ok(_) => Err(NoBtf {
            finding: format!("{} is empty", path.display()),
            help: "a container hides it: mount the host's /sys there",
        }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(NoBtf {
            finding: format!("cannot read {}: {error}", path.display()),
            help: "it is open to every user of the host: ask who restricts it here",
        }),
        // Each kernel with sysfs has this directory.
        Err(_) if !sys_root.join("kernel").exists() => Err(NoBtf {
            finding: format!("{} is not mounted", sys_root.display()),
            help: "mount -t sysfs sysfs /sys, or give the container the host's /sys",
        }),
        Err(_) => Err(NoBtf {
            finding: format!("no {}", path.display()),
            help: "a kernel with CONFIG_DEBUG_INFO_BTF (5.8 or newer; every large distribution's has it)",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libbpf says "No such process" to all of these.
    #[test]
    fn each_reason_for_missing_type_information_has_its_own_remedy() {
        let root = tempfile::tempdir().unwrap();
        let why = || {
            let NoBtf { finding, help } = find(root.path()).unwrap_err();
            format!("{finding}: {help}").replace(&root.path().display().to_string(), "/sys")
        };
        let found = why();
        assert!(found.starts_with("/sys is not mounted: mount -t sysfs sysfs /sys, or give"), "{found}");
        std::fs::create_dir(root.path().join("kernel")).unwrap();
        let found = why();
        assert!(
            found.starts_with("no /sys/kernel/btf/vmlinux: a kernel with CONFIG_DEBUG_INFO_BTF"),
            "{found}"
        );
        std::fs::create_dir(root.path().join("kernel/btf")).unwrap();
        let file = root.path().join(FILE);
        std::fs::write(&file, "").unwrap();
        let found = why();
        assert!(found.starts_with("/sys/kernel/btf/vmlinux is empty: a container hides it"), "{found}");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(find(root.path()).unwrap(), file);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let found = why();
        assert!(found.starts_with("cannot read /sys/kernel/btf/vmlinux: "), "{found}");
    }
}
