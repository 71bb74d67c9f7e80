//! The sweep: deletes sums that are too old, hosts, boots and descriptions that nothing refers to any more, and names that nothing uses, a
//! range of ids at a time. Senders who change their id, boot or name all the time would otherwise fill the file with them.

use rusqlite::{Connection, Result as Sql, params};

use super::age::Times;
use super::merge_names::drop_short_lived;
use super::naming::{Gone, GoneIds, LastIds};
use super::remove_host::remove_some;
use crate::rows::{BootRow, ByRange, HostRow, IdRange, count, keep_last_id, signed};
use crate::sums::Resolution;

/// Ids of names checked in one transaction.
const NAMES_AT_ONCE: i64 = 20_000;
/// Time from the end of one sweep to the start of the next.
const SWEEP_EVERY_NS: i64 = 600_000_000_000;
/// A name's `last_s` may be this much older than its last use: it is moved on once an hour, at compaction, and intervals may
/// wait an hour for that.
const LAST_SEEN_SLACK_S: i64 = 2 * 3600;

/// Threads are named by samples only (`?3`: the oldest of them).
const THREAD_RULE: &str = "last_s < ?3 OR last_s < ?4";
/// Blocks of processes likewise; the short-lived ones in them are taken out on their own.
const PROCESS_BLOCK_RULE: &str = "last_s < min(?3, ?4)";
/// Processes are named by sums too (`?4`: the oldest of both), unless they were short-lived. Rows of boot 0 represent the
/// short-lived processes in sums, and have no `last_s`.
const PROCESS_RULE: &str = "boot_id <> 0 AND ((is_short AND last_s < ?3) OR last_s < ?4)";

/// What a sweep comes to next.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Resting,
    /// Hosts with an id above.
    Hosts(i64),
    /// Boots with an id above.
    Boots(i64),
    /// Names of a range with an id above.
    Names(IdRange, i64, Oldest),
}

#[derive(Debug, Default)]
pub(super) struct Sweep {
    next_ns: i64,
    phase: Phase,
    pruned_processes: i64,
}

/// What a sweep goes by.
#[derive(Copy, Clone)]
pub(super) struct SweepLimits<'a> {
    pub(super) times: Times,
    /// Samples and gaps from before may go; `None`: never by age.
    pub(super) samples_ns: Option<i64>,
    pub(super) zstd_level: i32,
    /// Receipt of the oldest interval that waits for compaction.
    pub(super) oldest_fresh_ns: &'a dyn Fn() -> Option<i64>,
}

/// What a step of retention did.
#[derive(Debug)]
pub(super) struct Step {
    /// There is nothing to do now.
    pub(super) is_done: bool,
    /// What the caller must forget once it is committed.
    pub(super) gone: Gone,
}

impl From<Gone> for Step {
    fn from(gone: Gone) -> Self {
        Self { is_done: false, gone }
    }
}

impl Sweep {
    /// Whether a sweep is due or under way.
    pub(super) fn is_due(&self, running_ns: i64) -> bool {
        !self.is_resting() || running_ns >= self.next_ns
    }

    /// Whether the next step is the first one of a sweep.
    pub(super) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    pub(super) fn step(
        &mut self,
        connection: &Connection,
        last: &ByRange<LastIds>,
        limits: &SweepLimits<'_>,
    ) -> Sql<Step> {
        let mut gone = Gone::default();
        self.phase = match self.phase {
            Phase::Resting => Phase::Hosts(0),
            Phase::Hosts(from) => {
                gone.hosts = prune_hosts(connection, from, limits.samples_ns.unwrap_or(i64::MIN))?;
                next_ids(connection, "host", from)?.map_or(Phase::Boots(0), Phase::Hosts)
            }
            Phase::Boots(from) => {
                gone.boots = prune_boots(connection, from)?;
                if let Some(next) = next_ids(connection, "boot", from)? {
                    Phase::Boots(next)
                } else {
                    gone.boots.extend(prune_excess(connection)?);
                    names_of(connection, IdRange::Trusted, limits)?
                }
            }
            Phase::Names(range, from, oldest) => {
                self.pruned_processes += prune_names(connection, from, oldest, limits.zstd_level, &mut gone)?;
                let to = from + NAMES_AT_ONCE;
                let is_last = to.cast_unsigned() >= last[range].thread.max(last[range].process);
                match range {
                    _ if !is_last => Phase::Names(range, to, oldest),
                    IdRange::Trusted => names_of(connection, IdRange::Unauthenticated, limits)?,
                    IdRange::Unauthenticated => Phase::Resting,
                }
            }
        };
        let is_done = self.is_resting();
        if is_done {
            self.next_ns = limits.times.running_ns.saturating_add(SWEEP_EVERY_NS);
            if std::mem::take(&mut self.pruned_processes) > 0 {
                prune_infos(connection)?;
                gone.infos = true;
            }
        }
        Ok(Step { is_done, gone })
    }
}

