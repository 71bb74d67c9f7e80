//! Unreadable parts of a store. A walk continues behind them: one damaged chunk must not hide all that is good, and must not pass for time
//! in which there was no data either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cpumon_model::HostId;
#[cfg(feature = "json")]
use cpumon_model::nanos;

use crate::codec::varint::Malformed;
use crate::error::is_damage;

/// Holes that are listed; more are only counted.
const MAX_HOLES: usize = 10_000;

/// A part of a host's data that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct Damage {
    /// The host.
    pub host: HostId,
    /// End of the first interval in it, ns since the epoch on the host's time line.
    #[cfg_attr(
        feature = "json",
        serde(rename = "first_end_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub first_end_wall_ns: i64,
    /// End of the last one.
    #[cfg_attr(
        feature = "json",
        serde(rename = "last_end_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub last_end_wall_ns: i64,
    /// Intervals in it; `None`: not known.
    pub intervals: Option<u64>,
    /// What does not fit.
    pub detail: String,
}

/// What a reader could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct DamageReport {
    /// By host, in order of time.
    pub holes: Vec<Damage>,
    /// Holes that are not listed.
    pub more: u64,
    /// Tasks without a key and a name, because those cannot be read.
    pub nameless: u64,
    /// Run delays, waits and control groups of minutes and hours that cannot be read.
    pub sums: u64,
}

/// What several readers of one store could not read.
pub(crate) type SharedDamage = Arc<Mutex<DamageReport>>;

impl DamageReport {
    /// Whether everything could be read.
    pub fn is_empty(&self) -> bool {
        self.holes.is_empty() && self.more == 0 && self.nameless == 0 && self.sums == 0
    }

    /// The same with `limit` holes listed at most.
    #[must_use]
    pub fn first(mut self, limit: usize) -> Self {
        self.more = self.more.saturating_add(self.holes.len().saturating_sub(limit) as u64);
        self.holes.truncate(limit);
        self
    }

    /// Adds a hole.
    #[cfg(feature = "bundled")]
    pub(crate) fn add(&mut self, hole: Damage) {
        if self.holes.len() < MAX_HOLES {
            self.holes.push(hole);
        } else {
            self.more += 1;
        }
    }

    /// Adds what another reader of the same store could not read.
    pub fn merge(&mut self, other: Self) {
        self.more = self.more.max(other.more);
        self.nameless = self.nameless.max(other.nameless);
        self.sums = self.sums.max(other.sums);
        self.holes.extend(other.holes);
        let place = |hole: &Damage| (hole.host, hole.first_end_wall_ns, hole.last_end_wall_ns);
        self.holes.sort_by_key(place);
        self.holes.dedup_by_key(|hole| place(hole));
    }
}

/// Where a hole is: the same one is met by each query over it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HolePlace {
    pub(super) host: HostId,
    pub(super) end_wall_ns: i64,
    /// Id of the chunk; `None`: a fresh interval.
    pub(super) chunk: Option<i64>,
    pub(super) sequence: u64,
}

/// The holes that a reader met.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    holes: BTreeMap<HolePlace, Damage>,
    more: u64,
}

impl DamageLog {
    /// Remembers a hole, if the error is one; gives the error back if it is something else. `hole`: the end of its first interval, and how
    /// many there are.
    pub(super) fn note(
        &mut self,
        place: HolePlace,
        error: ReadError,
        hole: impl FnOnce() -> (i64, Option<u64>),
    ) -> Result<(), ReadError> {
        let detail = error.into_damage()?;
        if self.holes.contains_key(&place) {
            return Ok(());
        }
        if self.holes.len() >= MAX_HOLES {
            self.more += 1;
            return Ok(());
        }
        let (HolePlace { host, end_wall_ns: last_end_wall_ns, .. }, (first_end_wall_ns, intervals)) =
            (place, hole());
        let hole = Damage { host, first_end_wall_ns, last_end_wall_ns, intervals, detail };
        // Not a warning: each reader of the same store meets it, and reports it to who asked.
        log::debug!(
            "host {}: the interval or chunk that ends at {} cannot be read: {}",
            hole.host,
            hole.last_end_wall_ns,
            hole.detail
        );
        self.holes.insert(place, hole);
        Ok(())
    }

    /// Takes over what another one has.
    pub(super) fn merge(&mut self, other: Self) {
        self.more += other.more;
        for (place, hole) in other.holes {
            if self.holes.len() < MAX_HOLES {
                self.holes.insert(place, hole);
            } else {
                self.more += 1;
            }
        }
    }

    /// The holes of a host, in order of time.
    pub(super) fn of(&self, host: HostId) -> impl Iterator<Item = &Damage> {
        self.holes.values().filter(move |hole| hole.host == host)
    }

    pub(super) fn report(&self, nameless: u64, sums: u64) -> DamageReport {
        DamageReport { holes: self.holes.values().cloned().collect(), more: self.more, nameless, sums }
    }
}

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
            damage => Ok(damage.to_string()),
        }
    }

    /// Whether the row was not there.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Sql(rusqlite::Error::QueryReturnedNoRows))
    }
}
