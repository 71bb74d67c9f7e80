//! Which processes there are, idle ones too: written once in a while, so that the rows of idle processes, which are not stored, can
//! be had for any moment. From a list to the next, rows of samples record who began and who ended.

use cpumon_model::{BootId, Fields, HostId, IdleProcess, Interval, Recent, Resting, ThreadInterval};
use rusqlite::{Connection, Result as Sql, params};

use super::merge_names::mark_seen;
use super::naming::{Naming, Seeded};
use super::pack::{has_all_threads, is_stored_thread, resting_of};
use crate::codec::lists::{ListedProcess, ListedThread, MAX_IDLE_THREADS, MAX_PROCESSES, pack};
use crate::error::unpackable;
use crate::names::{ProcessName, ThreadName};
use crate::rows::{BootKey, execute};
use crate::sums::PER_SECOND;

/// Intervals from one list to the next; reading a moment reads at most about so many.
pub(super) const EVERY: u32 = 200;
/// Longest time between two lists, ns, for long intervals.
pub(crate) const LONGEST_NS: i64 = 600 * PER_SECOND;
/// After a gap or a boot a list is due at once, because who ended in it is not known, as is one that corrects the last one; but not more
/// often than this: a sender can make all three.
const LEAST_NS: i64 = 10 * PER_SECOND;
/// Hosts in memory; those that are forgotten get a list with their next interval.
const MAX_HOSTS: usize = 8192;

#[derive(Copy, Clone, Debug)]
struct LastList {
    boot: BootId,
    listed_wall_ns: i64,
    end_wall_ns: i64,
    /// Intervals since the list.
    intervals: u32,
    /// A gap came since, or it had processes that had ended.
    is_outdated: bool,
}

/// When the next list of each host is due.
#[derive(Debug)]
pub(crate) struct ListSchedule {
    every: u32,
    hosts: Recent<HostId, LastList, Seeded>,
}

impl Default for ListSchedule {
    fn default() -> Self {
        Self::new(EVERY)
    }
}

impl ListSchedule {
    /// `every`: so many intervals from one list to the next.
    pub(crate) fn new(every: u32) -> Self {
        Self { every, hosts: Recent::new(MAX_HOSTS) }
    }

    /// Whether a list is due with this interval. It then counts as written, if it can be.
    pub(crate) fn is_due(&mut self, interval: &Interval, can_be: bool) -> bool {
        let (boot, begin_ns, end_ns) = (interval.boot, interval.begin.wall_ns, interval.end.wall_ns);
        let listed_at = |listed_wall_ns, end_wall_ns| LastList {
            boot,
            listed_wall_ns,
            end_wall_ns,
            intervals: 0,
            is_outdated: false,
        };
        let last = self.hosts.get_or_insert_with(interval.host, || listed_at(i64::MIN, begin_ns));
        // What comes late belongs between lists that were written.
        if last.boot == boot && end_ns <= last.end_wall_ns {
            return false;
        }
        let passed_ns = end_ns.saturating_sub(last.listed_wall_ns);
        last.is_outdated |= last.boot != boot || begin_ns > last.end_wall_ns || interval.corrects_lists;
        last.intervals = last.intervals.saturating_add(1);
        last.end_wall_ns = end_ns;
        let is_due = last.intervals >= self.every
            || passed_ns >= LONGEST_NS
            || (last.is_outdated && passed_ns >= LEAST_NS);
        if is_due && can_be {
            *last = listed_at(end_ns, end_ns);
        }
        is_due && can_be
    }

    /// After a rollback: lists that were written in it are gone.
    pub(crate) fn forget(&mut self) {
        self.hosts.clear();
    }
}

/// Whether every process that is there is known: idle rows may have been left out, or did not fit.
pub(crate) fn has_all(interval: &Interval) -> bool {
    let idle = interval.idle_processes.as_deref().map_or(0, <[_]>::len);
    interval.knows_all_processes() && interval.processes.len() + idle <= MAX_PROCESSES
}

