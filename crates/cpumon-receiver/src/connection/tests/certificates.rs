//! Who gets in and who does not: tokens, certificates, keys.

use super::*;
use crate::enrolment::{BoundHost, DEVICE_VALID_FOR, EnrolledHost, EnrolmentError, TokenScope};
use crate::wall_s;

const DAY_S: u64 = 86_400;

#[test]
fn a_token_is_good_once_and_for_its_time_and_for_its_receiver() {
    let (running, other, device) =
        (TestReceiver::start(), TestReceiver::start(), tempfile::tempdir().unwrap());
    let address = running.address.to_string();
    let enroll_with = |token: &Token| enroll(device.path(), &address, token, HOST, "device");
    let token = running.token();
    enroll_with(&token).unwrap();
    let text = |result: Result<DeviceIdentity, TlsError>| result.unwrap_err().to_string();
    assert!(text(enroll_with(&token)).contains("not known here or was used"));
    let expired = running.authority.make_token(Duration::ZERO, &TokenScope::default()).unwrap();
    assert!(text(enroll_with(&expired)).contains("has expired"));
    assert!(text(enroll_with(&expired)).contains("not known"), "an expired one is gone");
    let unknown = Token { secret: [0; 32], ..token };
    assert!(text(enroll_with(&unknown)).contains("not known"));
    // A token of another receiver: its pin does not fit, so this receiver never sees the secret.
    let foreign = other.token();
    assert!(text(enroll_with(&foreign)).contains("its key is another one"));
    enroll(device.path(), &other.address.to_string(), &foreign, HOST, "device").unwrap();
    running.count(|stats| stats.refused_tokens, 4);
    assert_eq!(running.server.status().enrolled, 1);
    let left = std::fs::read_dir(running.dir.path().join("tokens")).unwrap().count();
    assert_eq!(left, 0, "a used token is gone");
}

/// Two machines from one image: the first was refused from then on, and nothing at the receiver showed why.
#[test]
fn a_device_with_the_machine_id_of_another_one_is_in_the_audit_log() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let address = running.address.to_string();
    let enroll_as = |name: &str| enroll(device.path(), &address, &running.token(), HOST, name).unwrap();
    let log = || {
        let files = running.authority.audit.files();
        files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect::<String>()
    };
    let is_noted = |text: &str| {
        let log = log();
        let line = log.lines().find(|line| line.contains(text))?;
        (line.contains("revoked") && line.contains("kitchen (")).then_some(())
    };
    enroll_as("kitchen");
    assert!(!log().contains("revoked"), "{}", log());
    enroll_as("kitchen");
    eventually("the same name is in the log", || is_noted("the key that it had is refused from now on"));
    assert!(!log().contains("machine id"), "perhaps the same device: {}", log());
    enroll_as("garden");
    eventually("another name is in the log", || is_noted("garden was enrolled with its machine id"));
}

#[test]
fn a_revoked_device_is_cut_off_at_once_and_stays_out_until_enrolled_again() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    // As another process does it.
    Authority::open(running.dir.path()).unwrap().registry.revoke("device").unwrap();
    eventually("the device is refused", || uplink.status().last_error.contains("was revoked").then_some(()));
    append(&uplink, 1);
    running.count(|stats| stats.refused_devices, 2);
    assert_eq!(running.got.numbers(), [1]);
    drop(uplink);
    let (address, scope) = (running.address.to_string(), TokenScope { host: None, again: true });
    let token = running.authority.make_token(Duration::from_mins(1), &scope).unwrap();
    let again = enroll(device.path(), &address, &token, HOST, "device").unwrap();
    let uplink = self::uplink(&address, again, ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
}

#[test]
fn a_certificate_of_another_receiver_or_past_its_time_is_refused() {
    let (running, other, device) =
        (TestReceiver::start(), TestReceiver::start(), tempfile::tempdir().unwrap());
    let address = running.address.to_string();
    // The pin of one and the certificate of the other: the device believes, the receiver does not.
    let pin = running.authority.pin().unwrap();
    let by = |authority: &Authority, valid_for: Duration| {
        let key = NewKey::make().unwrap();
        let ends_s = wall_s() + valid_for.as_secs();
        let (certificate, _) = authority.sign(&key.request_der, HOST, ends_s).unwrap();
        DeviceIdentity::create(device.path(), &address, pin, key, &certificate).unwrap()
    };
    let foreign = by(&other.authority, DEVICE_VALID_FOR);
    let expired = by(&running.authority, Duration::ZERO);
    // A device tries again, so the number of refusals does not distinguish the two devices.
    for (reason, identity) in [("", foreign), ("expired", expired)] {
        let uplink = uplink(&address, identity, ram());
        append(&uplink, 1);
        eventually("it is refused", || {
            running.server.status().refused_by.first()?.reason.contains(reason).then_some(())
        });
        assert!(!uplink.drain(Duration::ZERO));
    }
    assert!(running.got.numbers().is_empty());
    // Signed here, but never enrolled: good for TLS, not for the registry.
    let uplink = uplink(&address, by(&running.authority, DEVICE_VALID_FOR), ram());
    running.count(|stats| stats.refused_devices, 1);
    drop(uplink);
}

