//! The columns of the grid: titles, which ones fit into a width and where, and [`SortColumn`], the column that sorts, as a user writes it.
//! Id, %CPU and name are always there. Titles and help come from [`cpumon_model::TASK_COLUMNS`].

use std::str::FromStr;

use cpumon_model::{Align, Fields};

use crate::view::{Col, Layout, View};

/// Terminal columns from which on WAIT also shows the system call, `I/O events (epoll_wait)`, if all chosen columns still fit.
const WIDE: u16 = 200;
/// Columns that this takes beyond words alone, `child process`.
const WAIT_CALL: u16 = 11;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnPlace {
    pub col: Col,
    /// First terminal column, from the grid's left edge.
    pub x: u16,
    /// Width in terminal columns.
    pub width: u16,
}

impl Col {
    /// The title above it: that of the shared table, unless it depends on the view.
    pub(crate) fn title(self, view: &View) -> &'static str {
        match self {
            Self::Id if view.is_flat_threads() => "TID",
            Self::Id if view.threads || view.layout == Layout::Groups => "ID",
            Self::Cpu => view.unit.title(),
            // Where all rows are threads, the title has the unit, not each cell.
            Self::Ready if view.is_flat_threads() => "%RDY",
            Self::Blocked if view.is_flat_threads() => "%BLK",
            Self::Name if view.cmdline => "COMMAND",
            _ => self.shared().short,
        }
    }

    /// Whether its values are aligned to the right.
    pub(crate) fn is_number(self) -> bool {
        self.shared().align == Align::Right
    }

    fn is_in(self, view: &View) -> bool {
        match self {
            Self::Owner => view.is_flat_threads(),
            Self::Threads => !view.is_flat_threads(),
            Self::Limit | Self::Throttled => view.has_limits,
            // Columns without data would take the space of others.
            _ => Fields::FIRST_RELEASE.union(view.known).contains(self.shared().needs()),
        }
    }
}

/// The columns that fit into `total` terminal columns; `largest_id` sizes the id column.
pub(crate) fn choose(view: &View, total: u16, largest_id: u32) -> Vec<ColumnPlace> {
    let id_width = u16::try_from(largest_id.max(1).ilog10() + 1).unwrap_or(10).max(5);
    let name_width = name_width(total, view.cmdline);
    let mut chosen: Vec<Col> = Vec::new();
    let mut used = 0;
    for col in Col::by_importance().filter(|col| col.is_in(view)) {
        let is_needed = matches!(col, Col::Id | Col::Cpu | Col::Name);
        let width = if col == Col::Name { name_width } else { width_of(col, id_width) };
        // A less important one that still fits would leave again when the terminal grows.
        if !is_needed && used + width >= total {
            break;
        }
        used += width + 1;
        chosen.push(col);
    }
    let wait_call = if total >= WIDE && used + WAIT_CALL <= total { WAIT_CALL } else { 0 };
    place(&chosen, total, id_width, wait_call)
}

/// Columns that the name has at least: wider screens have wider names, before they have more columns. It grows by one with each column of the
/// terminal, so that no other column has to leave.
fn name_width(total: u16, cmdline: bool) -> u16 {
    let steps = if cmdline { [(60, 19), (100, 40), (160, 60)] } else { [(60, 19), (100, 25), (160, 40)] };
    let grown = |width: u16, (from, most): (u16, u16)| match total.saturating_add(1).checked_sub(from) {
        Some(more) => most.min(width.saturating_add(more)),
        None => width,
    };
    steps.into_iter().fold(12, grown)
}

fn width_of(col: Col, id_width: u16) -> u16 {
    if col.width() == 0 { id_width } else { col.width() }
}

fn place(chosen: &[Col], total: u16, id_width: u16, wait_call: u16) -> Vec<ColumnPlace> {
    let mut x = 0_u16;
    let mut places = Vec::with_capacity(chosen.len());
    for col in Col::ORDER.into_iter().filter(|col| chosen.contains(col)) {
        let width = match col {
            Col::Name => total.saturating_sub(x),
            Col::Wait => col.width() + wait_call,
            _ => width_of(col, id_width),
        };
        places.push(ColumnPlace { col, x, width });
        x = x.saturating_add(width + 1);
    }
    places
}

/// A column that rows can be sorted by: its name in files (`cpu`, `ready`) or its title (`%CPU`), in any case.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SortColumn(Col);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no column {text:?}; columns: {known}")]
pub struct UnknownColumn {
    text: String,
    known: String,
}

/// Columns that sort; the owner is a column of threads only, and marks have no order.
fn sortable() -> impl Iterator<Item = Col> {
    Col::ORDER.into_iter().filter(|col| !matches!(col, Col::Marks | Col::Owner))
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
    use cpumon_model::Frontends;

    use super::*;

    #[test]
    fn every_width_keeps_id_cpu_and_a_readable_name_and_nothing_overlaps() {
        for known in [Fields::FIRST_RELEASE, Fields::all()] {
            for has_limits in [false, true] {
                every_width_is_used(&View { known, has_limits, ..View::default() });
            }
        }
        assert_eq!(choose(&View::default(), 300, 99).len(), 17);
        let all = View { known: Fields::all(), ..View::default() };
        assert_eq!(choose(&all, 300, 99).len(), 23);
        assert_eq!(choose(&View { has_limits: true, ..all }, 300, 99).len(), 25);
    }

    fn every_width_is_used(view: &View) {
        for total in 40..=300 {
            let places = choose(view, total, 4_194_304);
            let name = places.iter().find(|place| place.col == Col::Name).unwrap();
            assert!(name.width >= 12, "{total}: name {}", name.width);
            assert!(places.iter().any(|place| place.col == Col::Id));
            assert!(places.iter().any(|place| place.col == Col::Cpu));
            for pair in places.windows(2) {
                assert_eq!(pair[0].x + pair[0].width + 1, pair[1].x, "{total}");
            }
            assert_eq!(name.x + name.width, total);
        }
    }

    /// CPU# was there at 150 columns, and not at 160; a wider WAIT pushed others out at 200 to 221.
    #[test]
    fn no_column_leaves_while_the_terminal_grows() {
        for (has_limits, threads, cmdline) in [(false, false, false), (true, false, true), (true, true, true)]
        {
            let view = View { known: Fields::all(), has_limits, threads, cmdline, ..View::default() };
            let chosen = |total| choose(&view, total, 4_194_304).into_iter().map(|place| place.col);
            for total in 41..=300 {
                let now: Vec<Col> = chosen(total).collect();
                assert!(chosen(total - 1).all(|col| now.contains(&col)), "{total}: {view:?}");
            }
            let wide = choose(&view, 300, 99);
            assert_eq!(wide.iter().find(|place| place.col == Col::Wait).unwrap().width, 24);
        }
    }

    #[test]
    fn every_column_has_a_row_in_the_shared_table() {
        for col in Col::ORDER {
            let shared = col.shared();
            assert!(shared.frontends.contains(Frontends::TERMINAL), "{col:?}: {}", shared.id);
            assert_eq!(shared.id == "name", col == Col::Name, "{col:?} is not in the table");
        }
    }

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
