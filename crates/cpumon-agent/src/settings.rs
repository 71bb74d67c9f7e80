//! [`Settings`]: the agent's configuration, made from [`AgentArgs`] with every default applied.

use std::path::PathBuf;
use std::time::Duration;

use cpumon_collect::SourceOptions;
use cpumon_link::discovery::groups;
use cpumon_link::spool::{SpoolOptions, SyncPolicy};
use cpumon_link::{DEFAULT_PORT, Target};

use crate::args::{AgentArgs, SpoolSync};
use crate::flight::{FlightDisk, FlightSettings};
use crate::platform::default_state_dir;
use crate::sampler::SamplerOptions;
use crate::values::To;

/// The original's interval and its pause after each datagram.
const V1_INTERVAL: Duration = Duration::from_secs(3);
const V1_PACE: Duration = Duration::from_millis(2);

#[derive(Clone, Debug)]
pub struct Settings {
    pub sampler: SamplerOptions,
    /// Targets of datagrams.
    pub to: Vec<Target>,
    pub v1: bool,
    /// File of group keys to encrypt datagrams with; `None`: they are not encrypted.
    pub group_key: Option<PathBuf>,
    /// Pause after each datagram, which slow receivers of version 1 need.
    pub pace: Option<Duration>,
    /// Longest datagram, bytes; `None`: the protocol's default.
    pub max_datagram: Option<usize>,
    /// Snapshots between two repetitions of constant values.
    pub refresh: Option<u32>,
    /// Snapshots to make; `None`: until stopped.
    pub count: Option<u64>,
    /// Receivers to connect to by TLS; `None`: no connection.
    pub connection: Option<ConnectionSettings>,
    pub recording: Option<SpoolOptions>,
    /// The last seconds of context switches; `None`: they are not recorded.
    pub flight: Option<FlightSettings>,
}

/// The TLS connection: receivers, keys, and the place where unacknowledged snapshots wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// `host:port` of receivers, in the order in which to try them; empty: every receiver that this machine is enrolled with.
    pub receivers: Vec<String>,
    /// Directory of this machine's identities.
    pub state: PathBuf,
    /// Directory in which snapshots wait; `None`: in memory.
    pub spool: Option<SpoolOptions>,
    /// Subnets to search for a receiver whose address has changed; empty: no search.
    pub ask: Vec<Target>,
}

impl From<&AgentArgs> for Settings {
    fn from(args: &AgentArgs) -> Self {
        let default_interval = if args.v1 { V1_INTERVAL } else { SourceOptions::default().interval };
        let source = SourceOptions {
            choice: args.source,
            proc_root: args.proc_root.clone(),
            cmdline: args.cmdline,
            script_names: !args.no_script_names,
            product_names: !args.no_product_names,
            probes: args.probes,
            histogram_threads: args.histogram_threads.clone(),
            interval: args.interval.unwrap_or(default_interval),
            ..SourceOptions::default()
        };
        Self {
            to: targets(args),
            connection: connection(args, source.interval),
            v1: args.v1,
            group_key: args.group_key.clone(),
            pace: args.v1.then_some(V1_PACE),
            max_datagram: args.max_datagram.map(usize::from),
            refresh: args.refresh,
            count: args.count,
            recording: args.record.clone().map(|dir| directory(dir, args, source.interval)),
            flight: flight(args),
            sampler: SamplerOptions { source, hostname: args.host_name.clone(), max_cpu: args.max_cpu },
        }
    }
}

fn flight(args: &AgentArgs) -> Option<FlightSettings> {
    let settings = args.flight.settings(args.flight_dir.clone()?, args.flight_files)?;
    let disk = args.flight_bytes.map(|bytes| FlightDisk { bytes, window: args.flight_window });
    Some(FlightSettings { disk, ..settings })
}

/// Options of a directory of snapshots, a recording or a spool. One snapshot is made every `interval`.
fn directory(dir: PathBuf, args: &AgentArgs, interval: Duration) -> SpoolOptions {
    let sync = match args.spool_sync {
        SpoolSync::Interval => SyncPolicy::Every(args.spool_interval),
        SpoolSync::Always => SyncPolicy::Always,
        SpoolSync::Exit => SyncPolicy::AtEnd,
    };
    SpoolOptions { dir, max_bytes: args.spool_bytes, sync, interval }
}

impl Settings {
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
        To::Tls(_) | To::Enrolled => None,
    });
    let has_tls = args.to.iter().any(|to| matches!(to, To::Tls(_) | To::Enrolled));
    let given = single.chain(&args.multicast).cloned().chain(broadcast);
    let mut targets: Vec<Target> =
        given.map(|target| with_ttl(target).on_interfaces(&args.interfaces)).collect();
    // Broadcast is the one target that needs no configuration, so an agent without options uses it.
    if targets.is_empty() && args.record.is_none() && !has_tls {
        targets.push(Target::broadcast(DEFAULT_PORT).on_interfaces(&args.interfaces));
    }
    targets
}

fn connection(args: &AgentArgs, interval: Duration) -> Option<ConnectionSettings> {
    let receivers: Vec<String> = args
        .to
        .iter()
        .filter_map(|to| match to {
            To::Tls(address) => Some(address.clone()),
            To::Udp(_) | To::Enrolled => None,
        })
        .collect();
    let state = || args.state.clone().unwrap_or_else(default_state_dir);
    let spool = args.spool.clone().map(|dir| directory(dir, args, interval));
    let ask = if args.no_discovery { Vec::new() } else { groups(&args.interfaces) };
    let is_wanted = !receivers.is_empty() || args.to.contains(&To::Enrolled);
    is_wanted.then(|| ConnectionSettings { receivers, state: state(), spool, ask })
}

#[cfg(test)]
mod tests {
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
    fn a_recording_alone_sends_nothing() {
        assert_eq!(shown("--record d"), [""; 0]);
        assert_eq!(shown("--record d --to 10.0.0.1"), ["10.0.0.1:3001"]);
        assert_eq!(shown("--record d --broadcast"), ["broadcast port 3001"]);
        let recording = |arguments: &str| settings(arguments).recording.unwrap();
        assert_eq!(recording("--record d"), SpoolOptions::new("d".into()));
        assert_eq!(recording("--record d --spool-sync always --spool-bytes 1MB").sync, SyncPolicy::Always);
        assert_eq!(recording("--record d --spool-sync exit").sync, SyncPolicy::AtEnd);
        assert_eq!(
            recording("--record d --spool-interval 1m").sync,
            SyncPolicy::Every(Duration::from_mins(1))
        );
        assert!(settings("").recording.is_none());
    }

    #[test]
    fn a_tls_connection_alone_sends_no_datagrams() {
        assert_eq!(shown("--to tls://receiver"), [""; 0]);
        assert_eq!(shown("--to tls://receiver --to 10.0.0.1"), ["10.0.0.1:3001"]);
        let connection = settings("--to tls://receiver,tls://10.0.0.9:4 --state d").connection.unwrap();
        assert_eq!(connection.receivers, ["receiver:3002", "10.0.0.9:4"]);
        assert_eq!(connection.state, PathBuf::from("d"));
        assert!(settings("--to receiver").connection.is_none());
        let enrolled = settings("--to enrolled").connection.unwrap();
        assert!(enrolled.receivers.is_empty() && enrolled.ask.len() == 2, "{enrolled:?}");
        assert!(settings("--to enrolled --no-discovery").connection.unwrap().ask.is_empty());
        assert_eq!(shown("--to enrolled"), [""; 0]);
        let spool =
            settings("--to tls://receiver --spool d --spool-sync always").connection.unwrap().spool.unwrap();
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