/// Whether all threads that wait are known, or no one measures what threads wait for.
pub(crate) fn knows_resting(interval: &Interval) -> bool {
    !interval.fields.contains(Fields::SCHED | Fields::WAITS)
        || interval.resting.is_some()
        || has_all_threads(interval)
}

/// Packs which threads wait for what; `None`: not known. `naming` knows the rows of their processes.
fn pack_resting(naming: &mut Naming<'_>, interval: &Interval, level: i32) -> Sql<Option<Vec<u8>>> {
    let Some(idle) = resting_of(interval).filter(|list| list.len() <= MAX_IDLE_THREADS) else {
        return Ok(None);
    };
    let active = interval.threads.iter().filter(|row| is_stored_thread(interval, row));
    let mut list = Vec::with_capacity(idle.len());
    for one in idle.iter().copied().chain(active.filter_map(ThreadInterval::resting)) {
        let process_id = naming.process(one.process, None)?;
        let id = naming.thread(process_id, &ThreadInterval::of_resting(&one, 0))?;
        let Resting { reason, last_cpu, state, .. } = one;
        list.push(ListedThread { process_id, id, reason, last_cpu, state: state.0 });
    }
    list.sort_unstable();
    // As with processes: nothing else may name a thread that waits for weeks.
    let mut ids = list.iter().map(|one| one.id).collect();
    mark_seen::<ThreadName>(naming.connection, &mut ids, naming.now_s)?;
    pack(&list, level).map(Some).map_err(unpackable)
}

/// Writes the list of an interval that [`has_all`]. `naming` knows the rows of those that are active.
pub(super) fn write_list(
    connection: &Connection,
    key: BootKey,
    naming: &mut Naming<'_>,
    interval: &Interval,
    level: i32,
) -> Sql<()> {
    let idle = interval.idle_processes.as_deref().unwrap_or_default();
    let mut list = Vec::with_capacity(interval.processes.len() + idle.len());
    for (row, (_, after)) in interval.processes.iter().zip(interval.processes_after()) {
        if let Some(IdleProcess { thread_rows, .. }) = after {
            list.push(ListedProcess { id: naming.process(row.key, Some(row))?, thread_rows });
        }
    }
    for process in idle {
        list.push(ListedProcess {
            id: naming.process(process.key, Some(&process.row()))?,
            thread_rows: process.thread_rows,
        });
    }
    list.sort_unstable_by_key(|one| one.id);
    let packed = pack(&list, level).map_err(unpackable)?;
    let resting = pack_resting(naming, interval, level)?;
    let values = params![key.host, interval.end.wall_ns, key.boot, packed, resting];
    execute(connection, "INSERT OR REPLACE INTO process_list VALUES (?1, ?2, ?3, ?4, ?5)", values)?;
    // Nothing else may name an idle process for weeks, and retention keeps only names that are seen.
    let mut ids = list.iter().map(|one| one.id).collect();
    mark_seen::<ProcessName>(connection, &mut ids, naming.now_s)
}

#[cfg(test)]
mod tests {
    use cpumon_model::Moment;

    use super::*;

    fn due(schedule: &mut ListSchedule, boot: u8, begin_ns: i64, end_ns: i64) -> bool {
        let interval = Interval {
            boot: BootId([boot; 16]),
            begin: Moment { wall_ns: begin_ns, ..Moment::default() },
            end: Moment { wall_ns: end_ns, ..Moment::default() },
            ..Interval::default()
        };
        schedule.is_due(&interval, true)
    }

    #[test]
    fn a_sender_that_goes_through_boots_gets_no_list_with_each_interval() {
        let mut schedule = ListSchedule::default();
        let step_ns = LEAST_NS / 100;
        let lists = (0..100_u8)
            .filter(|&at| due(&mut schedule, at, i64::from(at) * step_ns, i64::from(at + 1) * step_ns));
        assert_eq!(lists.count(), 1);
        // The next boot has its list as soon as the pause is over.
        assert!(due(&mut schedule, 200, 101 * step_ns, 102 * step_ns));
        assert!(!due(&mut schedule, 200, 102 * step_ns, 103 * step_ns));
    }
}
