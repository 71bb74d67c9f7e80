//! [`Nanos`]: nanoseconds in JSON. A browser's numbers end at 2^53, so moments are text there.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Nanoseconds as text, because a browser's numbers end at 2^53.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i64);

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialSchema for Nanos {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^-?[0-9]+$"))
            .description(Some("Nanoseconds, as text: a browser's numbers end at 2^53. Of moments since the UNIX epoch, of starts in keys since boot."))
            .into()
    }
}

impl ToSchema for Nanos {
    fn name() -> Cow<'static, str> {
        "Nanos".into()
    }
}

/// A number as [`Nanos`], for `serde(with = "cpumon_model::nanos")`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    Nanos(*ns).serialize(serializer)
}

/// Likewise.
///
/// # Errors
/// It is no text, or none of a number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Nanos::deserialize(deserializer).map(|ns| ns.0)
}

/// A number that may be unknown, which is null.
pub mod if_known {
    use super::{Deserialize, Deserializer, Nanos, Serialize, Serializer};

    /// For `serde(with = "cpumon_model::nanos::if_known")`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(ns: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
        ns.map(Nanos).serialize(serializer)
    }

    /// Likewise.
    ///
    /// # Errors
    /// It is neither null nor the text of a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
        Ok(Option::<Nanos>::deserialize(deserializer)?.map(|ns| ns.0))
    }
}
