//! The state of the screens.

mod cursor;
mod plot_data;
mod state;
mod types;

pub(crate) use cursor::Move;
pub(crate) use plot_data::PLOT_MINUTES;
pub use state::App;
pub use types::Request;
pub(crate) use types::{Clock, Mode, Pane, Prompt};
