//! [`Attaching`]: sends files beside the records of a connection, one at a time, in small pieces where records leave space. It begins
//! where the receiver says, so a broken connection costs nothing that had arrived.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cpumon_wire::connection::{AttachmentState, MAX_PIECE_BYTES, Message};

use crate::attachments::{Attachments, remove};
use crate::tls::crypto::Sha256;

/// Part of the receiver's window that pieces may take.
const WINDOW_SHARE: u64 = 8;
/// Time from one piece to the next: 8 MiB/s, half of what a receiver takes of one device.
const PIECE_EVERY: Duration = Duration::from_millis(2);
/// Pause after a receiver answered *later*.
const REST: Duration = Duration::from_mins(1);
/// How often the directory is read where nothing says that there is something new.
const RESCAN_EVERY: Duration = Duration::from_secs(30);
/// Bytes that are hashed before records have their turn again.
const HASH_AT_ONCE: usize = 256 << 10;

/// Files on their way, over all connections of an uplink.
pub(super) struct Attaching {
    queue: Attachments,
    current: Option<Current>,
    /// The file whose transfer a receiver broke off last, and the bytes that had arrived.
    broken_off: Option<(PathBuf, u64)>,
    pace: Pace,
    next_scan: Instant,
    /// No file is offered before this: the receiver answered *later*.
    rest_until: Instant,
    pub(super) stored: u64,
    pub(super) refused: u64,
}

/// Limits of sending files over one connection.
struct Pace {
    number: u32,
    /// Bytes that may be on the way; 0: the receiver takes no files.
    window: u64,
    next_piece: Instant,
}

struct Current {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// All zero until it is hashed.
    hash: [u8; 32],
    stage: Stage,
}

enum Stage {
    /// Being hashed; the number counts the bytes hashed so far.
    Hashing(Box<Sha256>, u64),
    /// To be offered on this connection.
    Hashed,
    Offered,
    Taking {
        sent: u64,
        received: u64,
    },
}

impl Attaching {
    pub(super) fn new(dir: PathBuf) -> Self {
        let now = Instant::now();
        Self {
            queue: Attachments::new(dir),
            current: None,
            broken_off: None,
            pace: Pace { number: 0, window: 0, next_piece: now },
            next_scan: now,
            rest_until: now,
            stored: 0,
            refused: 0,
        }
    }

    /// A connection begins. `window_bytes`: of the receiver, for records; 0: it takes no files.
    pub(super) fn begin(&mut self, window_bytes: u32) {
        let window = u64::from(window_bytes) / WINDOW_SHARE;
        self.pace = Pace { number: 0, window, next_piece: Instant::now() };
        (self.next_scan, self.rest_until) = (Instant::now(), Instant::now());
        if let Some(Current { stage: stage @ (Stage::Offered | Stage::Taking { .. }), .. }) =
            &mut self.current
        {
            *stage = Stage::Hashed;
        }
    }

    /// Scans the directory with the next `fill`: a new file may be there.
    pub(super) fn scan_soon(&mut self) {
        self.next_scan = Instant::now();
    }

