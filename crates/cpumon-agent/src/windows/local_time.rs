//! The device's local time: how many seconds it is ahead of UTC. Only v1 datagrams need it, they carry local time without
//! a zone.

#![expect(unsafe_code, reason = "the standard library has no local time")]

use std::mem::zeroed;

use windows_sys::Win32::Foundation::{FILETIME, SYSTEMTIME};
use windows_sys::Win32::System::Time::{
    FileTimeToSystemTime, SystemTimeToFileTime, SystemTimeToTzSpecificLocalTime,
};

/// From 1601, where Windows begins to count, to 1970, in units of 100 ns.
const EPOCH: i64 = 116_444_736_000_000_000;

/// Local time less UTC at a moment (ns since the UNIX epoch), seconds, by the system's time zone and its rules of that year;
/// 0 if the system does not know it.
pub fn utc_offset_s(wall_ns: i64) -> i32 {
    let ticks = (wall_ns / 100).saturating_add(EPOCH);
    local(ticks)
        .and_then(|local| i32::try_from((local - ticks + 5_000_000).div_euclid(10_000_000)).ok())
        .unwrap_or(0)
}

/// A moment as if local time were UTC, to the ms.
fn local(ticks: i64) -> Option<i64> {
    let [low, high] = [ticks & 0xffff_ffff, ticks >> 32].map(|half| u32::try_from(half).ok());
    let utc = FILETIME { dwLowDateTime: low?, dwHighDateTime: high? };
    let mut local = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    // SAFETY: all-zero bytes are valid for this plain struct; all pointers are to values on this stack, and a null zone is the
    // system's own.
    let is_done = unsafe {
        let (mut from, mut to): (SYSTEMTIME, SYSTEMTIME) = zeroed();
        FileTimeToSystemTime(&raw const utc, &raw mut from) != 0
            && SystemTimeToTzSpecificLocalTime(std::ptr::null(), &raw const from, &raw mut to) != 0
            && SystemTimeToFileTime(&raw const to, &raw mut local) != 0
    };
    is_done.then(|| i64::from(local.dwHighDateTime) << 32 | i64::from(local.dwLowDateTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_one_that_exists() {
        for wall_ns in [0, 1_792_000_000_000_000_000, i64::MIN, i64::MAX] {
            let offset = utc_offset_s(wall_ns);
            assert!((-15 * 3600..=15 * 3600).contains(&offset) && offset % 60 == 0, "{offset}");
        }
    }
}
