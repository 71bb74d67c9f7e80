//! [`Receiver`]: everything that runs. In: a [`Plan`] and a [`Frontend`]. Out: threads that receive, measure this machine, store
//! and show, around one [`Hub`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use cpumon_agent::{
    AllowedPaths, Calls, FlightSettings, Pulse, RetainedCapabilities, Sampler, SamplerOptions,
    give_large_lists_back, give_up_calls, give_up_rights, in_domain,
};
use cpumon_files::directory_of;
use cpumon_link::DEFAULT_PORT;
use cpumon_link::receiving::{ReceiverOptions, UdpReceiver};
use cpumon_model::{HostInfo, SourceKind};
use cpumon_store::StoreOptions;

use crate::connection::{DeviceListener, leave_address};
use crate::datagrams::{KeyPlan, Receiving};
use crate::demux::SourceRate;
use crate::enrolment::Authority;
use crate::error::{AnyError, ReceiverError};
use crate::hub::{Hub, HubOptions};
use crate::measure::{self, open_recorders};
use crate::process::Kept;
use crate::status::ReceiverState;
use crate::storing::{Sink, StoreHandle, hosts_of_store, past_of_store};
use crate::traces::{OwnTraces, TraceLimits, TraceStore, TraceStoreThread};

/// What a receiver does, every default applied.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// UDP addresses; empty: every interface, port 3001, IPv4 and, if there is any, IPv6.
    pub udp: Vec<SocketAddr>,
    pub no_udp: bool,
    pub multicast: Vec<IpAddr>,
    pub group_keys: KeyPlan,
    /// What one source of datagrams may send; `None`: any amount.
    pub source_rate: Option<SourceRate>,
    /// Store and how long to keep; `None`: keep nothing.
    pub store: Option<(PathBuf, StoreOptions)>,
    pub hub: HubOptions,
    /// Accept enrolled devices over TLS; `None`: do not.
    pub tls: Option<TlsPlan>,
    /// Answer devices that search for this receiver, and let them ask to be let in; needs TLS.
    pub discovery: bool,
    /// Bytes of traces to keep beside the store; 0: none are taken.
    pub trace_bytes: u64,
    /// How to measure this machine; `None`: do not.
    pub measure: Option<SamplerOptions>,
    /// Keep its last seconds of context switches, in [`own_traces_dir`](crate::own_traces_dir) of the store; needs both, and space for traces.
    pub flight: Option<FlightSettings>,
    /// Give up system calls, which holds for the whole process: not where it does anything else, such as drawing a screen.
    pub confines_calls: bool,
}

#[derive(Clone, Debug)]
pub struct TlsPlan {
    pub address: SocketAddr,
    /// Directory of the receiver's identity, its tokens and enrolled hosts.
    pub state: PathBuf,
}

/// Serves what the hub has, until it is stopped.
pub type RunFrontend = Box<dyn FnOnce(Arc<Hub>) -> Result<(), AnyError> + Send>;

/// What shows intervals to people: a server that runs on a thread of the receiver, inside its sandbox.
pub struct Frontend {
    /// Directories that it reads while it runs.
    pub reads: Vec<PathBuf>,
    pub address: SocketAddr,
    pub run: RunFrontend,
    /// Makes `run` return; may be called more than once.
    pub stop: Box<dyn Fn() + Send + Sync>,
}

