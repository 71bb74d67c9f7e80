//! Both sides of discovery over loopback: who is found, who is not believed, what a flood costs.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_link::Target;
use cpumon_link::discovery::{Ignored, Search, SearchOptions, search};
use cpumon_wire::beacon::{Beacon, QUERY_BYTES, Query, seal};

use super::*;
use crate::enrollment::Authority;

/// A receiver that answers on loopback.
struct Desk {
    authority: Authority,
    _dir: tempfile::TempDir,
    address: SocketAddr,
    stats: Arc<BeaconStats>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path()).unwrap();
        let (listen, stream) = (["127.0.0.1:0".parse().unwrap()], "0.0.0.0:3002".parse().unwrap());
        let mut server = BeaconServer::bind_at(&listen, &[], &authority, stream, "desk").unwrap();
        assert_eq!(server.pin(), authority.pin().unwrap(), "the pin of tokens");
        let (address, stats) = (server.local_addresses().unwrap()[0], server.stats());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self { authority, _dir: dir, address, stats, stop, thread: Some(thread) }
    }

    fn count(&self, counter: impl Fn(&BeaconStats) -> &AtomicU64) -> u64 {
        counter(&self.stats).load(Ordering::Relaxed)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn look(at: &[SocketAddr], wanted: Option<[u8; 32]>, wait: Duration) -> Search {
    let to = at.iter().map(|address| Target::Unicast(*address)).collect();
    search(&SearchOptions { to, wanted, wait }, &|| false).unwrap()
}

const WAIT: Duration = Duration::from_millis(400);

#[test]
fn receivers_are_found_with_their_keys_and_a_wanted_one_alone() {
    let (one, other) = (Desk::start(), Desk::start());
    let both = [one.address, other.address];
    let found = look(&both, None, WAIT);
    assert_eq!((found.found.len(), found.ignored, found.asked), (2, Ignored::default(), 2));
    let pin = one.authority.pin().unwrap();
    let of_one = found.found.iter().find(|found| found.pin == pin).unwrap();
    assert_eq!((of_one.name.as_str(), of_one.addresses[0]), ("desk", "127.0.0.1:3002".parse().unwrap()));
    let wanted = look(&both, Some(pin), Duration::from_secs(30));
    assert_eq!(wanted.found.iter().map(|found| found.pin).collect::<Vec<_>>(), [pin]);
    assert!(look(&[other.address], Some(pin), WAIT).found.is_empty());
    assert!(other.count(|stats| &stats.for_others) >= 1, "it does not even answer");
}

/// Answers each query with datagrams that somebody made up.
fn answering(make: impl Fn(Query) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; QUERY_BYTES];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            for answer in make(Query::decode(&bytes[..length]).unwrap()) {
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    address
}

#[test]
fn what_the_pinned_key_did_not_sign_is_ignored_and_counted() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [real, false_one] = [&dirs[0], &dirs[1]].map(|dir| Authority::open(dir.path()).unwrap());
    let pin = real.pin().unwrap();
    let (real, false_one) = (real.beacon_signer().unwrap(), false_one.beacon_signer().unwrap());
    let liar = answering(move |query| {
        let beacon = |key, nonce| Beacon {
            nonce,
            sequence: 1,
            wall_ns: 0,
            key,
            addresses: vec!["10.6.6.6:3002".parse().unwrap()],
            name: "desk",
        };
        let own = beacon(false_one.point(), query.nonce);
        // The real key's name in it, and a signature by another one; a recording of the real receiver.
        let posing = beacon(real.point(), query.nonce);
        let stale = beacon(real.point(), [7; 16]);
        let mut changed = seal(&posing.to_sign(), &real.sign(&posing.to_sign()).unwrap());
        changed[120] ^= 1;
        vec![
            seal(&own.to_sign(), &false_one.sign(&own.to_sign()).unwrap()),
            seal(&posing.to_sign(), &false_one.sign(&posing.to_sign()).unwrap()),
            seal(&posing.to_sign(), &[0; 64]),
            seal(&stale.to_sign(), &real.sign(&stale.to_sign()).unwrap()),
            changed,
            b"garbage".to_vec(),
        ]
    });
    let search = look(&[liar], Some(pin), WAIT);
    assert!(search.found.is_empty(), "{search:?}");
    // The question is asked twice.
    let twice = Ignored { malformed: 2, stale: 2, badly_signed: 6, other_key: 2, too_many: 0 };
    assert_eq!((search.ignored, search.ignored.suspicious()), (twice, 10));
    // Who wants any receiver sees the false one, as a receiver of its own with its own key.
    let any = look(&[liar], None, WAIT);
    assert!(any.found.len() == 1 && any.found[0].pin != pin);
}

#[test]
fn a_flood_of_answers_costs_a_bounded_number_of_checks() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open(dir.path()).unwrap();
    let (signer, pin) = (authority.beacon_signer().unwrap(), authority.pin().unwrap());
    let flood = answering(move |query| {
        let address = vec!["10.6.6.6:3002".parse().unwrap()];
        let beacon = Beacon {
            nonce: query.nonce,
            sequence: 1,
            wall_ns: 0,
            key: signer.point(),
            addresses: address,
            name: "",
        };
        vec![seal(&beacon.to_sign(), &[1; 64]); 100]
    });
    let ignored = look(&[flood], Some(pin), WAIT).ignored;
    assert_eq!((ignored.badly_signed, ignored.too_many), (64, 136));
}

#[test]
fn a_flood_of_queries_is_answered_as_often_as_allowed_and_counted() {
    let desk = Desk::start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let query = Query { nonce: [5; 16], wanted: None }.encode();
    for _ in 0..200 {
        socket.send_to(&query, desk.address).unwrap();
    }
    // Too short to be answered, and no query at all.
    socket.send_to(&query[..QUERY_BYTES - 1], desk.address).unwrap();
    socket.send_to(b"x", desk.address).unwrap();
    let (mut answers, mut bytes) = (0, [0; 2 * QUERY_BYTES]);
    while let Ok(length) = socket.recv(&mut bytes) {
        assert!(length < QUERY_BYTES, "no answer is longer than the question");
        answers += 1;
    }
    let end = Instant::now() + Duration::from_secs(10);
    while desk.count(|stats| &stats.malformed) < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(desk.count(|stats| &stats.malformed), 2);
    assert_eq!(desk.count(|stats| &stats.queries), 200);
    let answered = desk.count(|stats| &stats.answered);
    assert_eq!((answered, desk.count(|stats| &stats.too_many)), (answers, 200 - answers));
    assert!((5..50).contains(&answered), "{answered}");
}
