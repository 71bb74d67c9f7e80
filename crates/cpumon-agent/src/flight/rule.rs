//! [`FlightRule`]: when a window of context switches is written by itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cpumon_collect::parse_interval;
use cpumon_model::{DelayHistogram, DelayOf, Interval, Probes, ProcessInfo, ProcessInterval, ProcessKey};

/// The value that is compared with the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// All CPUs together, ppm of their capacity.
    Cpu,
    /// Any single process, ppm of one CPU.
    Process,
    /// All processes of this program together, ppm of one CPU.
    Program(Box<str>),
    /// All processes of this container together, or of this unit outside of containers, ppm of one CPU.
    Container(Box<str>),
    /// All processes of this systemd unit together, ppm of one CPU.
    Service(Box<str>),
    /// The longest single run delay, ns.
    Delay,
    /// The 99th percentile of all run delays, ns.
    P99,
    /// The part of the capacity that the ledger cannot attribute, or has too much, ppm.
    Unattributed,
}

/// A condition that an interval fulfils or not, and how long it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightRule {
    subject: Subject,
    /// In ns for run delays, else in ppm.
    limit: u64,
    lasting: Duration,
    /// The rule as typed.
    text: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a rule: {reason}; write cpu>90%, cpu>90%/5s, process>90%/5s, program:NAME>150%/10s (or container:NAME, service:NAME), delay>20ms, p99>5ms/10s or unattributed>2%/5s"
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
            None if subject == "process" => Subject::Process,
            None if subject == "delay" => Subject::Delay,
            None if subject == "p99" => Subject::P99,
            None if subject == "unattributed" => Subject::Unattributed,
            Some(("program", name)) if !name.is_empty() => Subject::Program(name.into()),
            Some(("container", name)) if !name.is_empty() => Subject::Container(name.into()),
            Some(("service", name)) if !name.is_empty() => Subject::Service(name.into()),
            _ => {
                return Err(wrong(
                    "it must begin with cpu, process, program:NAME, container:NAME, service:NAME, delay, p99 or unattributed",
                ));
            }
        };
        let limit = match subject {
            Subject::Delay | Subject::P99 => {
                let (number, factor) =
                    split_time(limit).ok_or_else(|| wrong("a delay ends with us, ms or s"))?;
                scaled(number, factor).ok_or_else(|| wrong("the delay is no number"))?
            }
            _ => {
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
    pub(crate) fn needs(&self) -> Probes {
        match self.subject {
            Subject::Delay => Probes::SCHED,
            Subject::P99 => Probes::HISTOGRAMS,
            _ => Probes::empty(),
        }
    }

    /// Whether an interval is above the limit; for single processes, whether any process is.
    fn holds(&self, interval: &Interval) -> bool {
        let value = match &self.subject {
            Subject::Cpu => {
                let ledger = &interval.ledger;
                ppm(ledger.capacity_ns.saturating_sub(ledger.idle_ns), ledger.capacity_ns)
            }
            Subject::Process => {
                let rows = interval.processes.iter();
                rows.map(|row| ppm(row.delta.run_ns, length_ns(interval))).max().unwrap_or(0)
            }
            // `sh` may be a link to `dash`: both names are known to people.
            Subject::Program(name) => share(interval, |info| info.name == *name || info.comm == *name),
            Subject::Container(name) => share(interval, |info| info.container == *name),
            Subject::Service(name) => share(interval, |info| info.service() == **name),
            Subject::Delay => longest_ns(interval).unwrap_or(0),
            Subject::P99 => {
                let mut all = DelayHistogram::default();
                let of_cpus = interval.delays.iter().filter(|one| matches!(one.of, DelayOf::Cpu(_)));
                of_cpus.for_each(|one| all += &one.histogram);
                all.percentile_ns(99, longest_ns(interval)).unwrap_or(0)
            }
            Subject::Unattributed => {
                let ledger = &interval.ledger;
                ppm(ledger.unattributed_ns().saturating_abs(), ledger.capacity_ns)
            }
        };
        value > self.limit
    }

    fn is_above(&self, row: &ProcessInterval, interval: &Interval) -> bool {
        ppm(row.delta.run_ns, length_ns(interval)) > self.limit
    }
}

fn ppm(part_ns: i64, whole_ns: i64) -> u64 {
    let part = i128::from(part_ns.max(0)) * 1_000_000 / i128::from(whole_ns.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

fn length_ns(interval: &Interval) -> i64 {
    i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX)
}

/// Run time of some processes together, ppm of one CPU.
fn share(interval: &Interval, is_own: impl Fn(&ProcessInfo) -> bool) -> u64 {
    let own = interval.processes.iter().filter(|row| is_own(&row.info));
    ppm(own.map(|row| row.delta.run_ns).fold(0, i64::saturating_add), length_ns(interval))
}

fn longest_ns(interval: &Interval) -> Option<u64> {
    interval.processes.iter().filter_map(|row| row.sched.longest_ns()).max()
}

/// For how long a rule has been fulfilled.
#[derive(Debug)]
enum FulfilledTime {
    /// Fulfilled by the host, or by a group of processes, for this long.
    One(Duration),
    /// Fulfilled by each of these processes, which are sorted; and a buffer for the next ones.
    Each(Vec<(ProcessKey, Duration)>, Vec<(ProcessKey, Duration)>),
}

impl FulfilledTime {
    fn of(rule: &FlightRule) -> Self {
        if rule.subject == Subject::Process {
            Self::Each(Vec::new(), Vec::new())
        } else {
            Self::One(Duration::ZERO)
        }
    }

    fn clear(&mut self) {
        match self {
            Self::One(held) => *held = Duration::ZERO,
            Self::Each(held, _) => held.clear(),
        }
    }

    /// Adds an interval. Once the rule has held for its time, this is the reason; of single processes, that which used most.
    fn add(&mut self, rule: &FlightRule, interval: &Interval) -> Option<String> {
        let length = Duration::from_nanos(interval.duration_ns());
        match self {
            Self::One(held) => {
                *held = if rule.holds(interval) { *held + length } else { Duration::ZERO };
                (!held.is_zero() && *held >= rule.lasting).then(|| rule.to_string())
            }
            Self::Each(held, next) => {
                let mut met: Option<&ProcessInterval> = None;
                next.clear();
                for row in interval.processes.iter().filter(|row| rule.is_above(row, interval)) {
                    let before = held.binary_search_by_key(&row.key, |one| one.0);
                    let before = before.ok().and_then(|at| held.get(at)).map_or(Duration::ZERO, |one| one.1);
                    next.push((row.key, before + length));
                    let is_most = met.is_none_or(|most| most.delta.run_ns < row.delta.run_ns);
                    if before + length >= rule.lasting && is_most {
                        met = Some(row);
                    }
                }
                next.sort_unstable();
                std::mem::swap(held, next);
                met.map(|row| format!("{rule}: {} ({})", row.info.name, row.key.pid))
            }
        }
    }
}

/// Rules, and for how long each has been fulfilled.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    list: Vec<(FlightRule, FulfilledTime)>,
    /// Time in which no rule counts.
    quiet: Duration,
}

impl Rules {
    pub(crate) fn new(rules: &[FlightRule]) -> Self {
        Self {
            list: rules.iter().map(|rule| (rule.clone(), FulfilledTime::of(rule))).collect(),
            quiet: Duration::ZERO,
        }
    }

    /// The first rule that an interval completes, as the reason of a window: of a single process with its name and id. After that none
    /// counts for `pause`, so that a lasting state does not fill the disk.
    pub(crate) fn check(&mut self, interval: &Interval, pause: Duration) -> Option<String> {
        self.quiet = self.quiet.saturating_sub(Duration::from_nanos(interval.duration_ns()));
        if !self.quiet.is_zero() {
            return None;
        }
        let mut reason = None;
        for (rule, held) in &mut self.list {
            let met = held.add(rule, interval);
            reason = reason.or(met);
        }
        if reason.is_some() {
            self.quiet = pause;
            self.list.iter_mut().for_each(|(_, held)| held.clear());
        }
        reason
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

    /// An interval of 1 s on two CPUs.
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
    fn containers_and_units_have_the_names_of_a_report() {
        let mut of = interval(0, 501, 0);
        let info = |container: &str, cgroup: &str| {
            Arc::new(ProcessInfo {
                container: container.into(),
                cgroup: cgroup.into(),
                ..ProcessInfo::default()
            })
        };
        of.processes[0].info = info("web", "/lxc.payload.web/system.slice/cron.service");
        let mut second = of.processes[0].clone();
        second.info = info("ssh.service", "/system.slice/ssh.service");
        of.processes.push(second);
        for (text, is_met) in [
            ("container:web>50%", true),
            ("container:web>51%", false),
            ("container:ssh.service>50%", true),
            ("container:cron.service>1%", false),
            ("service:cron.service>50%", true),
            ("service:ssh.service>50%", true),
            ("service:web>1%", false),
        ] {
            assert_eq!(rule(text).holds(&of), is_met, "{text}");
        }
    }

    #[test]
    fn a_single_process_must_hold_for_the_time_itself() {
        let second = |rows: &[(u32, i64)]| {
            let mut of = interval(0, 0, 0);
            let row = |&(pid, run_ms): &(u32, i64)| {
                let info = Arc::new(ProcessInfo { name: format!("p{pid}").into(), ..ProcessInfo::default() });
                let delta = Delta { run_ns: run_ms * 1_000_000, ..Delta::default() };
                ProcessInterval {
                    key: ProcessKey { pid, start_ns: 0 },
                    info,
                    delta,
                    ..of.processes[0].clone()
                }
            };
            of.processes = rows.iter().map(row).collect();
            of
        };
        let mut rules = Rules::new(&[rule("process>90%/2s")]);
        let mut met = |rows: &[(u32, i64)]| rules.check(&second(rows), Duration::from_secs(1));
        assert_eq!(met(&[(9, 950), (2, 100)]), None);
        assert_eq!(met(&[(2, 950), (9, 900)]), None, "one after the other, and 90 % is not above it");
        assert_eq!(met(&[(7, 990), (5, 980), (2, 910)]), Some("process>90%/2s: p2 (2)".to_owned()));
        // The pause ends with this interval, and all begin to hold again.
        assert_eq!(met(&[(7, 990), (5, 995), (2, 910)]), None);
        assert_eq!(met(&[(7, 990), (5, 995), (2, 910)]), Some("process>90%/2s: p5 (5)".to_owned()));
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
        let mut met = |interval: &Interval| rules.check(interval, Duration::from_secs(2));
        let run = [&busy, &busy, &calm, &busy, &busy, &busy].map(&mut met);
        assert_eq!(run, [None, None, None, None, None, Some("cpu>90%/3s".to_owned())]);
        // Two seconds of pause; the first interval ends one.
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
            ("program:>5%", "must begin with"),
            ("memory>5%", "must begin with"),
        ] {
            let error = text.parse::<FlightRule>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("write cpu>90%"), "{text}: {error}");
        }
    }
}
