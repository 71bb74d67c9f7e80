//! Which boots have fresh intervals, and when the next chunk of each is due. In order of time, so that finding the next one takes
//! no longer with a hundred thousand boots than with ten: senders choose how many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, Result as Sql};

use crate::options::StoreOptions;
use crate::rows::{BootKey, BootRow, HostRow};

/// Fresh intervals of one boot.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct FreshCount {
    pub(super) intervals: u32,
    /// Receipt of the first one; ns since the epoch on this machine's clock.
    pub(super) oldest_received_ns: i64,
    /// Not due before this.
    pub(super) not_before_ns: i64,
}

/// When intervals may be compacted.
#[derive(Copy, Clone, Debug)]
pub(super) struct Due {
    now_ns: i64,
    /// Full chunks: received before this.
    pub(super) full_ns: i64,
    /// Chunks of any size: received before this.
    pub(super) partial_ns: i64,
    /// Only those of this host.
    host: Option<HostRow>,
}

impl Due {
    /// What is old enough at `now_ns`.
    pub(super) fn by_age(now_ns: i64, options: &StoreOptions) -> Self {
        let before = |age: Duration| now_ns.saturating_sub(ns_of(age));
        let (full_ns, partial_ns) = (before(options.compact_after), before(options.compact_partial_after));
        Self { now_ns, full_ns, partial_ns, host: None }
    }

    /// Everything of one host, whatever its age.
    pub(super) fn all_of(host: HostRow) -> Self {
        Self { now_ns: i64::MAX, full_ns: i64::MAX, partial_ns: i64::MAX, host: Some(host) }
    }

    /// So long `after` this, for [`FreshCount::not_before_ns`].
    pub(super) fn later_ns(&self, after: Duration) -> i64 {
        self.now_ns.saturating_add(ns_of(after))
    }
}

/// The boots with fresh intervals.
#[derive(Debug)]
pub(super) struct FreshBoots {
    counts: BTreeMap<BootKey, FreshCount>,
    /// The boots by the time at which a chunk of them is due.
    by_due: BTreeSet<(i64, BootKey)>,
    /// Intervals in a full chunk.
    full: u32,
    /// Age at which a full chunk is made, ns.
    full_age_ns: i64,
    /// Age at which a chunk of any size is made, ns.
    partial_age_ns: i64,
}

impl FreshBoots {
    /// Counts what is fresh in a store.
    pub(super) fn load(connection: &Connection, options: &StoreOptions) -> Sql<Self> {
        let mut boots = Self {
            counts: BTreeMap::new(),
            by_due: BTreeSet::new(),
            full: options.compact_intervals,
            full_age_ns: ns_of(options.compact_after),
            partial_age_ns: ns_of(options.compact_partial_after),
        };
        boots.reload(connection)?;
        Ok(boots)
    }

    /// Counts again what is fresh. After an error the old counts remain.
    pub(super) fn reload(&mut self, connection: &Connection) -> Sql<()> {
        let mut statement = connection.prepare(
            "SELECT host_id, boot_id, count(*), min(received_wall_ns) FROM interval GROUP BY host_id, boot_id",
        )?;
        let rows = statement.query_map([], |row| {
            let key = BootKey { host: row.get(0)?, boot: row.get(1)? };
            Ok((
                key,
                FreshCount { intervals: row.get(2)?, oldest_received_ns: row.get(3)?, not_before_ns: 0 },
            ))
        })?;
        let counts: Vec<(BootKey, FreshCount)> = rows.collect::<Sql<_>>()?;
        self.counts.clear();
        self.by_due.clear();
        for (key, count) in counts {
            self.set(key, count);
        }
        Ok(())
    }

    /// A fresh interval was inserted.
    pub(super) fn add(&mut self, key: BootKey, received_wall_ns: i64) {
        let mut count = self.count(key);
        if count.intervals == 0 {
            count.oldest_received_ns = received_wall_ns;
        }
        count.intervals += 1;
        self.set(key, count);
    }

    /// Receipt of the oldest interval. Walks over all boots.
    pub(super) fn oldest_received_ns(&self) -> Option<i64> {
        self.counts.values().map(|count| count.oldest_received_ns).min()
    }

    /// What is fresh of a boot.
    pub(super) fn count(&self, key: BootKey) -> FreshCount {
        self.counts.get(&key).copied().unwrap_or_default()
    }

