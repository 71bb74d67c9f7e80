//! A spool that a connection empties, whatever happens to it: random appends, connections, ends, kills and flipped bits from a seed, on
//! a disk with space and on one that fills up. In the end each snapshot is stored, or in a hole that says why.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use cpumon_link::Backlog;
use cpumon_link::spool::{Spool, SyncPolicy};
use cpumon_wire::spool::{Entry, Gap, GapReason, decode_record};

use crate::backlog::{append, killed, open, segments};
use crate::seeded_rng::SeededRng;
use crate::small_disk::SmallDisk;

/// What a receiver has: intervals by the number of the snapshot that ends them, and holes by where they begin: numbers, end.
#[derive(Default)]
struct StoredByReceiver {
    stored: BTreeSet<u64>,
    holes: HashMap<(i64, GapReason), (u64, u64, i64)>,
    /// Snapshots that end no interval: the first of each run.
    no_interval: BTreeSet<u64>,
}

impl StoredByReceiver {
    /// A connection: reads for a while, stores the records, and perhaps acknowledges them.
    fn connect(&mut self, spool: &mut Spool, rng: &mut SeededRng, to_the_end: bool) {
        let (mut cursor, mut has_base, mut leading) = (spool.start(), false, None::<Gap>);
        let rounds = if to_the_end { u64::MAX } else { rng.below(8) };
        let (mut last, mut acked) = (0, 0);
        for _ in 0..rounds {
            let mut out = Vec::new();
            spool.read(&mut cursor, usize::try_from(1 + rng.below(60_000)).unwrap(), &mut out);
            if out.is_empty() {
                break;
            }
            for (number, record) in out {
                assert!(number > last, "numbers ascend");
                let is_next = number == last + 1;
                match decode_record(&record).unwrap() {
                    Entry::Snapshot(_) if has_base && is_next => drop(self.stored.insert(number)),
                    Entry::Snapshot(snapshot) => {
                        assert!(snapshot.is_full);
                        let is_known = self.is_in_hole(number)
                            || self.stored.contains(&number)
                            || self.no_interval.contains(&number);
                        assert!(
                            leading.is_some() || has_base || is_known,
                            "{number} has nothing to be compared with"
                        );
                        let jump = Gap {
                            first: number,
                            last: number,
                            begin_wall_ns: snapshot.wall_ns,
                            end_wall_ns: snapshot.wall_ns,
                            reason: GapReason::Damaged,
                        };
                        if let Some(gap) = leading.take().or(has_base.then_some(jump)) {
                            self.hole(&Gap { last: number, end_wall_ns: snapshot.wall_ns, ..gap });
                        }
                        has_base = true;
                    }
                    Entry::Gap(gap) => {
                        // Snapshots between the last one read and a hole may be stored already.
                        has_base &= gap.reason != GapReason::Damaged && gap.first <= last + 1;
                        leading = (!has_base).then_some(gap);
                        if gap.count() > 0 {
                            self.hole(&gap);
                        }
                    }
                    Entry::Unknown(_) => panic!("no such record"),
                }
                last = number;
                acked = number;
            }
            // An acknowledgement may come late, or never.
            if to_the_end || rng.below(3) > 0 {
                spool.ack(acked);
            }
        }
    }

    fn hole(&mut self, gap: &Gap) {
        let (first, last, end_wall_ns) = (gap.first, gap.last, gap.end_wall_ns);
        let known = self.holes.entry((gap.begin_wall_ns, gap.reason)).or_insert((first, last, end_wall_ns));
        *known = (known.0.min(first), known.1.max(last), known.2.max(end_wall_ns));
    }

    /// It is in a hole, by number and by time.
    fn is_in_hole(&self, number: u64) -> bool {
        let wall_ns = i64::try_from(number).unwrap() * 10;
        let is_in = |(key, hole): (&(i64, GapReason), &(u64, u64, i64))| {
            (hole.0..=hole.1).contains(&number) && (key.0..=hole.2).contains(&wall_ns)
        };
        self.holes.iter().any(is_in)
    }
}

