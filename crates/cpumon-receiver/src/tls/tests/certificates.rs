//! Who gets in and who does not: tokens, certificates, keys.

use crate::enrollment::DEVICE_VALID_FOR;

use super::*;

#[test]
fn a_token_is_good_once_and_for_its_time_and_for_its_receiver() {
    let (desk, other, device) = (Desk::start(), Desk::start(), tempfile::tempdir().unwrap());
    let address = desk.address.to_string();
    let enroll_with = |token: &Token| enroll(device.path(), &address, token, HOST, "device");
    let token = desk.token();
    enroll_with(&token).unwrap();
    let said = |result: Result<DeviceIdentity, TlsError>| result.unwrap_err().to_string();
    assert!(said(enroll_with(&token)).contains("not known here or was used"));
    let expired = desk.authority.make_token(Duration::ZERO).unwrap();
    assert!(said(enroll_with(&expired)).contains("has expired"));
    assert!(said(enroll_with(&expired)).contains("not known"), "an expired one is gone");
    let unknown = Token { secret: [0; 32], ..token };
    assert!(said(enroll_with(&unknown)).contains("not known"));
    // A token of another receiver: its pin does not fit, so this receiver never sees the secret.
    let foreign = other.token();
    assert!(said(enroll_with(&foreign)).contains("its key is another one"));
    enroll(device.path(), &other.address.to_string(), &foreign, HOST, "device").unwrap();
    desk.count(|stats| read(&stats.refused_tokens), 4);
    assert_eq!(read(&desk.stats.enrolled), 1);
    let left = std::fs::read_dir(desk.dir.path().join("tokens")).unwrap().count();
    assert_eq!(left, 0, "a used token is gone");
}

#[test]
fn a_revoked_device_is_cut_off_at_once_and_stays_out_until_enrolled_again() {
    let (desk, device) = (Desk::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&desk.address.to_string(), desk.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(Duration::from_secs(30)));
    // As another process does it.
    Authority::open(desk.dir.path()).unwrap().registry().revoke("device").unwrap();
    until("the device is told", || uplink.status().last_error.contains("was revoked").then_some(()));
    append(&uplink, 1);
    desk.count(|stats| read(&stats.refused_devices), 2);
    assert_eq!(desk.got.numbers(), [1]);
    drop(uplink);
    let uplink = self::uplink(&desk.address.to_string(), desk.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(Duration::from_secs(30)));
}

#[test]
fn a_certificate_of_another_receiver_or_past_its_time_is_refused() {
    let (desk, other, device) = (Desk::start(), Desk::start(), tempfile::tempdir().unwrap());
    let address = desk.address.to_string();
    // The pin of one and the certificate of the other: the device believes, the receiver does not.
    let pin = desk.authority.pin().unwrap();
    let by = |authority: &Authority, valid_for: Duration| {
        let key = NewKey::make().unwrap();
        let (certificate, _) = authority.sign(&key.request_der, HOST, valid_for).unwrap();
        DeviceIdentity::create(device.path(), &address, pin, key, &certificate).unwrap()
    };
    let foreign = by(&other.authority, DEVICE_VALID_FOR);
    let expired = by(&desk.authority, Duration::ZERO);
    for (wanted, identity) in [(1, foreign), (2, expired)] {
        let uplink = uplink(&address, identity, ram());
        append(&uplink, 1);
        desk.count(|stats| read(&stats.handshakes_failed), wanted);
        assert!(!uplink.drain(Duration::ZERO));
    }
    let (refusals, _) = desk.stats.refusals(1);
    assert!(refusals[0].reason.contains("expired"), "{refusals:?}");
    assert!(desk.got.numbers().is_empty());
    // Signed here, but never enrolled: good for TLS, not for the registry.
    let uplink = uplink(&address, by(&desk.authority, DEVICE_VALID_FOR), ram());
    desk.count(|stats| read(&stats.refused_devices), 1);
    drop(uplink);
}

#[test]
fn without_a_certificate_a_stream_is_refused() {
    let desk = Desk::start();
    let mut config = pinned_builder(desk.authority.pin().unwrap()).unwrap().with_no_client_auth();
    config.alpn_protocols = vec![cpumon_wire::connection::ALPN_SNAPSHOTS.to_vec()];
    let mut pipe = connect(&desk.address.to_string(), config).unwrap();
    Message::Hello { version: VERSION, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
    pipe.pump(true).ok();
    assert_eq!(goodbye(&mut pipe), ByeReason::Protocol);
    assert!(desk.got.numbers().is_empty());
}

#[test]
fn a_new_key_replaces_the_old_one_without_a_break() {
    let (desk, device) = (Desk::start(), tempfile::tempdir().unwrap());
    let old = desk.enroll(&device).unwrap();
    let registry = desk.authority.registry();
    let mut known = registry.hosts().unwrap().remove(0);
    known.expires_s = 1;
    registry.put(&known).unwrap();
    let address = desk.address.to_string();
    let before = std::fs::read(old.place().1).unwrap();
    let uplink = uplink(&address, old.clone(), ram());
    append(&uplink, 2);
    until("the certificate is renewed", || (read(&desk.stats.renewed) > 0).then_some(()));
    assert!(uplink.drain(Duration::from_secs(30)));
    assert_eq!(registry.hosts().unwrap()[0].keys.len(), 2, "the old one is good until the new one is used");
    until("the device has kept it", || {
        let kept = std::fs::read(old.place().1).ok()?;
        (kept != before).then_some(())
    });
    drop(uplink);
    let new = DeviceIdentity::find(device.path(), &address).unwrap();
    let uplink = self::uplink(&address, new, ram());
    append(&uplink, 1);
    assert!(uplink.drain(Duration::from_secs(30)));
    assert_eq!(registry.hosts().unwrap()[0].keys.len(), 1);
    let refused = read(&desk.stats.refused_devices);
    let stale = self::uplink(&address, old, ram());
    desk.count(|stats| read(&stats.refused_devices), refused + 1);
    drop(stale);
}

#[test]
fn a_receiver_keeps_its_pin_over_restarts_while_its_listening_key_changes() {
    let dir = tempfile::tempdir().unwrap();
    let pins: Vec<[u8; 32]> = (0..2).map(|_| Authority::open(dir.path()).unwrap().pin().unwrap()).collect();
    assert_eq!(pins[0], pins[1]);
    let (desk, device) = (Desk::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&desk.address.to_string(), desk.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    assert!(uplink.drain(Duration::from_secs(30)));
    let (dir, address, _) = desk.stop();
    let desk = Desk::start_in(dir, address);
    append(&uplink, 1);
    assert!(uplink.drain(Duration::from_secs(30)), "another key, the same pin");
    assert!(desk.got.numbers().contains(&2));
}
