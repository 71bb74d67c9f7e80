//! Numbers and texts from bytes of either order.

/// Bytes of a name in the kernel, its end included.
pub const NAME_BYTES: usize = 16;

/// A thread's name as the kernel has it: up to the first zero.
pub type Name = [u8; NAME_BYTES];

/// Name of an executable, up to the first zero. Longer ones are cut: it has to fit an event without making it larger.
pub type ProgramName = [u8; 48];

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    /// The number that `bytes` encode, at most eight bytes.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, add),
            Self::Big => bytes.iter().fold(0, add),
        }
    }
}

/// A reader over bytes: `rest` has the bytes that are not taken yet.
#[derive(Copy, Clone, Debug)]
pub struct Bytes<'b> {
    pub rest: &'b [u8],
    pub order: Order,
}

impl<'b> Bytes<'b> {
    pub fn new(rest: &'b [u8], order: Order) -> Self {
        Self { rest, order }
    }

    /// Takes `length` bytes; `None` if fewer are left, and then none is taken.
    pub fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Skips `length` bytes; `None` if fewer are left.
    pub fn skip(&mut self, length: u64) -> Option<()> {
        self.take(usize::try_from(length).ok()?).map(|_| ())
    }

    pub fn u16(&mut self) -> Option<u16> {
        u16::try_from(self.order.number(self.take(2)?)).ok()
    }

    pub fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.order.number(self.take(4)?)).ok()
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(self.order.number(self.take(8)?))
    }

    /// Takes the bytes before the next zero, and the zero; `None` if there is no zero.
    pub fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.skip(1)?;
        Some(text)
    }

    /// Bytes with their length in front: a number of `length_bytes` bytes.
    pub fn sized(&mut self, length_bytes: usize) -> Option<&'b [u8]> {
        let length = self.order.number(self.take(length_bytes)?);
        self.take(usize::try_from(length).ok()?)
    }
}

/// The first bytes of `text`, up to a zero, and at least one zero behind them.
pub fn name<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut name = [0; N];
    let text = up_to_zero(text);
    let length = text.len().min(N.saturating_sub(1));
    name[..length].copy_from_slice(&text[..length]);
    name
}

/// The bytes before the first zero; all bytes if there is none.
pub fn up_to_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}
