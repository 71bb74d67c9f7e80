//! For any content of /proc, the receiver's decoder accepts the agent's datagrams: each of its bounds is kept where the
//! value is measured.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cpumon_collect::{SourceChoice, SourceOptions, host_info, open};
use cpumon_model::{Interval, Snapshot};
use cpumon_wire::v2::{Encoder, EncoderOptions, decode};
use cpumon_wire::{Datagrams, v1};

use crate::seeded_rng::SeededRng;

/// Numbers as kernel bugs, containers and 32-bit counters make them.
const ODD: [&str; 14] = [
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "115292150460",
    "1844674407370",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "nan",
];

fn odd(random: &mut SeededRng) -> String {
    if random.below(3) == 0 {
        ODD[usize::try_from(random.below(14)).unwrap()].to_owned()
    } else {
        random.below(5_000).to_string()
    }
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn stat(root: &Path, random: &mut SeededRng) {
    let mut text = "cpu  1 2 3 4\n".to_owned();
    for _ in 0..=random.below(5) {
        // In any order, and some modes twice.
        let modes: Vec<String> = (0..random.below(12)).map(|_| odd(random)).collect();
        let cpu = if random.below(9) == 0 { u64::from(u32::MAX) } else { random.below(6) };
        writeln!(text, "cpu{cpu} {}", modes.join(" ")).unwrap();
    }
    write(root, "stat", &text);
}

fn task(root: &Path, pid: u64, tid: u64, random: &mut SeededRng) {
    let fields: Vec<String> = (0..49).map(|_| odd(random)).collect();
    // Most lines have sound ids, or all would be refused here already.
    let rest = if random.below(2) == 0 {
        format!(
            "S 1 1 1 0 -1 0 0 0 0 0 {} {} 0 0 20 0 1 0 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0",
            odd(random),
            odd(random)
        )
    } else {
        format!("{} {}", ["S", "~", "", "R"][usize::try_from(random.below(4)).unwrap()], fields.join(" "))
    };
    let name = ["x", ") S 1", "\u{202e}\u{1b}[2J", ""][usize::try_from(random.below(4)).unwrap()];
    let status = format!(
        "Uid:\t{}\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
        odd(random),
        odd(random),
        odd(random)
    );
    let files = [
        ("stat", format!("{tid} ({name}) {rest}\n")),
        ("schedstat", format!("{} {} {}\n", odd(random), odd(random), odd(random))),
        ("status", status),
        ("cgroup", format!("0::/{}\n", "é".repeat(usize::try_from(random.below(400)).unwrap()))),
        ("cmdline", "x\0".repeat(usize::try_from(random.below(3_000)).unwrap())),
    ];
    for (file, text) in files {
        write(root, &format!("{pid}/task/{tid}/{file}"), &text);
        if pid == tid {
            write(root, &format!("{pid}/{file}"), &text);
        }
    }
}

fn tree(root: &Path, random: &mut SeededRng) {
    stat(root, random);
    for _ in 0..random.below(6) {
        let pid = 1 + random.below(5);
        for tid in [pid, 1 + random.below(5)] {
            task(root, pid, tid, random);
        }
    }
}

#[test]
fn whatever_proc_says_the_decoder_takes_it() {
    let mut random = SeededRng(0x00dd);
    let (mut rows, mut malformed) = (0, 0);
    for _ in 0..60 {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/kernel/random/boot_id", "3b2c7a9e-0f1d-4c5b-8a69-778899aabbcc\n");
        tree(root.path(), &mut random);
        let options = SourceOptions {
            choice: SourceChoice::Procfs,
            proc_root: root.path().into(),
            fs_root: root.path().into(),
            cmdline: true,
            ..SourceOptions::default()
        };
        let host = host_info(&options).unwrap();
        let mut source = open(&options).unwrap().source;
        let max_datagram = [768, 1_400, 65_000][usize::try_from(random.below(3)).unwrap()];
        let mut encoder = Encoder::new(EncoderOptions { max_datagram, ..EncoderOptions::default() });
        let mut v1_sets = v1::SetEncoder::new(v1::MAX_ORIGINAL_DATAGRAM);
        let (mut before, mut snapshot, mut out) =
            (Snapshot::default(), Snapshot::default(), Datagrams::new());
        for pass in 0..4 {
            source.snapshot(&mut snapshot).unwrap();
            let interval =
                if pass == 0 { Interval::default() } else { Interval::between(&before, &snapshot) };
            encoder.encode(&host, &snapshot, &interval, &mut out);
            for frame in &out {
                let decoded = decode(frame).unwrap_or_else(|error| panic!("{error}: {snapshot:#?}"));
                rows += decoded.cpus.len() + decoded.threads.len() + decoded.processes.len();
            }
            v1_sets.encode(&interval, 0, &mut out);
            for datagram in &out {
                v1::decode(datagram).unwrap_or_else(|error| panic!("{error}: {interval:#?}"));
            }
            malformed += snapshot.health.malformed;
            std::mem::swap(&mut before, &mut snapshot);
            tree(root.path(), &mut random);
        }
    }
    assert!(rows > 1_000 && malformed > 1_000, "{rows} rows, {malformed} that make no sense");
}
