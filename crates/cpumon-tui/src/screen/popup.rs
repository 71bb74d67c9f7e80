//! The frame of windows over the screen.

use ratatui::widgets::{Block, BorderType};

use crate::theme::Theme;

pub(crate) fn frame_block(theme: Theme, title: &str) -> Block<'_> {
    let block = Block::bordered().title(title).border_style(Theme::dim());
    if theme.ascii {
        block.border_set(ratatui::symbols::border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        })
    } else {
        block.border_type(BorderType::Rounded)
    }
}
