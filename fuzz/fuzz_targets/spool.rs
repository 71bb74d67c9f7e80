//! A segment of a spool: any bytes, sound bytes with some changes, and sound records with any payload, which the receiver then
//! decodes. Entries read from changed bytes must have been written.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::Moment;
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::spool::{
    Entry, Gap, GapReason, Origin, Records, SegmentHeader, State, Step, push_gap, push_snapshot,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = State::decode(bytes);
    read(bytes);
    let Some((&cut, payload)) = bytes.split_first() else { return };
    let mut segment = Vec::new();
    SegmentHeader {
        spool: [1; 16],
        origin: Origin::default(),
        first: 1,
        spool_begin_wall_ns: 0,
        begin_wall_ns: 0,
    }
    .push(&mut segment);
    let (first, second) = payload.split_at(payload.len() * usize::from(cut) / 256);
    push_snapshot(&mut segment, 1, 5, true, &[first]);
    push_gap(
        &mut segment,
        &Gap { first: 2, last: 4, begin_wall_ns: 5, end_wall_ns: 9, reason: GapReason::NoSpace },
    );
    push_snapshot(&mut segment, 5, 9, false, &[second, first]);
    assert_eq!(read(&segment), 3);
    decode(&segment);
    // The payload's own bytes select the changes.
    let mut changed = segment.clone();
    for change in payload.chunks_exact(3).take(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] ^= change[2];
    }
    if changed != segment {
        assert!(read(&changed) < 3);
        let originals = entries(&segment);
        assert!(entries(&changed).iter().all(|entry| originals.contains(entry)));
    }
});

/// Reads to the end; the number of sound records.
fn read(segment: &[u8]) -> usize {
    let headless = Records::without_header(segment);
    for mut records in Records::new(segment).into_iter().chain([headless]) {
        let (mut steps, mut newest) = (0, 0);
        loop {
            match records.step() {
                Step::End { .. } => break,
                Step::Entry(Entry::Snapshot(snapshot)) => newest = snapshot.number,
                Step::Entry(Entry::Gap(gap)) => newest = gap.last,
                Step::Entry(Entry::Unknown(number)) => newest = number,
                Step::Damaged(_) => {
                    let most = newest.saturating_add(1 + segment.len() as u64 / 32);
                    assert!((newest.saturating_add(1)..=most).contains(&records.greatest_behind()));
                }
            }
            steps += 1;
            assert!(steps <= segment.len(), "reading makes no progress");
        }
    }
    entries(segment).len()
}

fn entries(segment: &[u8]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let Ok(mut records) = Records::new(segment) else { return entries };
    loop {
        match records.step() {
            Step::Entry(entry) => entries.push(entry),
            Step::Damaged(_) => {}
            Step::End { .. } => return entries,
        }
    }
}

fn decode(segment: &[u8]) {
    let mut demux = Demux::new(DemuxOptions::default());
    let from = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    for entry in entries(segment) {
        if let Entry::Snapshot(snapshot) = entry {
            for frame in snapshot.frames() {
                let _ = demux.accept(frame, from, Moment::default(), &mut |_, _| {});
            }
        }
    }
}
