//! Versions of Linux. In: a release as uname(2) or `kernel.osrelease` tell it. Out: major and minor number.

/// `6.18.44-fc` is (6, 18).
pub(crate) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+', '_']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The version that runs here.
pub(crate) fn running() -> Option<(u32, u32)> {
    version_of(&rustix::system::uname().release().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_as_far_as_it_is_a_version() {
        assert_eq!(version_of("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version_of("5.8-rc1"), Some((5, 8)));
        assert_eq!(version_of("5.10+"), Some((5, 10)));
        assert_eq!(version_of("six"), None);
        assert_eq!(version_of(""), None);
        assert!(running() > Some((3, 0)));
    }
}
