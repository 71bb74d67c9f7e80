//! A damaged store at the command line: exports go on behind the damage and say so, `store check` finds and salvages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Moment, ProcessInfo, ProcessInterval, ProcessKey, Trust,
};
use cpumon_store::{StoreOptions, Writer};

use crate::support::{Serve, cpumon, ok, run, text};

const SECOND_NS: i64 = 1_000_000_000;
const PAGE: usize = 8_192;

/// 300 intervals of one host in six chunks, each of several pages.
fn store(path: &Path) {
    let options = StoreOptions { compact_intervals: 50, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options).unwrap();
    let info = HostInfo { host: HostId([1; 16]), hostname: "kitchen".into(), ..HostInfo::default() };
    let program = Arc::new(ProcessInfo { name: "program".into(), ..ProcessInfo::default() });
    let mut state = 1_u64;
    for second in 1..=300_u64 {
        let at = |second: u64| Moment {
            wall_ns: second.cast_signed() * SECOND_NS + 1_750_000_000 * SECOND_NS,
            mono_ns: second * SECOND_NS.unsigned_abs(),
            boot_ns: second * SECOND_NS.unsigned_abs(),
        };
        let process = |pid: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delta = Delta { run_ns: (state >> 40).cast_signed(), ..Delta::default() };
            let key = ProcessKey { pid, start_ns: 9 };
            ProcessInterval { key, info: Arc::clone(&program), delta, ..ProcessInterval::default() }
        };
        let interval = Interval {
            host: info.host,
            fields: Fields::RUN,
            sequence: second,
            begin: at(second - 1),
            end: at(second),
            processes: (1..=200).map(process).collect(),
            process_count: 200,
            ..Interval::default()
        };
        writer.put(&info, Trust::Local, None, &interval).unwrap();
    }
    writer.compact_host(info.host).unwrap();
}

/// A store with a page of zeros in each of this many chunks.
fn damaged(path: &Path, chunks: usize) -> PathBuf {
    let mut bytes = std::fs::read(path).unwrap();
    let damaged = path.with_file_name("damaged.db");
    let mut found = 0;
    for page in (1..bytes.len() / PAGE).rev() {
        let page = page * PAGE..(page + 1) * PAGE;
        let sound = bytes[page.clone()].to_vec();
        bytes[page.clone()].fill(0);
        std::fs::write(&damaged, &bytes).unwrap();
        let report = cpumon_store::check(&damaged, None, &Arc::default());
        if report.is_ok_and(|report| report.damage.holes.len() == found + 1) {
            found += 1;
            if found == chunks {
                return damaged;
            }
        } else {
            bytes[page].copy_from_slice(&sound);
        }
    }
    panic!("pages of {found} chunks in {} pages", bytes.len() / PAGE);
}

