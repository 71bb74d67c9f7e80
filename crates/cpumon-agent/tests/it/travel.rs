//! The agent in one network namespace, a receiver in another: measurements of one arrive at the other, by broadcast and
//! by multicast, in both protocols.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cpumon_link::receiving::{ReceiverOptions, UdpReceiver};
use cpumon_model::{HostStatus, Interval, Moment, SourceKind};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::v1::{self, Datagram};

use crate::netns::{Namespace, available};
use crate::scene::{PATIENCE, Running};

/// Threads with this name spin for a few milliseconds now and then.
const BUSY: &str = "travel-busy";

/// The network namespaces of a device and of a receiver, joined by a cable.
fn device_and_receiver(label: &str) -> (Namespace, Namespace) {
    let (device, receiver_net) =
        (Namespace::new(&format!("{label}-a")), Namespace::new(&format!("{label}-b")));
    device.cable(&receiver_net, "veth0");
    for (namespace, host) in [(&device, 1), (&receiver_net, 2)] {
        namespace.ip(&format!("addr add 10.78.1.{host}/24 brd + dev veth0"));
        namespace.ip(&format!("addr add fd78:1::{host}/64 dev veth0 nodad"));
    }
    (device, receiver_net)
}

fn listen(namespace: &Namespace, address: &str, group: Option<&str>) -> UdpReceiver {
    let options = ReceiverOptions {
        listen: vec![address.parse().unwrap()],
        multicast: group.iter().map(|group| group.parse().unwrap()).collect(),
        ..ReceiverOptions::default()
    };
    namespace.run(|| UdpReceiver::bind(&options).unwrap())
}

fn agent_in(namespace: &Namespace, arguments: &[&str]) -> Running {
    let mut command = Command::new("ip");
    command.args([
        "netns",
        "exec",
        &namespace.name,
        env!("CARGO_BIN_EXE_cpumon-agent"),
        "--source",
        "procfs",
    ]);
    command.args(["--interval", "200ms", "-q"]).args(arguments).stdin(Stdio::null());
    Running(command.spawn().unwrap())
}

/// A thread of this process that uses some CPU until the guard is dropped.
fn busy_thread() -> impl Drop {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Guard(Arc<AtomicBool>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let work = move || {
        while !seen.load(Ordering::Relaxed) {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(10) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    std::thread::Builder::new().name(BUSY.into()).spawn(work).unwrap();
    Guard(stop)
}

fn now() -> Moment {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let wall_ns = i64::try_from(wall.as_nanos()).unwrap();
    Moment { mono_ns: wall_ns.cast_unsigned(), boot_ns: wall_ns.cast_unsigned(), wall_ns }
}

/// Receives until `wanted` says that an interval is it, at most [`PATIENCE`].
fn receive_until(
    receiver: &mut UdpReceiver,
    demux: &mut Demux,
    mut wanted: impl FnMut(&HostStatus, &Interval) -> bool,
) -> bool {
    let (end, mut is_found) = (Instant::now() + PATIENCE, false);
    while !is_found && Instant::now() < end {
        let received = receiver.recv_batch(Duration::from_millis(50), &mut |bytes, from| {
            demux
                .accept(bytes, from, now(), &mut |host, interval| is_found |= wanted(host, interval))
                .unwrap();
        });
        received.unwrap();
        demux.flush(now(), &mut |host, interval| is_found |= wanted(host, interval));
    }
    is_found
}

fn holds_busy_thread(interval: &Interval) -> bool {
    let pid = std::process::id();
    interval.threads.iter().any(|row| {
        row.comm.as_bytes() == BUSY.as_bytes() && row.process.pid == pid && row.delta.run_ns > 5_000_000
    })
}

#[test]
fn a_broadcast_reaches_both_receivers() {
    if !available() {
        return;
    }
    let (device, receiver_net) = device_and_receiver("v2");
    let mut receivers =
        [listen(&receiver_net, "0.0.0.0:3001", None), listen(&receiver_net, "0.0.0.0:3001", None)];
    let _busy = busy_thread();
    let _agent = agent_in(&device, &["--broadcast", "--host-name", "device-7"]);
    for receiver in &mut receivers {
        let mut demux = Demux::new(DemuxOptions::default());
        let found = receive_until(receiver, &mut demux, |host, interval| {
            assert_eq!(&*host.info.hostname, "device-7");
            assert!(host.address.starts_with("10.78.1.1:"), "{}", host.address);
            holds_busy_thread(interval)
        });
        assert!(found, "the busy thread must arrive: {:?}", demux.totals());
        assert_eq!(demux.totals().rejected, 0);
    }
}

#[test]
fn a_multicast_reaches_the_receivers_that_joined() {
    if !available() {
        return;
    }
    let (device, receiver_net) = device_and_receiver("mc");
    let _busy = busy_thread();
    for (address, group, to) in
        [("0.0.0.0:3001", "239.78.0.1", "239.78.0.1:3001"), ("[::]:3001", "ff02::7801", "[ff02::7801]:3001")]
    {
        let mut receiver = listen(&receiver_net, address, Some(group));
        let _agent = agent_in(&device, &["--multicast", to]);
        let mut demux = Demux::new(DemuxOptions::default());
        assert!(receive_until(&mut receiver, &mut demux, |_, interval| holds_busy_thread(interval)), "{to}");
    }
}

#[test]
fn a_v1_agent_sends_what_the_original_understands() {
    if !available() {
        return;
    }
    let (device, receiver_net) = device_and_receiver("v1");
    let mut receiver = listen(&receiver_net, "0.0.0.0:3001", None);
    let _busy = busy_thread();
    let _agent = agent_in(&device, &["--v1"]);
    let (own_pid, end) = (std::process::id(), Instant::now() + PATIENCE);
    let (mut own_user_ms, mut sets) = (0, 0);
    while (own_user_ms == 0 || sets < 3) && Instant::now() < end {
        let received = receiver.recv_batch(Duration::from_millis(50), &mut |bytes, from| {
            assert_eq!(from.ip(), IpAddr::from([10, 78, 1, 1]));
            assert!(bytes.len() <= v1::MAX_ORIGINAL_DATAGRAM);
            match v1::decode(bytes).unwrap() {
                Datagram::EndOfTransfer => sets += 1,
                Datagram::Process(process) => {
                    assert!(process.duration_ms > 0, "{process:?}");
                    if process.process_id == own_pid {
                        own_user_ms += process.user_ms + process.kernel_ms;
                    }
                }
            }
        });
        received.unwrap();
    }
    assert!(sets >= 3 && own_user_ms > 0, "{sets} sets, {own_user_ms} ms of this process");
}

#[test]
fn a_v1_agents_sets_become_intervals() {
    if !available() {
        return;
    }
    let (device, receiver_net) = device_and_receiver("v1i");
    let mut receiver = listen(&receiver_net, "0.0.0.0:3001", None);
    let _busy = busy_thread();
    let _agent = agent_in(&device, &["--v1", "--to", "10.78.1.2:3001"]);
    let mut demux = Demux::new(DemuxOptions::default());
    let own_pid = std::process::id();
    let found = receive_until(&mut receiver, &mut demux, |host, interval| {
        assert_eq!(host.source, SourceKind::V1);
        interval
            .processes
            .iter()
            .any(|row| row.key.pid == own_pid && row.delta.user_ns + row.delta.system_ns > 0)
    });
    assert!(found, "{:?}", demux.totals());
}
