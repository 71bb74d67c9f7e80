//! A control group of an interval as JSON.

use cpumon_model::{CgroupInterval, CpuLimit, Pressure, Throttle};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fields::is_default;

/// A control group that has a CPU limit on its path, or that waited for a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Cgroup {
    /// Number of the group since its agent started; 0 from the store.
    #[serde(skip_serializing_if = "is_default")]
    pub id: u64,
    /// Its path. Hostile, as every name.
    pub path: String,
    /// The tightest limit on its path, millionths of a CPU; missing without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_millionths: Option<u64>,
    /// It is known that there is no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub is_unlimited: bool,
    /// So many bytes of the path name the group that has the limit: rows with the same one have its counters.
    #[serde(skip_serializing_if = "is_default")]
    pub limiter_bytes: u16,
    /// How often the limit was reached; missing where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
    /// Time in which its tasks waited for a CPU; missing where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
}

impl From<&CgroupInterval> for Cgroup {
    fn from(row: &CgroupInterval) -> Self {
        let limit_millionths = if let CpuLimit::Millionths(parts) = row.limit { Some(parts) } else { None };
        Self {
            id: row.id,
            path: row.path.to_string(),
            limit_millionths,
            is_unlimited: row.limit == CpuLimit::Unlimited,
            limiter_bytes: row.limiter_bytes,
            throttle: row.throttle,
            pressure: row.pressure,
        }
    }
}

impl From<&Cgroup> for CgroupInterval {
    fn from(row: &Cgroup) -> Self {
        let none = if row.is_unlimited { CpuLimit::Unlimited } else { CpuLimit::Unknown };
        Self {
            id: row.id,
            path: row.path.as_str().into(),
            limit: row.limit_millionths.map_or(none, CpuLimit::Millionths),
            limiter_bytes: row.limiter_bytes,
            throttle: row.throttle,
            pressure: row.pressure,
        }
    }
}
