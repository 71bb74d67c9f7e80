//! The device's local time: how many seconds it is ahead of UTC. Only v1 datagrams need it, they carry local time without
//! a zone. The one file here with unsafe code.

/// Local time less UTC at a moment (ns since the UNIX epoch), seconds, by the system's time zone (`TZ`, /etc/localtime);
/// 0 if the system does not know it.
#[must_use]
#[expect(unsafe_code, reason = "localtime_r(3) has no safe wrapper in the standard library")]
pub fn utc_offset_s(wall_ns: i64) -> i32 {
    // A `time_t`, whose name is deprecated for musl.
    let seconds = wall_ns.div_euclid(1_000_000_000);
    // SAFETY: all-zero bytes are a valid `tm` (integers and a null pointer).
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values on this stack; localtime_r keeps neither.
    let result = unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    if result.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_one_that_exists() {
        for wall_ns in [0, 1_792_000_000_000_000_000, i64::MIN, i64::MAX] {
            let offset = utc_offset_s(wall_ns);
            assert!((-15 * 3600..=15 * 3600).contains(&offset), "{offset}");
        }
    }
}
