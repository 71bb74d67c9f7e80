//! Control groups of a host in an interval, or summed over a minute or an hour: limits, how often they were reached, pressure.
//! Layout: docs/store.md, "Limits".

use std::sync::Arc;

use cpumon_model::{CgroupInterval, CpuLimit, Fields, Interval, Pressure, Throttle};

use super::varint::{self, Cursor, Malformed};

const HAS_THROTTLE: u8 = 1;
const HAS_PRESSURE: u8 = 2;

/// What is known of the groups of an interval, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cgroups {
    /// Of the host.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) left_out: u32,
    /// Ascending by path, each path once.
    pub(crate) rows: Vec<CgroupInterval>,
}

impl Cgroups {
    /// Those of an interval; `None` where nothing is known of groups and host.
    pub(crate) fn of(interval: &Interval) -> Option<Self> {
        let is_known = interval.fields.contains(Fields::CGROUPS) || interval.pressure.is_some();
        is_known.then(|| {
            let mut of = Self {
                pressure: interval.pressure,
                left_out: interval.cgroups_left_out,
                rows: interval.cgroups.clone(),
            };
            of.rows.sort_by(|one, other| one.path.cmp(&other.path));
            of.rows.dedup_by(|one, other| one.path == other.path);
            of
        })
    }

    /// Puts them into an interval.
    pub(crate) fn give(self, interval: &mut Interval) {
        (interval.pressure, interval.cgroups_left_out) = (self.pressure, self.left_out);
        interval.cgroups = self.rows;
    }

    /// Adds another interval, or a sum of some. A limit is that of the later one added.
    pub(crate) fn add(&mut self, more: &Self) {
        if let Some(pressure) = more.pressure {
            self.pressure.get_or_insert_default().add(pressure);
        }
        self.left_out = self.left_out.max(more.left_out);
        for row in &more.rows {
            match self.rows.binary_search_by(|known| known.path.cmp(&row.path)) {
                Ok(at) => self.rows[at].add(row),
                Err(at) => self.rows.insert(at, row.clone()),
            }
        }
    }

    /// Appends them to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, u64::from(self.pressure.is_some()));
        if let Some(pressure) = self.pressure {
            write_pressure(pressure, out);
        }
        varint::write(out, u64::from(self.left_out));
        varint::write(out, self.rows.len() as u64);
        let mut before: &[u8] = &[];
        for row in &self.rows {
            let path = row.path.as_bytes();
            // Groups of one service or pod have most of their paths in common.
            let shared = path.iter().zip(before).take_while(|(one, other)| one == other).count();
            varint::write(out, shared as u64);
            varint::write_section(out, &path[shared..]);
            before = path;
            varint::write(out, row.limit.code());
            varint::write(out, u64::from(row.limiter_bytes));
            let bit = |is_known: bool, bit: u8| if is_known { bit } else { 0 };
            out.push(bit(row.throttle.is_some(), HAS_THROTTLE) | bit(row.pressure.is_some(), HAS_PRESSURE));
            if let Some(throttle) = row.throttle {
                let Throttle { periods, throttled_periods, throttled_ns } = throttle;
                for value in [periods, throttled_periods, throttled_ns] {
                    varint::write(out, value);
                }
            }
            if let Some(pressure) = row.pressure {
                write_pressure(pressure, out);
            }
        }
    }

    /// What [`Cgroups::write`] wrote.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let pressure = if cursor.u64()? == 0 { None } else { Some(read_pressure(cursor)?) };
        let left_out = cursor.narrow()?;
        let mut rows = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        for _ in 0..cursor.count(5)? {
            // No longer than the path before, whatever the bytes claim.
            path.truncate(cursor.narrow()?);
            let rest = cursor.section()?;
            let length = rest.remaining();
            path.extend_from_slice({ rest }.bytes(length)?);
            // A chain of prefixes must not make more memory than there are bytes for.
            if path.len() > MAX_PATH_BYTES {
                return Err(cursor.malformed("a path that is too long"));
            }
            let (limit, limiter_bytes) = (CpuLimit::from_code(cursor.u64()?), cursor.narrow()?);
            let known = cursor.u8()?;
            let throttle = if known & HAS_THROTTLE == 0 {
                None
            } else {
                let (periods, throttled_periods, throttled_ns) =
                    (cursor.u64()?, cursor.u64()?, cursor.u64()?);
                Some(Throttle { periods, throttled_periods, throttled_ns })
            };
            let pressure = if known & HAS_PRESSURE == 0 { None } else { Some(read_pressure(cursor)?) };
            let path = Arc::from(&*String::from_utf8_lossy(&path));
            rows.push(CgroupInterval { id: 0, path, limit, limiter_bytes, throttle, pressure });
        }
        Ok(Self { pressure, left_out, rows })
    }
}

