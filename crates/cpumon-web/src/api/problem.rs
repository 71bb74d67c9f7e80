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
    /// The error of a question for programs: its kind and its figures. Absent: another error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub error: Option<serde_json::Value>,
}