    /// Queues what may go now. Returns how long to wait at most until the next call.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>) -> Duration {
        let now = Instant::now();
        if self.pace.window == 0 {
            return RESCAN_EVERY;
        }
        if self.current.is_none() && now >= self.next_scan.max(self.rest_until) {
            self.next_scan = now + RESCAN_EVERY;
            self.current = self.queue.next().and_then(|path| self.open(path));
        }
        let Some(current) = &mut self.current else { return RESCAN_EVERY };
        match current.go_on(&mut self.pace, out) {
            Ok(wait) => wait,
            Err(error) => {
                let Some(current) = self.current.take() else { return RESCAN_EVERY };
                log::warn!("cannot send {}: {error}", current.path.display());
                self.queue.refuse(current.path);
                RESCAN_EVERY
            }
        }
    }

    fn open(&mut self, path: PathBuf) -> Option<Current> {
        match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((bytes, file)) => {
                Some(Current { path, file, bytes, hash: [0; 32], stage: Stage::Hashing(Box::default(), 0) })
            }
            Err(error) => {
                log::warn!("cannot send {}: {error}", path.display());
                self.queue.refuse(path);
                None
            }
        }
    }

    /// Gives the next file its turn. A file that came further than at its previous attempt keeps its own turn: the receiver may keep the
    /// arrived part of one file only.
    fn postpone(&mut self, current: Current) {
        let received = match current.stage {
            Stage::Taking { received, .. } => received,
            _ => 0,
        };
        let before = self.broken_off.take().filter(|(path, _)| *path == current.path);
        if received > before.map_or(0, |(_, received)| received) {
            self.broken_off = Some((current.path, received));
        } else {
            self.queue.postpone(current.path);
        }
    }

    pub(super) fn answered(&mut self, number: u32, state: AttachmentState, received: u64, text: &str) {
        // Of another number: it is about a file that was given up.
        let Some(current) = self.current.as_mut().filter(|_| number == self.pace.number) else { return };
        match state {
            _ if matches!(current.stage, Stage::Hashing(..)) => {}
            AttachmentState::Taking if received <= current.bytes => match &mut current.stage {
                Stage::Taking { sent, received: known } => *known = (*known).max(received.min(*sent)),
                Stage::Offered => current.stage = Stage::Taking { sent: received, received },
                _ => {}
            },
            AttachmentState::Stored => {
                let Some(current) = self.current.take() else { return };
                self.stored += 1;
                self.next_scan = Instant::now();
                if let Err(error) = remove(&current.path) {
                    log::warn!("cannot delete {}, which a receiver has: {error}", current.path.display());
                    self.queue.refuse(current.path);
                }
            }
            AttachmentState::Refused => {
                let Some(current) = self.current.take() else { return };
                log::warn!("the receiver does not take {}: {text}", current.path.display());
                self.refused += 1;
                self.next_scan = Instant::now();
                self.queue.refuse(current.path);
            }
            _ => {
                log::info!("the receiver does not take {} now: {text}", current.path.display());
                if let Some(current) = self.current.take() {
                    self.postpone(current);
                }
                (self.next_scan, self.rest_until) = (Instant::now(), Instant::now() + REST);
            }
        }
    }
}

