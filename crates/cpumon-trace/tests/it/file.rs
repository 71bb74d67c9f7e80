//! Written events come back, sorted; a torn or damaged file gives its whole chunks, and says so.

use cpumon_sched::{SchedEvent, SchedEventKind, TraceIdentity, TraceTask};
use cpumon_trace::{
    Compression, Ending, FileHeader, ReadError, TraceRange, TraceReader, TraceSource, TraceWriter, analyse,
    chunk_of,
};

use crate::seeded_rng::SeededRng;
use crate::support::{BEGAN_NS, end_ns, header, identity, made_up, read, sums, write};

#[test]
fn events_come_back_in_the_order_of_their_time() {
    for compression in [Compression::None, Compression::Zstd(3)] {
        for every in [1, 7, 1_000, 100_000] {
            let events = made_up(7, 5_000);
            let bytes = write(&events, compression, every);
            let (back, ending) = read(&bytes).unwrap();
            assert!(back.is_sorted_by_key(|event| event.at_ns));
            let by_cpu = |events: &[SchedEvent], cpu| -> Vec<_> {
                events.iter().filter(|event| event.cpu == cpu).copied().collect()
            };
            for cpu in 0..2 {
                assert_eq!(by_cpu(&back, cpu), by_cpu(&events, cpu));
            }
            assert!(ending.is_whole() && ending.late == 0, "{ending:?}");
        }
    }
}

#[test]
fn a_file_that_ends_anywhere_gives_all_whole_chunks_before_and_says_so() {
    let events = made_up(3, 300);
    let bytes = write(&events, Compression::Zstd(1), 20);
    let whole = read(&bytes).unwrap().0;
    let mut most = 0;
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Ok((back, ending)) => {
                assert!(!ending.is_whole(), "{length}");
                let back: Vec<_> = back.into_iter().filter(|event| !is_mark(event)).collect();
                // Up to the last mark all is there, so the order is that of the whole file.
                assert!(back.len() >= most || back.len() + 40 >= most, "{length}");
                most = most.max(back.len());
                assert!(back.iter().all(|event| whole.contains(event)));
            }
            Err(ReadError::Foreign | ReadError::Header) => assert_eq!(most, 0),
            Err(error) => panic!("{length}: {error}"),
        }
    }
    assert_eq!(most, whole.len());
}

fn is_mark(event: &SchedEvent) -> bool {
    matches!(event.kind, SchedEventKind::Lost { .. })
}

#[test]
fn flipped_bits_are_found() {
    let events = made_up(5, 400);
    let bytes = write(&events, Compression::None, 50);
    let mut rng = SeededRng(99);
    for _ in 0..2_000 {
        let mut damaged = bytes.clone();
        let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
        damaged[at] ^= 1 << rng.below(8);
        match read(&damaged) {
            Ok((back, ending)) => {
                assert!(ending.damaged_at.is_some_and(|found| found <= at as u64), "{at} {ending:?}");
                let (marks, back): (Vec<_>, Vec<_>) = back.into_iter().partition(is_mark);
                // Both are ascending by time.
                let mut rest = events.iter();
                assert!(back.iter().all(|event| rest.any(|other| other == event)), "{at}");
                // A chunk holds at most 50 events, and one is damaged.
                assert!(back.len() + 50 >= events.len(), "{at}: {} of {}", back.len(), events.len());
                assert!(ending.gaps == 0 || !marks.is_empty(), "{at} {ending:?}");
                assert!(ending.unreadable_bytes > 0, "{at} {ending:?}");
            }
            Err(ReadError::Foreign | ReadError::Header | ReadError::Version { .. }) => assert!(at < 100),
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

/// Whatever is damaged: the times of no thread are longer than they were, and those of the CPUs add up.
#[test]
fn what_a_damaged_part_held_is_unknown_and_nobodys() {
    let mut current = [TraceTask::IDLE; 2];
    let mut events = made_up(17, 3_000);
    // A thread that was woken while it ran is ready when it falls asleep, also where the wakeup is in the damaged part.
    events.retain(|event| match event.kind {
        SchedEventKind::Switch { next, .. } => {
            current[usize::from(event.cpu)] = next;
            true
        }
        SchedEventKind::Waking { task, .. } => !current.contains(&task),
        _ => true,
    });
    let bytes = write(&events, Compression::Zstd(3), 100);
    let (whole, ending) = sums(&bytes);
    assert!(ending.is_whole() && whole.cpu_unknown_ns == 0, "{}", whole.cpu_unknown_ns);
    let mut rng = SeededRng(4);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let at = usize::try_from(200 + rng.below(bytes.len() as u64 - 200)).unwrap();
        let until = bytes.len().min(at + usize::try_from(rng.below(300)).unwrap() + 1);
        damaged[at..until].fill(0x55);
        let (sums, ending) = sums(&damaged);
        assert!(!ending.is_whole());
        for (key, ns) in &sums.known {
            assert!(whole.known.get(key).is_some_and(|whole_ns| whole_ns >= ns), "{at} {key:?} {ns}");
        }
        assert_eq!(sums.cpu_ns, 2 * (ending.known_until_ns - header().began.mono_ns), "{at} {ending:?}");
        assert!(ending.gaps == 0 || sums.cpu_unknown_ns > 0, "{at} {ending:?}");
    }
}

/// A header that announces more than there is must not hide what follows.
#[test]
fn a_length_beyond_the_end_is_damage_and_no_end() {
    let events = made_up(23, 1_000);
    let mut bytes = write(&events, Compression::None, 100);
    let third = bytes.windows(4).enumerate().filter(|window| window.1 == b"chnk").nth(3).unwrap().0;
    bytes[third + 8..third + 16].copy_from_slice(&[0, 0, 0x0f, 0, 0, 0, 0x0f, 0]);
    let (back, ending) = read(&bytes).unwrap();
    assert!(back.len() + 100 > events.len(), "{}", back.len());
    assert_eq!(
        (ending.gaps, ending.damaged_at, ending.ended_ns),
        (1, Some(third as u64), Some(end_ns(&events)))
    );
}

#[test]
fn a_file_that_seems_to_be_full_of_chunks_ends() {
    let mut bytes = write(&[], Compression::None, 1);
    bytes.truncate(bytes.len() - 34);
    let mut seeming = *b"chnk\x01\0\0\0\0\0\x0f\0\0\0\x0f\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for number in 0_u32..100_000 {
        seeming[24..28].copy_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&seeming);
    }
    let (back, ending) = read(&bytes).unwrap();
    assert!(back.is_empty() && ending.damaged_at.is_some() && ending.gaps == 0);
}

