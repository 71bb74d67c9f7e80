//! Every message comes back from its bytes, and damaged, cut or unknown ones are refused or skipped.

use super::*;

fn every_message() -> Vec<Message<'static>> {
    let (host, spool, secret) = ([7; 16], [8; 16], [9; 32]);
    vec![
        Message::Hello { version: 1, host, spool, agent: "cpumon 0.1.0" },
        Message::Begin { channel: 3, kind: ChannelKind::Backfill },
        Message::Begin { channel: u32::MAX, kind: ChannelKind::Live },
        Message::Record { channel: 3, record: b"a record" },
        Message::Packed { channel: 3, packed: b"less" },
        Message::Ping { token: 1, clock: None },
        Message::Ping {
            token: 1,
            clock: Some(ClockReport { offset_ns: i64::MIN, round_trip_ns: 5, boot: None }),
        },
        Message::Ping {
            token: 2,
            clock: Some(ClockReport {
                offset_ns: 3,
                round_trip_ns: u64::MAX,
                boot: Some(BootReport { boot: host, offset_ns: i64::MAX }),
            }),
        },
        Message::Renew { request: b"request" },
        Message::Enrol { secret, host, name: "größe", request: b"request" },
        Message::Welcome { version: 1, window_bytes: 1 << 20, is_renewal_due: true },
        Message::Ack { channel: 3, received: u64::MAX, committed: 5 },
        Message::Pong { token: 1, times: None },
        Message::Pong { token: 1, times: Some((i64::MAX, -1)) },
        Message::Bye { reason: ByeReason::Revoked, text: "no" },
        Message::Bye { reason: ByeReason::Unknown(200), text: "" },
        Message::Certificate { der: b"certificate" },
        Message::Ask { commitment: secret, host, name: "größe", request: b"request" },
        Message::Challenge { nonce: [1; 32] },
        Message::Reveal { nonce: [2; 32] },
        Message::Waiting { left_s: 600 },
        Message::Bye { reason: ByeReason::NotLetIn, text: "no" },
        Message::Offer { number: 1, hash: secret, bytes: u64::MAX, wall_ns: -5, reason: "größe>1%" },
        Message::Piece { number: 1, offset: 1 << 40, bytes: b"part" },
        Message::Piece { number: 1, offset: 0, bytes: b"" },
        Message::TraceAnswer { token: 9, answer: TraceAnswer::TooSoon },
        Message::TraceAnswer { token: 9, answer: TraceAnswer::Unknown(0) },
        Message::Attachment { number: 1, state: AttachmentState::Taking, received: 7, text: "" },
        Message::Attachment { number: 1, state: AttachmentState::Refused, received: 0, text: "no" },
        Message::Attachment { number: 1, state: AttachmentState::Unknown(9), received: 0, text: "" },
        Message::TakeTrace { token: u64::MAX },
    ]
}

#[test]
fn every_message_comes_back() {
    let mut bytes = Vec::new();
    for message in every_message() {
        bytes.clear();
        message.push(&mut bytes);
        assert_eq!(Message::length(&bytes, 1000), Ok(Some(bytes.len())));
        assert_eq!(Message::decode(&bytes), Ok(Some(message)));
    }
}

#[test]
fn a_message_that_was_cut_is_refused_and_never_read_beyond() {
    for message in every_message() {
        let mut bytes = Vec::new();
        message.push(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Message::length(&bytes[..length], 1000), Ok(None));
            let mut cut = bytes[..length.max(4)].to_vec();
            let body = u32::try_from(cut.len() - 4).unwrap();
            cut[..4].copy_from_slice(&body.to_le_bytes());
            // A shorter variable part is another message; a fixed part that is cut is an error.
            let _ = Message::decode(&cut);
        }
    }
    let mut hello = Vec::new();
    every_message()[0].push(&mut hello);
    assert_eq!(Message::decode(&hello[..20]), Err(MessageError::Malformed { kind: 1 }));
}

#[test]
fn lengths_are_bounded_and_unknown_types_skipped() {
    let long = u32::MAX.to_le_bytes();
    assert!(matches!(Message::length(&long, 100), Err(MessageError::TooLong { most: 100, .. })));
    assert!(Message::length(&[0; 4], 100).is_err());
    assert_eq!(Message::decode(&[1, 0, 0, 0, 40]), Ok(None));
    let text = "ä".repeat(300);
    let mut bytes = Vec::new();
    Message::Bye { reason: ByeReason::Busy, text: &text }.push(&mut bytes);
    let Ok(Some(Message::Bye { text: kept, .. })) = Message::decode(&bytes) else { panic!() };
    assert_eq!(kept, "ä".repeat(127));
}
