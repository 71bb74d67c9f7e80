//! Agents that encrypt their datagrams. Shared with the receiver's tests.

use cpumon_model::{BootId, HostId, HostInfo, Interval, Snapshot};
use cpumon_wire::Datagrams;
use cpumon_wire::encrypted::{Encryptor, GroupKey};
use cpumon_wire::v2::{Encoder, EncoderOptions};

/// A group key.
pub fn key(of: u8) -> GroupKey {
    GroupKey::new([of; 32])
}

/// A frame of this host and boot, with nothing in it.
pub fn frame(host: u8, boot: u8, sequence: u64) -> Vec<u8> {
    let info = HostInfo { host: HostId([host; 16]), boot: BootId([boot; 16]), ..HostInfo::default() };
    let snapshot = Snapshot { host: info.host, boot: info.boot, sequence, ..Snapshot::default() };
    let mut datagrams = Datagrams::new();
    Encoder::new(EncoderOptions::default()).encode(&info, &snapshot, &Interval::default(), &mut datagrams);
    datagrams.as_slice()[0].clone()
}

/// One agent start.
pub struct Agent {
    pub encryptor: Encryptor,
    host: u8,
    boot: u8,
    sequence: u64,
}

impl Agent {
    pub fn start(group: &GroupKey, host: u8, boot: u8, started: u64) -> Self {
        let random = (u128::from(started) << 16 | u128::from(host) << 8 | u128::from(boot)).to_be_bytes();
        Self { encryptor: Encryptor::new(group, started, random), host, boot, sequence: 0 }
    }

    pub fn datagram(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let mut one = Datagrams::from(vec![frame(self.host, self.boot, self.sequence)]);
        self.encryptor.encrypt(&mut one).unwrap();
        one.as_slice()[0].clone()
    }
}
