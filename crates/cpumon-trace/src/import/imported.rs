//! A trace of another recorder, as a source of events like our own reader.

use cpumon_model::{Moment, SchedEvent};

use super::decoder::{Decoder, RawKind, Step};
use super::held::Held;
use super::numbering::Numbering;
use crate::cost::EVENTS;
use crate::file::ReadError;
use crate::file::header::FileHeader;
use crate::file::reader::Ending;
use crate::source::TraceSource;
use crate::tasks::Tasks;

const TOO_MANY: &str = "its packed parts become more events than any recorder writes in a file of its length";

/// Sorts and numbers what a decoder gives.
pub(crate) struct Imported<D> {
    decoder: D,
    header: FileHeader,
    tasks: Tasks,
    numbering: Numbering,
    held: Held,
    /// Events that the decoder may still give.
    left_events: usize,
    is_read: bool,
    ending: Ending,
}

impl<D: Decoder> Imported<D> {
    /// Reads up to the first event: the trace begins with it.
    pub(crate) fn new(decoder: D, header: FileHeader, file_bytes: u64) -> Result<Self, ReadError> {
        let mut imported = Self {
            decoder,
            header,
            tasks: Tasks::of_file(file_bytes),
            numbering: Numbering::new(file_bytes),
            held: Held::new(file_bytes),
            left_events: EVENTS.of(file_bytes),
            is_read: false,
            ending: Ending::default(),
        };
        let first_ns = loop {
            if let Some(first_ns) = imported.held.first_ns() {
                break first_ns;
            }
            if imported.is_read {
                break 0;
            }
            if imported.held.is_full() {
                imported.name();
            }
            imported.step()?;
        };
        imported.ending.known_until_ns = first_ns;
        begin_at(&mut imported.header.began, first_ns);
        Ok(imported)
    }

    /// Takes names out of the way.
    fn name(&mut self) {
        for event in self.held.drain() {
            self.numbering.number(&event, &mut self.tasks);
        }
    }

    fn step(&mut self) -> Result<(), ReadError> {
        let before = self.held.events.len();
        let step = self.decoder.step(self.held.space(), &mut self.ending)?;
        let new = self.held.events.len() - before;
        self.left_events = self.left_events.checked_sub(new).ok_or(ReadError::Unusable(TOO_MANY))?;
        match step {
            Step::More if !self.held.is_full() => {}
            Step::More => self.held.sync(0),
            Step::Until(until_ns) => self.held.sync(until_ns),
            Step::End => {
                self.is_read = true;
                self.held.sync(u64::MAX);
            }
        }
        Ok(())
    }
}

/// Moves the moment to this time of the trace's clock; other clocks where the file has them.
fn begin_at(began: &mut Moment, at_ns: u64) {
    if began.wall_ns != 0 {
        let ahead_ns = i128::from(at_ns) - i128::from(began.mono_ns);
        let moved = |ns: i128| ns.saturating_add(ahead_ns).max(0);
        began.boot_ns = u64::try_from(moved(began.boot_ns.into())).unwrap_or(u64::MAX);
        began.wall_ns = i64::try_from(moved(began.wall_ns.into())).unwrap_or(i64::MAX);
    }
    began.mono_ns = at_ns;
}

impl<D: Decoder> TraceSource for Imported<D> {
    fn header(&self) -> &FileHeader {
        &self.header
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn take_tasks(&mut self) -> Tasks {
        std::mem::take(&mut self.tasks)
    }

    fn limit_names(&mut self, bytes: usize) {
        self.tasks.limit(bytes);
    }

    fn is_watched_from_begin(&self) -> bool {
        false
    }

    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        loop {
            for raw in self.held.drain() {
                if raw.kind == RawKind::Same {
                    self.ending.known_until_ns = self.ending.known_until_ns.max(raw.at_ns);
                }
                let Some(event) = self.numbering.number(&raw, &mut self.tasks) else { continue };
                let known_ns = &mut self.ending.known_until_ns;
                self.ending.late += u64::from(event.at_ns < *known_ns);
                *known_ns = (*known_ns).max(event.at_ns);
                out(event);
            }
            if self.is_read {
                break;
            }
            self.step()?;
        }
        self.ending.unnamed = self.tasks.left_out();
        // With gaps it was read to its end all the same.
        if self.ending.damaged_at.is_none() || self.ending.gaps > 0 {
            self.ending.ended_ns = Some(self.ending.known_until_ns);
        }
        Ok(self.ending)
    }
}
