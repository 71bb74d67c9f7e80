//! What blobs that were made to cost take in memory: those of as many rows as there may be, and those of one more.

mod names_of_chunks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cpumon_model::{HostId, HostInfo, Interval, MAX_CGROUPS, Moment, Trust};
use rusqlite::{Connection, params};

use super::chunk::Chunk;
use super::lists::{ListedProcess, ListedThread, MAX_IDLE_THREADS, MAX_PROCESSES, unpack};
use super::meta::{COUNT, END_WALL, MetaRow, write_meta, write_optional};
use super::sched::SchedRows;
use super::values::PARTS;
use super::varint::{self, Malformed, write_section};
use super::{
    Coding, MAX_BUCKETS, MAX_CPUS, MAX_HISTOGRAMS, MAX_INTERVALS, MAX_ROWS, MAX_SECTION_BYTES, host,
};
use crate::held_memory::taken_by;
use crate::names::ThreadName;
use crate::{Query, Reader, StoreOptions, Writer};

/// First byte of each section, list and block.
const FORMAT: u8 = 1;
/// Memory that reading the largest chunk may take.
const MOST_OF_A_CHUNK: usize = 320 << 20;
/// Memory that a walk over several chunks may take: decoded chunks are kept up to 128 MiB.
const MOST_OF_A_WALK: usize = MOST_OF_A_CHUNK + (128 << 20);
/// Memory that reading may take before a refusal: most for the plain section.
const MOST_OF_A_REFUSAL: usize = 24 << 20;

/// As [`zip`](super::zip), but for any length.
fn zipped(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, plain.len() as u64);
    out.extend(zstd::bulk::compress(plain, 1).unwrap());
    out
}

fn numbers(count: usize, number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    (0..count).for_each(|_| varint::write(&mut out, number));
    out
}

fn write_columns(columns: &[Vec<u8>], out: &mut Vec<u8>) {
    for column in columns {
        write_section(out, column);
    }
}

/// The directory of `ids` ids, each with a row in each interval.
fn write_directory(ids: usize, intervals: usize, out: &mut Vec<u8>) {
    varint::write(out, ids as u64);
    write_columns(&[vec![1; ids], numbers(ids, intervals as u64), vec![0; ids * intervals]], out);
}

fn write_values(rows: usize, out: &mut Vec<u8>) {
    out.extend([Coding::TIGHTEST.bits(), 0]);
    write_columns(&vec![vec![0; rows]; PARTS], out);
}

/// Processes that did nothing, with `threads` threads in each interval.
fn processes(ids: usize, intervals: usize, threads: usize) -> Vec<u8> {
    let (rows, mut out) = (ids * intervals, vec![FORMAT]);
    write_directory(ids, intervals, &mut out);
    write_columns(&[vec![0; rows], vec![1; rows], numbers(rows, threads as u64)], &mut out);
    write_values(rows, &mut out);
    out
}

/// Threads of the first process, or each of the next one (a `step` of 1).
fn threads(ids: usize, intervals: usize, step: i64) -> Vec<u8> {
    let (rows, mut out) = (ids * intervals, vec![FORMAT]);
    write_directory(ids, intervals, &mut out);
    let mut owners = numbers(rows, varint::zigzag(step));
    if let Some(first) = owners.first_mut() {
        *first = 0;
    }
    write_columns(&[owners, vec![0; rows], vec![0; rows]], &mut out);
    write_values(rows, &mut out);
    out
}

fn ends(intervals: usize, begin_ns: i64) -> Vec<MetaRow> {
    let row = |at: i64| {
        let mut row = [0; COUNT];
        row[END_WALL] = begin_ns + at;
        row
    };
    (1..=i64::try_from(intervals).unwrap()).map(row).collect()
}

fn meta(intervals: usize, begin_ns: i64, cpus: &[u8]) -> Vec<u8> {
    let (rows, mut out) = (ends(intervals, begin_ns), vec![FORMAT]);
    varint::write(&mut out, intervals as u64);
    write_meta(&rows, &mut out);
    for _ in &rows {
        write_section(&mut out, cpus);
    }
    write_optional(&rows, &mut out);
    out
}

/// Modes of `count` CPUs, all 0.
fn cpus(count: usize) -> Vec<u8> {
    let mut out = vec![0];
    varint::write(&mut out, count as u64);
    (0..count).for_each(|_| out.extend([1, 0]));
    out
}

