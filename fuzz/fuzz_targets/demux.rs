//! A receiver that gets a series of datagrams from two senders: each is a length of up to 64 kB, a byte of
//! choices and that many bytes.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::Moment;
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::v2::{HEADER_BYTES, MAGIC, VERSION};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut demux = Demux::new(DemuxOptions { max_hosts: 8, ..DemuxOptions::default() });
    let mut rest = bytes;
    let mut now = Moment::default();
    while let [low, high, choices, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (datagram, tail) = tail.split_at(length);
        rest = tail;
        now.mono_ns += 50_000_000;
        let from = SocketAddr::new(Ipv4Addr::from_bits(u32::from(choices >> 7)).into(), 3001);
        let mut bytes = datagram.to_vec();
        // Most get the beginning of a frame.
        if choices & 0x40 == 0 && bytes.len() >= HEADER_BYTES {
            bytes[..4].copy_from_slice(&MAGIC);
            (bytes[4], bytes[5]) = (VERSION, HEADER_BYTES as u8);
            bytes[10..44].fill(0);
        }
        let _ = demux.accept(&bytes, from, now, &mut |_, _| {});
        demux.flush(now, &mut |_, _| {});
    }
});
