//! The state of the screens.

mod cursor;
mod plot_data;
mod state;

pub(crate) use cursor::Move;
pub(crate) use plot_data::PLOT_MINUTES;
pub use state::{App, Request};
pub(crate) use state::{Clock, Mode, Pane, Prompt};