/// Control groups with the same path, the longest that a source has, each but the first written as its last byte.
fn cgroups(count: usize) -> Vec<u8> {
    const PATH: usize = 4_096;
    // No CPUs; unknown time, counts, probes; no interrupts, drops and histograms, and six counts more; no pressure and none left out.
    let mut out = vec![0, 0, FORMAT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    varint::write(&mut out, count as u64);
    for at in 0..count {
        let shared = if at == 0 { 0 } else { PATH - 1 };
        varint::write(&mut out, shared as u64);
        write_section(&mut out, &vec![b'a'; PATH - shared]);
        out.extend([0, 0, 0]);
    }
    out
}

/// Scheduler's events of `threads` threads of one process, all 0.
fn events(threads: usize) -> Vec<u8> {
    let mut out = vec![FORMAT, 1, 2];
    varint::write(&mut out, threads as u64);
    (0..threads).for_each(|_| out.extend([2, 0]));
    out
}

/// Scheduler's events of threads with the longest rows, in about `bytes` bytes.
fn long_events(bytes: usize) -> Vec<u8> {
    let (mut row, mut out) = (vec![2], vec![FORMAT, 1, 2]);
    // Seven waits.
    varint::write(&mut row, 7 << 6);
    for reason in 1..=7 {
        varint::write(&mut row, reason);
        varint::write(&mut row, u64::MAX);
    }
    let rows = bytes / row.len();
    varint::write(&mut out, rows as u64);
    out.extend(row.repeat(rows));
    out
}

/// Run-delay histograms of `buckets` buckets each, of `count` processes without rows.
fn histograms(count: usize, buckets: u8) -> Vec<u8> {
    let mut out = vec![FORMAT, 0];
    varint::write(&mut out, count as u64);
    for _ in 0..count {
        out.extend([2, buckets]);
        (0..buckets).for_each(|_| out.extend([1, 1]));
    }
    out.push(0);
    out
}

#[derive(Clone)]
struct Made {
    name: &'static str,
    intervals: usize,
    begin_ns: i64,
    meta: Vec<u8>,
    processes: Vec<u8>,
    threads: Vec<u8>,
    sched: Vec<u8>,
}

impl Made {
    fn new(name: &'static str, intervals: usize) -> Self {
        Self {
            name,
            intervals,
            begin_ns: 0,
            meta: zipped(&meta(intervals, 0, &[])),
            processes: zipped(&processes(0, 0, 0)),
            threads: zipped(&threads(0, 0, 0)),
            sched: Vec::new(),
        }
    }

    fn rows(name: &'static str, intervals: usize, processes: &[u8], threads: &[u8]) -> Self {
        Self { processes: zipped(processes), threads: zipped(threads), ..Self::new(name, intervals) }
    }

    fn cpus(name: &'static str, intervals: usize, cpus: &[u8]) -> Self {
        Self { meta: zipped(&meta(intervals, 0, cpus)), ..Self::new(name, intervals) }
    }

    fn sched(name: &'static str, intervals: usize, blob: &[u8]) -> Self {
        let mut plain = vec![FORMAT];
        (0..intervals).for_each(|_| write_section(&mut plain, blob));
        Self { sched: zipped(&plain), ..Self::new(name, intervals) }
    }

    fn beginning_at(self, begin_ns: i64) -> Self {
        Self { begin_ns, meta: zipped(&meta(self.intervals, begin_ns, &[])), ..self }
    }

    /// Reads all that is in it, as a check of a store does. Gives its rows of processes and threads.
    fn read(&self) -> Result<usize, Malformed> {
        let (mut chunk, mut sched, mut interval) =
            (Chunk::default(), SchedRows::default(), Interval::default());
        chunk.read_meta(&self.meta)?;
        chunk.read_processes(&self.processes, |ids| Ok::<_, Malformed>(vec![true; ids.len()]))?;
        chunk.read_sched(&self.sched)?;
        chunk.read_threads(&self.threads)?;
        let mut rows = 0;
        for at in 0..chunk.metas.len() {
            sched.read(chunk.sched.of(at))?;
            host::decode(chunk.cpus.of(at), &mut interval)?;
            rows += chunk.processes.of(at).len() + chunk.threads.of(at).len();
        }
        Ok(rows)
    }
}

/// The most that a section may have beside rows: what explains nothing is passed over.
fn padded(mut blob: Vec<u8>, intervals: usize) -> Vec<u8> {
    blob.resize((MAX_SECTION_BYTES - (1 << 20)) / intervals, 0);
    blob
}

fn all_at_once() -> Made {
    const INTERVALS: usize = 64;
    let ids = MAX_ROWS / INTERVALS;
    let rows = Made::rows("all", INTERVALS, &processes(ids, INTERVALS, 0), &threads(0, 0, 0));
    let Made { meta, .. } = Made::cpus("", INTERVALS, &padded(cpus(1_000), INTERVALS));
    let Made { sched, .. } = Made::sched("", INTERVALS, &long_events(MAX_SECTION_BYTES / INTERVALS - 100));
    Made { meta, sched, ..rows }
}

/// The chunks that take most, each with its rows.
fn worst() -> Vec<(Made, usize)> {
    let (ids, half) = (MAX_ROWS / MAX_INTERVALS, MAX_ROWS / 2);
    let buckets = u8::try_from(MAX_BUCKETS / MAX_HISTOGRAMS).unwrap();
    vec![
        (Made::rows("processes", 1, &processes(MAX_ROWS, 1, 0), &threads(0, 0, 0)), MAX_ROWS),
        (Made::rows("threads", 1, &processes(1, 1, MAX_ROWS - 1), &threads(MAX_ROWS - 1, 1, 0)), MAX_ROWS),
        (Made::rows("both", 1, &processes(half, 1, 1), &threads(half, 1, 1)), MAX_ROWS),
        (
            Made::rows("intervals", MAX_INTERVALS, &processes(ids, MAX_INTERVALS, 0), &threads(0, 0, 0)),
            MAX_ROWS,
        ),
        (Made::cpus("CPUs", 20, &padded(cpus(MAX_CPUS), 20)), 0),
        (Made::cpus("control groups", MAX_INTERVALS, &cgroups(MAX_CGROUPS)), 0),
        (Made::sched("events", 4, &events(MAX_ROWS - 1)), 0),
        (Made::sched("histograms", 2, &histograms(MAX_HISTOGRAMS, buckets)), 0),
        (all_at_once(), MAX_ROWS),
    ]
}

/// A column of 10 KB became 256 MiB of one byte a row, for which 24 bytes each were reserved, and then 88 more.
#[test]
fn no_chunk_takes_more_than_its_limits_explain() {
    for (made, rows) in worst() {
        let bytes = made.meta.len() + made.processes.len() + made.threads.len() + made.sched.len();
        let (read, taken) = taken_by(|| made.read());
        assert_eq!(read, Ok(rows), "{} of {bytes} bytes", made.name);
        assert!(taken.most <= MOST_OF_A_CHUNK, "{} of {bytes} bytes: {taken:?}", made.name);
    }
}

/// A hundred intervals of 5,500 processes of one thread each: a chunk of before compaction counted rows of processes.
#[test]
fn a_full_chunk_of_a_host_of_many_busy_processes_is_read() {
    const IDS: usize = 5_500;
    const INTERVALS: usize = 100;
    let (rows, mut plain) = (IDS * INTERVALS, vec![FORMAT]);
    write_directory(IDS, INTERVALS, &mut plain);
    write_columns(&[vec![0; rows], vec![1; rows], vec![0; rows]], &mut plain);
    plain.extend([Coding::TIGHTEST.bits(), 0]);
    let mut number = 1_u32;
    // Two of the values differ from row to row, as run times do.
    let mut column = |at: usize| -> Vec<u8> {
        let mut value = || {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at < 2 { number.to_be_bytes()[0] >> 1 } else { 0 }
        };
        (0..rows).map(|_| value()).collect()
    };
    let columns: Vec<Vec<u8>> = (0..PARTS).map(&mut column).collect();
    write_columns(&columns, &mut plain);
    let made = Made::rows("busy", INTERVALS, &plain, &threads(0, 0, 0));
    assert!(rows > MAX_ROWS && made.processes.len() > rows);
    assert_eq!(made.read(), Ok(rows));
}

/// A chunk of 12 KB named 4 GiB of paths, which any question copied: 4 MiB in each of 1,024 intervals.
#[test]
fn a_chunk_names_no_more_paths_than_a_receiver_writes() {
    let most = Made::cpus("paths", MAX_INTERVALS, &cgroups(MAX_CGROUPS));
    assert!(most.meta.len() < 32 << 10);
    let (mut chunk, mut interval, mut bytes) = (Chunk::default(), Interval::default(), 0);
    chunk.read_meta(&most.meta).unwrap();
    for at in 0..chunk.metas.len() {
        host::decode(chunk.cpus.of(at), &mut interval).unwrap();
        bytes += interval.cgroups.iter().map(|row| row.path.len()).sum::<usize>();
    }
    assert_eq!(bytes, 128 << 20);
    assert!(Made::cpus("paths", 1, &cgroups(MAX_CGROUPS + 1)).read().is_err());
}

#[test]
fn what_a_chunk_cannot_have_is_refused_before_it_takes_memory() {
    let ids = MAX_ROWS / MAX_INTERVALS;
    let none = || threads(0, 0, 0);
    let too_large = Made { sched: zipped(&vec![0; MAX_SECTION_BYTES + 1]), ..Made::new("a section", 1) };
    let cases = [
        (Made::rows("processes", 1, &processes(MAX_ROWS + 1, 1, 0), &none()), "more than 524,288 rows"),
        (
            Made::rows("threads", 1, &processes(1, 1, MAX_ROWS), &threads(MAX_ROWS, 1, 0)),
            "more than 524,288 rows",
        ),
        (
            Made::rows("rows", MAX_INTERVALS, &processes(ids + 1, MAX_INTERVALS, 0), &none()),
            "more than 524,288 rows",
        ),
        (Made::new("intervals", MAX_INTERVALS + 1), "more than 128 intervals"),
        (Made::rows("groups", 1, &processes(MAX_ROWS, 0, 0), &none()), "a task without rows"),
        (Made::cpus("CPUs", 1, &cpus(MAX_CPUS + 1)), "more CPUs than a host has"),
        (Made::cpus("control groups", 1, &cgroups(MAX_CGROUPS + 1)), "more control groups than a host has"),
        (Made::sched("events", 1, &events(MAX_ROWS)), "more than 524,288 rows"),
        (
            Made::sched("histograms", 1, &histograms(MAX_HISTOGRAMS + 1, 0)),
            "more histograms than an interval has",
        ),
        (too_large, "section too large"),
    ];
    for (made, expected) in cases {
        let (read, taken) = taken_by(|| made.read());
        assert_eq!(read.map_err(|malformed| malformed.what), Err(expected), "{}", made.name);
        assert!(taken.most <= MOST_OF_A_REFUSAL, "{}: {taken:?}", made.name);
    }
}

/// A list or block of `count` rows of zeros in `columns` columns.
fn list(count: usize, columns: usize) -> Vec<u8> {
    let mut plain = vec![FORMAT];
    varint::write(&mut plain, count as u64);
    write_columns(&vec![vec![0; count]; columns], &mut plain);
    zipped(&plain)
}

#[test]
fn lists_and_blocks_of_names_take_no_more_than_their_limits_explain() {
    let most = MAX_IDLE_THREADS + MAX_ROWS;
    let (threads, processes) = (list(most, 4), list(MAX_PROCESSES, 2));
    let (read, taken) = taken_by(|| unpack::<ListedThread>(&threads).map(|list| list.len()));
    assert_eq!(read, Ok(most));
    assert!(taken.most <= most * (size_of::<ListedThread>() + 8), "{taken:?}");
    let (read, taken) = taken_by(|| unpack::<ListedProcess>(&processes).map(|list| list.len()));
    assert_eq!(read, Ok(MAX_PROCESSES));
    assert!(taken.most <= MAX_PROCESSES * (size_of::<ListedProcess>() + 8), "{taken:?}");
    // Numbers, lengths of texts, and texts.
    assert_eq!(unpack::<ThreadName>(&list(2_048, 8)).map(|names| names.len()), Ok(2_048));
    let refused = |what: Result<usize, Malformed>| what.map_err(|malformed| malformed.what);
    let block = |count| list(count, 8);
    for (bytes, expected) in [
        (list(MAX_PROCESSES + 1, 2), "more processes than a list has"),
        (list(1 << 22, 2), "section too large"),
    ] {
        let (read, taken) = taken_by(|| refused(unpack::<ListedProcess>(&bytes).map(|list| list.len())));
        assert_eq!(read, Err(expected));
        assert!(taken.most < 1 << 20, "{taken:?}");
    }
    for (bytes, expected) in
        [(list(most + 1, 4), "more threads than a list has"), (list(1 << 23, 4), "section too large")]
    {
        let (read, taken) = taken_by(|| refused(unpack::<ListedThread>(&bytes).map(|list| list.len())));
        assert_eq!(read, Err(expected));
        assert!(taken.most < 4 << 20, "{taken:?}");
    }
    for (bytes, expected) in
        [(block(2_049), "more names than a block has"), (block(1 << 20), "section too large")]
    {
        let (read, taken) = taken_by(|| refused(unpack::<ThreadName>(&bytes).map(|names| names.len())));
        assert_eq!(read, Err(expected));
        assert!(taken.most < 1 << 20, "{taken:?}");
    }
}

const HOST: HostId = HostId([7; 16]);
/// End of the one interval that is not compacted.
const FRESH_NS: i64 = 1_000_000_000;

/// A store of one host with a fresh interval and these chunks before it.
fn store(dir: &Path, chunks: &[Made]) -> PathBuf {
    let path = dir.join("s.sqlite");
    let info = HostInfo { host: HOST, hostname: "made".into(), ..HostInfo::default() };
    let end = Moment { wall_ns: FRESH_NS, ..Moment::default() };
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer
        .put(&info, Trust::Local, None, &Interval { host: HOST, end, sequence: 9, ..Interval::default() })
        .unwrap();
    writer.commit().unwrap();
    drop(writer);
    let connection = Connection::open(&path).unwrap();
    for (id, made) in (1_i64..).zip(chunks) {
        let intervals = i64::try_from(made.intervals).unwrap();
        let insert = "INSERT INTO chunk (id, host_id, boot_id, first_end_wall_ns, last_end_wall_ns, last_received_wall_ns, intervals,
                process_rows, thread_rows, meta, processes, threads, sched)
            SELECT ?1, host_id, id, ?2, ?3, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8 FROM boot";
        let (first_ns, last_ns) = (made.begin_ns + 1, made.begin_ns + intervals);
        let Made { meta, processes, threads, sched, .. } = made.clone();
        connection
            .execute(insert, params![id, first_ns, last_ns, intervals, meta, processes, threads, sched])
            .unwrap();
    }
    path
}

