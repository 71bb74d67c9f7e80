//! The active rows of one fresh interval as one blob. One blob per host and interval is written several times faster than a row
//! per thread, and takes a fifth of the space. Layout: docs/store.md, "Samples of a fresh interval".

use cpumon_model::{Delta, Flags};

use super::values::{decode_values, put_values};
use super::varint::{Malformed, VarintCursor, VarintPacker};
use super::{
    Coding, MAX_ROWS, PackedInterval, PackedProcess, PackedThread, difference, life_code, life_of, odd_code,
    odd_of, place_code, place_of, sum,
};

/// First byte of a blob.
const FORMAT: u8 = 1;
/// Error for an interval with more rows than a chunk may have.
const TOO_MANY: &str = "more than 524,288 rows";
/// Bits of a process's head byte; the two low bits are its life.
mod process_bit {
    pub(super) const FLAGS: u8 = 1 << 2;
    pub(super) const OWN_VALUES: u8 = 1 << 3;
    pub(super) const THREAD_ROWS: u8 = 1 << 4;
    pub(super) const ABSENT: u8 = 1 << 5;
}

/// Bit of a row's mask.
const ODD: u8 = 1 << 7;

/// Writes a blob, row after row: [`BlobEncoder::begin`], then each process and after it its threads.
#[derive(Debug, Default)]
pub(crate) struct BlobEncoder {
    out: VarintPacker,
    coding: Coding,
    process_id: u64,
    thread_id: u64,
}

impl BlobEncoder {
    /// Starts a blob of `processes` processes; `coding` must fit all their rows.
    pub(crate) fn begin(&mut self, coding: Coding, processes: usize) {
        self.out.clear();
        (self.coding, self.process_id, self.thread_id) = (coding, 0, 0);
        self.out.row(|out| {
            out.put_byte(FORMAT);
            out.put_byte(coding.bits());
            out.put(processes as u64);
        });
    }

    /// Adds a process; `threads_sum` is the sum of the rows that follow.
    #[inline]
    pub(crate) fn process(&mut self, process: &PackedProcess, threads_sum: &Delta) {
        // Not zero only where the sum of the rows is not all: threads that ended without a row.
        let own = difference(&process.delta, threads_sum);
        let mut head = life_code(process.life);
        head |= if process.flags.is_empty() { 0 } else { process_bit::FLAGS };
        head |= if own.is_zero() { 0 } else { process_bit::OWN_VALUES };
        // The two counts differ where idle threads have no row here.
        head |= if process.thread_rows == process.stored_rows { 0 } else { process_bit::THREAD_ROWS };
        head |= if process.is_absent { process_bit::ABSENT } else { 0 };
        // Processes may come in any order, so a step can be negative.
        let id_step = process.id.wrapping_sub(self.process_id).cast_signed();
        self.process_id = process.id;
        let coding = self.coding;
        self.out.row(|out| {
            out.put_signed(id_step);
            out.put_byte(head);
            out.put(u64::from(process.stored_rows));
            if head & process_bit::FLAGS != 0 {
                out.put(u64::from(process.flags.bits()));
            }
            if head & process_bit::THREAD_ROWS != 0 {
                out.put(u64::from(process.thread_rows));
            }
            if head & process_bit::OWN_VALUES != 0 {
                put_values(out, coding, &own, 0);
            }
        });
    }

