//! A running receiver. In: a [`Plan`]. Out: threads that receive, measure this machine, store and answer HTTP, around one
//! [`Hub`]. Why: `serve` and `run` are the same receiver under two faces.
//!
//! ```text
//! receiving thread ─┐                  ┌─▶ store's writer thread (bounded queue)
//! devices' threads ─┼─▶ Sink ──────────┤
//! measuring thread ─┘  (never waits)   └─▶ hub ─▶ HTTP thread, terminal
//! ```

mod keep;
mod lines;
mod measure;
mod receive;
mod sealing;
mod sink;
mod state;
mod stream;
mod time_line;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use cpumon_agent::{Pulse, Sampler, SamplerOptions, in_domain};
use cpumon_collect::{AllowedPaths, RetainedCapabilities};
use cpumon_link::tls::Authority;
use cpumon_link::{DEFAULT_PORT, ReceiverOptions, UdpReceiver};
use cpumon_model::{HostInfo, Probes, SourceKind};
use cpumon_store::StoreOptions;
use cpumon_web::{HttpServer, Shutdown, WebOptions};
use cpumon_wire::SourceRate;

use crate::cli::{KeepArgs, MeasureArgs};
use crate::hub::{Hub, HubOptions};
use crate::login;
use keep::{Keeper, past_of_store};
pub use lines::SecondLines;
use receive::Receiving;
pub use sealing::SealPlan;
use sink::Sink;
use state::State;
use stream::{StreamListener, leave_address};

/// What a receiver does, every default applied.
#[derive(Clone, Debug)]
pub struct Plan {
    /// UDP addresses; empty: every interface, port 3001, IPv4 and, if there is any, IPv6.
    pub udp: Vec<SocketAddr>,
    /// Multicast groups to join.
    pub multicast: Vec<IpAddr>,
    /// Keys for sealed datagrams, and what is taken without.
    pub seals: SealPlan,
    /// What one source of datagrams may send; `None`: any amount.
    pub source_rate: Option<SourceRate>,
    /// HTTP address.
    pub http: SocketAddr,
    /// How HTTP is answered; the store is that of the plan.
    pub web: WebOptions,
    /// Store and how long to keep; `None`: keep nothing.
    pub store: Option<(PathBuf, StoreOptions)>,
    /// Address and state directory of the secure stream; `None`: no stream.
    pub stream: Option<(SocketAddr, PathBuf)>,
    /// Answer devices that look for this receiver, and let them ask to be let in; needs a stream.
    pub beacon: bool,
    /// How to measure this machine; `None`: do not.
    pub measure: Option<SamplerOptions>,
}

/// The store's options that the user's wishes make.
#[must_use]
pub fn store_options(keep: &KeepArgs) -> StoreOptions {
    let day = std::time::Duration::from_hours(24);
    StoreOptions {
        max_age: (keep.retain_days > 0).then(|| day.saturating_mul(keep.retain_days)),
        max_bytes: (keep.retain_bytes > 0).then_some(keep.retain_bytes),
        ..StoreOptions::default()
    }
}

/// The sampler's options that the user's wishes make; `probes` unless others were chosen.
#[must_use]
pub fn sampler_options(measure: &MeasureArgs, probes: Probes) -> SamplerOptions {
    let source = measure.look.source_options(measure.interval, probes);
    SamplerOptions { source, max_cpu: measure.max_cpu, ..SamplerOptions::default() }
}

