//! Buffered or read twice: a pivot writes the same bytes; and a buffer gives back its rows.

use std::sync::Arc;

use cpumon_model::{
    BootId, Delta, Fields, Flags, HostId, HostInfo, Interval, Kind as ValueKind, Life, Moment, ProcessInfo,
    ProcessInterval, ProcessKey, SourceKind, Trust,
};
use cpumon_store::{Reader, StoreOptions, Writer};

use super::{MAX_COLUMNS, PivotBuffer, run_within};
use crate::rows::PivotRows;
use crate::{ExportQuery, Format, GroupBy, PivotValue, Progress, Report};

const NAMES: [&str; 5] = ["plain", "=formula", "kworker/0:1", "a,\"b\"", ""];

/// A pseudo-random number.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Births, ends, new names, reused pids, a restart, a reboot, a hole, values not measured, times of a v1 device.
fn interval(host: u64, second: u64) -> Interval {
    let moment = |second: u64| {
        let ns = second * 1_000_000_000 + mixed(second) % 1000;
        Moment { mono_ns: ns, boot_ns: ns, wall_ns: ns.cast_signed() }
    };
    let mut one = Interval {
        boot: BootId([u8::from(second > 40); 16]),
        sequence: second,
        source: if host == 2 { SourceKind::V1 } else { SourceKind::Bpf },
        v1_ticks: (host == 2).then_some(635_000_000_000_000_000 + second.cast_signed()),
        fields: if second % 17 == 3 { Fields::USER } else { Fields::all() },
        flags: if second == 20 { Flags::RESTART } else { Flags::empty() },
        begin: moment(second - 1),
        end: moment(second),
        ..Interval::default()
    };
    for pid in 1..12_u32 {
        let random = mixed(second << 16 | u64::from(pid) << 4 | host);
        if random.is_multiple_of(3) {
            continue;
        }
        let key = ProcessKey { pid, start_ns: second / 15 };
        let name = NAMES[(pid as usize + usize::from(second > 25)) % NAMES.len()];
        let life = [Life::Alive, Life::Born, Life::Ended, Life::BornEnded][(random >> 40 & 3) as usize];
        one.processes.push(ProcessInterval {
            key,
            info: Arc::new(ProcessInfo { name: name.into(), is_kernel: pid > 6, ..ProcessInfo::default() }),
            life: if second % 15 < 3 { Life::Alive } else { life },
            delta: Delta {
                user_ns: (random >> 8).cast_signed() >> (random % 60),
                run_ns: (random >> 30).cast_signed(),
                ..Delta::default()
            },
            ..ProcessInterval::default()
        });
    }
    one
}

fn store(path: &std::path::Path) -> Reader {
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for (host, second) in (0..3).flat_map(|host| (1..60).map(move |second| (host, second))) {
        let id = HostId([u8::try_from(host).unwrap() + 1; 16]);
        let info = HostInfo { host: id, hostname: format!("h{host}").into(), ..HostInfo::default() };
        let one = Interval { host: id, ..interval(host, second + second / 30) };
        writer.put(&info, Trust::Local, None, &one).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    Reader::open(path).unwrap()
}

/// Returns the output, the report, and the number of intervals read.
fn write(reader: &Reader, query: &ExportQuery, is_csv: bool, budget: usize) -> (String, Report, u64) {
    let (mut out, mut read) = (Vec::new(), 0);
    let mut note = |progress: Progress| read = progress.intervals;
    let format = if is_csv { Format::Csv } else { Format::Jsonl };
    let mut sink = format.rows(&mut out);
    let mut rows = PivotRows { sink: &mut *sink, kind: ValueKind::Integer };
    let report = run_within(reader, query, MAX_COLUMNS, &mut rows, &mut note, budget).unwrap();
    sink.finish().unwrap();
    drop(sink);
    (String::from_utf8(out).unwrap(), report, read)
}

#[test]
fn buffered_and_read_twice_write_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let reader = store(&dir.path().join("cpumon.sqlite"));
    let all = 3 * 59;
    for group_by in [GroupBy::Name, GroupBy::Process, GroupBy::Program] {
        for pivot_value in [PivotValue::User, PivotValue::System, PivotValue::Run, PivotValue::Pct] {
            for interval_ns in [None, Some(7_000_000_000)] {
                for is_csv in [true, false] {
                    let query = ExportQuery { interval_ns, group_by, pivot_value, ..ExportQuery::default() };
                    let buffered = write(&reader, &query, is_csv, usize::MAX);
                    let twice = write(&reader, &query, is_csv, 0);
                    // Enough for one host and a half.
                    let mixed = write(&reader, &query, is_csv, 30_000);
                    assert!(buffered.0 == twice.0, "{query:?}\n{}\n{}", buffered.0, twice.0);
                    assert!(buffered.0 == mixed.0, "{query:?}\n{}\n{}", buffered.0, mixed.0);
                    assert_eq!((&buffered.1, &buffered.1), (&twice.1, &mixed.1));
                    assert_eq!((buffered.2, twice.2), (all, 2 * all));
                    if interval_ns.is_none() {
                        assert!(mixed.2 > all && mixed.2 < 2 * all, "{} read", mixed.2);
                    }
                }
            }
        }
    }
}

#[test]
fn rows_come_back_as_they_were() {
    let values = [0, 1, -1, 63, 64, -64, -65, 1_000_000_000, i64::MAX, i64::MIN];
    let info = Arc::new(ProcessInfo::default());
    let mut buffer = PivotBuffer::default();
    for begin in [0, 5] {
        buffer.enter(&Interval { sequence: begin, ..Interval::default() });
        for (pid, value) in (0..).zip(values) {
            let key = ProcessKey { pid, start_ns: begin };
            let row = ProcessInterval { key, info: Arc::clone(&info), ..ProcessInterval::default() };
            buffer.push(&row, value < 0, value, || Some(pid as usize));
        }
    }
    buffer.close();
    let mut begins = [0, 5].into_iter();
    let replayed: Result<(), ()> = buffer.replay(|_, rows| {
        let begin = begins.next().unwrap();
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.len(), values.len());
        for ((row, value), pid) in rows.iter().zip(values).zip(0..) {
            assert_eq!((row.value, row.ends), (value, value < 0));
            assert_eq!(row.key, ProcessKey { pid, start_ns: begin });
            assert_eq!(row.column, Some(pid as usize));
        }
        Ok(())
    });
    assert_eq!((replayed, begins.next()), (Ok(()), None));
}
