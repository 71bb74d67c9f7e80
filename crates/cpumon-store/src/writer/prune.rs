//! Deletes hosts, boots and descriptions that nothing refers to any more. Senders who change their id, boot or name all the time
//! would otherwise fill the file with them.

use rusqlite::{Connection, Result as Sql, params};

use super::ids::keep_last_id;
use super::remove_host::remove_some;
use crate::rows::{BootRow, HostRow};

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
