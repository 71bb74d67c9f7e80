//! v1 datagrams: any bytes are refused or taken, and what was taken comes back the same when it is written and read again.
#![no_main]

use cpumon_wire::v1::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(datagram) = decode(bytes) else { return };
    let mut again = Vec::new();
    // U+FFFD may be longer than the broken bytes that it replaces, so a name may become too long to be sent.
    if encode(&datagram, &mut again).is_ok() {
        assert_eq!(decode(&again), Ok(datagram));
    }
});
