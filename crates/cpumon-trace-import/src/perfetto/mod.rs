//! Traces of Perfetto: packets of protobuf; only packets with scheduler events, processes and clocks are read.
//!
//! Packets are read with the few lines of `packets` and not with a crate: `prost` makes of an event of two bytes a structure of hundreds,
//! `quick-protobuf` is not maintained. Field numbers are those of Perfetto's public schema.

mod bundle;
mod packets;

use std::io::{Read, Seek, SeekFrom};

use cpumon_model::Moment;
use cpumon_trace::{Ending, FileHeader, ReadError};

use crate::decoder::{Decoder, DecoderStep, NO_SWITCH_LEFT, RawTrace};
use bundle::{Bundles, take_processes};
use packets::{PACKET, Packets, ProtobufValue, Small, fields};

// Fields of a packet.
const FTRACE_EVENTS: u64 = 1;
const PROCESS_TREE: u64 = 2;
const CLOCK_SNAPSHOT: u64 = 6;
const TIMESTAMP: u64 = 8;
const SYSTEM_INFO: u64 = 45;
const COMPRESSED: u64 = 50;

// Clocks.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// Packets that are read before the events they gave are handed on.
const PACKETS_A_STEP: u32 = 1024;
const EVENTS_A_STEP: usize = 1 << 16;
/// Packets that are searched for the clocks: a recorder writes them first.
const FIRST_PACKETS: u32 = 256;
const NO_SWITCHES: &str =
    "it has no switches of the scheduler; record it with the data source linux.ftrace and sched/sched_switch";

pub(crate) struct Perfetto<R> {
    packets: Packets<R>,
    bundles: Bundles,
}

/// Whether a file may be one: it begins with a packet.
pub(crate) fn is_perfetto(first_bytes: &[u8]) -> bool {
    first_bytes.first() == Some(&PACKET)
}

impl<R: Read + Seek> Perfetto<R> {
    /// Reads the clocks, and goes back to the begin.
    pub(crate) fn open(from: R) -> Result<(Self, FileHeader), ReadError> {
        let mut packets = Packets::new(from);
        let (mut ending, mut began) = (Ending::default(), Moment::default());
        for number in 0..FIRST_PACKETS {
            let Some(packet) = packets.next(&mut ending)? else {
                if number == 0 {
                    return Err(ReadError::Foreign);
                }
                break;
            };
            let mut unpacked = None;
            let is_sound = fields(packet, |field, value| {
                match (field, value) {
                    (CLOCK_SNAPSHOT, ProtobufValue::Bytes(snapshot)) => began = moment(snapshot)?,
                    (COMPRESSED, ProtobufValue::Bytes(packed)) => unpacked = Some(packed.to_vec()),
                    _ => {}
                }
                Some(())
            });
            // Many other files may begin with this byte.
            if number == 0 && is_sound.is_none() {
                return Err(ReadError::Foreign);
            }
            if began.wall_ns != 0 {
                break;
            }
            if let Some(packed) = unpacked {
                let _ = packets.unpack(&packed);
            }
        }
        let mut from = packets.into_inner();
        from.seek(SeekFrom::Start(0))?;
        let header = FileHeader { began, ..FileHeader::default() };
        Ok((Self { packets: Packets::new(from), bundles: Bundles::new() }, header))
    }

    /// The next packet. False: it was the last one.
    fn packet(&mut self, out: &mut RawTrace<'_>) -> std::io::Result<bool> {
        let Some(packet) = self.packets.next(out.ending)? else { return Ok(false) };
        // Each is in a packet once: of more the last one counts, so that their events are bounded.
        let (mut at_ns, mut bundle, mut tree, mut packed) = (0, None, None, None);
        let bundles = &mut self.bundles;
        let is_sound = fields(packet, |field, value| {
            match (field, value) {
                (FTRACE_EVENTS, ProtobufValue::Bytes(bytes)) => bundle = Some(bytes),
                (PROCESS_TREE, ProtobufValue::Bytes(bytes)) => tree = Some(bytes),
                (TIMESTAMP, ProtobufValue::Number(time)) => at_ns = time,
                (SYSTEM_INFO, ProtobufValue::Bytes(info)) => {
                    let names = Small::parse(Small::parse(info)?.text(1))?;
                    bundles.set_release(names.text(3));
                }
                (COMPRESSED, ProtobufValue::Bytes(bytes)) => packed = Some(bytes.to_vec()),
                _ => {}
            }
            Some(())
        });
        let is_sound = is_sound.and_then(|()| bundle.map_or(Some(()), |bundle| bundles.take(bundle, out)));
        let is_sound =
            is_sound.and_then(|()| tree.map_or(Some(()), |tree| take_processes(tree, at_ns, out.events)));
        let is_sound = is_sound.and_then(|()| packed.map_or(Some(()), |packed| self.packets.unpack(&packed)));
        out.ending.malformed += u64::from(is_sound.is_none());
        Ok(true)
    }
}

/// `ClockSnapshot`: the same moment on several clocks.
fn moment(snapshot: &[u8]) -> Option<Moment> {
    let mut moment = Moment::default();
    fields(snapshot, |field, value| {
        let (1, ProtobufValue::Bytes(clock)) = (field, value) else { return Some(()) };
        let clock = Small::parse(clock)?;
        match clock.number(1) {
            BOOTTIME => (moment.mono_ns, moment.boot_ns) = (clock.number(2), clock.number(2)),
            REALTIME => moment.wall_ns = i64::try_from(clock.number(2)).ok()?,
            _ => {}
        }
        Some(())
    })?;
    Some(if moment.boot_ns == 0 { Moment::default() } else { moment })
}

impl<R: Read + Seek + Send> Decoder for Perfetto<R> {
    fn step(&mut self, out: &mut RawTrace<'_>) -> Result<DecoderStep, ReadError> {
        let before = out.events.len();
        for _ in 0..PACKETS_A_STEP {
            if !self.packet(out)? {
                if !self.bundles.has_switches {
                    let is_damaged = out.ending.damaged_at.is_some() || out.ending.malformed > 0;
                    return Err(ReadError::Unusable(if is_damaged { NO_SWITCH_LEFT } else { NO_SWITCHES }));
                }
                return Ok(DecoderStep::End);
            }
            if out.events.len() - before >= EVENTS_A_STEP {
                break;
            }
        }
        Ok(DecoderStep::More)
    }
}
