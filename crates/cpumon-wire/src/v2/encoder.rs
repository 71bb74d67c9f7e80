//! [`Encoder`]: one snapshot as frames. In: a complete snapshot and the interval it ends. Out: datagrams.
//! Why it keeps state: it knows which names were sent already and whose turn it is to be repeated.

use cpumon_model::{HostInfo, Interval, Snapshot};

use crate::Datagrams;

/// How to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EncoderOptions {
    /// Longest datagram, bytes (UDP payload): 1,400 passes every common tunnel. 512 to 65,000.
    pub max_datagram: usize,
    /// Within this many snapshots each task is sent at least once, changed or not. At least 1.
    pub refresh_snapshots: u32,
    /// This many snapshots after the start hold every task.
    pub full_snapshots: u32,
    /// Tells agent starts apart: any number that differs from start to start, e.g. the wall clock's ns.
    pub stream: u64,
}

impl Default for EncoderOptions {
    fn default() -> Self {
        Self { max_datagram: 1_400, refresh_snapshots: 30, full_snapshots: 2, stream: 0 }
    }
}

/// Turns snapshots into frames.
#[derive(Debug)]
pub struct Encoder {
    options: EncoderOptions,
}

impl Encoder {
    /// For one stream, from its first snapshot.
    #[must_use]
    pub fn new(options: EncoderOptions) -> Self {
        Self { options }
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &EncoderOptions {
        &self.options
    }

    /// Writes the frames of one complete snapshot; `interval` ends with it and says which threads changed.
    /// For the first snapshot, which ends no interval, pass an empty one.
    pub fn encode(
        &mut self,
        _host: &HostInfo,
        _snapshot: &Snapshot,
        _interval: &Interval,
        out: &mut Datagrams,
    ) {
        out.clear();
    }
}