impl Current {
    fn go_on(&mut self, pace: &mut Pace, out: &mut Vec<u8>) -> io::Result<Duration> {
        match &mut self.stage {
            Stage::Hashing(hash, at) => {
                let mut bytes = vec![0; HASH_AT_ONCE];
                let count = self.file.seek(SeekFrom::Start(*at)).and_then(|_| self.file.read(&mut bytes))?;
                hash.update(&bytes[..count]);
                *at += count as u64;
                if count == 0 || *at >= self.bytes {
                    self.bytes = *at;
                    self.hash = std::mem::take(hash).finish();
                    self.stage = Stage::Hashed;
                }
                Ok(Duration::ZERO)
            }
            Stage::Hashed => {
                pace.number += 1;
                let why = Attachments::why(&self.path);
                let (hash, bytes, wall_ns) = (self.hash, self.bytes, why.wall_ns);
                Message::Offer { number: pace.number, hash, bytes, wall_ns, reason: &why.reason }.push(out);
                self.stage = Stage::Offered;
                Ok(RESCAN_EVERY)
            }
            Stage::Offered => Ok(RESCAN_EVERY),
            Stage::Taking { sent, received } => {
                let left = self.bytes - *sent;
                let space = pace.window.saturating_sub(*sent - *received);
                // Records wait for no more than one piece.
                if left == 0 || space == 0 || out.len() >= MAX_PIECE_BYTES {
                    // The next acknowledgement, or space in the socket, wakes this thread.
                    return Ok(RESCAN_EVERY);
                }
                let now = Instant::now();
                if now >= pace.next_piece {
                    let count = left.min(space).min(MAX_PIECE_BYTES as u64);
                    let mut bytes = vec![0; usize::try_from(count).unwrap_or(MAX_PIECE_BYTES)];
                    self.file.seek(SeekFrom::Start(*sent)).and_then(|_| self.file.read_exact(&mut bytes))?;
                    Message::Piece { number: pace.number, offset: *sent, bytes: &bytes }.push(out);
                    *sent += count;
                    pace.next_piece = now + PIECE_EVERY;
                }
                Ok(PIECE_EVERY)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(out: &mut Vec<u8>) -> Vec<u64> {
        let (mut rest, mut offsets) = (&out[..], Vec::new());
        while let Ok(Some(length)) = Message::length(rest, 1 << 20) {
            if let Ok(Some(Message::Piece { offset, .. })) = Message::decode(&rest[..length]) {
                offsets.push(offset);
            }
            rest = &rest[length..];
        }
        out.clear();
        offsets
    }

    fn send(attaching: &mut Attaching) -> Vec<u64> {
        let (mut out, mut offsets) = (Vec::new(), Vec::new());
        while attaching.fill(&mut out) < REST / 4 {
            offsets.extend(pieces(&mut out));
        }
        offsets.extend(pieces(&mut out));
        offsets
    }

    #[test]
    fn pieces_keep_to_the_window_and_begin_where_the_receiver_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flight-1.trace");
        std::fs::write(&path, vec![7; 600_000]).unwrap();
        let mut attaching = Attaching::new(dir.path().to_owned());
        assert!(send(&mut attaching).is_empty(), "no receiver takes files");
        attaching.begin(1 << 20);
        assert!(send(&mut attaching).is_empty(), "offered");
        attaching.answered(1, AttachmentState::Taking, 0, "");
        assert_eq!(send(&mut attaching).len(), 8, "an eighth of a window of 1 MiB");
        attaching.answered(1, AttachmentState::Taking, 16 << 10, "");
        assert_eq!(send(&mut attaching), [128 << 10]);
        // The connection breaks; the receiver has 500 000 bytes.
        attaching.begin(1 << 20);
        assert!(send(&mut attaching).is_empty());
        attaching.answered(1, AttachmentState::Taking, 500_000, "");
        let sent = send(&mut attaching);
        assert_eq!((sent.len(), sent[0]), (7, 500_000));
        assert!(path.exists());
        attaching.answered(9, AttachmentState::Stored, 600_000, "");
        assert!(path.exists(), "another number");
        attaching.answered(1, AttachmentState::Stored, 600_000, "");
        assert!(!path.exists() && attaching.stored == 1);
    }

    #[test]
    fn what_is_refused_is_not_offered_again_and_later_is_later() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["flight-1.trace", "flight-2.trace"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let mut attaching = Attaching::new(dir.path().to_owned());
        attaching.begin(1 << 20);
        send(&mut attaching);
        attaching.answered(1, AttachmentState::Refused, 0, "no trace");
        let mut out = Vec::new();
        while attaching.pace.number < 2 {
            attaching.fill(&mut out);
        }
        assert!(attaching.current.as_ref().unwrap().path.ends_with("flight-2.trace"));
        attaching.answered(2, AttachmentState::Later, 0, "full");
        attaching.scan_soon();
        out.clear();
        assert!(attaching.fill(&mut out) > Duration::from_secs(20) && out.is_empty());
        assert_eq!((attaching.refused, attaching.stored), (1, 0));
    }

    #[test]
    fn a_file_that_a_receiver_has_no_space_for_lets_the_others_pass() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["flight-1.trace", "flight-2.trace", "flight-3.trace"] {
            std::fs::write(dir.path().join(name), vec![7; 100_000]).unwrap();
        }
        let mut attaching = Attaching::new(dir.path().to_owned());
        attaching.begin(1 << 20);
        // Answers the next offer, after the bytes that are taken, and gives the name of the file.
        let mut answer = |taken: u64, state| {
            attaching.rest_until = Instant::now();
            send(&mut attaching);
            let current = attaching.current.as_ref().unwrap();
            let name = current.path.file_name().unwrap().to_str().unwrap().to_owned();
            let number = attaching.pace.number;
            if taken > 0 {
                attaching.answered(number, AttachmentState::Taking, 0, "");
                send(&mut attaching);
                attaching.answered(number, AttachmentState::Taking, taken, "");
            }
            attaching.answered(number, state, taken, "the disk is full");
            name
        };
        let (later, stored) = (AttachmentState::Later, AttachmentState::Stored);
        assert_eq!(answer(0, later), "flight-1.trace");
        assert_eq!(answer(0, later), "flight-2.trace");
        assert_eq!(answer(0, stored), "flight-3.trace");
        assert_eq!(answer(50_000, later), "flight-1.trace");
        assert_eq!(answer(60_000, later), "flight-1.trace", "it came further");
        assert_eq!(answer(60_000, later), "flight-1.trace", "and further");
        assert_eq!(answer(0, stored), "flight-2.trace", "not any more");
        assert_eq!(answer(0, stored), "flight-1.trace");
    }
}
