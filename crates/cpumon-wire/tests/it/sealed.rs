//! Sealed datagrams against everybody who has no key, or an old recording: what is let in was sealed by the group, once.

use cpumon_model::HostId;
use cpumon_wire::Datagrams;
use cpumon_wire::sealed::{GroupKey, HEADER_BYTES, MAX_KEYS, OVERHEAD_BYTES, Opener, SealError, Sealer};

use crate::sealed_agent::{Agent, frame, key};

fn opener(keys: &[GroupKey]) -> Opener {
    let mut opener = Opener::default();
    opener.set_keys(keys);
    opener
}

#[test]
fn what_the_group_sealed_comes_out_as_it_went_in() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut opener = opener(&[key(1)]);
    assert!(!opener.knows(HostId([5; 16])));
    for sequence in 1..50 {
        let datagram = agent.datagram();
        assert_eq!(opener.open(&datagram).unwrap(), frame(5, 6, sequence));
        assert_eq!(datagram.len(), frame(5, 6, sequence).len() + OVERHEAD_BYTES);
    }
    assert!(opener.knows(HostId([5; 16])) && opener.opened() == 49);
}

#[test]
fn each_changed_byte_and_each_cut_breaks_the_seal() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut opener = opener(&[key(1)]);
    for at in 0..datagram.len() {
        for bit in [1, 0x80] {
            let mut changed = datagram.clone();
            changed[at] ^= bit;
            assert!(opener.open(&changed).is_err(), "byte {at}");
        }
        assert!(opener.open(&datagram[..at]).is_err(), "cut at {at}");
    }
    let longer = [&datagram[..], &[0]].concat();
    assert!(matches!(opener.open(&longer), Err(SealError::BadSeal(_))));
    assert!(!opener.knows(HostId([5; 16])), "nothing of them was kept");
    assert!(opener.open(&datagram).is_ok());
}

#[test]
fn a_key_that_is_not_in_use_opens_nothing() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    assert_eq!(opener(&[key(2)]).open(&datagram), Err(SealError::UnknownKey(key(1).id())));
    assert_eq!(opener(&[]).open(&datagram), Err(SealError::UnknownKey(key(1).id())));
    // Whoever writes another key's name on it.
    let mut renamed = datagram.clone();
    renamed[6..10].copy_from_slice(&key(2).id().0.to_le_bytes());
    assert_eq!(opener(&[key(2)]).open(&renamed), Err(SealError::BadSeal(key(2).id())));
}

#[test]
fn two_keys_are_good_while_one_replaces_the_other() {
    let (mut old, mut new) = (Agent::start(&key(1), 1, 1, 100), Agent::start(&key(2), 2, 2, 100));
    let mut opener = opener(&[key(1)]);
    assert!(opener.open(&old.datagram()).is_ok());
    assert!(opener.open(&new.datagram()).is_err());
    opener.set_keys(&[key(2), key(1)]);
    assert!(opener.open(&old.datagram()).is_ok() && opener.open(&new.datagram()).is_ok());
    // The device of the old key starts its agent anew with the new one: the host goes on.
    let mut moved = Agent::start(&key(2), 1, 1, 200);
    assert!(opener.open(&moved.datagram()).is_ok());
    let recorded = old.datagram();
    opener.set_keys(&[key(2)]);
    assert_eq!(opener.open(&recorded), Err(SealError::UnknownKey(key(1).id())));
    assert!(opener.open(&moved.datagram()).is_ok());
    opener.set_keys(&[key(2), key(1)]);
    assert_eq!(opener.open(&recorded), Err(SealError::Earlier), "a key that comes back brings nothing back");
    let many: Vec<GroupKey> = (0..9).map(key).collect();
    opener.set_keys(&many);
    assert_eq!(opener.key_ids().count(), MAX_KEYS);
}