/// Longest path that a writer is given, bytes: sources cut at 4,096.
const MAX_PATH_BYTES: usize = 8_192;

fn write_pressure(pressure: Pressure, out: &mut Vec<u8>) {
    varint::write(out, pressure.some_ns);
    varint::write(out, pressure.full_ns);
}

fn read_pressure(cursor: &mut Cursor<'_>) -> Result<Pressure, Malformed> {
    Ok(Pressure { some_ns: cursor.u64()?, full_ns: cursor.u64()? })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_pressure() -> impl Strategy<Value = Option<Pressure>> {
        prop::option::of(any::<(u64, u64)>().prop_map(|(some_ns, full_ns)| Pressure { some_ns, full_ns }))
    }

    pub(crate) fn any_cgroups() -> impl Strategy<Value = Cgroups> {
        let throttle = any::<[u64; 3]>().prop_map(|[periods, throttled_periods, throttled_ns]| Throttle {
            periods,
            throttled_periods,
            throttled_ns,
        });
        let row = (any::<(u64, u16)>(), prop::option::of(throttle), any_pressure());
        let rows = prop::collection::btree_map("(/[ab]{1,3}){1,3}\\PC{0,3}", row, 0..6);
        (any_pressure(), any::<u32>(), rows).prop_map(|(pressure, left_out, rows)| {
            let row = |(path, ((limit, limiter_bytes), throttle, pressure)): (String, ((u64, u16), _, _))| {
                let limit = CpuLimit::from_code(limit);
                CgroupInterval { id: 0, path: path.into(), limit, limiter_bytes, throttle, pressure }
            };
            Cgroups { pressure, left_out, rows: rows.into_iter().map(row).collect() }
        })
    }

    proptest! {
        #[test]
        fn they_come_back(cgroups in any_cgroups()) {
            let mut bytes = Vec::new();
            cgroups.write(&mut bytes);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(Cgroups::read(&mut cursor).unwrap(), cgroups);
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(cgroups) = Cgroups::read(&mut Cursor::new(&bytes)) {
                prop_assert!(cgroups.rows.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn sums_add_what_is_known() {
        let row = |throttled_ns: Option<u64>, parts: u64| CgroupInterval {
            path: "/a".into(),
            limit: CpuLimit::Millionths(parts),
            throttle: throttled_ns.map(|throttled_ns| Throttle {
                periods: 2,
                throttled_periods: 1,
                throttled_ns,
            }),
            ..CgroupInterval::default()
        };
        let mut sum = Cgroups { rows: vec![row(None, 5)], ..Cgroups::default() };
        sum.add(&Cgroups { rows: vec![row(Some(7), 6)], left_out: 3, ..Cgroups::default() });
        sum.add(&Cgroups {
            rows: vec![row(None, 7), CgroupInterval { path: "/b".into(), ..row(None, 1) }],
            ..Cgroups::default()
        });
        assert_eq!(sum.rows[0], row(Some(7), 7));
        assert_eq!((sum.rows.len(), sum.left_out, sum.pressure), (2, 3, None));
    }
}
