//! Loads and attaches a compiled probe, or reports which step failed, with which errno, and what to grant.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Once;

use libbpf_rs::{ErrorKind, Map, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::CollectError;

/// An object file, aligned as an ELF reader likes it.
#[repr(C, align(8))]
pub(crate) struct Embedded<Bytes: ?Sized>(pub(crate) Bytes);

/// Reads a probe. Without the kernel's type information none loads, and libbpf says "No such process" then.
pub(crate) fn open(probe: &'static str, object: &[u8]) -> Result<OpenObject, CollectError> {
    if let Err(NoBtf { finding, help }) = find_btf(Path::new("/sys")) {
        return Err(CollectError::BpfUnavailable { reason: format!("{finding}; for BPF: {help}") });
    }
    route_messages();
    ObjectBuilder::default()
        .name(probe)
        .and_then(|builder| builder.open_memory(object))
        .map_err(|error| refused(probe, "read the probe", &error))
}

/// Hands a probe to the kernel, which verifies it.
pub(crate) fn load(probe: &'static str, object: OpenObject) -> Result<Object, CollectError> {
    object.load().map_err(|error| refused(probe, "load the probe", &error))
}

/// Loads with the program that fits the kernel's event of a switch: before Linux 5.18 that has one argument less, and the verifier refuses
/// to read it.
pub(crate) fn with_switch(
    load: impl Fn(&str) -> Result<Object, CollectError>,
) -> Result<Object, CollectError> {
    // If both fail the first refusal is shown: the second form fails on every newer kernel.
    load("on_switch_4").or_else(|refused| load("on_switch_3").map_err(|_| refused))
}

pub(crate) fn find_map<'o>(object: &'o Object, probe: &str, name: &str) -> Result<Map<'o>, CollectError> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| CollectError::BpfUnavailable {
        reason: format!("the probe `{probe}` holds no map `{name}`"),
    })
}

/// Why the source cannot run: step, probe, the kernel's error, the remedy.
pub(crate) fn refused(probe: &str, step: &str, error: &libbpf_rs::Error) -> CollectError {
    let help = match error.kind() {
        ErrorKind::PermissionDenied => {
            "; without root, grant it: setcap cap_bpf,cap_perfmon+ep PROGRAM, or in a systemd unit \
             AmbientCapabilities=CAP_BPF CAP_PERFMON"
        }
        ErrorKind::NotFound => "; the kernel misses what the probe needs (5.8 or newer with BTF has it)",
        _ => "",
    };
    // The alternate form holds the chain of causes on one line.
    let reason = format!("cannot {step} `{probe}`: {error:#}{help}");
    CollectError::BpfUnavailable { reason }
}

/// libbpf prints to stderr by default; its messages go to the log instead.
pub(crate) fn route_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| log::debug!("libbpf: {}", text.trim_end()))));
    });
}

// The kernel's type information (BTF), which the probes need: where it is, and why it is not there.

/// Path below /sys.
const FILE: &str = "kernel/btf/vmlinux";

/// Why there is no type information, and the remedy.
#[derive(Debug)]
pub(crate) struct NoBtf {
    pub(crate) finding: String,
    pub(crate) help: &'static str,
}

/// The file with the kernel's type information, which can be read.
pub(crate) fn find_btf(sys_root: &Path) -> Result<PathBuf, NoBtf> {
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
            let NoBtf { finding, help } = find_btf(root.path()).unwrap_err();
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
        assert_eq!(find_btf(root.path()).unwrap(), file);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let found = why();
        assert!(found.starts_with("cannot read /sys/kernel/btf/vmlinux: "), "{found}");
    }
}
