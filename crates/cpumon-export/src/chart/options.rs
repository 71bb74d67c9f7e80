//! Choices of how a picture is drawn: size, time zone, theme. The colours of a theme are those of `web/src/charts.json`. The page reads the
//! same file, so its plots and these pictures have the same colours.

use cpumon_query::charts::{Ink, chart_parts};
use cpumon_query::words;

use super::axis::Zone;

/// Least pixels of a side.
pub const MIN_PIXELS: u32 = 320;
/// Most pixels of a side: a PNG has twice as many.
pub const MAX_PIXELS: u32 = 2400;

words! {
    #[derive(Default)]
    Theme, "theme",
    #[default]
    Light = "light": "For paper",
    Dark = "dark": "For dark screens",
}

words! {
    #[derive(Default)]
    PictureForm, "picture format",
    #[default]
    Svg = "svg": "Sharp at any size",
    Png = "png": "Two pixels for each of the chart's own",
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// Width in pixels; `None` is 1200.
    pub width: Option<u32>,
    /// Height in pixels; `None` depends on the chart.
    pub height: Option<u32>,
    pub theme: Theme,
    pub zone: Zone,
}

impl Theme {
    pub(super) fn nth(self) -> usize {
        usize::from(self == Self::Dark)
    }
}

/// A colour as `#rrggbb`.
pub(super) fn ink_color(ink: &Ink, theme: Theme) -> &'static str {
    let pair = match ink {
        Ink::Named(name) => chart_parts().colors.get(*name),
        Ink::Nth(nth) => chart_parts().lines.get(nth % line_colors()),
    };
    pair.map_or("#808080", |pair| &pair[theme.nth()])
}

/// Number of line colours; after them the colours repeat.
pub(super) fn line_colors() -> usize {
    chart_parts().lines.len().max(1)
}

/// The colour of a share 0 to 1 in a heatmap. Small values differ more than large ones: most values are small.
pub(super) fn heat_color(share: f64, theme: Theme) -> String {
    let steps = &chart_parts().heat[theme.nth()];
    let at = share.clamp(0.0, 1.0).sqrt() * (steps.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the number of steps")]
    let (from, part) = (at.floor() as usize, at - at.floor());
    let (low, high) = (steps[from], steps[(from + 1).min(steps.len() - 1)]);
    let mix = |nth: usize| low[nth] + (high[nth] - low[nth]) * part;
    format!("#{:02x}{:02x}{:02x}", byte(mix(0)), byte(mix(1)), byte(mix(2)))
}

fn byte(value: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte")]
    let byte = value.round().clamp(0.0, 255.0) as u8;
    byte
}

#[cfg(test)]
mod tests {
    use cpumon_query::charts::ChartParts;

    use super::*;

    #[test]
    fn every_entry_is_understood() {
        let is_color = |text: &str| {
            text.len() == 7 && text.starts_with('#') && text[1..].bytes().all(|b| b.is_ascii_hexdigit())
        };
        let ChartParts { modes, ledger, states, colors, lines, heat, .. } = chart_parts();
        assert!(colors.len() > 15 && lines.len() == 8);
        assert!(colors.values().chain(lines).flatten().all(|c| is_color(c)));
        assert!(heat.iter().all(|steps| steps.len() == 5));
        for part in modes.iter().chain(ledger).chain(states) {
            assert!(colors.contains_key(&part.color), "{part:?}");
        }
        assert_eq!(heat_color(0.0, Theme::Light), "#eaf0f5");
        assert_eq!(heat_color(1.0, Theme::Dark), "#fff0be");
    }
}
