//! Fields of a protobuf message, one by one.

use crate::file::varint;

const NUMBER: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const SIZED: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// What a field has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'b> {
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(&'b [u8]),
    /// A kind that none of the fields that are read has.
    Other,
}

/// Takes a field from the front. `None`: there is no sound one.
pub(super) fn field<'b>(bytes: &mut &'b [u8]) -> Option<(u64, Value<'b>)> {
    let tag = varint::take(bytes)?;
    let mut take = |length: u64| {
        let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        *bytes = rest;
        Some(taken)
    };
    let value = match tag & 7 {
        EIGHT_BYTES => take(8).map(|_| Value::Other)?,
        FOUR_BYTES => take(4).map(|_| Value::Other)?,
        SIZED => {
            let length = varint::take(bytes)?;
            let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
            *bytes = rest;
            Value::Bytes(taken)
        }
        NUMBER => Value::Number(varint::take(bytes)?),
        _ => return None,
    };
    (tag >> 3 != 0).then_some((tag >> 3, value))
}

/// Visits all fields. `None`: the message is damaged, or `visit` says so.
pub(super) fn fields<'b>(
    mut bytes: &'b [u8],
    mut visit: impl FnMut(u64, Value<'b>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let (number, value) = field(&mut bytes)?;
        visit(number, value)?;
    }
    Some(())
}

/// Fields of this and lower numbers are those that events have.
const FIELDS: usize = 9;

/// The last value of each field of a small message.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Small<'b> {
    numbers: [u64; FIELDS],
    texts: [&'b [u8]; FIELDS],
}

impl<'b> Small<'b> {
    pub(super) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let mut small = Self::default();
        fields(bytes, |number, value| {
            let at = usize::try_from(number).unwrap_or(FIELDS);
            match value {
                Value::Number(value) if at < FIELDS => small.numbers[at] = value,
                Value::Bytes(text) if at < FIELDS => small.texts[at] = text,
                _ => {}
            }
            Some(())
        })?;
        Some(small)
    }

    /// 0 if it is not there.
    pub(super) fn number(&self, field: usize) -> u64 {
        self.numbers.get(field).copied().unwrap_or(0)
    }

    /// Empty if it is not there.
    pub(super) fn text(&self, field: usize) -> &'b [u8] {
        self.texts.get(field).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds_are_passed_and_unsound_ones_refused() {
        let sound = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0xf8, 7, 9,
        ];
        let mut found = Vec::new();
        fields(&sound, |number, value| {
            found.push((number, value));
            Some(())
        })
        .unwrap();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Other),
            (4, Value::Other),
            (127, Value::Number(9)),
        ];
        assert_eq!(found, expected);
        let small = Small::parse(&sound).unwrap();
        assert_eq!(
            (small.number(1), small.text(2), small.number(7), small.text(8)),
            (150, &b"hi"[..], 0, &b""[..])
        );
        for bad in [
            &[0x08][..],
            &[0x12, 3, 1, 2],
            &[0x19, 1],
            &[0x25, 1],
            &[0x0b],
            &[0x00, 1],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert!(Small::parse(bad).is_none(), "{bad:?}");
        }
    }
}
