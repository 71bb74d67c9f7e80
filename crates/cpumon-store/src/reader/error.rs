//! Errors of reading rows, before they get the store's path.

use crate::codec::varint::Malformed;
use crate::error::is_damage;

/// Why intervals could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// What was decoded cannot be right.
    #[error("{0}")]
    Inconsistent(&'static str),
}

impl ReadError {
    /// What does not fit, if it is the data that is wrong, and not that it cannot be read now.
    pub(super) fn into_damage(self) -> Result<String, Self> {
        match self {
            Self::Sql(error) if !is_damage(&error) => Err(Self::Sql(error)),
            Self::Sql(error) => Ok(error.to_string()),
            Self::Malformed(malformed) => Ok(malformed.to_string()),
            Self::Inconsistent(what) => Ok(what.to_owned()),
        }
    }

    /// Whether the row was not there.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Sql(rusqlite::Error::QueryReturnedNoRows))
    }
}