/// A running receiver; dropping it stops it.
pub struct Receiver {
    pub hub: Arc<Hub>,
    pub state: Arc<ReceiverState>,
    stop: Arc<AtomicBool>,
    stop_frontend: Box<dyn Fn() + Send + Sync>,
    threads: Vec<(&'static str, JoinHandle<Result<(), AnyError>>)>,
    store: Option<Arc<StoreHandle>>,
    /// How this machine is measured, in words; `None`: it is not.
    pub measured_by: Option<String>,
    /// Which datagrams are taken, in words.
    pub taken: String,
    /// What threads that read bytes of others are limited to, in words; the agent reports the same.
    pub sandbox: String,
    /// Beats as long as datagrams are taken.
    pub pulse: Pulse,
    /// Whether datagrams are received. If not, the caller must let the pulse beat.
    pub receives_datagrams: bool,
}

impl Receiver {
    /// Opens everything, then starts the threads: either every part runs, or the error names the one that does not.
    ///
    /// # Errors
    /// An address cannot be listened on, this machine cannot be measured, the store or the identity cannot be opened.
    pub fn start(plan: &Plan, frontend: Frontend) -> Result<Self, ReceiverError> {
        // Before there are other threads. What strangers send comes in large lists that end at once.
        give_large_lists_back();
        // While the rights are there: a port below 1024 and a receive buffer beyond the limit need them.
        let (receiver, udp) = listen(plan)?;
        let kept = kept_by(plan);
        kept.make_directories()?;
        let user = kept.become_owner();
        let sampler = plan.measure.as_ref().map(Sampler::open).transpose().map_err(ReceiverError::Measure)?;
        // Before the first thread begins that must have no rights: threads inherit the remaining ones.
        let kind = sampler.as_ref().map_or(SourceKind::Unknown, Sampler::kind);
        let files = kept.needs_override();
        let recorders = match (&sampler, &plan.measure, &plan.store) {
            (Some(sampler), Some(measure), Some((store, _))) if plan.trace_bytes > 0 => {
                let (flight, source) = (plan.flight.as_ref(), measure.source.choice);
                Some(open_recorders(store, plan.trace_bytes, flight, source, sampler, files)?)
            }
            _ => None,
        };
        let (own, flight) = recorders.unzip();
        let probes = plan.measure.as_ref().is_some_and(|measure| measure.max_cpu.is_some());
        give_up_rights(kind, RetainedCapabilities { names: sampler.is_some(), files, probes });
        let calls =
            Calls { writes: true, bpf: kind == SourceKind::Bpf || probes || own.is_some(), serves: true };
        let filter = plan.confines_calls.then(|| give_up_calls(calls));
        let info = sampler.as_ref().map(Sampler::info).cloned();
        let paths = allowed_paths(plan, &kept, &frontend.reads);
        let in_domain = in_domain(paths, || {
            // Names of programs are read by the measuring thread only.
            give_up_rights(SourceKind::Unknown, RetainedCapabilities { names: false, files, probes: false });
            Self::open_all(plan, receiver, udp, frontend, info, own)
        });
        let (opened, domain) =
            in_domain.map_err(|source| ReceiverError::Thread { name: "network", source })?;
        let (mut running, sink) = opened?;
        running.sandbox = [filter, Some(domain), user].into_iter().flatten().collect::<Vec<_>>().join("; ");
        if let Some(sampler) = sampler {
            // Outside: in a domain the names of other programs cannot be read.
            let stop = Arc::clone(&running.stop);
            running.spawn("measure", move || {
                measure::run(sampler, &sink, flight.flatten(), &stop);
                Ok(())
            })?;
        }
        give_up_rights(SourceKind::Unknown, RetainedCapabilities { names: false, files, probes: false });
        Ok(running)
    }