/// A receiver at work. Dropping it stops it.
#[derive(Debug)]
pub struct Desk {
    hub: Arc<Hub>,
    state: Arc<State>,
    stop: Arc<AtomicBool>,
    http: Shutdown,
    threads: Vec<(&'static str, JoinHandle<anyhow::Result<()>>)>,
    keeper: Option<Arc<Keeper>>,
    /// Where HTTP is answered, `https` with TLS.
    http_url: String,
    /// What people must know to log in.
    access: Vec<String>,
    measured_by: Option<String>,
    /// Which datagrams are taken, in words.
    taken: String,
    /// How threads are held that read bytes of others, in words.
    held: String,
    /// Beats as long as datagrams are taken.
    pulse: Pulse,
}

/// What is bound already.
struct Listening {
    server: HttpServer,
    receiver: Receiving,
    udp: Vec<SocketAddr>,
    access: Vec<String>,
    http_url_scheme: &'static str,
}

impl Desk {
    /// Opens everything, then starts the threads: either all of it runs, or the error says what does not.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        let store = plan.store.as_ref().map(|(path, _)| path.clone());
        let web = WebOptions { store, ..plan.web.clone() };
        let (scheme, access) = (if web.tls.is_some() { "https" } else { "http" }, login::start_lines(&web));
        let server = HttpServer::bind(plan.http, web).map_err(|error| {
            let hint = match &error {
                cpumon_web::WebError::Bind { error, .. } => match error.kind() {
                    ErrorKind::AddrInUse => {
                        "; another receiver may be running: choose another port with --http"
                    }
                    ErrorKind::PermissionDenied => {
                        "; ports below 1024 need CAP_NET_BIND_SERVICE: choose another port with --http"
                    }
                    _ => "; choose another address with --http",
                },
                _ => "",
            };
            anyhow!("{error}{hint}")
        })?;
        let receiver = bind_udp(plan)?;
        for address in receiver.shared_addresses() {
            log::warn!(
                "another program receives on udp {address} too: broadcast and multicast reach both, any other datagram only \
                 the program that was started last; choose another port with --udp, or end the other one"
            );
        }
        let udp = receiver.local_addresses().context("cannot tell the UDP address")?;
        let receiver = Receiving::open(receiver, &plan.seals, plan.source_rate)?;
        let sampler =
            plan.measure.as_ref().map(Sampler::open).transpose().context("cannot measure this machine")?;
        // Before the first other thread begins: threads inherit what is left.
        cpumon_agent::give_up_rights(
            sampler.as_ref().map_or(SourceKind::Unknown, Sampler::kind),
            RetainedCapabilities {
                files: true,
                probes: plan.measure.as_ref().is_some_and(|measure| measure.max_cpu.is_some()),
            },
        );
        let info = sampler.as_ref().map(Sampler::info).cloned();
        let listening = Listening { server, receiver, udp, access, http_url_scheme: scheme };
        let (opened, held) = in_domain(allowed_paths(plan)?, || Self::open_all(plan, listening, info))
            .context("cannot start a thread")?;
        let (mut desk, sink) = opened?;
        desk.held = held;
        if let Some(sampler) = sampler {
            // Outside: in a domain the names of other programs cannot be read.
            let stop = Arc::clone(&desk.stop);
            desk.spawn("measure", move || {
                measure::run(sampler, &sink, &stop);
                Ok(())
            })?;
        }
        Ok(desk)
    }

    /// Everything but measuring: what reads bytes of others, and the store. It stays in the domain of the thread that calls it.
    fn open_all(plan: &Plan, listening: Listening, info: Option<HostInfo>) -> anyhow::Result<(Self, Sink)> {
        let Listening { server, receiver, udp, access, http_url_scheme: scheme } = listening;
        let keeper = start_keeper(plan)?;
        let authority = plan.stream.as_ref().map(|(_, dir)| Authority::open(dir)).transpose()?.map(Arc::new);

        let state = Arc::new(State::new(udp, server.local_addr(), keeper.clone()));
        let past = past_of_store(plan.store.as_ref().map(|(path, _)| path.clone()));
        let for_status = Arc::clone(&state);
        let hub = Arc::new(Hub::new(HubOptions::default(), past, Box::new(move || for_status.status())));
        let local = info.as_ref().map(|info| info.host);
        let measured_by = info.map(|info| info.source_reason.to_string());
        let sinks = Sink::new(Arc::clone(&hub), keeper.clone(), local, authority.clone());
        let stream = match (&plan.stream, authority) {
            (Some((address, dir)), Some(authority)) => {
                let listener =
                    StreamListener::bind(*address, &authority, sinks.clone(), (plan.beacon, hostname()))?;
                leave_address(dir, listener.place().address);
                state.put_stream(listener.place());
                Some(listener)
            }
            _ => None,
        };
        let mut desk = Self {
            stop: Arc::default(),
            http: server.shutdown(),
            threads: Vec::new(),
            http_url: format!("{scheme}://{}", server.local_addr()),
            access,
            hub,
            state,
            keeper,
            measured_by,
            taken: receiver.describe(),
            held: String::new(),
            pulse: Pulse::default(),
        };
        desk.spawn_all(server, receiver, stream, &sinks)?;
        Ok((desk, sinks))
    }

    fn spawn_all(
        &mut self,
        server: HttpServer,
        receiver: Receiving,
        stream: Option<StreamListener>,
        sink: &Sink,
    ) -> anyhow::Result<()> {
        let (for_udp, hub, pulse) = (sink.clone(), Arc::clone(&self.hub), self.pulse.clone());
        let (stop, state) = (Arc::clone(&self.stop), Arc::clone(&self.state));
        self.spawn("receive", move || receive::run(receiver, &for_udp, &state, &pulse, &stop))?;
        if let Some(mut stream) = stream {
            if let Some(mut beacon) = stream.take_beacon() {
                let stop = Arc::clone(&self.stop);
                self.spawn("beacon", move || Ok(beacon.run(&stop)?))?;
            }
            let stop = Arc::clone(&self.stop);
            self.spawn("stream", move || stream.run(&stop))?;
        }
        self.spawn("http", move || Ok(server.run(hub)?))
    }

    fn spawn(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push((name, thread.with_context(|| format!("cannot start the {name} thread"))?));
        Ok(())
    }

