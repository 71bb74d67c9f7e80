//! What the program does, from what the user said: [`AgentArgs`] in, [`Settings`] out, every default applied once.

use std::path::PathBuf;
use std::time::Duration;

use cpumon_collect::SourceOptions;
use cpumon_link::discovery::everybody;
use cpumon_link::spool::SyncPolicy;
use cpumon_link::{DEFAULT_PORT, Target};

use crate::stream::default_state_dir;
use crate::{AgentArgs, SamplerOptions, SpoolSync, StreamSettings, To};

/// The original's interval and its pause after each datagram.
const V1_INTERVAL: Duration = Duration::from_secs(3);
const V1_PACE: Duration = Duration::from_millis(2);

/// What one agent does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to measure.
    pub sampler: SamplerOptions,
    /// Where to send.
    pub to: Vec<Target>,
    /// Datagrams of the original's kind.
    pub v1: bool,
    /// The file of keys to seal datagrams with; `None`: they go in the clear.
    pub group_key: Option<PathBuf>,
    /// Pause after each datagram.
    pub pace: Option<Duration>,
    /// Longest datagram, bytes.
    pub max_datagram: Option<usize>,
    /// Snapshots between two repetitions of what does not change.
    pub refresh: Option<u32>,
    /// Snapshots to make; `None`: until stopped.
    pub count: Option<u64>,
    /// To whom to stream; `None`: to nobody.
    pub stream: Option<StreamSettings>,
    /// Where to keep them on this machine.
    pub log: Option<LogSettings>,
}

/// How to keep snapshots on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The directory.
    pub dir: PathBuf,
    /// Most bytes.
    pub max_bytes: u64,
    /// When to write.
    pub sync: SyncPolicy,
}

impl From<&AgentArgs> for Settings {
    fn from(args: &AgentArgs) -> Self {
        let default_interval = if args.v1 { V1_INTERVAL } else { SourceOptions::default().interval };
        let source = SourceOptions {
            choice: args.source,
            proc_root: args.proc_root.clone(),
            cmdline: args.cmdline,
            probes: args.probes,
            histogram_threads: args.histogram_threads.clone(),
            interval: args.interval.unwrap_or(default_interval),
            ..SourceOptions::default()
        };
        Self {
            sampler: SamplerOptions { source, hostname: args.host_name.clone(), max_cpu: args.max_cpu },
            to: targets(args),
            stream: stream(args),
            v1: args.v1,
            group_key: args.group_key.clone(),
            pace: args.v1.then_some(V1_PACE),
            max_datagram: args.max_datagram.map(usize::from),
            refresh: args.refresh,
            count: args.count,
            log: args.log.clone().map(|dir| kept_in(dir, args)),
        }
    }
}

fn kept_in(dir: PathBuf, args: &AgentArgs) -> LogSettings {
    let sync = match args.spool_sync {
        SpoolSync::Interval => SyncPolicy::Every(args.spool_interval),
        SpoolSync::Always => SyncPolicy::Always,
        SpoolSync::Exit => SyncPolicy::AtEnd,
    };
    LogSettings { dir, max_bytes: args.spool_bytes, sync }
}

impl Settings {
    /// Time between two snapshots.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.sampler.source.interval
    }
}

fn targets(args: &AgentArgs) -> Vec<Target> {
    let with_ttl = |target: Target| match target {
        Target::Multicast { group, port, interfaces, .. } => {
            Target::Multicast { group, port, ttl: args.ttl, interfaces }
        }
        other => other,
    };
    let broadcast = args.broadcast.map(Target::broadcast);
    let single = args.to.iter().filter_map(|to| match to {
        To::Udp(target) => Some(target),
        To::Stream(_) | To::Enrolled => None,
    });
    let has_stream = args.to.iter().any(|to| matches!(to, To::Stream(_) | To::Enrolled));
    let given = single.chain(&args.multicast).cloned().chain(broadcast);
    let mut targets: Vec<Target> =
        given.map(|target| with_ttl(target).on_interfaces(&args.interfaces)).collect();
    if targets.is_empty() && args.log.is_none() && !has_stream {
        targets.push(Target::broadcast(DEFAULT_PORT).on_interfaces(&args.interfaces));
    }
    targets
}

