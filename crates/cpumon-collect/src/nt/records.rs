//! The answer to class `SystemProcessInformation`: a chain of processes, each a record of 256 bytes, followed by its threads, 80
//! bytes each. Names are UTF-16 in the same buffer, bounded, and records name them by address; other programs wrote them. Why an answer is
//! refused: [`NtError`].

use cpumon_model::Comm;

use super::{part, u32_at, u64_at};

pub const PROCESS_BYTES: usize = 256;
pub const THREAD_BYTES: usize = 80;

/// Offsets in a process's record (`SYSTEM_PROCESS_INFORMATION`).
mod process {
    pub(super) const NEXT: usize = 0x00;
    pub(super) const THREADS: usize = 0x04;
    pub(super) const HARD_FAULTS: usize = 0x10;
    pub(super) const CYCLES: usize = 0x18;
    pub(super) const CREATED: usize = 0x20;
    pub(super) const USER: usize = 0x28;
    pub(super) const KERNEL: usize = 0x30;
    pub(super) const NAME_BYTES: usize = 0x38;
    pub(super) const NAME: usize = 0x40;
    pub(super) const BASE_PRIORITY: usize = 0x48;
    pub(super) const PID: usize = 0x50;
    pub(super) const PARENT: usize = 0x58;
    pub(super) const SESSION: usize = 0x64;
    pub(super) const FAULTS: usize = 0x80;
}

/// Offsets in a thread's record (`SYSTEM_THREAD_INFORMATION`).
mod thread {
    pub(super) const KERNEL: usize = 0x00;
    pub(super) const USER: usize = 0x08;
    pub(super) const CREATED: usize = 0x10;
    pub(super) const TID: usize = 0x30;
    pub(super) const BASE_PRIORITY: usize = 0x3c;
    pub(super) const STATE: usize = 0x44;
    pub(super) const WAIT_REASON: usize = 0x48;
}

/// A process as a system call reports it; times in units of 100 ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedProcess {
    pub pid: u32,
    /// Id of its parent, which may have ended.
    pub parent_pid: u32,
    /// Start time since 1601.
    pub created: u64,
    /// Time in user mode, its ended threads included.
    pub user: u64,
    /// Time in kernel mode, its ended threads included.
    pub kernel: u64,
    /// Session, 0 for services, where the call reports it.
    pub session: Option<u32>,
    /// Base priority, 0 to 31, where the call reports it. It changes with the priority class.
    pub base_priority: Option<u8>,
    /// Page faults since its start, all and those that needed a disk, where the call reports them: Wine has 0 for every process. Each
    /// starts again from 0 after 4,294,967,295.
    pub faults: Option<[u32; 2]>,
}

/// `number`, if it is a base priority: 0 to 31.
pub fn priority(number: i32) -> Option<u8> {
    u8::try_from(number).ok().filter(|number| *number <= 31)
}

/// A thread as a system call reports it; times in units of 100 ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedThread {
    /// Thread id, unique on the machine among live threads.
    pub tid: u32,
    /// Start time since 1601.
    pub created: u64,
    pub user: u64,
    pub kernel: u64,
    /// Priority, 0 to 31.
    pub priority: i32,
    /// `KTHREAD_STATE` and `KWAIT_REASON`, of the last wait unless it waits, where they are reported; both 0 under Wine.
    pub state: Option<(u32, u32)>,
    /// The thread's own name; empty: it has its process's.
    pub name: Comm,
}

impl ReportedThread {
    /// Without times if they exceed the time from its start to `now`, since 1601. Wine reports the times of the whole
    /// process for a thread that does not run yet; charged to the thread, they would count twice.
    #[must_use]
    pub fn if_possible(self, now: u64) -> Self {
        /// Resolution of the system clock: 10 ms in units of 100 ns.
        const STEP: u64 = 100_000;
        let most = now.saturating_sub(self.created).saturating_add(STEP);
        if self.user.saturating_add(self.kernel) > most { Self { user: 0, kernel: 0, ..self } } else { self }
    }
}

/// A process in the system's answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ProcessRecord<'a> {
    /// The process with id 0 is the idle process, whose threads represent CPUs with nothing to run.
    pub process: ReportedProcess,
    /// CPU cycles, its ended threads included. 0 under Wine.
    pub cycles: u64,
    /// Name of its image, UTF-16 in little-endian bytes; hostile. Empty for the idle process.
    pub name: &'a [u8],
    threads: &'a [u8],
}

impl<'a> ProcessRecord<'a> {
    /// Its threads, without their names.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = ReportedThread> + 'a {
        self.threads.chunks_exact(THREAD_BYTES).map(|bytes| read_thread(bytes).unwrap_or_default())
    }
}

/// `None` only for fewer than 80 bytes.
fn read_thread(bytes: &[u8]) -> Option<ReportedThread> {
    Some(ReportedThread {
        tid: u32_at(bytes, thread::TID)?,
        created: u64_at(bytes, thread::CREATED)?,
        user: u64_at(bytes, thread::USER)?,
        kernel: u64_at(bytes, thread::KERNEL)?,
        // The current priority changes with every boost, and would be a change of each thread in each pass.
        priority: part(bytes, thread::BASE_PRIORITY).map(i32::from_le_bytes)?,
        state: Some((u32_at(bytes, thread::STATE)?, u32_at(bytes, thread::WAIT_REASON)?)),
        name: Comm::default(),
    })
}

