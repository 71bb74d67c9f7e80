//! Names of processes and threads beside the name of the executable: [`ThreadNames`] has those that programs give their threads,
//! [`Services`] the services that run in each `svchost.exe`, and [`scrubbed_command_line`] a command line without its secrets.
//!
//! The name of a thread takes three system calls, so each is read when its thread is first seen and then more and more rarely, and no pass
//! reads more than a fixed number.

use std::collections::HashMap;
use std::fmt::Write;

use cpumon_model::Comm;

use super::records::push_text;
use super::{NtError, u32_at, u64_at};
use crate::scrub::{OptionSyntax, scrub_arguments};

/// Most names of new threads that a pass reads.
const NEW_A_PASS: u32 = 1_024;
/// Most names that a pass reads again.
const AGAIN_A_PASS: u32 = 64;
/// A name is read again after 1 pass, because many threads set theirs just after they begin, then after 4, 16 and this
/// many; later where the threads at the head of the list would take a pass's whole allowance.
const MOST_PASSES: u32 = 64;

#[derive(Copy, Clone, Debug)]
struct NameEntry {
    name: Comm,
    /// The pass that reads it again, and how many passes later the next one does.
    due: u64,
    wait: u32,
    seen: u64,
}

/// Names by id and create time of a thread.
#[derive(Debug, Default)]
pub struct ThreadNames {
    known: HashMap<(u32, u64), NameEntry>,
    pass: u64,
    new_left: u32,
    again_left: u32,
}

impl ThreadNames {
    pub fn begin(&mut self) {
        self.pass += 1;
        (self.new_left, self.again_left) = (NEW_A_PASS, AGAIN_A_PASS);
    }

    /// The name of a thread, empty if it has none or is not read yet. `read` asks the system; `None`: it refuses.
    pub fn of(&mut self, tid: u32, created: u64, read: impl FnOnce(u32) -> Option<Comm>) -> Comm {
        let pass = self.pass;
        let least = self.known.len() as u64 / u64::from(AGAIN_A_PASS / 2);
        if let Some(known) = self.known.get_mut(&(tid, created)) {
            known.seen = pass;
            if known.due <= pass && self.again_left > 0 {
                self.again_left -= 1;
                known.name = read(tid).unwrap_or(known.name);
                known.wait = (known.wait * 4).min(MOST_PASSES);
                known.due = pass + u64::from(known.wait).max(least);
            }
            return known.name;
        }
        if self.new_left == 0 {
            return Comm::default();
        }
        self.new_left -= 1;
        let name = read(tid).unwrap_or_default();
        self.known.insert((tid, created), NameEntry { name, due: pass + 1, wait: 1, seen: pass });
        name
    }

    /// Ends a pass: forgets threads that are gone.
    pub fn finish(&mut self) {
        let pass = self.pass;
        self.known.retain(|_, one| one.seen == pass);
    }
}

// A command line of Windows is one text, which each program splits by itself. Here it is split as Microsoft's C library does, so that
// secrets are found in arguments as on other systems.

/// Most bytes of a command line that are read, as on Linux.
const MAX_BYTES: usize = 4_096;

/// The arguments without secrets, joined by spaces; `raw` is the whole text in UTF-16.
pub fn scrubbed_command_line(raw: &[u8]) -> String {
    let mut line = String::new();
    push_text(raw.get(..MAX_BYTES * 2).unwrap_or(raw), &mut line);
    let arguments = split(&line);
    let mut shown = String::with_capacity(line.len());
    scrub_arguments(arguments.iter().map(String::as_str), OptionSyntax::WithSlash, &mut shown);
    shown
}

