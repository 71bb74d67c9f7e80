//! Waits by who ended them ([`WaitFor`]), of an interval or of several. Layout: docs/store.md, "Waits by who ended them".
//!
//! Processes have their id and start here, and no row of table `process`: a host's state is read without names, and sums outlive rows. Each
//! is written once, and meant by its place in their list.

use std::ops::AddAssign;

use cpumon_model::{Fields, Interval, ProcessKey, ThreadKey, WaitFor, WaitKind, WaitedOn};

use super::Packed;
use super::varint::{self, Malformed, VarintCursor};

/// Times are whole µs, and starts where all of them are.
const US: u64 = 1_000;
/// Bits of a row's head; the two low bits are whom it waited for, the upper ones by how much its waiter's place is above that of the row
/// before.
const HAS_COUNT: u64 = 1 << 2;
const HAS_KIND: u64 = 1 << 3;
const PLACE_AT: u32 = 4;
/// Rows of the sum of a minute or an hour at most. A year has half a million minutes: with the 512 rows of an interval they took up to
/// 13.5 GB of one host, with these 1.7 GB, and 0.2 GB of usual rows (3.2 kB and 0.4 kB a sum, in the tests of this file).
const MAX_SUM_ROWS: usize = 64;
/// A sum gathers so many rows before those of one key become one: a chunk adds a hundred intervals.
const MAX_GATHERED: usize = 16 * WaitFor::MAX_ROWS;

/// Known waits of an interval, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitsFor {
    /// Of a sum in any order, and keys may come again.
    rows: Vec<WaitFor>,
}

impl WaitsFor {
    /// The waits of an interval; `None` if they are not known.
    pub(crate) fn of(interval: &Interval) -> Option<Self> {
        interval.fields.contains(Fields::WAITS_FOR).then(|| Self { rows: interval.waits_for.clone() })
    }

    /// Moves the waits into an interval.
    pub(crate) fn give(self, interval: &mut Interval) {
        interval.waits_for = self.rows;
    }

    /// Writes at most `most` rows.
    pub(super) fn write(&self, most: usize, out: &mut Vec<u8>) {
        let mut rows = self.rows.clone();
        WaitFor::tidy(&mut rows, most);
        varint::write(out, rows.len() as u64);
        if rows.is_empty() {
            return;
        }
        let mut processes: Vec<ProcessKey> =
            rows.iter().flat_map(|row| [Some(row.waiter), process_of(row.on)]).flatten().collect();
        processes.sort_unstable();
        processes.dedup();
        let unit = unit_of(&rows);
        out.push(u8::from(unit == US));
        varint::write(out, processes.len() as u64);
        let mut before = ProcessKey::default();
        for key in &processes {
            varint::write(out, u64::from(key.pid.wrapping_sub(before.pid)));
            write_start(key.start_ns, before.start_ns, unit, out);
            before = *key;
        }
        let place_of = |key: &ProcessKey| processes.binary_search(key).unwrap_or_default() as u64;
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let (mut place, mut kind) = (0, None);
        for row in &rows {
            let (on, ..) = row.on.code();
            let step = place_of(&row.waiter) - place;
            place += step;
            let has_kind = kind.replace(row.kind) != Some(row.kind);
            let head = bit(has_kind, HAS_KIND) | bit(row.count != 1, HAS_COUNT) | on;
            varint::write(out, step << PLACE_AT | head);
            if has_kind {
                varint::write(out, row.kind.code());
            }
            match row.on {
                WaitedOn::Others | WaitedOn::Interrupt => {}
                WaitedOn::Process(key) => varint::write(out, place_of(&key)),
                WaitedOn::Thread(key) => {
                    varint::write(out, u64::from(key.tid.wrapping_sub(row.waiter.pid)));
                    write_start(key.start_ns, row.waiter.start_ns, unit, out);
                }
            }
            varint::write(out, row.ns / US);
            if row.count != 1 {
                varint::write(out, row.count);
            }
        }
    }

