//! [`Col`]: the columns of the grid, and which column of the shared table each one shows.

use cpumon_model::ColumnId;

/// A column of the grid.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Col {
    /// Pid of a process, tid of a thread.
    Id,
    /// The process of a thread, where threads stand alone.
    Owner,
    /// User name where known for sure, else uid.
    User,
    /// State letter.
    State,
    /// Nice value.
    Nice,
    /// The CPU it last ran on.
    LastCpu,
    /// Utilization.
    Cpu,
    /// Its user part.
    User100,
    /// Its system part.
    System100,
    /// Run delay as a share of the interval.
    Ready,
    /// Longest single run delay.
    LongestDelay,
    /// 99 % of its run delays were no longer.
    DelayP99,
    /// Blocked time as a share of the interval.
    Blocked,
    /// What it was blocked by most.
    Wait,
    /// Switches a second, voluntary or not.
    Switches,
    /// Voluntary switches a second.
    Voluntary,
    /// Involuntary switches a second.
    Involuntary,
    /// Threads.
    Threads,
    /// Run time while on screen.
    Seen,
    /// Container or unit.
    Container,
    /// Life and oddity marks.
    Marks,
    /// Name or command line.
    Name,
}

impl Col {
    /// The column of the shared table that it shows, for its help text.
    pub(crate) fn id(self) -> Option<ColumnId> {
        Some(match self {
            Self::Id | Self::Owner => ColumnId::Pid,
            Self::User => ColumnId::Uid,
            Self::State => ColumnId::State,
            Self::Nice => ColumnId::Nice,
            Self::LastCpu => ColumnId::LastCpu,
            Self::Cpu => ColumnId::CpuPct,
            Self::User100 => ColumnId::UserNs,
            Self::System100 => ColumnId::SystemNs,
            Self::Ready => ColumnId::RunDelayNs,
            Self::LongestDelay => ColumnId::LongestRunDelayNs,
            Self::DelayP99 => ColumnId::RunDelayP99Ns,
            Self::Blocked => ColumnId::BlockedNs,
            Self::Wait => ColumnId::WaitReason,
            Self::Voluntary | Self::Switches => ColumnId::VoluntarySwitches,
            Self::Involuntary => ColumnId::InvoluntarySwitches,
            Self::Threads => ColumnId::ThreadRows,
            Self::Container => ColumnId::Container,
            Self::Name => ColumnId::Name,
            Self::Seen | Self::Marks => return None,
        })
    }
}
