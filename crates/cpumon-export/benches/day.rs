//! Exports of a day of one host: 86,400 intervals of a second, 66 or 67 active threads each (5.76 M thread rows), 24 processes
//! active at a time out of 60 names. `cargo bench -p cpumon-export`. Two stores are made first, in a temporary directory: one all
//! fresh, one all compacted, as a day is except for its last minutes. Words after `--` select lines: `-- compacted`, `-- pivot`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cpumon_export::{ExportQuery, Format, GroupBy, Kind, export};
use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    SourceKind, ThreadInterval, ThreadKey, Trust,
};
use cpumon_store::{Reader, StoreOptions, Writer};

const SECONDS: u64 = 86_400;
const NAMES: u32 = 60;

fn moment(second: u64) -> Moment {
    let ns = second * 1_000_000_000;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: (1_767_225_600_000_000_000 + ns).cast_signed() }
}

/// A pseudo-random number.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn interval(second: u64, infos: &[Arc<ProcessInfo>]) -> Interval {
    let mut one = Interval {
        host: HostId([5; 16]),
        sequence: second,
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(second - 1),
        end: moment(second),
        thread_count: 400,
        process_count: NAMES,
        ledger: Ledger { capacity_ns: 2_000_000_000, ..Ledger::default() },
        ..Interval::default()
    };
    for (number, info) in (0_u32..).zip(infos) {
        if !mixed(second ^ u64::from(number) << 32).is_multiple_of(5) && number % 60 >= 24 {
            continue;
        }
        let key = ProcessKey { pid: 1000 + number * 10, start_ns: 7 };
        let threads = if number % 3 == 0 { 4 } else { 1 + number % 2 };
        let mut process = ProcessInterval {
            key,
            info: Arc::clone(info),
            thread_rows: threads,
            ..ProcessInterval::default()
        };
        for thread in 0..threads {
            let work = (mixed(second * 1000 + u64::from(number * 8 + thread)) % 20_000_000).cast_signed();
            let delta = Delta {
                user_ns: work / 3 * 2,
                system_ns: work - work / 3 * 2,
                run_ns: work,
                run_delay_ns: work / 50,
                voluntary_switches: work / 100_000,
                involuntary_switches: work / 5_000_000,
                ..Delta::default()
            };
            process.delta += &delta;
            let key = ThreadKey { tid: key.pid + thread, start_ns: 7 };
            one.threads.push(ThreadInterval {
                key,
                process: process.key,
                delta,
                ..ThreadInterval::default()
            });
        }
        one.processes.push(process);
    }
    one
}

/// `received_wall_ns`: the store compacts by the age of receipt.
fn fill(path: &Path, received_wall_ns: i64) -> Result<u64, Box<dyn std::error::Error>> {
    let infos: Vec<_> = (0..NAMES)
        .map(|n| Arc::new(ProcessInfo { name: format!("program-{n}").into(), ..ProcessInfo::default() }))
        .collect();
    let mut writer = Writer::open(path, &StoreOptions::default())?;
    let mut rows = 0;
    for second in 1..=SECONDS {
        let one = interval(second, &infos);
        rows += one.threads.len() as u64;
        let info = HostInfo { host: one.host, hostname: "bench".into(), ..HostInfo::default() };
        writer.put_received(&info, Trust::Local, None, &one, received_wall_ns)?;
        if second % 100 == 0 {
            writer.commit()?;
        }
    }
    writer.commit()?;
    writer.maintain(Duration::from_mins(5))?;
    Ok(rows)
}

/// The lowest of three runs.
fn time(name: &str, path: &Path, query: &ExportQuery) -> Result<(), Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    let mut rows = 0;
    for _ in 0..3 {
        let begin = Instant::now();
        rows = export(&Reader::open(path)?, query, &mut std::io::sink(), &mut |_| {})?.rows;
        best = best.min(begin.elapsed());
    }
    println!(
        "{name:<24} {:>8.0} ms  {rows:>9} rows  {:>6.2} M rows/s",
        best.as_secs_f64() * 1e3,
        rows as f64 / best.as_secs_f64() / 1e6
    );
    Ok(())
}

fn day(state: &str, age: Duration, words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("day.sqlite");
    let begin = Instant::now();
    let received = SystemTime::now().duration_since(UNIX_EPOCH)?.saturating_sub(age);
    let rows = fill(&path, i64::try_from(received.as_nanos())?)?;
    println!("{state}: {rows} thread rows put in {:.1} s", begin.elapsed().as_secs_f64());
    let of = |kind| ExportQuery { kind, ..ExportQuery::default() };
    let pivot = || of(Kind::Pivot);
    let lines = [
        ("pivot csv", pivot()),
        ("pivot csv by process", ExportQuery { group_by: GroupBy::Process, ..pivot() }),
        ("pivot csv by minute", ExportQuery { interval_ns: Some(60_000_000_000), ..pivot() }),
        ("ledger csv", of(Kind::Ledger)),
        ("processes csv", of(Kind::Processes)),
        ("processes jsonl", ExportQuery { format: Format::Jsonl, ..of(Kind::Processes) }),
        ("threads csv", of(Kind::Threads)),
    ];
    for (name, query) in lines {
        if words.iter().all(|word| name.contains(word.as_str()) || word == state) {
            time(name, &path, &query)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (state, age) in [("fresh", Duration::ZERO), ("compacted", Duration::from_hours(1))] {
        let other = if state == "fresh" { "compacted" } else { "fresh" };
        if !words.iter().any(|word| word == other) {
            day(state, age, &words)?;
        }
    }
    Ok(())
}
