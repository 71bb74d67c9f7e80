//! The records of a `perf.data`: samples of tracepoints, names and births of threads, lost records.

use super::super::bytes::{Bytes, name};
use super::super::decoder::{Named, RawEvent, RawKind};
use super::header::Header;
use super::layout::{Layout, Stamp};
use crate::file::reader::Ending;

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
/// The thread whose children work for the kernel.
const KTHREADD: u32 = 2;

/// Takes records one by one.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The latest event of each CPU: lost ones came after it.
    latest_ns: Vec<u64>,
    /// Of all CPUs.
    newest_ns: u64,
    last_round: u64,
    pub(super) has_switches: bool,
}

impl Records {
    /// A round ends: perf has read every CPU's buffer once. All is known up to the newest event of the round before.
    pub(super) fn end_round(&mut self) -> u64 {
        std::mem::replace(&mut self.last_round, self.newest_ns)
    }

    /// Takes the body of a record.
    pub(super) fn take(
        &mut self,
        header: &mut Header,
        record: (u32, &[u8]),
        events: &mut Vec<RawEvent>,
        ending: &mut Ending,
    ) {
        let (kind, body) = record;
        let is_read = match kind {
            SAMPLE => self.sample(header, body, events),
            COMM | FORK | LOST | LOST_SAMPLES => self.other(header, record, events, ending),
            _ => Some(()),
        };
        if is_read.is_none() {
            ending.malformed += 1;
        }
    }

    fn sample(&mut self, header: &mut Header, body: &[u8], events: &mut Vec<RawEvent>) -> Option<()> {
        let layout = header.layouts.find(body.get(..8), header.order)?;
        if !layout.is_usable() {
            return Some(());
        }
        let (stamp, raw) = layout.sample(body, header.order)?;
        let cpu = self.note(stamp)?;
        let kind = header.tracepoints.as_mut()?.read(raw).ok()?;
        self.has_switches |= matches!(kind, Some(RawKind::Switch { .. }));
        events.extend(kind.map(|kind| RawEvent { at_ns: stamp.at_ns, cpu, kind }));
        Some(())
    }

    fn note(&mut self, stamp: Stamp) -> Option<u16> {
        let cpu = u16::try_from(stamp.cpu).ok()?;
        let at = usize::from(cpu);
        if at >= self.latest_ns.len() {
            self.latest_ns.resize(at + 1, 0);
        }
        self.latest_ns[at] = self.latest_ns[at].max(stamp.at_ns);
        self.newest_ns = self.newest_ns.max(stamp.at_ns);
        Some(cpu)
    }

    fn other(
        &mut self,
        header: &Header,
        (kind, body): (u32, &[u8]),
        events: &mut Vec<RawEvent>,
        ending: &mut Ending,
    ) -> Option<()> {
        let identifier = body.len().checked_sub(8).and_then(|at| body.get(at..));
        let layout: Layout = header.layouts.find(identifier, header.order)?;
        let (stamp, front) = layout.stamp(body, header.order)?;
        let mut bytes = Bytes::new(front, header.order);
        let mut add = |kind| events.push(RawEvent { at_ns: stamp.at_ns, cpu: 0, kind });
        match kind {
            COMM => {
                let (pid, tid) = (bytes.u32()?, bytes.u32()?);
                add(RawKind::Belongs { tid, pid, is_new: false });
                add(RawKind::Called(Named { tid, name: name(bytes.rest) }));
            }
            FORK => {
                let (pid, parent, tid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
                // perf writes those that were there before it without a time.
                add(RawKind::Belongs { tid, pid, is_new: stamp.at_ns > 0 });
                if parent == KTHREADD || pid == KTHREADD {
                    add(RawKind::Kernel { pid });
                }
            }
            LOST => {
                bytes.skip(8)?;
                let count = bytes.u64()?;
                let cpu = u16::try_from(stamp.cpu).ok()?;
                let since_ns = self.latest_ns.get(usize::from(cpu)).copied().unwrap_or(0);
                let at_ns = if since_ns == 0 { stamp.at_ns } else { since_ns.min(stamp.at_ns) };
                let kind = RawKind::Lost { count, until_ns: stamp.at_ns };
                events.push(RawEvent { at_ns, cpu, kind });
                ending.lost = ending.lost.saturating_add(count);
                self.note(stamp);
            }
            // Of the whole recording, without a time.
            _ => ending.lost = ending.lost.saturating_add(bytes.u64()?),
        }
        Some(())
    }
}