#[test]
fn without_a_certificate_a_connection_is_refused() {
    let running = TestReceiver::start();
    let mut config = pinned_builder(running.authority.pin().unwrap()).unwrap().with_no_client_auth();
    config.alpn_protocols = vec![cpumon_wire::connection::ALPN_SNAPSHOTS.to_vec()];
    let mut pipe = connect(&running.address.to_string(), config).unwrap();
    Message::Hello { version: VERSION, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
    pipe.pump(true).ok();
    assert_eq!(goodbye(&mut pipe), ByeReason::Protocol);
    assert!(running.got.numbers().is_empty());
}

#[test]
fn a_new_key_replaces_the_old_one_without_a_break() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let old = running.enroll(&device).unwrap();
    let registry = &running.authority.registry;
    let mut known = registry.hosts().unwrap().remove(0);
    known.expires_s = 1;
    registry.put(&known).unwrap();
    let address = running.address.to_string();
    let before = std::fs::read(&old.path).unwrap();
    let uplink = uplink(&address, old.clone(), ram());
    append(&uplink, 2);
    eventually("the certificate is renewed", || (running.server.status().renewed > 0).then_some(()));
    assert!(uplink.drain(PATIENCE));
    assert_eq!(registry.hosts().unwrap()[0].keys.len(), 2, "the old one is good until the new one is used");
    let renewed = old.path.with_extension("renewed");
    eventually("the device has kept it", || renewed.exists().then_some(()));
    assert_eq!(std::fs::read(&old.path).unwrap(), before, "beside the one that was taken");
    drop(uplink);
    let new = DeviceIdentity::find(device.path(), &address).unwrap();
    let uplink = self::uplink(&address, new, ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    assert_eq!(registry.hosts().unwrap()[0].keys.len(), 1);
    assert!(!renewed.exists() && std::fs::read(&old.path).unwrap() != before, "in its place");
    let refused = running.server.status().refused_devices;
    let stale = self::uplink(&address, old, ram());
    running.count(|stats| stats.refused_devices, refused + 1);
    drop(stale);
}

/// It overwrote its key with the new one, which may be good for nothing.
#[test]
fn a_device_keeps_the_key_that_let_it_in_until_the_new_one_does() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let (address, path) = (running.address.to_string(), identity.path.clone());
    // As a renewal leaves it: a certificate that is past its time.
    let kept = std::fs::read(&path).unwrap();
    let key = NewKey::make().unwrap();
    let ended_s = wall_s() - 2 * DAY_S;
    let (certificate, _) = running.authority.sign(&key.request_der, HOST, ended_s).unwrap();
    DeviceIdentity::create(device.path(), &address, identity.pin, key, &certificate).unwrap();
    std::fs::rename(&path, path.with_extension("renewed")).unwrap();
    std::fs::write(&path, &kept).unwrap();
    let uplink = uplink(&address, DeviceIdentity::find(device.path(), &address).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    assert!(running.refusals(1)[0].reason.contains("expired"), "the new one has its turn first");
    assert_eq!(std::fs::read(&path).unwrap(), kept);
    drop(uplink);
    // A new enrolment replaces both.
    running.enroll(&device).unwrap();
    assert!(!path.with_extension("renewed").exists());
}

/// It began a day before the wrong time: the device was refused for months, and had its old key no longer.
#[test]
fn a_certificate_of_a_clock_that_was_ahead_is_good_when_the_clock_is_right() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    running.enroll(&device).unwrap();
    let key = NewKey::make().unwrap();
    let wrong_s = wall_s() + 300 * DAY_S + DEVICE_VALID_FOR.as_secs();
    let (certificate, hash) = running.authority.sign(&key.request_der, HOST, wrong_s).unwrap();
    let registry = &running.authority.registry;
    let known = registry.hosts().unwrap().remove(0);
    registry.put(&EnrolledHost { keys: vec![hash], ..known }).unwrap();
    let (address, pin) = (running.address.to_string(), running.authority.pin().unwrap());
    running.sends(DeviceIdentity::create(device.path(), &address, pin, key, &certificate).unwrap());
}

