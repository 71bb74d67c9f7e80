//! What all charts share: title, range, points, holes, and the text of a chart without data.

use cpumon_model::HostStatus;

use cpumon_store::Gap;

use super::chart::{Body, Chart, Hole, Ink, Line, Stroke};
use super::holes::holes;
use super::request::ChartRequest;
use super::values::times;
use crate::history::BucketTimes;
use crate::time::to_ms;

/// A chart before its notes.
pub(super) struct Draft<'d> {
    pub(super) title: String,
    pub(super) unit: &'d str,
    pub(super) times: &'d BucketTimes,
    pub(super) gaps: &'d [Gap],
    pub(super) body: Body,
    /// The text if there was data, but none of this.
    pub(super) unmeasured: &'d str,
}

fn has_values(body: &Body) -> bool {
    match body {
        Body::Lines { lines, .. } => lines.iter().any(|line| line.values.iter().any(Option::is_some)),
        Body::Heatmap { rows, .. } => rows.iter().any(|row| row.values.iter().any(Option::is_some)),
        Body::Bars { bars, .. } => bars.iter().any(|bar| !bar.shares.is_empty()),
        Body::Sparklines { rows, .. } => rows.iter().any(|row| row.values.iter().any(Option::is_some)),
    }
}

impl ChartRequest<'_> {
    pub(super) fn chart(&self, draft: Draft<'_>) -> Chart {
        let is_covered = draft.times.is_covered();
        let empty = if !is_covered {
            Some("No data in this range".to_owned())
        } else if !has_values(&draft.body) {
            Some(draft.unmeasured.to_owned())
        } else {
            None
        };
        // A blank picture says it once, in its middle.
        let holes: Vec<Hole> =
            if is_covered { holes(draft.times, draft.gaps, self.available) } else { Vec::new() };
        Chart {
            title: draft.title,
            unit: draft.unit.to_owned(),
            since_ms: to_ms(self.range.since_ns),
            until_ms: to_ms(self.range.until_ns),
            times: times(draft.times),
            body: draft.body,
            holes,
            notes: Vec::new(),
            empty,
        }
    }

    /// `kitchen: `, or the id of a host without a name.
    pub(super) fn titled(&self, what: &str) -> String {
        format!("{}: {what}", name_of(self.host))
    }
}

/// The name of a host, or its id where it has none.
pub(super) fn name_of(host: &HostStatus) -> String {
    let info = &host.info;
    if info.hostname.is_empty() { info.host.to_string() } else { info.hostname.to_string() }
}

pub(super) fn line(label: impl Into<String>, ink: Ink, stroke: Stroke, values: Vec<Option<f64>>) -> Line {
    Line { label: label.into(), ink, stroke, values, highest: Vec::new() }
}
