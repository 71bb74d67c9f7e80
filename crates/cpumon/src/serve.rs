//! `cpumon serve` and `cpumon run`: a receiver that runs until a signal ends it, and the line about it each second.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cpumon_agent::{FlightArgs, FlightSettings, Manager};
use cpumon_collect::USUAL_PROBES;
use cpumon_files::AuditLog;
use cpumon_model::{HostStatus, Interval, Probes, Trust, escape};
use cpumon_query::time::now_ns;
use cpumon_query::{Live, status};
use cpumon_receiver::hub::{Hub, HubOptions};
use cpumon_receiver::{KeyPlan, Plan, SourceRate, TlsPlan, own_traces_dir};
use cpumon_store::StoreOptions;
use cpumon_tui::Options;
use cpumon_web::WebOptions;
use jiff::Timestamp;

use crate::cli::{LIVE_PROBES, MeasureArgs, RetentionArgs, RunArgs, ServeArgs};
use crate::exit::{Outcome, Signals, Usage};
use crate::feeds::HubFeed;
use crate::paths::{key_file, own_state_dir, store_for_writing};
use crate::serving::{Serving, sampler_options, store_options, web_options};
use crate::top::show_screens;

/// Time between two checks whether to stop.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// A receiver without datagrams counts as alive for this long after each check.
const HANGS: Duration = Duration::from_secs(20);
const PROGRAM: &str = "cpumon";
/// Memory of `cpumon run` for the newest intervals of this machine, bytes: views of older ones ask the store. Trusted hosts
/// get three quarters.
const LOCAL_PAST_BYTES: usize = 8 << 20;
/// Memory for the same intervals on its screens, bytes.
const LOCAL_SCREEN_BYTES: usize = 6 << 20;
/// Memory for pages of its store, bytes: the store has one host.
const LOCAL_CACHE_BYTES: u64 = 4 << 20;

pub fn serve(args: &ServeArgs) -> anyhow::Result<Outcome> {
    cpumon_agent::log_to_stderr(PROGRAM, log::LevelFilter::Info);
    if let Some(address) = args.tls.filter(|address| args.discovery && address.ip().is_loopback()) {
        let message =
            format!("--discovery needs --tls on an address that devices can reach; {address} is loopback");
        return Err(Usage(message).into());
    }
    let store = store_for_writing(args.store.as_deref());
    let state = own_state_dir(args.state.as_deref(), args.store.as_deref())?;
    let audit = Some(Arc::new(AuditLog::in_dir(&state)));
    let flight = match (args.no_store, args.no_agent) {
        (false, false) => {
            flight_settings(&args.flight, &args.measure, &args.retention, &store, USUAL_PROBES.1)?
        }
        _ if args.flight.flight_recorder.is_none() => None,
        _ => {
            let message = "--flight-recorder needs a store and this machine's measurements: remove --no-store and --no-agent";
            return Err(Usage(message.to_owned()).into());
        }
    };
    let plan = Plan {
        udp: args.udp.clone(),
        no_udp: args.no_udp,
        group_keys: key_plan(args, &state),
        source_rate: Some(SourceRate {
            datagrams_per_s: args.source_datagrams,
            bytes_per_s: args.source_bytes,
        }),
        multicast: args.multicast.clone(),
        store: (!args.no_store).then(|| (store, store_options(&args.retention))),
        hub: HubOptions { metrics: args.metrics.options(), ..HubOptions::default() },
        tls: args.tls.map(|address| TlsPlan { address, state }),
        discovery: args.discovery,
        trace_bytes: args.retention.trace_bytes,
        measure: (!args.no_agent).then(|| sampler_options(&args.measure, USUAL_PROBES.1)),
        flight,
        confines_calls: true,
    };
    let web = WebOptions { audit, ..web_options(&args.web, args.http)? };
    let signals = Signals::install()?;
    let manager = Manager::find();
    let serving = Serving::start(&plan, args.http, web)?;
    print_start(&serving);
    manager.ready();
    let watch = manager.watch(&serving.receiver().pulse).context("cannot start the watchdog's thread")?;
    let ended = wait(&serving, &signals, args.log_each_second, None);
    drop(watch);
    manager.stopping();
    // Before the result of the wait: queued intervals must reach the store even if a thread has failed.
    serving.finish()?;
    ended?;
    Ok(signals.outcome())
}

/// Files of the flight recorder that wait for the trace store, which takes them within a second.
const MAX_FLIGHTS: u32 = 20;

