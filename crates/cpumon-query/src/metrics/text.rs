//! [`Sheet`]: samples as text, each family together, in the format 0.0.4 of Prometheus or as OpenMetrics 1.0.

use std::fmt::Write;

use super::families::{Family, Kind};

/// The format of a scrape.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus text, version 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The content type of an answer in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that an `Accept` header prefers. Text, if it names none of the two.
    pub fn accepted(accept: &str) -> Self {
        let quality = |format: &str| {
            let mut parts = format.split(';').map(str::trim).skip(1);
            parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0)
        };
        let best = |name: &str| {
            let formats = accept.split(',').map(str::trim);
            let is = |format: &&str| {
                format.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(name))
            };
            formats.filter(is).map(quality).fold(0.0, f64::max)
        };
        let open = best("application/openmetrics-text");
        if open > 0.0 && open >= best("text/plain") { Self::OpenMetrics } else { Self::Text }
    }
}

/// The value of a sample.
#[derive(Copy, Clone, Debug)]
pub(super) enum Value {
    /// ns, written as seconds with all digits.
    Ns(u128),
    Count(u128),
    Number(f64),
}

/// Labels with their values, in order.
pub(super) type LabelList<'a> = &'a [(&'a str, &'a str)];

/// The samples of all families.
pub(super) struct Sheet {
    format: MetricsFormat,
    /// Text of the samples, by family.
    samples: Vec<String>,
}

/// Escapes a label's value, as both formats have it.
fn push_escaped(text: &str, into: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

impl Sheet {
    pub(super) fn new(format: MetricsFormat) -> Self {
        Self { format, samples: vec![String::new(); Family::ALL.len()] }
    }

    pub(super) fn add(&mut self, family: Family, labels: LabelList<'_>, value: Value) {
        let suffix = match family.kind() {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.add_with(family, suffix, labels, value);
    }

    /// With a suffix of its own: samples of a histogram.
    pub(super) fn add_with(&mut self, family: Family, suffix: &str, labels: LabelList<'_>, value: Value) {
        let out = &mut self.samples[family as usize];
        out.push_str(family.name());
        out.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels {
            out.push(before);
            out.push_str(name);
            out.push_str("=\"");
            push_escaped(value, out);
            out.push('"');
            before = ',';
        }
        out.push_str(if labels.is_empty() { " " } else { "} " });
        // A string takes all that is written.
        let _ = match value {
            Value::Ns(ns) => writeln!(out, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
            Value::Count(count) => writeln!(out, "{count}"),
            Value::Number(number) => writeln!(out, "{number}"),
        };
    }

    /// The whole text. Families without a sample are left out.
    pub(super) fn finish(self) -> String {
        let mut all = String::with_capacity(self.samples.iter().map(|one| one.len() + 400).sum());
        for (family, samples) in Family::ALL.iter().zip(&self.samples).filter(|one| !one.1.is_empty()) {
            // In the older format a sample's name is the family's, and there is no type for facts.
            let (suffix, kind) = match (self.format, family.kind()) {
                (MetricsFormat::Text, Kind::Counter) => ("_total", "counter"),
                (MetricsFormat::Text, Kind::Info) => ("_info", "gauge"),
                (_, Kind::Counter) => ("", "counter"),
                (_, Kind::Info) => ("", "info"),
                (_, Kind::Gauge) => ("", "gauge"),
                (_, Kind::Histogram) => ("", "histogram"),
            };
            let name = family.name();
            // Help texts have quotation marks, which only OpenMetrics escapes.
            let is_open = self.format == MetricsFormat::OpenMetrics;
            let help = if is_open { family.help().replace('"', "\\\"") } else { family.help().to_owned() };
            let _ = write!(all, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
            all.push_str(samples);
        }
        if self.format == MetricsFormat::OpenMetrics {
            all.push_str("# EOF\n");
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_reader_prefers() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        let (open, text) = (MetricsFormat::OpenMetrics, MetricsFormat::Text);
        for (accept, expected) in [
            (prometheus, open),
            ("application/openmetrics-text", open),
            ("text/plain;version=0.0.4, application/openmetrics-text; version=1.0.0; q=0.7", text),
            ("application/openmetrics-text;q=0, */*", text),
            ("*/*", text),
            ("", text),
            ("application/vnd.google.protobuf;q=0.9", text),
        ] {
            assert_eq!(MetricsFormat::accepted(accept), expected, "{accept}");
        }
    }

    #[test]
    fn labels_are_escaped_and_seconds_have_all_digits() {
        let mut sheet = Sheet::new(MetricsFormat::OpenMetrics);
        sheet.add(Family::Cpu, &[("host", "a\"b"), ("program", "c\\d\n")], Value::Ns(12_000_000_034));
        let lines: Vec<String> = sheet.finish().lines().map(str::to_owned).collect();
        assert_eq!(lines[1], "# TYPE cpumon_cpu_seconds counter");
        assert_eq!(lines[2], r#"cpumon_cpu_seconds_total{host="a\"b",program="c\\d\n"} 12.000000034"#);
        assert_eq!(lines[3..], ["# EOF"]);
    }
}
