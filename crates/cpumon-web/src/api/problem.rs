//! Errors as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error, RFC 9457.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the status says it all.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// What was wrong, and why.
    pub detail: String,
    /// What to do about it.
    #[serde(default)]
    pub how: String,
}
