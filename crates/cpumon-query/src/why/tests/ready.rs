//! Time that the CPUs, their limits, the hypervisor and interrupts take.

use cpumon_model::{Fields, WaitKind, WaitedOn};

use super::super::{Why, WhySubject};
use super::scene::{MS, SECONDS, Scene, why_after, why_of, why_shop};

const READY: WaitKind = WaitKind::Ready;

fn kinds(why: &Why) -> Vec<&'static str> {
    why.causes.iter().map(|cause| cause.cause.name()).collect()
}

/// An idle CPU loses nothing to the hypervisor, so its time does not count.
#[test]
fn steal_is_a_share_of_the_time_in_which_there_was_work() {
    let little = Scene { idle: [50; 2], steal: 120, ..Scene::new() }.with(1, "shop", 700, 20);
    let why = why_shop(&little);
    assert!(why.causes.is_empty(), "6 %: {:#?}", why.causes);
    let much = Scene { idle: [900; 2], steal: 50, ..Scene::new() }.with(1, "shop", 140, 400).waits(
        1,
        READY,
        WaitedOn::Others,
        390,
    );
    let why = why_shop(&much);
    let steal = why.causes.iter().find(|cause| cause.cause.name() == "steal");
    let steal = steal.unwrap_or_else(|| panic!("{:#?}", why.causes));
    assert!(steal.sentence.starts_with("The hypervisor took 25 % of the time in which"), "{steal:#?}");
    let machine = Scene { idle: [400; 2], steal: 300, ..Scene::new() }.with(1, "shop", 300, 0);
    let why = why_after(&machine, &machine, &WhySubject::Machine);
    assert_eq!(kinds(&why), ["steal"], "15 % of all time: {:#?}", why.causes);
}

#[test]
fn interrupts_count_where_the_subject_ran() {
    let with_irq = |softirq: i64| {
        let scene = Scene { softirq, fields: Scene::new().fields | Fields::IRQ, ..Scene::busy() };
        scene.with(1, "shop", 750, 150).whose_thread(|thread| thread.cpu = Some(0)).waits(
            1,
            READY,
            WaitedOn::Others,
            140,
        )
    };
    let subject = WhySubject::Named("shop".into());
    let ask = |softirq: i64| {
        let [before, mut now] = [(2, 0), (softirq, SECONDS)].map(|(ms, from)| with_irq(ms).intervals(from));
        for interval in &mut now {
            interval.cpus[0].times.softirq_ns = (softirq * MS).unsigned_abs();
        }
        why_of(&before, &now, &subject)
    };
    let few = ask(80);
    assert!(!kinds(&few).contains(&"interrupts"), "7 % of its CPU: {:#?}", few.causes);
    let many = ask(160);
    assert!(kinds(&many).contains(&"interrupts"), "8 % of all CPUs, 14 % of its own: {:#?}", many.causes);
}
