//! Colours of charts and parts of stacks, from `web/src/charts.json`. The page reads the same file, so its plots and these
//! pictures have the same colours, names and order.

use std::sync::OnceLock;

use serde_json::Value;

use super::data::Ink;
use super::query::Theme;

/// One series of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the column in `cpumon_model::COLUMNS`.
    pub column: String,
    /// Name in the legend.
    pub label: String,
    /// Name of the colour.
    pub color: String,
}

/// One series of the chart of run delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayPart {
    /// Name of the column in `cpumon_model::COLUMNS`.
    pub column: String,
    /// Name in the legend.
    pub label: String,
}

/// Points of each kind of chart along the time axis.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// A host over time.
    pub history: usize,
    /// A process over time.
    pub process: usize,
    /// Columns of a heatmap.
    pub matrix: usize,
}

/// Light, dark.
type Pair = [String; 2];
type Rgb = [f64; 3];

struct Palette {
    colors: Vec<(String, Pair)>,
    lines: Vec<Pair>,
    heat: [Vec<Rgb>; 2],
    modes: Vec<Part>,
    ledger: Vec<Part>,
    states: Vec<Part>,
    delays: Vec<DelayPart>,
    points: Points,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn pair(value: &Value) -> Pair {
    [text(&value[0]), text(&value[1])]
}

fn parts(value: &Value) -> Vec<Part> {
    let part = |value: &Value| Part {
        column: text(&value["name"]),
        label: text(&value["label"]),
        color: text(&value["color"]),
    };
    list(value).map(part).collect()
}

fn read(root: &Value) -> Palette {
    let steps = |value: &Value| -> Vec<Rgb> {
        list(value).map(|step| [0, 1, 2].map(|at| step[at].as_f64().unwrap_or(0.0))).collect()
    };
    let delay = |value: &Value| DelayPart { column: text(&value["name"]), label: text(&value["label"]) };
    let count = |name: &str| {
        root["points"][name].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(600)
    };
    let colors = root["colors"].as_object().into_iter().flatten();
    Palette {
        colors: colors.map(|(name, value)| (name.clone(), pair(value))).collect(),
        lines: list(&root["lines"]).map(pair).collect(),
        heat: [steps(&root["heat"][0]), steps(&root["heat"][1])],
        modes: parts(&root["modes"]),
        ledger: parts(&root["ledger"]),
        states: parts(&root["states"]),
        delays: list(&root["delays"]).map(delay).collect(),
        points: Points { history: count("history"), process: count("process"), matrix: count("matrix") },
    }
}

fn palette() -> &'static Palette {
    static PALETTE: OnceLock<Palette> = OnceLock::new();
    PALETTE.get_or_init(|| {
        let text = include_str!("../../../../web/src/charts.json");
        // The file is part of the program; a test reads every entry.
        read(&serde_json::from_str(text).unwrap_or_default())
    })
}

/// CPU modes, bottom of the stack first.
#[must_use]
pub fn modes() -> &'static [Part] {
    &palette().modes
}

/// Lines of the ledger, idle last.
#[must_use]
pub fn ledger() -> &'static [Part] {
    &palette().ledger
}

/// States of a process: user, system, ready, blocked.
#[must_use]
pub fn states() -> &'static [Part] {
    &palette().states
}

/// Percentiles of the run delay.
#[must_use]
pub fn delays() -> &'static [DelayPart] {
    &palette().delays
}

/// Points of each kind of chart.
#[must_use]
pub fn points() -> Points {
    palette().points
}

/// A colour as `#rrggbb`.
pub(super) fn color(ink: &Ink, theme: Theme) -> &'static str {
    let palette = palette();
    let pair = match ink {
        Ink::Named(name) => palette.colors.iter().find(|(known, _)| known == name).map(|(_, pair)| pair),
        Ink::Nth(nth) => palette.lines.get(nth % palette.lines.len().max(1)),
    };
    pair.map_or("#808080", |pair| &pair[theme.nth()])
}

/// Number of line colours; after them the colours repeat.
pub(super) fn line_colors() -> usize {
    palette().lines.len().max(1)
}

/// The colour of a share 0 to 1 in a heatmap. Small values differ more than large ones: most values are small.
pub(super) fn heat_color(share: f64, theme: Theme) -> String {
    let steps = &palette().heat[theme.nth()];
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
    use super::*;

    #[test]
    fn every_entry_is_understood() {
        let is_color = |text: &str| {
            text.len() == 7 && text.starts_with('#') && text[1..].bytes().all(|b| b.is_ascii_hexdigit())
        };
        let palette = palette();
        assert!(palette.colors.len() > 15 && palette.lines.len() == 8);
        assert!(
            palette.colors.iter().map(|(_, pair)| pair).chain(&palette.lines).flatten().all(|c| is_color(c))
        );
        assert!(palette.heat.iter().all(|steps| steps.len() == 5));
        for part in [modes(), ledger(), states()].concat() {
            assert!(!part.column.is_empty() && !part.label.is_empty(), "{part:?}");
            assert!(palette.colors.iter().any(|(name, _)| *name == part.color), "{part:?}");
        }
        assert_eq!((modes().len(), ledger().len(), states().len(), delays().len()), (6, 7, 4, 4));
        assert_eq!(points(), Points { history: 700, process: 600, matrix: 240 });
        assert_eq!(heat_color(0.0, Theme::Light), "#eaf0f5");
        assert_eq!(heat_color(1.0, Theme::Dark), "#fff0be");
    }
}
