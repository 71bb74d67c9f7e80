//! Numbers and texts from bytes of either order.

/// Bytes of a name in the kernel, its end included.
pub const NAME_BYTES: usize = 16;

/// A thread's name as the kernel has it: up to the first zero.
pub type Name = [u8; NAME_BYTES];

/// Name of an executable, up to the first zero. Longer ones are cut: it has to fit an event without making it larger.
pub type ProgramName = [u8; 48];

/// The order of the bytes of a number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lowest byte comes first.
    Little,
    /// The highest one does.
    Big,
}

impl Order {
    /// A number of so many bytes, at most eight.
    #[must_use]
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, add),
            Self::Big => bytes.iter().fold(0, add),
        }
    }
}

/// What is left to be taken of some bytes.
#[derive(Copy, Clone, Debug)]
pub struct Bytes<'b> {
    /// Not taken yet.
    pub rest: &'b [u8],
    /// That of the numbers.
    pub order: Order,
}

impl<'b> Bytes<'b> {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(rest: &'b [u8], order: Order) -> Self {
        Self { rest, order }
    }

    /// So many bytes; `None`: there are fewer, and all are left.
    pub fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// As [`Bytes::take`].
    pub fn skip(&mut self, length: u64) -> Option<()> {
        self.take(usize::try_from(length).ok()?).map(|_| ())
    }

    /// A number of 2 bytes.
    pub fn u16(&mut self) -> Option<u16> {
        u16::try_from(self.order.number(self.take(2)?)).ok()
    }

    /// A number of 4 bytes.
    pub fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.order.number(self.take(4)?)).ok()
    }

    /// A number of 8 bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(self.order.number(self.take(8)?))
    }

    /// Up to the next zero, which is taken too.
    pub fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.skip(1)?;
        Some(text)
    }

    /// Bytes behind their length.
    pub fn sized(&mut self, length_bytes: usize) -> Option<&'b [u8]> {
        let length = self.order.number(self.take(length_bytes)?);
        self.take(usize::try_from(length).ok()?)
    }
}

/// The first bytes of `text`, up to a zero, and at least one zero behind them.
#[must_use]
pub fn name<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut name = [0; N];
    let text = up_to_zero(text);
    let length = text.len().min(N.saturating_sub(1));
    name[..length].copy_from_slice(&text[..length]);
    name
}

/// What is in front of the first zero.
#[must_use]
pub fn up_to_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}