/// Walks the chain of processes. After an error it ends.
#[derive(Clone, Debug)]
pub struct Processes<'a> {
    bytes: &'a [u8],
    address: u64,
    /// Start of the next record; `None`: there is none.
    next: Option<usize>,
}

impl<'a> Processes<'a> {
    /// `bytes` must be exactly the system's output at `address`.
    pub fn new(bytes: &'a [u8], address: u64) -> Self {
        Self { bytes, address, next: Some(0) }
    }

    fn read(&mut self, at: usize) -> Result<ProcessRecord<'a>, NtError> {
        let cut = NtError::Cut { at };
        let rest = self.bytes.get(at..).ok_or(cut)?;
        let (record, behind) = rest.split_at_checked(PROCESS_BYTES).ok_or(cut)?;
        let u32_of = |offset| u32_at(record, offset).ok_or(cut);
        let u64_of = |offset| u64_at(record, offset).ok_or(cut);
        let threads =
            usize::try_from(u32_of(process::THREADS)?).ok().and_then(|n| n.checked_mul(THREAD_BYTES));
        let threads = threads.and_then(|length| behind.get(..length)).ok_or(cut)?;
        let step = usize::try_from(u32_of(process::NEXT)?).map_err(|_| cut)?;
        if step != 0 {
            if step < PROCESS_BYTES + threads.len() {
                return Err(NtError::Overlap { at });
            }
            self.next = Some(at.checked_add(step).ok_or(cut)?);
        }
        let name_bytes = part(record, process::NAME_BYTES).map_or(0, u16::from_le_bytes);
        Ok(ProcessRecord {
            process: ReportedProcess {
                // Ids are 32 bits wide, in fields as wide as a pointer.
                pid: u32_of(process::PID)?,
                parent_pid: u32_of(process::PARENT)?,
                created: u64_of(process::CREATED)?,
                user: u64_of(process::USER)?,
                kernel: u64_of(process::KERNEL)?,
                session: Some(u32_of(process::SESSION)?),
                base_priority: part(record, process::BASE_PRIORITY)
                    .map(i32::from_le_bytes)
                    .and_then(priority),
                faults: Some([u32_of(process::FAULTS)?, u32_of(process::HARD_FAULTS)?])
                    .filter(|faults| *faults != [0, 0]),
            },
            cycles: u64_of(process::CYCLES)?,
            name: self.name(u64_of(process::NAME)?, name_bytes.into()).ok_or(NtError::Name { at })?,
            threads,
        })
    }

    fn name(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let from = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }
}

impl<'a> Iterator for Processes<'a> {
    type Item = Result<ProcessRecord<'a>, NtError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next.take()?;
        let record = self.read(at);
        if record.is_err() {
            self.next = None;
        }
        Some(record)
    }
}

/// An answer with a malformed layout. None of its rows are used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NtError {
    #[error("the record of a process at byte {at} is cut")]
    Cut { at: usize },
    #[error("the process at byte {at} says that the next one begins inside of it")]
    Overlap { at: usize },
    #[error("the name of the process at byte {at} is outside of the answer")]
    Name { at: usize },
    /// A length that is no multiple of a record's.
    #[error("{bytes} bytes are no whole number of records of CPUs")]
    Cpus { bytes: usize },
    #[error("{count} services do not fit into the answer")]
    Services { count: usize },
    #[error("the name of service {number} is outside of the answer")]
    ServiceName {
        /// Position in the list, from 0.
        number: usize,
    },
}

fn characters(bytes: &[u8]) -> impl Iterator<Item = char> {
    let units = bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two));
    char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Decodes a text; invalid UTF-16 becomes U+FFFD.
pub fn text(bytes: &[u8]) -> String {
    characters(bytes).collect()
}

pub(super) fn push_text(bytes: &[u8], into: &mut String) {
    into.extend(characters(bytes));
}

/// The beginning of the text that fits a thread's name, in whole characters.
pub fn name_of_thread(bytes: &[u8]) -> Comm {
    let (mut name, mut length) = ([0; Comm::MAX_BYTES], 0);
    for character in characters(bytes) {
        let Some(space) = name.get_mut(length..length + character.len_utf8()) else { break };
        length += character.encode_utf8(space).len();
    }
    Comm::new(&name[..length])
}