#[test]
fn a_damaged_store_is_exported_but_for_its_holes_checked_and_salvaged() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(&path);
    let sound = path.to_str().unwrap();
    assert!(ok(&["store", "check", sound]).starts_with("sound "));
    let all = ok(&["export", "processes", "--store", sound]).lines().count();
    assert_eq!(all, 1 + 300 * 200);

    let copy = work.path().join("copy.db");
    let copy = copy.to_str().unwrap();
    let report = ok(&["store", "backup", sound, copy]);
    assert!(report.starts_with(&format!("sound      {copy}\n")), "{report}");
    assert!(report.ends_with(&format!("copied     {sound} as it was\n")), "{report}");
    assert_eq!(ok(&["export", "processes", "--store", copy]), ok(&["export", "processes", "--store", sound]));
    assert_eq!(run(&["store", "backup", sound, copy]).status.code(), Some(1), "nothing is replaced");

    let damaged = damaged(&path, 1);
    let damaged = damaged.to_str().unwrap();
    let output = run(&["store", "backup", damaged, work.path().join("bad.db").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "the damage is copied, and reported: {output:?}");
    let output = run(&["export", "processes", "--store", damaged]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 1 + 250 * 200, "every row but those of the chunk");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("50 intervals of kitchen from 2025-06-15 ") && errors.contains("store check"),
        "{errors}"
    );
    let output = run(&["sql", "--store", damaged, "SELECT count(*) FROM process_interval"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        text(&output.stdout).contains("50000") && text(&output.stderr).contains("50 intervals"),
        "{output:?}"
    );

    let picture = work.path().join("chart.svg");
    let range = ["--since", "2025-06-15T15:06:40Z", "--until", "2025-06-15T15:11:40Z", "--store", damaged];
    for command in [
        vec!["export", "chart", "landscape", "--finest", "-o", picture.to_str().unwrap()],
        vec!["report", "--host", "kitchen"],
    ] {
        let output = run(&[&command[..], &range[..]].concat());
        assert_eq!(output.status.code(), Some(3), "{command:?} {output:?}");
        assert!(text(&output.stderr).contains("50 intervals of kitchen"), "{command:?} {output:?}");
    }
    assert!(picture.exists(), "the rest is drawn");

    let rescued = work.path().join("rescued.db");
    let rescued = rescued.to_str().unwrap();
    let output = run(&["store", "check", damaged, "--salvage", rescued]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let report = text(&output.stdout);
    assert!(
        report.starts_with("DAMAGED ") && report.contains("hole       50 intervals of kitchen"),
        "{report}"
    );
    let output = run(&["export", "processes", "--store", rescued]);
    assert_eq!(output.status.code(), Some(3), "the hole is a gap");
    assert_eq!(text(&output.stdout).lines().count(), 1 + 250 * 200);
    assert!(text(&output.stderr).contains("(damaged)"), "{}", text(&output.stderr));
    assert!(ok(&["store", "check", rescued]).starts_with("sound "));
    let output = run(&["store", "check", damaged, "--salvage", rescued]);
    assert_eq!(output.status.code(), Some(1), "nothing is replaced");
}

/// It was only "no data", and where all of it was damaged, `top` waited for ever.
#[test]
fn a_moment_and_a_range_that_cannot_be_read_are_called_damaged() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(&path);
    let one = damaged(&path, 1);
    let hole = cpumon_store::check(&one, None, &Arc::default()).unwrap().damage.holes.remove(0);
    let at = |seconds: i64| {
        jiff::Timestamp::from_second(hole.first_end_wall_ns / SECOND_NS + seconds).unwrap().to_string()
    };
    let (since, until) = (at(10), at(30));
    let one = one.to_str().unwrap();
    let range = ["--since", &since, "--until", &until, "--store", one];
    for (command, word) in [
        (&["top", "-b", "--at", &until, "--store", one][..], ", because this part of the store is damaged"),
        (&["top", "--at", &until, "--store", one][..], ", because this part of the store is damaged"),
        (&["report", "--since", &since, "--until", &until, "--store", one][..], "no data for "),
        (
            &[&["export", "chart", "states", "--process", "program"][..], &range].concat()[..],
            "no process program did anything in this range",
        ),
    ] {
        let ended = run(command);
        let errors = text(&ended.stderr);
        assert_eq!((ended.status.code(), &*text(&ended.stdout)), (Some(3), ""), "{command:?} {errors}");
        assert!(errors.contains(word) && errors.contains("50 intervals of kitchen"), "{command:?} {errors}");
    }
    // It may have run in the part that is lost.
    let ended = run(&["why", "ghost", "--since", &since, "--until", &at(120), "--store", one]);
    let errors = text(&ended.stderr);
    assert_eq!((ended.status.code(), &*text(&ended.stdout)), (Some(3), ""), "{errors}");
    assert!(errors.contains("`cpumon find`") && errors.contains("50 intervals of kitchen"), "{errors}");
    let newest = run(&["top", "-b", "-n", "1", "--store", one]);
    assert!(text(&newest.stdout).contains("program"), "{newest:?}");

    // A receiver's answers lacked the same without a word, and without --host this machine's store was read.
    let received = work.path().join("received.db");
    std::fs::copy(one, &received).unwrap();
    let serve = Serve::start_with(cpumon(), &received, &["--no-agent", "--retain-days", "0"]);
    for words in [&["-b", "--host", "kitchen"][..], &["-b"], &["--host", "kitchen"]] {
        let ended = run(&[&["top", "--at", &until, "--url", &serve.url][..], words].concat());
        let errors = text(&ended.stderr);
        assert_eq!((ended.status.code(), &*text(&ended.stdout)), (Some(3), ""), "{words:?} {errors}");
        assert!(errors.contains(", because this part of the store is damaged"), "{words:?} {errors}");
        assert!(errors.contains("50 intervals of kitchen"), "{words:?} {errors}");
        assert!(errors.contains("the receiver's store is damaged"), "{words:?} {errors}");
    }
    serve.stop();
    // Another one, which no one has asked for this part yet.
    let serve = Serve::start_with(cpumon(), &received, &["--no-agent", "--retain-days", "0"]);
    let ended = run(&["export", "processes", "--url", &serve.url]);
    let errors = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{errors}");
    assert_eq!(text(&ended.stdout).lines().count(), 1 + 250 * 200, "every row but those of the chunk");
    assert!(errors.contains("50 intervals of kitchen"), "{errors}");
    serve.stop();

    let all = damaged(&path, 6);
    let ended = run(&["top", "-b", "-n", "1", "--store", all.to_str().unwrap()]);
    let errors = text(&ended.stderr);
    assert_eq!((ended.status.code(), &*text(&ended.stdout)), (Some(3), ""), "{errors}");
    assert!(errors.contains("no interval of the host in ") && errors.contains("store check"), "{errors}");
}

#[test]
fn what_is_no_store_is_an_error_and_leaves_no_copy() {
    let work = tempfile::tempdir().unwrap();
    let (path, copy) = (work.path().join("x"), work.path().join("copy.db"));
    for content in [Vec::new(), b"Dear store".to_vec(), vec![0; 3 * PAGE]] {
        std::fs::write(&path, content).unwrap();
        let output = run(&["store", "check", path.to_str().unwrap(), "--salvage", copy.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("damaged or not a cpumon store"), "{output:?}");
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 1);
    }
}
