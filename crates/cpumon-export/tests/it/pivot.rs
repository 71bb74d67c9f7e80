//! The pivot against a brute-force oracle that keeps everything in memory and follows each process by itself.

use std::collections::{BTreeMap, BTreeSet};

use cpumon_export::{ExportQuery, GroupBy, Kind, PivotValue};
use cpumon_model::{Flags, Interval, Life, ProcessKey};
use proptest::prelude::*;

use crate::fixture::{Store, interval, process};

const NAMES: [&str; 4] = ["a", "b", "c", "kworker/0:1"];

/// A process's life: number, first and last interval, name, and its run time in each.
#[derive(Clone, Debug)]
struct Actor {
    pid: u32,
    start: usize,
    end: usize,
    name: &'static str,
    work: Vec<i64>,
}

fn actors(intervals: usize) -> impl Strategy<Value = Vec<Actor>> {
    let one = (
        1_u32..4,
        0..intervals,
        0..intervals,
        0..NAMES.len(),
        prop::collection::vec(prop_oneof![Just(0), 1_i64..9], intervals),
    );
    prop::collection::vec(one, 0..6).prop_map(|all| {
        let mut taken = BTreeSet::new();
        all.into_iter()
            .map(|(pid, a, b, name, work)| Actor {
                pid,
                start: a.min(b),
                end: a.max(b),
                name: NAMES[name],
                work,
            })
            .filter(|actor| taken.insert(actor.pid))
            .collect()
    })
}

/// The intervals as the store keeps them: a row only for tasks that worked, began or ended.
fn record(actors: &[Actor], intervals: usize) -> Vec<Interval> {
    (0..intervals)
        .map(|at| {
            let mut one = interval(i64::try_from(at).unwrap() + 1);
            for actor in actors.iter().filter(|actor| (actor.start..=actor.end).contains(&at)) {
                let mut row = process(actor.pid, actor.name, actor.work[at]);
                row.delta.run_ns = actor.work[at];
                // A process in the first interval was alive before; one in the last lives on.
                row.life = match (at == actor.start && at > 0, at == actor.end && at + 1 < intervals) {
                    (true, true) => Life::BornEnded,
                    (true, false) => Life::Born,
                    (false, true) => Life::Ended,
                    (false, false) => Life::Alive,
                };
                one.processes.push(row);
            }
            one.processes.sort_by_key(|row| row.key);
            one
        })
        .collect()
}

/// Label → cell for each interval.
fn oracle(actors: &[Actor], intervals: usize, by: GroupBy) -> Vec<BTreeMap<String, i64>> {
    let was_seen = |actor: &Actor| {
        let works = actor.work[actor.start..=actor.end].iter().any(|work| *work > 0);
        works || actor.start > 0 || actor.end + 1 < intervals
    };
    (0..intervals)
        .map(|at| {
            let mut cells = BTreeMap::new();
            for actor in
                actors.iter().filter(|actor| was_seen(actor) && (actor.start..=actor.end).contains(&at))
            {
                let label = match by {
                    GroupBy::Process => format!("{}[{}]", actor.name, actor.pid),
                    _ => actor.name.to_owned(),
                };
                *cells.entry(label).or_insert(0) += actor.work[at];
            }
            cells
        })
        .collect()
}

fn parse(text: &str) -> Vec<BTreeMap<String, i64>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            let cells = header.iter().zip(record.iter()).skip(6).filter(|(_, cell)| !cell.is_empty());
            cells.map(|(name, cell)| (name.to_owned(), cell.parse().unwrap())).collect()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn cells_are_those_of_the_oracle(actors in actors(6), by_process in any::<bool>()) {
        let by = if by_process { GroupBy::Process } else { GroupBy::Name };
        let store = Store::of(record(&actors, 6).into_iter().map(|one| ("h", one)));
        let query = ExportQuery { kind: Kind::Pivot, group_by: by, ..ExportQuery::default() };
        let (text, report) = store.export(&query);
        prop_assert_eq!(report.rows, 6);
        prop_assert_eq!(parse(&text), oracle(&actors, 6, by));
    }
}