/// Events of a file, counted without being held.
fn count(bytes: &[u8]) -> (u64, Ending) {
    let mut events = 0;
    let mut reader = TraceReader::open(bytes).unwrap();
    let ending = reader.read(&mut |_| events += 1).unwrap();
    (events, ending)
}

/// Each damage is a mark on each CPU, and 7 kB of a hundred damages claimed 6.5 million of these.
#[test]
fn marks_of_damage_are_limited_however_many_cpus_a_file_claims() {
    for is_chunk in [false, true] {
        let mut bytes = Vec::new();
        let claims = FileHeader { cpus: u16::MAX, ..header() };
        TraceWriter::new(&mut bytes, &claims, Compression::None).unwrap().finish(BEGAN_NS, 0).unwrap();
        bytes.truncate(bytes.len() - 34);
        for _ in 0..100 {
            // A chunk with identities that cannot be read, or bytes that are no chunk.
            let damage = if is_chunk { chunk_of(2, 0, 1, &[0xff], false) } else { b"garbage!".to_vec() };
            bytes.extend_from_slice(&damage);
            for _ in 0..2 {
                bytes.extend_from_slice(&chunk_of(3, 0, 0, &[], false));
            }
        }
        let (events, ending) = count(&bytes);
        assert!((65_535..700_000).contains(&events), "{is_chunk}: {events}");
        assert!(ending.damaged_at.is_some() && (4..8).contains(&ending.gaps), "{is_chunk}: {ending:?}");
    }
}

/// A chunk of 100 bytes can hold half a million events, and a file of 1 MB held two billion.
#[test]
fn a_file_that_unpacks_to_much_more_than_it_has_is_not_read_whole() {
    const EVENTS: u32 = 500_000;
    let column = |byte: u8| {
        let raw = vec![byte; EVENTS as usize];
        let packed = zstd::bulk::compress(&raw, 19).unwrap();
        let mut column = Vec::new();
        for length in [raw.len(), packed.len()] {
            cpumon_model::varint::push(&mut column, length as u64);
        }
        [column, packed].concat()
    };
    // To idle and again, 0 ns apart; no other column has anything.
    let payload = [column(0xa0), column(0), vec![0; 8]].concat();
    let mut bytes = write(&[], Compression::Zstd(1), 1);
    bytes.truncate(bytes.len() - 34);
    for _ in 0..30 {
        bytes.extend_from_slice(&chunk_of(1, 0, EVENTS, &payload, true));
    }
    assert!(bytes.len() < 30_000, "{}", bytes.len());
    let (events, ending) = count(&bytes);
    assert!((500_000..700_000).contains(&events), "{events}");
    assert!(ending.damaged_at.is_some() && !ending.is_whole());
}

#[test]
fn foreign_and_empty_files_and_later_versions_are_named() {
    assert!(matches!(read(b""), Err(ReadError::Foreign)));
    assert!(matches!(read(b"PERFILE2 and more than ten bytes"), Err(ReadError::Foreign)));
    let mut later = write(&[], Compression::None, 1);
    later[8] = 3;
    assert!(matches!(read(&later), Err(ReadError::Version { found: 3, known: 2 })));
    // Those of before have no columns.
    assert_eq!((write(&[], Compression::None, 1)[8], write(&[], Compression::Zstd(1), 1)[8]), (1, 2));
    assert!(matches!(read(b"cpumon-t\x01\x00"), Err(ReadError::Header)));
}

