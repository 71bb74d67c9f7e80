//! [`Col`]: the columns of the grid, and which row of the shared table describes each one.

use cpumon_model::{ScreenColumn, TASK_COLUMNS};

/// A column of the grid.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Col {
    /// Pid of a process, tid of a thread.
    Id,
    /// The process of a thread, where threads stand alone.
    Owner,
    /// User name where known for sure, else uid.
    User,
    State,
    Nice,
    /// The CPU it last ran on.
    LastCpu,
    /// Utilization.
    Cpu,
    User100,
    System100,
    /// Threads that were ready and waited for a CPU, on average; of a thread a share of the interval.
    Ready,
    /// Longest single run delay.
    LongestDelay,
    /// 99 % of its run delays were no longer.
    DelayP99,
    /// CPUs that its control group may use.
    Limit,
    /// Time in which that was used up.
    Throttled,
    /// Threads that were blocked on average; of a thread a share of the interval.
    Blocked,
    /// What it was blocked by most.
    Wait,
    /// Switches a second, voluntary or not.
    Switches,
    /// Voluntary switches a second.
    Voluntary,
    /// Involuntary switches a second.
    Involuntary,
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
    /// Its row in the shared table: title, alignment, needed counters, help.
    pub(crate) fn shared(self) -> &'static ScreenColumn {
        let id = self.shared_id();
        // A test checks that every column is in the table.
        TASK_COLUMNS.iter().find(|column| column.id == id).unwrap_or(&TASK_COLUMNS[0])
    }

    fn shared_id(self) -> &'static str {
        match self {
            Self::Id => "pid",
            Self::Owner => "owner",
            Self::User => "uid",
            Self::State => "state",
            Self::Nice => "nice",
            Self::LastCpu => "last_cpu",
            Self::Cpu => "cpu",
            Self::User100 => "user",
            Self::System100 => "system",
            Self::Ready => "ready",
            Self::LongestDelay => "longest",
            Self::DelayP99 => "p99",
            Self::Limit => "limit",
            Self::Throttled => "throttled",
            Self::Blocked => "blocked",
            Self::Wait => "wait",
            Self::Switches => "csw",
            Self::Voluntary => "vcsw",
            Self::Involuntary => "icsw",
            Self::Threads => "threads",
            Self::Seen => "seen",
            Self::Container => "container",
            Self::Marks => "marks",
            Self::Name => "name",
        }
    }
}
