//! Devices without a token: who is let in, what the codes show, what strangers cost.

use std::sync::mpsc;

use cpumon_link::tls::{Code, Transcript};

use super::*;
use crate::enrolment::{Decision, EnrolmentError, PendingRequest};

/// A device that asks on a thread of its own; the code that it shows.
struct Asking {
    code: mpsc::Receiver<Code>,
    thread: JoinHandle<Result<DeviceIdentity, TlsError>>,
    dir: TempDir,
}

fn ask_at(address: &str, pin: [u8; 32], host: [u8; 16], agrees: bool) -> Asking {
    let dir = tempfile::tempdir().unwrap();
    let (say, code) = mpsc::channel();
    let (addresses, path) = ([address.to_owned()], dir.path().to_owned());
    let thread = std::thread::spawn(move || {
        let mut show = |code| say.send(code).unwrap();
        ask(&path, &addresses, pin, host, "device", &mut show, &mut |_| agrees)
    });
    Asking { code, thread, dir }
}

impl Asking {
    fn code(&self) -> Code {
        self.code.recv_timeout(PATIENCE).unwrap()
    }
}

fn ask_receiver(running: &TestReceiver) -> Asking {
    ask_at(&running.address.to_string(), running.authority.pin().unwrap(), HOST, true)
}

fn waiting(running: &TestReceiver) -> PendingRequest {
    eventually("it waits", || running.authority.requests.list().unwrap().pop())
}

#[test]
fn a_device_gets_its_certificate_when_the_user_enters_its_code() {
    let running = TestReceiver::start();
    let device = ask_receiver(&running);
    let (code, request) = (device.code(), waiting(&running));
    assert_eq!((request.code, request.name.as_str(), request.host), (code, "device", HOST));
    assert_eq!(request.source, "127.0.0.1");
    // Another process, as `cpumon hosts accept` is.
    let by_user = Authority::open(running.dir.path()).unwrap();
    let other = if code.to_string() == "11111-11111" { "22222-22222" } else { "11111-11111" };
    let refused = by_user.decide(other, Decision::Accept).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("{other}: no waiting device has this code;")), "{refused}");
    let refused = by_user.decide("nowhere", Decision::Reject).unwrap_err().to_string();
    assert!(refused.starts_with("nowhere: no waiting device has this code, name or id;"), "{refused}");
    assert!(
        matches!(by_user.decide("device", Decision::Accept), Err(EnrolmentError::Tls(TlsError::Code(_)))),
        "a name is no code"
    );
    by_user.decide(&code.to_string(), Decision::Accept).unwrap();
    let identity = device.thread.join().unwrap().unwrap();
    assert_eq!(identity.pin, running.authority.pin().unwrap());
    assert!(running.authority.requests.list().unwrap().is_empty());
    assert_eq!((running.server.status().requests, running.server.status().requests_accepted), (1, 1));
    // The new certificate is good for a connection.
    running.sends(identity);
}

