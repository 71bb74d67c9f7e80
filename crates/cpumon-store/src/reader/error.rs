//! Errors of reading rows, before they get the store's path.

use crate::codec::varint::Malformed;

/// Why intervals could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}
