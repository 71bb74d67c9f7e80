//! Encrypted datagrams against attackers without a key or with an old recording: the group encrypted every accepted datagram, and each
//! is accepted once.

use cpumon_model::HostId;
use cpumon_wire::Datagrams;
use cpumon_wire::encrypted::{
    DecryptError, Decryptor, Encryptor, GroupKey, HEADER_BYTES, MAX_KEYS, OVERHEAD_BYTES,
};

use crate::encrypted_agent::{Agent, frame, key};

fn decryptor(keys: &[GroupKey]) -> Decryptor {
    let mut decryptor = Decryptor::default();
    decryptor.set_keys(keys);
    decryptor
}

#[test]
fn what_the_group_encrypted_comes_out_as_it_went_in() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut decryptor = decryptor(&[key(1)]);
    assert!(!decryptor.knows(HostId([5; 16])));
    for sequence in 1..50 {
        let datagram = agent.datagram();
        assert_eq!(decryptor.decrypt(&datagram).unwrap(), frame(5, 6, sequence));
        assert_eq!(datagram.len(), frame(5, 6, sequence).len() + OVERHEAD_BYTES);
    }
    assert!(decryptor.knows(HostId([5; 16])) && decryptor.decrypted() == 49);
}

#[test]
fn each_changed_byte_and_each_cut_is_refused() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut decryptor = decryptor(&[key(1)]);
    for at in 0..datagram.len() {
        for bit in [1, 0x80] {
            let mut changed = datagram.clone();
            changed[at] ^= bit;
            assert!(decryptor.decrypt(&changed).is_err(), "byte {at}");
        }
        assert!(decryptor.decrypt(&datagram[..at]).is_err(), "cut at {at}");
    }
    let longer = [&datagram[..], &[0]].concat();
    assert!(matches!(decryptor.decrypt(&longer), Err(DecryptError::BadTag(_))));
    assert!(!decryptor.knows(HostId([5; 16])), "nothing of them was kept");
    assert!(decryptor.decrypt(&datagram).is_ok());
}

#[test]
fn a_key_that_is_not_in_use_opens_nothing() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    assert_eq!(decryptor(&[key(2)]).decrypt(&datagram), Err(DecryptError::UnknownKey(key(1).id())));
    assert_eq!(decryptor(&[]).decrypt(&datagram), Err(DecryptError::UnknownKey(key(1).id())));
    // The name of another key on it.
    let mut renamed = datagram.clone();
    renamed[6..10].copy_from_slice(&key(2).id().0.to_le_bytes());
    assert_eq!(decryptor(&[key(2)]).decrypt(&renamed), Err(DecryptError::BadTag(key(2).id())));
}

#[test]
fn two_keys_are_good_while_one_replaces_the_other() {
    let (mut old, mut new) = (Agent::start(&key(1), 1, 1, 100), Agent::start(&key(2), 2, 2, 100));
    let mut decryptor = decryptor(&[key(1)]);
    assert!(decryptor.decrypt(&old.datagram()).is_ok());
    assert!(decryptor.decrypt(&new.datagram()).is_err());
    decryptor.set_keys(&[key(2), key(1)]);
    assert!(decryptor.decrypt(&old.datagram()).is_ok() && decryptor.decrypt(&new.datagram()).is_ok());
    // The device of the old key starts its agent again with the new one: its datagrams are accepted.
    let mut moved = Agent::start(&key(2), 1, 1, 200);
    assert!(decryptor.decrypt(&moved.datagram()).is_ok());
    let recorded = old.datagram();
    decryptor.set_keys(&[key(2)]);
    assert_eq!(decryptor.decrypt(&recorded), Err(DecryptError::UnknownKey(key(1).id())));
    assert!(decryptor.decrypt(&moved.datagram()).is_ok());
    decryptor.set_keys(&[key(2), key(1)]);
    assert_eq!(
        decryptor.decrypt(&recorded),
        Err(DecryptError::Earlier),
        "a key that comes back brings nothing back"
    );
    let many: Vec<GroupKey> = (0..9).map(key).collect();
    decryptor.set_keys(&many);
    assert_eq!(decryptor.key_ids().count(), MAX_KEYS);
}

