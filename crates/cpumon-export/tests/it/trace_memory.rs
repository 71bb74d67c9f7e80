//! Memory of exports of traces, for traces that were made to take much.

use cpumon_export::{ExportError, Format, TraceSurvey, trace_perfetto, trace_slices};
use cpumon_model::{Comm, ProcessKey, ThreadKey};
use cpumon_trace::{Compression, FileHeader, TraceIdentity, TraceRange, TraceReader, TraceTask, TraceWriter};

use crate::fixture::Counted;
use crate::held_memory::taken_by;

const THREADS: u32 = 20_000;

/// Threads with programs of 255 bytes each, without any event.
fn of_long_names() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &FileHeader::default(), Compression::Zstd(1)).unwrap();
    for number in 1..=THREADS {
        writer.identity(&TraceIdentity {
            task: TraceTask(number),
            at_ns: 0,
            thread: ThreadKey { tid: number, start_ns: 1 },
            process: ProcessKey { pid: number, start_ns: 1 },
            group: 0,
            comm: Comm::from("a"),
            program: vec![b'a'; 255].into(),
            is_executable: false,
            is_kernel: false,
        });
    }
    writer.finish(1_000, 0).unwrap().0
}

#[test]
fn an_export_holds_names_once() {
    let file = of_long_names();
    let open = || TraceReader::open(file.as_slice()).unwrap();
    let (survey, names) = taken_by(|| TraceSurvey::new(open()).unwrap());
    assert!(names.left > 255 * THREADS as usize, "{names:?}");
    let mut written = Counted::default();
    let (ending, taken) = taken_by(|| trace_perfetto(&survey, &mut open(), &mut written).unwrap());
    assert!(ending.is_whole(), "{ending:?}");
    assert!(written.0 > 255 * THREADS as usize, "a name of each process is in the export");
    // A packet of 1 MB in three stages, and the reader.
    assert!(taken.most < names.left * 3 / 4, "{taken:?} beside {names:?}");
    let (none, taken) = taken_by(|| {
        let all = TraceRange::default();
        trace_slices(Format::Csv, &survey, &mut open(), all, &mut written).unwrap_err()
    });
    assert!(matches!(none, ExportError::NoThread), "{none}");
    assert!(taken.most < names.left / 2, "{taken:?} beside {names:?}");
}
