//! The kernel's descriptions of tracepoints as perf and trace-cmd store them: one after the other, behind a magic.

use super::bytes::{Bytes, Order};
use super::formats::Format;
use super::tracepoints::Tracepoints;

pub(super) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Systems of tracepoints, and tracepoints of one system: no kernel has that many.
const MAX_COUNT: u32 = 100_000;

/// What they begin with.
pub(super) struct Intro<'b> {
    pub(super) version: &'b [u8],
    pub(super) order: Order,
    pub(super) page_bytes: u32,
}

/// Takes the begin. From then on `bytes` has the order that it says.
pub(super) fn take_intro<'b>(bytes: &mut Bytes<'b>) -> Option<Intro<'b>> {
    bytes.rest = bytes.rest.strip_prefix(MAGIC)?;
    let version = bytes.text()?;
    let order = if *bytes.take(1)?.first()? == 0 { Order::Little } else { Order::Big };
    bytes.order = order;
    // Bytes of a long.
    bytes.skip(1)?;
    Some(Intro { version, order, page_bytes: bytes.u32()? })
}

/// Takes the layouts of a page and of an event, each behind its title and length.
pub(super) fn take_page_layout<'b>(bytes: &mut Bytes<'b>) -> Option<&'b [u8]> {
    bytes.rest = bytes.rest.strip_prefix(b"header_page\0")?;
    let page = bytes.sized(8)?;
    bytes.rest = bytes.rest.strip_prefix(b"header_event\0")?;
    bytes.sized(8)?;
    Some(page)
}

/// Takes the descriptions of ftrace's own events, which say nothing of the scheduler.
pub(super) fn skip_own(bytes: &mut Bytes<'_>) -> Option<()> {
    for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
        bytes.sized(8)?;
    }
    Some(())
}

/// Takes the descriptions of all systems.
pub(super) fn take_systems(bytes: &mut Bytes<'_>, tracepoints: &mut Tracepoints) -> Option<()> {
    for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
        let system = bytes.text()?;
        let is_ours = matches!(system, b"sched" | b"task" | b"irq");
        for _ in 0..bytes.u32().filter(|count| *count <= MAX_COUNT)? {
            let text = bytes.sized(8)?;
            if let Some(format) = is_ours.then(|| Format::parse(&String::from_utf8_lossy(text))).flatten() {
                tracepoints.add(&format);
            }
        }
    }
    Some(())
}

/// Reads what perf stores as its feature *tracing data*.
pub(super) fn read(raw: &[u8]) -> Option<Tracepoints> {
    let mut bytes = Bytes::new(raw, Order::Little);
    let mut tracepoints = Tracepoints::new(take_intro(&mut bytes)?.order);
    take_page_layout(&mut bytes)?;
    skip_own(&mut bytes)?;
    take_systems(&mut bytes, &mut tracepoints)?;
    Some(tracepoints)
}
