//! JSON of answers where it is not that of their fields: nanoseconds since the UNIX epoch are text, because a browser's numbers end at
//! 2^53, or milliseconds, for drawing; columns are an object.
#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde's serialize_with gives references"
)]

use std::borrow::Cow;
use std::fmt;

use cpumon_store::{Gap, Resolution, TimeRange};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::keys::TaskKey;

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
            .description(Some("Nanoseconds since the UNIX epoch, as text: a browser's numbers end at 2^53."))
            .into()
    }
}

impl ToSchema for Nanos {
    fn name() -> Cow<'static, str> {
        "Nanos".into()
    }
}

/// Names with values, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(Cow<'static, str>, T)>);

impl<T> Named<T> {
    /// The value of this name.
    #[must_use]
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

/// A hole in a host's time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Gap)]
pub struct GapJson {
    /// Start, as intervals stand.
    pub begin_ns: Nanos,
    /// End.
    pub end_ns: Nanos,
    /// Start, for drawing.
    pub begin_ms: f64,
    /// End, for drawing.
    pub end_ms: f64,
    /// Intervals that are known to be missing; 0: not counted.
    pub intervals: u64,
    /// Why: `queue full`, `store full`, `not stored`, `damaged`; `restart`: another boot or agent start; `no data`.
    pub reason: String,
}

/// Answer of `/gaps`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Gaps {
    /// Holes there are, 10,000 at most.
    pub total: usize,
    /// Those that were asked for.
    pub gaps: Vec<GapJson>,
}

impl From<&Gap> for GapJson {
    fn from(gap: &Gap) -> Self {
        Self {
            begin_ns: Nanos(gap.begin_wall_ns),
            end_ns: Nanos(gap.end_wall_ns),
            begin_ms: to_ms(gap.begin_wall_ns),
            end_ms: to_ms(gap.end_wall_ns),
            intervals: gap.intervals,
            reason: gap.reason.clone(),
        }
    }
}

/// A time in ms, for drawing.
#[must_use]
pub fn to_ms(wall_ns: i64) -> f64 {
    // Microseconds are whole numbers below 2^53 until the year 2255.
    (wall_ns / 1000) as f64 / 1000.0
}

/// [`Nanos`] of a number.
pub(crate) mod nanos {
    use super::{Deserialize, Deserializer, Nanos, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        Nanos(*ns).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        Nanos::deserialize(deserializer).map(|ns| ns.0)
    }
}

/// A range of time.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Range {
    /// Start.
    since_ns: Nanos,
    /// End.
    until_ns: Nanos,
}

impl From<TimeRange> for Range {
    fn from(range: TimeRange) -> Self {
        Self { since_ns: Nanos(range.since_ns), until_ns: Nanos(range.until_ns) }
    }
}

impl From<Range> for TimeRange {
    fn from(range: Range) -> Self {
        Self { since_ns: range.since_ns.0, until_ns: range.until_ns.0 }
    }
}

/// [`Range`] of a range.
pub(crate) mod range {
    use super::{Deserialize, Deserializer, Range, Serialize, Serializer, TimeRange};

    pub(crate) fn serialize<S: Serializer>(range: &TimeRange, serializer: S) -> Result<S::Ok, S::Error> {
        Range::from(*range).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeRange, D::Error> {
        Range::deserialize(deserializer).map(TimeRange::from)
    }
}

/// Likewise, if there is one.
pub(crate) mod range_if_any {
    use super::{Deserialize, Deserializer, Range, Serialize, Serializer, TimeRange};

    pub(crate) fn serialize<S: Serializer>(
        range: &Option<TimeRange>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        range.map(Range::from).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TimeRange>, D::Error> {
        Ok(Option::<Range>::deserialize(deserializer)?.map(TimeRange::from))
    }
}

/// A time for drawing.
pub(crate) fn ms<S: Serializer>(ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    to_ms(*ns).serialize(serializer)
}

/// A time for drawing, if it is known.
pub(crate) fn ms_if_known<S: Serializer>(ns: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    ns.map(to_ms).serialize(serializer)
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
#[must_use]
pub fn resolution_name(resolution: Option<Resolution>) -> &'static str {
    resolution.map_or("interval", Resolution::name)
}

/// Holes.
pub(crate) fn gaps<S: Serializer>(all: &[Gap], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(GapJson::from))
}

impl Serialize for TaskKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
