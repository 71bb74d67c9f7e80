//! Discovery: any bytes as a query and as an answer. Whatever is read as a receiver can be announced and read again.
#![no_main]

use cpumon_wire::dns_sd::{Instance, PORT, ReplyTo, answer, read_answer, read_query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let own = Instance { name: "own".into(), pin: [1; 32], addresses: vec![([10, 0, 0, 1], 3002).into()] };
    for port in [PORT, 40_000] {
        let _ = read_query(bytes, port, &own);
    }
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    for instance in read_answer(bytes, id).unwrap_or_default() {
        let again = answer(&instance, ReplyTo::Resolver { id });
        assert_eq!(read_answer(&again, id), Ok(vec![instance]));
    }
});
