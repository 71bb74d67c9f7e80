//! Versions of Linux. A release as uname(2) and `kernel.osrelease` give it becomes major and minor number.

/// Version of a kernel, as far as features depend on it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Version {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

/// `6.18.44-fc` is version 6.18.
pub(crate) fn version_of(release: &str) -> Option<Version> {
    let mut numbers = release.split(['.', '-', '+', '_']).map(str::parse);
    Some(Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
}

/// The version that runs here.
pub(crate) fn running() -> Option<Version> {
    version_of(&rustix::system::uname().release().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_as_far_as_it_is_a_version() {
        assert_eq!(version_of("6.18.44-fc-v669"), Some(Version::new(6, 18)));
        assert_eq!(version_of("5.8-rc1"), Some(Version::new(5, 8)));
        assert_eq!(version_of("5.10+"), Some(Version::new(5, 10)));
        assert_eq!(version_of("six"), None);
        assert_eq!(version_of(""), None);
        assert!(running() > Some(Version::new(3, 0)));
    }
}
