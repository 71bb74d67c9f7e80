//! Retention: deletes the oldest data by age and size, counts what went, and gives free pages back to the file system. It
//! works in small steps, one transaction each, so that storing never waits long for it.

use std::time::Duration;

use rusqlite::{Connection, Result as Sql};

use super::age::{AgeTimes, ns_of};
use super::delete::{
    Wipe, delete_host, delete_older, delete_oldest_of, delete_oldest_sums, delete_sums, empty_host,
};
use super::dims::Dims;
use super::naming::Gone;
use super::session::{StoreOptions, Transaction};
use super::sweep::{Purge, Sweep, SweepLimits, SweepStep, prune_infos};
use super::usage::Usage;
use crate::rows::{HostRow, IdRange, execute, find_row, signed, value};
use crate::sums::Resolution;

/// Free pages (8 KB) that stay in the file for the next intervals; the rest goes back to the file system.
const FREE_PAGES: i64 = 256;
/// Pages given back in one transaction.
const PAGES_AT_ONCE: i64 = 1024;

/// Limits of a store by age and size, and how far they were applied.
#[derive(Debug)]
pub(super) struct Retention {
    max_age: Option<Duration>,
    minute_max_age: Option<Duration>,
    hour_max_age: Option<Duration>,
    max_bytes: Option<i64>,
    zstd_level: i32,
    sweep: Sweep,
    usage: Usage,
    wipe: Option<Wipe>,
    /// Deletes the names of a host that was forgotten.
    purge: Purge,
}

