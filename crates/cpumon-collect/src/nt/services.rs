//! The answer of `EnumServicesStatusExW`: a list of services that run, 56 bytes each, with names in the same buffer; and which
//! services each process is, for `svchost.exe` says nothing.

use std::fmt::Write;

use super::records::push_text;
use super::{NtError, u32_at, u64_at};

/// Length of a service's record (`ENUM_SERVICE_STATUS_PROCESSW`).
pub const SERVICE_BYTES: usize = 56;
const NAME: usize = 0x00;
const PID: usize = 0x2c;
/// Services of one process whose names are shown; of others their number.
const MOST_NAMES: usize = 3;

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
            let pid = u32_at(record, PID).unwrap_or(0);
            let name = u64_at(record, NAME).and_then(|at| ended_text(bytes, at.checked_sub(address)?));
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

    const ADDRESS: u64 = 0x7_0000;

    /// Records first, names behind them, as the system writes both.
    fn answer(services: &[(u32, &str)]) -> Vec<u8> {
        let (mut records, mut names) = (Vec::new(), Vec::<u8>::new());
        for (pid, name) in services {
            let at = ADDRESS + (services.len() * SERVICE_BYTES + names.len()) as u64;
            let mut record = [0; SERVICE_BYTES];
            record[..8].copy_from_slice(&at.to_le_bytes());
            record[8..16].copy_from_slice(&at.to_le_bytes());
            record[PID..PID + 4].copy_from_slice(&pid.to_le_bytes());
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