/// Quotes hold words together; a backslash counts only in front of quotes, where two are one and an odd one makes the quote a
/// character. In the program's name it is always a character.
fn split(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(first) = rest.next() {
        if is_space(first) && !arguments.is_empty() {
            continue;
        }
        let is_program = arguments.is_empty();
        let mut argument = String::new();
        let (mut next, mut is_quoted) = (Some(first), false);
        while let Some(one) = next {
            match one {
                '\\' if !is_program => {
                    let mut count = 1;
                    while rest.next_if_eq(&'\\').is_some() {
                        count += 1;
                    }
                    let is_before_quote = rest.peek() == Some(&'"');
                    let shown = if is_before_quote { count / 2 } else { count };
                    argument.extend(std::iter::repeat_n('\\', shown));
                    if is_before_quote && count % 2 == 1 {
                        argument.extend(rest.next());
                    }
                }
                '"' if is_quoted && !is_program && rest.next_if_eq(&'"').is_some() => argument.push('"'),
                '"' => is_quoted = !is_quoted,
                one if is_space(one) && !is_quoted => break,
                one => argument.push(one),
            }
            next = rest.next();
        }
        arguments.push(argument);
    }
    arguments
}

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t')
}

/// Length of a service's record (`ENUM_SERVICE_STATUS_PROCESSW`).
pub const SERVICE_BYTES: usize = 56;
const SERVICE_NAME: usize = 0x00;
const SERVICE_PID: usize = 0x2c;
/// Services of one process whose names are shown; of others their number.
const MOST_NAMES: usize = 3;

/// The answers of `EnumServicesStatusExW`: lists of services that run, 56 bytes each, with names in the same buffer.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// Process and place of the name in `names`, ascending by process and name.
    rows: Vec<(u32, std::ops::Range<usize>)>,
    names: String,
}

impl Services {
    /// No service is known; memory stays for the next list.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.names.clear();
    }

    /// Adds the `count` services that the system wrote at `address`.
    ///
    /// Errors: records or names that are not inside the answer.
    pub fn add(&mut self, bytes: &[u8], address: u64, count: usize) -> Result<(), NtError> {
        let records = count.checked_mul(SERVICE_BYTES).and_then(|length| bytes.get(..length));
        let (records, _) = records.ok_or(NtError::Services { count })?.as_chunks::<SERVICE_BYTES>();
        for (number, record) in records.iter().enumerate() {
            let pid = u32_at(record, SERVICE_PID).unwrap_or(0);
            let name =
                u64_at(record, SERVICE_NAME).and_then(|at| ended_text(bytes, at.checked_sub(address)?));
            let from = self.names.len();
            push_text(name.ok_or(NtError::ServiceName { number })?, &mut self.names);
            if pid != 0 {
                self.rows.push((pid, from..self.names.len()));
            }
        }
        Ok(())
    }

    /// Sorts the services; call it after the last [`Services::add`].
    pub fn finish(&mut self) {
        let Self { rows, names } = self;
        let name = |row: &(u32, std::ops::Range<usize>)| names.get(row.1.clone()).unwrap_or_default();
        rows.sort_unstable_by(|one, other| (one.0, name(one)).cmp(&(other.0, name(other))));
    }

    /// Replaces `into` by the services of a process, as a unit of systemd is written: `Dnscache.service`,
    /// `BFE+mpssvc.service`; empty if it has none.
    pub fn name_of(&self, pid: u32, into: &mut String) {
        into.clear();
        let first = self.rows.partition_point(|row| row.0 < pid);
        let own = self.rows[first..].iter().take_while(|row| row.0 == pid);
        let mut count = 0;
        for (_, name) in own {
            if count < MOST_NAMES {
                into.push_str(if count > 0 { "+" } else { "" });
                into.push_str(self.names.get(name.clone()).unwrap_or_default());
            }
            count += 1;
        }
        if count > MOST_NAMES {
            let _ = write!(into, "+{} more", count - MOST_NAMES);
        }
        if count > 0 {
            into.push_str(".service");
        }
    }
}

