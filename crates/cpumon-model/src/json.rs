//! JSON of types that `derive` cannot describe: ids and names are text, flags are lists of names, moments are text ([`nanos`]). What a newer
//! program adds is left out or unknown, as on the wire; nothing else is lost on the way there and back.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::{
    BootId, Comm, DelayHistogram, Fields, Flags, HostId, ParseIdError, Probes, SourceKind, Trust, Value,
    WaitReason, Waits,
};

/// Whether a value is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).description(Some(description))
}

fn whole() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer)).minimum(Some(0))
}

/// The schema of a type, under its own name.
macro_rules! schema {
    ($($type:ident: $schema:expr;)+) => { $(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }
        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                stringify!($type).into()
            }
        }
    )+ };
}

schema! {
    HostId: text("32 hexadecimal digits, stable over reboots.");
    BootId: text("32 hexadecimal digits; all zero if not reported.");
    SourceKind: text("Who measured: procfs, bpf, v1, …");
    Trust: text("`local`, `authenticated` (over TLS, from the device enrolled under this host), `sealed` (encrypted datagrams), \
        `unauthenticated` (plain datagrams: anyone could have sent them) or `imported`.");
    Comm: OneOfBuilder::new()
        .item(text("Hostile text: it may hold control characters."))
        .item(ArrayBuilder::new().items(whole()).description(Some("The bytes of a name that is not UTF-8.")));
    Fields: ArrayBuilder::new().items(text("A counter, e.g. USER or RUN_DELAY."));
    Flags: ArrayBuilder::new().items(text("An oddity, e.g. FIRST_SIGHT."));
    Probes: ArrayBuilder::new().items(text("A probe, e.g. SCHED."));
    DelayHistogram: ArrayBuilder::new()
        .items(ArrayBuilder::new().items(whole()).min_items(Some(2)).max_items(Some(2)))
        .description(Some("Bucket and count, ascending. Buckets are log-linear: 8 for each power of two."));
    WaitReason: whole().description(Some("Code of a reason; 0: none."));
    Waits: ArrayBuilder::new().items(Wait::schema());
}

impl PartialSchema for Value<'_> {
    fn schema() -> RefOr<Schema> {
        let types = [Type::Null, Type::Integer, Type::Number, Type::String];
        let text =
            "A value of a column (its kind and unit: /api/v1/columns). null: no data, which is not zero.";
        ObjectBuilder::new().schema_type(SchemaType::Array(types.into())).description(Some(text)).into()
    }
}

impl ToSchema for Value<'_> {
    fn name() -> Cow<'static, str> {
        "Cell".into()
    }
}

/// Writes a type as text, and parses that text.
macro_rules! as_text {
    ($($type:ident: $to:expr, $from:expr;)+) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let to: fn(&Self) -> _ = $to;
                serializer.serialize_str(to(self).as_ref())
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let from: fn(&str) -> Result<Self, ParseIdError> = $from;
                from(&Cow::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )+ };
}

as_text! {
    HostId: |id| id.to_string(), str::parse;
    BootId: |id| id.to_string(), str::parse;
    SourceKind: |kind| kind.name(), |name| Ok(SourceKind::from_name(name));
    Trust: |trust| trust.name(), |name| Ok(Trust::from_name(name));
}

/// A list of names. Unknown ones (a newer receiver) are left out.
macro_rules! as_names {
    ($($type:ident),+) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.iter_names().map(|(name, _)| name))
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let names = Vec::<Cow<'_, str>>::deserialize(deserializer)?;
                Ok(names.iter().filter_map(|name| Self::from_name(name)).collect())
            }
        }
    )+ };
}

as_names!(Fields, Flags, Probes);

impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A thread's name may have any bytes, a JSON string holds Unicode only.
        match std::str::from_utf8(self.as_bytes()) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for Comm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CommVisitor)
    }
}

struct CommVisitor;

impl<'de> Visitor<'de> for CommVisitor {
    type Value = Comm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or its bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Comm, E> {
        Ok(Comm::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Comm, A::Error> {
        let mut bytes = Vec::with_capacity(Comm::MAX_BYTES);
        while let Some(byte) = list.next_element::<u8>()? {
            if bytes.len() < Comm::MAX_BYTES {
                bytes.push(byte);
            }
        }
        Ok(Comm::new(&bytes))
    }
}

impl Serialize for DelayHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for DelayHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<(u8, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Serialize for WaitReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.code())
    }
}

impl<'de> Deserialize<'de> for WaitReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_code)
    }
}

/// Time blocked by one reason.
#[derive(Serialize, Deserialize, ToSchema)]
struct Wait<'a> {
    /// Name of the reason: a system call, `disk`, `page fault` and others.
    #[serde(default)]
    reason: Cow<'a, str>,
    /// The reason as a stable number.
    code: WaitReason,
    /// Time blocked by this reason, ns.
    ns: u64,
}

impl Serialize for Waits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(code, ns)| Wait { reason: code.name(), code, ns }))
    }
}

impl<'de> Deserialize<'de> for Waits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let waits = Vec::<Wait<'_>>::deserialize(deserializer)?;
        Ok(waits.iter().map(|wait| (wait.code, wait.ns)).collect())
    }
}

/// [`Nanos`](nanos::Nanos): nanoseconds in JSON. A browser's numbers end at 2^53, so moments are text there.
pub mod nanos {
    use super::{
        Cow, Deserialize, Deserializer, ObjectBuilder, PartialSchema, RefOr, Schema, Serialize, Serializer,
        ToSchema, Type, fmt,
    };
    use serde::de::Error as _;

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

    schema! {
        Nanos: ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^-?[0-9]+$"))
            .description(Some("Nanoseconds, as text: a browser's numbers end at 2^53. Of moments since the UNIX epoch, of starts in keys since boot."));
    }

    /// A number as [`Nanos`], for `serde(with = "cpumon_model::nanos")`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        Nanos(*ns).serialize(serializer)
    }

    /// Reads a number as `serialize` writes it.
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

        /// Reads a number as `serialize` writes it.
        ///
        /// # Errors
        /// It is neither null nor the text of a number.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
            Ok(Option::<Nanos>::deserialize(deserializer)?.map(|ns| ns.0))
        }
    }
}

#[cfg(test)]
mod tests;