    /// Everything but measuring: what reads bytes of others, and the store. It stays in the domain of the thread that calls it.
    fn open_all(
        plan: &Plan,
        receiver: Option<Receiving>,
        udp: Vec<SocketAddr>,
        frontend: Frontend,
        info: Option<HostInfo>,
        own: Option<Arc<OwnTraces>>,
    ) -> Result<(Self, Sink), ReceiverError> {
        let store = start_store(plan)?;
        let authority = plan.tls.as_ref().map(|tls| open_authority(tls, store.clone())).transpose()?;
        let (traces, trace_thread) = open_trace_store(plan, own.clone())?.unzip();
        let counts = traces.as_ref().map(|traces| Arc::clone(&traces.counts));
        let state = Arc::new(ReceiverState::new(udp, frontend.address, store.clone(), counts));
        let (past, for_status) = (past_of_store(store.clone()), Arc::clone(&state));
        let stored = hosts_of_store(plan.store.as_ref().map(|(path, _)| path.as_path()));
        let hub = Hub::new(plan.hub, past, Box::new(move || for_status.status()));
        let requests = traces.as_ref().map(|traces| Arc::clone(&traces.requests));
        let hub = Arc::new(hub.with_stored(stored.clone()).with_traces(requests, own));
        let local = info.as_ref().map(|info| info.host);
        let mut sinks =
            Sink::new(Arc::clone(&hub), store.clone(), local, authority.clone()).with_names_of_tasks(&stored);
        sinks.traces = traces;
        let stop = Arc::<AtomicBool>::default();
        let connections = match (&plan.tls, authority) {
            (Some(tls), Some(authority)) => {
                let name = plan.discovery.then(hostname);
                let listener =
                    DeviceListener::bind(tls.address, &authority, sinks.clone(), name.as_deref(), &stop)?;
                leave_address(&tls.state, listener.server.address);
                let _set_once = state.connections.set(Arc::clone(&listener.server));
                Some(listener)
            }
            _ => None,
        };
        let mut running = Self {
            stop,
            stop_frontend: frontend.stop,
            threads: Vec::new(),
            hub,
            state,
            store,
            measured_by: info.map(|info| info.source_reason.to_string()),
            taken: receiver.as_ref().map_or_else(String::new, Receiving::describe),
            sandbox: String::new(),
            pulse: Pulse::default(),
            receives_datagrams: false,
        };
        if let Some(work) = trace_thread {
            let stop = Arc::clone(&running.stop);
            running.spawn("traces", move || {
                work.run(&stop);
                Ok(())
            })?;
        }
        running.spawn_all(frontend.run, receiver, connections, &sinks)?;
        Ok((running, sinks))
    }

    fn spawn_all(
        &mut self,
        show: RunFrontend,
        receiver: Option<Receiving>,
        connections: Option<DeviceListener>,
        sink: &Sink,
    ) -> Result<(), ReceiverError> {
        let (for_udp, pulse) = (sink.clone(), self.pulse.clone());
        let (stop, state) = (Arc::clone(&self.stop), Arc::clone(&self.state));
        self.receives_datagrams = receiver.is_some();
        if let Some(receiver) = receiver {
            self.spawn("receive", move || Ok(receiver.run(&for_udp, &state, &pulse, &stop)?))?;
        }
        if let Some(mut connections) = connections {
            if let Some(mut responder) = connections.responder.take() {
                let stop = Arc::clone(&self.stop);
                self.spawn("discovery", move || Ok(responder.run(&stop)?))?;
            }
            self.spawn("tls", move || {
                connections.run();
                Ok(())
            })?;
        }
        let hub = Arc::clone(&self.hub);
        self.spawn("http", move || show(hub))
    }

    fn spawn(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), AnyError> + Send + 'static,
    ) -> Result<(), ReceiverError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push((name, thread.map_err(|source| ReceiverError::Thread { name, source })?));
        Ok(())
    }

    pub fn store_path(&self) -> Option<&Path> {
        self.store.as_ref().map(|store| store.path.as_path())
    }

    /// Whether some thread ended on its own: a receiver that is half dead must not seem alive.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Stops every thread and writes what waits to the store.
    ///
    /// # Errors
    /// What went wrong first.
    pub fn finish(mut self) -> Result<(), ReceiverError> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<(), ReceiverError> {
        self.stop.store(true, Ordering::Relaxed);
        (self.stop_frontend)();
        let mut result = Ok(());
        for (name, thread) in self.threads.drain(..) {
            // The measuring thread may be parked between two passes.
            thread.thread().unpark();
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(|source| ReceiverError::ThreadFailed { name, source }),
                Err(_) => Err(ReceiverError::ThreadPanicked { name }),
            };
            result = result.and(ended);
        }
        // Last, because the threads that ended put their final intervals into its queue.
        if let Some(store) = self.store.take() {
            result = result.and(store.finish());
        }
        result
    }
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn kept_by(plan: &Plan) -> Kept {
    let memory = plan.group_keys.memory.parent().filter(|dir| !dir.as_os_str().is_empty());
    Kept {
        store: plan.store.as_ref().map(|(path, _)| path.clone()),
        state: plan.tls.as_ref().map(|tls| tls.state.clone()),
        memory: memory.map(Path::to_owned),
        keys: plan.group_keys.keys.clone(),
    }
}

