//! Columns as people see them: headings, formats and help of the table of tasks and the table of hosts.
//!
//! The terminal and the page show rates and shares of what [`COLUMNS`](crate::COLUMNS) holds as counts and times, under
//! headings that fit a screen. Each row here names the stored column that it is computed from, so that its help text and what a
//! source must measure for it are written once. The page reads `web/src/feed/columns.generated.ts`, which
//! `cargo xtask generate-columns` writes from these tables.

use bitflags::bitflags;

use crate::{Column, ColumnId, Fields};

bitflags! {
    /// The frontends that show a column.
    #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Frontends: u8 {
        /// The terminal: `cpumon top` and its batch mode.
        const TERMINAL = 1;
        /// The web page, by way of the generated TypeScript.
        const PAGE = 1 << 1;
    }
}

/// How a frontend formats a value.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A time, as a percentage of the interval; 100 = one CPU, or all CPUs where the user chose so.
    Share,
    /// A time in a state: of a process or group the threads that were in it on average, of a thread a percentage of the interval.
    Threads,
    /// A count, divided by the length of the interval.
    PerSecond,
    /// A time with a unit that fits: `3.4 ms`.
    Duration,
    /// The number unchanged, without a unit.
    Number,
    /// A text, escaped before it is shown.
    Text,
}

impl Format {
    /// The name in the generated TypeScript.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Threads => "threads",
            Self::PerSecond => "per_s",
            Self::Duration => "ns",
            Self::Number => "plain",
            Self::Text => "text",
        }
    }

    /// Sentence that says how the value of a stored column is shown; empty where it is shown as it is stored.
    const fn help(self) -> &'static str {
        match self {
            Self::Share => " Shown as a percentage of the interval.",
            Self::Threads => {
                " Shown as the number of threads in that state on average; of a single thread as a percentage of the interval."
            }
            Self::PerSecond => " Shown per second.",
            Self::Duration | Self::Number | Self::Text => "",
        }
    }
}

/// The edge of its column at which a value is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Align {
    /// Texts, so that their beginnings line up.
    Left,
    /// Numbers, so that their digits line up.
    Right,
}

/// A column in the page's grid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Width, px.
    pub width_px: u16,
    /// Where space is short, columns with a smaller number come first.
    pub rank: u8,
    /// Not shown unless the user chose it.
    pub is_seldom: bool,
}

/// One column of a table on the page or in a terminal.
#[derive(Copy, Clone, Debug)]
pub struct ScreenColumn {
    /// Stable name, in addresses of the page and in settings.
    pub id: &'static str,
    /// The stored column that it is computed from; `None` where a frontend makes the value itself.
    pub source: Option<ColumnId>,
    /// Heading on the page.
    pub title: &'static str,
    /// Heading in a terminal.
    pub short: &'static str,
    /// Format of the values.
    pub format: Format,
    /// Edge at which the values are aligned.
    pub align: Align,
    /// Frontends that show the column.
    pub frontends: Frontends,
    /// Layout in the page's grid of processes and threads; `None` in other tables.
    pub page: Option<PageLayout>,
    /// Its own help text; empty where that of `source` says it all. [`ScreenColumn::help`] gives the text to show.
    own_help: &'static str,
}

impl ScreenColumn {
    /// The stored column that `source` names; `None` if there is no `source`.
    pub fn stored(&self) -> Option<&'static Column> {
        self.source.map(ColumnId::column)
    }

    /// The counters a source must measure for the column to have data.
    pub fn needs(&self) -> Fields {
        self.stored().map_or(Fields::empty(), |column| column.needs)
    }

    /// Meaning, in one or two sentences.
    pub fn help(&self) -> String {
        match self.stored() {
            Some(column) if self.own_help.is_empty() => [column.help, self.format.help()].concat(),
            _ => self.own_help.to_owned(),
        }
    }
}