/// The text of a `UNICODE_STRING` at the start of `bytes`, which the system wrote at `address`. `None`: the text is not inside them.
pub fn counted_text(bytes: &[u8], address: u64) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes(part(bytes, 0)?));
    if length == 0 {
        return Some(&[]);
    }
    let from = usize::try_from(u64_at(bytes, 8)?.checked_sub(address)?).ok()?;
    bytes.get(from..from.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nt::testing::{ADDRESS, MadeProcess, MadeThread, answer};

    fn two() -> Vec<u8> {
        let threads = vec![
            MadeThread { tid: 12, created: 1_000, user: 7, kernel: 8, priority: 9, state: 5, wait_reason: 6 },
            MadeThread { tid: 16, created: 2_000, ..MadeThread::default() },
        ];
        let first = MadeProcess {
            pid: 8,
            parent: 4,
            session: 1,
            created: 999,
            user: 30,
            kernel: 40,
            cycles: 50,
            base_priority: 13,
            faults: 130,
            hard_faults: 60,
            name: "größe 漢字.exe",
            threads,
        };
        answer(&[first, MadeProcess { pid: 20, name: "b.exe", ..MadeProcess::default() }])
    }

    fn read(bytes: &[u8]) -> Result<Vec<ProcessRecord<'_>>, NtError> {
        Processes::new(bytes, ADDRESS).collect()
    }

    #[test]
    fn processes_and_threads_come_out_as_they_went_in() {
        let bytes = two();
        let read = read(&bytes).unwrap();
        let [first, second] = read[..] else { panic!("{read:?}") };
        let expected = ReportedProcess {
            pid: 8,
            parent_pid: 4,
            created: 999,
            user: 30,
            kernel: 40,
            session: Some(1),
            base_priority: Some(13),
            faults: Some([130, 60]),
        };
        assert_eq!((first.process, first.cycles), (expected, 50));
        let units: Vec<u16> =
            first.name.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
        assert_eq!(String::from_utf16(&units).unwrap(), "größe 漢字.exe");
        let threads: Vec<_> = first.threads().collect();
        let expected = ReportedThread {
            tid: 12,
            created: 1_000,
            user: 7,
            kernel: 8,
            priority: 9,
            state: Some((5, 6)),
            name: Comm::default(),
        };
        assert_eq!((threads[0], threads[1].tid, threads.len()), (expected, 16, 2));
        assert_eq!((second.process.pid, second.threads().len()), (20, 0));
    }

    #[test]
    fn a_cut_answer_is_refused_at_every_length() {
        let bytes = two();
        let whole = read(&bytes).unwrap().len();
        for length in 0..bytes.len() {
            let cut = read(&bytes[..length]);
            assert!(cut.is_err(), "{length} of {} bytes passed as {cut:?}", bytes.len());
        }
        assert_eq!(whole, 2);
    }

    #[test]
    fn a_chain_that_turns_back_ends() {
        for step in [1_u32, 8, 255, 256, 256 + 159] {
            let mut bytes = two();
            bytes[..4].copy_from_slice(&step.to_le_bytes());
            assert_eq!(read(&bytes), Err(NtError::Overlap { at: 0 }), "{step}");
        }
        let mut bytes = two();
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&bytes), Err(NtError::Cut { at: u32::MAX as usize }));
    }

    #[test]
    fn more_threads_than_bytes_are_refused() {
        for count in [3_u32, u32::MAX] {
            let mut bytes = two();
            bytes[4..8].copy_from_slice(&count.to_le_bytes());
            assert!(read(&bytes).is_err(), "{count}");
        }
    }

    #[test]
    fn a_name_elsewhere_is_refused() {
        for address in [0, ADDRESS - 1, ADDRESS + 100_000, u64::MAX] {
            let mut bytes = two();
            bytes[process::NAME..process::NAME + 8].copy_from_slice(&address.to_le_bytes());
            assert_eq!(read(&bytes), Err(NtError::Name { at: 0 }), "{address:#x}");
        }
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn a_threads_name_is_cut_between_characters() {
        for (whole, cut) in [
            ("", ""),
            ("größe", "größe"),
            ("漢字漢字漢字", "漢字漢字漢"),
            ("ThreadPoolForegroundWorker", "ThreadPoolForeg"),
            ("0123456789abcd\u{1f600}", "0123456789abcd"),
        ] {
            assert_eq!(name_of_thread(&utf16(whole)).to_str_lossy(), cut);
        }
        assert_eq!(name_of_thread(&[0x00, 0xd8, b'a', 0]).to_str_lossy(), "\u{fffd}a", "half of a character");
    }

    #[test]
    fn a_text_elsewhere_is_refused() {
        const ADDRESS: u64 = 0x1000;
        let made = |length: u16, at: u64| {
            let mut bytes = vec![0; 8];
            bytes[..2].copy_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend(utf16("abc"));
            bytes
        };
        let whole = made(6, ADDRESS + 16);
        assert_eq!(counted_text(&whole, ADDRESS).map(text).as_deref(), Some("abc"));
        assert_eq!(counted_text(&made(0, 0), ADDRESS), Some(&[][..]), "without a name there is no address");
        for (length, at) in [(8, ADDRESS + 16), (6, ADDRESS + 18), (6, 0), (6, u64::MAX), (u16::MAX, ADDRESS)]
        {
            assert_eq!(counted_text(&made(length, at), ADDRESS), None, "{length} at {at:#x}");
        }
        assert_eq!(counted_text(&whole[..15], ADDRESS), None);
    }
}
