//! A receiver that was away: devices come back with all that they saw meanwhile. In: how many devices (`OUTAGE_DEVICES`), and for
//! how many seconds the receiver was away on their clocks (`OUTAGE_SECONDS`). Out: everything stored once, the present beside it,
//! and how late that was. `make outage` runs it long; no time is waited for, the devices have simulated clocks.

use std::time::{Duration, Instant};

use crate::fleet::{Device, wall_now_ns};
use crate::support::{Serve, cpumon, eventually};

const SECOND_NS: i64 = 1_000_000_000;
/// How long sending the past may take.
const LIMIT: Duration = Duration::from_mins(5);

fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// How old the oldest of the newest snapshots of all devices is that the receiver shows; `None`: it does not show all yet.
fn age_of_present(serve: &Serve, devices: usize) -> Option<Duration> {
    let status = serve.status();
    let now = wall_now_ns();
    let hosts = status["hosts"].as_array().unwrap();
    let oldest = hosts.iter().map(|host| host["last"]["wall_ns"].as_i64().unwrap()).min()?;
    (hosts.len() == devices).then(|| Duration::from_nanos(u64::try_from(now - oldest).unwrap_or(0)))
}

#[test]
fn after_an_outage_everything_is_stored_beside_the_present() {
    let (count, seconds) = (number("OUTAGE_DEVICES", 3), number("OUTAGE_SECONDS", 300));
    let threads = number("OUTAGE_THREADS", 20);
    let dir = tempfile::tempdir().unwrap();
    let (state, store) = (dir.path().join("identity"), dir.path().join("store.db"));
    let more = ["--no-agent", "--tls", "127.0.0.1:0", "--state", state.to_str().unwrap()];
    let serve = Serve::start_with(cpumon(), &store, &more);
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let enroll =
        |device: u32| Device::enroll(u8::try_from(device).unwrap(), dir.path(), &address, &state, threads);
    let mut devices: Vec<Device> = (0..count).map(enroll).collect();
    let begin_ns = wall_now_ns() - i64::from(seconds) * SECOND_NS;
    for device in &mut devices {
        for second in 0..i64::from(seconds) {
            device.snapshot(begin_ns + second * SECOND_NS);
        }
    }

    let back = Instant::now();
    for device in &mut devices {
        device.connect();
    }
    let (mut due, mut ages, mut shown_after) = (Instant::now(), Vec::new(), None);
    while devices
        .iter()
        .any(|device| device.status().is_backfilling || device.status().backlog.acked < u64::from(seconds))
    {
        assert!(back.elapsed() < LIMIT, "the past is not there yet");
        if Instant::now() >= due {
            for device in &mut devices {
                device.snapshot(wall_now_ns());
            }
            due += Duration::from_secs(1);
        }
        if let Some(age) = age_of_present(&serve, devices.len()) {
            shown_after.get_or_insert(back.elapsed());
            ages.push(age);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let all_back = back.elapsed();
    for device in &devices {
        device.drain(LIMIT);
    }
    eventually("no more in the queue", || (serve.status()["store"]["queue"] == 0).then_some(()));
    // The first snapshot of all devices comes before each had its turn.
    let oldest = ages.iter().skip(1).max().copied().unwrap_or_default();
    println!(
        "{count} devices of {threads} threads, {seconds} s away: the past was there after {:.1} s, the present of all after {:.1} s; \
         while the past came, the oldest of the newest snapshots shown was at most {:.2} s old ({} snapshots, a snapshot each s)",
        all_back.as_secs_f64(),
        shown_after.unwrap_or_default().as_secs_f64(),
        oldest.as_secs_f64(),
        ages.len(),
    );
    serve.stop();
    for device in &devices {
        device.assert_all_stored(&store);
    }
}