macro_rules! screen_columns {
    ($($id:literal $source:ident $title:literal $short:literal $format:ident $align:ident [$($frontend:ident)|+] $({$($layout:tt)+})? $help:literal;)+) => {
        &[$(ScreenColumn {
            id: $id,
            source: screen_columns!(@source $source),
            title: $title,
            short: $short,
            format: Format::$format,
            align: Align::$align,
            frontends: Frontends::empty()$(.union(Frontends::$frontend))+,
            page: screen_columns!(@page $($($layout)+)?),
            own_help: $help,
        },)+]
    };
    (@source NONE) => { None };
    (@source $source:ident) => { Some(ColumnId::$source) };
    (@page) => { None };
    (@page $width_px:literal $rank:literal) => { screen_columns!(@page $width_px $rank false) };
    (@page $width_px:literal $rank:literal seldom) => { screen_columns!(@page $width_px $rank true) };
    (@page $width_px:literal $rank:literal $is_seldom:literal) => {
        Some(PageLayout { width_px: $width_px, rank: $rank, is_seldom: $is_seldom })
    };
}

/// Columns of processes and threads, in the order in which the page lists them; in braces its layout there: width in px, rank.
pub const TASK_COLUMNS: &[ScreenColumn] = screen_columns! {
    "name" Name "Name" "NAME" Text Left [TERMINAL|PAGE] {200 0} "";
    "process" ProcessName "Process" "" Text Left [PAGE] {140 2 seldom} "";
    "owner" Pid "PID" "PID" Number Right [TERMINAL] "Process id of the process that a thread belongs to.";
    "pid" Pid "PID" "PID" Number Right [TERMINAL|PAGE] {70 4} "Process id; thread id of a thread; number of processes of a group.";
    "cpu" RunNs "%CPU" "%CPU" Share Right [TERMINAL|PAGE] {78 1} "Time on a CPU. %CPU: 100 = one CPU. %host: 100 = all CPUs.";
    "user" UserNs "user" "%USR" Share Right [TERMINAL|PAGE] {58 9} "Run time in user mode, in the unit of utilization.";
    "system" SystemNs "system" "%SYS" Share Right [TERMINAL|PAGE] {62 10} "Run time in kernel mode, in the unit of utilization.";
    "ready" RunDelayNs "ready" "RDY" Threads Right [TERMINAL|PAGE] {66 3} "";
    "blocked" BlockedNs "blocked" "BLK" Threads Right [TERMINAL|PAGE] {78 13} "Time neither running nor runnable within the interval. Shown as the number of threads in that state on average; of a single thread as a percentage of the interval.";
    "wait" WaitReason "waits for" "WAIT" Text Left [TERMINAL|PAGE] {150 11} "What it was blocked by most: a system call, by name or in words (futex: lock), disk, page fault, stopped, traced (debugger), kernel (work to do), exit, other. On the page with its share of the time of its threads, and ready where it waited longer for a CPU.";
    "longest" LongestRunDelayNs "max delay" "MAXDLY" Duration Right [TERMINAL|PAGE] {78 14} "";
    "p99" RunDelayP99Ns "p99 delay" "P99DLY" Duration Right [TERMINAL] "99 % of the run delays were no longer, to within an eighth; of a thread only if it was selected (--histogram-threads).";
    "limit" CpuLimit "CPU limit" "LIMIT" Number Right [TERMINAL|PAGE] {76 6} "CPUs that its control group may use: the tightest limit of the group and those above it. Empty without one.";
    "throttled" ThrottledNs "throttled" "%THROT" Share Right [TERMINAL|PAGE] {78 5} "Time in which the quota of that limit was used up, so that its tasks could not run, summed over CPUs as the kernel does. Shown as a percentage of the interval, in the unit of utilization. All tasks below a limit have the same value.";
    "csw" NONE "csw/s" "CSW/s" PerSecond Right [TERMINAL] "Context switches per second, voluntary and involuntary.";
    "vcsw" VoluntarySwitches "vcsw/s" "VCSW/s" PerSecond Right [TERMINAL|PAGE] {66 15} "";
    "icsw" InvoluntarySwitches "icsw/s" "ICSW/s" PerSecond Right [TERMINAL|PAGE] {66 16} "";
    "wakeups" Wakeups "wakes/s" "WAKE/s" PerSecond Right [PAGE] {70 20 seldom} "";
    "migrations" Migrations "migr/s" "MIGR/s" PerSecond Right [PAGE] {62 21 seldom} "";
    "minflt" MinorFaults "minflt/s" "MINF/s" PerSecond Right [TERMINAL|PAGE] {70 23 seldom} "";
    "majflt" MajorFaults "majflt/s" "MAJF/s" PerSecond Right [TERMINAL|PAGE] {70 24 seldom} "";
    "threads" ThreadRows "threads" "THR" Number Right [TERMINAL|PAGE] {64 8} "";
    "state" State "S" "S" Text Left [TERMINAL|PAGE] {26 17} "";
    "nice" Nice "nice" "NI" Number Right [TERMINAL|PAGE] {44 19 seldom} "";
    "last_cpu" LastCpu "CPU#" "CPU#" Number Right [TERMINAL|PAGE] {48 18 seldom} "";
    "uid" User "owner" "USER" Text Left [TERMINAL|PAGE] {80 12} "Real user, by name if known.";
    "seen" NONE "run time" "SEEN" Duration Right [TERMINAL] "Run time since it is on screen.";
    "container" Container "container" "CONTAINER" Text Left [TERMINAL|PAGE] {150 7} "";
    "marks" NONE "" "" Text Left [TERMINAL] "+ began, x ended, * both, ! something is odd: its details say what.";
    "cmdline" Cmdline "command line" "COMMAND" Text Left [TERMINAL|PAGE] {260 22 seldom} "";
};