#[test]
fn a_device_that_the_user_rejects_or_that_goes_away_leaves_nothing() {
    let running = TestReceiver::start();
    let device = ask_receiver(&running);
    device.code();
    waiting(&running);
    running.authority.decide("device", Decision::Reject).unwrap();
    let text = device.thread.join().unwrap().unwrap_err().to_string();
    assert!(text.contains("does not let this device in"), "{text}");
    eventually("it is counted", || (running.server.status().requests_refused == 1).then_some(()));
    assert!(running.authority.registry.hosts().unwrap().is_empty());
    // The device does not agree: it keeps no key, whatever the receiver thinks.
    let device = ask_at(&running.address.to_string(), running.authority.pin().unwrap(), HOST, false);
    let code = device.code().to_string();
    waiting(&running);
    running.authority.decide(&code, Decision::Accept).unwrap();
    assert!(matches!(device.thread.join().unwrap(), Err(TlsError::NotAgreed)));
    assert_eq!(std::fs::read_dir(device.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_machine_in_the_middle_shows_two_codes() {
    // The device believes the one between, who asks the receiver in its name, with a key of his own.
    let (running, between) = (TestReceiver::start(), TestReceiver::start());
    let device = ask_receiver(&between);
    let forwarded = ask_receiver(&running);
    assert_ne!(device.code(), forwarded.code());
    // Nor does the receiver let anybody change his nonce when he has seen the other's.
    let who = Transcript { device: [1; 32], pin: [2; 32], host: HOST, name: "device" };
    assert_ne!(who.commitment(&[3; 32]), who.commitment(&[4; 32]));
    waiting(&running);
    waiting(&between);
    running.authority.decide("device", Decision::Reject).unwrap();
    between.authority.decide("device", Decision::Reject).unwrap();
    assert!(device.thread.join().unwrap().is_err() && forwarded.thread.join().unwrap().is_err());
}

#[test]
fn a_nonce_other_than_the_one_it_was_bound_to_is_refused() {
    use cpumon_wire::connection::{ALPN_ENROL, ByeReason, MAX_SMALL_MESSAGE_BYTES, Message};
    let running = TestReceiver::start();
    let mut config = pinned_builder(running.authority.pin().unwrap()).unwrap().with_no_client_auth();
    config.alpn_protocols = vec![ALPN_ENROL.to_vec()];
    let mut pipe = connect(&running.address.to_string(), config).unwrap();
    let key = NewKey::make().unwrap();
    let (commitment, request) = ([1; 32], key.request_der.as_slice());
    Message::Ask { commitment, host: HOST, name: "device", request }.push(&mut pipe.outbox);
    Message::Reveal { nonce: [9; 32] }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    let end = Instant::now() + PATIENCE;
    let reason = await_message(&mut pipe, end, MAX_SMALL_MESSAGE_BYTES, |message| {
        Ok(match message {
            Some(Message::Bye { reason, .. }) => Some(reason),
            _ => None,
        })
    });
    assert_eq!(reason.unwrap(), ByeReason::Protocol);
    assert!(running.authority.requests.list().unwrap().is_empty());
}

#[test]
fn of_one_address_four_wait_and_without_requests_none_does() {
    let running = TestReceiver::start();
    let devices: Vec<Asking> = (0..7)
        .map(|n| ask_at(&running.address.to_string(), running.authority.pin().unwrap(), [n; 16], true))
        .collect();
    eventually("three are refused", || (running.server.status().requests_refused == 3).then_some(()));
    eventually("four wait", || (running.authority.requests.list().unwrap().len() == 4).then_some(()));
    assert!(matches!(
        running.authority.decide("device", Decision::Reject),
        Err(EnrolmentError::SeveralWait(_))
    ));
    for request in running.authority.requests.list().unwrap() {
        running.authority.decide(&request.code.to_string(), Decision::Reject).unwrap();
    }
    assert!(devices.into_iter().all(|device| device.thread.join().unwrap().is_err()));
    let closed = TestReceiver::start_with(|server| server.takes_requests = false);
    let text = ask_receiver(&closed).thread.join().unwrap().unwrap_err().to_string();
    assert!(text.contains("cpumon token"), "{text}");
}

#[test]
fn what_a_killed_receiver_left_behind_is_gone_and_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open(dir.path()).unwrap();
    let code: Code = "12345-67890".parse().unwrap();
    let request = PendingRequest::new(code, HOST, "device", "10.0.0.1".to_owned(), [1; 32]).unwrap();
    std::mem::forget(authority.requests.put(request).unwrap());
    assert_eq!(authority.requests.list().unwrap().len(), 1);
    let running = TestReceiver::start_in(dir, "127.0.0.1:0".parse().unwrap());
    assert!(running.authority.requests.list().unwrap().is_empty());
}

#[test]
fn a_new_request_of_a_host_ends_the_one_before() {
    let running = TestReceiver::start();
    let first = ask_receiver(&running);
    let first_code = first.code();
    waiting(&running);
    let second = ask_receiver(&running);
    let second_code = second.code();
    // Not joined at once: a request that is not ended would wait for its ten minutes.
    eventually("the first one has ended", || first.thread.is_finished().then_some(()));
    let text = first.thread.join().unwrap().unwrap_err().to_string();
    assert!(text.contains("newer request"), "{text}");
    let codes = || running.authority.requests.list().unwrap().iter().map(|one| one.code).collect::<Vec<_>>();
    eventually("only the second one waits", || (codes() == [second_code]).then_some(()));
    assert!(running.authority.decide(&first_code.to_string(), Decision::Accept).is_err());
    running.authority.decide(&second_code.to_string(), Decision::Accept).unwrap();
    running.sends(second.thread.join().unwrap().unwrap());
}

#[test]
fn a_code_lets_a_revoked_host_in_only_if_the_user_says_again() {
    let (running, before) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    running.enroll(&before).unwrap();
    running.authority.registry.revoke("device").unwrap();
    let device = ask_receiver(&running);
    let code = device.code().to_string();
    waiting(&running);
    assert!(matches!(running.authority.decide(&code, Decision::Accept), Err(EnrolmentError::WasRevoked)));
    running.authority.decide(&code, Decision::AcceptAgain).unwrap();
    running.sends(device.thread.join().unwrap().unwrap());
}
