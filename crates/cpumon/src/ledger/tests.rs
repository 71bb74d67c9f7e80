//! Tables and rows of a ledger by host, and that programs get the same numbers.

use cpumon_model::{CpuInterval, CpuSched, CpuTimes, Interval, Ledger, SourceKind};

use serde_json::Value;

use super::*;

/// Two CPUs for one second, with `lost` ms unattributed.
fn interval(second: i64, lost: i64, fields: Fields, irq_in_run_time: bool) -> Interval {
    const MS: i64 = 1_000_000;
    let mut one = Interval { fields, source: SourceKind::Bpf, ..Interval::default() };
    one.begin.wall_ns = second * 1_000 * MS;
    (one.end.wall_ns, one.end.mono_ns) = (one.begin.wall_ns + 1_000 * MS, 1_000_000_000);
    let (irq_ns, softirq_ns) = if irq_in_run_time { (0, 0) } else { (5 * MS, 15 * MS) };
    one.ledger = Ledger {
        capacity_ns: 2_000 * MS,
        threads_ns: 700 * MS,
        exited_ns: 100 * MS,
        irq_ns,
        softirq_ns,
        idle_ns: 1_200 * MS - irq_ns - softirq_ns - lost * MS,
        unknown_ns: lost * MS / 2,
        irq_in_run_time,
        ..Ledger::default()
    };
    let times =
        CpuTimes { user_ns: 400_000_000, irq_ns: 10_000_000, idle_ns: 580_000_000, ..CpuTimes::default() };
    let sched = CpuSched { unknown_ns: 250_000, ..CpuSched::default() };
    one.cpus = (0..2).map(|cpu| CpuInterval { cpu, times, sched, ..CpuInterval::default() }).collect();
    one
}

fn ledger(host: &str, fields: Fields, irq_in_run_time: bool) -> LedgerSum {
    let mut ledger = LedgerSum::new(host, 2);
    for (second, lost) in [(0, 1), (1, 90), (2, 3), (3, -40)] {
        ledger.add(&interval(second, lost, fields, irq_in_run_time));
    }
    ledger.add(&Interval::default());
    ledger
}

#[test]
fn the_ledger_reads_like_this() {
    let measured = ledger("device-7", Fields::all(), false);
    let sampled = ledger("evil\x1b[2Jhost", Fields::FIRST_RELEASE - Fields::EXITS, true);
    let mut out = Vec::new();
    tables(&[&measured, &sampled], usize::MAX, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    // Moments are in the reader's time zone.
    let text = (0..5).fold(text, |text, second| {
        text.replace(&when::show(second * 1_000_000_000), &format!("<second {second}>"))
    });
    insta::assert_snapshot!(text);
}

#[test]
fn a_host_of_windows_has_its_own_words() {
    let mut ledger = LedgerSum::new("device-7", 1);
    let fields = Fields::USER | Fields::SYSTEM | Fields::RUN | Fields::CPUS;
    ledger.add(&Interval { source: SourceKind::Nt, ..interval(0, 1, fields, false) });
    let mut out = Vec::new();
    tables(&[&ledger], usize::MAX, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("  ISR ") && text.contains("  DPC ") && text.contains("+ ISR + DPC +"), "{text}");
    assert!(!text.to_lowercase().contains("irq") && !text.contains("/proc"), "{text}");
    assert!(text.contains("exited: includes processes") && text.contains("ISR, DPC: no part of"), "{text}");
    // With switches, and without interrupts.
    let mut sched = LedgerSum::new("device-7", 1);
    let fields = fields | Fields::SCHED | Fields::EXITS;
    sched.add(&Interval { source: SourceKind::Nt, ..interval(0, 1, fields, true) });
    let mut out = Vec::new();
    tables(&[&sched], usize::MAX, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("ISR, DPC: not separate") && !text.contains("exited: includes"), "{text}");
    // Names of columns stay, so that a mixed fleet compares.
    let mut table = Vec::new();
    rows(&[&ledger], Format::Csv, &mut table).unwrap();
    assert!(String::from_utf8(table).unwrap().contains(",ledger_irq_ns,ledger_softirq_ns,"));
}

#[test]
fn in_a_narrow_terminal_no_line_is_longer_than_it() {
    let measured = ledger("device-7", Fields::all(), false);
    for columns in [40, 80, 100] {
        let mut out = Vec::new();
        tables(&[&measured], columns, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
        for name in ["CAPACITY", "UNATTRIBUTED", "CPU 1", "worst first"] {
            assert!(text.contains(name), "{name} at {columns}:\n{text}");
        }
    }
}

#[test]
fn where_threads_are_hidden_the_lines_of_the_cpus_say_what_they_have_more() {
    let has_note = |unknown_ns| {
        let mut ledger = LedgerSum::new("device-7", 2);
        let mut one = interval(0, 1, Fields::all(), false);
        one.ledger.unknown_ns = unknown_ns;
        ledger.add(&one);
        let mut out = Vec::new();
        tables(&[&ledger], usize::MAX, &mut out).unwrap();
        String::from_utf8(out).unwrap().contains("threads that BPF does not see")
    };
    // The threshold for the two CPUs is 500 us.
    assert_eq!([has_note(500_000), has_note(499_999)], [false, true]);
}

#[test]
fn what_rounds_to_zero_has_no_sign() {
    assert_eq!((seconds(-4e4), seconds(4e4)), ("0.0000".to_owned(), "0.0000".to_owned()));
    assert_eq!((seconds(-6e4), seconds(1.5e9)), ("-0.0001".to_owned(), "1.5000".to_owned()));
    let mut ledger = LedgerSum::new("device-7", 0);
    let mut one = interval(0, 0, Fields::all(), false);
    (one.ledger.idle_ns, one.ledger.unknown_ns) = (one.ledger.idle_ns + 9, -9);
    ledger.add(&one);
    let mut out = Vec::new();
    tables(&[&ledger], usize::MAX, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("-0.000"), "{text}");
}

#[test]
fn machines_read_the_same_numbers_and_no_data_is_not_zero() {
    let sampled = ledger("=cmd", Fields::FIRST_RELEASE, true);
    let (mut table, mut lines) = (Vec::new(), Vec::new());
    rows(&[&sampled], Format::Csv, &mut table).unwrap();
    rows(&[&sampled], Format::Jsonl, &mut lines).unwrap();
    let (table, lines) = (String::from_utf8(table).unwrap(), String::from_utf8(lines).unwrap());
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(table.lines().count(), objects.len() + 1);
    for line in lines.lines() {
        let places: Vec<_> = fields()
            .iter()
            .filter_map(Field::column)
            .map(|(name, _)| line.find(&format!("\"{name}\":")))
            .collect();
        assert!(places[0] == Some(1) && places.is_sorted(), "keys in the order of the columns: {line}");
    }
    assert_eq!(
        (objects.len(), &objects[0]["scope"], &objects[0]["unknown_ns"]),
        (5, &"host".into(), &Value::Null)
    );
    assert_eq!(objects[0]["ledger_irq_ns"], Value::Null);
    assert_eq!(objects[0]["unattributed_ns"], 54_000_000);
    assert_eq!((&objects[3]["scope"], &objects[3]["unattributed_ns"]), (&"worst".into(), &90_000_000.into()));
    assert_eq!(objects[4]["unattributed_ns"], -40_000_000, "more booked than there was is as bad");
    assert!(table.lines().nth(1).unwrap().starts_with("\"host\",\"'=cmd\",,"), "{table}");
}