/// The flight recorder of this machine, if it is wanted; `probes` is the default of --probes.
fn flight_settings(
    flight: &FlightArgs,
    measure: &MeasureArgs,
    retention: &RetentionArgs,
    store: &Path,
    probes: Probes,
) -> anyhow::Result<Option<FlightSettings>> {
    flight.check(measure.source.probes.unwrap_or(probes)).map_err(|error| Usage(error.to_string()))?;
    let settings = flight.settings(own_traces_dir(store), MAX_FLIGHTS);
    if settings.is_some() && retention.trace_bytes == 0 {
        return Err(Usage("--flight-recorder needs space for traces: --trace-bytes is 0".to_owned()).into());
    }
    Ok(settings)
}

/// Which datagrams are taken.
fn key_plan(args: &ServeArgs, state: &Path) -> KeyPlan {
    // With TLS no device needs plain datagrams. A user who names an address or a group for datagrams asks for them.
    let is_closed = args.tls.is_some() && args.udp.is_empty() && args.multicast.is_empty();
    let by_default = is_closed.then_some(false);
    KeyPlan {
        keys: Some(key_file(args.group_key.as_deref(), state)),
        needs_keys: args.group_key.is_some(),
        memory: state.join("sealed.heard"),
        allow_plain: args.allow_plain.or(by_default),
        allow_v1: args.allow_v1.or(by_default),
    }
}

/// `cpumon run`. Ctrl-C is its normal end, not an interruption.
pub fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    if !args.udp.ip().is_loopback() {
        let message = format!(
            "--udp {}: `cpumon run` uses loopback only; for other addresses use `cpumon serve`",
            args.udp
        );
        return Err(Usage(message).into());
    }
    if !args.http.ip().is_loopback() {
        let message = format!(
            "--http {}: `cpumon run` uses loopback only; for other addresses use `cpumon serve`, which adds login and TLS",
            args.http
        );
        return Err(Usage(message).into());
    }
    let has_screen = io::stdout().is_terminal() && io::stdin().is_terminal();
    // Messages would overwrite the screen, whose title line shows the important ones.
    cpumon_agent::log_to_stderr(
        PROGRAM,
        if has_screen { log::LevelFilter::Off } else { log::LevelFilter::Info },
    );
    let store = store_for_writing(args.store.as_deref());
    let flight = flight_settings(&args.flight, &args.measure, &args.retention, &store, LIVE_PROBES)?;
    let plan = Plan {
        udp: vec![args.udp],
        no_udp: false,
        // Only loopback is received, so datagrams need no group key.
        group_keys: KeyPlan::default(),
        source_rate: None,
        multicast: Vec::new(),
        store: Some((
            store,
            StoreOptions { cache_bytes: LOCAL_CACHE_BYTES, ..store_options(&args.retention) },
        )),
        hub: HubOptions {
            max_bytes: LOCAL_PAST_BYTES,
            metrics: args.metrics.options(),
            ..HubOptions::default()
        },
        tls: None,
        discovery: false,
        trace_bytes: args.retention.trace_bytes,
        measure: Some(sampler_options(&args.measure, LIVE_PROBES)),
        flight,
        confines_calls: false,
    };
    let web = web_options(&args.web, args.http)?;
    let signals = Signals::install()?;
    let serving = Serving::start(&plan, args.http, web)?;
    let ended = if has_screen {
        let hub = Arc::clone(&serving.receiver().hub);
        let feed = Box::new(HubFeed::new(hub, serving.http_url().to_owned()));
        let (stop, past_bytes) = (Arc::clone(signals.stop()), Some(LOCAL_SCREEN_BYTES));
        show_screens(feed, Options { stop, past_bytes, ..Options::default() })
    } else {
        print_start(&serving);
        wait(&serving, &signals, true, args.iterations)
    };
    serving.finish()?;
    ended?;
    Ok(Outcome::Done)
}

