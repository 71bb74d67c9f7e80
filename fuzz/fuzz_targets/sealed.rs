//! Encrypted datagrams: any bytes at a receiver that has a key; the same bytes as header and as content that is encrypted soundly; and
//! a receiver's memory of agent starts.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::Moment;
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::Datagrams;
use cpumon_wire::encrypted::{Decryptor, Encryptor, GroupKey, HEADER_BYTES, MAGIC, VERSION};
use libfuzzer_sys::fuzz_target;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 3001);

fuzz_target!(|bytes: &[u8]| {
    let key = GroupKey::new([7; 32]);
    let mut demux = Demux::new(DemuxOptions {
        max_hosts: 8,
        accept_v1: false,
        accept_v2: false,
        ..DemuxOptions::default()
    });
    demux.decryptor.set_keys(std::slice::from_ref(&key));
    let mut take = |datagram: &[u8]| demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {}).is_ok();
    assert!(!take(bytes), "without the key nothing is let in");
    let mut headed = bytes.to_vec();
    if headed.len() >= HEADER_BYTES {
        headed[..4].copy_from_slice(&MAGIC);
        (headed[4], headed[5]) = (VERSION, headed[5].max(HEADER_BYTES as u8));
        headed[6..10].copy_from_slice(&key.id().0.to_le_bytes());
        assert!(!take(&headed), "a header alone is not enough");
    }
    // From somebody who has the key, in pieces of the length that the first byte says; each piece twice.
    let (&length, content) = bytes.split_first().unwrap_or((&0, &[]));
    let mut encryptor = Encryptor::new(&key, 1, [9; 16]);
    for piece in content.chunks(usize::from(length).max(1)).take(64) {
        let mut one = Datagrams::from(vec![piece.to_vec()]);
        if encryptor.encrypt(&mut one).is_ok() {
            for datagram in &one {
                take(datagram);
                assert!(!take(datagram), "nothing is taken twice");
            }
        }
    }
    let memory = demux.decryptor.memory();
    let mut decryptor = Decryptor::default();
    decryptor.set_keys(std::slice::from_ref(&key));
    assert_eq!(decryptor.recall(&memory), 0);
    assert_eq!(decryptor.memory(), memory);
    decryptor.recall(&String::from_utf8_lossy(bytes));
    decryptor.recall(&format!("cpumon sealed 1\n{}", String::from_utf8_lossy(bytes)));
});
