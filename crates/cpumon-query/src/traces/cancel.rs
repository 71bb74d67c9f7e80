//! Reading a trace until no one waits for it: [`CancellableInput`] is checked at each block of the file, [`CancellableSource`] among
//! its events, since a small block may hold millions.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_model::SchedEvent;
use cpumon_trace::{Ending, FileHeader, ReadError, StoppedCpu, Tasks, TraceInput, TraceSource};

/// Events between two checks.
const CHECK_EVENTS: u32 = 4_096;

/// The bytes of a trace. Once its flag is set, reading fails.
#[derive(Debug)]
pub(super) struct CancellableInput {
    input: TraceInput,
    cancelled: Arc<AtomicBool>,
}

impl CancellableInput {
    pub(super) fn new(input: TraceInput, cancelled: &Arc<AtomicBool>) -> Self {
        Self { input, cancelled: Arc::clone(cancelled) }
    }
}

impl Read for CancellableInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            // Not `Interrupted`: readers try that again.
            return Err(io::Error::other("cancelled"));
        }
        self.input.read(buffer)
    }
}

impl Seek for CancellableInput {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// A trace. Once its flag is set, further events are left out.
pub(super) struct CancellableSource<'t, T> {
    pub(super) source: &'t mut T,
    pub(super) cancelled: &'t AtomicBool,
}

impl<T: TraceSource> TraceSource for CancellableSource<'_, T> {
    fn header(&self) -> &FileHeader {
        self.source.header()
    }

    fn tasks(&self) -> &Tasks {
        self.source.tasks()
    }

    fn tasks_mut(&mut self) -> &mut Tasks {
        self.source.tasks_mut()
    }

    fn is_watched_from_begin(&self) -> bool {
        self.source.is_watched_from_begin()
    }

    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        let (mut until_check, mut is_cancelled) = (0, false);
        self.source.read(&mut |event| {
            if until_check == 0 {
                until_check = CHECK_EVENTS;
                is_cancelled = self.cancelled.load(Ordering::Relaxed);
            }
            until_check -= 1;
            if !is_cancelled {
                out(event);
            }
        })
    }

    fn stopped(&self) -> &[StoppedCpu] {
        self.source.stopped()
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{SchedEventKind, TraceTask};

    use super::*;

    /// Far more events than are read between two checks, in one block.
    struct Many(FileHeader, Tasks);

    impl TraceSource for Many {
        fn header(&self) -> &FileHeader {
            &self.0
        }
        fn tasks(&self) -> &Tasks {
            &self.1
        }
        fn tasks_mut(&mut self) -> &mut Tasks {
            &mut self.1
        }
        fn is_watched_from_begin(&self) -> bool {
            true
        }
        fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
            for at_ns in 0..u64::from(10 * CHECK_EVENTS) {
                let kind = SchedEventKind::Waking { task: TraceTask(1), waker: TraceTask::IDLE, cpu: 0 };
                out(SchedEvent { at_ns, cpu: 0, kind });
            }
            Ok(Ending::default())
        }
    }

    #[test]
    fn events_behind_a_cancel_are_left_out() {
        for is_cancelled in [false, true] {
            let (mut many, cancelled) =
                (Many(FileHeader::default(), Tasks::default()), AtomicBool::new(false));
            let mut events = 0;
            let mut source = CancellableSource { source: &mut many, cancelled: &cancelled };
            let read = source.read(&mut |_| {
                events += 1;
                cancelled.store(is_cancelled, Ordering::Relaxed);
            });
            assert!(read.is_ok());
            assert_eq!(events, if is_cancelled { CHECK_EVENTS } else { 10 * CHECK_EVENTS });
        }
    }
}
