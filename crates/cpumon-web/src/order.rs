//! [`HostOrder`]: the order of a list of hosts, as the API and the command line name it.

use cpumon_query::fleet;

/// How a list of hosts is ordered. Numbers: the largest first; texts: from A to Z. No data comes last, whichever way round.
#[derive(
    Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum HostOrder {
    /// By name, from A to Z
    #[default]
    Name,
    /// Busiest first
    Busy,
    /// By the name of the busiest process
    Top,
    /// Most threads first
    Threads,
    /// Most unattributed CPU time first
    Ledger,
    /// Most losses first
    Loss,
    /// Most wrong clocks first
    ClockOffset,
    /// By the agent's name and version
    Agent,
    /// Longest silent first
    LastSeen,
}

impl HostOrder {
    /// As it is written in a query; the command line has `-` for `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Busy => "busy",
            Self::Top => "top",
            Self::Threads => "threads",
            Self::Ledger => "ledger",
            Self::Loss => "loss",
            Self::ClockOffset => "clock_offset",
            Self::Agent => "agent",
            Self::LastSeen => "last_seen",
        }
    }
}

impl From<HostOrder> for fleet::HostOrder {
    fn from(order: HostOrder) -> Self {
        match order {
            HostOrder::Name => Self::Name,
            HostOrder::Busy => Self::Busy,
            HostOrder::Top => Self::Top,
            HostOrder::Threads => Self::Threads,
            HostOrder::Ledger => Self::Ledger,
            HostOrder::Loss => Self::Loss,
            HostOrder::ClockOffset => Self::ClockOffset,
            HostOrder::Agent => Self::Agent,
            HostOrder::LastSeen => Self::LastSeen,
        }
    }
}
