//! `--max-cpu` in a storm of switches: less and less is watched, and the data says so. When it steps up again is a matter of
//! minutes and of the machine: the unit tests have patience for that.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cpumon_model::{Fields, Moment, Probes};
use cpumon_receiver::{Demux, DemuxOptions};

use crate::scene::{Scene, Stop};

/// How long each half of the test may take.
const PATIENCE: Duration = Duration::from_mins(3);

/// Two threads that hand a byte to and fro: each time is a switch, some hundred thousand a second.
fn storm(stop: &AtomicBool) {
    let (mut ping, mut pong) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while pong.read_exact(&mut byte).is_ok() && pong.write_all(&byte).is_ok() {}
        });
        let mut byte = [0];
        while !stop.load(Ordering::Relaxed) {
            ping.write_all(&byte).unwrap();
            ping.read_exact(&mut byte).unwrap();
        }
        drop(ping);
    });
}

/// Receives datagrams until one has the wanted probes.
fn wait_for(scene: &Scene, demux: &mut Demux, what: &str, is_wanted: impl Fn(Probes) -> bool) {
    let (begin, mut buffer, mut last) = (Instant::now(), vec![0; 65_536], Probes::empty());
    while begin.elapsed() < PATIENCE {
        // A signal to this process, which other tests send, ends the wait of a socket with a timeout.
        let (length, from) = match scene.socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            received => received.unwrap(),
        };
        let received =
            Moment { mono_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap(), ..Moment::default() };
        let mut found = false;
        let taken = demux.accept(&buffer[..length], from, received, &mut |_, interval| {
            last = interval.health.probes;
            // A probe that was switched off is no data, not 0.
            let (probe, field) = (Probes::HISTOGRAMS, Fields::HISTOGRAMS);
            assert_eq!(interval.fields.contains(field), last.contains(probe), "{interval:?}");
            assert!(last.contains(probe) || interval.delays.is_empty());
            found |= is_wanted(last);
        });
        assert!(taken.is_ok(), "{taken:?}");
        if found {
            return;
        }
    }
    panic!("not within {PATIENCE:?}: {what}; the last was {last:?}");
}

#[test]
fn a_storm_of_switches_makes_it_watch_less_and_the_data_says_so() {
    let Some(scene) = Scene::set() else { return };
    let agent =
        scene.start(&[], &["--source", "bpf", "--probes", "sched,waits,irq,hist", "--max-cpu", "0.2%"]);
    let mut demux = Demux::new(DemuxOptions::default());
    let all = Probes::EXITS | Probes::SCHED | Probes::WAITS | Probes::IRQ | Probes::HISTOGRAMS;
    wait_for(&scene, &mut demux, "all is watched at first", |probes| probes.contains(all));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| storm(&stop));
        // One at a time or all at once: that depends on the cost of loading the others again.
        wait_for(&scene, &mut demux, "nothing but snapshots is left", |probes| probes == Probes::EXITS);
    });
    let messages = agent.end();
    assert!(messages.contains("the limit is 0.2%: "), "{messages}");
    assert!(
        ["switches", "all probes"].iter().any(|what| messages.contains(&format!("{what} are switched off"))),
        "{messages}"
    );
    assert!(
        !messages.contains("the probes cannot be changed"),
        "the capabilities that it keeps suffice: {messages}"
    );
}
