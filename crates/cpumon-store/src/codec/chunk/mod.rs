//! Chunks: up to a hundred intervals of one boot, sorted by task, in columns, compressed. They take half the space of fresh
//! rows. Each of the three sections (meta, processes, threads) is read on its own, so a query about processes reads no
//! threads. Layout: docs/store.md, "Chunks".

mod read;
mod write;

pub(crate) use self::read::Chunk;
pub(crate) use self::write::{FreshInterval, encode};

/// First byte of each section.
const FORMAT: u8 = 1;

/// Longest time between the first and the last end in a chunk. Compaction begins another chunk beyond it, and readers find
/// the chunks of a range by their last end plus this.
pub(crate) const MAX_CHUNK_SPAN_NS: i64 = 6 * 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use cpumon_model::Delta;

    use super::*;
    use crate::codec::blob::tests::any_packed;
    use crate::codec::meta::COUNT;
    use crate::codec::varint::Malformed;
    use crate::codec::{PackedInterval, PackedThread};
    use crate::codec::{groups, sum};
    use crate::codec::{unzip, zip};

    fn any_fresh() -> impl Strategy<Value = FreshInterval> {
        let cpus = proptest::collection::vec(any::<u8>(), 0..9);
        let sched = proptest::collection::vec(any::<u8>(), 0..5);
        (any_packed(), any::<[i64; 8]>(), cpus, sched).prop_map(|(mut rows, some, cpus, sched)| {
            // What a row holds beyond its threads is kept as such; make that rare, as it is.
            if some[0] % 3 != 0 {
                let total = |(_, own): (_, &[PackedThread])| {
                    own.iter().fold(Delta::default(), |total, row| sum(&total, &row.delta))
                };
                let totals: Vec<Delta> = rows.groups().map(total).collect();
                for (process, total) in rows.processes.iter_mut().zip(totals) {
                    process.delta = total;
                }
            }
            let meta = std::array::from_fn(|at| some[at % 8]);
            FreshInterval { meta, cpus, sched, rows }
        })
    }

    /// Each process's threads in the order that a chunk gives back.
    fn threads_by_id(rows: &PackedInterval) -> Vec<PackedThread> {
        let mut threads = rows.threads.clone();
        let mut rest = threads.as_mut_slice();
        for process in &rows.processes {
            let (own, later) = rest.split_at_mut(process.stored_rows as usize);
            own.sort_by_key(|row| row.id);
            rest = later;
        }
        threads
    }

    proptest! {
        #[test]
        fn intervals_come_back(intervals in proptest::collection::vec(any_fresh(), 0..7)) {
            let sections = encode(&intervals, 3).unwrap();
            let mut chunk = Chunk::default();
            chunk.read_meta(&sections.meta).unwrap();
            chunk.read_processes(&sections.processes, |ids| Ok::<_, Malformed>(vec![true; ids.len()])).unwrap();
            chunk.read_sched(&sections.sched).unwrap();
            chunk.read_threads(&sections.threads).unwrap();
            prop_assert_eq!(sections.sched.is_empty(), intervals.iter().all(|interval| interval.sched.is_empty()));
            prop_assert_eq!(chunk.metas.len(), intervals.len());
            for (at, interval) in intervals.iter().enumerate() {
                prop_assert_eq!(chunk.metas[at], interval.meta);
                prop_assert_eq!(chunk.cpus.of(at), &interval.cpus[..]);
                prop_assert_eq!(chunk.sched.of(at), &interval.sched[..]);
                prop_assert_eq!(chunk.processes.of(at), &interval.rows.processes[..]);
                prop_assert_eq!(chunk.threads.of(at), &threads_by_id(&interval.rows)[..]);
            }
        }

        #[test]
        fn wanted_processes_come_back_alone(
            intervals in proptest::collection::vec(any_fresh(), 0..7),
            wanted in any::<u64>(),
        ) {
            let sections = encode(&intervals, 3).unwrap();
            let is_wanted = |id: u64| wanted >> (id % 64) & 1 == 1;
            let (mut whole, mut part) = (Chunk::default(), Chunk::default());
            for (chunk, pick) in [(&mut whole, false), (&mut part, true)] {
                chunk.read_meta(&sections.meta).unwrap();
                let pick = |ids: &[u64]| {
                    Ok::<_, Malformed>(ids.iter().map(|&id| !pick || is_wanted(id)).collect())
                };
                chunk.read_processes(&sections.processes, pick).unwrap();
                chunk.read_threads(&sections.threads).unwrap();
            }
            for at in 0..intervals.len() {
                let (mut processes, mut threads) = (Vec::new(), Vec::new());
                for (row, own) in groups(whole.processes.of(at), whole.threads.of(at)) {
                    if is_wanted(row.id) {
                        processes.push(*row);
                        threads.extend_from_slice(own);
                    }
                }
                prop_assert_eq!(part.processes.of(at), &processes[..]);
                prop_assert_eq!(part.threads.of(at), &threads[..]);
            }
        }

        #[test]
        fn damaged_chunks_do_not_panic(
            intervals in proptest::collection::vec(any_fresh(), 1..4),
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let sections = encode(&intervals, 3).unwrap();
            let damaged = |section: &[u8]| {
                let mut plain = Vec::new();
                unzip(section, &mut plain, section.len() * 100 + 1_000).unwrap();
                for (at, flip) in &flips {
                    let at = at % plain.len();
                    plain[at] ^= flip;
                }
                zip(&plain, 3).unwrap()
            };
            let mut chunk = Chunk::default();
            for (meta, processes, threads) in [
                (damaged(&sections.meta), sections.processes.clone(), sections.threads.clone()),
                (sections.meta.clone(), damaged(&sections.processes), sections.threads.clone()),
                (sections.meta.clone(), sections.processes.clone(), damaged(&sections.threads)),
            ] {
                let read = chunk.read_meta(&meta)
                    .and_then(|()| chunk.read_processes(&processes, |ids| Ok::<_, Malformed>(ids.iter().map(|id| id % 5 != flips.len() as u64 % 5).collect())))
                    .and_then(|()| chunk.read_threads(&threads));
                if read.is_ok() {
                    prop_assert!(chunk.threads.of(0).len() <= sections.thread_rows * 300);
                }
            }
        }
    }

    #[test]
    fn damaged_compression_is_an_error() {
        let sections = encode(
            &[FreshInterval {
                meta: [0; COUNT],
                cpus: Vec::new(),
                sched: Vec::new(),
                rows: PackedInterval::default(),
            }],
            3,
        )
        .unwrap();
        let mut chunk = Chunk::default();
        assert!(chunk.read_meta(&sections.meta[..sections.meta.len() - 2]).is_err());
        assert!(chunk.read_meta(&[0xff; 40]).is_err());
        assert!(chunk.read_meta(&[]).is_err());
    }
}
