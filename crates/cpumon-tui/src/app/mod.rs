//! The state of the screens.

mod cursor;
mod plot_data;
mod plot_state;
mod report_screen;
mod state;
mod types;

pub(crate) use cursor::Move;
pub use plot_state::PLOT_MINUTES;
pub(crate) use report_screen::ReportScreen;
pub use state::App;
pub use types::Request;
pub(crate) use types::{Clock, CommandPart, Mode, Pane, Prompt};