/// Flips a bit in a segment.
fn flip(dir: &Path, rng: &mut SeededRng) {
    let paths = segments(dir);
    if paths.is_empty() {
        return;
    }
    let path = &paths[usize::try_from(rng.below(paths.len() as u64)).unwrap()];
    let mut bytes = std::fs::read(path).unwrap();
    let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
    bytes[at] ^= 1 << rng.below(8);
    std::fs::write(path, bytes).unwrap();
}

/// Runs of the tests below.
const SEEDS: u64 = 80;
const FULL_SEEDS: u64 = 100;

/// What a run is like.
#[derive(Copy, Clone)]
struct Course {
    seed: u64,
    max_bytes: u64,
    flips: bool,
}

/// Leaves the directory as a kill -9 at this moment would.
fn kill(dir: &Path, spool: Spool, course: Course, rng: &mut SeededRng) -> Spool {
    let copy = killed(dir);
    if course.flips && rng.below(2) == 0 {
        flip(copy.path(), rng);
    }
    drop(spool);
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in std::fs::read_dir(copy.path()).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    open(dir, course.max_bytes, SyncPolicy::Always)
}

/// A run; the reasons of the holes that it made.
fn run(dir: &Path, course: Course) -> BTreeSet<&'static str> {
    let Course { seed, max_bytes, .. } = course;
    let (mut rng, mut receiver) = (SeededRng(seed), StoredByReceiver::default());
    let mut spool = open(dir, max_bytes, SyncPolicy::Always);
    let mut is_new_run = true;
    for _ in 0..40 {
        match rng.below(9) {
            0..5 => {
                for _ in 0..=rng.below(60) {
                    let bytes = usize::try_from(50 + rng.below(600)).unwrap();
                    let (number, _) = append(&mut spool, bytes, rng.below(40) == 0);
                    if std::mem::take(&mut is_new_run) {
                        receiver.no_interval.insert(number);
                    }
                }
            }
            5 | 6 => receiver.connect(&mut spool, &mut rng, false),
            7 => {
                drop(spool);
                spool = open(dir, max_bytes, SyncPolicy::Always);
                is_new_run = true;
            }
            _ => {
                spool = kill(dir, spool, course, &mut rng);
                is_new_run = true;
            }
        }
    }
    append(&mut spool, 10, true);
    append(&mut spool, 10, false);
    if is_new_run {
        receiver.no_interval.insert(Backlog::next(&spool) - 2);
    }
    receiver.connect(&mut spool, &mut rng, true);
    let missing: Vec<u64> = (1..Backlog::next(&spool))
        .filter(|number| !receiver.stored.contains(number) && !receiver.no_interval.contains(number))
        .filter(|number| !receiver.is_in_hole(*number))
        .collect();
    assert!(missing.is_empty(), "seed {seed}: {missing:?} of {}", Backlog::next(&spool));
    assert_eq!(spool.counts().waiting, 0, "seed {seed}");
    receiver.holes.keys().map(|hole| hole.1.words()).collect()
}

#[test]
fn whatever_happens_each_snapshot_is_stored_or_in_a_counted_hole() {
    for seed in 1..=SEEDS {
        let dir = tempfile::tempdir().unwrap();
        // In every other run the spool is too small for the unacknowledged snapshots.
        let max_bytes = if seed % 2 == 0 { 96 << 10 } else { 16 << 20 };
        let reasons = run(dir.path(), Course { seed, max_bytes, flips: true });
        let has_dropped = reasons.contains(GapReason::Dropped.words());
        assert!(seed % 2 == 0 || !has_dropped, "seed {seed}: there was space: {reasons:?}");
    }
}

#[test]
fn on_a_disk_that_fills_up_each_hole_says_that_there_was_no_space() {
    let mut all = BTreeSet::new();
    for seed in 1..=FULL_SEEDS {
        let dir = tempfile::tempdir().unwrap();
        let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
        let reasons = run(dir.path(), Course { seed, max_bytes: 16 << 20, flips: false });
        assert!(reasons.iter().all(|words| *words == GapReason::NoSpace.words()), "seed {seed}: {reasons:?}");
        all.extend(reasons);
    }
    assert_eq!(all.len(), 1, "some disk was full");
}
