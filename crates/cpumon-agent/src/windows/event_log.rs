//! The event log of Windows as the place of messages: a service has no standard error.

#![expect(unsafe_code, reason = "the standard library has no event log and no registry")]

use std::io;
use std::ptr::{null, null_mut};

use cpumon_model::escape;
use log::{Level, LevelFilter, Log, Metadata, Record};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, HANDLE};
use windows_sys::Win32::System::EventLog::{
    EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE, RegisterEventSourceW, ReportEventW,
};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_WRITE, REG_DWORD, REG_EXPAND_SZ, REG_OPTION_NON_VOLATILE, RegCloseKey,
    RegCreateKeyExW, RegDeleteKeyW, RegSetValueExW,
};

/// Below it each source of messages has a key.
const SOURCES: &str = "SYSTEM\\CurrentControlSet\\Services\\EventLog\\Application\\";
/// A program of Windows that has the texts "%1" for the ids 1 to 1000, so that none of our own is needed.
const TEXTS: &str = "%SystemRoot%\\System32\\EventCreate.exe";
/// Id of every message in the event log.
const ID: u32 = 1;
/// Longest text that the system takes, in units of UTF-16.
const MAX_UNITS: usize = 31_839;

/// Handle of an event source, which is never closed.
struct EventLog(HANDLE);

// SAFETY: the functions of the event log may be called from any thread, and the handle is never closed.
unsafe impl Send for EventLog {}
// SAFETY: see above.
unsafe impl Sync for EventLog {}

impl Log for EventLog {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let kind = match record.level() {
            Level::Error => EVENTLOG_ERROR_TYPE,
            Level::Warn => EVENTLOG_WARNING_TYPE,
            _ => EVENTLOG_INFORMATION_TYPE,
        };
        let text = shown_text(&record.args().to_string());
        // SAFETY: the handle is never closed; one text that ends with 0 is given, and no data. A message that is refused has no other place to
        // go to.
        unsafe { ReportEventW(self.0, kind, 0, ID, null_mut(), 1, 0, &text.as_ptr(), null()) };
    }

    fn flush(&self) {}
}

/// From now on messages go to the event log as those of `source`.
pub fn log_to_events(source: &str, level: LevelFilter) -> io::Result<()> {
    let source = wide(source);
    // SAFETY: the name ends with 0; no name means this machine.
    let handle = unsafe { RegisterEventSourceW(null(), source.as_ptr()) };
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    log::set_boxed_logger(Box::new(EventLog(handle))).map_err(io::Error::other)?;
    log::set_max_level(level);
    Ok(())
}

/// Lets Event Viewer show messages of `source` as they are.
pub fn register(source: &str) -> io::Result<()> {
    let path = wide(&format!("{SOURCES}{source}"));
    let mut key: HKEY = null_mut();
    // SAFETY: the path ends with 0, and `key` is written on success only.
    check(unsafe {
        RegCreateKeyExW(
            HKEY_LOCAL_MACHINE,
            path.as_ptr(),
            0,
            null(),
            REG_OPTION_NON_VOLATILE,
            KEY_WRITE,
            null(),
            &raw mut key,
            null_mut(),
        )
    })?;
    let texts: Vec<u8> = wide(TEXTS).into_iter().flat_map(u16::to_le_bytes).collect();
    let kinds =
        u32::from(EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE).to_le_bytes();
    let set = set_value(key, "EventMessageFile", REG_EXPAND_SZ, &texts)
        .and_then(|()| set_value(key, "TypesSupported", REG_DWORD, &kinds));
    // SAFETY: the key was opened above, and is not used afterwards.
    unsafe { RegCloseKey(key) };
    set
}

pub fn unregister(source: &str) -> io::Result<()> {
    let path = wide(&format!("{SOURCES}{source}"));
    // SAFETY: the path ends with 0.
    match unsafe { RegDeleteKeyW(HKEY_LOCAL_MACHINE, path.as_ptr()) } {
        ERROR_FILE_NOT_FOUND => Ok(()),
        error => check(error),
    }
}

fn set_value(key: HKEY, name: &str, kind: u32, bytes: &[u8]) -> io::Result<()> {
    let name = wide(name);
    // SAFETY: the key is open, the name ends with 0, and the bytes are as many as the length says.
    check(unsafe {
        RegSetValueExW(key, name.as_ptr(), 0, kind, bytes.as_ptr(), u32::try_from(bytes.len()).unwrap_or(0))
    })
}

fn check(error: u32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error.cast_signed())) }
}

/// A message as Event Viewer shows it. It takes % before a digit for a text to insert, as in the address fe80::1%12: a space separates them.
fn shown_text(message: &str) -> Vec<u16> {
    let mut text = String::with_capacity(message.len());
    let mut was_percent = false;
    for one in escape(message).to_string().chars() {
        if was_percent && one.is_ascii_digit() {
            text.push(' ');
        }
        text.push(one);
        was_percent = one == '%';
    }
    let mut units = wide(&text);
    if units.len() > MAX_UNITS {
        units.truncate(MAX_UNITS - 2);
        // A character of two units is left out whole.
        if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        units.extend(wide("…"));
    }
    units
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &str) -> String {
        let units = shown_text(message);
        assert!(units.len() <= MAX_UNITS && units.iter().filter(|unit| **unit == 0).count() == 1);
        String::from_utf16(units.strip_suffix(&[0]).unwrap()).unwrap()
    }

    /// Event Viewer replaced `%12` by another text.
    #[test]
    fn an_address_with_its_interface_stays_readable() {
        assert_eq!(shown("to [fe80::1%12]:3001, 50 %, 100%"), "to [fe80::1% 12]:3001, 50 %, 100%");
        assert_eq!(shown("größe 漢字\u{1b}[2J"), "größe 漢字\\x1b[2J");
    }

    /// The system refuses a longer text, and the message was lost.
    #[test]
    fn a_message_that_is_too_long_is_cut() {
        for text in ["x".repeat(100_000), "🦀".repeat(40_000), format!("x{}", "🦀".repeat(40_000))] {
            let shown = shown(&text);
            let begin = shown.strip_suffix('…').unwrap();
            assert!(begin.len() > 30_000 && text.starts_with(begin));
        }
        assert_eq!(shown(&"x".repeat(MAX_UNITS - 1)).len(), MAX_UNITS - 1);
    }
}
