//! Default paths: a service (root, or started by systemd with a state directory) uses `/var/lib/cpumon`, a user
//! `~/.local/state/cpumon` (the XDG state directory).

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cpumon_model::{PACKING_BYTES, Packing, packing_of};
use cpumon_store::StoreError;

const FILE: &str = "cpumon.db";
const SERVICE_DIR: &str = "/var/lib/cpumon";

/// Environment variables that decide; see [`Surroundings::of_process`].
#[derive(Clone, Debug, Default)]
struct Surroundings {
    /// `CPUMON_STORE`, the default of --store.
    store: Option<OsString>,
    state_directory: Option<OsString>,
    xdg_state_home: Option<OsString>,
    home: Option<OsString>,
    is_root: bool,
}

impl Surroundings {
    fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            store: variable("CPUMON_STORE"),
            state_directory: variable("STATE_DIRECTORY"),
            xdg_state_home: variable("XDG_STATE_HOME"),
            home: variable("HOME"),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn service(&self) -> Option<PathBuf> {
        if let Some(listed) = &self.state_directory {
            // systemd.exec(5): several directories are separated by colons.
            return std::env::split_paths(listed).next().map(|dir| dir.join(FILE));
        }
        self.is_root.then(|| Path::new(SERVICE_DIR).join(FILE))
    }

    fn user(&self) -> Option<PathBuf> {
        // XDG Base Directory Specification: a relative path is to be ignored.
        let xdg = self.xdg_state_home.as_ref().map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = || self.home.as_ref().map(|home| Path::new(home).join(".local/state"));
        xdg.or_else(home).map(|dir| dir.join("cpumon").join(FILE))
    }

    fn for_writing(&self) -> PathBuf {
        self.service().or_else(|| self.user()).unwrap_or_else(|| Path::new(SERVICE_DIR).join(FILE))
    }

    /// The store of the variable, else the user's own, else the service's if it exists.
    fn for_reading(&self, exists: impl Fn(&Path) -> bool) -> PathBuf {
        if let Some(store) = &self.store {
            return store.into();
        }
        let own = self.for_writing();
        let service = Path::new(SERVICE_DIR).join(FILE);
        if !exists(&own) && exists(&service) { service } else { own }
    }
}

/// Path of the store to write: `given`, else the default.
pub fn store_for_writing(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| Surroundings::of_process().for_writing(), Path::to_owned)
}

/// The store to read: `given`, else that of `CPUMON_STORE`, else the user's own, else the service's.
pub fn store_for_reading(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| Surroundings::of_process().for_reading(Path::exists), Path::to_owned)
}

/// The directory with the receiver's identity and enrolled hosts: `given`, else beside its store.
pub fn state_dir(given: Option<&Path>, store: Option<&Path>) -> PathBuf {
    given.map_or_else(
        || {
            let mut path = store_for_writing(store).into_os_string();
            path.push(".identity");
            path.into()
        },
        Path::to_owned,
    )
}

/// [`state_dir`] for keys and tokens. One beside the store that another user made is refused: that user would own the files in it.
pub fn own_state_dir(given: Option<&Path>, store: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = state_dir(given, store);
    if given.is_none() && dir.exists() {
        cpumon_files::create_own_dir(&dir).with_context(|| {
            format!(
                "cannot use the receiver's state directory {}; --state DIR names one to trust",
                dir.display()
            )
        })?;
    }
    Ok(dir)
}

/// The file of group keys: `given`, else in the receiver's state directory.
pub fn key_file(given: Option<&Path>, state_dir: &Path) -> PathBuf {
    given.map_or_else(|| state_dir.join("group.keys"), Path::to_owned)
}

/// Adds the remedy to an error of opening a store.
pub fn explain(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing { ref path } if path == Path::new("-") => {
            anyhow!("standard input is not read; --store names a file")
        }
        StoreError::Missing { .. } => {
            anyhow!("{error}; `cpumon serve` makes one, --store FILE names another")
        }
        StoreError::Sqlite { ref path, .. } | StoreError::Log { ref path, .. } if is_forbidden(path) => {
            anyhow!(
                "cannot read store {}: permission denied; only its owner and root can read it",
                path.display()
            )
        }
        StoreError::Log { ref log, .. } if is_forbidden(log) => {
            anyhow!(
                "cannot read {}: permission denied; the log of a store needs the permissions of the store",
                log.display()
            )
        }
        StoreError::Corrupt { ref path, .. } | StoreError::NotAStore { ref path, .. } => {
            let packed = packing(path).map_or_else(String::new, |(with, unpack)| {
                format!("; it is packed with {with}; unpack it first, as with `{unpack}`")
            });
            anyhow!("{error}{packed}; --store FILE names another")
        }
        error => error.into(),
    }
}

/// How a file that is no store is packed.
fn packing(path: &Path) -> Option<Packing> {
    let mut begin = Vec::new();
    File::open(path).ok()?.take(PACKING_BYTES).read_to_end(&mut begin).ok()?;
    packing_of(&begin)
}

/// SQLite does not report why it cannot open a file.
fn is_forbidden(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK) == Err(rustix::io::Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> OsString {
        value.into()
    }

    #[test]
    fn a_service_writes_to_its_state_directory() {
        let root = Surroundings { is_root: true, home: Some(text("/root")), ..Surroundings::default() };
        assert_eq!(root.for_writing(), Path::new("/var/lib/cpumon/cpumon.db"));
        let unit = Surroundings { state_directory: Some(text("/run/a:/run/b")), ..root };
        assert_eq!(unit.for_writing(), Path::new("/run/a/cpumon.db"));
    }

    #[test]
    fn a_user_writes_to_the_xdg_state_directory() {
        let user = Surroundings { home: Some(text("/home/u")), ..Surroundings::default() };
        assert_eq!(user.for_writing(), Path::new("/home/u/.local/state/cpumon/cpumon.db"));
        let relative = Surroundings { xdg_state_home: Some(text("state")), ..user.clone() };
        assert_eq!(relative.for_writing(), user.for_writing());
        let xdg = Surroundings { xdg_state_home: Some(text("/x")), ..user };
        assert_eq!(xdg.for_writing(), Path::new("/x/cpumon/cpumon.db"));
    }

    #[test]
    fn a_reader_falls_back_to_the_service() {
        let user = Surroundings { home: Some(text("/home/u")), ..Surroundings::default() };
        let service = Path::new("/var/lib/cpumon/cpumon.db");
        assert_eq!(user.for_reading(|path| path == service), service);
        assert_eq!(user.for_reading(|_| true), user.for_writing());
        assert_eq!(user.for_reading(|_| false), user.for_writing());
    }
}