fn stream(args: &AgentArgs) -> Option<StreamSettings> {
    let receivers: Vec<String> = args
        .to
        .iter()
        .filter_map(|to| match to {
            To::Stream(address) => Some(address.clone()),
            To::Udp(_) | To::Enrolled => None,
        })
        .collect();
    let state = || args.state.clone().unwrap_or_else(default_state_dir);
    let spool = args.spool.clone().map(|dir| kept_in(dir, args));
    let ask = if args.no_discovery { Vec::new() } else { everybody(&args.interfaces) };
    let is_wanted = !receivers.is_empty() || args.to.contains(&To::Enrolled);
    is_wanted.then(|| StreamSettings { receivers, state: state(), spool, ask })
}

#[cfg(test)]
mod tests {
    use cpumon_link::spool::SpoolOptions;

    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn settings(arguments: &str) -> Settings {
        let words = std::iter::once("agent").chain(arguments.split_whitespace());
        let matches = AgentArgs::augment_args(Command::new("agent")).get_matches_from(words);
        Settings::from(&AgentArgs::from_arg_matches(&matches).unwrap())
    }

    fn shown(arguments: &str) -> Vec<String> {
        settings(arguments).to.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_target_it_broadcasts() {
        assert_eq!(shown(""), ["broadcast port 3001"]);
        assert_eq!(shown("--interface eth1"), ["broadcast port 3001 on eth1"]);
        assert_eq!(shown("--to 10.0.0.1"), ["10.0.0.1:3001"]);
        assert_eq!(shown("--broadcast --to 10.0.0.1:9"), ["10.0.0.1:9", "broadcast port 3001"]);
    }

    #[test]
    fn a_log_alone_sends_nothing() {
        assert_eq!(shown("--log d"), [""; 0]);
        assert_eq!(shown("--log d --to 10.0.0.1"), ["10.0.0.1:3001"]);
        assert_eq!(shown("--log d --broadcast"), ["broadcast port 3001"]);
        let log = |arguments: &str| settings(arguments).log.unwrap();
        let usual = LogSettings {
            dir: "d".into(),
            max_bytes: SpoolOptions::DEFAULT_BYTES,
            sync: SyncPolicy::Every(SpoolOptions::DEFAULT_EVERY),
        };
        assert_eq!(log("--log d"), usual);
        assert_eq!(log("--log d --spool-sync always --spool-bytes 1MB").sync, SyncPolicy::Always);
        assert_eq!(log("--log d --spool-sync exit").sync, SyncPolicy::AtEnd);
        assert_eq!(log("--log d --spool-interval 1m").sync, SyncPolicy::Every(Duration::from_mins(1)));
        assert!(settings("").log.is_none());
    }

    #[test]
    fn a_stream_alone_sends_no_datagrams() {
        assert_eq!(shown("--to tls://desk"), [""; 0]);
        assert_eq!(shown("--to tls://desk --to 10.0.0.1"), ["10.0.0.1:3001"]);
        let stream = settings("--to tls://desk,tls://10.0.0.9:4 --state d").stream.unwrap();
        assert_eq!(stream.receivers, ["desk:3002", "10.0.0.9:4"]);
        assert_eq!(stream.state, PathBuf::from("d"));
        assert!(settings("--to desk").stream.is_none());
        let enrolled = settings("--to enrolled").stream.unwrap();
        assert!(enrolled.receivers.is_empty() && enrolled.ask.len() == 3, "{enrolled:?}");
        assert!(settings("--to enrolled --no-discovery").stream.unwrap().ask.is_empty());
        assert_eq!(shown("--to enrolled"), [""; 0]);
        let spool = settings("--to tls://desk --spool d --spool-sync always").stream.unwrap().spool.unwrap();
        assert_eq!((spool.dir, spool.sync), (PathBuf::from("d"), SyncPolicy::Always));
    }

    #[test]
    fn multicast_takes_hops_and_interfaces() {
        let to = settings("--multicast 239.1.1.1:5 --ttl 4 --interface a --interface b").to;
        let interfaces = vec!["a".to_owned(), "b".to_owned()];
        let group = "239.1.1.1".parse().unwrap();
        assert_eq!(to, [Target::Multicast { group, port: 5, ttl: 4, interfaces }]);
    }

    #[test]
    fn v1_keeps_the_originals_pace() {
        let v1 = settings("--v1");
        assert_eq!((v1.interval(), v1.pace), (V1_INTERVAL, Some(V1_PACE)));
        assert_eq!(settings("--v1 --interval 1s").interval(), Duration::from_secs(1));
        assert_eq!((settings("").interval(), settings("").pace), (Duration::from_secs(1), None));
    }
}
