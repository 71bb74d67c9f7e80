//! JSON of answers where it is not that of their fields: what was read has a name, columns are an object.
#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde's serialize_with gives references"
)]

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use cpumon_model::HostId;
pub use cpumon_model::nanos::Nanos;
use cpumon_store::{Gap, Resolution, TraceRecord};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Names with values, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(Cow<'static, str>, T)>);

impl<T> Named<T> {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<N: Into<Cow<'static, str>>, T> FromIterator<(N, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(values: I) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// In the order in which they come.
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    all.push((name.into(), value));
                }
                Ok(Named(all))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: ToSchema> PartialSchema for Named<T> {
    fn schema() -> RefOr<Schema> {
        let values = AdditionalProperties::RefOr(T::schema());
        ObjectBuilder::new().additional_properties(Some(values)).into()
    }
}

impl<T: ToSchema> ToSchema for Named<T> {
    fn name() -> Cow<'static, str> {
        format!("RowOf{}", T::name()).into()
    }
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}

/// The holes in a host's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gaps {
    /// The host.
    pub host: HostId,
    /// Its name; hostile.
    pub name: Box<str>,
    /// Holes there are, 10,000 at most.
    pub total: usize,
    /// Those that were asked for.
    pub gaps: Vec<Gap>,
}

/// The traces of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StoredTraces)]
pub struct TraceList {
    /// The host.
    pub host: HostId,
    /// Its name; hostile.
    pub name: Box<str>,
    /// Traces there are, 10,000 at most.
    pub total: usize,
    /// Those that were asked for, the oldest first.
    pub traces: Vec<TraceRecord>,
}

/// A time in ms, for drawing.
pub fn to_ms(wall_ns: i64) -> f64 {
    // Microseconds are whole numbers below 2^53 until the year 2255.
    (wall_ns / 1000) as f64 / 1000.0
}

/// What was read.
pub(crate) mod resolution {
    use super::{Cow, Deserialize, Deserializer, Resolution, Serializer, resolution_name};

    pub(crate) fn serialize<S: Serializer>(
        of: &Option<Resolution>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(resolution_name(*of))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Resolution>, D::Error> {
        let name = <Cow<'_, str>>::deserialize(deserializer)?;
        Ok([Resolution::Minute, Resolution::Hour].into_iter().find(|one| one.name() == name))
    }
}

/// `interval`, `minute` or `hour`.
pub fn resolution_name(resolution: Option<Resolution>) -> &'static str {
    resolution.map_or("interval", Resolution::name)
}

/// Skips a value that the client knows from its question.
pub(crate) fn unread<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| None)
}
