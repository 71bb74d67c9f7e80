//! [`Names`]: texts in rows. In: a row's text, or room for it. Out: its bits: as before, as in the row before, known, or new.

use super::cell::Cell;
use super::coder::{Chance, Coder};
use super::grid::{Grid, MAX_BODY};
use super::table::Malformed;
use super::texts::{Texts, UNKNOWN};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) texts: Texts,
    stays: Chance,
    is_of_row_before: Chance,
    told: Vec<u8>,
}

impl Names {
    /// Codes the text at this row and column; gives the value that stands for it.
    pub(super) fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        grid: &mut Grid,
        cell: &mut Cell,
        (at, slot): (usize, usize),
    ) -> Result<u64, Malformed> {
        let value = grid.row(at).get(slot).copied().unwrap_or(0);
        let text = if C::READS { &[] } else { grid.text(value) };
        let stays = !cell.is_new() && coder.bit(&mut self.stays, self.texts.get(cell.value) == text);
        let before = grid.text_before((at, slot)).map(|before| before.1);
        let number = if stays {
            self.told.clear();
            self.told.extend_from_slice(self.texts.get(cell.value));
            cell.value
        } else if before.is_some()
            && coder.bit(&mut self.is_of_row_before, before.is_some_and(|before| before == text))
        {
            self.told.clear();
            self.told.extend_from_slice(before.unwrap_or_default());
            self.texts.find(&self.told)
        } else {
            self.texts.code(coder, text, MAX_BODY, &mut self.told).ok_or(Malformed)?
        };
        *cell = if number == UNKNOWN { Cell::default() } else { Cell::text(number) };
        if !C::READS {
            return Ok(value);
        }
        grid.put_text(&self.told, (at, slot)).ok_or(Malformed)
    }
}
