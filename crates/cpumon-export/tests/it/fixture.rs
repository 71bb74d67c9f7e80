//! Stores to export from.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpumon_export::{ExportError, ExportQuery, Report, export};
use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, SourceKind, TaskState, ThreadInterval, ThreadKey, Trust,
};
use cpumon_store::{Reader, StoreOptions, Writer};

use crate::skip::skip;

pub const SECOND: i64 = 1_000_000_000;

pub struct Store {
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Store {
    pub fn with(fill: impl FnOnce(&mut Writer)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpumon.sqlite");
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        fill(&mut writer);
        writer.commit().unwrap();
        drop(writer);
        Self { path, _dir: dir }
    }

    /// Intervals of hosts by name.
    pub fn of<'i>(intervals: impl IntoIterator<Item = (&'i str, Interval)>) -> Self {
        Self::with(|writer| {
            for (name, mut interval) in intervals {
                let info = host(name);
                interval.host = info.host;
                writer.put(&info, Trust::Local, None, &interval).unwrap();
            }
        })
    }

    pub fn try_export(&self, query: &ExportQuery) -> Result<(String, Report), ExportError> {
        let mut out = Vec::new();
        let report = export(&Reader::open(&self.path)?, query, &mut out, &mut |_| {})?;
        Ok((String::from_utf8(out).unwrap(), report))
    }

    pub fn export(&self, query: &ExportQuery) -> (String, Report) {
        self.try_export(query).unwrap()
    }
}

pub fn host(name: &str) -> HostInfo {
    let mut id = [7; 16];
    id.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    HostInfo { host: HostId(id), hostname: name.into(), ..HostInfo::default() }
}

/// An interval of one second that ends `second` seconds after the epoch.
pub fn interval(second: i64) -> Interval {
    let moment = |second: i64| {
        let ns = (second * SECOND).cast_unsigned();
        Moment { mono_ns: ns, boot_ns: ns, wall_ns: second * SECOND }
    };
    Interval {
        sequence: second.cast_unsigned(),
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(second - 1),
        end: moment(second),
        thread_count: 2,
        process_count: 1,
        ledger: Ledger {
            capacity_ns: 2 * SECOND,
            threads_ns: SECOND,
            idle_ns: SECOND - 1000,
            ..Ledger::default()
        },
        ..Interval::default()
    }
}

pub fn process(pid: u32, name: &str, user_ns: i64) -> ProcessInterval {
    ProcessInterval {
        key: ProcessKey { pid, start_ns: 5 },
        parent_pid: 1,
        info: Arc::new(ProcessInfo { name: name.into(), uid: 1000, ..ProcessInfo::default() }),
        thread_rows: 1,
        delta: Delta { user_ns, run_ns: user_ns + 1, ..Delta::default() },
        ..ProcessInterval::default()
    }
}

pub fn thread(of: &ProcessInterval, tid: u32) -> ThreadInterval {
    ThreadInterval {
        key: ThreadKey { tid, start_ns: 6 },
        process: of.key,
        comm: "worker".into(),
        state: TaskState(b'R'),
        nice: -5,
        priority: 15,
        last_cpu: 1,
        life: Life::Born,
        delta: of.delta,
        ..ThreadInterval::default()
    }
}

/// Counts the bytes written.
#[derive(Default)]
pub struct Counted(pub usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of the original's, or `None` where it is not (which is a failure in CI).
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/v1/legacy")).join(name);
    if path.exists() {
        return Some(path);
    }
    skip(format!("{} is missing", path.display()));
    None
}
