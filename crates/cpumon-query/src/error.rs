//! Why a question has no answer. Frontends map each variant to an HTTP status or an exit code.

use cpumon_model::HostId;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No host has this name or id.
    #[error("this receiver knows no such host")]
    UnknownHost,
    /// Several hosts share a name.
    #[error("several hosts have this name: {}", list(ids))]
    AmbiguousHost {
        /// Their ids.
        ids: Vec<HostId>,
    },
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
