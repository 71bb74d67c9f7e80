//! The answer as text: a line that says what it is of, and five blocks.

use super::answer::{Why, WhyTarget};
use super::words::{length, percent};
use crate::fields::{Screen, name_text};
use crate::json::Nanos;

/// Characters of a label in the block TIME at most.
const MAX_LABEL: usize = 40;

/// Lines below a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyBlock {
    /// `WHY`, `DO`, `TIME`, `SURE` or `MORE`.
    pub title: &'static str,
    /// Its lines, safe to show.
    pub lines: Vec<String>,
}

impl WhyBlock {
    /// Whether a line of the block is a command, which is pasted as it is.
    pub fn is_command(&self, line: &str) -> bool {
        self.title == "MORE" || (self.title == "DO" && line.starts_with("  "))
    }
}

/// `shop`, `service ssh.service`, or the machine.
fn title(target: &WhyTarget) -> String {
    match target.by.as_deref() {
        None => "The machine".to_owned(),
        Some("name" | "process") => name_text(&target.name),
        Some(by) => format!("{by} {}", name_text(&target.name)),
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

impl Why {
    /// `shop on vm, 01:04:09 to 01:05:08 (59 s): 1 process, 1 thread`.
    pub fn head(&self, screen: Screen) -> String {
        let (Nanos(since_ns), Nanos(until_ns)) = (self.since_ns, self.until_ns);
        let (since, until) = ((screen.clock)(since_ns, true), (screen.clock)(until_ns, false));
        let long = length(until_ns.saturating_sub(since_ns).max(0).unsigned_abs());
        let mut text = format!(
            "{} on {}, {since} to {until} ({long})",
            title(&self.subject),
            name_text(&self.host_name)
        );
        if self.subject.by.is_some() {
            text = format!("{text}: {}", counted(self.subject.processes, "process", "processes"));
            if let Some(threads) = self.subject.threads {
                text = format!("{text}, {}", counted(threads, "thread", "threads"));
            }
        }
        text
    }

    /// The blocks, in order.
    pub fn blocks(&self, screen: Screen) -> Vec<WhyBlock> {
        let first = self.causes.first();
        let since = self.slow_since_ns.map(|Nanos(ns)| format!("Slow since {}.", (screen.clock)(ns, false)));
        let command = first.and_then(|cause| cause.command.as_ref()).map(|command| format!("  {command}"));
        vec![
            WhyBlock { title: "WHY", lines: self.summary.iter().cloned().chain(since).collect() },
            WhyBlock { title: "DO", lines: std::iter::once(self.action.clone()).chain(command).collect() },
            WhyBlock { title: "TIME", lines: self.time_lines(screen) },
            WhyBlock { title: "SURE", lines: self.sure.sentences.clone() },
            WhyBlock { title: "MORE", lines: self.more.clone() },
        ]
    }

    fn time_lines(&self, screen: Screen) -> Vec<String> {
        let states = &self.time.states;
        let widest = states.iter().map(|state| state.label.chars().count()).max().unwrap_or(0);
        let width = widest.min(MAX_LABEL);
        let range = self.before.as_ref().map_or_else(String::new, |before| {
            let [since, until] =
                [before.range.since_ns, before.range.until_ns].map(|ns| (screen.clock)(ns, false));
            format!("   BEFORE ({since} to {until})")
        });
        let mut lines = vec![format!("{:<width$}{:>8}{range}", "", "NOW")];
        for state in states {
            let label: String = state.label.chars().take(width).collect();
            let then = state.before.map(percent).unwrap_or_default();
            let line = format!("{label:<width$}{:>8}{then:>9}   {}", percent(state.share), state.note);
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}