    /// Adds a thread of the process added last.
    #[inline]
    pub(crate) fn thread(&mut self, thread: &PackedThread) {
        let id_step = thread.id.wrapping_sub(self.thread_id).cast_signed();
        self.thread_id = thread.id;
        let odd = odd_code(thread.life, thread.flags);
        let coding = self.coding;
        self.out.row(|out| {
            out.put_signed(id_step);
            put_values(out, coding, &thread.delta, if odd == 0 { 0 } else { ODD });
            out.put(place_code(thread.last_cpu, thread.state));
            if odd != 0 {
                out.put(odd);
            }
        });
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

/// Reads a blob into `into`, which is emptied first. On an error `into` holds what was read so far.
pub(crate) fn decode(bytes: &[u8], into: &mut PackedInterval) -> Result<(), Malformed> {
    into.clear();
    let mut cursor = VarintCursor::open(bytes, FORMAT)?;
    let coding = Coding::from_bits(cursor.u8()?);
    // A process has at least an id, a head and a number of rows, one byte each.
    let processes = cursor.count_to(3, MAX_ROWS, TOO_MANY)?;
    let (mut process_id, mut thread_id) = (0_u64, 0_u64);
    for _ in 0..processes {
        process_id = process_id.wrapping_add(cursor.i64()?.cast_unsigned());
        let (mut process, own) = decode_process(coding, process_id, &mut cursor)?;
        if processes + into.threads.len() + process.stored_rows as usize > MAX_ROWS {
            return Err(cursor.malformed(TOO_MANY));
        }
        process.delta = own;
        for _ in 0..process.stored_rows {
            thread_id = thread_id.wrapping_add(cursor.i64()?.cast_unsigned());
            let thread = decode_thread(coding, thread_id, &mut cursor)?;
            process.delta = sum(&process.delta, &thread.delta);
            into.threads.push(thread);
        }
        into.processes.push(process);
    }
    if cursor.remaining() > 0 {
        return Err(cursor.malformed("bytes after the end"));
    }
    Ok(())
}

fn decode_process(
    coding: Coding,
    id: u64,
    cursor: &mut VarintCursor<'_>,
) -> Result<(PackedProcess, Delta), Malformed> {
    let head = cursor.u8()?;
    // A thread has at least an id, a mask and a place.
    let stored = cursor.count(3)?;
    let stored_rows = u32::try_from(stored).map_err(|_| cursor.malformed("too many rows"))?;
    let flags = if head & process_bit::FLAGS == 0 { 0 } else { cursor.narrow()? };
    let thread_rows = if head & process_bit::THREAD_ROWS == 0 { stored_rows } else { cursor.narrow()? };
    let own =
        if head & process_bit::OWN_VALUES == 0 { Delta::default() } else { decode_values(coding, cursor)?.0 };
    let process = PackedProcess {
        id,
        thread_rows,
        life: life_of(head),
        flags: Flags::from_bits_retain(flags),
        is_absent: head & process_bit::ABSENT != 0,
        delta: Delta::default(),
        stored_rows,
    };
    Ok((process, own))
}

fn decode_thread(coding: Coding, id: u64, cursor: &mut VarintCursor<'_>) -> Result<PackedThread, Malformed> {
    let (delta, mask) = decode_values(coding, cursor)?;
    let place = cursor.u64()?;
    let (last_cpu, state) = place_of(place).ok_or_else(|| cursor.malformed("CPU number out of range"))?;
    let odd = if mask & ODD == 0 { 0 } else { cursor.u64()? };
    let (life, flags) = odd_of(odd).ok_or_else(|| cursor.malformed("flags out of range"))?;
    Ok(PackedThread { id, state, last_cpu, life, flags, delta })
}

#[cfg(test)]
pub(crate) mod tests {
    use cpumon_model::TaskState;
    use proptest::prelude::*;

    use super::*;

    fn encode(interval: &PackedInterval, out: &mut Vec<u8>) {
        let processes = interval.processes.iter().map(|row| &row.delta);
        let mut encoder = BlobEncoder::default();
        let coding = Coding::of(interval.threads.iter().map(|row| &row.delta).chain(processes));
        encoder.begin(coding, interval.processes.len());
        for (process, own) in interval.groups() {
            encoder
                .process(process, &own.iter().fold(Delta::default(), |total, row| sum(&total, &row.delta)));
            for row in own {
                encoder.thread(row);
            }
        }
        out.clear();
        out.extend_from_slice(encoder.as_bytes());
    }

    pub(crate) fn any_delta() -> impl Strategy<Value = Delta> {
        let value = || {
            prop_oneof![
                Just(0_i64),
                0..2_000_000_000_i64,
                (0..99_i64).prop_map(|t| t * 10_000_000),
                any::<i64>()
            ]
        };
        prop::array::uniform8(value()).prop_map(Delta::from_array)
    }

    prop_compose! {
        fn any_thread()(id in 1..1_000_000_u64, state in any::<u8>(), last_cpu in any::<u16>(), life in 0..4_u8,
            flags in any::<u16>(), delta in any_delta()) -> PackedThread {
            PackedThread { id, state: TaskState(state), last_cpu, life: life_of(life), flags: Flags::from_bits_retain(flags), delta }
        }
    }

    prop_compose! {
        fn any_process()(id in 1..1_000_000_u64, thread_rows in any::<u32>(), life in 0..4_u8, flags in any::<u16>(),
            is_absent in any::<bool>(), delta in any_delta(), threads in proptest::collection::vec(any_thread(), 0..5))
            -> (PackedProcess, Vec<PackedThread>) {
            let process = PackedProcess { id, thread_rows, life: life_of(life), flags: Flags::from_bits_retain(flags),
                is_absent, delta, stored_rows: u32::try_from(threads.len()).unwrap() };
            (process, threads)
        }
    }

    pub(crate) fn any_packed() -> impl Strategy<Value = PackedInterval> {
        proptest::collection::vec(any_process(), 0..8).prop_map(|mut groups| {
            groups.sort_by_key(|group| group.0.id);
            groups.dedup_by_key(|group| group.0.id);
            let mut packed = PackedInterval::default();
            for (process, mut threads) in groups {
                packed.processes.push(process);
                packed.threads.append(&mut threads);
            }
            packed
        })
    }

    proptest! {
        #[test]
        fn rows_come_back(interval in any_packed()) {
            let (mut bytes, mut back) = (Vec::new(), PackedInterval::default());
            encode(&interval, &mut bytes);
            decode(&bytes, &mut back).unwrap();
            prop_assert_eq!(back, interval);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut with_head = vec![FORMAT, 0];
            with_head.extend(bytes);
            let mut back = PackedInterval::default();
            let _ = decode(&with_head, &mut back);
            prop_assert!(back.threads.len() <= with_head.len());
        }
    }

    #[test]
    fn an_ordinary_row_takes_fourteen_bytes() {
        let row = PackedThread {
            id: 5001,
            state: TaskState(b'S'),
            last_cpu: 1,
            delta: Delta {
                user_ns: 1_200_345,
                system_ns: 400_123,
                run_ns: 1_600_468,
                run_delay_ns: 90_000,
                voluntary_switches: 20,
                involuntary_switches: 1,
                ..Delta::default()
            },
            ..PackedThread::default()
        };
        let process =
            PackedProcess { id: 7, thread_rows: 1, stored_rows: 1, delta: row.delta, ..Default::default() };
        let (mut one, mut two) = (Vec::new(), Vec::new());
        encode(&PackedInterval { processes: vec![process], threads: vec![row] }, &mut one);
        let next = PackedThread { id: 5002, ..row };
        let process =
            PackedProcess { stored_rows: 2, thread_rows: 2, delta: sum(&row.delta, &row.delta), ..process };
        encode(&PackedInterval { processes: vec![process], threads: vec![row, next] }, &mut two);
        assert_eq!(two.len() - one.len(), 14);
    }
}