    pub(super) fn read(cursor: &mut VarintCursor<'_>) -> Result<Self, Malformed> {
        let count = cursor.count_to(2, WaitFor::MAX_ROWS, "more waits than an interval has")?;
        if count == 0 {
            return Ok(Self::default());
        }
        let unit = if cursor.u8()? & 1 == 0 { 1 } else { US };
        let mut processes = Vec::new();
        let mut key = ProcessKey::default();
        for _ in 0..cursor.count_to(2, 2 * WaitFor::MAX_ROWS, "more processes than waits have")? {
            key.pid = key.pid.wrapping_add(cursor.narrow()?);
            key.start_ns = read_start(cursor, key.start_ns, unit)?;
            processes.push(key);
        }
        let (mut rows, mut place, mut kind) = (Vec::new(), 0_usize, WaitKind::default());
        for _ in 0..count {
            let head = cursor.u64()?;
            place = usize::try_from(head >> PLACE_AT).unwrap_or(usize::MAX).saturating_add(place);
            let waiter = listed(&processes, place, cursor)?;
            if head & HAS_KIND != 0 {
                kind = WaitKind::from_code(cursor.u64()?);
            }
            let on = match head & 3 {
                0 => WaitedOn::Others,
                1 => WaitedOn::Interrupt,
                2 => {
                    let place = cursor.narrow()?;
                    WaitedOn::Process(listed(&processes, place, cursor)?)
                }
                _ => {
                    let tid = waiter.pid.wrapping_add(cursor.narrow()?);
                    WaitedOn::Thread(ThreadKey { tid, start_ns: read_start(cursor, waiter.start_ns, unit)? })
                }
            };
            let ns = cursor.u64()?.saturating_mul(US);
            let count = if head & HAS_COUNT == 0 { 1 } else { cursor.u64()? };
            rows.push(WaitFor { waiter, kind, on, ns, count });
        }
        // Whatever the bytes are: each key once, ascending.
        WaitFor::tidy(&mut rows, WaitFor::MAX_ROWS);
        Ok(Self { rows })
    }
}

fn process_of(on: WaitedOn) -> Option<ProcessKey> {
    if let WaitedOn::Process(key) = on { Some(key) } else { None }
}

fn listed(
    processes: &[ProcessKey],
    place: usize,
    cursor: &VarintCursor<'_>,
) -> Result<ProcessKey, Malformed> {
    processes.get(place).copied().ok_or_else(|| cursor.malformed("a wait of a process that is not listed"))
}

/// The unit of starts. Differences of numbers above 2^63 wrap, and what wraps is no multiple.
fn unit_of(rows: &[WaitFor]) -> u64 {
    let in_us = |ns: u64| ns >> 63 == 0 && ns.is_multiple_of(US);
    let are_all = rows.iter().all(|row| in_us(row.waiter.start_ns) && in_us(row.on.code().2));
    if are_all { US } else { 1 }
}

/// Writes a start by the difference to another one.
fn write_start(start_ns: u64, other_ns: u64, unit: u64, out: &mut Vec<u8>) {
    varint::write_signed(out, start_ns.wrapping_sub(other_ns).cast_signed() / unit.cast_signed());
}

fn read_start(cursor: &mut VarintCursor<'_>, other_ns: u64, unit: u64) -> Result<u64, Malformed> {
    let difference = cursor.i64()?.wrapping_mul(unit.cast_signed());
    Ok(other_ns.wrapping_add(difference.cast_unsigned()))
}

impl AddAssign<&WaitsFor> for WaitsFor {
    fn add_assign(&mut self, more: &WaitsFor) {
        self.rows.extend_from_slice(&more.rows);
        if self.rows.len() > MAX_GATHERED {
            WaitFor::tidy(&mut self.rows, MAX_GATHERED / 2);
        }
    }
}