impl Retention {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            max_age: options.max_age,
            minute_max_age: options.minute_max_age,
            hour_max_age: options.hour_max_age,
            max_bytes: options.max_bytes.map(signed),
            zstd_level: options.zstd_level,
            sweep: Sweep::default(),
            usage: Usage::default(),
            wipe: None,
            purge: Purge::default(),
        }
    }

    /// One step: a host that is to be removed, samples that are too old, names of a wipe, then data above the size limit, then free pages,
    /// then the sweep. `oldest_fresh_ns`: receipt of the oldest interval that waits for compaction.
    pub(super) fn step(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        times: AgeTimes,
        oldest_fresh_ns: &dyn Fn() -> Option<i64>,
    ) -> Sql<SweepStep> {
        if let Some(gone) = self.forget_some(transaction, dims)? {
            return Ok(gone.into());
        }
        let limit = self.max_age.map(|age| times.age_ns.saturating_sub(ns_of(age)));
        if let Some(limit) = limit
            && delete_older(transaction, limit)?
        {
            return Ok(Gone::default().into());
        }
        if let Some(wipe) = self.wipe {
            if wipe.step(transaction)? {
                self.wipe = None;
                // So that everything is counted again.
                self.usage = Usage::default();
            }
            return Ok(Gone::default().into());
        }
        // Free pages do not count: data is deleted first and the file shrinks afterwards, or each step would delete more.
        let pages = Pages::read(transaction)?;
        if let Some(excess) = self.max_bytes.map(|max| pages.used_bytes - max).filter(|excess| *excess > 0) {
            self.usage.refresh(transaction, times.running_ns)?;
            if let Some(gone) = self.free_space(transaction, dims, excess, times.running_ns)? {
                return Ok(gone.into());
            }
        }
        // Returned in small steps, because each moves pages within the file, and the writer waits meanwhile.
        if pages.free > FREE_PAGES {
            shrink(transaction, (pages.free - FREE_PAGES).min(PAGES_AT_ONCE))?;
            return Ok(Gone::default().into());
        }
        if !self.sweep.is_due(times.running_ns) {
            return Ok(SweepStep { is_done: true, gone: Gone::default() });
        }
        if self.sweep.is_resting() {
            self.drop_old_sums(transaction, times.age_ns)?;
        }
        let limits = SweepLimits { times, samples_ns: limit, zstd_level: self.zstd_level, oldest_fresh_ns };
        self.sweep.step(transaction, &dims.last_ids(), &limits)
    }

    /// Removes some of a host whose removal was requested: its data, the host, its names. `None`: there is no request.
    pub(super) fn forget_some(&mut self, transaction: &Transaction<'_>, dims: &Dims) -> Sql<Option<Gone>> {
        let text = "SELECT host_id, EXISTS (SELECT 1 FROM host WHERE id = host_id) FROM forget ORDER BY host_id LIMIT 1";
        let requested =
            find_row(transaction, text, [], |row| Ok((row.get::<_, HostRow>(0)?, row.get::<_, bool>(1)?)))?;
        let Some((host, is_there)) = requested else { return Ok(None) };
        if is_there {
            self.purge = Purge::default();
            return remove_host(transaction, host).map(Some);
        }
        let next = self.purge.step(transaction, &dims.last_ids(), self.zstd_level)?;
        self.purge = next.unwrap_or_default();
        if next.is_some() {
            return Ok(Some(Gone::default()));
        }
        prune_infos(transaction)?;
        execute(transaction, "DELETE FROM forget WHERE host_id = ?1", [host])?;
        Ok(Some(Gone { infos: true, ..Gone::default() }))
    }

    /// Over the size by so many bytes: deletes the oldest data of the host that has too much. `None`: nothing is left to delete.
    fn free_space(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        excess: i64,
        running_ns: i64,
    ) -> Sql<Option<Gone>> {
        if self.usage.who_pays() == IdRange::Unauthenticated
            && let Some(gone) = self.drop_unauthenticated(transaction, dims, excess, running_ns)?
        {
            return Ok(Some(gone));
        }
        let is_less =
            self.drop_samples(transaction, IdRange::Trusted, excess)? || delete_oldest_sums(transaction)?;
        Ok(is_less.then(Gone::default))
    }

    /// Deletes samples of unauthenticated hosts; without any, those hosts; without those, what is left of their names.
    fn drop_unauthenticated(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        excess: i64,
        running_ns: i64,
    ) -> Sql<Option<Gone>> {
        if self.drop_samples(transaction, IdRange::Unauthenticated, excess)? {
            return Ok(Some(Gone::default()));
        }
        // Samples that came in since they were counted would lose their names below.
        self.usage.count_samples(transaction, running_ns)?;
        if self.usage.largest(IdRange::Unauthenticated).is_some() {
            return Ok(Some(Gone::default()));
        }
        if let Some(host) = empty_host(transaction)? {
            return remove_host(transaction, host).map(Some);
        }
        if !self.usage.has_unauthenticated_names() {
            return Ok(None);
        }
        let range = IdRange::Unauthenticated;
        log::warn!("names of unauthenticated hosts exceed their share of the store: deleting all of them");
        self.wipe = Some(Wipe { names: dims.last_ids()[range], info: dims.last_info(range) });
        Ok(Some(Gone { unauthenticated_names: true, ..Gone::default() }))
    }

    /// Deletes the oldest samples of the host of a range that has most. Whether there were any.
    fn drop_samples(&mut self, transaction: &Transaction<'_>, range: IdRange, excess: i64) -> Sql<bool> {
        while let Some(owner) = self.usage.largest(range) {
            let bytes = delete_oldest_of(transaction, owner, excess)?;
            self.usage.freed(owner, bytes);
            if bytes > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn drop_old_sums(&self, connection: &Connection, now_ns: i64) -> Sql<()> {
        for (resolution, age) in
            [(Resolution::Minute, self.minute_max_age), (Resolution::Hour, self.hour_max_age)]
        {
            if let Some(age) = age {
                let limit = now_ns.saturating_sub(ns_of(age)).div_euclid(resolution.length_ns());
                delete_sums(connection, resolution, limit)?;
            }
        }
        Ok(())
    }
}

/// Deletes some data of a host, or the host.
fn remove_host(connection: &Connection, host: HostRow) -> Sql<Gone> {
    let hosts = if delete_host(connection, host)? { vec![host] } else { Vec::new() };
    Ok(Gone { hosts, ..Gone::default() })
}

struct Pages {
    used_bytes: i64,
    free: i64,
}

impl Pages {
    fn read(connection: &Connection) -> Sql<Self> {
        let number = |text: &str| value::<i64>(connection, text, []);
        let (count, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
        Ok(Self { used_bytes: (count - free).saturating_mul(number("PRAGMA page_size")?), free })
    }
}

/// Cuts free pages off the file.
fn shrink(connection: &Connection, pages: i64) -> Sql<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    // Each step frees one page; a statement that is dropped early frees no more.
    while rows.next()?.is_some() {}
    Ok(())
}
