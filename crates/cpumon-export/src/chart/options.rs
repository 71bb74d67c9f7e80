//! Choices of how a picture is drawn.

use cpumon_query::words;

use super::zone::Zone;

/// Least pixels of a side.
pub const MIN_PIXELS: u32 = 320;
/// Most pixels of a side: a PNG has twice as many.
pub const MAX_PIXELS: u32 = 2400;

words! {
    /// Colour themes.
    #[derive(Default)]
    Theme, "theme",
    #[default]
    Light = "light": "For paper",
    Dark = "dark": "For dark screens",
}

words! {
    /// File format of a picture.
    #[derive(Default)]
    PictureForm, "picture format",
    #[default]
    Svg = "svg": "Sharp at any size",
    Png = "png": "Two pixels for each of the chart's own",
}

/// Size, colours and time zone of a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// Width in pixels; `None` is 1200.
    pub width: Option<u32>,
    /// Height in pixels; `None` depends on the chart.
    pub height: Option<u32>,
    /// Light or dark colours.
    pub theme: Theme,
    /// Time zone of the labels.
    pub zone: Zone,
}

impl Theme {
    pub(super) fn nth(self) -> usize {
        usize::from(self == Self::Dark)
    }
}