    /// What faces see.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// What it does, for people: a line each.
    #[must_use]
    pub fn start_lines(&self) -> Vec<String> {
        let status = self.state.status();
        let store = match &self.keeper {
            Some(keeper) => format!("store {}", keeper.path().display()),
            None => "store none: nothing is kept".to_owned(),
        };
        let measured = match &self.measured_by {
            Some(reason) => format!("measuring this machine by {reason}"),
            None => "not measuring this machine".to_owned(),
        };
        let stream = self.state.stream_address().map(|address| {
            format!("receiving on tls {address}; hosts that report there are authenticated: `cpumon token` lets one in")
        });
        let mut lines = vec![
            format!("cpumon {}, pid {}", status.version, status.pid),
            format!("receiving on udp {}; {}", status.udp.join(", "), self.taken),
        ];
        lines.extend(stream);
        lines.extend(self.state.beacon_key().map(|key| {
            format!("answering devices that look for a receiver on udp 3003; this one's key is {key}")
        }));
        lines.push(format!("answering on {}", self.http_url));
        lines.extend(self.access.iter().cloned());
        lines.extend([store, measured, format!("threads of the network are held to {}", self.held)]);
        lines
    }

    /// One line for programs: where it listens.
    #[must_use]
    pub fn ready_line(&self) -> String {
        let status = self.state.status();
        let stream =
            self.state.stream_address().map_or_else(String::new, |address| format!(" tls={address}"));
        format!("ready udp={} http={}{stream} pid={}", status.udp.join(","), status.http, status.pid)
    }

    /// Beats as long as datagrams are taken.
    #[must_use]
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Whether some thread ended on its own: a receiver that is half dead must not look alive.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Stops every thread, writes what waits to the store, and tells what went wrong.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.http.stop();
        let mut result = Ok(());
        for (name, thread) in self.threads.drain(..) {
            thread.thread().unpark();
            let ended = thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked")));
            result = result.and(ended.with_context(|| format!("the {name} thread failed")));
        }
        if let Some(keeper) = self.keeper.take() {
            result = result.and(keeper.finish());
        }
        result
    }
}

/// What this receiver calls itself.
fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The files that this receiver keeps, and those that it reads again. A directory that is given is made, so that there is a rule
/// for it.
fn allowed_paths(plan: &Plan) -> anyhow::Result<AllowedPaths> {
    let parent = |path: &Path| match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let kept = plan.store.as_ref().map(|(path, _)| parent(path));
    let state = plan.stream.as_ref().map(|(_, dir)| dir.clone());
    for (dir, mode) in kept.iter().map(|dir| (dir, 0o777)).chain(state.iter().map(|dir| (dir, 0o700))) {
        let mut make = std::fs::DirBuilder::new();
        make.recursive(true).mode(mode);
        let made = make.create(dir);
        made.with_context(|| format!("cannot create {}; choose a file with --store", dir.display()))?;
    }
    let memory = plan.seals.memory.parent().map(Path::to_owned);
    let files = plan.seals.keys.iter().chain(&plan.web.login);
    let read = files.map(|path| parent(path)).chain(plan.web.web_dir.clone());
    Ok(AllowedPaths {
        read: read.collect(),
        write: kept.into_iter().chain(state).chain(memory).collect(),
        connect: Vec::new(),
        bind: plan.stream.iter().map(|(address, _)| address.port()).collect(),
    })
}

/// The store's writer. With a secure stream each commit waits for the disk: acknowledged means on the disk.
fn start_keeper(plan: &Plan) -> anyhow::Result<Option<Arc<Keeper>>> {
    let start = |(path, options): &(PathBuf, StoreOptions)| {
        let sync_each_commit = options.sync_each_commit || plan.stream.is_some();
        Keeper::start(path, &StoreOptions { sync_each_commit, ..options.clone() })
    };
    Ok(plan.store.as_ref().map(start).transpose()?.map(Arc::new))
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Err(error) = self.stop_all() {
            log::error!("{error:#}");
        }
    }
}

fn bind_udp(plan: &Plan) -> anyhow::Result<UdpReceiver> {
    let bind = |listen: Vec<SocketAddr>| {
        UdpReceiver::bind(&ReceiverOptions {
            listen,
            multicast: plan.multicast.clone(),
            ..ReceiverOptions::default()
        })
    };
    if !plan.udp.is_empty() {
        return bind(plan.udp.clone()).context("cannot receive datagrams");
    }
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    // A machine without IPv6 is no error as long as nobody asked for it.
    bind(vec![v4, v6])
        .or_else(|error| {
            let only_v4 = bind(vec![v4])?;
            log::warn!("receiving over IPv4 only: {error}");
            Ok::<_, cpumon_link::LinkError>(only_v4)
        })
        .context("cannot receive datagrams")
}