/// A receiver whose clock was months ahead had each device that connected renew its certificate.
#[test]
fn a_clock_that_can_be_wrong_has_no_certificate_renewed() {
    let (days, device) = (Arc::new(AtomicI64::new(300)), tempfile::tempdir().unwrap());
    let running = TestReceiver::start_doubting(&days);
    let identity = running.enroll(&device).unwrap();
    let registry = &running.authority.registry;
    let known = registry.hosts().unwrap().remove(0);
    registry.put(&EnrolledHost { expires_s: wall_s() + 90 * DAY_S, ..known }).unwrap();
    let uplink = uplink(&running.address.to_string(), identity, ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    assert_eq!(running.server.status().renewed, 0);
    // The device stays connected.
    days.store(0, Ordering::Relaxed);
    eventually("the certificate is renewed", || (running.server.status().renewed > 0).then_some(()));
}

/// Only a welcome asked for it: the certificate of a device that stayed connected for four months ended, and then it was refused.
#[test]
fn a_device_that_stays_connected_renews_its_certificate() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    let registry = &running.authority.registry;
    let known = registry.hosts().unwrap().remove(0);
    registry.put(&EnrolledHost { expires_s: wall_s() + 90 * DAY_S, ..known }).unwrap();
    eventually("the certificate is renewed", || (running.server.status().renewed > 0).then_some(()));
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    assert_eq!((running.server.status().renewed, uplink.status().connections), (1, 2));
    assert!(running.got.numbers().contains(&2));
}

#[test]
fn a_certificate_of_a_clock_that_is_behind_lasts_a_year_from_the_time_that_is_known() {
    let (days, device) = (Arc::new(AtomicI64::new(-1_000)), tempfile::tempdir().unwrap());
    let running = TestReceiver::start_doubting(&days);
    let ends_s = || wall_s() + 1_365 * DAY_S;
    let first_s = ends_s();
    running.sends(running.enroll(&device).unwrap());
    let known = running.authority.registry.hosts().unwrap().remove(0);
    assert!((first_s..=ends_s()).contains(&known.expires_s), "{}", known.expires_s);
}

#[test]
fn a_receiver_keeps_its_pin_over_restarts_while_its_listening_key_changes() {
    let dir = tempfile::tempdir().unwrap();
    let pins: Vec<[u8; 32]> = (0..2).map(|_| Authority::open(dir.path()).unwrap().pin().unwrap()).collect();
    assert_eq!(pins[0], pins[1]);
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    let (dir, address, _) = running.stop();
    let running = TestReceiver::start_in(dir, address);
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE), "another key, the same pin");
    assert!(running.got.numbers().contains(&2));
}

#[test]
fn without_a_token_no_certificate_request_is_parsed() {
    let running = TestReceiver::start();
    let enroll =
        |secret: &[u8; 32]| running.authority.enroll(secret, HOST, "device", b"no request").unwrap_err();
    assert!(
        matches!(enroll(&[0; 32]), EnrolmentError::TokenRefused(_)),
        "it says what the token lacks, not the request"
    );
    let token = running.authority.make_token(Duration::from_mins(1), &TokenScope::default()).unwrap();
    assert!(matches!(enroll(&token.secret), EnrolmentError::Tls(TlsError::Crypto { .. })));
    // A request that is no good does not use the token up.
    let key = NewKey::make().unwrap();
    running.authority.enroll(&token.secret, HOST, "device", &key.request_der).unwrap();
}

#[test]
fn an_unbound_token_does_not_lift_a_revocation() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    running.enroll(&device).unwrap();
    running.authority.registry.revoke("device").unwrap();
    let text = running.enroll(&device).unwrap_err().to_string();
    assert!(text.contains("was revoked") && text.contains("--again"), "{text}");
    let scope = TokenScope { host: Some(BoundHost::Id(HOST)), again: true };
    let token = running.authority.make_token(Duration::from_mins(1), &scope).unwrap();
    let address = running.address.to_string();
    running.sends(enroll(device.path(), &address, &token, HOST, "device").unwrap());
}

#[test]
fn an_identity_that_somebody_else_could_have_written_is_not_used() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let pin = Authority::open(dir.path()).unwrap().pin().unwrap();
    let path = dir.path().join("receiver.identity");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let error = Authority::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("mode 666") && error.contains("receiver.identity"), "{error}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let moved = dir.path().join("elsewhere");
    std::fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    assert!(Authority::open(dir.path()).err().unwrap().to_string().contains("symbolic link"));
    std::fs::rename(&moved, &path).unwrap();
    assert_eq!(Authority::open(dir.path()).unwrap().pin().unwrap(), pin);
}

/// A link with the name of this file cut the store to 16 bytes.
#[test]
fn the_address_is_written_to_a_new_file_and_through_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (victim, path) = (dir.path().join("s.db"), dir.path().join("listening"));
    std::fs::write(&victim, "precious").unwrap();
    symlink("s.db", &path).unwrap();
    leave_address(dir.path(), SocketAddr::from(([10, 1, 2, 3], 777)));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "10.1.2.3:777\n");
    let meta = std::fs::symlink_metadata(&path).unwrap();
    assert!(meta.is_file() && meta.permissions().mode() & 0o777 == 0o600, "{meta:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file stays");
}