#[test]
fn nothing_is_taken_twice_in_whatever_order_it_comes() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut decryptor = decryptor(&[key(1)]);
    let sent: Vec<Vec<u8>> = (0..100).map(|_| agent.datagram()).collect();
    for datagram in sent.iter().rev() {
        assert!(decryptor.decrypt(datagram).is_ok());
        assert_eq!(decryptor.decrypt(datagram), Err(DecryptError::Replayed));
    }
    for _ in 0..3_000 {
        decryptor.decrypt(&agent.datagram()).unwrap();
    }
    assert_eq!(decryptor.decrypt(&sent[0]), Err(DecryptError::Replayed), "out of the window");
}

#[test]
fn a_receiver_that_begins_again_remembers() {
    let (mut one, mut other) = (Agent::start(&key(1), 5, 6, 100), Agent::start(&key(1), 5, 6, 900));
    let mut before = decryptor(&[key(1)]);
    let recorded: Vec<Vec<u8>> = (0..20).flat_map(|_| [one.datagram(), other.datagram()]).collect();
    for datagram in &recorded {
        before.decrypt(datagram).unwrap();
    }
    let text = before.memory();
    let mut after = decryptor(&[key(1)]);
    assert_eq!(after.recall(&text), 0, "{text}");
    assert_eq!(after.memory(), text);
    assert!(after.knows(HostId([5; 16])));
    for datagram in &recorded {
        assert_eq!(after.decrypt(datagram), Err(DecryptError::Replayed));
    }
    assert!(after.decrypt(&one.datagram()).is_ok() && after.decrypt(&other.datagram()).is_ok());
    // Without the key these starts are over for good.
    let mut keyless = decryptor(&[key(2)]);
    keyless.recall(&text);
    keyless.set_keys(&[key(1)]);
    assert_eq!(keyless.decrypt(&one.datagram()), Err(DecryptError::Earlier));
    assert!(keyless.decrypt(&Agent::start(&key(1), 5, 6, 901).datagram()).is_ok());
    assert!(
        keyless.decrypt(&Agent::start(&key(1), 5, 7, 3).datagram()).is_ok(),
        "another boot counts from the start"
    );
    assert_eq!(decryptor(&[]).recall("something else\nheard x"), 2);
    assert_eq!(decryptor(&[]).recall("cpumon sealed 1\nheard x\nover 1 2 3\n\n"), 3);
}

#[test]
fn the_agent_starts_of_a_host_are_bounded_and_old_ones_stay_over() {
    let mut decryptor = decryptor(&[key(1)]);
    let mut first = Agent::start(&key(1), 5, 6, 10);
    let recorded = first.datagram();
    assert!(decryptor.decrypt(&recorded).is_ok());
    for start in 1..=20 {
        decryptor.decrypt(&Agent::start(&key(1), 5, 6, 10 + start).datagram()).unwrap();
    }
    assert_eq!(decryptor.decrypt(&recorded), Err(DecryptError::Earlier));
    assert_eq!(decryptor.decrypt(&first.datagram()), Err(DecryptError::Earlier));
    assert_eq!(decryptor.memory().lines().filter(|line| line.starts_with("heard")).count(), 8);
    for boot in 0..200 {
        decryptor.decrypt(&Agent::start(&key(1), 5, boot, 10_000).datagram()).unwrap();
    }
    assert!(decryptor.memory().lines().count() < 100);
}

#[test]
fn a_start_speaks_for_one_host() {
    let group = key(1);
    let mut decryptor = decryptor(std::slice::from_ref(&group));
    let mut encryptor = Encryptor::new(&group, 1, [9; 16]);
    let mut encrypt = |bytes: Vec<u8>| {
        let mut one = Datagrams::from(vec![bytes]);
        encryptor.encrypt(&mut one).unwrap();
        one.as_slice()[0].clone()
    };
    assert!(decryptor.decrypt(&encrypt(frame(1, 1, 1))).is_ok());
    assert_eq!(decryptor.decrypt(&encrypt(frame(2, 1, 2))), Err(DecryptError::OtherHost));
    assert!(matches!(decryptor.decrypt(&encrypt(vec![1, 2, 3])), Err(DecryptError::Malformed(_))));
}

#[test]
fn a_later_version_is_refused_by_name_and_a_longer_header_is_read() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut later = datagram.clone();
    later[4] = 2;
    let error = decryptor(&[key(1)]).decrypt(&later).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
    // What a later program adds to the header is authenticated with the rest: without its tag it is refused.
    let mut longer = datagram.clone();
    longer[5] += 2;
    longer.splice(HEADER_BYTES..HEADER_BYTES, [1, 2]);
    assert!(matches!(decryptor(&[key(1)]).decrypt(&longer), Err(DecryptError::BadTag(_))));
}
