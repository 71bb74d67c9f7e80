//! Options of a `trace.dat`: where its buffers and, in version 7, its sections are.

use super::super::bytes::Bytes;

const DONE: u16 = 0;
const BUFFER: u16 = 3;
const CLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPU_COUNT: u16 = 8;
const TSC: u16 = 14;
pub(super) const HEADER_INFO: u16 = 16;
pub(super) const EVENT_FORMATS: u16 = 18;
pub(super) const COMMAND_LINES: u16 = 21;

/// Instances of ftrace in one file.
const MAX_BUFFERS: usize = 64;
/// Largest CPU number that events have.
pub(super) const MAX_CPUS: u32 = 1 << 16;

/// The data of one CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    pub(super) cpu: u16,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The buffer of the machine, or of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// Where it begins: in version 6 what it has, in version 7 the section with its data.
    pub(super) at: u64,
    /// `None`: as the file says for all.
    pub(super) clock: Option<Box<str>>,
    pub(super) page_bytes: u32,
    pub(super) cpus: Vec<CpuData>,
}

/// From the counts of a time stamp counter to ns.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Tsc {
    factor: u32,
    shift: u32,
}

impl Tsc {
    pub(super) fn ns(self, count: u64) -> u64 {
        let ns = (u128::from(count) * u128::from(self.factor)) >> self.shift.min(127);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// All options together.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) buffers: Vec<Buffer>,
    pub(super) clock: Option<Box<str>>,
    pub(super) host: Box<str>,
    pub(super) cpus: Option<u32>,
    pub(super) tsc: Option<Tsc>,
    pub(super) header_info: Option<u64>,
    pub(super) event_formats: Option<u64>,
    pub(super) command_lines: Option<u64>,
    /// Version 7: where the next options are.
    pub(super) next: Option<u64>,
}

impl Options {
    /// Takes options up to their end. `None`: they are damaged.
    pub(super) fn take(&mut self, bytes: &mut Bytes<'_>, has_sections: bool) -> Option<()> {
        self.next = None;
        loop {
            let id = bytes.u16()?;
            if id == DONE && !has_sections {
                return Some(());
            }
            let mut data = Bytes::new(bytes.sized(4)?, bytes.order);
            match id {
                DONE => {
                    self.next = Some(data.u64()?).filter(|next| *next != 0);
                    return Some(());
                }
                BUFFER if self.buffers.len() < MAX_BUFFERS => {
                    self.buffers.push(if has_sections { buffer(&mut data)? } else { place(&mut data)? });
                }
                CLOCK => self.clock = Some(clock(data.rest)),
                UNAME => self.host = host(data.rest),
                CPU_COUNT => self.cpus = Some(data.u32().filter(|cpus| *cpus <= MAX_CPUS)?),
                TSC => {
                    let (factor, shift) = (data.u32()?, data.u32()?);
                    self.tsc = (factor != 0).then_some(Tsc { factor, shift });
                }
                HEADER_INFO => self.header_info = Some(data.u64()?),
                EVENT_FORMATS => self.event_formats = Some(data.u64()?),
                COMMAND_LINES => self.command_lines = Some(data.u64()?),
                _ => {}
            }
        }
    }
}

/// Of version 6: the place, behind which is the name.
fn place(data: &mut Bytes<'_>) -> Option<Buffer> {
    Some(Buffer { at: data.u64()?, ..Buffer::default() })
}

/// Of version 7.
fn buffer(data: &mut Bytes<'_>) -> Option<Buffer> {
    let at = data.u64()?;
    data.text()?;
    let clock = Some(String::from_utf8_lossy(data.text()?).into());
    let (page_bytes, count) = (data.u32()?, data.u32()?);
    let mut cpus = Vec::new();
    for _ in 0..count {
        let cpu = u16::try_from(data.u32()?).ok()?;
        cpus.push(CpuData { cpu, at: data.u64()?, bytes: data.u64()? });
    }
    Some(Buffer { at, clock, page_bytes, cpus })
}

/// Of `local [mono] boot`: what is in brackets.
fn clock(text: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(text);
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.unwrap_or(&text).trim_matches(['\0', '\n', ' ']).into()
}

/// Of `Linux name release machine`.
fn host(text: &[u8]) -> Box<str> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(255)]);
    text.split_whitespace().nth(1).unwrap_or_default().into()
}
