//! [`Cell`]: what is remembered of one number of one row, and [`ColumnModel`]: how numbers of a column differ from what was
//! expected of them. In: numbers as they are coded. Out: the same. Why: counters go on as they did; what they do not is all that travels.

use super::coder::{Coder, Number};
use crate::v2::bits::{bit_len, zigzag};

/// Fractional bits of [`Cell::trend`].
const TREND_BITS: u32 = 4;
/// The trend follows by a quarter of the difference.
const TREND_SHIFT: u32 = 2;
/// [`Cell::scale`] of a number that was not told yet.
const NEW: u8 = u8::MAX;
/// Numbers of the same scale learn together: lengths 0, 1–2, 3–4, … of what was not expected; and new ones.
const CLASSES: usize = 32;

/// One number of one row.
#[derive(Copy, Clone, Debug)]
pub(super) struct Cell {
    pub(super) value: u64,
    /// What it grew by, lately; in sixteenths.
    trend: i64,
    /// How many bits what was not expected had, lately; in thirds.
    scale: u8,
}

impl Default for Cell {
    fn default() -> Self {
        Self { value: 0, trend: 0, scale: NEW }
    }
}

impl Cell {
    /// Of a text with this number.
    pub(super) fn text(number: u64) -> Self {
        Self { value: number, trend: 0, scale: 0 }
    }

    pub(super) fn is_new(&self) -> bool {
        self.scale == NEW
    }

    fn expected(&self) -> u64 {
        self.value.wrapping_add((self.trend >> TREND_BITS).cast_unsigned())
    }

    fn learn(&mut self, value: u64, bits: u32) {
        let grown = value.wrapping_sub(self.value).cast_signed().wrapping_shl(TREND_BITS);
        self.trend = self.trend.wrapping_add(grown.wrapping_sub(self.trend) >> TREND_SHIFT);
        self.value = value;
        let scale = (2 * u32::from(self.scale) + 3 * bits + 1) / 3;
        self.scale = u8::try_from(scale.min(192)).unwrap_or(192);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ColumnModel {
    classes: [Option<Box<Number>>; CLASSES],
    /// By how many bits going on as before was the better guess than staying, lately.
    score: i32,
}

impl ColumnModel {
    /// A number in units of `unit`.
    pub(super) fn code(&mut self, coder: &mut impl Coder, cell: &mut Cell, value: u64, unit: u64) -> u64 {
        if cell.is_new() {
            let value = self.class(CLASSES - 1).code(coder, value / unit).wrapping_mul(unit);
            *cell = Cell { value, trend: 0, scale: 0 };
            return value;
        }
        // Most are told as they are, and dividing takes time.
        let units = |value: u64| if unit == 1 { value } else { value / unit };
        let (on, stays) = (units(cell.expected()), units(cell.value));
        let expected = if self.score >= 0 { on } else { stays };
        let class = usize::from(cell.scale / 6).min(CLASSES - 2);
        let difference = units(value).wrapping_sub(expected).cast_signed();
        let difference = self.class(class).code_signed(coder, difference);
        let coded = expected.wrapping_add(difference.cast_unsigned());
        let bits = |expected: u64| bit_len(zigzag(coded.wrapping_sub(expected).cast_signed())).cast_signed();
        self.score = (self.score + bits(stays) - bits(on)).clamp(-512, 512);
        let value = coded.wrapping_mul(unit);
        cell.learn(value, bit_len(zigzag(difference)));
        value
    }

    fn class(&mut self, class: usize) -> &mut Number {
        self.classes[class.min(CLASSES - 1)].get_or_insert_default()
    }
}
