//! The cost of naming the tasks of a chunk, relative to other work on as many rows: a test knows neither machine nor optimization.

use super::*;
use crate::What;
use crate::codec::lists::pack;
use crate::cpu_time::cpu_ns;
use crate::names;

/// Stores the names of threads with the ids 1 to `threads`, in full blocks.
fn name_threads(path: &Path, threads: u32) {
    const NAMES: usize = 2_048;
    let ids: Vec<u32> = (1..=threads).collect();
    let connection = Connection::open(path).unwrap();
    for ids in ids.chunks(NAMES) {
        let name = |&id: &u32| ThreadName { id: id.into(), tid: 1_000_000 + id, ..ThreadName::default() };
        let names: Vec<ThreadName> = ids.iter().map(name).collect();
        connection
            .execute(
                "INSERT INTO thread_block (first_id, last_id, last_s, count, names) VALUES (?1, ?2, 0, ?3, ?4)",
                params![ids[0], ids[ids.len() - 1], i64::try_from(names.len()).unwrap(), pack(&names, 1).unwrap()],
            )
            .unwrap();
    }
}

fn tids(path: &Path) -> Vec<u32> {
    let mut tids = Vec::new();
    let reader = Reader::open(path).unwrap();
    let mut reading = reader.intervals(&Query::new(HOST).what(What::Threads)).unwrap();
    while let Some(stored) = reading.read().unwrap() {
        let interval = &stored.interval;
        tids.extend(interval.threads.iter().map(|thread| thread.key.tid));
    }
    assert!(reader.damage().holes.is_empty());
    tids
}

/// Processes of one thread each; the thread of a number belongs to the process of the number that `owner` gives.
fn one_each(count: u32, owner: impl Fn(u32) -> u32) -> Made {
    let rows = count as usize;
    let mut plain = vec![FORMAT];
    write_directory(rows, 1, &mut plain);
    let (mut owners, mut before) = (Vec::new(), 0);
    for number in 0..count {
        let process = i64::from(owner(number));
        varint::write(&mut owners, varint::zigzag(process - before));
        before = process;
    }
    write_columns(&[owners, vec![0; rows], vec![0; rows]], &mut plain);
    write_values(rows, &mut plain);
    Made::rows("one each", 1, &processes(rows, 1, 1), &plain)
}

/// Each thread of an interval was in another block of names than the one before, and each block was unpacked again for it.
#[test]
fn blocks_of_names_are_not_unpacked_for_each_thread() {
    const BLOCKS: u32 = 20;
    const THREADS: u32 = 40_960;
    let dir = tempfile::tempdir().unwrap();
    let measure = |name: &str, made: Made| {
        let dir = dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let path = store(&dir, &[made]);
        name_threads(&path, THREADS);
        let expected: Vec<u32> = (1_000_001..=1_000_000 + THREADS).collect();
        assert_eq!(tids(&path), expected, "{name}");
        cpu_ns(|| tids(&path))
    };
    let usual_ns = measure("usual", one_each(THREADS, |number| number));
    let in_turn = |number| number % (THREADS / BLOCKS) * BLOCKS + number / (THREADS / BLOCKS);
    let worst_ns = measure("worst", one_each(THREADS, in_turn));
    assert!(worst_ns <= 12 * usual_ns, "{worst_ns} of {usual_ns} ns");
}

/// A file of 10 KB asked for the names of half a million tasks, one by one.
#[test]
fn unknown_tasks_are_found_together() {
    const THREADS: u32 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let made = one_each(THREADS, |number| number);
    let path = store(dir.path(), std::slice::from_ref(&made));
    assert_eq!(tids(&path), vec![0; THREADS as usize]);
    let (decoded_ns, worst_ns) = (cpu_ns(|| made.read()), cpu_ns(|| tids(&path)));
    assert!(worst_ns <= 8 * decoded_ns, "{worst_ns} of {decoded_ns} ns");
}

/// The ids of a block's row are not compared with the names in it, and each name behind it was read again without end.
#[test]
fn a_block_that_ends_before_it_begins_does_not_hold_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path(), &[]);
    name_threads(&path, 3);
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE thread_block SET first_id = 9, last_id = 1", []).unwrap();
    let mut read = Vec::new();
    names::each_name(&connection, 0, &mut |name: &ThreadName| {
        read.push(name.id);
        Ok(true)
    })
    .unwrap();
    assert_eq!(read, [1, 2, 3]);
}
