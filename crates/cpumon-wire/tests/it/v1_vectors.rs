//! Every shared v1 vector: the valid ones field by field and byte for byte, the malformed ones with our verdict and its reason.

use std::path::{Path, PathBuf};

use cpumon_wire::Reason;
use cpumon_wire::v1::{Datagram, ProcessDatagram, ThreadEntry, decode, encode};
use serde::Deserialize;

use crate::skip::skip;

/// The folder with the vectors; `None` (reported on stderr) where it is not there and this is not CI.
pub fn vectors() -> Option<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/v1"));
    if folder.join("valid.json").exists() {
        return Some(folder.to_path_buf());
    }
    skip(format!("needs the v1 vectors, {}", folder.display()));
    None
}

#[derive(Deserialize)]
struct Valid {
    file: String,
    fields: Option<Process>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the vectors' file")]
struct Process {
    name: Option<String>,
    timestamp_ticks: i64,
    duration_ms: u32,
    kernel_ms: i64,
    user_ms: i64,
    process_id: u32,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the vectors' file")]
struct Thread {
    owner_process_id: u32,
    kernel_ms: i64,
    user_ms: i64,
    thread_id: u32,
    duration_ms: u32,
    timestamp_ticks: i64,
}

#[derive(Deserialize)]
struct Malformed {
    file: String,
    original_verdict: String,
    original_decoded: Option<Process>,
}

impl From<Process> for ProcessDatagram {
    fn from(process: Process) -> Self {
        let entry = |thread: Thread| ThreadEntry {
            owner_process_id: thread.owner_process_id,
            kernel_ms: thread.kernel_ms,
            user_ms: thread.user_ms,
            thread_id: thread.thread_id,
            duration_ms: thread.duration_ms,
            timestamp_ticks: thread.timestamp_ticks,
        };
        Self {
            name: process.name.unwrap_or_default(),
            timestamp_ticks: process.timestamp_ticks,
            duration_ms: process.duration_ms,
            kernel_ms: process.kernel_ms,
            user_ms: process.user_ms,
            process_id: process.process_id,
            threads: process.threads.into_iter().map(entry).collect(),
        }
    }
}

#[test]
fn every_valid_vector_decodes_field_by_field_and_encodes_byte_for_byte() {
    let Some(folder) = vectors() else { return };
    let list: Vec<Valid> =
        serde_json::from_slice(&std::fs::read(folder.join("valid.json")).unwrap()).unwrap();
    assert_eq!(list.len(), 44);
    for valid in list {
        let bytes = std::fs::read(folder.join(&valid.file)).unwrap();
        let expected = match valid.fields {
            Some(fields) => Datagram::Process(fields.into()),
            None => Datagram::EndOfTransfer,
        };
        let decoded = decode(&bytes).unwrap_or_else(|error| panic!("{}: {error}", valid.file));
        assert_eq!(decoded, expected, "{}", valid.file);
        let mut again = Vec::new();
        encode(&decoded, &mut again).unwrap();
        assert_eq!(again, bytes, "{}", valid.file);
    }
}

/// Accepted by the original and refused here, with our reason.
const GARBAGE: [(&str, usize, Reason); 4] = [
    // A name length of −1 was "no name"; every later field is then read from the wrong place.
    ("name_len_minus_1", 0, Reason::NegativeNameLength),
    ("all_ff_64", 0, Reason::NegativeNameLength),
    // An empty process with trailing bytes that are all zero: a cleared buffer, not a process. The 36 zero bytes of
    // `empty_name_0threads` alone are a legal process datagram.
    ("all_zero_64", 0, Reason::AllZero),
    ("all_zero_1472", 0, Reason::AllZero),
];

/// Dropped by the original, and refused here at this byte for this reason. Every other dropped one ends too early.
const NEGATIVE_NAMES: [&str; 7] = [
    "name_len_minus_2",
    "name_len_minus_3",
    "name_len_min",
    "vmusage_meminfo",
    "vmusage_meminfo_header",
    "vmusage_large_marker",
    "random_64",
];

#[test]
fn every_malformed_vector_gets_its_verdict() {
    let Some(folder) = vectors() else { return };
    let list: Vec<Malformed> =
        serde_json::from_slice(&std::fs::read(folder.join("malformed.json")).unwrap()).unwrap();
    assert_eq!(list.len(), 58);
    let mut refused_garbage = 0;
    for malformed in list {
        let bytes = std::fs::read(folder.join(&malformed.file)).unwrap();
        let name = Path::new(&malformed.file).file_stem().unwrap().to_str().unwrap();
        let verdict = decode(&bytes);
        if let Some(&(_, offset, reason)) = GARBAGE.iter().find(|row| row.0 == name) {
            let error = verdict.unwrap_err();
            assert_eq!((error.offset, error.reason), (offset, reason), "{name}");
            assert_eq!(malformed.original_verdict, "accepted", "{name}");
            refused_garbage += 1;
        } else if malformed.original_verdict == "dropped" {
            let error = verdict.expect_err(name);
            let reason = if NEGATIVE_NAMES.contains(&name) && i16::from_le_bytes([bytes[0], bytes[1]]) < 0 {
                Reason::NegativeNameLength
            } else {
                Reason::Truncated
            };
            assert_eq!(error.reason, reason, "{name}");
            assert!(error.offset <= bytes.len(), "{name}: {error}");
        } else {
            // Bytes behind the last thread, a negative or too small thread count, broken UTF-8: as the original reads it.
            let expected = Datagram::Process(malformed.original_decoded.unwrap().into());
            assert_eq!(verdict, Ok(expected), "{name}");
        }
    }
    assert_eq!(refused_garbage, GARBAGE.len());
}

#[test]
fn errors_say_where_and_why() {
    let marker = [
        (1, 0, "byte 0: the datagram ends inside this field"),
        (5, 2, "byte 2: the datagram ends inside this field"),
        (13, 6, "byte 6: the datagram ends inside this field"),
    ];
    let Some(folder) = vectors() else { return };
    for (length, offset, text) in marker {
        let bytes = std::fs::read(folder.join(format!("malformed/trunc_{length:03}.bin"))).unwrap();
        let error = decode(&bytes).unwrap_err();
        assert_eq!(error.offset, offset);
        assert!(error.to_string().ends_with(text), "{error}");
    }
}