impl Packed for WaitsFor {
    const COLUMN: &'static str = "waits_for";
    const WORDS: &'static str = "waits by who ended them";

    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(MAX_SUM_ROWS, &mut out);
        out
    }

    fn unpack(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::read(&mut VarintCursor::new(bytes))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use cpumon_model::WaitReason;
    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = (u32, u64)> {
        let start = prop_oneof![(0..9_u64).prop_map(|us| us * US), any::<u64>()];
        (prop_oneof![0..6_u32, any::<u32>()], start)
    }

    /// Rows as intervals have them: ascending, each key once, times in whole µs.
    pub(crate) fn any_rows() -> impl Strategy<Value = Vec<WaitFor>> {
        let process = any_key().prop_map(|(pid, start_ns)| ProcessKey { pid, start_ns });
        let kind = (0..300_u64).prop_map(WaitKind::from_code);
        let on = (0..4_u64, any_key()).prop_map(|(on, (id, start_ns))| WaitedOn::from_code(on, id, start_ns));
        let time = any::<u64>().prop_map(|ns| ns - ns % US);
        let row = (process, kind, on, time, prop_oneof![Just(1), any::<u64>()])
            .prop_map(|(waiter, kind, on, ns, count)| WaitFor { waiter, kind, on, ns, count });
        prop::collection::vec(row, 0..20).prop_map(|mut rows| {
            rows.sort_by_key(WaitFor::key);
            rows.dedup_by_key(|row| row.key());
            rows
        })
    }

    proptest! {
        #[test]
        fn they_come_back(rows in any_rows()) {
            let mut bytes = Vec::new();
            let waits = WaitsFor { rows };
            waits.write(WaitFor::MAX_ROWS, &mut bytes);
            let mut cursor = VarintCursor::new(&bytes);
            prop_assert_eq!(WaitsFor::read(&mut cursor).unwrap(), waits);
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(waits) = WaitsFor::unpack(&bytes) {
                prop_assert!(waits.rows.len() <= bytes.len());
                prop_assert!(waits.rows.is_sorted_by(|one, other| one.key() < other.key()));
            }
        }
    }

    fn row(pid: u32, on: u32, ms: u64) -> WaitFor {
        let key = |pid| ProcessKey { pid, start_ns: 1_000_000 * u64::from(pid) };
        let kind = WaitKind::Blocked(WaitReason::syscall(202));
        WaitFor { waiter: key(pid), kind, on: WaitedOn::Process(key(on)), ns: ms * 1_000_000, count: 1 }
    }

    #[test]
    fn a_row_takes_few_bytes_beside_its_processes() {
        let waits = WaitsFor { rows: (0..60).map(|at| row(1_000 + at / 6, 1_000 + at % 6, 20)).collect() };
        // Ten processes of three bytes, the first with five; a row has a byte for its head, one for a process and three for its time, the
        // first two more for its kind.
        assert_eq!(waits.pack().len(), 3 + (2 + 10 * 3) + (2 + 60 * 5));
    }

    #[test]
    fn more_rows_than_an_interval_has_are_not_read() {
        let refused = |count: u64, processes: u64| {
            let mut bytes = Vec::new();
            varint::write(&mut bytes, count);
            bytes.push(0);
            varint::write(&mut bytes, processes);
            bytes.resize(5_000, 0);
            WaitsFor::unpack(&bytes).err().map(|malformed| malformed.what)
        };
        assert_eq!(refused(512, 1_024), None);
        assert_eq!(refused(513, 1), Some("more waits than an interval has"));
        assert_eq!(refused(512, 1_025), Some("more processes than waits have"));
        assert_eq!(refused(1, 0), Some("a wait of a process that is not listed"));
    }

    #[test]
    fn sums_add_rows_of_one_key_and_keep_the_longest() {
        let mut sum = WaitsFor::default();
        for interval in 0..5_000 {
            sum += &WaitsFor { rows: vec![row(7, 8, 20), row(100_000 + interval, 8, 1)] };
            assert!(sum.rows.len() <= MAX_GATHERED);
        }
        let rows = WaitsFor::unpack(&sum.pack()).unwrap().rows;
        assert_eq!(rows.len(), MAX_SUM_ROWS);
        assert_eq!(rows[0], WaitFor { count: 5_000, ..row(7, 8, 100_000) });
    }

    /// The minutes of a year took up to 13.5 GB of one host.
    #[test]
    fn a_sum_has_few_bytes_whatever_its_rows_are() {
        let usual = WaitsFor { rows: (0..300).map(|at| row(1_000 + at / 6, 1_000 + at % 6, 20)).collect() };
        assert!(usual.pack().len() < 450, "{}", usual.pack().len());
        // Each number is as long as it can be, and no row has anything in common with another one.
        let mut last = 1_u64;
        let mut random = || {
            last = last.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            last
        };
        let mut key = || ProcessKey { pid: u32::try_from(random() >> 32).unwrap(), start_ns: random() };
        let longest = |at: u16| WaitFor {
            waiter: key(),
            kind: WaitKind::Blocked(WaitReason(u16::MAX - at)),
            on: WaitedOn::Process(key()),
            ns: u64::MAX,
            count: u64::MAX,
        };
        let rows: Vec<WaitFor> = (0..5_000).map(longest).collect();
        let worst = WaitsFor { rows: rows[..MAX_SUM_ROWS].to_vec() }.pack().len();
        assert!((3_000..3_300).contains(&worst), "{worst}");
        let many = WaitsFor { rows }.pack().len();
        assert!(many <= worst, "{many}");
    }
}
