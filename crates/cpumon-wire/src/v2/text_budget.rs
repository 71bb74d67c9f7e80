//! [`TextBudget`]: cuts the texts of a row where the row would not fit a datagram.

use super::table::Table;

/// Cuts texts so that a row fits one datagram; counts what it cut.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TextBudget {
    bytes: usize,
    pub(crate) cut: u64,
}

impl TextBudget {
    /// For rows of at most so many text bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, cut: 0 }
    }

    /// The texts' values in `table`, each cut (and marked with an ellipsis) to what is left.
    pub(crate) fn put<const N: usize>(&mut self, texts: [(&str, usize); N], table: &mut Table) -> [u64; N] {
        const MARK: &str = "…";
        let mut left = self.bytes;
        texts.map(|(text, most)| {
            let most = left.min(most);
            if text.len() <= most {
                left -= text.len();
                return table.text(text.as_bytes());
            }
            self.cut += 1;
            // All of it counts as used, though a cut at a character may leave up to three bytes.
            left -= most;
            let kept = text.floor_char_boundary(most.saturating_sub(MARK.len()));
            table.cut_text(&text.as_bytes()[..kept], MARK.as_bytes())
        })
    }
}