/// Prints the addresses, the store and the line `ready`. Standard output may be closed: receiving continues, as in [`wait`].
fn print_start(serving: &Serving) {
    let mut out = io::stdout().lock();
    for line in serving.start_lines() {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{}", serving.ready_line()).and_then(|()| out.flush());
}

/// Waits for a signal, a failed thread, or enough intervals of the local host. Logs a line per second if wanted.
fn wait(serving: &Serving, signals: &Signals, logs: bool, intervals: Option<u64>) -> anyhow::Result<()> {
    let hub = &serving.receiver().hub;
    let mut next_line = Instant::now() + Duration::from_secs(1);
    while !signals.stop().load(Ordering::Relaxed) {
        if serving.receiver().has_failed() {
            bail!("a thread of the receiver ended unexpectedly");
        }
        std::thread::sleep(CHECK_EVERY);
        if !serving.receiver().receives_datagrams {
            serving.receiver().pulse.beat(HANGS);
        }
        let count = || hub.hosts().iter().map(|host| host.loss.snapshots).max().unwrap_or(0);
        // The first snapshot ends no interval.
        let is_enough = intervals.is_some_and(|wanted| count() > wanted);
        if (logs && Instant::now() >= next_line) || is_enough {
            // Added to the last time, not to now, so that the lines do not drift.
            next_line += Duration::from_secs(1);
            let mut out = io::stdout().lock();
            let is_closed = writeln!(out, "{}", line_of(hub)).and_then(|()| out.flush()).is_err();
            if is_closed && !is_enough {
                // Standard output was closed. Receiving continues, because the store and the API are still used.
                return wait(serving, signals, false, intervals);
            }
        }
        if is_enough {
            break;
        }
    }
    Ok(())
}

/// Processes named in a line.
const NAMED: usize = 3;

/// One line about the receiver at this moment, for output that is no terminal.
fn line_of(hub: &Hub) -> String {
    let (hosts, status) = (hub.hosts(), hub.status());
    let threads: u64 = hosts.iter().map(|host| u64::from(host.thread_count)).sum();
    let lost = hosts.iter().map(|host| host.loss.snapshots_lost + host.loss.snapshots_partial).sum::<u64>();
    let receiver = &status.receiver;
    let mut line = format!(
        "{} hosts {} threads {threads} datagrams {} lost {} rejected {} {}",
        Timestamp::from_second(now_ns().div_euclid(1_000_000_000)).unwrap_or_default(),
        hosts.len(),
        receiver.datagrams,
        receiver.kernel_dropped + lost,
        receiver.rejected,
        storing(&status.store),
    );
    for host in hosts.iter().filter(|host| host.trust == Trust::Local) {
        if let Some(shown) = hub.newest(host.info.host) {
            line.push_str(&busiest(host, &shown.interval));
        }
    }
    line
}

fn storing(store: &status::Store) -> String {
    match store.state {
        status::StoreState::None => "store none".to_owned(),
        status::StoreState::Ok => format!("stored {} dropped {}", store.written, store.dropped),
        status::StoreState::Failing => {
            format!("NOT STORING ({}) dropped {}", escape(&store.error), store.dropped)
        }
    }
}

/// ` | vm: 34 %host, cargo 120 %CPU, …`
fn busiest(host: &HostStatus, interval: &Interval) -> String {
    let busy_ns = interval.ledger.threads_ns.saturating_add(interval.ledger.exited_ns);
    let mut text = format!(" | {}:", escape(&host.info.hostname));
    if let Some(pct) = interval.host_pct(busy_ns) {
        let _ = write!(text, " {pct:.0} %host");
    }
    let mut rows: Vec<_> = interval.processes.iter().filter(|row| row.delta.run_ns > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.delta.run_ns));
    for row in rows.iter().take(NAMED) {
        let pct = interval.cpu_pct(row.delta.run_ns).unwrap_or(0.0);
        let _ = write!(text, ", {} {pct:.1} %CPU", escape(&row.info.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    #[test]
    fn with_tls_plain_datagrams_are_refused_unless_they_are_asked_for() {
        let allowed = |line: &str| {
            let args = Line::parse_from(format!("serve {line}").split_whitespace()).serve;
            let plan = key_plan(&args, Path::new("state"));
            (plan.allow_plain, plan.allow_v1)
        };
        // `None`: while there is no group key.
        let by_key = (None, None);
        assert_eq!(allowed(""), by_key);
        assert_eq!(allowed("--udp 0.0.0.0:3001 --http 127.0.0.1:0 --store x.db"), by_key);
        assert_eq!(allowed("--tls 0.0.0.0:3002"), (Some(false), Some(false)));
        assert_eq!(allowed("--tls 0.0.0.0:3002 --discovery"), (Some(false), Some(false)));
        assert_eq!(allowed("--tls 0.0.0.0:3002 --allow-v1"), (Some(false), Some(true)));
        assert_eq!(allowed("--tls 0.0.0.0:3002 --udp 0.0.0.0:3001"), by_key);
        assert_eq!(allowed("--tls 0.0.0.0:3002 --multicast 239.0.0.1"), by_key);
        assert_eq!(allowed("--tls 0.0.0.0:3002 --udp 0.0.0.0:3001 --allow-plain=false"), (Some(false), None));
    }
}
