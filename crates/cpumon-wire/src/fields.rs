//! [`FieldReader`]: reads little-endian fields one after the other; [`WireField`]: one that is written, too.

use cpumon_model::{BootId, HostId, Moment};

/// The bytes that are not read yet. A field that reaches beyond their end leaves them as they are.
#[derive(Debug)]
pub(crate) struct FieldReader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(field)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

/// A field that is encoded and decoded by itself.
pub(crate) trait WireField<'a>: Sized {
    fn push(&self, out: &mut Vec<u8>);

    /// Reads it; `None` if the bytes end inside it, or it cannot be.
    fn take(fields: &mut FieldReader<'a>) -> Option<Self>;
}

macro_rules! little_endian {
    ($($number:ident)+) => {
        $(impl WireField<'_> for $number {
            fn push(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(fields: &mut FieldReader<'_>) -> Option<Self> {
                fields.take().map(Self::from_le_bytes)
            }
        })+
    };
}

little_endian! { u16 u32 u64 i64 }

impl<const N: usize> WireField<'_> for [u8; N] {
    fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(fields: &mut FieldReader<'_>) -> Option<Self> {
        fields.take()
    }
}

/// Types around one other field.
macro_rules! around_field {
    ($($of:ident)+) => {
        $(impl crate::fields::WireField<'_> for $of {
            fn push(&self, out: &mut Vec<u8>) {
                crate::fields::WireField::push(&self.0, out);
            }

            fn take(fields: &mut crate::fields::FieldReader<'_>) -> Option<Self> {
                crate::fields::WireField::take(fields).map(Self)
            }
        })+
    };
}
pub(crate) use around_field;

around_field! { HostId BootId }

/// Fields of one byte.
macro_rules! in_a_byte {
    ($($of:ty: $to_byte:expr, $from_byte:expr;)+) => {
        $(impl crate::fields::WireField<'_> for $of {
            fn push(&self, out: &mut Vec<u8>) {
                out.push($to_byte(*self));
            }

            fn take(fields: &mut crate::fields::FieldReader<'_>) -> Option<Self> {
                fields.take().map(|[byte]| $from_byte(byte))
            }
        })+
    };
}
pub(crate) use in_a_byte;

in_a_byte! { bool: u8::from, |byte| byte != 0; }

/// A struct whose fields lie one after the other.
macro_rules! in_order {
    ($of:ident { $($field:ident),+ }) => {
        impl crate::fields::WireField<'_> for $of {
            fn push(&self, out: &mut Vec<u8>) {
                $(crate::fields::WireField::push(&self.$field, out);)+
            }

            fn take(fields: &mut crate::fields::FieldReader<'_>) -> Option<Self> {
                Some(Self { $($field: crate::fields::WireField::take(fields)?),+ })
            }
        }
    };
}
pub(crate) use in_order;

in_order!(Moment { mono_ns, boot_ns, wall_ns });
