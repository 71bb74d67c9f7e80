//! The kernel's description of a tracepoint (`events/sched/sched_switch/format`): where each field lies. It differs between
//! kernels, so every recording has its own.

use super::bytes::Order;

/// Fields of a tracepoint that are read; further ones are left out.
const MAX_FIELDS: usize = 64;
/// States of a task that a kernel may name.
const MAX_STATES: usize = 64;

/// How the bytes of a field are found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In the record itself.
    Here,
    /// The field says where in the record: offset and length.
    Located,
    /// The same, counted from the end of the field.
    LocatedFromHere,
}

/// A field of a tracepoint's record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    size: usize,
    place: Place,
}

impl Field {
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The field as a number without sign.
    pub(super) fn number(&self, record: &[u8], order: Order) -> Option<u64> {
        if self.size > 8 {
            return None;
        }
        Some(order.number(record.get(self.offset..self.offset.checked_add(self.size)?)?))
    }

    /// The bytes of a text.
    pub(super) fn text<'r>(&self, record: &'r [u8], order: Order) -> Option<&'r [u8]> {
        let end = self.offset.checked_add(self.size)?;
        if self.place == Place::Here {
            return record.get(self.offset..end);
        }
        let located = self.number(record, order)?;
        let (low, length) = (usize::try_from(located & 0xffff).ok()?, usize::try_from(located >> 16).ok()?);
        let begin = if self.place == Place::Located { low } else { end.checked_add(low)? };
        record.get(begin..begin.checked_add(length)?)
    }
}

/// A tracepoint's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Format {
    pub(super) name: Box<str>,
    pub(super) id: u32,
    fields: Vec<(Box<str>, Field)>,
    /// The letters of task states, as `print fmt` has them: their bits differ between kernels.
    pub(super) states: Vec<(u64, char)>,
}

impl Format {
    /// Of the text that the kernel gives. `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut format = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().into();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
            } else if let Some(field) = line.strip_prefix("field:") {
                if format.fields.len() < MAX_FIELDS {
                    format.fields.push(parse_field(field)?);
                }
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.states = parse_states(print);
            }
        }
        (!format.name.is_empty() && !format.fields.is_empty()).then_some(format)
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|field| &*field.0 == name).map(|field| field.1)
    }
}

/// Of `pid_t prev_pid; offset:24; size:4; signed:1;`.
fn parse_field(text: &str) -> Option<(Box<str>, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.trim().parse().ok(),
            Some(("size", number)) => size = number.trim().parse().ok(),
            _ => {}
        }
    }
    let place = match declaration.split_whitespace().next()? {
        "__data_loc" => Place::Located,
        "__rel_loc" => Place::LocatedFromHere,
        _ => Place::Here,
    };
    let name = declaration.rsplit(' ').next()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    Some((name.into(), Field { offset: offset?, size: size?, place }))
}

/// The pairs of `{ 0x0001, "S" }` in a `print fmt`.
fn parse_states(print: &str) -> Vec<(u64, char)> {
    let mut states = Vec::new();
    for part in print.split('{').skip(1).take(MAX_STATES) {
        let Some((pair, _)) = part.split_once('}') else { continue };
        let Some((bits, letter)) = pair.split_once(',') else { continue };
        let bits = bits.trim();
        let bits = match bits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => bits.parse().ok(),
        };
        let letter = letter.trim().trim_matches('"').chars().next();
        if let (Some(bits), Some(letter)) = (bits, letter) {
            states.push((bits, letter));
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch
ID: 314
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] note;\toffset:28;\tsize:4;\tsigned:0;

print fmt: \"prev_state=%s%s\", (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }, { 16, \"X\" }) : \"R\"";

    #[test]
    fn fields_and_states_are_where_the_kernel_says() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!((&*format.name, format.id), ("sched_switch", 314));
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(b"abcd");
        record[24..28].copy_from_slice(&77_u32.to_le_bytes());
        record.extend((32_u32 | 3 << 16).to_le_bytes());
        record.extend(b"xyz");
        let order = Order::Little;
        assert_eq!(format.field("prev_pid").unwrap().number(&record, order), Some(77));
        assert_eq!(&format.field("prev_comm").unwrap().text(&record, order).unwrap()[..5], b"abcd\0");
        assert_eq!(format.field("note").unwrap().text(&record, order), Some(&b"xyz"[..]));
        assert_eq!(format.field("note").unwrap().text(&record[..34], order), None);
        assert_eq!(format.states, [(1, 'S'), (2, 'D'), (16, 'X')]);
    }

    #[test]
    fn what_is_no_format_is_none() {
        for text in
            ["", "name: a", "ID: x\nname: a", "name: a\nfield:int a", "field:int a;\toffset:0;\tsize:4;"]
        {
            assert!(Format::parse(text).is_none(), "{text}");
        }
    }
}