#[test]
fn nothing_is_taken_twice_in_whatever_order_it_comes() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut opener = opener(&[key(1)]);
    let sent: Vec<Vec<u8>> = (0..100).map(|_| agent.datagram()).collect();
    for datagram in sent.iter().rev() {
        assert!(opener.open(datagram).is_ok());
        assert_eq!(opener.open(datagram), Err(SealError::Replayed));
    }
    for _ in 0..3_000 {
        opener.open(&agent.datagram()).unwrap();
    }
    assert_eq!(opener.open(&sent[0]), Err(SealError::Replayed), "out of the window");
}

#[test]
fn a_receiver_that_begins_again_remembers() {
    let (mut one, mut other) = (Agent::start(&key(1), 5, 6, 100), Agent::start(&key(1), 5, 6, 900));
    let mut before = opener(&[key(1)]);
    let recorded: Vec<Vec<u8>> = (0..20).flat_map(|_| [one.datagram(), other.datagram()]).collect();
    for datagram in &recorded {
        before.open(datagram).unwrap();
    }
    let text = before.memory();
    let mut after = opener(&[key(1)]);
    assert_eq!(after.recall(&text), 0, "{text}");
    assert_eq!(after.memory(), text);
    assert!(after.knows(HostId([5; 16])));
    for datagram in &recorded {
        assert_eq!(after.open(datagram), Err(SealError::Replayed));
    }
    assert!(after.open(&one.datagram()).is_ok() && after.open(&other.datagram()).is_ok());
    // Without the key these starts are over for good.
    let mut keyless = opener(&[key(2)]);
    keyless.recall(&text);
    keyless.set_keys(&[key(1)]);
    assert_eq!(keyless.open(&one.datagram()), Err(SealError::Earlier));
    assert!(keyless.open(&Agent::start(&key(1), 5, 6, 901).datagram()).is_ok());
    assert!(keyless.open(&Agent::start(&key(1), 5, 7, 3).datagram()).is_ok(), "another boot counts anew");
    assert_eq!(opener(&[]).recall("something else\nheard x"), 2);
    assert_eq!(opener(&[]).recall("cpumon sealed 1\nheard x\nover 1 2 3\n\n"), 3);
}

#[test]
fn the_agent_starts_of_a_host_are_bounded_and_old_ones_stay_over() {
    let mut opener = opener(&[key(1)]);
    let mut first = Agent::start(&key(1), 5, 6, 10);
    let recorded = first.datagram();
    assert!(opener.open(&recorded).is_ok());
    for start in 1..=20 {
        opener.open(&Agent::start(&key(1), 5, 6, 10 + start).datagram()).unwrap();
    }
    assert_eq!(opener.open(&recorded), Err(SealError::Earlier));
    assert_eq!(opener.open(&first.datagram()), Err(SealError::Earlier));
    assert_eq!(opener.memory().lines().filter(|line| line.starts_with("heard")).count(), 8);
    for boot in 0..200 {
        opener.open(&Agent::start(&key(1), 5, boot, 10_000).datagram()).unwrap();
    }
    assert!(opener.memory().lines().count() < 100);
}

#[test]
fn a_start_speaks_for_one_host() {
    let group = key(1);
    let mut opener = opener(std::slice::from_ref(&group));
    let mut sealer = Sealer::new(&group, 1, [9; 16]);
    let mut seal = |bytes: Vec<u8>| {
        let mut one = Datagrams::from(vec![bytes]);
        sealer.seal(&mut one).unwrap();
        one.as_slice()[0].clone()
    };
    assert!(opener.open(&seal(frame(1, 1, 1))).is_ok());
    assert_eq!(opener.open(&seal(frame(2, 1, 2))), Err(SealError::OtherHost));
    assert!(matches!(opener.open(&seal(vec![1, 2, 3])), Err(SealError::Malformed(_))));
}

#[test]
fn a_later_version_is_refused_by_name_and_a_longer_header_is_read() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut later = datagram.clone();
    later[4] = 2;
    let error = opener(&[key(1)]).open(&later).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
    // What a later program adds to the header is authenticated with the rest: without its seal it is broken.
    let mut longer = datagram.clone();
    longer[5] += 2;
    longer.splice(HEADER_BYTES..HEADER_BYTES, [1, 2]);
    assert!(matches!(opener(&[key(1)]).open(&longer), Err(SealError::BadSeal(_))));
}
