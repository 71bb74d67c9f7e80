//! Parts of stacks, points and colours of charts, from `web/src/charts.json`: the page reads the same file, so that both show the same.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cpumon_model::Terms;
use serde::Deserialize;

/// One part of a stacked chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChartPart {
    /// Name of the column.
    #[serde(rename = "name")]
    pub column: String,
    /// Label that people read.
    pub label: String,
    /// Name of the colour.
    pub color: String,
}

impl ChartPart {
    /// Label in the terms of the host's operating system.
    pub fn label_in(&self, terms: &Terms) -> &str {
        terms.of_column(&self.column).map_or(&self.label, |term| term.label)
    }
}

/// A line of the run-delay chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DelayPart {
    /// Name of the column.
    #[serde(rename = "name")]
    pub column: String,
    /// Label that people read.
    pub label: String,
}

/// How many points each kind of chart is read with.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Points {
    /// Points of a chart of one host.
    pub history: usize,
    /// Points of a chart of one host by who ran.
    pub who: usize,
    /// Points of a chart of one process.
    pub process: usize,
    /// Columns of a heatmap.
    pub matrix: usize,
}

/// A colour of the light theme and of the dark one, as `#rrggbb`.
pub type ColorPair = [String; 2];

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ChartParts {
    /// CPU modes, bottom of the stack first.
    pub modes: Vec<ChartPart>,
    /// Lines of the ledger, idle last.
    pub ledger: Vec<ChartPart>,
    /// What a process does.
    pub states: Vec<ChartPart>,
    /// Percentiles of the run delay.
    pub delays: Vec<DelayPart>,
    /// Points of each kind of chart.
    pub points: Points,
    /// Groups with an area of their own where a host is drawn by who ran.
    pub areas: usize,
    /// Colours by their names.
    pub colors: BTreeMap<String, ColorPair>,
    /// Colours of lines; after them they repeat.
    pub lines: Vec<ColorPair>,
    /// Steps of a heatmap's colours from the lowest value on, as red, green and blue: of the light theme and of the dark one.
    pub heat: [Vec<[f64; 3]>; 2],
}

/// Parts, points and colours of charts.
pub fn chart_parts() -> &'static ChartParts {
    static PARTS: OnceLock<ChartParts> = OnceLock::new();
    PARTS.get_or_init(|| {
        // The file is part of the program; a test reads every entry.
        serde_json::from_str(include_str!("../../../../web/src/charts.json")).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_understood() {
        let ChartParts { modes, ledger, states, delays, points, areas, .. } = chart_parts();
        for part in modes.iter().chain(ledger).chain(states) {
            assert!(!part.column.is_empty() && !part.label.is_empty(), "{part:?}");
        }
        assert_eq!((modes.len(), ledger.len(), states.len(), delays.len()), (6, 7, 4, 4));
        assert_eq!(*points, Points { history: 700, who: 350, process: 600, matrix: 240 });
        assert_eq!(*areas, 8);
    }
}
