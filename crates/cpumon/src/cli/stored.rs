//! What the commands that read a store share. In: nothing. Out: what the user may say of the store and of a range of time.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Usage;
use crate::paths::store_for_reading;
use crate::when::{self, When};

/// Which store is read.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// Read this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl StoreArgs {
    /// The store to read.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        store_for_reading(self.store.as_deref())
    }
}

/// Which range of time is read.
#[derive(Clone, Debug, Args)]
pub struct RangeArgs {
    /// From this moment on: `3h ago`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Up to this moment
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
}

impl RangeArgs {
    /// Both ends, ns since the UNIX epoch, as far as they are given.
    pub fn range_ns(&self) -> Result<(Option<i64>, Option<i64>), Usage> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let (since, until) = (when::show(since.wall_ns), when::show(until.wall_ns));
            return Err(Usage(format!("--since {since} is not before --until {until}")));
        }
        Ok((self.since.map(|since| since.wall_ns), self.until.map(|until| until.wall_ns)))
    }

    /// Whether one of the ends is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }
}