/// Where the next range of ids begins; `None`: there are none above this one.
fn next_ids(connection: &Connection, table: &str, from: i64) -> Sql<Option<i64>> {
    let text = format!("SELECT max(id) FROM {table}");
    let last: Option<i64> = connection.prepare_cached(&text)?.query_row([], |row| row.get(0))?;
    let next = from + IDS_AT_ONCE;
    Ok(last.filter(|last| *last > next).map(|_| next))
}

/// Begins the names of a range.
fn names_of(connection: &Connection, range: IdRange, limits: &SweepLimits<'_>) -> Sql<Phase> {
    // Intervals wait longer than usual for compaction while a disk is full or too slow. Their names are as old as they are.
    let newest_ns =
        (limits.oldest_fresh_ns)().map_or(limits.times.age_ns, |fresh| fresh.min(limits.times.age_ns));
    let samples_s = oldest_sample_s(connection, range, newest_ns)? - LAST_SEEN_SLACK_S;
    let sums_s = oldest_sum_s(connection)?.map_or(samples_s, |sums| sums.min(samples_s));
    Ok(Phase::Names(range, range.after(), Oldest { samples_s, sums_s }))
}

/// Deletes unused names among the ids after `from`. Returns how many of processes.
fn prune_names(connection: &Connection, from: i64, oldest: Oldest, level: i32, gone: &mut Gone) -> Sql<i64> {
    let Gone { threads, processes, .. } = gone;
    prune(connection, "thread", from, THREAD_RULE, oldest, threads)?;
    prune_blocks(connection, "thread", from, THREAD_RULE, oldest, threads)?;
    Ok(prune(connection, "process", from, PROCESS_RULE, oldest, processes)?
        + prune_blocks(connection, "process", from, PROCESS_BLOCK_RULE, oldest, processes)?
        + prune_short_lived(connection, from, oldest.samples_s, level)?)
}

/// Deletes descriptions that no process has. Reads whole tables, so it runs only after processes went.
pub(super) fn prune_infos(connection: &Connection) -> Sql<()> {
    connection.execute(
        "DELETE FROM process_block_info WHERE first_id NOT IN (SELECT first_id FROM process_block)",
        [],
    )?;
    connection.execute(
        "DELETE FROM process_info WHERE id NOT IN
             (SELECT info_id FROM process UNION ALL SELECT info_id FROM process_block_info)",
        [],
    )?;
    Ok(())
}

/// Receipt of the oldest compacted sample whose tasks have ids of a range, s since the epoch; `newest_ns` if there is no older one.
fn oldest_sample_s(connection: &Connection, range: IdRange, newest_ns: i64) -> Sql<i64> {
    // A chunk's last receipt can be this much after its first: the time it took to fill, bounded by the age of partial ones.
    const CHUNK_SLACK_NS: i64 = 24 * 3_600_000_000_000;
    let oldest: Option<i64> = connection
        // Before version 10 (0), all names were of the first range.
        .prepare_cached(
            "SELECT min(last_received_wall_ns) FROM chunk INDEXED BY chunk_host WHERE (trust = 1) = ?1",
        )?
        .query_row([range == IdRange::Unauthenticated], |row| row.get(0))?;
    Ok(oldest.map_or(newest_ns, |oldest| oldest.min(newest_ns)).saturating_sub(CHUNK_SLACK_NS)
        / 1_000_000_000)
}
/// Start of the oldest stored sum, s since the epoch on its host's clock; `None` if there is none.
fn oldest_sum_s(connection: &Connection) -> Sql<Option<i64>> {
    let mut begins = Vec::new();
    for resolution in Resolution::ALL {
        let name = resolution.name();
        let oldest: Option<i64> = connection
            .prepare_cached(&format!("SELECT min({name}) FROM host_{name}"))?
            .query_row([], |row| row.get(0))?;
        begins.extend(oldest.map(|bucket| bucket.saturating_mul(resolution.length_ns() / 1_000_000_000)));
    }
    Ok(begins.into_iter().min())
}