/// The directories that this receiver writes, and those that it reads again.
fn allowed_paths(plan: &Plan, kept: &Kept, reads: &[PathBuf]) -> AllowedPaths {
    let read =
        plan.group_keys.keys.iter().map(|path| directory_of(path).to_owned()).chain(reads.iter().cloned());
    AllowedPaths {
        resolves: false,
        read: read.collect(),
        write: kept.directories(),
        connect: Vec::new(),
        bind: plan.tls.iter().map(|tls| tls.address.port()).collect(),
    }
}

/// The store's writer. With TLS each commit waits for the disk: acknowledged means on the disk.
fn start_store(plan: &Plan) -> Result<Option<Arc<StoreHandle>>, ReceiverError> {
    let start = |(path, options): &(PathBuf, StoreOptions)| {
        let sync_each_commit = options.sync_each_commit || plan.tls.is_some();
        StoreHandle::start(path, &StoreOptions { sync_each_commit, ..options.clone() })
    };
    Ok(plan.store.as_ref().map(start).transpose()?.map(Arc::new))
}

/// Opens the identity. Its certificates last for a year, so it asks the store whether the clock can be right.
fn open_authority(plan: &TlsPlan, store: Option<Arc<StoreHandle>>) -> Result<Arc<Authority>, ReceiverError> {
    let authority = Authority::open(&plan.state)?;
    Ok(Arc::new(match store {
        Some(store) => authority.with_doubt_of_clock(move || store.handle.status().clock_doubt),
        None => authority,
    }))
}

/// The trace store, if there is anything that brings traces.
fn open_trace_store(
    plan: &Plan,
    own: Option<Arc<OwnTraces>>,
) -> Result<Option<(TraceStore, TraceStoreThread)>, ReceiverError> {
    let is_used = plan.tls.is_some() || plan.measure.is_some();
    let Some((path, options)) = plan.store.as_ref().filter(|_| is_used) else { return Ok(None) };
    let limits = TraceLimits { bytes: plan.trace_bytes, age: options.max_age };
    TraceStore::open(path, limits, own).map(Some)
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Err(error) = self.stop_all() {
            log::error!("{}", cpumon_model::with_causes(&error));
        }
    }
}

/// Binds the sockets for datagrams, if there are to be any; gives their addresses too.
fn listen(plan: &Plan) -> Result<(Option<Receiving>, Vec<SocketAddr>), ReceiverError> {
    if plan.no_udp {
        return Ok((None, Vec::new()));
    }
    let receiver = bind_udp(plan)?;
    for address in receiver.shared_addresses() {
        log::warn!(
            "another program receives on udp {address} too: broadcast and multicast reach both, any other datagram only \
             the program that was started last; choose another port with --udp, or end the other one"
        );
    }
    let udp = receiver.local_addresses().map_err(ReceiverError::Datagrams)?;
    Ok((Some(Receiving::open(receiver, &plan.group_keys, plan.source_rate)?), udp))
}

fn bind_udp(plan: &Plan) -> Result<UdpReceiver, ReceiverError> {
    let bind = |listen: Vec<SocketAddr>| {
        UdpReceiver::bind(&ReceiverOptions {
            listen,
            multicast: plan.multicast.clone(),
            ..ReceiverOptions::default()
        })
    };
    if !plan.udp.is_empty() {
        return bind(plan.udp.clone()).map_err(ReceiverError::Datagrams);
    }
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    // A machine without IPv6 is no error unless the user asked for it.
    bind(vec![v4, v6])
        .or_else(|error| {
            let only_v4 = bind(vec![v4])?;
            log::warn!("receiving over IPv4 only: {error}");
            Ok::<_, cpumon_link::LinkError>(only_v4)
        })
        .map_err(ReceiverError::Datagrams)
}
