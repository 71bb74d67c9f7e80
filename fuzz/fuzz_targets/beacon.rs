//! Discovery: any bytes as query and as beacon; the same bytes behind a sound head. What is read comes back the same when it is
//! written and read again, and no beacon is longer than a query.
#![no_main]

use cpumon_wire::beacon::{MAGIC, QUERY_BYTES, Query, SIGNATURE_BYTES, Unverified, VERSION, seal};
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    if let Ok(query) = Query::decode(bytes) {
        assert_eq!(Query::decode(&query.encode()), Ok(query));
    }
    let Ok(read) = Unverified::decode(bytes) else { return };
    let again = seal(&read.beacon.to_sign(), &read.signature);
    assert!(again.len() <= QUERY_BYTES && again.len() <= bytes.len());
    let again = Unverified::decode(&again).expect("what was read can be written");
    assert_eq!((&again.beacon, again.signature), (&read.beacon, read.signature));
    // The signature must be good for all that stands before it, whether it is known here or not.
    assert_eq!(read.signed_message()[16..], bytes[..bytes.len() - SIGNATURE_BYTES]);
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    for kind in [1, 2] {
        let mut headed = [&MAGIC[..], &[VERSION, kind, 0, 0], bytes].concat();
        let signed = headed.len().saturating_sub(SIGNATURE_BYTES).min(usize::from(u16::MAX)) as u16;
        headed[6..8].copy_from_slice(&signed.to_le_bytes());
        read(&headed);
    }
});
