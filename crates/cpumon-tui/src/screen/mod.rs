//! What is drawn: the header, the grid, the plot and the details, the windows over them.

mod bars;
mod detail;
mod grid;
mod header;
mod health;
mod help;
mod hosts;
mod layout;
mod ledger;
mod parts;
mod plot;
mod popup;
mod quota;
mod report;
mod users;

pub use health::losses_of_agent;