/// Age of the data that names can be used by, s since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Oldest {
    /// Receipt of the oldest sample.
    samples_s: i64,
    /// Start of the oldest sum, or that receipt if it is older.
    sums_s: i64,
}

/// Deletes unused names among the ids after `from`. Returns how many went.
fn prune(
    connection: &Connection,
    table: &str,
    from: i64,
    rule: &str,
    oldest: Oldest,
    ids: &mut GoneIds,
) -> Sql<i64> {
    let text = format!("DELETE FROM {table} WHERE id > ?1 AND id <= ?2 AND ({rule}) RETURNING id");
    let range = params![from, from + NAMES_AT_ONCE, oldest.samples_s, oldest.sums_s];
    let mut delete = connection.prepare_cached(&text)?;
    let gone: Vec<i64> = delete.query_map(range, |row| row.get(0))?.collect::<Sql<_>>()?;
    let count = signed(gone.len());
    ids.add_rows(gone);
    count_names(connection, table, count)
}

/// [`prune`] for whole blocks.
fn prune_blocks(
    connection: &Connection,
    table: &str,
    from: i64,
    rule: &str,
    oldest: Oldest,
    ids: &mut GoneIds,
) -> Sql<i64> {
    let text = format!(
        "DELETE FROM {table}_block WHERE first_id > ?1 AND first_id <= ?2 AND ({rule})
         RETURNING first_id, last_id, count"
    );
    let range = params![from, from + NAMES_AT_ONCE, oldest.samples_s, oldest.sums_s];
    let mut delete = connection.prepare_cached(&text)?;
    let rows = delete.query_map(range, |row| Ok(([row.get(0)?, row.get(1)?], row.get::<_, i64>(2)?)))?;
    let (blocks, counts): (Vec<[i64; 2]>, Vec<i64>) = rows.collect::<Sql<Vec<_>>>()?.into_iter().unzip();
    // A task that was seen again after its name went into a block has a row, too.
    let mut select =
        connection.prepare_cached(&format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2"))?;
    let mut stay = Vec::new();
    for block in &blocks {
        for id in select.query_map(*block, |row| row.get(0))? {
            stay.push(id?);
        }
    }
    ids.add_blocks(blocks, stay);
    count_names(connection, table, counts.into_iter().sum())
}

/// Takes the short-lived processes out of blocks that no sample needs any more, only sums.
fn prune_short_lived(connection: &Connection, from: i64, oldest_s: i64, level: i32) -> Sql<i64> {
    let mut select = connection.prepare_cached(
        "SELECT first_id FROM process_block WHERE first_id > ?1 AND first_id <= ?2 AND has_short AND last_s < ?3",
    )?;
    let rows = select.query_map(params![from, from + NAMES_AT_ONCE, oldest_s], |row| row.get::<_, i64>(0))?;
    let blocks: Vec<i64> = rows.collect::<Sql<_>>()?;
    let mut gone = 0;
    for first_id in blocks {
        gone += drop_short_lived(connection, first_id.cast_unsigned(), level)?;
    }
    count_names(connection, "process", gone)
}

/// Adds deleted names to the counter of their table.
fn count_names(connection: &Connection, table: &str, gone: i64) -> Sql<i64> {
    if gone > 0 {
        count(connection, &format!("retired_{table}_names"), gone)?;
    }
    Ok(gone)
}

/// Ids of hosts or boots checked in one transaction.
pub(super) const IDS_AT_ONCE: i64 = 1000;
/// Boots of a host without samples, and changes of its description, that stay at most: the newest ones.
const MOST_OF_A_HOST: i64 = 100;

/// Deletes hosts with an id after `from` of which nothing is left; gaps count until they end before `gaps_until_ns`. Who was enrolled
/// stays known, and so does this machine.
pub(super) fn prune_hosts(connection: &Connection, from: i64, gaps_until_ns: i64) -> Sql<Vec<HostRow>> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM host WHERE id > ?1 AND id <= ?2 AND trust NOT IN ('local', 'authenticated')
             AND NOT EXISTS (SELECT 1 FROM interval WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM chunk WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM host_minute WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM host_hour WHERE host_id = host.id)
             AND NOT EXISTS (SELECT 1 FROM gap WHERE host_id = host.id AND end_wall_ns >= ?3)",
    )?;
    let rows = select.query_map(params![from, from + IDS_AT_ONCE, gaps_until_ns], |row| row.get(0))?;
    let hosts: Vec<HostRow> = rows.collect::<Sql<_>>()?;
    for host in &hosts {
        while !remove_some(connection, *host)? {}
    }
    Ok(hosts)
}