fn walk(reader: &Reader, most: usize) -> Vec<i64> {
    let mut found = Vec::new();
    let mut reading = reader.intervals(&Query::new(HOST)).unwrap();
    while found.len() < most
        && let Some(stored) = reading.read().unwrap()
    {
        found.push(stored.interval.end.wall_ns);
    }
    found
}

#[test]
fn a_chunk_that_would_fill_the_memory_is_a_hole_and_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let good =
        |begin_ns| Made::rows("good", 3, &processes(2, 3, 0), &threads(0, 0, 0)).beginning_at(begin_ns);
    let bad = Made::rows("bad", 1, &processes(MAX_ROWS + 1, 1, 0), &threads(0, 0, 0)).beginning_at(100);
    let path = store(dir.path(), &[good(0), bad, good(200)]);
    let reader = Reader::open(&path).unwrap();
    let (ends, taken) = taken_by(|| walk(&reader, usize::MAX));
    assert_eq!(ends, [1, 2, 3, 201, 202, 203, FRESH_NS]);
    assert!(taken.most <= MOST_OF_A_REFUSAL, "{taken:?}");
    let (report, taken) = taken_by(|| crate::check(&path, None, &Arc::new(AtomicBool::new(false))).unwrap());
    assert!(taken.most <= MOST_OF_A_REFUSAL, "{taken:?}");
    assert!(report.pages.is_empty() && report.lost.is_empty(), "{report:?}");
    for holes in [reader.damage().holes, report.damage.holes] {
        let [hole] = &holes[..] else { panic!("{holes:?}") };
        assert_eq!((hole.host, hole.first_end_wall_ns, hole.last_end_wall_ns), (HOST, 101, 101));
        assert_eq!(hole.intervals, Some(1));
        assert!(hole.detail.contains("more than 524,288 rows"), "{}", hole.detail);
    }
}

#[test]
fn chunks_of_one_time_do_not_fill_the_memory_together() {
    let ids = MAX_ROWS / MAX_INTERVALS;
    let rows = Made::rows("rows", MAX_INTERVALS, &processes(ids, MAX_INTERVALS, 0), &threads(0, 0, 0));
    // How many are merged: of rows of 88 bytes two fit into 128 MiB.
    for (made, merged) in [(rows, 2), (all_at_once(), 1)] {
        let dir = tempfile::tempdir().unwrap();
        let path = store(dir.path(), &vec![made.clone(); 4]);
        let reader = Reader::open(&path).unwrap();
        let (ends, taken) = taken_by(|| walk(&reader, 4 * merged));
        assert_eq!(ends, (1..=4).flat_map(|end| vec![end; merged]).collect::<Vec<i64>>(), "{}", made.name);
        assert!(taken.most <= MOST_OF_A_WALK, "{}: {taken:?}", made.name);
        assert!(reader.damage().holes.is_empty(), "{:?}", reader.damage());
    }
}
