use super::*;

/// 100 datagrams and 10,000 bytes a second.
const RATES: [Rate; 2] =
    [Rate { amount: 100, seconds: 1, burst_ms: 2_000 }, Rate { amount: 10_000, seconds: 1, burst_ms: 2_000 }];

fn source(number: u32) -> Source {
    IpAddr::V4(number.into()).into()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_ipv6_network_is_one_source_and_each_neighbour_on_the_link_its_own() {
    let is_one = |one: &str, other: &str| Source::from(ip(one)) == Source::from(ip(other));
    assert!(is_one("2001:db8::1", "2001:db8::ffff:0:0:1") && !is_one("2001:db8::1", "2001:db8:0:1::1"));
    assert!(is_one("10.0.0.1", "::ffff:10.0.0.1") && !is_one("::ffff:10.0.0.1", "::ffff:10.0.0.2"));
    assert!(!is_one("fe80::1", "fe80::2"));
    for (address, shown) in [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1", "fe80::1"),
        ("::1", "::1"),
    ] {
        assert_eq!(Source::from(ip(address)).to_string(), shown);
    }
}

#[test]
fn a_source_gets_its_rate_and_a_burst_and_takes_nothing_from_others() {
    let mut table = SourceTable::new(RATES, 8, Overflow::Share);
    let mut taken = 0;
    for number in 0..20_000_u64 {
        // 2000 a second for ten seconds.
        taken += u64::from(table.take(source(1), [1, 10], number * 500_000).is_ok());
        if number % 200 == 0 {
            assert!(table.take(source(2), [1, 10], number * 500_000).is_ok(), "ten a second");
        }
    }
    assert!((1_190..=1_201).contains(&taken), "2 s at once, and 10 s: {taken}");
}

#[test]
fn bytes_count_as_well_and_0_is_no_limit() {
    let mut table = SourceTable::new(RATES, 8, Overflow::Share);
    let taken = (0..100).filter(|_| table.take(source(1), [1, 1_000], 0).is_ok()).count();
    assert_eq!(taken, 20);
    assert!(table.take(source(2), [1, 30_000], 0).is_err(), "more than it may ever send at once");
    let mut table = SourceTable::new(RATES.map(|rate| Rate { amount: 0, ..rate }), 8, Overflow::Share);
    assert!((0..100_000).all(|_| table.take(source(3), [1, 60_000], 0).is_ok()));
}

#[test]
fn a_flood_of_sources_is_bounded_and_newcomers_are_taken() {
    let most = 8_192;
    let mut table = SourceTable::new(RATES, most, Overflow::Share);
    for number in 0..100_000 {
        // Each once, 200,000 a second: by the time the table is full the first ones are quiet again.
        assert!(table.take(source(number), [1, 10], u64::from(number) * 5_000).is_ok());
        assert!(table.sources.len() <= most);
    }
    // All at one moment: no source is quiet, and those without a place share.
    let mut table = SourceTable::new(RATES, most, Overflow::Share);
    let taken = (0..20_000).filter(|&number| table.take(source(number), [1, 10], 7).is_ok()).count();
    assert_eq!((table.sources.len(), taken), (most, most + 200));
    assert!(table.take(source(30_000), [1, 10], 7 + SECOND_NS).is_ok(), "a second later there is space");
}

#[test]
fn a_full_table_that_evicts_takes_every_newcomer() {
    let mut table =
        SourceTable::new([Rate { amount: 1, seconds: 10, burst_ms: 50_000 }], 1_024, Overflow::Evict);
    for number in 0..3_000 {
        assert_eq!(table.take(source(number), [1], 0), Ok(()));
    }
    assert_eq!(table.sources.len(), 1_024);
}

#[test]
fn five_tries_then_one_each_ten_seconds_and_a_right_one_costs_nothing() {
    let all = Rate { amount: 1, seconds: 2, burst_ms: 60_000 };
    let of_source = Rate { amount: 1, seconds: 10, burst_ms: 50_000 };
    let mut limiter = Limiter::new(all, of_source, 8, Overflow::Evict);
    let (sender, neighbour, ten_s_ns) = (ip("2001:db8::1"), ip("2001:db8::ffff"), 10 * SECOND_NS);
    assert!((0..5).all(|_| limiter.take(sender, 0).is_ok()));
    assert_eq!(limiter.take(neighbour, 0), Err(Duration::from_secs(10)), "the same network");
    assert_eq!(limiter.take(ip("10.0.0.1"), 0), Ok(()));
    assert_eq!(limiter.take(sender, ten_s_ns), Ok(()));
    assert!(limiter.take(sender, ten_s_ns).is_err());
    limiter.give_back(sender);
    assert_eq!(limiter.take(sender, ten_s_ns), Ok(()));
    // Seven were taken in all, and 10 s brought five back.
    assert_eq!((0..100).filter(|_| limiter.take_of_all(ten_s_ns).is_ok()).count(), 28);
    assert_eq!(limiter.take_of_all(ten_s_ns), Err(Duration::from_secs(2)));
}

#[test]
fn what_is_taken_at_once_counts_by_its_amount() {
    let mut bucket = Bucket::new(Rate { amount: 1_000, seconds: 1, burst_ms: 4_000 });
    assert_eq!([bucket.take_many(3_000, 0), bucket.take_many(1_000, 0)], [Ok(()), Ok(())]);
    assert_eq!(bucket.take_many(500, 0), Err(Duration::from_millis(500)));
    assert_eq!(bucket.take_many(500, SECOND_NS / 2), Ok(()));
    assert!(bucket.take_many(4_001, 100 * SECOND_NS).is_err(), "more than there ever is at once");
}

#[test]
fn what_was_used_already_is_waited_for() {
    let mut bucket = Bucket::new(Rate { amount: 1_000, seconds: 1, burst_ms: 4_000 });
    bucket.spend(3_999, 0);
    assert!(bucket.has_left(0));
    bucket.spend(3_001, 0);
    assert!(!bucket.has_left(3 * SECOND_NS) && bucket.has_left(3 * SECOND_NS + 1));
}

#[test]
fn places_are_bounded_for_each_source_and_in_all_and_come_back() {
    let places = Places::default();
    let enter = |text: &str| places.enter(ip(text), 3, 5);
    let mut held: Vec<Place> = (1..=3).map(|nth| enter(&format!("2001:db8::{nth}")).unwrap()).collect();
    assert!(enter("2001:db8::ffff").is_none(), "the same network");
    held.extend(["10.0.0.1", "10.0.0.2"].map(|text| enter(text).unwrap()));
    assert!(enter("10.0.0.3").is_none() && places.count() == 5);
    drop(held.swap_remove(0));
    held.extend(enter("2001:db8::ffff"));
    assert_eq!(held.len(), 5);
    drop(held);
    assert!(places.lock().is_empty());
}