/// Deletes boots with an id after `from` that have no samples, and of which no sum can be: another boot began before the host's oldest
/// sum.
pub(super) fn prune_boots(connection: &Connection, from: i64) -> Sql<Vec<BootRow>> {
    let text = format!(
        "DELETE FROM boot WHERE id > ?1 AND id <= ?2 AND {} AND
             coalesce((SELECT min(hour) FROM host_hour WHERE host_id = boot.host_id) * 3600000000000, ?3)
             >= coalesce((SELECT min(since_wall_ns) FROM host_change
                          WHERE host_id = boot.host_id AND boot_id > boot.id), ?4)
         RETURNING id",
        without_samples("boot")
    );
    keep_last_id(connection, "boot")?;
    let range = params![from, from + IDS_AT_ONCE, i64::MAX - 1, i64::MAX];
    let mut delete = connection.prepare_cached(&text)?;
    let rows = delete.query_map(range, |row| row.get(0))?;
    rows.collect()
}

/// SQL: that a row of `boot` has no samples.
fn without_samples(boot: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM interval WHERE host_id = {boot}.host_id AND boot_id = {boot}.id)
         AND NOT EXISTS (SELECT 1 FROM chunk WHERE host_id = {boot}.host_id AND boot_id = {boot}.id)"
    )
}

/// Deletes boots without samples and changes of descriptions where a host has too many of them, and what is left of boots that went.
/// Reads both tables.
pub(super) fn prune_excess(connection: &Connection) -> Sql<Vec<BootRow>> {
    keep_last_id(connection, "boot")?;
    let text = format!(
        "DELETE FROM boot WHERE host_id IN (SELECT host_id FROM boot GROUP BY host_id HAVING count(*) > ?1)
             AND id NOT IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY host_id ORDER BY id DESC) AS nth
                                            FROM boot) WHERE nth <= ?1)
             AND {}
         RETURNING id",
        without_samples("boot")
    );
    let mut delete = connection.prepare(&text)?;
    let gone: Vec<BootRow> = delete.query_map([MOST_OF_A_HOST], |row| row.get(0))?.collect::<Sql<_>>()?;
    connection.execute(
        "DELETE FROM host_change WHERE rowid NOT IN (
             SELECT id FROM (SELECT rowid AS id, row_number() OVER (PARTITION BY host_id ORDER BY rowid DESC) AS nth
                             FROM host_change) WHERE nth <= ?1)",
        [MOST_OF_A_HOST],
    )?;
    connection.execute(
        "DELETE FROM host_change WHERE boot_id NOT IN (SELECT id FROM boot)
             AND rowid NOT IN (SELECT max(rowid) FROM host_change GROUP BY host_id)",
        [],
    )?;
    connection.execute("DELETE FROM clock_piece WHERE boot_id NOT IN (SELECT id FROM boot)", [])?;
    Ok(gone)
}
