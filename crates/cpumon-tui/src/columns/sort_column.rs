//! [`SortColumn`]: the column that sorts, as a user writes it.

use std::str::FromStr;

use crate::columns::choose::ORDER;
use crate::columns::column::Col;
use crate::view::View;

/// A column that rows can be sorted by: its name in files (`cpu`, `ready`) or its title (`%CPU`), in any case.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SortColumn(Col);

/// No column is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no column {text:?}; columns: {known}")]
pub struct UnknownColumn {
    text: String,
    known: String,
}

/// Columns that sort; the owner is a column of threads only, and marks have no order.
fn sortable() -> impl Iterator<Item = Col> {
    ORDER.into_iter().filter(|col| !matches!(col, Col::Marks | Col::Owner))
}

impl SortColumn {
    /// Run time while the screens are open.
    pub const SEEN: Self = Self(Col::Seen);

    pub(crate) fn col(self) -> Col {
        self.0
    }
}

impl FromStr for SortColumn {
    type Err = UnknownColumn;

    fn from_str(text: &str) -> Result<Self, UnknownColumn> {
        let (view, text) = (View::default(), text.trim());
        let by_name = sortable().find(|col| col.shared().id.eq_ignore_ascii_case(text));
        // A title may be another column's name: USER is the column `uid`, `user` is %USR.
        let by_title = || sortable().find(|col| col.title(&view).eq_ignore_ascii_case(text));
        by_name.or_else(by_title).map(Self).ok_or_else(|| {
            let known: Vec<&str> = sortable().map(|col| col.shared().id).collect();
            UnknownColumn { text: text.to_owned(), known: known.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_or_title_and_the_error_lists_them() {
        for (text, col) in
            [("cpu", Col::Cpu), ("%cpu", Col::Cpu), ("CSW/s", Col::Switches), (" pid ", Col::Id)]
        {
            assert_eq!(text.parse(), Ok(SortColumn(col)), "{text}");
        }
        for col in sortable() {
            assert_eq!(col.shared().id.parse(), Ok(SortColumn(col)));
        }
        let error = "marks".parse::<SortColumn>().unwrap_err().to_string();
        assert!(error.starts_with("there is no column \"marks\"; columns: pid, uid, "), "{error}");
    }
}
