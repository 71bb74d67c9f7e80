//! [`Header`]: the fixed beginning of each v2 datagram. Every datagram has it, so each can be used although
//! others of its snapshot are lost.

use cpumon_model::{BootId, Fields, HostId, Moment, SourceKind};

use super::format::{CARRIED, MAGIC};
use crate::{DecodeError, Reason};

/// The version of the frame layout. A version that old decoders cannot read would get another number; new columns,
/// sections and header fields do not need one.
pub const VERSION: u8 = 2;

/// Length of the header that this program writes, bytes. Longer headers are read, what is new in them is skipped.
pub const HEADER_BYTES: usize = 87;

/// Most datagrams of one snapshot.
pub const MAX_FRAGMENTS: u16 = 16_384;

/// What every datagram says.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Id of the machine that the counters are of.
    pub host: HostId,
    /// Id of its boot: counters of two boots are never compared.
    pub boot: BootId,
    /// One start of the agent.
    pub agent_start: u32,
    /// Number of the snapshot.
    pub sequence: u64,
    /// Which datagram of the snapshot, from 0.
    pub fragment: u16,
    /// Datagrams of the snapshot, at least 1.
    pub fragment_count: u16,
    /// End of the collection pass.
    pub end: Moment,
    /// Which counters are known.
    pub fields: Fields,
    /// What measured the counters, e.g. BPF.
    pub source: SourceKind,
    /// Within this many snapshots every task is sent at least once.
    pub refresh_snapshots: u16,
    /// The snapshot's datagrams together hold every live task.
    pub is_complete: bool,
    /// irq and softirq time is inside the threads' run time.
    pub irq_in_run_time: bool,
}

const COMPLETE: u16 = 1;
const IRQ_IN_RUN_TIME: u16 = 2;
/// Offset of the fragment's number, which the count follows.
const FRAGMENT_AT: usize = 52;

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        let flags = if self.is_complete { COMPLETE } else { 0 }
            | if self.irq_in_run_time { IRQ_IN_RUN_TIME } else { 0 };
        put(&MAGIC);
        put(&[VERSION, 87]);
        put(&flags.to_le_bytes());
        put(&self.host.0);
        put(&self.boot.0);
        put(&self.agent_start.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.fragment.to_le_bytes());
        put(&self.fragment_count.to_le_bytes());
        put(&self.end.mono_ns.to_le_bytes());
        put(&self.end.boot_ns.to_le_bytes());
        put(&self.end.wall_ns.to_le_bytes());
        put(&self.fields.bits().to_le_bytes());
        put(&[self.source.code()]);
        put(&self.refresh_snapshots.to_le_bytes());
        bytes
    }

    /// Numbers the fragments once their count is known.
    pub(crate) fn number_fragments(datagrams: &mut [Vec<u8>]) {
        let count = u16::try_from(datagrams.len()).unwrap_or(u16::MAX);
        for (fragment, datagram) in (0_u16..).zip(datagrams) {
            if let Some(field) = datagram.get_mut(FRAGMENT_AT..FRAGMENT_AT + 4) {
                field[..2].copy_from_slice(&fragment.to_le_bytes());
                field[2..].copy_from_slice(&count.to_le_bytes());
            }
        }
    }

    /// Reads the header and says where the sections begin.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let mut at = 0;
        if field::<4>(bytes, &mut at)? != MAGIC {
            return Err(DecodeError::new(0, Reason::WrongMagic));
        }
        let [version, length] = field(bytes, &mut at)?;
        let length = usize::from(length);
        if version != VERSION {
            return Err(DecodeError::new(4, Reason::UnknownVersion));
        }
        // A longer header is one of a later release, which only appends fields.
        if length < HEADER_BYTES {
            return Err(DecodeError::new(5, Reason::HeaderTooShort));
        }
        if bytes.len() < length {
            return Err(DecodeError::new(bytes.len(), Reason::Truncated));
        }
        let flags = u16::from_le_bytes(field(bytes, &mut at)?);
        let mut header = Self {
            host: HostId(field(bytes, &mut at)?),
            boot: BootId(field(bytes, &mut at)?),
            agent_start: u32::from_le_bytes(field(bytes, &mut at)?),
            sequence: u64::from_le_bytes(field(bytes, &mut at)?),
            fragment: u16::from_le_bytes(field(bytes, &mut at)?),
            fragment_count: u16::from_le_bytes(field(bytes, &mut at)?),
            end: Moment {
                mono_ns: u64::from_le_bytes(field(bytes, &mut at)?),
                boot_ns: u64::from_le_bytes(field(bytes, &mut at)?),
                wall_ns: i64::from_le_bytes(field(bytes, &mut at)?),
            },
            // A bit that is not known here would promise counters that this receiver cannot read.
            fields: CARRIED
                .intersection(Fields::from_bits_truncate(u32::from_le_bytes(field(bytes, &mut at)?))),
            is_complete: flags & COMPLETE != 0,
            irq_in_run_time: flags & IRQ_IN_RUN_TIME != 0,
            ..Self::default()
        };
        let [source] = field(bytes, &mut at)?;
        header.source = SourceKind::from_code(source);
        header.refresh_snapshots = u16::from_le_bytes(field(bytes, &mut at)?);
        if header.fragment >= header.fragment_count || header.fragment_count > MAX_FRAGMENTS {
            return Err(DecodeError::new(FRAGMENT_AT, Reason::BadFragment));
        }
        Ok((header, length))
    }
}

fn field<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], DecodeError> {
    let field = bytes.get(*at..*at + N).and_then(|field| field.try_into().ok());
    let field = field.ok_or(DecodeError::new(*at, Reason::Truncated))?;
    *at += N;
    Ok(field)
}

/// The machine that a frame speaks for; `None` if the bytes do not begin with a header.
#[must_use]
pub fn host_of(frame: &[u8]) -> Option<HostId> {
    Header::decode(frame).ok().map(|(header, _)| header.host)
}