/// Columns of the page's table of hosts.
pub const HOST_COLUMNS: &[ScreenColumn] = screen_columns! {
    "name" NONE "Host" "HOST" Text Left [PAGE] "Name of the machine.";
    "health" NONE "health" "HEALTH" Text Left [PAGE] "Empty of a healthy host. Else what is odd: no data arrives, intervals of the last minute lack lost data, their ledger is not balanced, the clock is wrong.";
    "busy" NONE "CPU %" "CPU" Share Right [PAGE] "Busy share of all CPUs: mean of the last minute; the line has the last two minutes. 100 = all CPUs of the host.";
    "peak" NONE "peak %" "PEAK" Share Right [PAGE] "Highest busy share of a single interval of the last minute. 100 = all CPUs of the host.";
    "ready" NONE "ready" "READY" Number Right [PAGE] "Threads ready, waiting for a CPU: how many on average over the last minute.";
    "queue" NONE "queue/CPU" "QUEUE" Number Right [PAGE] "Threads running or ready for each CPU, on average over the last minute. Above 1, threads wait.";
    "top" NONE "busiest process, %" "BUSIEST" Text Left [PAGE] "The process with the most run time in the newest interval. 100 = all CPUs of the host.";
    "threads" ThreadCount "threads" "THREADS" Number Right [PAGE] "Threads alive at the end of the newest interval.";
    "agent" Agent "agent" "AGENT" Text Left [PAGE] "Version of the agent, and the source that it measures with.";
    "seen" NONE "last data" "SEEN" Duration Right [PAGE] "Time since the newest interval arrived; of a host that does not report, when that was.";
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_in_each_table_and_every_column_has_a_help() {
        for table in [TASK_COLUMNS, HOST_COLUMNS] {
            let mut ids = HashSet::new();
            for column in table {
                assert!(ids.insert(column.id), "{} twice", column.id);
                assert!(column.help().ends_with('.'), "{}: {}", column.id, column.help());
            }
        }
    }

    #[test]
    fn columns_of_the_grid_of_the_page_have_a_layout_and_ranks_of_their_own() {
        let mut ranks = HashSet::new();
        for column in TASK_COLUMNS {
            assert_eq!(column.page.is_some(), column.frontends.contains(Frontends::PAGE), "{}", column.id);
            assert!(column.page.is_none_or(|page| ranks.insert(page.rank)), "{}", column.id);
        }
    }

    #[test]
    fn texts_are_aligned_left_and_shares_say_what_they_are_of() {
        for column in TASK_COLUMNS.iter().filter(|column| column.format == Format::Text) {
            assert_eq!(column.align, Align::Left, "{}", column.id);
        }
        let ready = TASK_COLUMNS.iter().find(|column| column.id == "ready").unwrap();
        assert_eq!(
            ready.help(),
            "Run delay: time runnable but waiting for a CPU within the interval. Shown as the number of threads in that state on average; of a single thread as a percentage of the interval."
        );
        assert_eq!(ready.needs(), Fields::RUN_DELAY);
    }
}
