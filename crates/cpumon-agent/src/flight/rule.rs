//! [`FlightRule`]: when a window of context switches is written by itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cpumon_collect::parse_interval;
use cpumon_model::{DelayHistogram, DelayOf, Interval, Probes, ProcessInfo};

/// What is compared with the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// All CPUs together, ppm of their capacity.
    Cpu,
    /// All processes of this program together, ppm of one CPU.
    Program(Box<str>),
    /// The longest single run delay, ns.
    Delay,
    /// The 99th percentile of all run delays, ns.
    P99,
    /// What of the capacity the ledger cannot attribute, or has too much, ppm.
    Unattributed,
}

/// A condition that an interval fulfils or not, and how long it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightRule {
    subject: Subject,
    /// ppm or ns.
    limit: u64,
    lasting: Duration,
    /// As it was typed.
    text: Box<str>,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no rule: {reason}; write cpu>90%, cpu>90%/5s, program:NAME>150%/10s, delay>20ms, p99>5ms/10s or unattributed>2%/5s"
)]
pub struct ParseFlightRuleError {
    text: String,
    reason: &'static str,
}

impl FromStr for FlightRule {
    type Err = ParseFlightRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason| ParseFlightRuleError { text: text.chars().take(64).collect(), reason };
        // The last one: the name of a program may have any sign.
        let (subject, rest) = text.rsplit_once('>').ok_or_else(|| wrong("there is no >"))?;
        let (limit, lasting) = match rest.split_once('/') {
            Some((limit, lasting)) => {
                (limit, parse_interval(lasting).map_err(|_| wrong("the time behind / is 100ms to 1h"))?)
            }
            None => (rest, Duration::ZERO),
        };
        let subject = match subject.split_once(':') {
            None if subject == "cpu" => Subject::Cpu,
            None if subject == "delay" => Subject::Delay,
            None if subject == "p99" => Subject::P99,
            None if subject == "unattributed" => Subject::Unattributed,
            Some(("program", name)) if !name.is_empty() => Subject::Program(name.into()),
            _ => return Err(wrong("it begins with none of cpu, program:NAME, delay, p99, unattributed")),
        };
        let limit = match subject {
            Subject::Delay | Subject::P99 => {
                let (number, factor) =
                    split_time(limit).ok_or_else(|| wrong("a delay ends with us, ms or s"))?;
                scaled(number, factor).ok_or_else(|| wrong("the delay is no number"))?
            }
            Subject::Cpu | Subject::Program(_) | Subject::Unattributed => {
                let number = limit.strip_suffix('%').ok_or_else(|| wrong("a share ends with %"))?;
                scaled(number, 10_000.0).ok_or_else(|| wrong("the share is no number"))?
            }
        };
        if matches!(subject, Subject::Cpu | Subject::Unattributed) && limit >= 1_000_000 {
            return Err(wrong("all CPUs together are never more than 100 % busy"));
        }
        Ok(Self { subject, limit, lasting, text: text.into() })
    }
}

