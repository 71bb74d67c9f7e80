//! Answers from a store: the time that is explained, and refused questions.

use cpumon_model::{Fields, Trust};
use cpumon_store::{StoreOptions, Writer};

use super::super::{Why, WhyQuery, WhySubject};
use super::scene::{BEGIN_NS, SECOND_NS, Scene, host};
use crate::history::History;
use crate::json::Nanos;
use crate::{Answers, GroupBy, QueryError};

/// Ten minutes: `indexer` begins after seven.
fn history() -> (tempfile::TempDir, History) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut quiet = Scene { idle: [600; 2], ..Scene::new() }.with(1, "shop", 90, 80);
    quiet.fields -= Fields::WAITS_FOR;
    let mut busy = Scene::busy().with(1, "shop", 90, 880).with(11, "indexer", 1700, 0);
    busy.fields -= Fields::WAITS_FOR;
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 1..=600 {
        let scene = if second <= 420 { &quiet } else { &busy };
        writer.put(&host().info, Trust::Local, None, &scene.interval(second)).unwrap();
    }
    writer.commit().unwrap();
    let history = History::of_store(&path).unwrap();
    (dir, history)
}

fn at(second: i64) -> i64 {
    BEGIN_NS + second * SECOND_NS
}

#[test]
fn the_time_from_which_on_it_is_slow_is_explained() {
    let (_dir, history) = history();
    let query = WhyQuery { subject: WhySubject::Named("shop".into()), ..WhyQuery::default() };
    let why = history.why("vm", &query).unwrap();
    assert_eq!((why.since_ns, why.until_ns), (Nanos(at(420)), Nanos(at(600))), "of the last five minutes");
    assert_eq!(why.slow_since_ns, Some(Nanos(at(420))));
    let kinds: Vec<&str> = why.causes.iter().map(|cause| cause.cause.name()).collect();
    assert_eq!(kinds, ["saturated"]);
    let culprit = &why.causes[0].culprits[0];
    assert_eq!((&*culprit.name, culprit.before_cpu_pct), ("indexer", Some(0.0)));
    assert_eq!((why.subject.processes, why.subject.threads), (1, Some(1)));
    let ready = |why: &Why| why.before.as_ref().unwrap().states[1].share;
    assert!((0.07..0.09).contains(&ready(&why)), "before it was ready 8 %: {:?}", why.before);
    // Around a moment at which it was not slow.
    let why = history.why("vm", &WhyQuery { at_ns: Some(at(100)), ..query }).unwrap();
    assert_eq!((why.since_ns, why.until_ns), (Nanos(at(70)), Nanos(at(130))));
    assert!(why.causes.iter().all(|cause| cause.cause.name() == "unknown"), "{:?}", why.causes);
}

/// An answer that rested on half of the time seemed to rest on all of it.
#[test]
fn time_in_which_nothing_was_recorded_is_named() {
    for (missing, expected) in [(0, None), (10, None), (40, Some("the 40.0 s in which nothing was recorded"))]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let scene = Scene { idle: [600; 2], ..Scene::new() }.with(1, "shop", 90, 80);
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        for second in (1..=600).filter(|second| !(400..400 + missing).contains(second)) {
            writer.put(&host().info, Trust::Local, None, &scene.interval(second)).unwrap();
        }
        writer.commit().unwrap();
        let why = History::of_store(&path).unwrap().why("vm", &WhyQuery::default()).unwrap();
        assert_eq!((why.since_ns, why.until_ns), (Nanos(at(300)), Nanos(at(600))));
        let sure = &why.sure.not_measured;
        let named = sure.iter().find(|what| what.contains("nothing was recorded"));
        assert_eq!(named.map(String::as_str), expected, "{sure:?}");
    }
}

#[test]
fn wrong_questions_are_refused() {
    let (_dir, history) = history();
    let ask = |query: WhyQuery| history.why("vm", &query).unwrap_err();
    let since = |since_ns: i64| WhyQuery { since_ns: Some(since_ns), ..WhyQuery::default() };
    assert!(matches!(ask(since(at(-172_800))), QueryError::WhyRangeTooLong));
    assert!(matches!(ask(since(at(900))), QueryError::NoData { .. }));
    let later = WhyQuery { since_ns: Some(at(700)), until_ns: Some(at(800)), ..WhyQuery::default() };
    assert!(matches!(ask(later), QueryError::NoData { .. }));
    let subject = WhySubject::Named("nothing".into());
    assert!(matches!(ask(WhyQuery { subject, ..WhyQuery::default() }), QueryError::NoProcess { .. }));
    let subject = WhySubject::Group(GroupBy::Service, "web".into());
    let words = ask(WhyQuery { subject, ..WhyQuery::default() }).to_string();
    assert_eq!(words, "no process of service web did anything in this range");
    assert!(matches!(
        history.why("elsewhere", &WhyQuery::default()),
        Err(QueryError::Store(_) | QueryError::UnknownHost)
    ));
}

/// Threads of 16 processes are read.
#[test]
fn the_number_of_threads_is_known_of_all_processes_or_not_at_all() {
    for (count, expected) in [(16, Some(16)), (17, None)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let mut scene = Scene::new();
        for pid in 1..=count {
            scene = scene.with(pid, "shop", 9, 1);
        }
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        for second in 1..=60 {
            writer.put(&host().info, Trust::Local, None, &scene.interval(second)).unwrap();
        }
        writer.commit().unwrap();
        let query = WhyQuery { subject: WhySubject::Named("shop".into()), ..WhyQuery::default() };
        let why = History::of_store(&path).unwrap().why("vm", &query).unwrap();
        assert_eq!((why.subject.processes, why.subject.threads), (u64::from(count), expected));
    }
}

/// Two hours, of each six minutes of which only the fifth minute was recorded. The detail was read of the first three minutes of a part, in
/// which there was nothing, and SURE named it.
#[test]
fn detail_is_read_where_there_are_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let scene = Scene { idle: [600; 2], ..Scene::new() }.with(1, "shop", 90, 80);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in (1..=7_200).filter(|second| (241..=300).contains(&(second % 360))) {
        writer.put(&host().info, Trust::Local, None, &scene.interval(second)).unwrap();
    }
    writer.compact_host(host().info.host).unwrap();
    drop(writer);
    let subject = WhySubject::Named("shop".into());
    let (since_ns, until_ns) = (Some(at(0)), Some(at(7_200)));
    let query = WhyQuery { subject, since_ns, until_ns, ..WhyQuery::default() };
    let why = History::of_store(&path).unwrap().why("vm", &query).unwrap();
    assert!(why.sure.rests_on[0].contains("sums"), "{:?}", why.sure);
    let of_threads = why.sure.not_measured.iter().find(|what| what.contains("only sums")).unwrap();
    assert!(
        of_threads.contains(", but for 119.0 s from "),
        "from the first interval to the end: {of_threads}"
    );
}
