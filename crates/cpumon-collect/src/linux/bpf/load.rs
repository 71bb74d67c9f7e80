//! Loads and attaches a compiled probe, or says which step failed, with what errno, and what to grant.

use std::path::Path;
use std::sync::Once;

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel};

use super::super::btf::{self, NoBtf};
use crate::CollectError;

/// An object file, aligned as an ELF reader likes it.
#[repr(C, align(8))]
pub(crate) struct Embedded<Bytes: ?Sized>(pub(crate) Bytes);

/// Reads a probe. Without the kernel's type information none loads, and libbpf says "No such process" then.
pub(crate) fn open(probe: &'static str, object: &[u8]) -> Result<OpenObject, CollectError> {
    if let Err(NoBtf { finding, help }) = btf::find(Path::new("/sys")) {
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

/// Why the source cannot run: step, probe, the kernel's error, what would help.
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