#[test]
fn a_file_without_any_event_is_whole() {
    let bytes = write(&[], Compression::Zstd(3), 1);
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, ending) = analyse(&mut reader, TraceRange::default()).unwrap();
    assert!(ending.is_whole());
    assert_eq!((report.totals().cpus, report.totals().length_ns), (0, 1_000));
    assert_eq!(*reader.header(), header());
}

/// Sound checksums, any content: nothing may panic, or take more memory than its bytes explain.
#[test]
fn any_content_behind_sound_checksums_is_read_within_bounds() {
    let mut rng = SeededRng(1234);
    for _ in 0..300 {
        let mut writer = TraceWriter::new(Vec::new(), &header(), Compression::None).unwrap();
        for _ in 0..rng.below(200) {
            let task = |rng: &mut SeededRng| {
                TraceTask(rng.below(1 << 33).min(u64::from(u32::MAX)).try_into().unwrap())
            };
            let (first, second) = (task(&mut rng), task(&mut rng));
            let cpu = u16::try_from(rng.below(3) * rng.below(30_000)).unwrap();
            let kind = match rng.below(6) {
                0 => SchedEventKind::Lost {
                    count: rng.below(u64::MAX >> 33),
                    until_ns: rng.below(1 << 30) << rng.below(30),
                },
                1 => SchedEventKind::Waking { task: first, waker: second, cpu },
                2 => SchedEventKind::Migrate { task: first, to_cpu: cpu },
                3 => SchedEventKind::Born { task: first, parent: second },
                4 => SchedEventKind::Exit { task: first },
                _ => {
                    SchedEventKind::Switch { prev: first, next: second, leaves: cpumon_sched::Leaves::Ready }
                }
            };
            writer.event(&SchedEvent { at_ns: rng.below(1 << 31) << rng.below(33), cpu, kind });
        }
        let bytes = writer.finish(rng.below(1 << 30), 0).unwrap().0;
        let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
        let (report, ending) = analyse(&mut reader, TraceRange::default()).unwrap();
        assert_eq!(ending.damaged_at, None);
        let totals = report.totals();
        assert!(totals.ledger.capacity_ns() <= totals.length_ns.saturating_mul(totals.cpus));
    }
}

#[test]
fn the_newest_name_counts_also_when_an_older_one_is_written_later() {
    let named = |comm, at_ns, is_executable| TraceIdentity { at_ns, is_executable, ..identity(1, comm) };
    let (forked, renamed, executed) =
        (named("cpumon", 20, false), named("sh", 40, false), named("dash", 41, true));
    for order in
        [[&forked, &renamed, &executed], [&executed, &renamed, &forked], [&renamed, &executed, &forked]]
    {
        let mut writer = TraceWriter::new(Vec::new(), &header(), Compression::None).unwrap();
        for identity in order {
            writer.identity(identity);
        }
        let (bytes, _) = writer.finish(end_ns(&[]), 0).unwrap();
        let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
        reader.read(&mut |_| ()).unwrap();
        let names = reader.tasks().find(TraceTask(1)).unwrap();
        assert_eq!((&*names.comm, &*names.program), ("dash", "dash"));
    }
}

#[test]
fn small_chunks_wait_for_more_up_to_a_second() {
    const MS: u64 = 1_000_000;
    let mut writer = TraceWriter::new(Vec::new(), &FileHeader::default(), Compression::None).unwrap();
    let wake = |at_ns| {
        let kind = SchedEventKind::Waking { task: TraceTask(900), waker: TraceTask(901), cpu: 1 };
        SchedEvent { at_ns, cpu: 0, kind }
    };
    let header_bytes = writer.counts().bytes;
    writer.event(&wake(MS));
    writer.sync_if_due(999 * MS).unwrap();
    assert_eq!(writer.counts().bytes, header_bytes);
    writer.sync_if_due(1_000 * MS).unwrap();
    let first_bytes = writer.counts().bytes;
    assert!(first_bytes > header_bytes);
    // 9 bytes each.
    (0..4_000).for_each(|at| writer.event(&wake(1_000 * MS + at * 70_000)));
    writer.sync_if_due(1_280 * MS).unwrap();
    assert!(writer.counts().bytes > first_bytes + (32 << 10), "there is enough");
    let last_bytes = writer.counts().bytes;
    writer.event(&wake(1_300 * MS));
    writer.sync_if_due(2_279 * MS).unwrap();
    assert_eq!(writer.counts().bytes, last_bytes);
}

#[test]
fn an_event_that_cannot_be_read_ends_its_chunk() {
    // The end of task 5, a kind that there is not, and the end of task 6.
    let rows = [4, 1, 5, 7, 1, 4, 1, 6];
    let file = [header().to_bytes(), chunk_of(1, 0, 2, &rows, false)].concat();
    let (events, ending) = read(&file).unwrap();
    let ends: Vec<_> = events.iter().filter(|event| !is_mark(event)).map(|event| event.kind).collect();
    assert_eq!(ends, [SchedEventKind::Exit { task: TraceTask(5) }]);
    assert_eq!(ending.malformed, 1);
}