fn pivot(store: &Store, by: GroupBy, value: PivotValue) -> Vec<BTreeMap<String, String>> {
    let query = ExportQuery { kind: Kind::Pivot, group_by: by, pivot_value: value, ..ExportQuery::default() };
    let text = store.export(&query).0;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let cells = |record: csv::StringRecord| {
        header
            .iter()
            .zip(record.iter())
            .skip(6)
            .map(|(name, cell)| (name.to_owned(), cell.to_owned()))
            .collect()
    };
    reader.records().map(|record| cells(record.unwrap())).collect()
}

#[test]
fn a_restart_ends_every_life() {
    let mut first = interval(1);
    first.processes = vec![process(1, "x", 5)];
    let mut after = interval(3);
    after.flags = Flags::RESTART;
    let store = Store::of([("h", first), ("h", interval(2)), ("h", after)]);
    let cells: Vec<_> =
        pivot(&store, GroupBy::Name, PivotValue::User).iter().map(|row| row["x"].clone()).collect();
    assert_eq!(cells, ["5", "0", ""]);
}

#[test]
fn reused_pids_are_columns_of_their_own_and_kernel_threads_a_family() {
    let mut one = interval(1);
    let mut first = process(1, "kworker/0:1", 5);
    let mut second = process(1, "kworker/0:1", 7);
    second.key = ProcessKey { pid: 1, start_ns: 99 };
    for row in [&mut first, &mut second] {
        std::sync::Arc::make_mut(&mut row.info).is_kernel = true;
    }
    one.processes = vec![first, second];
    let store = Store::of([("h", one)]);
    let of = |by| pivot(&store, by, PivotValue::User).remove(0).into_iter().collect::<Vec<_>>();
    let pair = |name: &str, cell: &str| (name.to_owned(), cell.to_owned());
    assert_eq!(of(GroupBy::Process), [pair("kworker/0:1[1]", "5"), pair("kworker/0:1[1]#2", "7")]);
    assert_eq!(of(GroupBy::Name), [pair("kworker/0:1", "12")]);
    assert_eq!(of(GroupBy::Program), [pair("kworker", "12")]);
    let pct = pivot(&store, GroupBy::Program, PivotValue::Pct).remove(0);
    assert_eq!(pct["kworker"], "0.0000014", "14 ns of a second");
}

#[test]
fn users_and_containers_are_columns_too() {
    let mut one = interval(1);
    let (mut web, mut other) = (process(1, "web", 5), process(2, "db", 7));
    std::sync::Arc::make_mut(&mut web.info).container = "docker:a".into();
    std::sync::Arc::make_mut(&mut other.info).uid = 0;
    one.processes = vec![web, other];
    let store = Store::of([("h", one), ("h", interval(2))]);
    let of =
        |by| pivot(&store, by, PivotValue::User).into_iter().map(|row| row.into_iter().collect::<Vec<_>>());
    let pair = |name: &str, cell: &str| (name.to_owned(), cell.to_owned());
    let users: Vec<_> = of(GroupBy::User).collect();
    assert_eq!(users, [[pair("1000", "5"), pair("root", "7")], [pair("1000", "0"), pair("root", "0")]]);
    let containers: Vec<_> = of(GroupBy::Container).collect();
    assert_eq!(containers[0], [pair("(none)", "7"), pair("docker:a", "5")]);
}

#[test]
fn what_is_not_measured_is_empty() {
    let mut one = interval(1);
    one.fields.remove(cpumon_model::Fields::SYSTEM);
    one.processes = vec![process(1, "x", 5)];
    let store = Store::of([("h", one)]);
    assert_eq!(pivot(&store, GroupBy::Name, PivotValue::System)[0]["x"], "");
    assert_eq!(pivot(&store, GroupBy::Name, PivotValue::Run)[0]["x"], "6");
}
