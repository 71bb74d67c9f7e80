//! A page of the kernel's ring buffer: a time, a length, and records with the time since the record before.

use cpumon_sched::{Bytes, Order};

use crate::tracepoints::{TracepointField, TracepointFormat};

// Kinds of records; smaller ones are the length of the data in words of four bytes.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

const DELTA_BITS: u32 = 27;
/// A time stamp has 59 bits; the others are those of the time before.
const TIME_STAMP_BITS: u32 = 59;

// Of the length of a page.
const LENGTH: u64 = (1 << DELTA_BITS) - 1;
/// `RB_MISSED_EVENTS`: events before this page were lost.
const MISSED: u64 = 1 << 31;
/// `RB_MISSED_STORED`: their number follows the records.
const MISSED_STORED: u64 = 1 << 30;

#[derive(Copy, Clone, Debug)]
pub(super) struct PageLayout {
    order: Order,
    time: TracepointField,
    length: TracepointField,
    data_at: usize,
}

/// Unread records of a page.
pub(super) struct RingBufferPage<'p> {
    records: Bytes<'p>,
    /// The time of the last record that was taken; before that, of the page, which is that of its first record, mostly.
    pub(super) at: u64,
    /// Number of events missing in front of the page; 0: some, but the number is not known.
    pub(super) missed: Option<u64>,
}

impl PageLayout {
    /// Parses the kernel's `events/header_page`.
    pub(super) fn parse(text: &[u8], order: Order) -> Option<Self> {
        let format = TracepointFormat::parse(&format!("name: page\n{}", String::from_utf8_lossy(text)))?;
        let data_at = format.field("data")?.offset;
        Some(Self { order, time: format.field("timestamp")?, length: format.field("commit")?, data_at })
    }

    /// Opens a page; `None` if it is damaged.
    pub(super) fn open<'p>(&self, page: &'p [u8]) -> Option<RingBufferPage<'p>> {
        let length = self.length.number(page, self.order)?;
        let data = page.get(self.data_at..)?;
        let (records, behind) = data.split_at_checked(usize::try_from(length & LENGTH).ok()?)?;
        let mut count = Bytes::new(behind, self.order);
        let missed = (length & MISSED != 0).then(|| {
            let is_stored = length & MISSED_STORED != 0;
            let count = if self.length.size == 8 { count.u64() } else { count.u32().map(u64::from) };
            count.filter(|_| is_stored).unwrap_or(0)
        });
        Some(RingBufferPage {
            records: Bytes::new(records, self.order),
            at: self.time.number(page, self.order)?,
            missed,
        })
    }
}

impl<'p> RingBufferPage<'p> {
    /// The next record and its time. Behind the last one `Ok(None)`, at a damage `Err`.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &'p [u8])>, ()> {
        while !self.records.rest.is_empty() {
            let Some((kind, data)) = self.take() else { return Err(()) };
            match kind {
                PADDING if data.is_empty() => return Ok(None),
                PADDING | TIME_EXTEND | TIME_STAMP => {}
                _ => return Ok(Some((self.at, data))),
            }
        }
        Ok(None)
    }

    fn take(&mut self) -> Option<(u32, &'p [u8])> {
        let records = &mut self.records;
        let head = records.u32()?;
        let (kind, delta) = match records.order {
            Order::Little => (head & 0x1f, head >> 5),
            Order::Big => (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1)),
        };
        let delta = u64::from(delta);
        let data: &[u8] = match kind {
            // The rest of the page has nothing.
            PADDING if delta == 0 => {
                records.rest = &[];
                return Some((kind, &[]));
            }
            // A record that was taken back.
            PADDING => {
                let length = records.u32()?;
                records.rest = records.rest.get(usize::try_from(length.checked_sub(4)?).ok()?..)?;
                &[0]
            }
            TIME_EXTEND => {
                let high = u64::from(records.u32()?);
                self.at = self.at.wrapping_add(high << DELTA_BITS);
                &[]
            }
            TIME_STAMP => {
                let high = u64::from(records.u32()?);
                let known = self.at >> TIME_STAMP_BITS << TIME_STAMP_BITS;
                self.at = known | (high << DELTA_BITS | delta) & ((1 << TIME_STAMP_BITS) - 1);
                return Some((kind, &[]));
            }
            LONG => {
                let length = usize::try_from(records.u32()?.checked_sub(4)?).ok()?;
                records.take(length.checked_next_multiple_of(4)?)?
            }
            words => records.take(usize::try_from(words).ok()? * 4)?,
        };
        self.at = self.at.wrapping_add(delta);
        Some((kind, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(order: Order, flags: u64, words: &[u32]) -> Vec<u8> {
        let length = (4 * words.len() as u64) | flags;
        let number = |value: u64| match order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        };
        let mut page = [number(1_000), number(length)].concat();
        for word in words {
            page.extend(match order {
                Order::Little => word.to_le_bytes(),
                Order::Big => word.to_be_bytes(),
            });
        }
        page.extend(number(5));
        page
    }

    fn head(order: Order, kind: u32, delta: u32) -> u32 {
        if order == Order::Little { kind | delta << 5 } else { kind << 27 | delta }
    }

    #[test]
    fn records_are_found_in_either_order_of_bytes() {
        for order in [Order::Little, Order::Big] {
            let layout = PageLayout::parse(HEADER, order).unwrap();
            let words = [
                head(order, 1, 10),
                0x1111_1111,
                head(order, PADDING, 1),
                8,
                0,
                head(order, TIME_EXTEND, 2),
                1,
                head(order, LONG, 3),
                11,
                0x2222_2222,
                0x2222_2222,
                head(order, TIME_STAMP, 7),
                4,
                head(order, 2, 0),
                0x3333_3333,
                0x3333_3333,
                head(order, PADDING, 0),
                0xffff,
            ];
            let whole = page(order, MISSED | MISSED_STORED, &words);
            let mut read = layout.open(&whole).unwrap();
            assert_eq!((read.at, read.missed), (1_000, Some(5)));
            let mut found = Vec::new();
            while let Some((at, data)) = read.next().unwrap() {
                found.push((at, data.len(), data[0]));
            }
            let extended = 1_011 + (1 << 27) + 2;
            assert_eq!(found, [(1_010, 4, 0x11), (extended + 3, 8, 0x22), (4 << 27 | 7, 8, 0x33)]);
            assert_eq!(layout.open(&page(order, MISSED, &words)).unwrap().missed, Some(0));
            assert_eq!(layout.open(&page(order, 0, &words)).unwrap().missed, None);
        }
    }

    #[test]
    fn what_does_not_fit_its_page_is_damage() {
        let layout = PageLayout::parse(HEADER, Order::Little).unwrap();
        assert!(layout.open(&page(Order::Little, 0, &[])[..12]).is_none());
        let long = page(Order::Little, 4_000, &[1]);
        assert!(layout.open(&long).is_none(), "a length beyond the page");
        for words in
            [&[5_u32, 0][..], &[0], &[0, 3], &[0, 0xffff_fff0], &[TIME_EXTEND], &[PADDING | 1 << 5, 99]]
        {
            let page = page(Order::Little, 0, words);
            assert!(layout.open(&page).unwrap().next().is_err(), "{words:?}");
        }
        assert!(PageLayout::parse(b"field: u64 timestamp;\toffset:0;\tsize:8;", Order::Little).is_none());
    }
}
