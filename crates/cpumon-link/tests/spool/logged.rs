//! What the spools of this program log.

use std::path::Path;
use std::sync::{Mutex, Once};

use log::{LevelFilter, Log, Metadata, Record};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LINES.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// From here on warnings are kept.
pub fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Lines).unwrap();
        log::set_max_level(LevelFilter::Warn);
    });
}

/// The kept warnings about what is in a directory.
pub fn about(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    LINES.lock().unwrap().iter().filter(|line| line.contains(dir)).cloned().collect()
}