    /// Replaces what is fresh of a boot.
    pub(super) fn set(&mut self, key: BootKey, count: FreshCount) {
        let due_ns = self.due_ns(&count);
        let before_ns = self.counts.insert(key, count).map(|before| self.due_ns(&before));
        if before_ns == Some(due_ns) {
            return;
        }
        if let Some(before_ns) = before_ns {
            self.by_due.remove(&(before_ns, key));
        }
        self.by_due.insert((due_ns, key));
    }

    /// Nothing of a boot is fresh.
    pub(super) fn remove(&mut self, key: BootKey) {
        if let Some(before) = self.counts.remove(&key) {
            self.by_due.remove(&(self.due_ns(&before), key));
        }
    }

    /// The boot of which a chunk has been due for longest.
    pub(super) fn next_due(&self, due: &Due) -> Option<BootKey> {
        let Some(host) = due.host else {
            return self.by_due.first().filter(|(due_ns, _)| *due_ns <= due.now_ns).map(|(_, key)| *key);
        };
        let first = BootKey { host, boot: BootRow(i64::MIN) };
        self.counts.range(first..).next().map(|(key, _)| *key).filter(|key| key.host == host)
    }

    /// When a chunk of a boot is due.
    fn due_ns(&self, count: &FreshCount) -> i64 {
        let is_full = count.intervals >= self.full;
        let age_ns = if is_full { self.full_age_ns.min(self.partial_age_ns) } else { self.partial_age_ns };
        count.oldest_received_ns.saturating_add(age_ns).max(count.not_before_ns)
    }
}

fn ns_of(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;

    fn key(host: i64, boot: i64) -> BootKey {
        BootKey { host: HostRow(host), boot: BootRow(boot) }
    }

    fn boots() -> (FreshBoots, StoreOptions) {
        let options = StoreOptions { compact_intervals: 3, ..StoreOptions::default() };
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE interval (host_id INTEGER, boot_id INTEGER, received_wall_ns INTEGER)";
        connection.execute_batch(table).unwrap();
        (FreshBoots::load(&connection, &options).unwrap(), options)
    }

    #[test]
    fn a_full_boot_is_due_after_minutes_and_any_other_after_an_hour() {
        let (mut boots, options) = boots();
        boots.add(key(1, 1), 0);
        (0..3).for_each(|at| boots.add(key(2, 2), at * MINUTE_NS));
        let next = |boots: &FreshBoots, minute| boots.next_due(&Due::by_age(minute * MINUTE_NS, &options));
        assert_eq!((next(&boots, 2), next(&boots, 3)), (None, Some(key(2, 2))));
        boots.remove(key(2, 2));
        assert_eq!((next(&boots, 59), next(&boots, 60)), (None, Some(key(1, 1))));
        assert_eq!(boots.next_due(&Due::all_of(HostRow(2))), None);
        assert_eq!(boots.next_due(&Due::all_of(HostRow(1))), Some(key(1, 1)));
        let due = Due::by_age(60 * MINUTE_NS, &options);
        let not_before_ns = due.later_ns(Duration::from_mins(1));
        boots.set(key(1, 1), FreshCount { not_before_ns, ..boots.count(key(1, 1)) });
        assert_eq!((next(&boots, 60), next(&boots, 61)), (None, Some(key(1, 1))));
        boots.remove(key(1, 1));
        assert!(boots.by_due.is_empty() && boots.counts.is_empty());
    }

    #[test]
    fn both_lists_have_the_same_boots_whatever_is_done() {
        let (mut boots, options) = boots();
        let mut state = 1_u64;
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = i64::try_from(state >> 58).unwrap();
            let key = key(number % 4, number);
            match state >> 32 & 3 {
                0 => boots.remove(key),
                1 => boots.set(key, FreshCount { intervals: 1, oldest_received_ns: step, not_before_ns: 9 }),
                _ => boots.add(key, step * MINUTE_NS / 1_000),
            }
            assert_eq!(boots.by_due.len(), boots.counts.len());
            let due = Due::by_age(step * MINUTE_NS / 500, &options);
            let (first, counts) = (boots.next_due(&due), &boots.counts);
            let earliest = counts.values().map(|count| boots.due_ns(count)).min();
            assert_eq!(first.is_some(), earliest.is_some_and(|at_ns| at_ns <= due.now_ns));
            assert_eq!(first.map(|key| boots.due_ns(&counts[&key])), earliest.filter(|_| first.is_some()));
        }
    }
}
