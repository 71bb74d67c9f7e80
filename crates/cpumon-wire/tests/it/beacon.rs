//! Queries and beacons: what went in comes out; a changed byte changes what was signed; nothing reads beyond.

use std::net::SocketAddr;

use cpumon_wire::Reason;
use cpumon_wire::beacon::{
    Beacon, KEY_BYTES, MAX_ADDRESSES, MAX_NAME_BYTES, QUERY_BYTES, Query, SIGNATURE_BYTES, Unverified, seal,
};
use proptest::prelude::*;

const SIGNATURE: [u8; SIGNATURE_BYTES] = [0xee; SIGNATURE_BYTES];

fn example() -> Beacon<'static> {
    Beacon {
        nonce: std::array::from_fn(|at| u8::try_from(at).unwrap()),
        sequence: 7,
        wall_ns: 1_700_000_000_000_000_000,
        key: std::array::from_fn(|at| if at == 0 { 4 } else { 0x40 + u8::try_from(at).unwrap() }),
        addresses: vec!["10.0.0.2:3002".parse().unwrap(), "[fd77::2]:3002".parse().unwrap()],
        name: "desk",
    }
}

fn datagram(beacon: &Beacon<'_>) -> Vec<u8> {
    seal(&beacon.to_sign(), &SIGNATURE)
}

prop_compose! {
    fn address()(ip in any::<[u8; 16]>(), v4 in any::<[u8; 4]>(), is_v4 in any::<bool>(), port in 1_u16..) -> SocketAddr {
        if is_v4 { SocketAddr::new(v4.into(), port) } else { SocketAddr::new(ip.into(), port) }
    }
}

fn can_be(address: &SocketAddr) -> bool {
    let ip = address.ip();
    let is_broadcast = ip == std::net::IpAddr::from([255; 4]);
    !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast && ip.to_canonical() == ip
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_query_comes_back(nonce in any::<[u8; 16]>(), wanted in proptest::option::of(any::<[u8; 32]>())) {
        let query = Query { nonce, wanted: wanted.filter(|pin| *pin != [0; 32]) };
        prop_assert_eq!(Query::decode(&query.encode()), Ok(query));
    }

    #[test]
    fn a_beacon_comes_back_and_is_shorter_than_a_query(
        nonce in any::<[u8; 16]>(),
        sequence in any::<u64>(),
        wall_ns in any::<i64>(),
        key in any::<[u8; 32]>(),
        addresses in prop::collection::vec(address().prop_filter("an address of a machine", can_be), 1..=MAX_ADDRESSES),
        name in "\\PC{0,80}",
        flip in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut point = [4; KEY_BYTES];
        point[1..33].copy_from_slice(&key);
        let beacon = Beacon { nonce, sequence, wall_ns, key: point, addresses, name: &name };
        let bytes = datagram(&beacon);
        prop_assert!(bytes.len() <= QUERY_BYTES, "{} bytes", bytes.len());
        let read = Unverified::decode(&bytes).unwrap();
        let cut = &name[..name.floor_char_boundary(MAX_NAME_BYTES.min(name.len()))];
        prop_assert_eq!(&read.beacon, &Beacon { name: cut, ..beacon.clone() });
        prop_assert_eq!(read.signed_message(), beacon.to_sign());
        prop_assert_eq!(read.signature, SIGNATURE);
        // Whatever bit was changed: refused, or seen by whoever checks the signature.
        let mut changed = bytes.clone();
        changed[flip.index(bytes.len())] ^= 1 << bit;
        if let Ok(read) = Unverified::decode(&changed) {
            prop_assert!(read.signed_message() != beacon.to_sign() || read.signature != SIGNATURE);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..QUERY_BYTES + 9)) {
        let _ = (Query::decode(&bytes), Unverified::decode(&bytes));
        let mut framed = datagram(&example());
        let length = bytes.len().min(framed.len() - 8);
        framed[8..8 + length].copy_from_slice(&bytes[..length]);
        let _ = Unverified::decode(&framed);
    }
}

#[test]
fn what_was_cut_or_has_a_field_that_cannot_be_is_refused() {
    let bytes = datagram(&example());
    for length in 0..bytes.len() {
        assert!(Unverified::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(Unverified::decode(&[&bytes[..], &[0]].concat()).is_err(), "one byte more");
    let query = Query { nonce: [1; 16], wanted: None }.encode();
    assert_eq!(Query::decode(&query[..QUERY_BYTES - 1]).unwrap_err().reason, Reason::Truncated);
    assert!(Query::decode(&bytes).is_err() && Unverified::decode(&query).is_err(), "one is not the other");
    for (at, byte, reason) in [
        (0, 0, Reason::WrongMagic),
        (4, 2, Reason::UnknownVersion),
        (5, 9, Reason::UnknownVersion),
        (6, 20, Reason::OutOfRange),
        (105, 0, Reason::OutOfRange),
        (105, 9, Reason::OutOfRange),
        // The first address: 224.0.0.2; the last byte of the name: no UTF-8.
        (106 + 12, 224, Reason::OutOfRange),
        (106 + 36 + 2 + 3, 0xff, Reason::OutOfRange),
        (106 + 36, 65, Reason::NameTooLong),
    ] {
        let mut wrong = bytes.clone();
        wrong[at] = byte;
        assert_eq!(Unverified::decode(&wrong).unwrap_err().reason, reason, "byte {at} is {byte}");
    }
}

#[test]
fn fields_of_a_later_version_are_signed_and_skipped() {
    let mut to_sign = example().to_sign();
    to_sign.extend_from_slice(b"more");
    let signed = u16::try_from(to_sign.len() - 16).unwrap();
    to_sign[22..24].copy_from_slice(&signed.to_le_bytes());
    let bytes = seal(&to_sign, &SIGNATURE);
    let read = Unverified::decode(&bytes).unwrap();
    assert_eq!((read.beacon.clone(), read.signed_message()), (example(), to_sign));
}

/// The hexadecimal lines of the block that follows a heading.
fn documented(heading: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/discovery.md");
    let (_, rest) = page.split_once(heading).expect("the heading is there");
    let block = rest.split("```").nth(1).expect("a block follows");
    let digits =
        block.lines().skip(1).flat_map(|line| line.trim_start().split("  ").nth(1).unwrap_or("").split(' '));
    digits.filter(|byte| !byte.is_empty()).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn the_worked_example_is_right() {
    let bytes = datagram(&example());
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(documented("### A worked example"), bytes, "{}", hex.join(" "));
}
