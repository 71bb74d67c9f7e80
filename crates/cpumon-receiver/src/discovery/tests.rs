//! Both sides of discovery over loopback: found receivers, ignored answers, and the cost of a flood.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_link::Target;
use cpumon_link::discovery::{Ignored, Search, SearchOptions, search};
use cpumon_wire::dns_sd::{Instance, ReplyTo, answer, browse, read_query};

use super::*;
use crate::enrolment::Authority;
use crate::eventually::{PATIENCE, eventually};

/// A receiver that answers on loopback.
struct Answering {
    authority: Authority,
    _dir: tempfile::TempDir,
    address: SocketAddr,
    stats: Arc<SharedCounts<status::Discovery>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path()).unwrap();
        let (listen, tls) = (["127.0.0.1:0".parse().unwrap()], "0.0.0.0:3002".parse().unwrap());
        let mut responder = Responder::bind_at(&listen, &[], &authority, tls, "workstation").unwrap();
        let (address, stats) =
            (responder.receiver.local_addresses().unwrap()[0], Arc::clone(&responder.stats));
        assert_eq!(stats.status().key, fingerprint(&authority.pin().unwrap()), "the pin of tokens");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || responder.run(&stopped).unwrap());
        Self { authority, _dir: dir, address, stats, stop, thread: Some(thread) }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn searched(at: &[SocketAddr], wanted: Option<[u8; 32]>, wait: Duration) -> Search {
    let to = at.iter().map(|address| Target::Unicast(*address)).collect();
    search(&SearchOptions { to, wanted, wait }, &|| false).unwrap()
}

/// Long enough for most answers; a search that misses one is made again.
const WAIT: Duration = Duration::from_millis(400);

#[test]
fn receivers_are_found_with_their_keys_and_a_wanted_one_alone() {
    let (one, other) = (Answering::start(), Answering::start());
    let both = [one.address, other.address];
    let found = eventually("both answer in time", || {
        let found = searched(&both, None, WAIT);
        assert_eq!((found.ignored, found.asked), (Ignored::default(), 2));
        (found.found.len() == 2).then_some(found)
    });
    let pin = one.authority.pin().unwrap();
    let of_one = found.found.iter().find(|found| found.pin == pin).unwrap();
    assert_eq!(of_one.name, "workstation");
    assert_eq!(of_one.addresses[0], "127.0.0.1:3002".parse().unwrap(), "the nearest address comes first");
    let begin = Instant::now();
    let wanted = searched(&both, Some(pin), PATIENCE);
    assert_eq!(wanted.found.iter().map(|found| found.pin).collect::<Vec<_>>(), [pin]);
    assert!(begin.elapsed() < PATIENCE, "a wanted receiver ends the search early");
    eventually("the other one answers", || {
        let search = searched(&[other.address], Some(pin), WAIT);
        assert!(search.found.is_empty());
        (search.ignored.other_key > 0).then_some(())
    });
}

/// Answers each query with datagrams that somebody made up.
fn answering(make: impl Fn(u16) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 9_000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            assert!(read_query(&bytes[..length], from.port(), &claim([0; 32], 0)).unwrap().is_some());
            for answer in make(id) {
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    address
}

/// What a stranger claims: a receiver with this key at 10.6.6.N.
fn claim(pin: [u8; 32], number: u8) -> Instance {
    let addresses = vec![SocketAddr::from(([10, 6, 6, number], 3002))];
    Instance { name: "workstation".to_owned(), pin, addresses }
}

#[test]
fn false_answers_are_counted_and_their_addresses_do_not_hide_the_right_one() {
    let real = Answering::start();
    let pin = real.authority.pin().unwrap();
    let liar = answering(move |id| {
        let reply_to = ReplyTo::Resolver { id };
        vec![
            answer(&claim(pin, 1), reply_to),
            answer(&claim([7; 32], 2), reply_to),
            answer(&claim(pin, 3), ReplyTo::Resolver { id: id.wrapping_add(1) }),
            b"garbage".to_vec(),
        ]
    });
    // It ends soon after the first answer.
    let search = eventually("the other answers come in time", || {
        let search = searched(&[liar, real.address], Some(pin), PATIENCE);
        let Ignored { stale, malformed, other_key, .. } = search.ignored;
        let has_right = search.found[0].addresses.contains(&"127.0.0.1:3002".parse().unwrap());
        (has_right && stale >= 1 && malformed >= 1 && other_key >= 1).then_some(search)
    });
    let addresses: Vec<String> = search.found[0].addresses.iter().map(ToString::to_string).collect();
    assert!(addresses.contains(&"10.6.6.1:3002".to_owned()), "only TLS can exclude it: {addresses:?}");
    assert!(!addresses.contains(&"10.6.6.3:3002".to_owned()), "an answer to another question: {addresses:?}");
    eventually("without a wanted key the stranger is a receiver of its own, with its own key", || {
        searched(&[liar], None, WAIT).found.iter().any(|found| found.pin == [7; 32]).then_some(())
    });
}

/// It was as if nothing answered there.
#[test]
fn a_question_that_cannot_be_sent_is_named() {
    // No datagram can be sent to port 0.
    let search = searched(&["127.0.0.1:0".parse().unwrap()], None, Duration::from_millis(1));
    let unsent = search.unsent.unwrap();
    assert!(search.found.is_empty() && unsent.starts_with("127.0.0.1:0: "), "{unsent}");
    let silent = answering(|_| Vec::new());
    assert_eq!(searched(&[silent], None, Duration::from_millis(1)).unsent, None);
}

#[test]
fn a_flood_of_answers_is_read_up_to_a_limit_and_leaves_few_addresses() {
    let flood = answering(|id| {
        (0..140).map(|number| answer(&claim([9; 32], number), ReplyTo::Resolver { id })).collect()
    });
    eventually("all 280 answers to two questions come in time, of which 256 are read", || {
        let search = searched(&[flood], None, WAIT);
        assert!(search.ignored.too_many <= 24, "{:?}", search.ignored);
        (search.ignored.too_many == 24).then(|| {
            assert_eq!((search.found.len(), search.found[0].addresses.len()), (1, 8));
        })
    });
}

#[test]
fn a_flood_of_queries_is_answered_as_often_as_allowed_and_counted() {
    let receiver = Answering::start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let query = browse(5);
    for _ in 0..200 {
        socket.send_to(&query, receiver.address).unwrap();
    }
    socket.send_to(&query[..query.len() - 1], receiver.address).unwrap();
    socket.send_to(b"x", receiver.address).unwrap();
    let counts = eventually("each query is answered or refused", || {
        let counts = receiver.stats.status();
        (counts.answered + counts.too_many + counts.malformed == 202).then_some(counts)
    });
    assert_eq!((counts.malformed, counts.queries), (2, 200));
    let answered = counts.answered;
    assert!((5..50).contains(&answered), "{answered}");
    let mut bytes = [0; 9_000];
    for _ in 0..answered {
        socket.recv(&mut bytes).unwrap();
    }
    assert!(socket.recv(&mut bytes).is_err(), "more answers than are counted");
}