/// The text from `at` to the next unit that is 0.
fn ended_text(bytes: &[u8], at: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let units = rest.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0])?;
    rest.get(..units * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::allocations;

    /// Reads the names of threads 0 to `count`; returns how many the system was asked for.
    fn pass(names: &mut ThreadNames, count: u32, name: &str) -> u32 {
        let mut reads = 0;
        names.begin();
        for tid in 0..count {
            names.of(tid, 7, |_| {
                reads += 1;
                Some(Comm::from(name))
            });
        }
        names.finish();
        reads
    }

    #[test]
    fn a_name_is_read_at_once_and_then_more_rarely() {
        let mut names = ThreadNames::default();
        let reads: Vec<u64> = (1..=300).filter(|_| pass(&mut names, 1, "x") == 1).collect();
        assert_eq!(reads, [1, 2, 6, 22, 86, 150, 214, 278]);
        names.begin();
        assert_eq!(names.of(0, 8, |_| None), Comm::default(), "the id of another thread");
        assert_eq!(names.of(0, 7, |_| None), Comm::from("x"), "a refusal takes no name away");
    }

    #[test]
    fn a_pass_reads_a_bounded_number_and_all_are_named_in_the_end() {
        let mut names = ThreadNames::default();
        assert_eq!(pass(&mut names, 3_000, "x"), NEW_A_PASS);
        assert!((0..40).all(|_| pass(&mut names, 3_000, "x") <= NEW_A_PASS + AGAIN_A_PASS));
        names.begin();
        assert!((0..3_000).all(|tid| names.of(tid, 7, |_| None) == Comm::from("x")));
    }

    #[test]
    fn every_thread_of_very_many_gets_a_new_name_in_the_end() {
        let mut names = ThreadNames::default();
        (0..12).for_each(|_| assert!(pass(&mut names, 10_000, "old") <= NEW_A_PASS + AGAIN_A_PASS));
        (0..400).for_each(|_| assert!(pass(&mut names, 10_000, "new") <= AGAIN_A_PASS));
        names.begin();
        assert!((0..10_000).all(|tid| names.of(tid, 7, |_| None) == Comm::from("new")));
    }

    #[test]
    fn gone_threads_are_forgotten_and_a_steady_pass_allocates_nothing() {
        let mut names = ThreadNames::default();
        (0..10).for_each(|_| assert!(pass(&mut names, 500, "x") <= 500));
        let before = allocations();
        pass(&mut names, 500, "x");
        assert_eq!(allocations() - before, 0);
        pass(&mut names, 3, "x");
        assert_eq!(names.known.len(), 3);
    }

    #[test]
    fn arguments_are_split_as_the_c_library_does() {
        for (line, arguments) in [
            (r"a.exe b  c", &["a.exe", "b", "c"][..]),
            (r#""C:\Program Files\a.exe" "b c" d"#, &[r"C:\Program Files\a.exe", "b c", "d"]),
            (r#"a "b\"c" \\srv\x "d\\" e\\\"f"#, &["a", "b\"c", r"\\srv\x", r"d\", "e\\\"f"]),
            (r#"a "" "b""c" x"y z"w"#, &["a", "", "b\"c", "xy zw"]),
            (r#"a "open end"#, &["a", "open end"]),
            ("", &[]),
            (" a", &["", "a"]),
        ] {
            assert_eq!(split(line), arguments, "{line}");
        }
    }

    #[test]
    fn secrets_are_hidden_as_programs_of_windows_write_them() {
        for (line, shown) in [
            (
                r#""C:\Program Files\MySQL\MySQLDump.exe" -u bob -phunter2 x"#,
                r"C:\Program Files\MySQL\MySQLDump.exe -u bob -p*** x",
            ),
            (r"C:\Windows\curl.exe -sSu bob:hunter2 h", r"C:\Windows\curl.exe -sSu bob:*** h"),
            ("wmic /node:x /password:hunter2 os", "wmic /node:x /password:*** os"),
            ("cmdkey /add:h /user:bob /pass:hunter2", "cmdkey /add:h /user:bob /pass:***"),
            ("x /Password hunter2 /v", "x /Password *** /v"),
            ("schtasks /create /ru bob /rp hunter2 /tn t", "schtasks /create /ru bob /rp *** /tn t"),
            (r"net use X: \\srv\share hunter2 /user:bob", r"net use X: \\srv\share *** /user:bob"),
            (
                r"C:\Windows\System32\net1.EXE user bob hunter2 /add",
                r"C:\Windows\System32\net1.EXE user bob *** /add",
            ),
            ("psexec.exe \\\\h -u bob -p hunter2 cmd", "psexec.exe \\\\h -u bob -p *** cmd"),
            ("plink -pw hunter2 bob@h", "plink -pw *** bob@h"),
            (
                "powershell -NoProfile -EncodedCommand aHVudGVyMg==",
                "powershell -NoProfile -EncodedCommand ***",
            ),
            ("pwsh -enc aHVudGVyMg==", "pwsh -enc ***"),
            ("sqlcmd -S h -P hunter2", "sqlcmd -S h -P ***"),
            ("x \"Server=h;Pwd=hunter2;\"", "x Server=h;Pwd=***"),
        ] {
            let raw: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(scrubbed_command_line(&raw), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            r"C:\Windows\system32\svchost.exe -k netsvcs -p -s Schedule",
            "cmd.exe /c dir /s",
            "net start Dnscache",
            "msbuild /p:Configuration=Release /m",
        ] {
            let raw: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(scrubbed_command_line(&raw), line);
        }
    }

    const ADDRESS: u64 = 0x7_0000;

    /// Records first, names behind them, as the system writes both.
    fn answer(services: &[(u32, &str)]) -> Vec<u8> {
        let (mut records, mut names) = (Vec::new(), Vec::<u8>::new());
        for (pid, name) in services {
            let at = ADDRESS + (services.len() * SERVICE_BYTES + names.len()) as u64;
            let mut record = [0; SERVICE_BYTES];
            record[..8].copy_from_slice(&at.to_le_bytes());
            record[8..16].copy_from_slice(&at.to_le_bytes());
            record[SERVICE_PID..SERVICE_PID + 4].copy_from_slice(&pid.to_le_bytes());
            records.extend_from_slice(&record);
            names.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        [records, names].concat()
    }

    fn name_of(services: &Services, pid: u32) -> String {
        let mut name = String::new();
        services.name_of(pid, &mut name);
        name
    }

    #[test]
    fn processes_have_the_names_of_their_services() {
        let list = [(8, "mpssvc"), (4, "Größe"), (8, "BFE"), (0, "stopped")];
        let shared = ["e", "d", "c", "b", "a"].map(|name| (12, name));
        let (bytes, more) = (answer(&list), answer(&shared));
        let mut services = Services::default();
        services.add(&bytes, ADDRESS, 4).unwrap();
        services.add(&more, ADDRESS, 5).unwrap();
        services.finish();
        assert_eq!(name_of(&services, 8), "BFE+mpssvc.service");
        assert_eq!(name_of(&services, 4), "Größe.service");
        assert_eq!(name_of(&services, 12), "a+b+c+2 more.service");
        assert_eq!((name_of(&services, 0), name_of(&services, 9)), (String::new(), String::new()));
        let before = allocations();
        services.clear();
        services.add(&bytes, ADDRESS, 4).unwrap();
        services.finish();
        assert_eq!(allocations() - before, 0, "the same list again");
    }

    #[test]
    fn a_cut_list_is_refused() {
        let bytes = answer(&[(8, "a"), (4, "b")]);
        let add = |bytes: &[u8], address, count| Services::default().add(bytes, address, count);
        assert_eq!(add(&bytes, ADDRESS, 2), Ok(()));
        for length in 0..bytes.len() {
            assert!(add(&bytes[..length], ADDRESS, 2).is_err(), "{length}");
        }
        for count in [3, usize::MAX] {
            assert_eq!(add(&bytes, ADDRESS, count), Err(NtError::Services { count }));
        }
        assert_eq!(add(&bytes, ADDRESS + 1_000, 2), Err(NtError::ServiceName { number: 0 }));
    }
}