fn split_time(text: &str) -> Option<(&str, f64)> {
    [("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
}

fn scaled(number: &str, factor: f64) -> Option<u64> {
    let value = number.parse::<f64>().ok().filter(|value| (0.0..1e9).contains(value))? * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10^18")]
    Some(value as u64)
}

impl fmt::Display for FlightRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FlightRule {
    /// The probe that it needs.
    pub(crate) fn needs(&self) -> Probes {
        match self.subject {
            Subject::Delay => Probes::SCHED,
            Subject::P99 => Probes::HISTOGRAMS,
            _ => Probes::empty(),
        }
    }

    fn holds(&self, interval: &Interval) -> bool {
        let ppm = |part_ns: i64, whole_ns: i64| {
            let part = i128::from(part_ns.max(0)) * 1_000_000 / i128::from(whole_ns.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let length_ns = i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX);
        let value = match &self.subject {
            Subject::Cpu => {
                let ledger = &interval.ledger;
                ppm(ledger.capacity_ns.saturating_sub(ledger.idle_ns), ledger.capacity_ns)
            }
            Subject::Program(name) => {
                // `sh` may be a link to `dash`: both names are known to people.
                let is_own = |info: &ProcessInfo| info.name == *name || info.comm == *name;
                let own = interval.processes.iter().filter(|row| is_own(&row.info));
                ppm(own.map(|row| row.delta.run_ns).fold(0, i64::saturating_add), length_ns)
            }
            Subject::Delay => longest_ns(interval).unwrap_or(0),
            Subject::P99 => {
                let mut all = DelayHistogram::default();
                for one in interval.delays.iter().filter(|one| matches!(one.of, DelayOf::Cpu(_))) {
                    one.histogram.iter().for_each(|(bucket, count)| all.add(bucket, count));
                }
                all.percentile_ns(99, longest_ns(interval)).unwrap_or(0)
            }
            Subject::Unattributed => {
                let ledger = &interval.ledger;
                ppm(ledger.unattributed_ns().saturating_abs(), ledger.capacity_ns)
            }
        };
        value > self.limit
    }
}

fn longest_ns(interval: &Interval) -> Option<u64> {
    interval.processes.iter().filter_map(|row| row.sched.longest_ns()).max()
}

/// Rules, and for how long each has been fulfilled.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    list: Vec<(FlightRule, Duration)>,
    /// No rule counts for so long.
    quiet: Duration,
}

impl Rules {
    pub(crate) fn new(rules: &[FlightRule]) -> Self {
        Self {
            list: rules.iter().map(|rule| (rule.clone(), Duration::ZERO)).collect(),
            quiet: Duration::ZERO,
        }
    }

    /// The first rule that an interval completes. After that none counts for `pause`, so that a lasting state does not fill the disk.
    pub(crate) fn check(&mut self, interval: &Interval, pause: Duration) -> Option<&FlightRule> {
        let length = Duration::from_nanos(interval.duration_ns());
        self.quiet = self.quiet.saturating_sub(length);
        let is_quiet = !self.quiet.is_zero();
        let mut met = None;
        for (at, (rule, held)) in self.list.iter_mut().enumerate() {
            *held = if !is_quiet && rule.holds(interval) { *held + length } else { Duration::ZERO };
            if !held.is_zero() && *held >= rule.lasting && met.is_none() {
                met = Some(at);
            }
        }
        let at = met?;
        self.quiet = pause;
        self.list.iter_mut().for_each(|(_, held)| *held = Duration::ZERO);
        self.list.get(at).map(|(rule, _)| rule)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{Delays, Delta, Ledger, Moment, ProcessInterval, SchedDelta, delay_bucket};

    use super::*;

    fn rule(text: &str) -> FlightRule {
        text.parse().unwrap()
    }

    /// A second of two CPUs.
    fn interval(idle_ms: i64, run_ms: i64, delay_ms: i64) -> Interval {
        let info = Arc::new(ProcessInfo { name: "a>b:c".into(), ..ProcessInfo::default() });
        Interval {
            begin: Moment::default(),
            end: Moment { mono_ns: 1_000_000_000, boot_ns: 1_000_000_000, wall_ns: 0 },
            ledger: Ledger { capacity_ns: 2_000_000_000, idle_ns: idle_ms * 1_000_000, ..Ledger::default() },
            processes: vec![ProcessInterval {
                info,
                delta: Delta { run_ns: run_ms * 1_000_000, ..Delta::default() },
                sched: SchedDelta { longest_delay_ns: delay_ms * 1_000_000, ..SchedDelta::default() },
                ..ProcessInterval::default()
            }],
            ..Interval::default()
        }
    }

    #[test]
    fn rules_compare_what_they_name() {
        assert!(rule("cpu>90%").holds(&interval(199, 0, 0)) && !rule("cpu>90%").holds(&interval(200, 0, 0)));
        assert!(rule("program:a>b:c>50%").holds(&interval(0, 501, 0)));
        assert!(!rule("program:a>b:c>50%").holds(&interval(0, 500, 0)));
        assert!(!rule("program:a>50%").holds(&interval(0, 501, 0)));
        assert!(
            rule("delay>20ms").holds(&interval(0, 0, 21)) && !rule("delay>20ms").holds(&interval(0, 0, 20))
        );
        assert!(rule("delay>0.5s").holds(&interval(0, 0, 501)) && rule("delay>1us").needs() == Probes::SCHED);
    }

    #[test]
    fn percentiles_are_of_all_cpus_and_a_ledger_may_have_too_much() {
        let with = |few: u64| {
            let delays = |cpu, ns, count| Delays {
                of: DelayOf::Cpu(cpu),
                histogram: Arc::new([(delay_bucket(ns), count)].into_iter().collect()),
            };
            let list = vec![delays(0, 1_000, 1_000), delays(1, 50_000_000, few)];
            Interval { delays: list, ..interval(2_000, 0, 60) }
        };
        let (p99, seldom, often) = (rule("p99>20ms"), with(5), with(15));
        assert!(!p99.holds(&seldom) && p99.holds(&often) && p99.needs() == Probes::HISTOGRAMS);
        assert!(!p99.holds(&interval(0, 0, 60)), "not measured");
        let open = rule("unattributed>2%");
        for (threads_ms, is_met) in [(2_000, false), (1_961, false), (1_959, true), (2_041, true)] {
            let mut interval = interval(0, 0, 0);
            interval.ledger.threads_ns = threads_ms * 1_000_000;
            assert_eq!(open.holds(&interval), is_met, "{threads_ms}");
        }
    }

    #[test]
    fn a_rule_must_hold_for_its_time_without_a_break() {
        let mut rules = Rules::new(&[rule("cpu>90%/3s"), rule("delay>20ms")]);
        let (busy, calm) = (interval(0, 0, 0), interval(2_000, 0, 0));
        let mut met =
            |interval: &Interval| rules.check(interval, Duration::from_secs(2)).map(ToString::to_string);
        let run = [&busy, &busy, &calm, &busy, &busy, &busy].map(&mut met);
        assert_eq!(run, [None, None, None, None, None, Some("cpu>90%/3s".to_owned())]);
        // Two seconds of pause, of which the first interval ends one.
        let after =
            [interval(0, 0, 30), interval(0, 0, 30), interval(0, 0, 30)].map(|interval| met(&interval));
        assert_eq!(after, [None, Some("delay>20ms".to_owned()), None]);
    }

    #[test]
    fn what_is_no_rule_gets_a_reason() {
        for (text, reason) in [
            ("cpu", "no >"),
            ("cpu>90", "ends with %"),
            ("cpu>100%", "never more than 100 %"),
            ("cpu>x%", "no number"),
            ("cpu>-1%", "no number"),
            ("cpu>90%/x", "100ms to 1h"),
            ("delay>20", "ends with us, ms or s"),
            ("program:>5%", "begins with none of"),
            ("memory>5%", "begins with none of"),
        ] {
            let error = text.parse::<FlightRule>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("write cpu>90%"), "{text}: {error}");
        }
    }
}
