//! [`Records`]: reads a segment record by record and reports what is damaged. It never searches for the next
//! record behind a damaged head: a name in a payload could be a copy of a record.

use super::header::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::record::{Entry, Head, RECORD_HEADER_BYTES};

/// What is wrong with some bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// The file does not begin with a segment's header.
    #[error("the segment's header is damaged, or this is no segment of a version that is known here")]
    Header,
    /// A record's head is damaged: the rest of the segment cannot be read.
    #[error("the head of a record is damaged: the rest of the segment cannot be read")]
    Head,
    /// A record's payload is damaged; the next record can be read.
    #[error("a record is damaged")]
    Payload,
    /// Numbers do not ascend.
    #[error("a record's number is not above the one before")]
    Order,
}

/// Bytes of a segment that cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Byte offset in the segment.
    pub offset: usize,
    /// What is wrong with the bytes there.
    pub reason: DamageReason,
    /// The number of the record, if its head can be trusted.
    pub number: Option<u64>,
}

/// What comes next in a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A sound record.
    Entry(Entry<'a>),
    /// Something that cannot be used. Reading can go on.
    Damaged(Damaged),
    /// The end. `tail_bytes`: bytes of a last record that was begun and not ended (the writer was killed, or still writes).
    End {
        /// Bytes of the unfinished record; 0 if the segment ends with a whole one.
        tail_bytes: usize,
    },
}

/// Reads the records of a segment in order, with [`Records::step`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: SegmentHeader,
    bytes: &'a [u8],
    at: usize,
    newest: Option<u64>,
    has_ended: bool,
}

impl<'a> Records<'a> {
    /// Begins with the header.
    ///
    /// # Errors
    /// It is damaged.
    pub fn new(segment: &'a [u8]) -> Result<Self, Damaged> {
        match SegmentHeader::decode(segment) {
            Some((header, at)) => Ok(Self { header, bytes: segment, at, newest: None, has_ended: false }),
            None => Err(Damaged { offset: 0, reason: DamageReason::Header, number: None }),
        }
    }

    /// Begins behind a header that cannot be read: what the records say of their numbers can still be counted.
    #[must_use]
    pub fn without_header(segment: &'a [u8]) -> Self {
        // The length in a damaged header cannot be trusted, so the header is taken to be as long as ours.
        let header = SegmentHeader::default();
        Self { header, bytes: segment, at: SEGMENT_HEADER_BYTES, newest: None, has_ended: false }
    }

    /// A piece of a segment that begins with a record; it has no header.
    #[must_use]
    pub fn within(piece: &'a [u8]) -> Self {
        let header = SegmentHeader::default();
        Self { header, bytes: piece, at: 0, newest: None, has_ended: false }
    }

    /// The segment's header.
    #[must_use]
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Where the next record begins, or where the sound ones end.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next record. After [`Step::End`] there is nothing but the same end.
    pub fn step(&mut self) -> Step<'a> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.len() < RECORD_HEADER_BYTES || self.has_ended {
            return self.end(if self.has_ended { 0 } else { rest.len() });
        }
        let Some(head) = Head::decode(rest) else {
            // A file system may have made the file longer before it wrote the bytes.
            if rest.iter().all(|&byte| byte == 0) {
                return self.end(rest.len());
            }
            self.has_ended = true;
            return self.damaged(DamageReason::Head, None);
        };
        // A sound head with a cut payload: the writer was killed, or still writes.
        let Some(payload) = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + head.length) else {
            return self.end(rest.len());
        };
        let damage = match head.entry(payload) {
            _ if self.newest.is_some_and(|newest| head.number <= newest) => DamageReason::Order,
            Some(entry) => {
                self.newest = Some(head.number);
                self.at += RECORD_HEADER_BYTES + head.length;
                return Step::Entry(entry);
            }
            None => DamageReason::Payload,
        };
        // The head has a checksum of its own and it is right, so its length leads to the next record.
        let step = self.damaged(damage, Some(head.number));
        self.at += RECORD_HEADER_BYTES + head.length;
        step
    }

    /// Behind a damaged head: the greatest number that records there had, as far as their own heads can be made out. For counting
    /// only. A name may be a copy of a head, so no number is believed that so many bytes could not hold.
    #[must_use]
    pub fn greatest_behind(&self) -> u64 {
        let newest = self.newest.unwrap_or(0);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let most = newest.saturating_add(1 + (rest.len() / RECORD_HEADER_BYTES) as u64);
        let heads = (1..rest.len()).filter_map(|at| Head::decode(rest.get(at..)?));
        let numbers = heads.map(|head| head.number).filter(|number| *number <= most);
        numbers.fold(newest.saturating_add(1), u64::max)
    }

    fn end(&mut self, tail_bytes: usize) -> Step<'a> {
        self.has_ended = true;
        Step::End { tail_bytes }
    }

    fn damaged(&self, reason: DamageReason, number: Option<u64>) -> Step<'a> {
        Step::Damaged(Damaged { offset: self.at, reason, number })
    }
}
